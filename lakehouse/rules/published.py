"""All rules over what is published: those between entities, and, entity by entity, those about one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any

import orjson
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from lakehouse.log.facts import current_documents
from lakehouse.rules.between.flattened import check_published
from lakehouse.rules.between.lookedat import COLUMNS, TABLES, published_rows
from lakehouse.rules.between.relations import check_entities
from lakehouse.rules.declared import RULES
from lakehouse.rules.findings import FOUND
from lakehouse.rules.one.engine import check_entity
from lakehouse.rules.one.table import Subject
from lakehouse.settings import Settings
from lakehouse.store.schema import ENDPOINTS, GROUPS, MESSAGES, REGISTRIES, SCHEMAVERSIONS, STAGE, VERSIONS
from lakehouse.text.jsontext import below
from lakehouse.text.names import WHOLE, Pointer
from lakehouse.text.problems import violation_id

_JSON_COLUMNS = frozenset(
    ("deprecated", "extensions", "envelopemetadata", "envelopeoptions", "protocoloptions", "dataschema", "schema", "capabilities")
)
_ALONE = {
    "registry": REGISTRIES,
    "messagegroup": GROUPS,
    "endpoint": ENDPOINTS,
    "meta": MESSAGES,
    "message": VERSIONS,
    "schema": SCHEMAVERSIONS,
}
_AROUND = ("registryid", "kind", "xid", "document_uri", "dialect", "holder_envelope", "holder_protocol")


def check_catalog(spark: SparkSession, settings: Settings | None = None) -> DataFrame:
    """Check everything that is published in the current schema, by all rules.

    Args:
        spark: the session.
        settings: how far chains of bases are followed, severity of END-130 (END-132); None: as far as the views can, the rule's.

    Returns:
        Findings: columns row, document_uri, registryid, kind, xid, finding, as in `schema.STAGE`. All are kept.
    """
    documents = current_dialects(spark)
    things = reduce(DataFrame.unionByName, [published_rows(spark.table(table.name), table) for table in TABLES])
    things = things.join(F.broadcast(documents), on=["registryid", "document_uri"], how="left")
    # Computed once: each rule reads them.
    things = things.withColumn("staged", F.lit(False)).select(*COLUMNS).localCheckpoint()
    between = check_entities(things, settings.duplicate_messageids if settings else None)
    return _check_alone(spark, documents).unionByName(between).unionByName(check_published(spark, settings, things))


def current_dialects(spark: SparkSession) -> DataFrame:
    """Give the dialect of each document of the current schema: registryid, document_uri, dialect."""
    if spark.catalog.tableExists("documents"):
        return spark.table("documents").select("registryid", "document_uri", "dialect")
    known = current_documents(spark.table("changes"))
    return known.select("registryid", F.col("xid").alias("document_uri"), F.col("facts.dialect").alias("dialect"))


def _check_alone(spark: SparkSession, documents: DataFrame) -> DataFrame:
    """Apply the rules about one entity to what is published."""
    holders = [
        spark.table(table.name).select(
            "registryid",
            F.col("xid").alias("container"),
            F.col("envelope").alias("holder_envelope"),
            F.col("protocol").alias("holder_protocol"),
        )
        for table in (GROUPS, ENDPOINTS)
    ]
    held_by = holders[0].unionByName(holders[1])
    schema = StructType([STAGE[name] for name in FOUND])
    parts = []
    for entity, table in _ALONE.items():
        uri = F.coalesce(F.get("document_uris", F.lit(0)), F.lit("")).alias("document_uri")
        names = [name for name in table.columns.names if name in table.body or name in ("dataschema", "schema", "grouptype")]
        rows = spark.table(table.name).select("registryid", F.lit(table.kind).alias("kind"), "xid", uri, *names)
        rows = rows.join(F.broadcast(documents), on=["registryid", "document_uri"], how="left")
        if entity == "message":
            rows = rows.withColumn("container", F.substring_index("xid", "/", 3))
            rows = rows.join(held_by, on=["registryid", "container"], how="left")
        else:
            nothing = F.lit(None).cast("string")
            rows = rows.withColumns({"holder_envelope": nothing, "holder_protocol": nothing})
        parts.append(rows.select(*_AROUND, *names).mapInArrow(_checker(entity, names), schema))
    return reduce(DataFrame.unionByName, parts)


def _checker(entity: str, names: list[str]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    schema = to_arrow_schema(StructType([STAGE[name] for name in FOUND]), timezone="UTC")

    def check(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            found = [one for row in batch.to_pylist() for one in _check_row(entity, names, row)]
            yield pa.RecordBatch.from_pylist(found, schema=schema)

    return check


def _check_row(entity: str, names: list[str], row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    known = {name: _value(name, row[name]) for name in names if row[name] is not None and name not in ("extensions", "grouptype")}
    if entity == "messagegroup" and row.get("grouptype") == "schemagroups":
        entity = "schemagroup"
    ident = row["xid"].split("/")[4 if entity in ("message", "meta") else 2] if row["xid"] != "/" else ""
    extensions = _value("extensions", row["extensions"]) if row.get("extensions") else None
    protocol = row["holder_protocol"]
    family = protocol.split("/", 1)[0].upper() if protocol else None
    subject = Subject(entity, known, ident, family, row["holder_envelope"], row["dialect"] or "", extensions)
    at = Pointer(row["xid"].replace("~", "~0")) if row["xid"] != "/" else WHOLE
    for path, rule_id, message, severity in check_entity(subject):
        rule = RULES[rule_id]
        pointer = below(at, *path)
        identity = (row["registryid"], row["document_uri"], rule_id, row["xid"], pointer, message, "kept")
        yield {
            "row": "finding",
            "document_uri": row["document_uri"],
            "registryid": row["registryid"],
            "kind": row["kind"],
            "xid": row["xid"],
            "finding": {
                "violation_id": violation_id(*identity),
                "pointer": pointer,
                "rule_id": rule_id,
                "severity": severity or rule.severity,
                "action": "kept",
                "message": message,
                "hint": rule.hint,
            },
        }


def _value(name: str, value: Any) -> Any:
    if name in _JSON_COLUMNS:
        return orjson.loads(value)
    return dict(value) if name == "labels" else value
