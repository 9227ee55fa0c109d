"""Doctor: checks a warehouse and what it runs on, and names what fixes it.

It only reads. The log is checked against its own digests, each entity table against the log, each Delta log against what its
folder shows. A table that cannot be read is a finding and not a failure.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import MapType, StructType

from lakehouse.errors import WarehouseError, WarehouseTooNew, reason_of
from lakehouse.log import effectivetable
from lakehouse.log.commits import read_head
from lakehouse.log.projections import effective_is_behind, last_rows, project
from lakehouse.log.snapshotfacts import Head
from lakehouse.operations.digestcheck import Link, check_chain
from lakehouse.operations.environment import read_environment
from lakehouse.settings import Settings, data_folder
from lakehouse.store.deltatables import SCHEMA_VERSION, TABLES, attach_tables, table_name
from lakehouse.store.files import list_folder, stages_location
from lakehouse.store.schema import (
    DECLARATIONS,
    EFFECTIVE_MESSAGES,
    ENTITY_TABLES,
    MESSAGES,
    SCHEMAS,
    SCHEMAVERSIONS,
    VERSIONS,
    Table,
)
from lakehouse.store.session import open_sibling
from lakehouse.store.tablelog import last_transaction, read_actions, table_location
from lakehouse.version import VERSION

RESTORE = "`lakehouse restore DIR` into an empty warehouse, from a folder that `lakehouse backup` wrote"
_REBUILD = "`lakehouse rebuild`"
_AGAIN = "`lakehouse ingest --force` of its documents"
_CATCH_UP = f"the next `lakehouse ingest`, or {_REBUILD}"
_COMMIT = re.compile(r"\A(\d{20})\.json\Z")
_CHECKSUM = re.compile(r"\A(\d{20})\.crc\Z")
_CHECKPOINT = re.compile(r"\A(\d{20})\.checkpoint\b.*\.parquet\Z")
_PROPERTY = re.compile(r"^  '([^']+)' = '((?:[^'\\]|\\.)*)'", re.MULTILINE)
# Of what fails deep inside a job PySpark makes its own error, or not.
SPARK_FAULTS = (PySparkException, Py4JJavaError)
_VERIFY_PAGES = "parquet.page.verify-checksum.enabled"


@dataclass(frozen=True)
class Diagnosis:
    """One thing that was looked at.

    Attributes:
        check: what was looked at.
        table: the table, or empty.
        state: ok, warning or error.
        found: what was found.
        fix: the command or the step that fixes it; empty when nothing is wrong.
    """

    check: str
    table: str
    state: str
    found: str
    fix: str = ""

    def as_json(self) -> dict[str, str]:
        """Return the contract of `lakehouse doctor --json`; `told` and `mend` are the names before 0.2 of `found` and `fix`."""
        return asdict(self) | {"told": self.found, "mend": self.fix}


def diagnose(spark: SparkSession, settings: Settings, *, deep: bool = False) -> list[Diagnosis]:
    """Check the whole warehouse.

    Args:
        spark: the session.
        settings: the warehouse.
        deep: compare all columns and verify the checksum of each page that is read, not only counts, keys and hashes.

    Raises:
        WarehouseError: there is no catalog at all, or one of a newer version of the product.
    """
    readable, results = _attach(spark, settings)
    for name in TABLES:
        results += _check_log_folder(spark, name)
    verified = spark.conf.get(_VERIFY_PAGES, None)
    if deep:
        spark.conf.set(_VERIFY_PAGES, "true")
    try:
        results += _check_contents(spark, settings, readable, deep=deep)
    finally:
        if deep and verified is None:
            spark.conf.unset(_VERIFY_PAGES)
    for name in readable:
        results.append(_check_ddl(spark, name))
    results.append(_check_stages(spark, settings))
    results = _with_log_first(results)
    return results + _check_environment(spark)


def is_unreadable(spark: SparkSession, settings: Settings, name: str) -> bool:
    """Return whether Delta's log of a table is broken, or the table cannot be opened."""
    log_is_broken = any(diagnosis.state == "error" for diagnosis in _check_log_folder(spark, name))
    return log_is_broken or bool(_problem_of_opening(spark, settings, name))


def _with_log_first(results: list[Diagnosis]) -> list[Diagnosis]:
    """Where the log itself is broken, tables made again from it would be too: only a backup helps."""
    is_broken = any(
        diagnosis.state == "error" and (diagnosis.table == "changes" or diagnosis.fix == RESTORE) for diagnosis in results
    )
    return [replace(diagnosis, fix=RESTORE) if is_broken and diagnosis.fix == _REBUILD else diagnosis for diagnosis in results]


def _check_environment(spark: SparkSession) -> list[Diagnosis]:
    """Report versions and extras; what was not tried together is a warning."""
    here = read_environment(spark)
    text = f"xRegistry Lakehouse {VERSION}, tables of version {SCHEMA_VERSION}"
    text += f", Python {here.python}, Java {here.java}, Spark {here.spark}, Delta Lake {here.delta}"
    extras = f"installed: {', '.join(here.installed) or 'none'}" + (f"; not: {', '.join(here.missing)}" if here.missing else "")
    return [
        Diagnosis("versions", "", "ok", text),
        Diagnosis("extras", "", "ok", extras),
        *(Diagnosis("environment", "", "warning", untried, fix) for untried, fix in here.untried()),
    ]


def _attach(spark: SparkSession, settings: Settings) -> tuple[list[str], list[Diagnosis]]:
    problems = {name: _problem_of_opening(spark, settings, name) for name in TABLES}
    if all(problems.values()):
        raise WarehouseError(f"{settings.warehouse} holds no table that can be read: {problems['changes']}")
    results = [Diagnosis("readable", name, "error", details, _fix_for(name)) for name, details in problems.items() if details]
    return [name for name, details in problems.items() if not details], results


def _check_log_folder(spark: SparkSession, name: str) -> list[Diagnosis]:
    """Check that Delta's log lacks no commit, and that the last one is whole: Delta itself reads on without the last ones."""
    folder = f"{table_location(spark, name)}/_delta_log"
    files = {path.rsplit("/", 1)[-1]: size for path, size, _ in list_folder(spark, folder)}
    commits = {int(match.group(1)): size for file, size in files.items() if (match := _COMMIT.match(file))}
    checked = [int(match.group(1)) for file in files if (match := _CHECKSUM.match(file))]
    points = [int(match.group(1)) for file in files if (match := _CHECKPOINT.match(file))]
    if not commits and not points:
        return [Diagnosis("Delta log", name, "error", "there is none", _fix_for(name))]
    last = max([*commits, *points])
    problems = [f"commit {number} is empty" for number, size in commits.items() if size == 0]
    gaps = [number for number in range(min(commits, default=last), last + 1) if number not in commits]
    problems += [f"commit {number} is missing" for number in gaps if number > max(points, default=-1)]
    if checked and max(checked) > last:
        problems.append(f"commits after {last} are missing: there was a commit {max(checked)}")
    if commits.get(last) and not _is_whole(spark, f"{folder}/{last:020d}.json"):
        problems.append(f"commit {last} is cut off")
    if problems:
        return [Diagnosis("Delta log", name, "error", "; ".join(problems[:5]), _fix_for(name))]
    return [Diagnosis("Delta log", name, "ok", f"up to Delta version {last}")]


def _is_whole(spark: SparkSession, commit: str) -> bool:
    """Return whether the file of a commit can be read to its end."""
    try:
        read_actions(spark, commit)
    except (ValueError, *SPARK_FAULTS):
        return False
    return True


def _check_contents(spark: SparkSession, settings: Settings, readable: list[str], *, deep: bool) -> list[Diagnosis]:
    if "changes" not in readable:
        return []
    results = []
    try:
        log = spark.table(table_name("changes"))
        link, problems = check_chain(log, Link(), deep=deep)
        head = read_head(spark)
    except SPARK_FAULTS as error:
        return [Diagnosis("digests", "changes", "error", f"it cannot be read: {short_reason(error)}", RESTORE)]
    if problems:
        results += [Diagnosis("digests", "changes", "error", details, RESTORE) for details in problems]
    else:
        results.append(
            Diagnosis("digests", "changes", "ok", f"snapshots 1 to {link.snapshot_id}" if head.snapshot_id else "empty")
        )
    for table in ENTITY_TABLES:
        if table.name in readable:
            results.append(_against_log(spark, table, log, head, deep=deep))
    for resource, versions in ((MESSAGES, VERSIONS), (SCHEMAS, SCHEMAVERSIONS)):
        if {resource.name, versions.name} <= set(readable):
            results.append(_check_defaults(spark, resource, versions))
    if settings.refresh_effective and effectivetable.NAME in readable:
        results.append(_check_effective(spark, settings, head, deep=deep))
    if "violations" in readable:
        results.append(_check_violations(spark))
    return results


def _against_log(spark: SparkSession, table: Table, log: DataFrame, head: Head, *, deep: bool) -> Diagnosis:
    """Compare an entity table with what the log makes of it."""
    expected = last_rows(log.filter(F.col("kind") == table.kind)).filter(F.col("op") != "delete")
    try:
        names = table.columns.names if deep else ["registryid", "xid", "content_hash", "epoch", "snapshot_id"]
        digest = [*_digest(table.columns, names), F.max("snapshot_id").alias("newest")]
        should = (project(expected, table) if deep else expected).agg(*digest).collect()[0]
        has = spark.table(table_name(table.name)).agg(*digest).collect()[0]
    except SPARK_FAULTS as error:
        return Diagnosis("against the log", table.name, "error", f"it cannot be read: {short_reason(error)}", _REBUILD)
    if (has["n"], has["digest"]) == (should["n"], should["digest"]):
        return Diagnosis("against the log", table.name, "ok", f"{has['n']} rows")
    if (has["newest"] or 0) > head.snapshot_id:
        message = f"it is at snapshot {has['newest']}, and the log ends at {head.snapshot_id}: the log lost its end"
        return Diagnosis("against the log", table.name, "error", message, RESTORE)
    is_behind = (has["newest"] or 0) < head.tables.get(table.name, 0)
    if is_behind and last_transaction(spark, table.name) < head.tables[table.name]:  # else it was there, and lost rows since
        message = f"it is at snapshot {has['newest'] or 0}, and the log at {head.tables[table.name]}"
        return Diagnosis("against the log", table.name, "warning", message, _CATCH_UP)
    return Diagnosis("against the log", table.name, "error", _difference(has, should), _REBUILD)


def _check_defaults(spark: SparkSession, resource: Table, versions: Table) -> Diagnosis:
    """Check that each message or schema has one default Version, the one that it names (decision 7)."""
    resource_column = f"{resource.kind}_xid"
    marked = F.filter(F.collect_list(F.struct("versionid", "isdefault")), lambda version: version["isdefault"])
    try:
        has = (
            spark.table(table_name(versions.name)).groupBy("registryid", resource_column).agg(marked["versionid"].alias("marked"))
        )
        named = spark.table(table_name(resource.name)).filter(F.col("xref").isNull())
        named = named.select("registryid", F.col("xid").alias(resource_column), "defaultversionid")
        both = named.join(has, on=["registryid", resource_column], how="left")
        wrong = both.filter(~F.col("marked").eqNullSafe(F.array("defaultversionid")))
        details = wrong.agg(F.count("*").alias("n"), F.min(resource_column).alias("first")).collect()[0]
    except SPARK_FAULTS as error:
        return Diagnosis("default Versions", versions.name, "error", f"it cannot be read: {short_reason(error)}", _REBUILD)
    if not details["n"]:
        return Diagnosis("default Versions", versions.name, "ok", f"one for each of `{resource.name}`")
    text = f"{details['n']} of `{resource.name}` have not exactly the default Version that they name, such as {details['first']}"
    return Diagnosis("default Versions", versions.name, "error", text, _AGAIN)


def _check_effective(spark: SparkSession, settings: Settings, head: Head, *, deep: bool) -> Diagnosis:
    """Compare `effective_messages` with the messages that there are; deep with what flattening makes of them."""
    check = "against flattening" if deep else "against messages"
    try:
        if effective_is_behind(spark, head):
            return Diagnosis(check, effectivetable.NAME, "warning", "it has not reached the head of the log", _CATCH_UP)
        names = [name for name in EFFECTIVE_MESSAGES.names if name != "snapshot_id"] if deep else ["registryid", "xid"]
        rows = effectivetable.compute_all(open_sibling(spark), settings, 0) if deep else spark.table(table_name("messages"))
        digest = _digest(EFFECTIVE_MESSAGES, names)
        should, has = (each.agg(*digest).collect()[0] for each in (rows, spark.table(table_name(effectivetable.NAME))))
    except SPARK_FAULTS as error:
        return Diagnosis(check, effectivetable.NAME, "error", f"it cannot be read: {short_reason(error)}", _REBUILD)
    if should == has:
        return Diagnosis(check, effectivetable.NAME, "ok", f"{has['n']} rows")
    return Diagnosis(check, effectivetable.NAME, "error", _difference(has, should), _REBUILD)


def _difference(has: Row, should: Row) -> str:
    return f"{has['n']} rows instead of {should['n']}" if has["n"] != should["n"] else "rows differ"


def _digest(columns: StructType, names: Iterable[str]) -> list[Column]:
    """Return aggregates `n` and `digest`, which are equal for equal rows in any order."""
    maps = {column.name for column in columns if isinstance(column.dataType, MapType)}
    # A map has no hash; neither has the one inside of an address.
    texts = {"endpoints": F.to_json("endpoints")}
    hashable = [F.array_sort(F.map_entries(name)) if name in maps else texts.get(name, F.col(name)) for name in names]
    return [F.count("*").alias("n"), F.bit_xor(F.xxhash64(*hashable)).alias("digest")]


def _check_violations(spark: SparkSession) -> Diagnosis:
    rows = spark.table(table_name("violations"))
    try:
        details = rows.agg(F.count("*").alias("n"), F.count_distinct("violation_id").alias("ids")).collect()[0]
    except SPARK_FAULTS as error:
        return Diagnosis("findings", "violations", "error", f"it cannot be read: {short_reason(error)}", RESTORE)
    if details["n"] != details["ids"]:
        return Diagnosis("findings", "violations", "warning", f"{details['n'] - details['ids']} findings occur twice", RESTORE)
    return Diagnosis("findings", "violations", "ok", f"{details['n']} findings")


def _check_ddl(spark: SparkSession, name: str) -> Diagnosis:
    """Compare columns, comments and properties with `ddl/tables`."""
    text = (data_folder("ddl") / "tables" / f"{name}.sql").read_text(encoding="utf-8")
    wanted = {key: value.replace("\\'", "'") for key, value in _PROPERTY.findall(text[text.index("TBLPROPERTIES") :])}
    try:
        has = {row["key"]: row["value"] for row in spark.sql(f"SHOW TBLPROPERTIES {table_name(name)}").collect()}
    except SPARK_FAULTS as error:
        return Diagnosis("definition", name, "error", f"it cannot be read: {short_reason(error)}", _fix_for(name))
    problems = [
        f"{key} is {has.get(key, 'not set')!r} instead of {value!r}" for key, value in wanted.items() if has.get(key) != value
    ]
    columns = {column.name: column for column in spark.table(table_name(name)).schema}
    for column in DECLARATIONS[name].columns:
        stored = columns.get(column.name)
        if stored is None:
            problems.append(f"column {column.name} is missing")
        elif stored.dataType.simpleString() != column.dataType.simpleString():
            problems.append(f"column {column.name} is {stored.dataType.simpleString()}")
        elif stored.metadata.get("comment") != column.metadata["comment"]:
            problems.append(f"column {column.name} has another comment")
    if not problems:
        return Diagnosis("definition", name, "ok", "as in ddl/tables")
    fix = f"ALTER TABLE {table_name(name)} in `lakehouse sql`, to what ddl/tables/{name}.sql says"
    return Diagnosis("definition", name, "warning", "; ".join(problems[:5]), fix)


def _check_stages(spark: SparkSession, settings: Settings) -> Diagnosis:
    oldest = time.time() - settings.stage_retention_hours * 3600
    stages = list_folder(spark, stages_location(settings))
    dead = [path for path, _, modified in stages if modified < oldest]
    if dead:
        message = f"{len(dead)} stages of runs that died"
        return Diagnosis("stages", "", "warning", message, "the next `lakehouse ingest` removes them")
    return Diagnosis("stages", "", "ok", f"{len(stages)} of running or recent ingests")


def _problem_of_opening(spark: SparkSession, settings: Settings, name: str) -> str | None:
    try:
        attach_tables(spark, settings, [name])
        spark.table(table_name(name)).schema.fieldNames()
    except WarehouseTooNew:
        raise
    except WarehouseError:
        return "there is no such table"
    except SPARK_FAULTS as error:
        return short_reason(error)
    return None


def _fix_for(name: str) -> str:
    return RESTORE if name in ("changes", "violations") else _REBUILD


def short_reason(error: Exception) -> str:
    """Return the first line of why something failed, not all of it where it is long."""
    return reason_of(error).partition("\n")[0][:300]
