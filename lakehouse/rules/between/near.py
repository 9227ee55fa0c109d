"""What of the catalog a small change has to do with, read by keys: so the work follows the change, and not the catalog.

Of a small catalog all is read at once. Of a large one the rules between entities need what the staged documents say and held,
what depends on what changes of it (messages that extend it, aliases of it, endpoints that carry it), and what all these name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from lakehouse.dialects.tables import that_ask
from lakehouse.domain.relations import ONE_TYPE
from lakehouse.log.effective import find_near
from lakehouse.log.ground import OPTIONAL, STATE, optional_columns
from lakehouse.rules.between.lookedat import TABLES, published_rows, schema_targets, staged_rows
from lakehouse.store.frames import is_empty, keep, no_rows, on_driver
from lakehouse.store.keys import KEY
from lakehouse.store.schema import ENDPOINTS, GROUPS, MESSAGES, REGISTRIES, SCHEMAVERSIONS, VERSIONS, Table
from lakehouse.store.tables import open_table
from lakehouse.store.xids import message_of, no_uris
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of_group, xid_of_resource

_RANGES = 20  # of XIDs, that Delta compares with what it knows of each file

# registryid, and XID of a resource: of a group or endpoint, or of a message or schema, which stands for its Versions, too.
_Keys = set[tuple[str, str]]


class Published(NamedTuple):
    """What is published, read from the entity tables before it is asked for, where that is little.

    state: as from `ground.read_state`; rows: as from `published_rows`, of all tables that rules between entities look at; beside:
    KEY of rows that others are judged with, and nothing is told of; None: the rows are all that is published.
    """

    state: DataFrame
    rows: DataFrame
    beside: DataFrame | None


def read_published(spark: SparkSession, used: Iterable[Table]) -> Published:
    """Read all that is published, for the comparison and for the rules between entities.

    Args:
        spark: the session, whose work is small.
        used: the entity tables that hold something, at least one.
    """
    parts = [_stored(open_table(spark, table.name), table) for table in used]
    return _as_published(keep(reduce(DataFrame.unionByName, parts)))


def read_near(
    spark: SparkSession, used: Iterable[Table], stage: DataFrame, known: DataFrame, gone: DataFrame, most: int
) -> Published | None:
    """Read what of a large catalog has to do with a small stage.

    Args:
        spark: the session; `effective_messages` stands at the head, as the tables do.
        used: the entity tables that hold something, at least one.
        stage: columns `schema.STAGE`, few rows that the driver holds.
        known: as from `facts.current_documents`.
        gone: documents of these that are not where they were: registryid, xid.
        most: how many groups, endpoints, messages and schemas are few.

    Returns:
        None where that is more than few. Else all of `state` that the staged documents say or held, with all Versions of it.
    """
    tables = list(used)
    near = _Near(spark, tables, most)
    try:
        judged = near.find(stage, known, gone)
    except _TooMany:
        return None
    nothing = no_rows(spark, _stored(open_table(spark, tables[0].name), tables[0]).schema)
    rows = on_driver(reduce(DataFrame.unionByName, near.parts, nothing))
    keys = rows.select(*KEY).collect()
    beside = [tuple(row) for row in keys if (row["registryid"], xid_of_resource(row["xid"])) not in judged]
    return _as_published(rows)._replace(beside=_frame(spark, beside, *KEY))


def _as_published(rows: DataFrame) -> Published:
    state = rows.select(*KEY, "content_hash", *STATE, *(F.col(f"stored_{name}").alias(name) for name in OPTIONAL))
    looked_at = rows.filter(F.col("kind").isin([table.kind for table in TABLES]))
    return Published(state, looked_at.drop(*STATE, *(f"stored_{name}" for name in OPTIONAL)), None)


def _stored(rows: DataFrame, table: Table) -> DataFrame:
    return published_rows(rows, table, *STATE, *optional_columns(table, "stored_"))


class _TooMany(Exception):
    """A change has to do with more than is few."""


class _Near:
    """Finds keys in the tables, step by step, and fetches what they mean into `parts`."""

    def __init__(self, spark: SparkSession, used: list[Table], most: int) -> None:
        self.parts: list[DataFrame] = []
        self._spark = spark
        self._used = used
        self._most = most
        self._fetched: _Keys = set()  # in lower case: ids that differ in case only are looked at together (MSG-020)

    def find(self, stage: DataFrame, known: DataFrame, gone: DataFrame) -> _Keys:
        """Fetch what a stage has to do with, and give the keys of what may be told of."""
        entities = stage.filter(F.col("row") == "entity")
        said = entities.select(*KEY, "content_hash", "twin_hash").collect()
        own = _resources(said) | self._held(stage, known, gone)
        self._fetch(own | {(registryid, "/") for registryid, _ in own})
        changed = _resources(_changed(said, self.parts))
        texts = entities.filter(F.col("kind").isin([table.kind for table in TABLES]))
        texts = texts.withColumns({"staged": F.lit(True), "_isdefault": F.lit(None).cast("boolean")})
        staged = on_driver(staged_rows(texts))
        following, chains = self._follow(changed, _named_by(staged, *self.parts))
        judged = own | following | self._referring(changed) | self._of_same_type(stage, staged)
        judged |= self._members({key for key in changed if _is_holder(key)})
        judged |= self._carrying(changed | following)
        self._fetch(judged)
        endpoints = {key for key in judged if _is_holder(key) and key[1].startswith("/endpoints/")}
        self._fetch(self._members(_listed_by(endpoints, staged, *self.parts) | endpoints))
        named = _named_by(staged, *self.parts)
        if endpoints:  # what endpoints carry is judged by what it inherits, too
            chains |= self._follow(set(), named)[1]
        self._fetch(chains | named)
        return judged

    def _fetch(self, keys: _Keys) -> None:
        """Read what keys mean, and the groups and endpoints that it lies in, unless it was."""
        wanted = {
            (registryid, xid) for registryid, xid in keys | _holders(keys) if (registryid, xid.lower()) not in self._fetched
        }
        if not wanted:
            return
        self._fetched |= {(registryid, xid.lower()) for registryid, xid in wanted}
        self._check(self._fetched)
        parts = []
        for table in self._used:
            resource = F.col({VERSIONS.name: "message_xid", SCHEMAVERSIONS.name: "schema_xid"}.get(table.name, "xid"))
            rows = open_table(self._spark, table.name)
            if table not in (GROUPS, ENDPOINTS, REGISTRIES):
                rows = rows.filter(_may_hold(wanted))
            rows = self._only(rows, F.lower(resource), {(registryid, xid.lower()) for registryid, xid in wanted})
            parts.append(_stored(rows, table))
        self.parts.append(on_driver(reduce(DataFrame.unionByName, parts)))

    def _held(self, stage: DataFrame, known: DataFrame, gone: DataFrame) -> _Keys:
        """Find what the staged documents held at their last load, and those that are not where they were."""
        # Rows, and not what they are made of: Spark fails on what it infers for a join of frames of one origin.
        read = on_driver(stage.filter(F.col("row") == "document").select("registryid", "xid").unionByName(gone))
        documents = on_driver(
            known.join(F.broadcast(read), on=["registryid", "xid"], how="left_semi").select("registryid", "xid")
        )
        if is_empty(documents):
            return set()
        documents = F.broadcast(documents.withColumnRenamed("xid", "document_uri"))
        parts = []
        for table in self._used:
            rows = open_table(self._spark, table.name)
            each = rows.select("registryid", message_of("xid").alias("xid"), F.explode("document_uris").alias("document_uri"))
            parts.append(each.join(documents, on=["registryid", "document_uri"], how="left_semi").select("registryid", "xid"))
        return self._collect(reduce(DataFrame.unionByName, parts))

    def _follow(self, changed: _Keys, named: _Keys) -> tuple[_Keys, _Keys]:
        """Find the messages that depend on what changes, and all that chains from these, and from what is named, lead over."""
        sources, targets = ({key for key in keys if "/messages/" in key[1]} for keys in (changed, named))
        if not sources | targets or MESSAGES not in self._used:
            return set(), set()
        messages = open_table(self._spark, MESSAGES.name)
        changes, led_to = (_frame(self._spark, keys, "registryid", "xid") for keys in (sources, targets))
        rows = find_near(self._spark, changes, led_to, messages).limit(self._most + 1).collect()
        self._check(rows)
        following = {(row["registryid"], row["xid"]) for row in rows if row["is_affected"]}
        return following, {(row["registryid"], xid) for row in rows for xid in row["depends_on"]}

    def _referring(self, changed: _Keys) -> _Keys:
        """Find the messages that name a schema which changes, or one of a group that does."""
        schemas = {key for key in changed if key[1].startswith("/schemagroups/")}
        if not schemas or VERSIONS not in self._used:
            return set()
        looked_at = published_rows(open_table(self._spark, VERSIONS.name), VERSIONS)
        either = F.array_union(_names(), F.transform(_names(), lambda xid: F.substring_index(xid, "/", 3)))
        each = looked_at.select("registryid", "message_xid", F.explode(either).alias("named"))
        return self._collect(self._only(each, F.col("named"), schemas).select("registryid", "message_xid"))

    def _of_same_type(self, stage: DataFrame, staged: DataFrame) -> _Keys:
        """Find the messages that have the `type` of a staged one, where a dialect wants a type to be one message's."""
        dialect = F.get_json_object("facts", "$.dialect")
        if VERSIONS not in self._used or is_empty(stage.filter(dialect.isin(that_ask(ONE_TYPE)))):
            return set()
        types = {
            (row["registryid"], row["ce_type"]) for row in staged.select("registryid", "ce_type").collect() if row["ce_type"]
        }
        looked_at = published_rows(open_table(self._spark, VERSIONS.name), VERSIONS)
        return self._collect(self._only(looked_at, F.col("ce_type"), types).select("registryid", "message_xid"))

    def _carrying(self, changed: _Keys) -> _Keys:
        """Find the endpoints that hold or list what changes, or name it as their will."""
        if ENDPOINTS not in self._used:
            return set()
        looked_at = published_rows(open_table(self._spark, ENDPOINTS.name), ENDPOINTS)
        named = F.explode(F.array_append(_names(), F.col("xid"))).alias("named")
        each = looked_at.select("registryid", "xid", named)
        return self._collect(self._only(each, F.col("named"), changed | _holders(changed)).select("registryid", "xid"))

    def _members(self, holders: _Keys) -> _Keys:
        """Find the messages of groups and endpoints."""
        if not holders or MESSAGES not in self._used:
            return set()
        messages = open_table(self._spark, MESSAGES.name).filter(_may_hold(holders))
        return self._collect(self._only(messages, F.col("group_xid"), holders).select("registryid", "xid"))

    def _only(self, rows: DataFrame, named: Column, keys: _Keys) -> DataFrame:
        """Keep the rows that name one of the keys."""
        wanted = F.broadcast(_frame(self._spark, keys, "_registryid", "_named"))
        return rows.join(wanted, (rows["registryid"] == F.col("_registryid")) & (named == F.col("_named")), how="left_semi")

    def _collect(self, keys: DataFrame) -> _Keys:
        rows = keys.distinct().limit(self._most + 1).collect()
        self._check(rows)
        return {(row[0], row[1]) for row in rows}

    def _check(self, many: Sized) -> None:
        if len(many) > self._most:
            raise _TooMany


def _changed(said: list[Row], stored: list[DataFrame]) -> list[Row]:
    """Keep what is not published as it is said."""
    rows = [row for part in stored for row in part.select(*KEY, "content_hash").collect()]
    hashes = {(row["registryid"], row["kind"], row["xid"]): row["content_hash"] for row in rows}

    def is_published(row: Row) -> bool:
        stored_hash = hashes.get((row["registryid"], row["kind"], row["xid"]))
        return stored_hash is not None and stored_hash in (row["content_hash"], row["twin_hash"])

    return [row for row in said if not is_published(row)]


def _names() -> Column:
    """Give the resources that a row names, an array."""
    named = [
        F.when(F.col(name).startswith("/"), message_of(name)) for name in ("basemessage", "dataschemaxid", "willmessage", "xref")
    ]
    schemas = F.transform(F.coalesce(schema_targets(), no_uris()), message_of)
    groups = F.filter(F.coalesce("messagegroups", no_uris()), lambda group: group.startswith("/"))
    return F.array_compact(F.concat(F.array(*named), schemas, groups))


def _named_by(*parts: DataFrame) -> _Keys:
    rows = [row for part in parts for row in part.select("registryid", _names().alias("named")).collect()]
    return {(row["registryid"], xid) for row in rows for xid in row["named"]}


def _listed_by(endpoints: _Keys, *parts: DataFrame) -> _Keys:
    """Give the groups that endpoints list."""
    listed = [part.filter("kind = 'endpoint'").select("registryid", "xid", "messagegroups") for part in parts]
    rows = [row for part in listed for row in part.collect() if (row["registryid"], row["xid"]) in endpoints]
    return {(row["registryid"], xid) for row in rows for xid in row["messagegroups"] or () if xid.startswith("/")}


def _may_hold(keys: _Keys) -> Column:
    """Tell of a message, a schema or a Version that keys may mean it: Delta leaves out the files that hold none of these."""
    within = sorted((xid + "/", xid + "0") for _, xid in _holders(keys))  # 0 comes next after /
    if len(within) > _RANGES:
        within = [(within[0][0], max(end for _, end in within))]
    between = [(F.col("xid") >= first) & (F.col("xid") < end) for first, end in within]
    return F.col("registryid").isin(sorted({registryid for registryid, _ in keys})) & reduce(Column.__or__, between)


def _resources(rows: Iterable[Row]) -> _Keys:
    return {(row["registryid"], xid_of_resource(row["xid"])) for row in rows}


def _holders(keys: _Keys) -> _Keys:
    return {(registryid, xid_of_group(Xid(xid))) for registryid, xid in keys}


def _is_holder(key: tuple[str, str]) -> bool:
    return key[1].count("/") == 2


def _frame(spark: SparkSession, rows: Iterable[tuple[str, ...]], *names: str) -> DataFrame:
    """Give rows of texts that the driver holds."""
    columns = zip(*sorted(rows), strict=True)
    empty: list[tuple[str, ...]] = [()] * len(names)
    texts = {name: pa.array(column, pa.string()) for name, column in zip(names, [*columns] or empty, strict=True)}
    return spark.createDataFrame(pa.table(texts))
