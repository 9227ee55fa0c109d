"""Every rule, applied to everything that is published: of a small catalog in the driver by look-ups, of a large one by Spark.

Spark does it in tasks (`catalogtasks`), or by joins where groups are too large for that (`rules.published`). All give the same
findings (a row of Twins in CONTRIBUTING). Definitions are checked as filters of events too (MATCH-001 to MATCH-003).
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.window import Window

from lakehouse.errors import WarehouseError
from lakehouse.ingest.stagerows import PlannedState
from lakehouse.log.snapshots import effective_definitions
from lakehouse.match.catalogtasks import check_in_tasks, check_published_keys, published_limits
from lakehouse.match.definition.compiled import DECIDING, ENVELOPE, TYPE, Definition, definition_of
from lakehouse.match.definition.scope import MESSAGE_COLUMNS
from lakehouse.match.definition.templates import Template, has_placeholder
from lakehouse.readmodel import ReadModel
from lakehouse.readmodel.lookups import Lookups
from lakehouse.rules.declared import RULES
from lakehouse.rules.findings import FINDING_COLUMNS, arrow_schema, no_findings
from lakehouse.rules.published import check_catalog
from lakehouse.rules.relational.candidaterows import broadcast_few
from lakehouse.settings import Settings
from lakehouse.store.deltatables import is_small
from lakehouse.store.materialize import count, is_known_empty, materialize
from lakehouse.store.schema import STAGE, arrow_schema_of
from lakehouse.text.names import ROOT, Pointer, RegistryId, Xid
from lakehouse.text.problems import violation_id

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
        effective = effective_definitions(spark, settings)
        with ThreadPoolExecutor(1) as pool:
            definitions = pool.submit(lambda: materialize(check_definitions(effective)))
            entities = None if settings.planner == "spark" else check_in_tasks(spark, snapshot_id, settings)
            if entities is None:
                entities = check_catalog(spark, settings, effective)
            return entities.unionByName(definitions.result())
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
    yield from check_published_keys(published, keys, published_limits(settings))
    yield from findings_of(_definitions(lookups, [(key.registryid, key.xid) for key in keys if key.kind == "message"]))


def _definitions(lookups: Lookups, messages: list[tuple[RegistryId, Xid]]) -> Iterator[dict[str, Any]]:
    assert lookups.view is not None
    for registryid, xid in messages:
        entity = lookups.entity(registryid, xid)
        document = next(iter(entity.document_uris), "") if entity is not None else ""
        yield lookups.view.bodies.effective(registryid, xid) | {"document_uri": document}


TWINS, HOPELESS, UNUSED = "MATCH-001", "MATCH-002", "MATCH-003"
_FLAWS = "ARRAY<STRUCT<rule_id: STRING, pointer: STRING, reason: STRING>>"
_CHECKED = f"registryid STRING, xid STRING, document_uri STRING, signature STRING, flaws {_FLAWS}"
_CHECKED_SCHEMA = pa.schema(
    [
        ("registryid", pa.string()), ("xid", pa.string()), ("document_uri", pa.string()), ("signature", pa.string()),
        ("flaws", pa.list_(pa.struct([("rule_id", pa.string()), ("pointer", pa.string()), ("reason", pa.string())]))),
    ]
)  # fmt: skip
_FLAWED_SCHEMA = pa.schema([("kind", pa.string()), _CHECKED_SCHEMA.field("flaws")])
_MOST_NAMED = 3
_PLACEHOLDER = "{"


def check_definitions(effective: DataFrame) -> DataFrame:
    """Check effective definitions as filters.

    Of those that surely have no twin, Python sees one of each kind: most declare the same templates as many others.

    Args:
        effective: as from `snapshots.effective_definitions`.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `schema.STAGE`. All are kept.
    """
    uri = F.coalesce(F.get("document_uris", F.lit(0)), F.lit("")).alias("document_uri")
    rows = effective.select(*MESSAGE_COLUMNS, uri).withColumn("_type", F.col("attributes")[f"{TYPE}/value"])
    repeated = rows.groupBy("registryid", "_type").count().filter("count > 1")
    repeated = materialize(repeated.select("registryid", "_type", F.lit(True).alias("_is_repeated")))
    rows = rows.join(broadcast_few(repeated, count(repeated)), on=["registryid", "_type"], how="left")
    is_typed = F.startswith(F.upper("envelope"), F.lit("CLOUDEVENTS")) & F.startswith("_type", F.lit('"'))
    # A twin of a CloudEvent with a constant `type` has the same one.
    is_alone = is_typed & ~F.contains("_type", F.lit(_PLACEHOLDER)) & F.col("_is_repeated").isNull()
    is_alone = F.coalesce(is_alone, F.lit(False))
    checked = rows.filter(~is_alone).select(*MESSAGE_COLUMNS, "document_uri").mapInArrow(_checked_batches, _CHECKED)
    alike = Window.partitionBy("registryid", "signature")
    with_twins = checked.withColumn(
        "alike", F.when(F.col("signature").isNotNull(), F.sort_array(F.collect_set("xid").over(alike)))
    )
    result = with_twins.filter((F.size("alike") > 1) | (F.size("flaws") > 0)).drop("signature")
    result = result.unionByName(_flawed(rows.filter(is_alone)), allowMissingColumns=True)
    return result.select("registryid", "xid", "document_uri", "alike", "flaws").mapInArrow(
        _findings, StructType([STAGE[name] for name in FINDING_COLUMNS])
    )


def _flawed(rows: DataFrame) -> DataFrame:
    """Return the definitions with flaws: registryid, xid, document_uri, flaws.

    A flaw needs a placeholder. So a kind is what decides, with each constant value as the same one.
    """
    decides = F.map_filter("attributes", lambda pointer, _: F.substring_index(pointer, "/", -1).isin(*DECIDING))
    kind = F.transform_values(decides, _without_constant)
    rows = rows.withColumn("kind", F.to_json(F.struct("envelope", "protocol", kind.alias("attributes"))))
    flawed = materialize(rows.select("kind").distinct().mapInArrow(_flawed_kinds, f"kind STRING, flaws {_FLAWS}"))
    if is_known_empty(flawed):
        return flawed.select(*(F.lit("").alias(name) for name in ("registryid", "xid", "document_uri")), "flaws")
    return rows.join(flawed, on="kind", how="inner").select("registryid", "xid", "document_uri", "flaws")


def _without_constant(pointer: Column, text: Column) -> Column:
    is_constant = F.endswith(pointer, F.lit("/value")) & ~F.contains(text, F.lit(_PLACEHOLDER))
    return F.when(is_constant, '""').otherwise(text)


def findings_of(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Return what `check_definitions` does, of all effective definitions of a catalog that the driver holds.

    Args:
        rows: `MESSAGE_COLUMNS` and document_uri; maps as dict.
    """
    checked = [_checked(row) for row in rows]
    alike: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for row in checked:
        if row["signature"] is not None:
            alike[row["registryid"], row["signature"]].append(row["xid"])
    for row in checked:
        yield from _of_row(row | {"alike": sorted(alike.get((row["registryid"], row["signature"]), ()))})


def signature_of(definition: Definition) -> str | None:
    """Return a text that two definitions share when only the payload distinguishes them; None: it is bare."""
    if not definition.shapes - {("/protocol", definition.family or "")}:
        return None
    parts = [sorted(definition.shapes), sorted(definition.demands), definition.is_cloudevent, _shared(definition)]
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def flaws_of(definition: Definition) -> Iterator[tuple[Pointer, str]]:
    """Return the declarations that no event can meet: pointer, and why."""
    for attribute in definition.attributes:
        template = attribute.template
        if template is not None and template.flaw:
            yield attribute.pointer, f"{template.text}: {template.flaw}"
        elif template is not None and not _may_be_of_type(template, attribute.kind):
            yield attribute.pointer, f"{template.text}: whatever its placeholders hold, it is not of type {attribute.kind}"


def unused_of(row: Mapping[str, Any], definition: Definition) -> Iterator[tuple[Pointer, str]]:
    """Return the placeholders that no part of matching or rendering reads: pointer, and why.

    Args:
        row: as `definition_of` takes it.
        definition: what was made of it.
    """
    for attribute in definition.attributes:
        if attribute.template is None and isinstance(attribute.value, str) and has_placeholder(attribute.value):
            why = "a content type" if attribute.section == "message" else f"a value of type {attribute.kind}"
            yield attribute.pointer, f"{attribute.value}: {why} is not a template, so it is compared as it is written"
    if not definition.is_cloudevent:
        for pointer, text in sorted(dict(row["attributes"] or ()).items()):
            if pointer.startswith(ENVELOPE) and pointer.endswith("/value") and has_placeholder(text):
                reason = "the envelope is not CloudEvents, so this is neither matched nor rendered"
                yield Pointer(pointer.removesuffix("/value")), f"{json.loads(text)}: {reason}"


def _may_be_of_type(template: Template, kind: str | None) -> bool:
    """Return whether a text that a template matches can be of a type, which is checked after the template (resolution 10)."""
    if kind == "boolean":
        return template.match("true") is not None or template.match("false") is not None
    allowed = {"integer": "-0123456789", "timestamp": "-0123456789.:+TtZz", "datetime": "-0123456789.:+TtZz"}.get(kind or "")
    return allowed is None or all(letter in allowed for letter in template.shape.replace("{}", ""))


def _shared(definition: Definition) -> list[list[str]]:
    """Return the places that must hold the same text, whatever the placeholder is called."""
    places: dict[str, list[str]] = {}
    for attribute in definition.attributes:
        for number, name in enumerate(attribute.template.names if attribute.template else ()):
            places.setdefault(name, []).append(f"{attribute.pointer}#{number}")
    return sorted(sorted(uses) for uses in places.values() if len(uses) > 1)


def _checked_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pylist([_checked(row) for row in batch.to_pylist()], schema=_CHECKED_SCHEMA)


def _checked(row: Mapping[str, Any]) -> dict[str, Any]:
    """Check one definition: a row of `_CHECKED`."""
    definition = definition_of(row)
    key = {name: row[name] for name in ("registryid", "xid", "document_uri")}
    return key | {"signature": signature_of(definition), "flaws": _flaws(row, definition)}


def _flaws(row: Mapping[str, Any], definition: Definition) -> list[dict[str, str]]:
    by_rule = ((HOPELESS, flaws_of(definition)), (UNUSED, unused_of(row, definition)))
    return [{"rule_id": rule_id, "pointer": pointer, "reason": why} for rule_id, those in by_rule for pointer, why in those]


def _flawed_kinds(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        results = []
        for kind in batch.column("kind").to_pylist():
            row = {"registryid": "", "xid": "", **orjson.loads(kind)}
            if flaws := _flaws(row, definition_of(row)):
                results.append({"kind": kind, "flaws": flaws})
        yield pa.RecordBatch.from_pylist(results, schema=_FLAWED_SCHEMA)


def _findings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema_of(StructType([STAGE[name] for name in FINDING_COLUMNS]))
    for batch in batches:
        yield pa.RecordBatch.from_pylist([finding for row in batch.to_pylist() for finding in _of_row(row)], schema=schema)


def _of_row(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    alike_xids = [xid for xid in row["alike"] or () if xid != row["xid"]]
    if alike_xids:
        more = f" and {len(alike_xids) - _MOST_NAMED} more" if len(alike_xids) > _MOST_NAMED else ""
        message = f"asks for the same as {', '.join(alike_xids[:_MOST_NAMED])}{more} asks: only the payload can distinguish them"
        yield _finding(row, TWINS, ROOT, message)
    for flaw in row["flaws"]:
        start = "no event can match " if flaw["rule_id"] == HOPELESS else ""
        yield _finding(row, flaw["rule_id"], flaw["pointer"], start + flaw["reason"])


def _finding(row: dict[str, Any], rule_id: str, pointer: Pointer, message: str) -> dict[str, Any]:
    rule, at = RULES[rule_id], Pointer(row["xid"].replace("~", "~0") + pointer)
    identity = (row["registryid"], row["document_uri"], rule_id, row["xid"], at, message, "kept")
    finding = {"violation_id": violation_id(*identity), "pointer": at, "rule_id": rule_id, "severity": rule.severity,
               "action": "kept", "message": message, "hint": rule.hint}  # fmt: skip
    return {"row": "finding", "document_uri": row["document_uri"], "registryid": row["registryid"], "kind": "message",
            "xid": row["xid"], "finding": finding}  # fmt: skip
