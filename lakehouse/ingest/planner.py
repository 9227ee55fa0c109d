"""An ingest of up to `planner_rows` rows is planned in the driver: `lakehouse.domain` decides.

It looks up what is published in the read model, as a write over HTTP does. Spark lists, reads and parses the documents, and
writes what comes of it. `Planner` decides; `PlanWriter` makes a plan of it: rows of the log, effective definitions, facts of
documents, findings. A larger ingest is planned by Spark's joins (`lakehouse.log.plan`,
`lakehouse.rules.gate`); tests hold both equal.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, BooleanType, LongType, StringType, StructField, StructType

from lakehouse.domain.documents import (
    ClaimKey,
    Facts,
    Key,
    Refused,
    Uri,
    added_to,
    as_json,
    by_document,
    complete_facts,
    disputes_of,
    existing_disputes,
    find_dropped,
    with_remaining,
)
from lakehouse.domain.effective import EntityBodies
from lakehouse.domain.flatattributes import flat_attributes_of_body
from lakehouse.domain.neighbours import RuleLimits
from lakehouse.domain.ownership import (
    REPORT_HINTS,
    Dispute,
    Policy,
    Published,
    Report,
    Verdict,
    disputes_after,
    is_reported,
    reports,
    unchanged,
    verdict,
    with_counted_epoch,
    with_default,
    without_stale,
)
from lakehouse.domain.versions import with_isdefault
from lakehouse.errors import PruneRefused
from lakehouse.ingest.stagerows import (
    CollectedStage,
    Finding,
    PlannedState,
    StageRow,
    is_resource,
    is_root,
    parent_of,
    parents_of,
    refused_in,
    resource_of,
)
from lakehouse.log.digests import folded
from lakehouse.log.plan import Decided, Plan
from lakehouse.log.snapshotfacts import LOGGED, Head
from lakehouse.readmodel.lookups import VERSION_KINDS, Lookups
from lakehouse.rules.findings import FINDINGS
from lakehouse.store.keys import KEY, LIFECYCLE, OVER_HTTP
from lakehouse.store.materialize import materialize
from lakehouse.store.schema import CHANGES, DOCUMENT_BODY, EFFECTIVE_MESSAGES, ENTITY_TABLES, TABLE_OF_KIND
from lakehouse.text.jsontext import hash_of
from lakehouse.text.names import ROOT, JsonText, RegistryId, Xid
from lakehouse.text.problems import violation_id
from lakehouse.text.timestamps import micros_of
from lakehouse.text.xid import last_id, xid_of_resource

_CLAIM = StructType([StructField("document_uri", StringType())])
# What the commit and the user's expectations read of a comparison.
_RECONCILED = StructType(
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
_DOCUMENTS = StructType([*(CHANGES[name] for name in (*LOGGED, "body"))])
_LOGGED = StructType([*(CHANGES[name] for name in (*LOGGED, "body", "raw", "attributes"))])
_EFFECTIVE = StructType([*EFFECTIVE_MESSAGES, StructField("is_there", BooleanType())])
_MOST_DEFINITIONS = 20_000  # that are computed here
_MOST_IN_A_PLAN = 5000  # rows of a frame: of more, which are part of a plan, Spark's optimizer evaluates each in turn


class Planner:
    """Decides what a small stage changes: who owns what, which rules between entities that breaks, what is written.

    Attributes:
        findings: of what is decided here, other than those of the stage and of ownership.
        read_findings: those of the stage, as the documents were read.
        rejected: how many documents were refused whole.
    """

    def __init__(self, spark: SparkSession, head: Head, rows: list[StageRow], policy: Policy, lookups: Lookups) -> None:
        """Look up what the stage is compared with.

        Args:
            spark: the session.
            head: snapshot that `lookups` has.
            rows: the stage, as the documents were read.
            policy: what the ingest may do.
            lookups: what is published.

        Raises:
            TooManyLookups: the documents have to do with too much.
        """
        self.spark = spark
        self.head = head
        self.policy = policy
        self.lookups = lookups
        self.committed_at = head.next_moment()
        self.now = micros_of(self.committed_at)
        self.rejected = 0
        self.findings: list[Finding] = []  # besides those of the stage
        self._parsed: dict[ClaimKey, dict[str, Any]] = {}
        self._deleted: dict[Key, int] = {}
        self.stage = CollectedStage(rows)
        self.read_findings = self.stage.findings
        self.existing_documents = lookups.documents_of({uri.document_uri for uri in self.stage.documents})
        self.gone = _moved(self)
        self.state: dict[Key, Published] = {}

    def also_gone(self, gone: Iterable[Uri]) -> None:
        """Add documents that are not where they were."""
        self.gone |= set(gone)
        for uri in self.gone - self.existing_documents.keys():
            facts = self.lookups.document(uri)
            if facts is not None:
                self.existing_documents[uri] = facts

    def look_up(self) -> None:
        """Look up the state of what the documents say and held, with all Versions of it; with `prune` all that is published."""
        self.claimed = {ClaimKey(uri, key) for key, claims in self.stage.claims.items() for uri in claims}
        if self.policy.prune:
            keys = set(self.lookups.all_keys())
        else:
            keys = {
                *self.stage.claims,
                *self.lookups.keys_of_documents({*self.stage.documents, *self.gone} & self.existing_documents.keys()),
            }
        for key in list(keys):
            if is_resource(key):
                resource = resource_of(key)
                keys.add(resource)
                if not self.policy.prune:
                    children = self.lookups.children(key.registryid, resource.xid)
                    keys |= {Key(key.registryid, child.kind, child.xid) for child in children}
        keys |= {parent for key in list(keys) for parent in parents_of(key)}
        results = ((key, self.lookups.published(key)) for key in keys)
        self.state = {key: stored for key, stored in results if stored is not None}

    # What is refused

    def refuse_contradictions(self) -> None:
        """Take out what a document gives a row and an error for."""
        stage, result = self.stage.without_contradictions()
        self._go_on_with(stage, result)

    def reject_documents(self, results: list[Finding]) -> None:
        """Refuse each document with an error whole."""
        stage, rejections = self.stage.without_documents(results, self._last_registry)
        self.rejected += len(rejections)
        self._go_on_with(stage, rejections)

    def check(self, limits: RuleLimits, *, strict: bool) -> bool:
        """Apply the rules between entities to what would be published, and take out what they refuse.

        Args:
            limits: the settings of the rules.
            strict: refuse a document whole when it has an error.

        Returns:
            Whether nothing was refused, so that nothing has to be decided again.

        Raises:
            TooManyLookups: the change has to do with too much.
        """
        planned = PlannedState(self.verdicts, self.stage.texts, self.stage.documents, self.lookups, self._parsed)
        results = planned.findings(limits)
        if not any(finding["finding"]["action"] == "quarantined" for finding in results):
            self.findings += results
            return True
        if strict:
            self.reject_documents(results)
        else:
            self._go_on_with(*self.stage.without(results))
        return False

    def _last_registry(self, uri: Uri) -> RegistryId:
        """Return the registry that a document, which says its own, was loaded into last."""
        if not self.stage.documents.get(uri, {}).get("own_registry"):
            return uri.registryid
        registries = [
            other
            for other, facts in self.existing_documents.items()
            if other.document_uri == uri.document_uri and facts.get("own_registry")
        ]
        return max(registries, key=self.lookups.loaded_in, default=uri).registryid

    def _go_on_with(self, stage: CollectedStage, results: list[Finding]) -> None:
        """Continue with the stage without what was rejected.

        A document that was refused whole stays where it was, even if it names another registry now.
        """
        self.stage = stage
        self.findings += results
        rejected = {uri.document_uri for uri, facts in stage.documents.items() if facts["status"] == "rejected"}
        self.gone = {uri for uri in self.gone if uri.document_uri not in rejected}

    # Who owns what

    def compare(self) -> None:
        """Decide about each entity that documents say or say no more."""
        self.refused = Refused(refused_in([*self.stage.findings, *self.findings]))
        read = {uri: facts for uri, facts in self.stage.documents.items() if facts["status"] != "unchanged"}
        self.disputes = with_remaining(existing_disputes(self.existing_documents, self.gone), read, self.refused)
        left = {
            uri
            for uri, facts in self.stage.documents.items()
            if facts["status"] in ("loaded", "skipped") and uri in self.existing_documents
        }
        owned = {key: stored.document_uris for key, stored in self.state.items()}
        lost = find_dropped(owned, left | self.gone, self.claimed, self.refused)
        protected: set[Key] = set()
        if self.policy.prune:
            for key, stored in self.state.items():  # what lost its last owner in an ingest without `prune`
                if not stored.document_uris:
                    lost.setdefault(key, set())
            protected = self._protected()
        disputes: defaultdict[Key, list[Dispute]] = defaultdict(list)
        for dispute in self.disputes:
            disputes[dispute.key].append(dispute.dispute)
        keys = [*self.stage.claims, *(key for key in lost if key not in self.stage.claims)]
        if self.head.deletions:
            again = (key for key in keys if key not in self.state and key not in self._deleted)
            self._deleted |= self.lookups.deleted_epochs(again)
        self.verdicts = {
            key: verdict(
                self.stage.claims[key].values() if key in self.stage.claims else (),
                self.state.get(key),
                disputes.get(key, ()),
                policy=self.policy,
                now=self.now,
                dropped=lost.get(key, ()),
                is_registry=key.kind == "registry",
                is_declared=key in protected,
                deleted_epoch=self._deleted.get(key),
            )
            for key in keys
        }
        if not self.policy.force:
            self._refuse_stale()
        _mark_defaults(self)

    def _protected(self) -> set[Key]:
        """Find what is not pruned without an owner: what was refused, what waits, what holds something that came over HTTP."""
        protected = {claim.key for claim in self.refused.claims}
        protected |= {dispute.key for dispute in self.disputes if dispute.dispute.remains}
        parents = {
            (key.registryid, "/".join(key.xid.split("/")[:end]))
            for key, stored in self.state.items()
            if OVER_HTTP in stored.document_uris
            for end in (3, 5)
        }
        return protected | {key for key in self.state if (key.registryid, key.xid) in parents}

    def _refuse_stale(self) -> None:
        for key, outcome in self.verdicts.items():
            if outcome.is_suspect and outcome.stored is not None:
                has_epoch, has_modifiedat = self.lookups.declares(key, outcome.stored.modifiedat)
                self.verdicts[key] = without_stale(outcome, has_epoch=has_epoch, has_modifiedat=has_modifiedat)


def grow_parents(planner: Planner) -> None:
    """Count the epochs of what holds something that came or went, and was not written itself (decision 8)."""
    moved = {
        parent_of(key) for key, outcome in planner.verdicts.items() if outcome.op in ("insert", "delete") and not is_root(key)
    }
    grows = {}
    for key in moved:
        outcome = planner.verdicts.get(key) or (unchanged(planner.state[key]) if key in planner.state else None)
        if outcome is not None and outcome.stored is not None and outcome.op not in ("insert", "update", "delete"):
            grows[key] = outcome
    for key, outcome in grows.items():
        has_epoch, has_modifiedat = False, False
        if outcome.has_text:
            has_epoch, has_modifiedat = outcome.declared_epoch is not None, outcome.declared_modifiedat is not None
        elif OVER_HTTP not in outcome.document_uris and outcome.stored is not None:
            has_epoch, has_modifiedat = planner.lookups.declares(key, outcome.stored.modifiedat)
        after = with_counted_epoch(outcome, planner.now, declares_epoch=has_epoch, declares_modifiedat=has_modifiedat)
        if after is not outcome:
            planner.verdicts[key] = after


def _moved(planner: Planner) -> set[Uri]:
    """Find the documents that say their registry themselves, and say another one than at an earlier load."""
    now = {
        uri.document_uri: uri.registryid
        for uri, facts in planner.stage.documents.items()
        if facts["status"] in ("loaded", "skipped") and facts.get("own_registry")
    }
    return {
        uri
        for uri, facts in planner.existing_documents.items()
        if facts.get("own_registry") and now.get(uri.document_uri, uri.registryid) != uri.registryid
    }


def _mark_defaults(planner: Planner) -> None:
    """Make `isdefault` of Versions what their published message or schema says (decision 7)."""
    touched = {resource_of(key) for key, outcome in planner.verdicts.items() if is_resource(key) and outcome.may_move_default}
    if not touched:
        return
    versions: defaultdict[Key, list[Key]] = defaultdict(list)
    for key in dict.fromkeys([*planner.verdicts, *planner.state]):
        if key.kind in VERSION_KINDS and resource_of(key) in touched:
            versions[resource_of(key)].append(key)
    for resource in touched:
        named = _default_of(planner, resource)
        for key in versions[resource] if named is not None else ():
            is_default = last_id(key.xid) == named
            before = planner.verdicts.get(key) or unchanged(planner.state[key])
            after = with_default(before, is_default=is_default)
            if after.isdefault_differs and after.document_uri is None:
                entity = planner.lookups.entity(key.registryid, key.xid)
                assert entity is not None
                after = replace(after, content_hash=hash_of(with_isdefault(entity.body, is_default)))
            if after is not before:
                planner.verdicts[key] = after


def _default_of(planner: Planner, resource: Key) -> str | None:
    """Return the Version that a message or schema names, as it will be published; empty: none; None: it is not published."""
    outcome = planner.verdicts.get(resource)
    if outcome is not None:
        return (outcome.defaultversionid or "") if outcome.op != "delete" else ""
    stored = planner.state.get(resource)
    return None if stored is None else stored.defaultversionid or ""


class PlanWriter:
    """Writes down what was decided: rows of the log, facts of documents, findings."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.verdicts = planner.verdicts
        self.existing_documents, self.gone, self.state = planner.existing_documents, planner.gone, planner.state

    def plan(self, existing_documents: DataFrame, uncounted: list[Finding], max_depth: int | None) -> Plan:
        """Plan what was decided.

        Args:
            existing_documents: as from `baseline.current_documents`.
            uncounted: findings of the stage that the facts of its documents do not count.
            max_depth: how many bases of a message are followed; None: its effective definition is not wanted.

        Raises:
            PruneRefused: pruning would delete more than half of the registries' entities.
        """
        planner, spark = self.planner, self.planner.spark
        counts = _counts(self.verdicts)
        reported = [
            self._finding(key, report)
            for key, outcome in self.verdicts.items()
            for report in reports(outcome, is_registry=is_root(key))
        ]
        disputes = self._disputes_by_document()
        for uri in (disputes or {}).keys() - self.existing_documents.keys():
            facts_before = planner.lookups.document(uri)
            if facts_before is not None:
                self.existing_documents[uri] = facts_before
        facts = self._facts([*planner.findings, *uncounted, *reported], disputes)
        documents = self._documents(facts, disputes)
        if planner.policy.prune and not planner.policy.force:
            self._guard_prune(counts)
        changed = {key: outcome for key, outcome in self.verdicts.items() if outcome.op is not None}
        digest = folded(
            (*key, outcome.op, outcome.content_hash, outcome.epoch, outcome.createdat, outcome.modifiedat, outcome.document_uris)
            for key, outcome in changed.items()
        )
        digest ^= folded((*uri[:1], "document", uri[1], op, body) for uri, op, body in documents)
        findings = [*planner.read_findings, *planner.findings, *reported]
        every = {finding["finding"]["violation_id"]: finding for finding in findings}
        recorded = planner.lookups.recorded(every)
        decided = Decided(
            findings=findings,
            has_new_findings=len(recorded) < len(every),
            log_rows=_frame(spark, [self._log_row(key, outcome) for key, outcome in changed.items()], _LOGGED),
            effective=None if max_depth is None else _Definitions(planner).rows(max_depth),
            facts=list(facts.values()),
            written={(outcome.document_uri, *key) for key, outcome in changed.items() if outcome.document_uri is not None},
            changed=sorted((*key, outcome.op) for key, outcome in changed.items()),
        )
        return Plan(
            planner.head,
            planner.committed_at,
            existing_documents,
            _reconciled_frame(spark, self.verdicts),
            _frame(spark, [finding for named, finding in every.items() if named not in recorded], FINDINGS),
            _facts_frame(spark, facts),
            _documents_frame(spark, documents),
            counts,
            len(documents),
            f"{digest:016x}",
            False,
            sum(bool(outcome.displaced) for outcome in self.verdicts.values()),
            decided,
        )

    def _log_row(self, key: Key, outcome: Verdict) -> dict[str, Any]:
        """Return a row of the log: with the text of a staged document, or as it is published where owners or dates change."""
        if outcome.document_uri is not None:
            body, raw, attributes, _ = self.planner.stage.texts[ClaimKey(outcome.document_uri, key)]
        else:
            entity = self.planner.lookups.entity(key.registryid, key.xid)
            assert entity is not None
            body, raw = entity.body, entity.raw
            attributes = dict(flat_attributes_of_body(body)) if key.kind in VERSION_KINDS else None
        if outcome.isdefault_differs:
            body, raw = with_isdefault(body, bool(outcome.isdefault)), body if raw is None else raw
        return key._asdict() | {
            "op": outcome.op,
            "content_hash": outcome.content_hash,
            "epoch": outcome.epoch,
            "createdat": outcome.createdat,
            "modifiedat": outcome.modifiedat,
            "document_uris": outcome.document_uris,
            "body": body,
            "raw": raw,
            "attributes": None if attributes is None else list(attributes.items()),
        }

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

    def _guard_prune(self, counts: dict[str, dict[str, int]]) -> None:
        """Refuse to delete over half of the entities of the registries concerned (decision 4)."""
        deleted = sum(ops.get("delete", 0) for ops in counts.values())
        concerned = {key.registryid for key, outcome in self.verdicts.items() if outcome.op == "delete"}
        published = sum(key.registryid in concerned for key in self.state)
        if deleted * 2 > published:
            raise PruneRefused(deleted, published)

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

    def rows(self, max_depth: int) -> DataFrame | None:
        """Compute the effective definitions that the change may alter; None where they are many."""
        changed = {
            (key.registryid, xid_of_resource(key.xid))
            for key, outcome in self.planner.verdicts.items()
            if outcome.op is not None and key.kind in ("message", "version")
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
        outcome = self.planner.verdicts[key]
        if outcome.op == "delete" or (outcome.op is None and outcome.stored is None):
            return None
        body = self.planner.stage.texts[ClaimKey(outcome.document_uri, key)].body if outcome.document_uri is not None else None
        if body is None and entity is not None:
            body = entity.body
        return with_isdefault(body, bool(outcome.isdefault)) if body is not None and outcome.isdefault_differs else body

    def _owners_after(self, key: Key) -> tuple[str, ...] | None:
        """Return the documents that would hold an entity; None: it would not be there."""
        if self._body(key.registryid, key.xid) is None:
            return None
        if key in self.planner.verdicts:
            return self.planner.verdicts[key].document_uris
        entity = self.planner.lookups.entity(key.registryid, key.xid)
        return None if entity is None else tuple(entity.document_uris)


def _reconciled_frame(spark: SparkSession, verdicts: Mapping[Key, Verdict]) -> DataFrame:
    rows = [
        key._asdict()
        | {
            "op": outcome.op,
            "refused": outcome.refused,
            "document_uri": outcome.document_uri,
            "content_hash": outcome.content_hash,
            "epoch": outcome.epoch,
            "createdat": outcome.createdat,
            "modifiedat": outcome.modifiedat,
            "document_uris": outcome.document_uris,
            "isdefault": outcome.isdefault,
            "stored_in": None if outcome.stored is None else outcome.stored.snapshot_id,
            "stored_content_hash": None if outcome.stored is None else outcome.stored.content_hash,
            "isdefault_differs": outcome.isdefault_differs,
            "agreed": [{"document_uri": claim.document_uri} for claim in outcome.agreed],
            "displaced": outcome.displaced,
        }
        for key, outcome in verdicts.items()
    ]
    return _frame(spark, rows, _RECONCILED)


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
    """Return rows as a frame; many are cut off from the plan, which Spark's optimizer would evaluate with all of them."""
    frame = spark.createDataFrame(pa.Table.from_pylist(rows, to_arrow_schema(schema, timezone="UTC")))
    return frame if len(rows) <= _MOST_IN_A_PLAN else materialize(frame, eager=False)


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
