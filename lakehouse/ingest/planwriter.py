"""What was decided about an ingest, written down: rows of the log, effective definitions, facts of documents, findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from lakehouse.domain.bases import FlatAttributes
from lakehouse.domain.documents import (
    ClaimKey,
    Facts,
    Key,
    Uri,
    added_to,
    as_json,
    by_document,
    complete_facts,
    disputes_of,
)
from lakehouse.domain.effective import EntityBodies
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
from lakehouse.log.effectivetable import EFFECTIVE, MOST_IN_DRIVER, effective_row
from lakehouse.log.plan import Decided, Plan
from lakehouse.log.snapshotfacts import LOGGED
from lakehouse.readmodel.lookups import VERSION_KINDS
from lakehouse.rules.findings import FINDINGS
from lakehouse.store.keys import KEY, LIFECYCLE
from lakehouse.store.materialize import frame_of
from lakehouse.store.schema import CHANGES, DOCUMENT_BODY, ENTITY_TABLES, TABLE_OF_KIND
from lakehouse.text.names import ROOT, JsonText, RegistryId, Xid
from lakehouse.text.problems import violation_id
from lakehouse.text.xid import xid_of_resource

_CLAIM = StructType([StructField("document_uri", StringType())])
# What the commit and the user's expectations read of a comparison.
RECONCILED = StructType(
    [
        *(CHANGES[name] for name in (*KEY, "op")),
        StructField("refused", StringType()),
        StructField("document_uri", StringType()),
        *(CHANGES[name] for name in ("content_hash", *LIFECYCLE, "document_uris")),
        StructField("isdefault", BooleanType()),
        StructField("stored_in", LongType()),
        StructField("stored_content_hash", StringType()),
        StructField("isdefault_differs", BooleanType()),
        StructField("agreed", ArrayType(_CLAIM)),
        StructField("displaced", ArrayType(StringType())),
    ]
)
TEXTS = StructType([CHANGES[name] for name in ("body", "raw", "attributes")])
DOCUMENTS = StructType([*(CHANGES[name] for name in (*LOGGED, "body"))])
LOG_ROWS = StructType([*(CHANGES[name] for name in LOGGED), *TEXTS])


class WrittenPlan(NamedTuple):
    """A plan as plain values; dates in microseconds.

    Attributes:
        entities: one row for each entity that documents hold or held: values in the order of `RECONCILED`.
        texts: body, raw and attributes of each of these; None: the entity stays as it is.
        findings: all of the ingest, columns `rules.findings.FINDING_COLUMNS`.
        facts: of the documents that were read.
        documents: those whose facts changed, or that are gone: op and body.
        definitions: rows of `effective_messages` that change, columns `EFFECTIVE`; None: they were not computed.
        counts: entities by table and outcome.
        digest: of all rows that are written.
    """

    entities: list[tuple[Any, ...]]
    texts: list[tuple[Any, ...] | None]
    findings: list[Finding]
    facts: dict[Uri, Facts]
    documents: list[tuple[Uri, str, str | None]]
    definitions: list[dict[str, Any]] | None
    counts: dict[str, dict[str, int]]
    digest: int

    def reconciled_rows(self) -> list[dict[str, Any]]:
        """Return the entities, columns `RECONCILED`."""
        return [dict(zip(RECONCILED.names, values, strict=True)) for values in self.entities]

    def log_rows(self) -> list[dict[str, Any]]:
        """Return those that change with their texts, columns `RECONCILED` and `TEXTS`."""
        return [
            row | dict(zip(TEXTS.names, texts, strict=True))
            for row, texts in zip(self.reconciled_rows(), self.texts, strict=True)
            if texts is not None
        ]


class PlanWriter:
    """Writes down what was decided: rows of the log, facts of documents, findings."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.verdicts = planner.verdicts
        self.existing_documents, self.gone, self.state = planner.existing_documents, planner.gone, planner.state

    def plan(self, spark: SparkSession, existing_documents: DataFrame, uncounted: list[Finding], max_depth: int | None) -> Plan:
        """Return what was decided as frames.

        Args:
            spark: the session.
            existing_documents: as from `baseline.current_documents`.
            uncounted: as for `write`.
            max_depth: as for `write`.

        Raises:
            PruneRefused: pruning would delete more than half of a registry's entities.
        """
        planner, written = self.planner, self.write(uncounted, max_depth)
        every = {finding["finding"]["violation_id"]: finding for finding in written.findings}
        recorded = planner.lookups.recorded(every)
        rows, logged = written.reconciled_rows(), written.log_rows()
        effective = None if written.definitions is None else frame_of(spark, written.definitions, EFFECTIVE)
        decided = Decided(
            findings=written.findings,
            has_new_findings=len(recorded) < len(every),
            facts=list(written.facts.values()),
            written={(row["document_uri"], *_key_of(row)) for row in logged if row["document_uri"] is not None},
            changed=sorted((*_key_of(row), row["op"]) for row in logged),
        )
        return Plan(
            planner.head,
            planner.committed_at,
            existing_documents,
            frame_of(spark, rows, RECONCILED),
            frame_of(spark, [finding for named, finding in every.items() if named not in recorded], FINDINGS),
            _facts_frame(spark, written.facts),
            _documents_frame(spark, written.documents),
            written.counts,
            len(written.documents),
            f"{written.digest:016x}",
            False,
            sum(bool(row["displaced"]) for row in rows),
            decided,
            frame_of(spark, logged, LOG_ROWS),
            effective,
        )

    def write(self, uncounted: list[Finding], max_depth: int | None) -> WrittenPlan:
        """Return what was decided as plain values.

        Args:
            uncounted: findings of the stage that the facts of its documents do not count.
            max_depth: how many bases of a message are followed; None: its effective definition is not wanted.

        Raises:
            PruneRefused: pruning would delete more than half of a registry's entities.
        """
        planner = self.planner
        counts = _counts(self.verdicts)
        reported = [finding for key, outcome in self.verdicts.items() for finding in self.reports_of(key, outcome)]
        disputes = self._disputes_by_document()
        for uri in (disputes or {}).keys() - self.existing_documents.keys():
            facts_before = planner.lookups.document(uri)
            if facts_before is not None:
                self.existing_documents[uri] = facts_before
        facts = self._facts([*planner.findings, *uncounted, *reported], disputes)
        documents = self._documents(facts, disputes)
        if planner.policy.prune and not planner.policy.force:
            self._guard_prune()
        changed = ((key, outcome) for key, outcome in self.verdicts.items() if outcome.op is not None)
        digest = folded(
            (*key, outcome.op, outcome.content_hash, outcome.epoch, outcome.createdat, outcome.modifiedat, outcome.document_uris)
            for key, outcome in changed
        )
        digest ^= folded((*uri[:1], "document", uri[1], op, body) for uri, op, body in documents)
        return WrittenPlan(
            entities=[_reconciled_values(key, outcome) for key, outcome in self.verdicts.items()],
            texts=[None if outcome.op is None else self._texts_of(key, outcome) for key, outcome in self.verdicts.items()],
            findings=[*planner.read_findings, *planner.findings, *reported],
            facts=facts,
            documents=documents,
            definitions=None if max_depth is None else _Definitions(planner).rows(max_depth),
            counts=counts,
            digest=digest,
        )

    def reports_of(self, key: Key, outcome: Verdict) -> list[Finding]:
        """Return what is reported of an entity that documents, or a document and the catalog, disagree about."""
        return [self._finding(key, report) for report in reports(outcome, is_registry=is_root(key))]

    def _texts_of(self, key: Key, outcome: Verdict) -> tuple[JsonText, JsonText | None, list[tuple[str, str]] | None]:
        """Return body, raw and attributes of an entity: as a staged document says, or as published otherwise."""
        attributes: Mapping[Any, str] | None
        if outcome.document_uri is not None:
            body, raw, attributes, _ = self.planner.stage.texts[ClaimKey(outcome.document_uri, key)]
        else:
            entity = self.planner.lookups.entity(key.registryid, key.xid)
            assert entity is not None
            body, raw = entity.body, entity.raw
            attributes = dict(flat_attributes_of_body(body)) if key.kind in VERSION_KINDS else None
        if outcome.isdefault_differs:
            body, raw = with_isdefault(body, bool(outcome.isdefault)), body if raw is None else raw
        return body, raw, None if attributes is None else list(attributes.items())

    def _disputes_by_document(self) -> dict[Uri, Any] | None:
        """Return what documents keep of the plan; None: no dispute there was or is."""
        broken = [claim for claim in self.planner.refused.claims if claim.document_uri not in self._owners(claim.key)]
        has_reports = any(is_reported(outcome) for outcome in self.verdicts.values())
        if not has_reports and not self.planner.disputes and not self.planner.refused.claims:
            return None
        after = [
            (key, each) for key, outcome in self.verdicts.items() for each in disputes_after(outcome, is_registry=is_root(key))
        ]
        after += [
            (outcome.key, outcome.dispute) for outcome in self.planner.disputes if outcome.dispute.remains and outcome.is_read
        ]
        waiting = {
            ClaimKey(outcome.dispute.document_uri, outcome.key) for outcome in self.planner.disputes if outcome.dispute.remains
        }
        after += [(claim.key, Dispute(claim.document_uri, None)) for claim in broken if claim not in waiting]
        return by_document(after)

    def _owners(self, key: Key) -> tuple[str, ...]:
        stored = self.state.get(key)
        return () if stored is None else stored.document_uris

    def _facts(self, findings: Iterable[Finding], disputes: Mapping[Uri, Any] | None) -> dict[Uri, Facts]:
        """Return the facts of the documents that were read."""
        ids: defaultdict[Uri, set[str]] = defaultdict(set)
        refused: defaultdict[Uri, set[tuple[str, str | None]]] = defaultdict(set)
        for finding in findings:
            uri = Uri(finding["registryid"], finding["document_uri"])
            ids[uri].add(finding["finding"]["violation_id"])
            if finding["finding"]["action"] == "quarantined" and finding["kind"] in TABLE_OF_KIND:
                refused[uri].add((TABLE_OF_KIND[finding["kind"]].name, finding["xid"]))
        after = {
            uri: complete_facts(facts, ids.get(uri, ()), refused.get(uri, ()))
            for uri, facts in self.planner.stage.documents.items()
            if facts["status"] != "unchanged"
        }
        if disputes is not None:
            after = {uri: facts | {"disputes": disputes_of(disputes.get(uri))} for uri, facts in after.items()}
        return after

    def _documents(self, facts: Mapping[Uri, Facts], disputes: Mapping[Uri, Any] | None) -> list[tuple[Uri, str, str | None]]:
        """Return the documents whose facts differ from those of their last load, and those that are gone: op, body."""
        rows: list[tuple[Uri, str, str | None]] = []
        for uri, own in facts.items():
            before = self.existing_documents.get(uri)
            dialect = own.get("dialect")
            if dialect is None and own["status"] == "rejected" and before is not None:
                dialect = before.get("dialect")  # what it said before is still published, and so is the dialect of that
            body = as_json(own | {"dialect": dialect})
            if before is None or body != as_json(before):
                rows.append((uri, "insert" if before is None else "update", body))
        rows += [(uri, "delete", None) for uri in self.gone]
        for uri, of_document in (disputes or {}).items():
            if uri not in facts and uri not in self.gone and uri in self.existing_documents:
                rows.append((uri, "update", as_json(added_to(uri, self.existing_documents[uri], of_document))))
        return rows

    def _guard_prune(self) -> None:
        """Refuse to delete over half of the entities of a registry (decision 4)."""
        deleted = Counter(key.registryid for key, outcome in self.verdicts.items() if outcome.op == "delete")
        published = Counter(key.registryid for key in self.state if key.registryid in deleted)
        for registryid, number in sorted(deleted.items()):
            if number * 2 > published[registryid]:
                raise PruneRefused(registryid, number, published[registryid])

    def _finding(self, key: Key, report: Report) -> Finding:
        """Return a report as a finding of the document that it is about."""
        uri, action = report.document_uri, report.action
        text = self.planner.stage.texts.get(ClaimKey(uri, key)) if action == "quarantined" else None
        finding = {
            "violation_id": violation_id(key.registryid, uri, report.rule_id, key.xid, ROOT, report.message, action),
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
        self._keys = {(key.registryid, key.xid): key for key in planner.verdicts}

    def rows(self, max_depth: int) -> list[dict[str, Any]] | None:
        """Compute the effective definitions that the change may alter; None where they are many."""
        changed = {
            (key.registryid, xid_of_resource(key.xid))
            for key, outcome in self.planner.verdicts.items()
            if outcome.op is not None and key.kind in ("message", "version")
        }
        affected = self.planner.lookups.depending_on(changed)
        if len(affected) > MOST_IN_DRIVER:
            return None
        bodies = EntityBodies(self._body, max_depth, self._flat)
        rows = []
        for registryid, xid in sorted(affected):
            owners = self._owners_after(Key(registryid, "message", xid))
            rows.append(effective_row(bodies, registryid, xid, owners, self.planner.head.snapshot_id + 1))
        return rows

    def _body(self, registryid: RegistryId, xid: Xid) -> JsonText | None:
        """Return the body of an entity as it would be published; None: it would not be."""
        key = self._keys.get((registryid, xid))
        entity = self.planner.lookups.entity(registryid, xid)
        if key is None:
            return None if entity is None else entity.body
        outcome = self.planner.verdicts[key]
        if outcome.op == "delete" or (outcome.op is None and outcome.stored is None):
            return None
        body = self.planner.stage.texts[ClaimKey(outcome.document_uri, key)].body if outcome.document_uri is not None else None
        if body is None and entity is not None:
            body = entity.body
        return with_isdefault(body, bool(outcome.isdefault)) if body is not None and outcome.isdefault_differs else body

    def _flat(self, registryid: RegistryId, xid: Xid) -> FlatAttributes | None:
        """Return the flat attributes of a Version that is written, which the stage has; None: it is not."""
        key = self._keys.get((registryid, xid))
        uri = None if key is None else self.planner.verdicts[key].document_uri
        text = None if key is None or uri is None else self.planner.stage.texts[ClaimKey(uri, key)]
        return None if text is None else text.attributes

    def _owners_after(self, key: Key) -> tuple[str, ...] | None:
        """Return the documents that would hold an entity; None: it would not be there."""
        if self._body(key.registryid, key.xid) is None:
            return None
        if key in self.planner.verdicts:
            return self.planner.verdicts[key].document_uris
        entity = self.planner.lookups.entity(key.registryid, key.xid)
        return None if entity is None else tuple(entity.document_uris)


def _key_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(row[name] for name in KEY)


def _reconciled_values(key: Key, outcome: Verdict) -> tuple[Any, ...]:
    """Return the values of `RECONCILED`."""
    return (
        *key,
        outcome.op,
        outcome.refused,
        outcome.document_uri,
        outcome.content_hash,
        outcome.epoch,
        outcome.createdat,
        outcome.modifiedat,
        outcome.document_uris,
        outcome.isdefault,
        None if outcome.stored is None else outcome.stored.snapshot_id,
        None if outcome.stored is None else outcome.stored.content_hash,
        outcome.isdefault_differs,
        [{"document_uri": claim.document_uri} for claim in outcome.agreed],
        outcome.displaced,
    )


def _facts_frame(spark: SparkSession, facts: Mapping[Uri, Facts]) -> DataFrame:
    texts = [{"registryid": uri.registryid, "xid": uri.document_uri, "facts": as_json(own)} for uri, own in facts.items()]
    schema = StructType([StructField(name, StringType()) for name in ("registryid", "xid", "facts")])
    return frame_of(spark, texts, schema).withColumn("facts", F.from_json("facts", DOCUMENT_BODY))


def _documents_frame(spark: SparkSession, documents: list[tuple[Uri, str, str | None]]) -> DataFrame:
    rows = [
        {"registryid": uri.registryid, "kind": "document", "xid": uri.document_uri, "op": op, "body": body}
        for uri, op, body in documents
    ]
    return frame_of(spark, rows, DOCUMENTS)


def _counts(verdicts: Mapping[Key, Verdict]) -> dict[str, dict[str, int]]:
    """Count the verdicts: of each table of entities, how many have each outcome."""
    counts: dict[str, dict[str, int]] = {table.name: {} for table in ENTITY_TABLES}
    outcomes = Counter(
        (TABLE_OF_KIND[key.kind].name, outcome.op or ("unchanged" if outcome.refused is None else "refused"))
        for key, outcome in verdicts.items()
    )
    for (table, name), n in outcomes.items():
        counts[table][name] = n
    return counts
