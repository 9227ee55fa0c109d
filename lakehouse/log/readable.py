"""Tables and views made readable: live, or as of a snapshot."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import SparkSession

from lakehouse.log import effectivetable
from lakehouse.log.commits import read_head
from lakehouse.log.projections import effective_is_behind
from lakehouse.log.snapshots import open_snapshot, resolve_snapshot
from lakehouse.settings import Settings
from lakehouse.store.deltatables import attach_tables
from lakehouse.store.schema import SCHEMA
from lakehouse.store.views import create_views, tables_read_by, with_read


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
