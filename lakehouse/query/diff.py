"""Differences between two states of the catalog, or of documents before they are loaded.

What is compared are effective definitions (`ddl/views/comparable_definitions.sql`), so an edit of a base shows in every message
that extends it. `ddl/diffs/snapshot_diff.sql` finds the differences, and the rules of `ddl/views/compatibility_rules.sql` tell
what each means.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from string import Template

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.ingest.parse.parse import limits_of, parse_documents
from lakehouse.ingest.sources import find_sources, read_documents
from lakehouse.log.ownership.owners import first_claims
from lakehouse.log.projections import project
from lakehouse.log.snapshots import create_view_schema, open_snapshot
from lakehouse.readmodel.differences import CLASSES, Difference
from lakehouse.settings import Settings, data_folder
from lakehouse.store.keys import KEY
from lakehouse.store.schema import SCHEMA, TABLE_OF_KIND
from lakehouse.store.sessions import open_sibling
from lakehouse.store.views import create_views, session_with_views

COMPARED = "comparable_definitions"
DIFF = "snapshot_diff"
_SIDES = ("before_definitions", "after_definitions")
_SIDE = Template("CREATE OR REPLACE VIEW $schema.$name AS SELECT registryid, kind, xid, leaves FROM $source")
_NO_SCHEMA = "default"  # everything that is read is handed in


def open_diff(spark: SparkSession, settings: Settings, before: int, after: int) -> str:
    """Create the schema in which the view `snapshot_diff` compares two snapshots.

    Returns:
        Its name.

    Raises:
        SnapshotNotFound: one of them is not there.
    """
    schema = f"{SCHEMA}_diff_{before}_{after}"
    create_view_schema(spark, schema)
    for name, snapshot_id in zip(_SIDES, (before, after), strict=True):
        source = open_snapshot(spark, settings, snapshot_id, [COMPARED])
        spark.sql(_SIDE.substitute(schema=schema, name=name, source=f"{source}.{COMPARED}"))
    create_views(spark, settings, schema, ["compatibility_rules"])
    session = open_sibling(spark, schema)
    session.sql(_statement())
    return schema


def diff_snapshots(spark: SparkSession, settings: Settings, before: int, after: int) -> DataFrame:
    """Give the differences between two snapshots: columns of the view `snapshot_diff`, in order.

    Raises:
        SnapshotNotFound: one of them is not there.
    """
    schemas = [open_snapshot(spark, settings, snapshot_id, [COMPARED]) for snapshot_id in (before, after)]
    return compare(spark, settings, *(spark.table(f"{schema}.{COMPARED}") for schema in schemas))


def diff_documents(spark: SparkSession, settings: Settings, before: list[str], after: list[str]) -> DataFrame:
    """Give the differences between documents that need not be loaded: columns of the view `snapshot_diff`, in order.

    Args:
        spark: the session.
        settings: registry, limits.
        before: files, folders, globs or URIs.
        after: the same.

    Raises:
        SourceNotFound: one of them names nothing.
    """
    tables = [documents_as_tables(spark, settings, sources) for sources in (before, after)]
    sessions = [session_with_views(spark, settings, _NO_SCHEMA, each, [COMPARED]) for each in tables]
    return compare(spark, settings, *(session.table(COMPARED) for session in sessions))


def compare(spark: SparkSession, settings: Settings, before: DataFrame, after: DataFrame) -> DataFrame:
    """Compare definitions, columns of the view `comparable_definitions`.

    Both sides are worked out first, which is much quicker than within one large plan.
    """
    with ThreadPoolExecutor(2) as pool:
        sides = dict(zip(_SIDES, pool.map(lambda side: side.localCheckpoint(), (before, after)), strict=True))
    session = session_with_views(spark, settings, _NO_SCHEMA, sides, ["compatibility_rules"])
    session.sql(_statement().replace("CREATE OR REPLACE VIEW", "CREATE OR REPLACE TEMPORARY VIEW", 1))
    rank = F.array_position(F.array(*map(F.lit, CLASSES)), F.col("class"))
    return session.table(DIFF).orderBy(rank, "registryid", "xid", "pointer")


def documents_as_tables(spark: SparkSession, settings: Settings, sources: list[str]) -> dict[str, DataFrame]:
    """Give the entity tables that documents would make in an empty catalog; what is refused in them is left out."""
    documents = read_documents(spark, find_sources(spark, sources), settings.stream_bytes)
    named = documents.withColumns(
        {
            "registry": F.lit(settings.registry or None).cast("string"),
            "unchanged": F.lit(False),
            "again": F.lit(False),
            "last_sha256": F.lit(None).cast("string"),
            "last_clean": F.lit(False),
            "last_registry": F.lit(None).cast("string"),
            "named": F.lit(False),
        }
    )
    stage = parse_documents(named, limits_of(settings)).filter(F.col("row") == "entity").persist()
    chosen = first_claims(stage)
    texts = stage.select(*KEY, "document_uri", "content_hash", "epoch", "createdat", "modifiedat", "body", "raw", "attributes")
    rows = chosen.join(texts, on=[*KEY, "document_uri"], how="inner").withColumns(
        {"snapshot_id": F.lit(1).cast("bigint"), "op": F.lit("insert")}
    )
    return {table.name: project(rows.filter(F.col("kind") == kind), table) for kind, table in TABLE_OF_KIND.items()}


def read_differences(rows: DataFrame) -> list[Difference]:
    """Fetch the differences."""
    names = [name.rstrip("_") for name in Difference.__dataclass_fields__]
    return [Difference(*row) for row in rows.select(*names).collect()]


def _statement() -> str:
    text = (data_folder("ddl") / "diffs" / f"{DIFF}.sql").read_text(encoding="utf-8")
    return text.rstrip().removesuffix(";")
