"""An ingest of up to `planner_rows` rows is planned in the driver: `lakehouse.domain` decides.

It looks up what is published in the read model, as a write over HTTP does. Spark lists, reads and parses the documents, and
writes what comes of it. `Planner` decides; `planwriter` makes a plan of that. Of a larger ingest, documents of new registries are
planned in tasks, by the same code (`bundles`); the rest is planned by Spark's joins (`lakehouse.log.plan`,
`lakehouse.rules.gate`). Tests hold all equal.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from lakehouse.domain.documents import (
    ClaimKey,
    Key,
    Refused,
    Uri,
    existing_disputes,
    find_dropped,
    with_remaining,
)
from lakehouse.domain.neighbours import RuleLimits
from lakehouse.domain.ownership import (
    Dispute,
    Policy,
    Published,
    unchanged,
    verdict,
    with_counted_epoch,
    with_default,
    without_stale,
)
from lakehouse.domain.versions import with_isdefault
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
from lakehouse.log.snapshotfacts import Head
from lakehouse.readmodel.lookups import VERSION_KINDS, Lookups
from lakehouse.store.keys import OVER_HTTP
from lakehouse.text.jsontext import hash_of
from lakehouse.text.names import RegistryId
from lakehouse.text.timestamps import micros_of
from lakehouse.text.xid import last_id


class Planner:
    """Decides what a stage or a bundle of it changes: who owns what, which rules between entities that breaks, what is written.

    Attributes:
        findings: of what is decided here, other than those of the stage and of ownership.
        read_findings: those of the stage, as the documents were read.
        rejected: how many documents were refused whole.
    """

    def __init__(
        self, head: Head, rows: list[StageRow], policy: Policy, lookups: Lookups, committed_at: datetime | None = None
    ) -> None:
        """Look up what the stage is compared with.

        Args:
            head: snapshot that `lookups` has.
            rows: the stage, as the documents were read.
            policy: what the ingest may do.
            lookups: what is published.
            committed_at: time of the snapshot to come; None: now.

        Raises:
            TooManyLookups: the documents have to do with too much.
        """
        self.head = head
        self.policy = policy
        self.lookups = lookups
        self.committed_at = committed_at or head.next_moment()
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
        self.claimed: set[ClaimKey] = set()
        if self.lookups.view is None:  # nothing is published that they could have left
            return
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


def decide(planner: Planner, limits: RuleLimits | None, *, strict: bool, uncounted: list[Finding]) -> list[Finding]:
    """Decide what becomes of each entity, until the rules between entities hold.

    Args:
        planner: with all that is gone.
        limits: the settings of these rules; None: they are not applied.
        strict: refuse a document whole when it has an error.
        uncounted: findings that the facts of their documents do not count yet.

    Returns:
        Those that are still uncounted.

    Raises:
        TooManyLookups: the change has to do with more than is looked up.
    """
    planner.look_up()
    if strict and uncounted:
        planner.reject_documents(uncounted)
        uncounted = []
    planner.refuse_contradictions()
    while True:
        planner.compare()
        if limits is None or planner.check(limits, strict=strict):
            break
    _grow_parents(planner)
    return uncounted


def _grow_parents(planner: Planner) -> None:
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
