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
from lakehouse.text.problems import TOLD_ONLY, violation_id

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


class Said(NamedTuple):
    """A claim of a document on an entity."""

    document_uri: str
    key: Key


class KnownDispute(NamedTuple):
    """A dispute of a document's last load; last_sha256: of the document then."""

    key: Key
    dispute: Dispute
    last_sha256: str | None
    is_read: bool = False


class Refused:
    """Entities that were refused in documents, and what lies below them."""

    def __init__(self, claims: Iterable[Said]) -> None:
        self.claims = set(claims)
        self._xids: defaultdict[Uri, set[str]] = defaultdict(set)
        for one in self.claims:
            self._xids[Uri(one.key.registryid, one.document_uri)].add(one.key.xid)

    def holds(self, document_uri: str, key: Key) -> bool:
        """Return whether an entity, or something that holds it, was refused in a document."""
        refused = self._xids.get(Uri(key.registryid, document_uri))
        if not refused:
            return False
        parts = key.xid.split("/")
        return key.xid in refused or any("/".join(parts[:end]) in refused for end in range(2, len(parts)))


def known_disputes(known: Mapping[Uri, Facts], gone: Collection[Uri]) -> list[KnownDispute]:
    """Return the disputes of the known documents that are still where they were."""
    return [
        KnownDispute(
            Key(uri.registryid, one["kind"], one["xid"]),
            Dispute(uri.document_uri, one.get("content_hash"), one.get("rule_id"), one.get("other")),
            facts.get("sha256"),
        )
        for uri, facts in known.items()
        if uri not in gone
        for one in facts.get("disputes") or ()
    ]


def with_standing(known: Iterable[KnownDispute], read: Mapping[Uri, Facts], refused: Refused) -> list[KnownDispute]:
    """Find which disputes still hold: their document was not read, or could not be, or the entity was refused in it.

    That a document took an entity over, or got it back, is reported until the document changes, even if the change is refused.

    Args:
        known: as from `known_disputes`.
        read: the documents that were read, and what came of them.
        refused: what was refused in them.

    Returns:
        All of them, with `holds` and `is_read`.
    """
    return [_with_standing(one, read.get(Uri(one.key.registryid, one.dispute.document_uri)), refused) for one in known]


def _with_standing(one: KnownDispute, facts: Facts | None, refused: Refused) -> KnownDispute:
    if facts is None:
        return one._replace(dispute=one.dispute._replace(holds=True))
    is_changed = facts.get("sha256") != one.last_sha256
    if one.dispute.rule_id in TOLD_ONLY and is_changed:
        holds = False
    elif facts["status"] == "rejected":
        holds = True
    else:  # what was refused before, and is refused no more, is gone; what is refused now is reported again
        holds = one.dispute.content_hash is not None and refused.holds(one.dispute.document_uri, one.key)
    return one._replace(dispute=one.dispute._replace(holds=holds), is_read=True)


def dropped(
    owned: Mapping[Key, Collection[str]], left: Collection[Uri], held: Collection[Said], refused: Refused
) -> dict[Key, set[str]]:
    """Find entities that a document held at its last load and holds no more.

    Args:
        owned: the documents that hold each entity.
        left: documents that were read or are not where they were; a rejected one drops nothing.
        held: what they hold now.
        refused: what was refused in them, which they do not drop, nor what lies below it.

    Returns:
        The documents, by entity.
    """
    result: defaultdict[Key, set[str]] = defaultdict(set)
    if not left:
        return result
    for key, uris in owned.items():
        for uri in uris:
            is_left = Uri(key.registryid, uri) in left and Said(uri, key) not in held
            if is_left and not refused.holds(uri, key):
                result[key].add(uri)
    return result


def completed(facts: Facts, ids: Iterable[str], refused: Iterable[tuple[str, str | None]]) -> Facts:
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
    waits = any(one.get("rule_id") not in TOLD_ONLY for one in facts.get("disputes") or ())
    is_clean = facts["status"] != "rejected" and not facts.get("quarantined") and not waits
    return is_clean and not (strict and facts.get("findings"))


class Kept(NamedTuple):
    """What a document keeps of an ingest: its disputes, and the entities with which it waits no more."""

    disputes: list[tuple[Key, Dispute]]
    settled: list[Key]


def by_document(disputes: Iterable[tuple[Key, Dispute]]) -> dict[Uri, Kept]:
    """Return what each document keeps; of several disputes of a document about an entity the first counts."""
    first: dict[Said, Dispute] = {}
    for key, dispute in disputes:
        first.setdefault(Said(dispute.document_uri, key), dispute)
    result: defaultdict[Uri, Kept] = defaultdict(lambda: Kept([], []))
    for claim, dispute in first.items():
        kept = result[Uri(claim.key.registryid, claim.document_uri)]
        if dispute.rule_id == SETTLED:
            kept.settled.append(claim.key)
        else:
            kept.disputes.append((claim.key, dispute))
    return result


def disputes_of(kept: Kept | None) -> list[dict[str, Any]] | None:
    """Return disputes as facts hold them; None: there are none."""
    return None if kept is None else _sorted([_as_fact(*one) for one in kept.disputes])


def added_to(uri: Uri, facts: Facts, kept: Kept) -> Facts:
    """Add to the facts of a document that was not read what an ingest did to its claims.

    New disputes take the place of earlier ones about the same entity; what was reported of takeovers that are none any more goes.
    """
    concerned = {(key.kind, key.xid) for key, _ in kept.disputes} | {(key.kind, key.xid) for key in kept.settled}
    before = facts.get("disputes") or []
    stays = [one for one in before if (one["kind"], one["xid"]) not in concerned]
    ended = [one for one in before if (one["kind"], one["xid"]) in concerned and one.get("rule_id") in TOLD_ONLY]
    ids = {transfer_id(uri, one["rule_id"], one["xid"], one.get("other")) for one in ended}
    findings = [one for one in dict.fromkeys(facts.get("findings") or ()) if one not in ids]
    disputes = _sorted(stays + [_as_fact(*one) for one in kept.disputes])
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
    return sorted(disputes, key=lambda one: (one["kind"], one["xid"])) or None


def _without_nulls(facts: Facts) -> Facts:
    return {name: value for name, value in facts.items() if value is not None}
