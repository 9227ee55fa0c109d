"""Migrations: an older warehouse is brought forward to the tables of this release.

`ddl/migrations/<version>_<name>.sql` holds the statements that lead from the version before to that version. Each statement may
run again: a process that dies in between leaves a warehouse that the next command takes the rest of the way, since the version
in the properties of `changes` is set last.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.errors import WarehouseTooNew
from lakehouse.faults import crash_point
from lakehouse.settings import data_folder
from lakehouse.store.delta.conflicts import retries
from lakehouse.store.delta.positions import table_property
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import open_sibling

_FILE = re.compile(r"\A(\d{4})_(\w+)\.sql\Z")
_STATEMENT_END = re.compile(r";\s*$", re.MULTILINE)
# What ALTER TABLE says of a column that a run before this one added: Spark has no ADD COLUMN IF NOT EXISTS.
_DONE_ALREADY = ("FIELD_ALREADY_EXISTS", "COLUMN_ALREADY_EXISTS")
PROPERTY = "xregistry.schema_version"


class Migration(NamedTuple):
    """A step: the version that it leads to, its name, its statements."""

    version: int
    name: str
    statements: tuple[str, ...]


def migrations(folder: Path | None = None) -> list[Migration]:
    """Read the migrations, in order; a version without a file changes nothing but its number."""
    place = data_folder("ddl") / "migrations" if folder is None else folder
    results = []
    for file in place.iterdir():
        named = _FILE.match(file.name)
        if named:
            lines = file.read_text(encoding="utf-8").splitlines()
            text = "\n".join(line for line in lines if not line.lstrip().startswith("--"))
            statements = tuple(part.strip() for part in _STATEMENT_END.split(text) if part.strip())
            results.append(Migration(int(named[1]), named[2], statements))
    return sorted(results)


def migrate(spark: SparkSession, target: int, tables: tuple[str, ...], steps: list[Migration] | None = None) -> list[str]:
    """Migrate the attached tables to a version.

    Args:
        spark: the session, the tables attached.
        target: the version.
        tables: names of the tables whose property is set.
        steps: the migrations; None: those of `ddl/migrations`.

    Returns:
        Names of the migrations that ran.

    Raises:
        WarehouseTooNew: the tables are ahead of the target.
    """
    present = stored_version(spark)
    check_not_newer(present, target)
    ran = []
    session = open_sibling(spark, SCHEMA)
    for version in range(present + 1, target + 1):
        for step in (step for step in (migrations() if steps is None else steps) if step.version == version):
            for statement in step.statements:
                _run(session, statement)
                crash_point(f"in_migration_{version}")
            ran.append(f"{step.version:04}_{step.name}")
        # `changes` last: its property is the one that counts.
        for name in (*(name for name in tables if name != "changes"), "changes"):
            _run(session, f"ALTER TABLE {name} SET TBLPROPERTIES ('{PROPERTY}' = '{version}')")
    return ran


def check_not_newer(version: int, supported: int) -> None:
    """Refuse tables that are ahead of what is known.

    Raises:
        WarehouseTooNew: they are.
    """
    if version > supported:
        raise WarehouseTooNew(
            f"the warehouse has tables of version {version}, and this product works with "
            f"version {supported}. Install a newer release."
        )


def stored_version(spark: SparkSession) -> int:
    """Read the version of the attached tables; 0 when it is not said."""
    result = table_property(spark, "changes", PROPERTY) or ""
    return int(result) if result.isdigit() else 0


@retries(8).wraps
def _run(session: SparkSession, statement: str) -> None:
    """Run a statement; another process may migrate at the same time, and then it runs again on what that one made."""
    try:
        session.sql(statement)
    except PySparkException as error:
        if error.getCondition() not in _DONE_ALREADY:
            raise
