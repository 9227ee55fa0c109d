"""Every rule, applied to everything that is published: of a small catalog in the driver by look-ups, of a large one by Spark.

Both give the same findings (a row of Twins in CONTRIBUTING).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from lakehouse.domain.neighbours import RuleLimits
from lakehouse.errors import WarehouseError
from lakehouse.ingest.plannedcatalog import PlannedState
from lakehouse.match.definition.definitionchecks import check_definitions, findings_of
from lakehouse.readmodel import ReadModel
from lakehouse.readmodel.lookups import Lookups
from lakehouse.rules.findings import arrow_schema, no_findings
from lakehouse.rules.published import Parents, check_catalog, check_published_entity
from lakehouse.settings import Settings
from lakehouse.store.deltatables import is_small
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import xid_of_group

_MOST_ENTITIES = 200_000


def check_all(spark: SparkSession, snapshot_id: int, settings: Settings) -> DataFrame:
    """Apply all rules to a published state, and check definitions as filters.

    Args:
        spark: the session; its current schema has the tables of the state.
        snapshot_id: number of the state.
        settings: who plans (`planner`), and how far chains of bases are followed.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `schema.STAGE`. All are kept.
    """
    rows = None if settings.planner == "spark" or not is_small(spark, settings) else _check_in_driver(settings, snapshot_id)
    if rows is None:
        return check_catalog(spark, settings).unionByName(check_definitions(spark, settings))
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=arrow_schema())) if rows else no_findings(spark)


def _check_in_driver(settings: Settings, snapshot_id: int) -> list[dict[str, Any]] | None:
    """Return the findings by the read model, which is brought forward first; None: it cannot be kept here."""
    with ReadModel(settings) as model:
        try:
            model.refresh()
        except (WarehouseError, OSError):  # a store that only Spark reads, a folder that cannot be written
            return None
        with model.at(snapshot_id) as view:
            return list(check_lookups(Lookups(view, _MOST_ENTITIES), settings))


def check_lookups(lookups: Lookups, settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield the findings about all that is published; as `check_all`, rows as dict.

    Args:
        lookups: the state.
        settings: limits of the rules.
    """
    published, keys = PlannedState.published(lookups), list(lookups.all_keys())
    for key in keys:
        attributes = published.attributes(key, None)
        for held in published.holdings(key):
            dialect = published.dialect_of(key.registryid, held.document)
            group = lookups.attributes(key.registryid, xid_of_group(key.xid)) if key.kind == "version" else None
            of_group = (None, None) if group is None else (group.get("envelope"), group.get("protocol"))
            parents = Parents(key.registryid, key.kind, key.xid, held.document, dialect, *of_group)
            yield from check_published_entity(parents, attributes)
    limits = RuleLimits(settings.max_chain_depth, settings.duplicate_messageids, with_published=True)
    yield from published.findings(limits, keys)
    yield from findings_of(_definitions(lookups, [(key.registryid, key.xid) for key in keys if key.kind == "message"]))


def _definitions(lookups: Lookups, messages: list[tuple[RegistryId, Xid]]) -> Iterator[dict[str, Any]]:
    assert lookups.view is not None
    for registryid, xid in messages:
        entity = lookups.entity(registryid, xid)
        document = next(iter(entity.document_uris), "") if entity is not None else ""
        yield lookups.view.bodies.effective(registryid, xid) | {"document_uri": document}
