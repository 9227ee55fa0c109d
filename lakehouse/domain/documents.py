"""What is known of documents from one load to the next: which of their claims hold, what they dropped, their facts.

Facts of a document are those of `lakehouse.store.schema.DOCUMENT_BODY`, as a dict without the members that are NULL; its disputes
are members of them. A document is named by its registry and URI, an entity by registry, kind and XID.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

import orjson

from lakehouse.domain.ownership import SETTLED, Dispute, transfer_message
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.problems import REPORTED_ONLY, violation_id

Facts = dict[str, Any]
FACTS = (
    "status", "reason", "dialect", "specversion", "own_registry", "sha256", "size", "entities", "quarantined", "spellings",
    "root", "findings", "disputes",
)  # fmt: skip
_DISPUTE = ("kind", "xid", "content_hash", "rule_id", "other")


class Key(NamedTuple):
    """Names an entity."""

    registryid: RegistryId
    kind: str
    xid: Xid


class Uri(NamedTuple):
    """Names a document within a registry."""

    registryid: RegistryId
    document_uri: str


class ClaimKey(NamedTuple):
    """A claim of a document on an entity."""

    document_uri: str
    key: Key


class ExistingDispute(NamedTuple):
    """A dispute of a document's last load; last_sha256: of the document then."""

    key: Key
    dispute: Dispute
    last_sha256: str | None
    is_read: bool = False


class Refused:
    """Entities that were refused in documents, and what lies below them."""

    def __init__(self, claims: Iterable[ClaimKey]) -> None:
        self.claims = set(claims)
        self._xids: defaultdict[Uri, set[str]] = defaultdict(set)
        for claim in self.claims:
            self._xids[Uri(claim.key.registryid, claim.document_uri)].add(claim.key.xid)

    def covers(self, document_uri: str, key: Key) -> bool:
        """Return whether an entity, or something that holds it, was refused in a document."""
        refused = self._xids.get(Uri(key.registryid, document_uri))
        if not refused:
            return False
        parts = key.xid.split("/")
        return key.xid in refused or any("/".join(parts[:end]) in refused for end in range(2, len(parts)))


def existing_disputes(documents: Mapping[Uri, Facts], gone: Collection[Uri]) -> list[ExistingDispute]:
    """Return the disputes of the known documents that are still where they were."""
    return [
        ExistingDispute(
            Key(uri.registryid, dispute["kind"], dispute["xid"]),
            Dispute(uri.document_uri, dispute.get("content_hash"), dispute.get("rule_id"), dispute.get("other")),
            facts.get("sha256"),
        )
        for uri, facts in documents.items()
        if uri not in gone
        for dispute in facts.get("disputes") or ()
    ]


def with_remaining(existing: Iterable[ExistingDispute], read: Mapping[Uri, Facts], refused: Refused) -> list[ExistingDispute]:
    """Find which disputes still hold: their document was not read, or could not be, or the entity was refused in it.

    That a document took an entity over, or got it back, is reported until the document changes, even if the change is refused.

    Args:
        existing: as from `existing_disputes`.
        read: the documents that were read, and what came of them.
        refused: what was refused in them.

    Returns:
        All of them, with `remains` and `is_read`.
    """
    return [
        _with_remaining(dispute, read.get(Uri(dispute.key.registryid, dispute.dispute.document_uri)), refused)
        for dispute in existing
    ]


def _with_remaining(existing: ExistingDispute, facts: Facts | None, refused: Refused) -> ExistingDispute:
    if facts is None:
        return existing._replace(dispute=existing.dispute._replace(remains=True))
    is_changed = facts.get("sha256") != existing.last_sha256
    if existing.dispute.rule_id in REPORTED_ONLY and is_changed:
        remains = False
    elif facts["status"] == "rejected":
        remains = True
    else:  # what was refused before, and is refused no more, is gone; what is refused now is reported again
        remains = existing.dispute.content_hash is not None and refused.covers(existing.dispute.document_uri, existing.key)
    return existing._replace(dispute=existing.dispute._replace(remains=remains), is_read=True)


def find_dropped(
    owned: Mapping[Key, Collection[str]], left: Collection[Uri], present: Collection[ClaimKey], refused: Refused
) -> dict[Key, set[str]]:
    """Find entities that a document held at its last load and holds no more.

    Args:
        owned: the documents that hold each entity.
        left: documents that were read or are not where they were; a rejected one drops nothing.
        present: what they hold now.
        refused: what was refused in them, which they do not drop, nor what lies below it.

    Returns:
        The documents, by entity.
    """
    result: defaultdict[Key, set[str]] = defaultdict(set)
    if not left:
        return result
    for key, uris in owned.items():
        for uri in uris:
            is_left = Uri(key.registryid, uri) in left and ClaimKey(uri, key) not in present
            if is_left and not refused.covers(uri, key):
                result[key].add(uri)
    return result


def complete_facts(facts: Facts, ids: Iterable[str], refused: Iterable[tuple[str, str | None]]) -> Facts:
    """Complete the facts of a parsed document with what was found after parsing.

    Args:
        facts: of the document.
        ids: of the findings.
        refused: table and XID of the entities that these refuse.
    """
    counts = Counter(table for table, _ in set(refused))
    findings = sorted({*(facts.get("findings") or ()), *ids})
    return _without_nulls(
        facts
        | {
            "findings": findings or None,
            "entities": _counted(facts.get("entities"), counts, -1),
            "quarantined": _counted(facts.get("quarantined"), counts, 1),
        }
    )


def _counted(counts: dict[str, int] | None, more: Counter[str], sign: int) -> dict[str, int] | None:
    """Add to counts by table, or take away."""
    summed = dict(counts or {})
    for table, n in more.items():
        summed[table] = summed.get(table, 0) + sign * n
    return {table: n for table, n in summed.items() if n} or None


def needs_no_reading(facts: Facts, *, strict: bool = False) -> bool:
    """Return whether nothing was refused of a document at its last load, and all that it says is published.

    Args:
        facts: of the document.
        strict: nor was anything found: what refuses nothing else would refuse the document now.
    """
    waits = any(dispute.get("rule_id") not in REPORTED_ONLY for dispute in facts.get("disputes") or ())
    is_clean = facts["status"] != "rejected" and not facts.get("quarantined") and not waits
    return is_clean and not (strict and facts.get("findings"))


class DisputesOfDocument(NamedTuple):
    """What a document keeps of an ingest: its disputes, and the entities with which it waits no more."""

    disputes: list[tuple[Key, Dispute]]
    settled: list[Key]


def by_document(disputes: Iterable[tuple[Key, Dispute]]) -> dict[Uri, DisputesOfDocument]:
    """Return what each document keeps; of several disputes of a document about an entity the first counts."""
    first: dict[ClaimKey, Dispute] = {}
    for key, dispute in disputes:
        first.setdefault(ClaimKey(dispute.document_uri, key), dispute)
    result: defaultdict[Uri, DisputesOfDocument] = defaultdict(lambda: DisputesOfDocument([], []))
    for claim, dispute in first.items():
        of_document = result[Uri(claim.key.registryid, claim.document_uri)]
        if dispute.rule_id == SETTLED:
            of_document.settled.append(claim.key)
        else:
            of_document.disputes.append((claim.key, dispute))
    return result


def disputes_of(of_document: DisputesOfDocument | None) -> list[dict[str, Any]] | None:
    """Return disputes as facts hold them; None: there are none."""
    return None if of_document is None else _sorted([_as_fact(*dispute) for dispute in of_document.disputes])


def added_to(uri: Uri, facts: Facts, of_document: DisputesOfDocument) -> Facts:
    """Add to the facts of a document that was not read what an ingest did to its claims.

    New disputes take the place of earlier ones about the same entity; what was reported of takeovers that are none any more goes.
    """
    concerned = {(key.kind, key.xid) for key, _ in of_document.disputes} | {(key.kind, key.xid) for key in of_document.settled}
    before = facts.get("disputes") or []
    stays = [dispute for dispute in before if (dispute["kind"], dispute["xid"]) not in concerned]
    ended = [
        dispute
        for dispute in before
        if (dispute["kind"], dispute["xid"]) in concerned and dispute.get("rule_id") in REPORTED_ONLY
    ]
    ids = {transfer_id(uri, dispute["rule_id"], dispute["xid"], dispute.get("other")) for dispute in ended}
    findings = [dispute for dispute in dict.fromkeys(facts.get("findings") or ()) if dispute not in ids]
    disputes = _sorted(stays + [_as_fact(*dispute) for dispute in of_document.disputes])
    return _without_nulls(facts | {"disputes": disputes, "findings": findings or None})


def transfer_id(uri: Uri, rule_id: str, xid: Xid, other: str | None) -> str:
    """Return the violation_id of the finding that a document took an entity over, or got it back."""
    message = transfer_message(uri.document_uri, rule_id, other)
    return violation_id(uri.registryid, uri.document_uri, rule_id, xid, "", message, "kept")  # type: ignore[arg-type]


def as_json(facts: Facts) -> str:
    """Write the facts of a document, its maps sorted: the text that the log holds."""
    written = {name: _mapped(name, facts[name]) for name in FACTS if facts.get(name) is not None}
    return orjson.dumps(written).decode()


def _mapped(name: str, value: Any) -> Any:
    return dict(sorted(value.items())) if name in ("entities", "quarantined", "spellings") else value


def _as_fact(key: Key, dispute: Dispute) -> dict[str, Any]:
    values = (key.kind, key.xid, dispute.content_hash, dispute.rule_id, dispute.other)
    return {name: value for name, value in zip(_DISPUTE, values, strict=True) if value is not None}


def _sorted(disputes: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    return sorted(disputes, key=lambda dispute: (dispute["kind"], dispute["xid"])) or None


def _without_nulls(facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if value is not None}
