"""Writes what the browser looks at, with the product's own environment: the demo and a strange and a large catalog, as files.

    python tests/ui/prepare.py FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from sitecatalogs import Catalog, numbered, opened, write_demo, write_strange

from lakehouse.site import write_site


def prepare(folder: Path) -> None:
    """Write three warehouses and their sites."""
    write_demo(folder / "demo")
    write_strange(folder / "strange")
    Catalog(folder / "large").ingest({"file:/large.json": ("default", numbered(480, 12, 8))})
    for name in ("demo", "strange", "large"):
        write_site(opened(folder / name, folder / "readmodel"), str(folder / "sites" / name))


if __name__ == "__main__":
    prepare(Path(sys.argv[1]))
