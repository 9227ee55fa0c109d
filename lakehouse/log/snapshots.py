"""A snapshot is a schema: `xregistry_at_<id>` shows the whole catalog as it was, read from the log alone.

Its views hold the last row of each entity with `snapshot_id <= id`, and then the same `ddl/views` as the live schema. So it
lasts as long as `changes` does, whatever Delta's retention, and reading it writes nothing into the warehouse. Effective
definitions come from Delta's history of `effective_messages` as far as that goes back, and are computed beyond.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from string import Template

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.errors import LabelTaken, SnapshotNotFound
from lakehouse.log import effectivetable
from lakehouse.log.commits import CommitInfo, Label, commit_label, read_head, read_head_at
from lakehouse.log.projections import effective_is_behind, effective_version, expressions, parsed_body
from lakehouse.log.snapshotfacts import HEAD, NUMBER, Snapshot, check_label, moment_of
from lakehouse.log.writerlock import in_turn
from lakehouse.settings import Settings
from lakehouse.store.deltatables import attach_tables, check_writers, open_table, table_name
from lakehouse.store.materialize import materialize
from lakehouse.store.schema import CHANGES, DOCUMENT_BODY, EFFECTIVE_MESSAGES, ENTITY_TABLES, SCHEMA, VIOLATIONS
from lakehouse.store.session import scratch_folder
from lakehouse.store.tablelog import sync_table
from lakehouse.store.views import create_views, most_based, read_view, tables_read_by, with_read

# The relations of a snapshot. All that is put in are names and expressions of this package, and the snapshot's number.
_CHANGES = Template("""\
SELECT
  $columns
FROM $live_changes
WHERE snapshot_id <= $snapshot_id""")
# What the projection of a table makes of the last row of each entity.
_ENTITIES = Template("""\
WITH numbered AS (
  SELECT
    *,
    row_number() OVER (PARTITION BY registryid, xid ORDER BY snapshot_id DESC) AS nth
  FROM $schema.changes
  WHERE kind = '$kind'
),
parsed AS (
  SELECT
    *,
    $parsed_body AS b
  FROM numbered
  WHERE nth = 1
    AND op <> 'delete'
)
SELECT
  $columns
FROM parsed""")
# The findings that a document had at a load up to the snapshot: by the log, not by the clock.
_VIOLATIONS = Template("""\
SELECT
  $columns
FROM $live_violations
WHERE violation_id IN (
  SELECT explode(from_json(body, '$facts').findings)
  FROM $schema.changes
  WHERE kind = 'document'
)""")


def schema_at(snapshot_id: int) -> str:
    """Return the name of the schema in which a snapshot is read."""
    return f"{SCHEMA}_at_{snapshot_id}"


def resolve_snapshot(spark: SparkSession, text: str) -> int:
    """Find the snapshot that a user means; the table `changes` must be attached.

    Args:
        spark: the session.
        text: a number; a label; `head`; an RFC 3339 time (UTC when it has no zone): the last snapshot committed by then; a date:
            the last one of that day (UTC) or before.

    Raises:
        SnapshotNotFound: it names none.
    """
    wanted = text.strip()
    snapshots = spark.table(table_name("changes")).filter(F.col("kind") == "snapshot")
    if wanted == HEAD:
        newest = snapshots.agg(F.max("snapshot_id")).collect()[0][0]
        if newest is None:
            raise SnapshotNotFound(text, "the catalog has none yet")
        return int(newest)
    if NUMBER.match(wanted):
        return _numbered(spark, text, int(wanted))
    labelled = read_labels(spark).get(wanted)
    if labelled is not None:
        return labelled[0]
    moment = moment_of(text)
    if moment is None:
        raise SnapshotNotFound(text, "it is not a number, label, date (2026-03-01) or time (2026-03-01T12:00:00Z)")
    committed_at = F.to_timestamp(F.get_json_object("body", "$.committed_at"))
    result = snapshots.filter(committed_at <= F.lit(moment)).agg(F.max("snapshot_id")).collect()[0][0]
    if result is None:
        raise SnapshotNotFound(text, "the first one is later")
    return int(result)


def read_snapshots(spark: SparkSession) -> list[Snapshot]:
    """Read all snapshots, oldest first; the table `changes` must be attached."""
    changes = spark.table(table_name("changes"))
    rows = changes.filter(F.col("kind") == "snapshot").select("snapshot_id", "body").orderBy("snapshot_id").collect()
    names: dict[int, dict[str, str | None]] = {}
    for name, (snapshot_id, why) in read_labels(spark).items():
        names.setdefault(snapshot_id, {})[name] = why
    return [Snapshot(row["snapshot_id"], json.loads(row["body"]), names.get(row["snapshot_id"], {})) for row in rows]


def read_labels(spark: SparkSession) -> dict[str, tuple[int, str | None]]:
    """Read the labels: name to snapshot and reason; the last row of a name counts."""
    labels = open_table(spark, "changes").filter(F.col("kind") == "label").select("snapshot_id", "xid", "op", "body")
    results: dict[str, tuple[int, str | None]] = {}
    for row in sorted(labels.collect(), key=lambda row: row["snapshot_id"]):
        details = json.loads(row["body"])
        results[row["xid"]] = (details["snapshot_id"], details.get("why"))
    return results


def check_label_is_free(spark: SparkSession, name: str) -> None:
    """Check that a name can be a label and names nothing yet.

    Raises:
        SettingsError: the name looks like a number or a time.
        LabelTaken: it names a snapshot.
    """
    check_label(name)
    taken = read_labels(spark).get(name)
    if taken is not None:
        raise LabelTaken(name, taken[0])


def label_snapshot(
    spark: SparkSession, settings: Settings, text: str, name: str, *, why: str | None = None, move: bool = False
) -> int:
    """Label a snapshot. The label is a row of the log, committed as its own snapshot.

    Args:
        spark: the session.
        settings: warehouse, `commit_attempts`.
        text: the snapshot, as in `resolve_snapshot`.
        name: the label.
        why: the reason, kept with it.
        move: a label that names another snapshot may be moved; the log keeps both rows.

    Returns:
        The snapshot that has the name now.

    Raises:
        SettingsError: the name looks like a number or a time.
        LabelTaken: it names another snapshot, and `move` was not asked for.
        CommitLost: other writers won the race more often than `commit_attempts`.
    """
    check_label(name)
    check_writers(spark, settings)
    attach_tables(spark, settings, ["changes"])
    snapshot_id = resolve_snapshot(spark, text)

    def attempt() -> int:
        present = read_labels(spark).get(name)
        if present is not None and present == (snapshot_id, why if why is not None else present[1]):
            return snapshot_id
        if present is not None and present[0] != snapshot_id and not move:
            raise LabelTaken(name, present[0])
        label = Label(name, snapshot_id, why)
        commit_label(spark, read_head(spark), label, CommitInfo(uuid.uuid4().hex, "label", {}))
        sync_table(spark, settings, "changes")
        return snapshot_id

    return in_turn(settings.warehouse, settings.commit_attempts, attempt)


def open_snapshot(spark: SparkSession, settings: Settings, snapshot_id: int, views: Iterable[str] | None = None) -> str:
    """Create the schema of a snapshot in this session's catalog, unless it is there.

    Args:
        spark: the session.
        settings: the warehouse, and how far chains are followed.
        snapshot_id: the snapshot, as from `resolve_snapshot`.
        views: those of `ddl/views` that are wanted; None: all.

    Returns:
        Its name: each table of the live schema is in it as a view with the same columns, next to the views.

    Raises:
        SnapshotNotFound: there is no such snapshot.
    """
    attach_tables(spark, settings, ["changes", "violations"])
    _numbered(spark, str(snapshot_id), snapshot_id)
    schema = schema_at(snapshot_id)
    create_view_schema(spark, schema)
    for statement in _statements(snapshot_id):
        spark.sql(statement)
    wanted = None if views is None else with_read(views)
    if wanted is not None and "flat_messages" not in wanted:
        create_views(spark, settings, schema, wanted)
        return schema
    attach_tables(spark, settings, [effectivetable.NAME])
    version = effective_version(spark, read_head_at(spark, snapshot_id))
    if version is not None:
        spark.sql(_effective_view(snapshot_id, f"{table_name(effectivetable.NAME)} VERSION AS OF {version}"))
    create_views(spark, settings, schema, wanted, stored=version is not None)
    if version is None:  # what the stored result was, is what flattening gives
        spark.sql(_effective_view(snapshot_id, f"{schema}.flat_messages"))
    return schema


def _effective_view(snapshot_id: int, source: str) -> str:
    """Return the statement that creates a snapshot's `effective_messages`, whose rows all have its number."""
    stamped = (f"{snapshot_id}L AS snapshot_id" if name == "snapshot_id" else name for name in EFFECTIVE_MESSAGES.names)
    query = f"SELECT\n  {_listed(stamped)}\nFROM {source}"
    return _view(schema_at(snapshot_id), effectivetable.NAME, EFFECTIVE_MESSAGES, query)


def create_view_schema(spark: SparkSession, schema: str) -> None:
    """Create a schema for views, unless it is there."""
    embedded = spark.conf.get("spark.sql.catalogImplementation") == "in-memory"
    # Spark makes a folder for each schema; views need none, so they are outside of the warehouse.
    place = f" LOCATION '{scratch_folder()}/{schema}'" if embedded else ""
    spark.sql(f"CREATE SCHEMA IF NOT EXISTS {schema}{place}")


def _statements(snapshot_id: int) -> Iterable[str]:
    """Yield the statements that create a snapshot's relations, each after those that it reads."""
    schema = schema_at(snapshot_id)
    names = {
        "schema": schema,
        "snapshot_id": str(snapshot_id),
        "live_changes": table_name("changes"),
        "live_violations": table_name("violations"),
        "facts": DOCUMENT_BODY.simpleString(),
    }
    yield _view(schema, "changes", CHANGES, _CHANGES.substitute(names, columns=_listed(CHANGES.names)))
    for table in ENTITY_TABLES:
        columns = _listed(f"{expression} AS {name}" for name, expression in expressions(table).items())
        query = _ENTITIES.substitute(names, kind=table.kind, parsed_body=parsed_body(table), columns=columns)
        yield _view(schema, table.name, table.columns, query)
    yield _view(schema, "violations", VIOLATIONS, _VIOLATIONS.substitute(names, columns=_listed(VIOLATIONS.names)))


def _view(schema: str, name: str, columns: StructType, query: str) -> str:
    declared = _listed(f"{column.name} COMMENT '{_escaped(column.metadata['comment'])}'" for column in columns)
    return f"CREATE OR REPLACE VIEW {schema}.{name} (\n  {declared}\n) AS\n{query}"


def _listed(items: Iterable[str]) -> str:
    return ",\n  ".join(items)


def _numbered(spark: SparkSession, text: str, snapshot_id: int) -> int:
    snapshots = spark.table(table_name("changes")).filter(F.col("kind") == "snapshot")
    newest = snapshots.agg(F.max("snapshot_id")).collect()[0][0] or 0
    if not 1 <= snapshot_id <= newest:
        raise SnapshotNotFound(text, f"there are the snapshots 1 to {newest}" if newest else "the catalog has none yet")
    return snapshot_id


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")


def open_relations(
    spark: SparkSession,
    settings: Settings,
    views: list[str],
    tables: Iterable[str] = (),
    at: str | None = None,
) -> str:
    """Make tables and views readable, and give the schema in which they are.

    Args:
        spark: the session.
        settings: the warehouse.
        views: the views, with those that they read.
        tables: more tables than those that the views read.
        at: a snapshot, as in `resolve_snapshot`; None: the live tables.

    Raises:
        SnapshotNotFound: `at` names no snapshot.
        WarehouseError: the warehouse holds no catalog.
    """
    if at is not None:
        tables = list(tables)
        attach_tables(spark, settings, dict.fromkeys(["changes", *tables]))
        if effectivetable.NAME in tables:  # a view there
            views = [*views, *with_read(["flat_messages"])]
        return open_snapshot(spark, settings, resolve_snapshot(spark, at), views)
    stored = "flat_messages" not in views or _flattening_is_stored(spark, settings)
    views = with_read(views, stored=stored)
    attach_tables(spark, settings, dict.fromkeys([*tables, *tables_read_by(views, stored=stored)]))
    if views:
        create_views(spark, settings, SCHEMA, views, stored=stored)
    return SCHEMA


def _flattening_is_stored(spark: SparkSession, settings: Settings) -> bool:
    """Return whether `effective_messages` is up to date with what flattening computes now."""
    attach_tables(spark, settings, ["changes", effectivetable.NAME])
    return settings.refresh_effective and not effective_is_behind(spark, read_head(spark))


def effective_definitions(spark: SparkSession, settings: Settings | None) -> DataFrame:
    """Return the effective definitions of all messages of the current schema, columns of `computed_messages`.

    They are read from `effective_messages` where that is up to date, and computed once elsewhere: the frame may be read often.

    Args:
        spark: the session.
        settings: whether flattening is stored, how far chains are followed; None: it is computed, as far as views can.
    """
    schema = spark.catalog.currentDatabase()
    if settings is not None and schema == SCHEMA and _flattening_is_stored(spark, settings):
        return open_table(spark, effectivetable.NAME)
    based = most_based(spark.table("versions"))
    return materialize(read_view(spark, settings, schema, {}, "computed_messages", based=based))
