"""What a planner decided becomes a plan: rows of the log, effective definitions, facts of documents, findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from lakehouse.domain.bodies import EntityBodies
from lakehouse.domain.documents import (
    ClaimKey,
    Facts,
    Key,
    Uri,
    added_to,
    as_json,
    by_document,
    completed,
    disputes_of,
)
from lakehouse.domain.flatattributes import flat_attributes_of_body
from lakehouse.domain.ownership import (
    REPORT_HINTS,
    Dispute,
    Report,
    Verdict,
    disputes_after,
    is_reported,
    reports,
)
from lakehouse.domain.versions import with_isdefault
from lakehouse.errors import PruneRefused
from lakehouse.ingest.planner import Planner
from lakehouse.ingest.stagerows import Finding, is_root
from lakehouse.log.digests import folded
from lakehouse.log.head import LOGGED
from lakehouse.log.plan import Decided, Plan
from lakehouse.readmodel.lookups import VERSION_KINDS
from lakehouse.rules.findings import FINDINGS
from lakehouse.store.keys import KEY, LIFE
from lakehouse.store.schema import CHANGES, DOCUMENT_BODY, EFFECTIVE_MESSAGES, ENTITY_TABLES, TABLE_OF_KIND
from lakehouse.text.names import WHOLE, JsonText, RegistryId, Xid
from lakehouse.text.problems import violation_id
from lakehouse.text.xid import xid_of_resource

_CLAIM = StructType([StructField("document_uri", StringType())])
# What the commit and the user's expectations read of a comparison.
_COMPARED = StructType(
    [
        *(CHANGES[name] for name in (*KEY, "op")),
        StructField("refused", StringType()),
        StructField("document_uri", StringType()),
        *(CHANGES[name] for name in ("content_hash", *LIFE, "document_uris")),
        StructField("isdefault", BooleanType()),
        StructField("stored_in", LongType()),
        StructField("stored_content_hash", StringType()),
        StructField("flipped", BooleanType()),
        StructField("agreed", ArrayType(_CLAIM)),
        StructField("displaced", ArrayType(StringType())),
    ]
)
_DOCUMENTS = StructType([*(CHANGES[name] for name in (*LOGGED, "body"))])
_LOGGED = StructType([*(CHANGES[name] for name in (*LOGGED, "body", "raw", "attributes"))])
_EFFECTIVE = StructType([*EFFECTIVE_MESSAGES, StructField("is_there", BooleanType())])
_MOST_DEFINITIONS = 5000  # that are computed here


class PlanWriter:
    """Writes down what was decided: rows of the log, facts of documents, findings."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.compared = planner.compared
        self.known, self.gone, self.state = planner.known, planner.gone, planner.state

    def plan(self, known: DataFrame, uncounted: list[Finding], max_depth: int | None) -> Plan:
        """Plan what was decided.

        Args:
            known: as from `baseline.current_documents`.
            uncounted: findings of the stage that the facts of its documents do not count.
            max_depth: how many bases of a message are followed; None: its effective definition is not wanted.

        Raises:
            PruneRefused: pruning would delete more than half of the registries' entities.
        """
        planner, spark = self.planner, self.planner.spark
        counts: dict[str, dict[str, int]] = {table.name: {} for table in ENTITY_TABLES}
        for (table, outcome), n in Counter(map(_outcome, self.compared.items())).items():
            counts[table][outcome] = n
        reported = [
            self._finding(key, report) for key, one in self.compared.items() for report in reports(one, is_registry=is_root(key))
        ]
        kept = self._kept()
        for uri in (kept or {}).keys() - self.known.keys():
            facts_before = planner.lookups.document(uri)
            if facts_before is not None:
                self.known[uri] = facts_before
        facts = self._facts([*planner.findings, *uncounted, *reported], kept)
        documents = self._documents(facts, kept)
        if planner.policy.prune and not planner.policy.force:
            self._guard_prune(counts)
        changed = {key: one for key, one in self.compared.items() if one.op is not None}
        digest = folded(
            (*key, one.op, one.content_hash, one.epoch, one.createdat, one.modifiedat, one.document_uris)
            for key, one in changed.items()
        )
        digest ^= folded((*uri[:1], "document", uri[1], op, body) for uri, op, body in documents)
        findings = [*planner.read_findings, *planner.findings, *reported]
        every = {one["finding"]["violation_id"]: one for one in findings}
        recorded = planner.lookups.recorded(every)
        decided = Decided(
            findings=findings,
            has_new_findings=len(recorded) < len(every),
            log_rows=_frame(spark, [self._log_row(key, one) for key, one in changed.items()], _LOGGED),
            effective=None if max_depth is None else _Definitions(planner).rows(max_depth),
            facts=list(facts.values()),
            written={(one.document_uri, *key) for key, one in changed.items() if one.document_uri is not None},
            changed=sorted((*key, one.op) for key, one in changed.items()),
        )
        return Plan(
            planner.head,
            planner.committed_at,
            known,
            _compared_frame(spark, self.compared),
            _frame(spark, [one for named, one in every.items() if named not in recorded], FINDINGS),
            _facts_frame(spark, facts),
            _documents_frame(spark, documents),
            counts,
            len(documents),
            f"{digest:016x}",
            False,
            sum(bool(one.displaced) for one in self.compared.values()),
            decided,
        )

    def _log_row(self, key: Key, one: Verdict) -> dict[str, Any]:
        """Return a row of the log: with the text of a staged document, or as it is published where owners or dates change."""
        if one.document_uri is not None:
            body, raw, attributes, _ = self.planner.stage.texts[ClaimKey(one.document_uri, key)]
        else:
            entity = self.planner.lookups.entity(key.registryid, key.xid)
            assert entity is not None
            body, raw = entity.body, entity.raw
            attributes = dict(flat_attributes_of_body(body)) if key.kind in VERSION_KINDS else None
        if one.flipped:
            body, raw = with_isdefault(body, bool(one.isdefault)), body if raw is None else raw
        return key._asdict() | {
            "op": one.op,
            "content_hash": one.content_hash,
            "epoch": one.epoch,
            "createdat": one.createdat,
            "modifiedat": one.modifiedat,
            "document_uris": one.document_uris,
            "body": body,
            "raw": raw,
            "attributes": None if attributes is None else list(attributes.items()),
        }

    def _kept(self) -> dict[Uri, Any] | None:
        """Return what documents keep of the plan; None: no dispute there was or is."""
        broken = [claim for claim in self.planner.refused.claims if claim.document_uri not in self._owners(claim.key)]
        has_reports = any(is_reported(one) for one in self.compared.values())
        if not has_reports and not self.planner.disputes and not self.planner.refused.claims:
            return None
        after = [(key, each) for key, one in self.compared.items() for each in disputes_after(one, is_registry=is_root(key))]
        after += [(one.key, one.dispute) for one in self.planner.disputes if one.dispute.holds and one.is_read]
        waiting = {ClaimKey(one.dispute.document_uri, one.key) for one in self.planner.disputes if one.dispute.holds}
        after += [(claim.key, Dispute(claim.document_uri, None)) for claim in broken if claim not in waiting]
        return by_document(after)

    def _owners(self, key: Key) -> tuple[str, ...]:
        stored = self.state.get(key)
        return () if stored is None else stored.document_uris

    def _facts(self, findings: Iterable[Finding], kept: Mapping[Uri, Any] | None) -> dict[Uri, Facts]:
        """Return the facts of the documents that were read."""
        ids: defaultdict[Uri, set[str]] = defaultdict(set)
        refused: defaultdict[Uri, set[tuple[str, str | None]]] = defaultdict(set)
        for one in findings:
            uri = Uri(one["registryid"], one["document_uri"])
            ids[uri].add(one["finding"]["violation_id"])
            if one["finding"]["action"] == "quarantined" and one["kind"] in TABLE_OF_KIND:
                refused[uri].add((TABLE_OF_KIND[one["kind"]].name, one["xid"]))
        after = {
            uri: completed(facts, ids.get(uri, ()), refused.get(uri, ()))
            for uri, facts in self.planner.stage.documents.items()
            if facts["status"] != "unchanged"
        }
        if kept is not None:
            after = {uri: facts | {"disputes": disputes_of(kept.get(uri))} for uri, facts in after.items()}
        return after

    def _documents(self, facts: Mapping[Uri, Facts], kept: Mapping[Uri, Any] | None) -> list[tuple[Uri, str, str | None]]:
        """Return the documents whose facts differ from those of their last load, and those that are gone: op, body."""
        rows: list[tuple[Uri, str, str | None]] = []
        for uri, own in facts.items():
            before = self.known.get(uri)
            dialect = own.get("dialect")
            if dialect is None and own["status"] == "rejected" and before is not None:
                dialect = before.get("dialect")  # what it said before is still published, and so is the dialect of that
            body = as_json(own | {"dialect": dialect})
            if before is None or body != as_json(before):
                rows.append((uri, "insert" if before is None else "update", body))
        rows += [(uri, "delete", None) for uri in self.gone]
        for uri, one in (kept or {}).items():
            if uri not in facts and uri not in self.gone and uri in self.known:
                rows.append((uri, "update", as_json(added_to(uri, self.known[uri], one))))
        return rows

    def _guard_prune(self, counts: dict[str, dict[str, int]]) -> None:
        """Refuse to delete over half of the entities of the registries concerned (decision 4)."""
        deleted = sum(ops.get("delete", 0) for ops in counts.values())
        concerned = {key.registryid for key, one in self.compared.items() if one.op == "delete"}
        published = sum(key.registryid in concerned for key in self.state)
        if deleted * 2 > published:
            raise PruneRefused(deleted, published)

    def _finding(self, key: Key, report: Report) -> Finding:
        """Return a report as a finding of the document that it is about."""
        uri, action = report.document_uri, report.action
        text = self.planner.stage.texts.get(ClaimKey(uri, key)) if action == "quarantined" else None
        finding = {
            "violation_id": violation_id(key.registryid, uri, report.rule_id, key.xid, WHOLE, report.message, action),
            "pointer": "",
            "rule_id": report.rule_id,
            "severity": report.severity,
            "action": action,
            "message": report.message,
            "hint": REPORT_HINTS[report.rule_id],
            "raw": None if text is None else text.body if text.raw is None else text.raw,
        }
        return {"row": "finding", "document_uri": uri, **key._asdict(), "finding": finding}


class _Definitions:
    """The effective definitions of messages as they would be."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self._keys = {(key.registryid, key.xid): key for key in planner.compared}

    def rows(self, max_depth: int) -> DataFrame | None:
        """Compute the effective definitions that the change may alter; None where they are many."""
        changed = {
            (key.registryid, xid_of_resource(key.xid))
            for key, one in self.planner.compared.items()
            if one.op is not None and key.kind in ("message", "version")
        }
        affected = self.planner.lookups.depending_on(changed)
        if len(affected) > _MOST_DEFINITIONS:
            return None
        bodies = EntityBodies(self._body, max_depth)
        rows = []
        for registryid, xid in sorted(affected):
            owners = self._owners_after(Key(registryid, "message", xid))
            if owners is None:
                rows.append({"registryid": registryid, "xid": xid, "snapshot_id": self.planner.head.snapshot_id + 1})
                continue
            row = bodies.effective(registryid, xid)
            maps = {name: None if row[name] is None else list(row[name].items()) for name in ("labels", "attributes", "inferred")}
            own = {"document_uris": owners, "snapshot_id": self.planner.head.snapshot_id + 1, "is_there": True}
            rows.append(row | maps | own)
        return _frame(self.planner.spark, rows, _EFFECTIVE)

    def _body(self, registryid: RegistryId, xid: Xid) -> JsonText | None:
        """Return the body of an entity as it would be published; None: it would not be."""
        key = self._keys.get((registryid, xid))
        entity = self.planner.lookups.entity(registryid, xid)
        if key is None:
            return None if entity is None else entity.body
        one = self.planner.compared[key]
        if one.op == "delete" or (one.op is None and one.stored is None):
            return None
        body = self.planner.stage.texts[ClaimKey(one.document_uri, key)].body if one.document_uri is not None else None
        if body is None and entity is not None:
            body = entity.body
        return with_isdefault(body, bool(one.isdefault)) if body is not None and one.flipped else body

    def _owners_after(self, key: Key) -> tuple[str, ...] | None:
        """Return the documents that would hold an entity; None: it would not be there."""
        if self._body(key.registryid, key.xid) is None:
            return None
        if key in self.planner.compared:
            return self.planner.compared[key].document_uris
        entity = self.planner.lookups.entity(key.registryid, key.xid)
        return None if entity is None else tuple(entity.document_uris)


def _compared_frame(spark: SparkSession, compared: Mapping[Key, Verdict]) -> DataFrame:
    rows = [
        key._asdict()
        | {
            "op": one.op,
            "refused": one.refused,
            "document_uri": one.document_uri,
            "content_hash": one.content_hash,
            "epoch": one.epoch,
            "createdat": one.createdat,
            "modifiedat": one.modifiedat,
            "document_uris": one.document_uris,
            "isdefault": one.isdefault,
            "stored_in": None if one.stored is None else one.stored.snapshot_id,
            "stored_content_hash": None if one.stored is None else one.stored.content_hash,
            "flipped": one.flipped,
            "agreed": [{"document_uri": claim.document_uri} for claim in one.agreed],
            "displaced": one.displaced,
        }
        for key, one in compared.items()
    ]
    return _frame(spark, rows, _COMPARED)


def _facts_frame(spark: SparkSession, facts: Mapping[Uri, Facts]) -> DataFrame:
    texts = [{"registryid": uri.registryid, "xid": uri.document_uri, "facts": as_json(own)} for uri, own in facts.items()]
    schema = StructType([StructField(name, StringType()) for name in ("registryid", "xid", "facts")])
    return _frame(spark, texts, schema).withColumn("facts", F.from_json("facts", DOCUMENT_BODY))


def _documents_frame(spark: SparkSession, documents: list[tuple[Uri, str, str | None]]) -> DataFrame:
    rows = [
        {"registryid": uri.registryid, "kind": "document", "xid": uri.document_uri, "op": op, "body": body}
        for uri, op, body in documents
    ]
    return _frame(spark, rows, _DOCUMENTS)


def _frame(spark: SparkSession, rows: list[dict[str, Any]], schema: StructType) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, to_arrow_schema(schema, timezone="UTC")))


def _outcome(item: tuple[Key, Verdict]) -> tuple[str, str]:
    key, one = item
    return TABLE_OF_KIND[key.kind].name, one.op or ("unchanged" if one.refused is None else "refused")
