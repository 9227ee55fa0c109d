"""A large load of new registries, planned in tasks: bundles of documents, with what their references lead to.

Where nothing is published that documents could have to do with, what decides about an entity is in its own document, or in those
that hold the same groups; an endpoint and the groups that it names belong together, too. Such documents form a bundle. A task
plans it as the driver plans a small ingest (`planner`, `planwriter`). It looks up nothing but what references of the bundle lead
to in other bundles, which it takes as published as staged. If another task refuses any of that, Spark plans the whole.

Each document holds its registry, too: so the driver plans those, and a task has what the first document says of each.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import reduce
from operator import xor
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.dialects.detection import DRAFT
from lakehouse.dialects.tables import has_rule
from lakehouse.domain.documents import as_json
from lakehouse.domain.neighbours import RuleLimits
from lakehouse.domain.ownership import Policy
from lakehouse.domain.relations import UNIQUE_TYPE
from lakehouse.export.selection import references_of
from lakehouse.ingest.parse.batches import cut_batches, map_column, record_batch
from lakehouse.ingest.parse.parse import without_collector
from lakehouse.ingest.planner import Planner, decide
from lakehouse.ingest.planwriter import DOCUMENTS, LOG_ROWS, RECONCILED, TEXTS, PlanWriter, WrittenPlan
from lakehouse.ingest.stagerows import Finding, StageRow, collect_stage, is_root, stage_columns
from lakehouse.log.baseline import concerned_registries, find_moved
from lakehouse.log.effectivetable import EFFECTIVE
from lakehouse.log.plan import Plan
from lakehouse.log.snapshotfacts import Head
from lakehouse.readmodel.lookups import Lookups
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.rules.findings import FINDING_COLUMNS
from lakehouse.store.deltatables import open_table
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import frame_of, is_empty
from lakehouse.store.schema import DOCUMENT_BODY, ENTITY_TABLES, FINDING, arrow_schema_of
from lakehouse.store.xids import group_of, message_of
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import xid_of_group

# Rows of entities, findings, facts of documents, documents that change, effective definitions; and one of totals, as JSON.
PLANNED = StructType(
    [
        StructField("row", StringType()),
        *RECONCILED,
        *TEXTS,
        StructField("finding", FINDING),
        StructField("definition", EFFECTIVE),
    ]
)
# Of a bundle: a task holds all of it.
_MOST_ROWS = 20_000
_MOST_BYTES = 64 << 20  # of texts
_MOST_LOOKUPS = 10_000  # units of other bundles
BUNDLES_A_CORE = 4
_MOST_LINKS = 500_000  # groups of documents, references and look-ups, each, that the driver holds
LOOKED_UP = "looked up"
_MAPS = ("labels", "attributes", "inferred")

_Document = tuple[str, str]  # URI and registry


@dataclass(frozen=True, kw_only=True)
class BundleRules:
    """How documents are planned.

    Attributes:
        policy: what the ingest may do.
        limits: settings of the rules between entities; None: they are not applied.
        strict: refuse a document whole when it has an error.
        max_depth: how many bases of a message are followed; None: effective definitions are not wanted.
    """

    policy: Policy
    limits: RuleLimits | None
    strict: bool
    max_depth: int | None


def plan_bundles(
    spark: SparkSession,
    head: Head,
    stage: DataFrame,
    existing_documents: DataFrame,
    dialects: Iterable[str],
    rules: BundleRules,
    keep: Callable[[DataFrame], DataFrame],
) -> Plan | None:
    """Plan the documents of a stage, if all of their registries are new.

    Args:
        spark: the session.
        head: the snapshot that the stage is compared with.
        stage: columns `schema.STAGE`, as the documents were read.
        existing_documents: as from `baseline.current_documents`.
        dialects: those of the documents.
        rules: how they are planned.
        keep: writes what the tasks return, columns `PLANNED`, and returns it as it is read from there.

    Returns:
        None where Spark has to plan: something is published that the documents may have to do with; they are too large for one
        bundle; a document is refused whole, or what others refer to is not published as staged; a dialect has rules about a whole
        registry, or Versions that the catalog numbers.
    """
    if any(dialect == DRAFT or has_rule(dialect, UNIQUE_TYPE) for dialect in dialects):
        return None
    if head.snapshot_id and (rules.policy.prune or not _is_all_new(spark, stage, existing_documents)):
        return None
    bundles = find_bundles(stage, BUNDLES_A_CORE * spark.sparkContext.defaultParallelism)
    if bundles is None:
        return None
    registries = collect_stage(stage.filter((F.col("row") == "entity") & (F.col("kind") == "registry")))
    committed_at = head.next_moment()
    of_registries = _plan_registries(head, committed_at, rules, registries)
    published = {(row["document_uri"], row["registryid"]) for row in of_registries.log_rows()}
    first = {row.registryid: row for row in registries if _document_of(row) in published}
    task = _Task(head, committed_at, rules, first)
    looked_up = rows_looked_up(spark, stage, bundles)
    rows = placed(spark, stage, bundles, looked_up).select(*stage_columns())
    planned = keep(rows.mapInArrow(task, PLANNED))
    if not is_empty(_differing(looked_up, planned)):
        return None
    totals = [json.loads(row["body"]) for row in planned.filter("row = 'total'").select("body").collect()]
    if {tuple(document) for total in totals for document in total["registries"]} != set(map(_document_of, registries)):
        return None  # a document was refused whole, and with it what it says of its registry
    plan = _as_plan(spark, head, committed_at, existing_documents, planned, totals, of_registries)
    return plan if rules.max_depth is not None else replace(plan, effective=None)


def _is_all_new(spark: SparkSession, stage: DataFrame, existing_documents: DataFrame) -> bool:
    """Return whether the log has nothing of the registries, now or in the past, and no document came from another one."""
    documents = stage.filter(F.col("row") == "document").select("registryid", "xid")
    loaded = existing_documents.join(documents, on=["registryid", "xid"], how="left_semi").select("registryid", "xid")
    if not is_empty(loaded.unionByName(find_moved(existing_documents, stage))):
        return False
    entities = stage.filter(F.col("row") == "entity")  # a document without any has nothing to do with its registry
    log, registries = open_table(spark, "changes"), concerned_registries(entities)
    if registries is not None:  # by their names, Delta skips files
        return is_empty(log.filter(F.col("registryid").isin(registries)))
    return is_empty(log.join(F.broadcast(entities.select("registryid").distinct()), on="registryid", how="left_semi"))


# Which documents belong together

_Unit = tuple[str, str]  # registry and XID of a group, endpoint, message or schema
_Group = tuple[str, str]  # registry and XID of a group or endpoint, in lower case: ids that differ in that are variants of one


class UnitLookup(NamedTuple):
    """A unit that references of a bundle lead to, and that is in another one."""

    registryid: str
    unit: str
    bundle: int


class Bundles(NamedTuple):
    """Which documents are planned together.

    Attributes:
        numbers: the bundle of each document, from 0.
        lookups: what references of a bundle lead to in another one, and the group of that.
    """

    numbers: dict[str, int]
    lookups: set[UnitLookup]


class _Size(NamedTuple):
    """What a task has to hold: rows of the stage, bytes of their texts."""

    rows: int = 0
    bytes: int = 0

    def joined(self, other: _Size) -> _Size:
        return _Size(self.rows + other.rows, self.bytes + other.bytes)

    @property
    def is_too_large(self) -> bool:
        return self.rows > _MOST_ROWS or self.bytes > _MOST_BYTES


class _Links:
    """What belongs together, while it is found out."""

    def __init__(self) -> None:
        self._parents: dict[Hashable, Hashable] = {}

    def root(self, node: Hashable) -> Hashable:
        path = []
        while (parent := self._parents.get(node, node)) != node:
            path.append(node)
            node = parent
        for passed in path:
            self._parents[passed] = node
        return node

    def join(self, node: Hashable, other: Hashable) -> None:
        self._parents[self.root(other)] = self.root(node)


def find_bundles(stage: DataFrame, wanted: int, whole: Collection[str] = ()) -> Bundles | None:
    """Find the documents that are planned together.

    Args:
        stage: columns row, document_uri, registryid, kind, xid, body and raw of `schema.STAGE`.
        wanted: at least so many bundles, where documents allow that.
        whole: registries that belong together whole.

    Returns:
        None where one would be too large, or too much would have to be looked at.
    """
    is_entity = F.col("row") == "entity"
    group = F.when(is_entity & (F.col("kind") != "registry"), F.lower(group_of("xid"))).alias("group")
    text_bytes = F.sum(F.coalesce(F.octet_length("body"), F.lit(0)) + F.coalesce(F.octet_length("raw"), F.lit(0)))
    counted = stage.groupBy("document_uri", "registryid", group).agg(F.count("*").alias("rows"), text_bytes.alias("bytes"))
    parts = counted.limit(_MOST_LINKS + 1).collect()
    sizes: defaultdict[str, _Size] = defaultdict(_Size)
    places: dict[_Group, str] = {}
    links = _Links()
    for document_uri, registryid, name, rows, bytes_ in parts:
        sizes[document_uri] = sizes[document_uri].joined(_Size(rows, bytes_))
        if registryid in whole:
            links.join(document_uri, (registryid, ""))
        if name is not None:
            links.join(document_uri, (registryid, name))
            places[registryid, name] = document_uri
    if len(parts) > _MOST_LINKS or any(size.is_too_large for size in sizes.values()):
        return None
    references = references_of(stage.filter(is_entity), "registryid").filter("source <> target").distinct()
    pairs = references.limit(_MOST_LINKS + 1).collect()
    if len(pairs) > _MOST_LINKS:
        return None
    for registryid, source, target in pairs:
        if target.count("/") == 2 and _group(registryid, target) in places:  # an endpoint looks at all of a group's messages
            links.join(_group(registryid, source), _group(registryid, target))
    together: defaultdict[Hashable, list[str]] = defaultdict(list)
    for document_uri in sorted(sizes):
        together[links.root(document_uri)].append(document_uri)
    numbers = _filled(list(together.values()), sizes, wanted)
    if numbers is None:
        return None
    edges: defaultdict[_Unit, list[str]] = defaultdict(list)
    for registryid, source, target in pairs:
        edges[registryid, source].append(target)
    lookups = _follow(edges, {place: numbers[document_uri] for place, document_uri in places.items()})
    return None if lookups is None else Bundles(numbers, lookups)


def _group(registryid: str, xid: str) -> _Group:
    return registryid, xid_of_group(Xid(xid)).lower()


def _filled(together: Sequence[Sequence[str]], sizes: Mapping[str, _Size], wanted: int) -> dict[str, int] | None:
    """Put documents that belong together into bundles, one after the other; None: one would be too large."""
    enough = sum(size.rows for size in sizes.values()) // wanted
    numbers: dict[str, int] = {}
    number, filled = 0, _Size()
    for documents in together:
        more = reduce(_Size.joined, (sizes[document_uri] for document_uri in documents))
        if more.is_too_large:
            return None
        if filled.rows and (filled.rows + more.rows > enough or filled.joined(more).is_too_large):
            number, filled = number + 1, _Size()
        filled = filled.joined(more)
        numbers |= dict.fromkeys(documents, number)
    return numbers


def _follow(edges: Mapping[_Unit, list[str]], bundle_of: Mapping[_Group, int]) -> set[UnitLookup] | None:
    """Follow the references of each bundle into others, and on from there; None: to too much."""
    lookups: set[UnitLookup] = set()
    counts = Counter[int]()
    for (registryid, source), targets in edges.items():
        own = bundle_of[_group(registryid, source)]
        left = list(targets)
        while left:
            target = left.pop()
            lookup = UnitLookup(registryid, target, own)
            if lookup not in lookups and bundle_of.get(_group(registryid, target)) not in (None, own):
                lookups.update((lookup, UnitLookup(registryid, xid_of_group(Xid(target)), own)))
                counts[own] += 1
                if counts[own] > _MOST_LOOKUPS or len(lookups) > _MOST_LINKS:
                    return None
                left += edges.get((registryid, target), [])
    return lookups


def rows_looked_up(spark: SparkSession, stage: DataFrame, bundles: Bundles) -> DataFrame:
    """Return the staged rows that references lead to: columns of `stage`, and bundle, that of the references."""
    schema = pa.schema({"registryid": pa.string(), "unit": pa.string(), "bundle": pa.int32()})
    lookups = pa.Table.from_pylist([lookup._asdict() for lookup in sorted(bundles.lookups)], schema)
    wanted = spark.createDataFrame(lookups)
    entities = stage.filter((F.col("row") == "entity") & (F.col("kind") != "registry"))
    same = (entities["registryid"] == wanted["registryid"]) & (message_of(entities["xid"]) == wanted["unit"])
    return entities.join(F.broadcast(wanted), on=same).select(*(entities[name] for name in stage.columns), "bundle")


def placed(spark: SparkSession, stage: DataFrame, bundles: Bundles, looked_up: DataFrame) -> DataFrame:
    """Return the rows of each bundle in a partition: columns of `stage`; what is only looked up has `LOOKED_UP` as `row`."""
    numbers = pa.table({"document_uri": list(bundles.numbers), "bundle": pa.array(bundles.numbers.values(), pa.int32())})
    own = stage.join(F.broadcast(spark.createDataFrame(numbers)), on="document_uri")
    both = own.select(*stage.columns, "bundle").unionByName(looked_up.withColumn("row", F.lit(LOOKED_UP)))
    partitions = max(bundles.numbers.values(), default=0) + 1
    return both.repartitionById(partitions, "bundle").select(*stage.columns)


def _differing(looked_up: DataFrame, planned: DataFrame) -> DataFrame:
    """Return what was looked up and is not published as it was staged."""
    published = planned.filter("row = 'entity' AND op = 'insert'").select(*KEY, "content_hash")
    return looked_up.join(published, on=[*KEY, "content_hash"], how="left_anti")


# What a task does


def _document_of(row: StageRow) -> _Document:
    return row.document_uri, row.registryid


def _entity_of(row: StageRow) -> Entity:
    """Return a staged entity as if it were published."""
    body, uris = row.body or JsonText(""), [row.document_uri]
    life = row.epoch, row.createdat, row.modifiedat
    return Entity(row.registryid, row.kind, row.xid, *life, body, row.raw, uris, row.content_hash, 0, 0)


class _Task:
    """Plans the rows of one partition, which are a bundle: batches of rows as of `StageRow` to batches of `PLANNED`.

    first: what is published of each registry, which is what the first of its documents says (decision 3).
    """

    def __init__(self, head: Head, committed_at: datetime, rules: BundleRules, first: dict[RegistryId, StageRow]) -> None:
        self.head, self.committed_at, self.rules, self.first = head, committed_at, rules, first

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Plan the rows."""
        with without_collector():
            rows = [StageRow._make(values) for batch in batches for values in zip(*_columns(batch), strict=True)]
            if rows:
                yield from self._planned(rows)

    def _planned(self, rows: list[StageRow]) -> Iterator[pa.RecordBatch]:
        rules = self.rules
        lookups = Lookups(None, 0)
        lookups.supply(_entity_of(row) for row in rows if row.row == LOOKED_UP)
        rows = [row for row in rows if row.row != LOOKED_UP]
        own = {_document_of(row) for row in rows}
        first_rows = (self.first[registryid] for registryid in {row.registryid for row in rows} & self.first.keys())
        rows += [row for row in first_rows if _document_of(row) not in own]
        planner = Planner(self.head, rows, rules.policy, lookups, self.committed_at)
        decide(planner, rules.limits, strict=rules.strict, uncounted=[])
        roots = {key: outcome for key, outcome in planner.verdicts.items() if is_root(key)}
        of_roots = [finding for key, outcome in roots.items() for finding in PlanWriter(planner).reports_of(key, outcome)]
        planner.verdicts = {key: outcome for key, outcome in planner.verdicts.items() if key not in roots}
        written = PlanWriter(planner).write(of_roots, rules.max_depth)
        documents = sorted(
            (uri, key.registryid) for key in roots for uri in planner.stage.claims.get(key, {}) if (uri, key.registryid) in own
        )
        total = {
            "counts": written.counts,
            "digest": written.digest,
            "documents": len(written.documents),
            "registries": documents,
        }
        assert written.definitions is not None or rules.max_depth is None, "a bundle has fewer definitions than are computed"
        yield from _batches_of(written, [*written.findings, *of_roots])
        yield _batch({"row": ["total"], "body": [json.dumps(total)]})


def _columns(batch: pa.RecordBatch) -> Iterator[list[Any]]:
    """Yield the values of each column of `StageRow`, maps as dictionaries."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = column.to_pylist()
        yield [None if value is None else dict(value) for value in values] if name == "attributes" else values


def _batches_of(written: WrittenPlan, findings: list[Finding]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan."""
    # By kind, so that whoever reads one kind skips pages of the file.
    entities = sorted(zip(written.entities, written.texts, strict=True), key=lambda row: row[0][1])
    yield from map(_entities, cut_batches(entities, lambda row: _length(row[1])))
    for some in cut_batches(findings, lambda finding: len(finding["finding"]["raw"] or "")):
        yield _batch({name: [finding[name] for finding in some] for name in FINDING_COLUMNS})
    facts = [(*uri, as_json(own)) for uri, own in written.facts.items()]
    for of_documents in cut_batches(facts, lambda row: len(row[2])):
        registries, uris, bodies = map(list, zip(*of_documents, strict=True))
        yield _batch({"row": ["facts"] * len(uris), "registryid": registries, "xid": uris, "body": bodies})
    changed = [(*uri, "document", op, body) for uri, op, body in written.documents]
    for rows in cut_batches(changed, lambda row: len(row[4] or "")):
        columns = dict(zip(("registryid", "xid", "kind", "op", "body"), map(list, zip(*rows, strict=True)), strict=True))
        yield _batch({"row": columns["kind"], **columns})
    for definitions in cut_batches(written.definitions or [], lambda row: sum(map(len, dict(row["attributes"]).values()))):
        yield _batch({"row": ["definition"] * len(definitions), "definition": _definitions(definitions)})


def _entities(rows: Sequence[tuple[tuple[Any, ...], tuple[Any, ...] | None]]) -> pa.RecordBatch:
    no_texts = (None,) * len(TEXTS)
    values = zip(*(entity + (texts or no_texts) for entity, texts in rows), strict=True)
    columns = dict(zip((*RECONCILED.names, *TEXTS.names), map(list, values), strict=True))
    return _batch({"row": ["entity"] * len(rows), **columns, "attributes": map_column(columns["attributes"])})


def _length(texts: tuple[Any, ...] | None) -> int:
    body, raw, _ = texts or ("", None, None)
    return len(body) + len(raw or "")


def _definitions(rows: Sequence[Mapping[str, Any]]) -> pa.Array:
    fields = list(_SCHEMA.field("definition").type)
    arrays = []
    for field in fields:
        values = [row.get(field.name) for row in rows]
        arrays.append(map_column(values) if field.name in _MAPS else pa.array(values, field.type))
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _batch(columns: Mapping[str, Any]) -> pa.RecordBatch:
    return record_batch(_SCHEMA, len(columns["row"]), columns)


_SCHEMA = arrow_schema_of(PLANNED)


# What comes of it


def _plan_registries(head: Head, committed_at: datetime, rules: BundleRules, registries: list[StageRow]) -> WrittenPlan:
    """Plan the registries themselves; what is reported of them the tasks report."""
    planner = Planner(head, registries, rules.policy, Lookups(None, 0), committed_at)
    decide(planner, None, strict=rules.strict, uncounted=[])
    return PlanWriter(planner).write([], None)


def _as_plan(
    spark: SparkSession,
    head: Head,
    committed_at: datetime,
    existing_documents: DataFrame,
    planned: DataFrame,
    totals: list[dict[str, Any]],
    of_registries: WrittenPlan,
) -> Plan:
    counts: dict[str, Counter[str]] = {table.name: Counter() for table in ENTITY_TABLES}
    for more in (of_registries.counts, *(total["counts"] for total in totals)):
        for table, outcomes in more.items():
            counts[table].update(outcomes)
    digest = reduce(xor, (total["digest"] for total in totals), of_registries.digest)
    rows, logged = of_registries.reconciled_rows(), of_registries.log_rows()
    entities = planned.filter("row = 'entity'")
    facts = planned.filter("row = 'facts'").select("registryid", "xid", F.from_json("body", DOCUMENT_BODY).alias("facts"))
    definitions = planned.filter("row = 'definition'").select("definition.*")
    return Plan(
        head,
        committed_at,
        existing_documents,
        reconciled=entities.select(*RECONCILED.names).unionByName(frame_of(spark, rows, RECONCILED)),
        findings=planned.filter("row = 'finding'").select(*FINDING_COLUMNS),
        facts=facts,
        documents=planned.filter("row = 'document'").select(*DOCUMENTS.names),
        counts={table: dict(outcomes) for table, outcomes in counts.items()},
        document_rows=sum(total["documents"] for total in totals),
        digest=f"{digest:016x}",
        whole_stage=False,
        displaced=0,
        registries_are_new=True,
        log_rows=entities.filter("op IS NOT NULL").select(*LOG_ROWS.names).unionByName(frame_of(spark, logged, LOG_ROWS)),
        effective=definitions,
    )
