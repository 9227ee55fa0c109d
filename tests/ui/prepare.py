"""Writes what the browser looks at, with the product's own environment: the demo and a strange and a large catalog, as files.

python tests/ui/prepare.py FOLDER [demo]
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sitecatalogs import Catalog, numbered, opened, write_demo, write_strange

from lakehouse.site import write_site


def write_large(folder: Path) -> None:
    """Write a catalog that fills a page of the map."""
    Catalog(folder).ingest({"file:/large.json": ("default", numbered(480, 12, 8))})


CATALOGS = {"demo": write_demo, "strange": write_strange, "large": write_large}


def prepare(folder: Path, names: list[str]) -> None:
    """Write warehouses and their sites."""
    for name in names or CATALOGS:
        CATALOGS[name](folder / name)
        write_site(opened(folder / name, folder / "readmodel"), str(folder / "sites" / name))


if __name__ == "__main__":
    prepare(Path(sys.argv[1]), sys.argv[2:])
