"""The catalog's tables: created from `ddl/tables`, attached as late as a command needs them, migrated by `ddl/migrations`.

Without a metastore each session attaches the tables that are under the warehouse folder; with one (Hive, Unity Catalog) they
are there already. Names, not paths, are used everywhere else.

`ddl/migrations/<version>_<name>.sql` holds the statements that lead from the version before to that version. Each statement may
run again: a process that dies in between leaves a warehouse that the next command takes the rest of the way, since the version
in the properties of `changes` is set last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import SettingsError, WarehouseError, WarehouseTooNew
from lakehouse.failpoints import crash_point
from lakehouse.settings import Settings, data_folder
from lakehouse.store.files import exists
from lakehouse.store.firstcommits import first_commit
from lakehouse.store.internals import deltalog
from lakehouse.store.internals.deltalog import Files
from lakehouse.store.internals.guards import LOG_STORE, lets_writers_in
from lakehouse.store.keys import VERSION_PROPERTY
from lakehouse.store.localpaths import no_catalog, no_glob
from lakehouse.store.materialize import no_rows
from lakehouse.store.schema import DECLARATIONS, SCHEMA
from lakehouse.store.session import absolute_location, is_without_codegen, log_store_key, open_sibling, without_codegen
from lakehouse.store.tablelog import (
    current_files,
    is_conflict,
    qualified,
    retries,
    schema_location,
    table_bytes,
    table_location,
    table_property,
    was_never_written,
)

_MIGRATION_FILE = re.compile(r"\A(\d{4})_(\w+)\.sql\Z")
_STATEMENT_END = re.compile(r";\s*$", re.MULTILINE)
# What ALTER TABLE says of a column that a run before this one added: Spark has no ADD COLUMN IF NOT EXISTS.
_DONE_ALREADY = ("FIELD_ALREADY_EXISTS", "COLUMN_ALREADY_EXISTS")
TABLES = tuple(DECLARATIONS)
SCHEMA_VERSION = 2
# What Delta says of a folder that has files and no log yet.
_HALF_CREATED = "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"
_NOT_COMMITTED = "DELTA_CREATE_EXTERNAL_TABLE_WITHOUT_TXN_LOG"
_THREADS = 4
# Whether the session's catalog, or its metastore, gets the columns of tables, for which Delta computes the state of each.
TELL_CATALOG = "spark.databricks.delta.catalog.update.enabled"
_DEFAULTS = "spark.databricks.delta.properties.defaults."  # of tables that are created
_STOOD_IN = "xregistry.stood_in"  # of a session: the tables that something stands in for


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
        named = _MIGRATION_FILE.match(file.name)
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
            _run(session, f"ALTER TABLE {name} SET TBLPROPERTIES ('{VERSION_PROPERTY}' = '{version}')")
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
    result = table_property(spark, "changes", VERSION_PROPERTY) or ""
    return int(result) if result.isdigit() else 0


@retries(8).wraps
def _run(session: SparkSession, statement: str) -> None:
    """Run a statement; another process may migrate at the same time, and then it runs again on what that one made."""
    try:
        session.sql(statement)
    except PySparkException as error:
        if error.getCondition() not in _DONE_ALREADY:
            raise


def table_name(name: str) -> str:
    """Return the full name of a table of the live schema."""
    return f"{SCHEMA}.{name}"


def open_table(spark: SparkSession, name: str) -> DataFrame:
    """Read a table of the live schema as it is now, or the rows that stand in for it in this session.

    Where the session's work is small, the table's files are read as they are: Delta would ask by a query which these are.
    """
    if name in _stood_in(spark):
        return spark.table(name)
    files = current_files(spark, name) if is_without_codegen(spark) else None
    return spark.table(table_name(name)) if files is None else read_files(spark, files)


def read_files(spark: SparkSession, files: Files) -> DataFrame:
    """Read the files of a table's version as they are."""
    if not files.locations:
        return no_rows(spark, files.columns)
    return spark.read.schema(files.columns).parquet(*map(no_glob, files.locations))


def stand_in(session: SparkSession, name: str, rows: DataFrame) -> None:
    """Replace a table by rows for the reads of this session, until `remove_stand_ins`; nothing is stored.

    Args:
        session: whose rows they are.
        name: the table.
        rows: its columns.
    """
    rows.createOrReplaceTempView(name)
    session.conf.set(_STOOD_IN, " ".join(sorted({name, *_stood_in(session)})))


def remove_stand_ins(session: SparkSession) -> None:
    """Read all tables themselves again."""
    for name in _stood_in(session):
        session.catalog.dropTempView(name)
    session.conf.unset(_STOOD_IN)


def forget_table(spark: SparkSession, name: str) -> None:
    """Take a table whose folder is gone or broken out of the session's catalog and of Delta's memory, without a look at it."""
    deltalog.forget_table(spark, SCHEMA, name)


def create_tables(spark: SparkSession, settings: Settings) -> None:
    """Create the tables that are missing, attach the others, and bring those of an older release forward.

    Raises:
        SettingsError: on this store a commit could be lost.
        WarehouseTooNew: the warehouse was written by a newer version of the product.
    """
    check_writers(spark, settings)
    _use_schema(spark, settings)
    with without_codegen(spark, True):  # what Delta looks up of a new table is little, whatever the log holds
        _each(lambda name: _attach_or_create(spark, name), TABLES)
    migrate(spark, SCHEMA_VERSION, TABLES)


def migrate_catalog(spark: SparkSession, settings: Settings) -> None:
    """Bring the tables of a catalog forward, as `create_tables`.

    Raises:
        WarehouseError: the warehouse holds no catalog; none is made.
        SettingsError, WarehouseTooNew: as `create_tables`.
    """
    if not attach_existing(spark, settings, ["changes"]):
        raise no_catalog(settings.warehouse, "changes")
    create_tables(spark, settings)


def check_writers(spark: SparkSession, settings: Settings) -> None:
    """Refuse to write where two processes could overwrite each other's commits; every command that writes asks.

    Raises:
        SettingsError: on this store a commit could be lost.
    """
    key = log_store_key(settings)
    if key is None or settings.single_writer:
        return
    store = spark.conf.get(key, None)
    reason = f"this Spark session has no {key}" if not store else None
    if store == LOG_STORE:
        reason = lets_writers_in(spark, settings.warehouse)
    if reason is not None:
        raise SettingsError(
            f"{settings.warehouse}: {reason}, so two processes that write at once could lose a commit. Let one write at a time, "
            "and say so with the setting single_writer (LAKEHOUSE_SINGLE_WRITER=true)."
        )


def attach_log(spark: SparkSession, settings: Settings) -> bool:
    """Attach the log alone; False when there is none, or when it is of an older release, and `create_tables` has more to do.

    Raises:
        WarehouseTooNew: the warehouse was written by a newer version of the product.
    """
    if not attach_existing(spark, settings, ["changes"]):
        return False
    version = stored_version(spark)
    check_not_newer(version, SCHEMA_VERSION)
    return version == SCHEMA_VERSION


def attach_tables(spark: SparkSession, settings: Settings, names: Iterable[str] = TABLES) -> None:
    """Attach tables of the warehouse to this session.

    Raises:
        WarehouseError: the warehouse holds no catalog, or one of a newer version of the product.
    """
    wanted = list(names)
    attached = attach_existing(spark, settings, wanted)
    missing = [name for name in wanted if name not in attached]
    if missing:
        raise no_catalog(settings.warehouse, missing[0])
    if "changes" in wanted:
        _check_version(spark)


def attach_existing(spark: SparkSession, settings: Settings, names: Iterable[str] = TABLES) -> set[str]:
    """Attach those of the tables that are there, and give their names; makes nothing, not even the warehouse's folder."""
    wanted = list(names)
    if not _has_schema(spark, settings):
        return set()
    _use_schema(spark, settings)
    return {name for name, attached in zip(wanted, _each(lambda name: _attach(spark, name), wanted), strict=True) if attached}


def is_small(spark: SparkSession, settings: Settings) -> bool:
    """Return whether the log is small, so that interpreting its queries is faster than compiling them."""
    if not spark.catalog.tableExists(table_name("changes")):
        return True
    return was_never_written(spark, "changes") or table_bytes(spark, "changes") <= settings.interpreted_bytes


def tables_named_in(query: str) -> list[str]:
    """Return the tables that a query names; all of them if it names none and may list them."""
    words = {word.lower() for word in re.findall(r"\w+", query)}
    named = [name for name in TABLES if name in words]
    lists = not named and re.match(r"\s*(show|describe|desc)\b", query, re.IGNORECASE)
    return list(TABLES) if lists else named


def _use_schema(spark: SparkSession, settings: Settings) -> None:
    """Make the schema the current one; without a metastore its tables are right below the warehouse folder.

    Raises:
        WarehouseError: the session has the tables of another warehouse.
    """
    if not _is_embedded(spark):
        spark.conf.set(TELL_CATALOG, "true")  # others ask the metastore for columns
        spark.sql(f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}")
    else:
        wanted = qualified(spark, settings.warehouse)
        if not spark.catalog.databaseExists(SCHEMA):
            literal = wanted.replace("\\", "\\\\").replace("'", "\\'")
            spark.sql(f"CREATE SCHEMA {SCHEMA} LOCATION '{literal}'")
        attached = schema_location(spark)
        if attached != wanted:
            raise WarehouseError(f"this Spark session works on {attached}, not on {wanted}. Use one session per warehouse.")
    spark.catalog.setCurrentDatabase(SCHEMA)


def _has_schema(spark: SparkSession, settings: Settings) -> bool:
    """Return whether the schema can be used without creating anything."""
    if not _is_embedded(spark):
        return spark.catalog.databaseExists(SCHEMA)
    return exists(spark, absolute_location(settings.warehouse))


def _is_embedded(spark: SparkSession) -> bool:
    """Return whether the session's catalog is in memory, and not a metastore."""
    return spark.conf.get("spark.sql.catalogImplementation") == "in-memory"


def _stood_in(spark: SparkSession) -> list[str]:
    return str(spark.conf.get(_STOOD_IN, "")).split()


def _each(action: Any, names: Iterable[str]) -> list[Any]:
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(action, names))


def _attach_or_create(spark: SparkSession, name: str) -> None:
    """Attach a table or create it; where another process is about to create it, wait until it is there."""
    for attempt in retries(20, lambda error: is_conflict(error) or _HALF_CREATED in str(error)):
        with attempt:
            _attach(spark, name) or _create(spark, name)


def _attach(spark: SparkSession, name: str) -> bool:
    """Attach one table; False when there is none, or a process that creates it has not committed it yet."""
    if spark.catalog.tableExists(table_name(name)):
        return True
    location = table_location(spark, name)
    if not exists(spark, f"{location}/_delta_log"):
        return False
    try:
        spark.catalog.createTable(table_name(name), path=location, source="delta")
    except PySparkException as error:
        if error.getCondition() != _NOT_COMMITTED:
            raise
        return False
    return True


def _create(spark: SparkSession, name: str) -> bool:
    """Create an empty table: by its first commit, or by its statement where others decide, too, what a table is."""
    if _decides_alone(spark) and deltalog.create(spark, table_location(spark, name), *first_commit(name, SCHEMA_VERSION)):
        return _attach(spark, name)
    session = open_sibling(spark, SCHEMA)
    session.conf.set(TELL_CATALOG, str(spark.conf.get(TELL_CATALOG, "false")))
    ddl = (data_folder("ddl") / "tables" / f"{name}.sql").read_text(encoding="utf-8")
    session.sql(ddl.rstrip().removesuffix(";"))
    return True


def _decides_alone(spark: SparkSession) -> bool:
    """Return whether a table has no properties but the declared ones: no metastore and no setting of the session adds any."""
    return _is_embedded(spark) and not any(key.startswith(_DEFAULTS) for key in spark.conf.getAll)


def _check_version(spark: SparkSession) -> None:
    version = stored_version(spark)
    check_not_newer(version, SCHEMA_VERSION)
    if version < SCHEMA_VERSION:
        raise WarehouseError(
            f"the warehouse has tables of version {version}, and this product works with version {SCHEMA_VERSION}. "
            "Bring them forward with `lakehouse migrate`; older releases no longer work on them then."
        )
