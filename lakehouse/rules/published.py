"""All rules over what is published: those between entities, and, entity by entity, those about one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial, reduce
from itertools import repeat
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.dialects.tables import family_of
from lakehouse.log.baseline import current_documents
from lakehouse.log.snapshots import effective_definitions
from lakehouse.rules.declared import RULES
from lakehouse.rules.entity.constraints import Subject
from lakehouse.rules.entity.engine import check_entity
from lakehouse.rules.findings import FINDING_COLUMNS, without_doubles
from lakehouse.rules.relational.candidaterows import COLUMNS, TABLES, published_rows
from lakehouse.rules.relational.compatible import check_published_promises
from lakehouse.rules.relational.inherited import as_flattened, check_published
from lakehouse.rules.relational.joins import check_entities
from lakehouse.rules.relational.pairs import judged
from lakehouse.settings import Settings
from lakehouse.store.materialize import materialize
from lakehouse.store.schema import ENDPOINTS, GROUPS, MESSAGES, REGISTRIES, SCHEMAVERSIONS, STAGE, VERSIONS, arrow_schema_of
from lakehouse.store.xids import group_of
from lakehouse.text.jsontext import below
from lakehouse.text.names import ROOT, Pointer, RegistryId, Xid
from lakehouse.text.problems import violation_id

_JSON_COLUMNS = frozenset(
    ("deprecated", "extensions", "envelopemetadata", "envelopeoptions", "protocoloptions", "dataschema", "schema", "capabilities")
)
_TABLES = {
    "registry": REGISTRIES,
    "messagegroup": GROUPS,
    "endpoint": ENDPOINTS,
    "meta": MESSAGES,
    "message": VERSIONS,
    "schema": SCHEMAVERSIONS,
}
_BESIDE_BODY = ("dataschema", "schema", "grouptype")
# What is checked of rows by the kind of the log: as which entity, and which attributes.
_CHECKED = {
    table.kind: (entity, [name for name in table.columns.names if name in table.body or name in _BESIDE_BODY])
    for entity, table in _TABLES.items()
}


class Parents(NamedTuple):
    """What a published entity is in: registry, document and its dialect; envelope and protocol of its group or endpoint."""

    registryid: RegistryId
    kind: str
    xid: Xid
    document_uri: str
    dialect: str | None
    parent_envelope: str | None
    parent_protocol: str | None


def check_catalog(spark: SparkSession, settings: Settings | None = None, effective: DataFrame | None = None) -> DataFrame:
    """Check everything that is published in the current schema, by all rules.

    Args:
        spark: the session.
        settings: how far chains of bases are followed, severity of END-130 (END-132); None: as far as the views can, the rule's.
        effective: as from `snapshots.effective_definitions`; None: that is called.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `schema.STAGE`. All are kept.
    """
    documents = current_dialects(spark)
    entities = reduce(DataFrame.unionByName, [published_rows(spark.table(table.name), table) for table in TABLES])
    entities = entities.join(F.broadcast(documents), on=["registryid", "document_uri"], how="left")
    # Computed once: each rule reads them.
    with ThreadPoolExecutor(1) as pool:
        # Rows go through Python while the driver plans the many small queries of the other rules.
        alone = pool.submit(lambda: materialize(_check_alone(spark, documents)))
        entities = entities.withColumn("staged", F.lit(False)).select(*COLUMNS).localCheckpoint()
        effective = effective_definitions(spark, settings) if effective is None else effective
        merged = partial(_merged, as_flattened(effective))
        between = check_entities(entities, settings.duplicate_messageids if settings else None, merged)
        between = between.unionByName(check_published(entities, effective))
        result = without_doubles(materialize(judged(between.unionByName(check_published_promises(spark, entities)))))
        return result.unionByName(alone.result())


def _merged(flattened: DataFrame, wanted: DataFrame) -> DataFrame:
    return flattened.join(wanted, on=["registryid", "message_xid"], how="left_semi")


def current_dialects(spark: SparkSession) -> DataFrame:
    """Return the dialect of each document of the current schema: registryid, document_uri, dialect."""
    if spark.catalog.tableExists("documents"):
        return spark.table("documents").select("registryid", "document_uri", "dialect")
    documents = current_documents(spark.table("changes"))
    return documents.select("registryid", F.col("xid").alias("document_uri"), F.col("facts.dialect").alias("dialect"))


def _check_alone(spark: SparkSession, documents: DataFrame) -> DataFrame:
    """Apply the rules about one entity to what is published."""
    parents = [
        spark.table(table.name).select(
            "registryid",
            F.col("xid").alias("container"),
            F.col("envelope").alias("parent_envelope"),
            F.col("protocol").alias("parent_protocol"),
        )
        for table in (GROUPS, ENDPOINTS)
    ]
    by_container = parents[0].unionByName(parents[1])
    schema = StructType([STAGE[name] for name in FINDING_COLUMNS])
    parts = []
    for table in _TABLES.values():
        entity, names = _CHECKED[table.kind]
        uri = F.coalesce(F.get("document_uris", F.lit(0)), F.lit("")).alias("document_uri")
        rows = spark.table(table.name).select("registryid", F.lit(table.kind).alias("kind"), "xid", uri, *names)
        rows = rows.join(F.broadcast(documents), on=["registryid", "document_uri"], how="left")
        if entity == "message":
            rows = rows.withColumn("container", group_of("xid"))
            rows = rows.join(by_container, on=["registryid", "container"], how="left")
        else:
            nothing = F.lit(None).cast("string")
            rows = rows.withColumns({"parent_envelope": nothing, "parent_protocol": nothing})
        parts.append(rows.select(*Parents._fields, *names).mapInArrow(_checker(entity, names), schema))
    return reduce(DataFrame.unionByName, parts)


def _checker(entity: str, names: list[str]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = arrow_schema_of(StructType([STAGE[name] for name in FINDING_COLUMNS]))

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            results = [
                finding for parents, attributes in _rows(names, batch) for finding in _check_row(entity, parents, attributes)
            ]
            yield pa.RecordBatch.from_pylist(results, schema=schema)

    return check


def check_published_entity(parents: Parents, attributes: dict[str, Any]) -> list[dict[str, Any]]:
    """Apply the rules about one entity to a published one, as `check_catalog` does to rows of tables.

    Args:
        parents: what it is in.
        attributes: in normal form.

    Returns:
        Findings, columns `FINDING_COLUMNS`; none for kinds without rules.
    """
    if parents.kind not in _CHECKED:
        return []
    entity, names = _CHECKED[parents.kind]
    own = {name: attributes[name] for name in names if attributes.get(name) is not None}
    if "grouptype" in names and parents.xid.startswith("/schemagroups/"):
        own["grouptype"] = "schemagroups"
    return list(_check_row(entity, parents, own))


def _rows(names: list[str], batch: pa.RecordBatch) -> Iterator[tuple[Parents, dict[str, Any]]]:
    """Yield the parents and the attributes of each row; columns without values are skipped."""
    filled = [name for name in names if batch.column(name).null_count < batch.num_rows]
    reading = [(name, _reader(name)) for name in filled]
    parents = map(Parents._make, zip(*(batch.column(name).to_pylist() for name in Parents._fields), strict=True))
    values = zip(*(batch.column(name).to_pylist() for name in filled), strict=True) if filled else repeat(())
    for parent, row in zip(parents, values, strict=False):
        yield parent, {name: read(value) for (name, read), value in zip(reading, row, strict=True) if value is not None}


def _check_row(entity: str, parents: Parents, attributes: dict[str, Any]) -> Iterator[dict[str, Any]]:
    registryid, kind, xid, document_uri, dialect, parent_envelope, protocol = parents
    if attributes.pop("grouptype", None) == "schemagroups":
        entity = "schemagroup"
    extensions = attributes.pop("extensions", None)
    ident = xid.split("/")[4 if entity in ("message", "meta") else 2] if xid != "/" else ""
    family = family_of(protocol)
    in_endpoint = entity == "message" and xid.startswith("/endpoints/")
    subject = Subject(entity, attributes, ident, family, parent_envelope, dialect or "", extensions, in_endpoint, protocol)
    broken = check_entity(subject)
    at = Pointer(xid.replace("~", "~0")) if xid != "/" else ROOT
    for path, rule_id, message, severity in broken:
        rule = RULES[rule_id]
        pointer = below(at, *path)
        yield {
            "row": "finding",
            "document_uri": document_uri,
            "registryid": registryid,
            "kind": kind,
            "xid": xid,
            "finding": {
                "violation_id": violation_id(registryid, document_uri, rule_id, xid, pointer, message, "kept"),
                "pointer": pointer,
                "rule_id": rule_id,
                "severity": severity or rule.severity,
                "action": "kept",
                "message": message,
                "hint": rule.hint,
            },
        }


def _reader(name: str) -> Callable[[Any], Any]:
    """Return the function that converts a column's value to the attribute's."""
    if name in _JSON_COLUMNS:
        return orjson.loads
    return dict if name == "labels" else _as_it_is


def _as_it_is(value: Any) -> Any:
    return value
