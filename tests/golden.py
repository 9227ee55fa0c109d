"""Makes the golden warehouse of this release: `python tests/golden.py`, once a release, before its version of the tables changes.

It is kept as `tests/data/golden/warehouse-<schema version>.tar.gz`; the releases to come must read it and bring it forward.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path

from histories import load

from lakehouse.ingest.pipeline import ingest
from lakehouse.settings import read_settings
from lakehouse.store.deltatables import SCHEMA_VERSION
from lakehouse.store.session import open_session

FOLDER = Path(__file__).parent / "data" / "golden"


class _Catalog:
    """As much of the tests' catalog as `histories.load` needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.settings = read_settings(warehouse=str(folder / "warehouse"), spark={"spark.sql.shuffle.partitions": "1"})
        self.spark = open_session(self.settings)

    def write(self, name: str, document: object) -> None:
        (self.folder / name).write_text(json.dumps(document))

    def ingest(self, **options: object) -> None:
        ingest(self.spark, self.settings, [str(self.folder / "a.json")], **options)


def _without_stages(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return None if "/_stage" in member.name or (member.name.endswith(".crc") and "/." in member.name) else member


def main() -> None:
    """Load three releases of a document and pack the warehouse."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        then = load(_Catalog(Path(scratch)))
        target = FOLDER / f"warehouse-{SCHEMA_VERSION}.tar.gz"
        with tarfile.open(target, "w:gz", compresslevel=9) as archive:
            archive.add(Path(scratch) / "warehouse", "warehouse", filter=_without_stages)
        rows = {str(snapshot_id): {name: len(rows) for name, rows in tables.items()} for snapshot_id, tables in then.items()}
        (FOLDER / f"warehouse-{SCHEMA_VERSION}.json").write_text(json.dumps(rows, indent=1) + "\n")
    sys.stdout.write(f"{target}: {target.stat().st_size} bytes\n")


if __name__ == "__main__":
    main()
