"""Warehouses for tests without Spark: the golden one, set back and then brought forward commit by commit."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path
from typing import Any

from golden import FOLDER

from lakehouse.readmodel import ReadModel
from lakehouse.readmodel.file.sqliteschema import WORD_COLUMNS

GOLDEN = FOLDER / "warehouse-1.tar.gz"
# Python 3.10 and 3.11 know the filter from their later releases on.
DATA_ONLY: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
TABLES = ("changes", "effective_messages", "violations")
# Versions of the Delta tables in `TABLES` after each of the golden warehouse's snapshots.
VERSIONS = {1: (1, 1, 1), 2: (2, 2, 1), 3: (3, 3, 2)}


def unpack(folder: Path) -> Path:
    """Unpack the golden warehouse into a folder."""
    with tarfile.open(GOLDEN) as packed:
        packed.extractall(folder, **DATA_ONLY)
    return folder / "warehouse"


class Rewound:
    """A warehouse whose Delta logs are set back, and given their commits again."""

    def __init__(self, whole: Path, warehouse: Path) -> None:
        self.whole, self.warehouse = whole, warehouse
        for name in TABLES:
            shutil.copytree(
                whole / name, warehouse / name, ignore=shutil.ignore_patterns("0*.json", "0*.crc", "_last_checkpoint")
            )

    def commit(self, table: str, version: int) -> None:
        """Restore all commits of a table up to a version."""
        for number in range(version + 1):
            source = self.whole / table / "_delta_log" / f"{number:020}.json"
            target = self.warehouse / table / "_delta_log" / source.name
            if not target.exists():
                aside = target.with_suffix(".tmp")
                shutil.copy(source, aside)
                aside.rename(target)

    def snapshot(self, number: int) -> None:
        """Restore the commits that all tables had after a snapshot."""
        for table, version in zip(TABLES, VERSIONS[number], strict=True):
            self.commit(table, version)


def content(model: ReadModel) -> dict[str, list[Any]]:
    """Return all that a read model holds, but for the numbers of its rows."""
    queries = {
        "facts": "SELECT name, value FROM facts",
        "log": "SELECT snapshot_id, until, registryid, kind, xid, op, content_hash, epoch, createdat, modifiedat, document_uris,"
        " body, raw FROM log",
        "edges": "SELECT l.registryid, l.xid, l.snapshot_id, relation, pointer, target, whole, without_suffix, type_name"
        " FROM edges INNER JOIN log AS l ON l.id = log_id",
        "version_uris": "SELECT l.registryid, l.xid, l.snapshot_id, version_uri FROM version_uris"
        " INNER JOIN log AS l ON l.id = log_id",
        "schema_rows": "SELECT l.registryid, l.xid, l.snapshot_id, position, s.kind, registry_id, guid, is_deleted"
        " FROM schema_rows AS s INNER JOIN log AS l ON l.id = log_id",
        "effective": "SELECT * FROM effective",
        "violations": "SELECT * FROM violations",
        "words": f"SELECT registryid, kind, xid, entityid, {', '.join(WORD_COLUMNS)} FROM found_by",
        "vocabulary": "SELECT term, doc, cnt FROM vocabulary",
    }
    with model.at() as view:
        found = {name: sorted(map(repr, view.db.execute(query))) for name, query in queries.items()}
        alone = view.db.execute("SELECT id FROM words_docsize EXCEPT SELECT id FROM searched").fetchall()
        alone += view.db.execute("SELECT id FROM searched EXCEPT SELECT id FROM words_docsize").fetchall()
    assert not alone, "an entity is listed and has no words, or has words and is not listed"
    return found
