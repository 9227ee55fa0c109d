"""Who defines an entity: of what documents say of it, read now or known from before, one definition is published (decision 4).

`verdict` decides about one entity. It is given the claims on it (what the documents that were read say of it), what is published,
and the disputes of documents (what they said at their last load that is not published so). A claim is new when its document did
not hold the entity at its last load, or says something else of it now. `disputes_after` and `transfers` return what documents
keep of the outcome, and what is reported of it.

Dates are in microseconds since 1970 (UTC).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lakehouse.text.problems import CONFLICT, OWNER_CHANGED, REGAINED, STALE
from lakehouse.text.timestamps import rfc3339

SETTLED = "settled"  # in place of a rule: the document does not wait any more
REPORT_HINTS = {
    CONFLICT: "Define it in one document, or load one of them into another registry.",
    STALE: "Raise its epoch or modifiedat, or take it all the same with --force.",
    OWNER_CHANGED: 'Nothing to do if the document moved; else set on_conflict = "refuse".',
    REGAINED: "Nothing to do, if it is right.",
}


@dataclass(frozen=True)
class Policy:
    """What an ingest may do.

    Attributes:
        force: read unchanged documents again, take stale entities, prune more than half.
        prune: delete what its last document dropped.
        on_conflict: 'update' lets a later document take an entity over; 'refuse' does not.
    """

    force: bool = False
    prune: bool = False
    on_conflict: str = "update"


class Claim(NamedTuple):
    """What a document that was read says of an entity.

    Attributes:
        twin_hash: of a Version: its hash if `isdefault` were the other way round.
        epoch, createdat, modifiedat: as declared.
        again: the document has the bytes of its last load.
        is_stored: it is what is published.
        is_new: its document did not say it at its last load.
        rule_id, other: of an earlier dispute of its document about the same.
    """

    document_uri: str
    content_hash: str
    twin_hash: str | None = None
    epoch: int | None = None
    createdat: int | None = None
    modifiedat: int | None = None
    again: bool = False
    isdefault: bool | None = None
    defaultversionid: str | None = None
    is_stored: bool = False
    is_new: bool = False
    rule_id: str | None = None
    other: str | None = None

    def says(self, content_hash: str | None) -> bool:
        """Return whether this is a definition, whatever its `isdefault`."""
        return content_hash is not None and content_hash in (self.content_hash, self.twin_hash)

    @property
    def identity(self) -> str:
        """Return one hash for a definition, whatever its `isdefault`."""
        return self.content_hash if self.twin_hash is None else min(self.content_hash, self.twin_hash)


class Published(NamedTuple):
    """An entity as it is published; snapshot_id: of its row in the log."""

    content_hash: str
    epoch: int
    createdat: int
    modifiedat: int
    document_uris: tuple[str, ...]
    snapshot_id: int
    isdefault: bool | None = None
    defaultversionid: str | None = None


class Dispute(NamedTuple):
    """What a document said at its last load of an entity that is not published so, or that it took from another document.

    Attributes:
        content_hash: of what it said; None: that was refused.
        rule_id: of the finding about it; None: there is none.
        other: the document that the finding names.
        remains: the document still says so: it was not read now, or could not be, or the entity was refused in it.
    """

    document_uri: str
    content_hash: str | None
    rule_id: str | None = None
    other: str | None = None
    remains: bool = False


@dataclass(frozen=True)
class Verdict:
    """What happens to an entity.

    Attributes:
        op: insert, update, own, delete; None: nothing.
        refused: the rule by which all that was said of it was refused; None: not all was.
        document_uri: the document whose text is taken; None: none is.
        content_hash, epoch, createdat, modifiedat, isdefault, defaultversionid, document_uris: as they are after the change.
        taken_from: the owner before, where another document takes it over.
        regained: it had lost its last owner.
        source_uri: the document that a report of that names.
        agreed, opposed: claims that say what is published after the change, and the others.
        displaced: owners that lost the entity though they were not read; of a registry its next document.
        joined: documents that waited, were not read, and say what is published now.
        remaining: owners before that still are, or could not be read.
        declared_epoch, declared_modifiedat: of the text that would be taken.
        stored: as it is published before the change.
        isdefault_differs: `isdefault` is not as the text says.
    """

    op: str | None
    refused: str | None
    document_uri: str | None
    content_hash: str | None
    epoch: int | None
    createdat: int | None
    modifiedat: int | None
    isdefault: bool | None
    defaultversionid: str | None
    document_uris: tuple[str, ...]
    taken_from: str | None
    regained: bool
    source_uri: str | None
    agreed: tuple[Claim, ...]
    opposed: tuple[Claim, ...]
    displaced: tuple[str, ...]
    joined: tuple[str, ...]
    remaining: tuple[str, ...]
    twin_hash: str | None
    declared_epoch: int | None
    declared_modifiedat: int | None
    stored: Published | None
    isdefault_differs: bool = False

    @property
    def is_single_insert(self) -> bool:
        """Return whether the entity is new, and one document alone says it."""
        return self.op == "insert" and len(self.agreed) == 1 and not self.opposed and not self.joined

    @property
    def is_repeated(self) -> bool:
        """Return whether its only document says again what is published, `isdefault` and all."""
        if self.op is not None or self.stored is None or self.opposed or len(self.agreed) != 1:
            return False
        claim = self.agreed[0]
        return self.document_uris == (claim.document_uri,) and claim.content_hash == self.stored.content_hash

    @property
    def has_text(self) -> bool:
        """Return whether the document whose text is published was read, and says the same."""
        return self.refused is None and any(claim.document_uri == self.document_uris[0] for claim in self.agreed)

    @property
    def is_suspect(self) -> bool:
        """Return whether this is an update that looks older than what is published; `declares` decides whether it is."""
        if self.op != "update" or self.stored is None:
            return False
        return _is_less(self.declared_epoch, self.stored.epoch) or _is_less(self.declared_modifiedat, self.stored.modifiedat)

    @property
    def may_move_default(self) -> bool:
        """Return whether a message or schema may get another default Version by this, or its Versions another flag."""
        stored = (None, None) if self.stored is None else (self.stored.isdefault, self.stored.defaultversionid)
        return self.op in ("insert", "delete") or (self.isdefault, self.defaultversionid) != stored


def verdict(
    claims: Iterable[Claim],
    stored: Published | None,
    disputes: Sequence[Dispute],
    *,
    policy: Policy,
    now: int,
    dropped: Collection[str] = (),
    is_registry: bool = False,
    is_declared: bool = False,
    deleted_epoch: int | None = None,
) -> Verdict:
    """Decide which definition of an entity is published, who owns it, and what changes.

    Args:
        claims: what the documents that were read say of it.
        stored: as it is published; None: it is not.
        disputes: what documents said of it at their last load.
        policy: what the ingest may do.
        now: time of the snapshot to come.
        dropped: documents that held it, and say it no more.
        is_registry: it is a registry: its own attributes come from the first of all its documents (decision 3).
        is_declared: with `prune`, a known document still says it, so that it is not deleted.
        deleted_epoch: its epoch when it was deleted; None: it never was.

    Returns:
        A declared epoch or date is stored as declared; where none is, an update counts the epoch and sets modifiedat.
    """
    remaining = () if stored is None else tuple(uri for uri in dict.fromkeys(stored.document_uris) if uri not in set(dropped))
    judged = [_judged(claim, stored, disputes, remaining) for claim in sorted(claims, key=_order)]
    winner = _winner(judged, remaining, policy, is_registry=is_registry)
    changes = winner is not None and not winner.is_stored
    read = {claim.document_uri for claim in judged}
    if winner is not None and changes:
        agreed = tuple(claim for claim in judged if claim.identity == winner.identity)
    else:
        agreed = tuple(claim for claim in judged if claim.is_stored)
    opposed = tuple(claim for claim in judged if claim not in agreed)
    joined = _joined(winner, disputes, {*remaining, *read}) if winner and changes and not is_registry else ()
    stays = () if changes else tuple(uri for uri in remaining if uri not in _uris(opposed))
    owners = {*remaining, *read} if is_registry else {*stays, *_uris(agreed), *joined}
    after = tuple(sorted(owners))
    displaced: tuple[str, ...] = ()
    if is_registry:  # of one whose first document is gone the next one must be read, be it by a later ingest
        if remaining and stored and stored.document_uris[0] not in remaining and remaining[0] not in read:
            displaced = remaining[:1]
    elif changes:
        displaced = tuple(uri for uri in remaining if uri not in read)
    if is_registry:
        source = winner
    elif changes:
        source = agreed[0]
    else:
        source = next((claim for claim in agreed if claim.document_uri == after[0]), None)
    return _decide_op(
        source, winner, stored, changes=changes, agreed=agreed, opposed=opposed, after=after, remaining=remaining,
        policy=policy, now=now, displaced=displaced, joined=joined, is_registry=is_registry,
        is_declared=is_declared, deleted_epoch=deleted_epoch,
    )  # fmt: skip


def _order(claim: Claim) -> tuple[str, str]:
    return claim.document_uri, claim.content_hash


def _uris(claims: Iterable[Claim]) -> list[str]:
    return [claim.document_uri for claim in claims]


def _is_less(declared: int | None, stored: int | None) -> bool:
    return declared is not None and stored is not None and declared < stored


def _judged(claim: Claim, stored: Published | None, disputes: Sequence[Dispute], remaining: Collection[str]) -> Claim:
    """Add to a claim whether it is what is published, and whether it is new."""
    is_stored = stored is not None and claim.says(stored.content_hash)
    # What was stale may be taken once the catalog is older, or with --force: it is judged again.
    earlier = next(
        (
            dispute
            for dispute in disputes
            if dispute.document_uri == claim.document_uri and claim.says(dispute.content_hash) and dispute.rule_id != STALE
        ),
        None,
    )
    is_own = is_stored and claim.document_uri in remaining
    return claim._replace(
        is_stored=is_stored,
        is_new=not is_own and earlier is None,
        rule_id=None if earlier is None else earlier.rule_id,
        other=None if earlier is None else earlier.other,
    )


def _winner(claims: list[Claim], remaining: tuple[str, ...], policy: Policy, *, is_registry: bool) -> Claim | None:
    """Choose the claim that is published; None: what is published stays."""
    if not claims:
        return None
    if is_registry:  # also of documents that were not read
        return None if remaining and remaining[0] < claims[0].document_uri else claims[0]
    new = [claim for claim in claims if claim.is_new]
    if policy.on_conflict == "refuse":
        new = [claim for claim in new if claim.is_stored or claim.document_uri in remaining or not remaining]
    pool = new or ([] if remaining else claims)
    return pool[0] if pool else None


def _joined(winner: Claim, disputes: Sequence[Dispute], opposed_uris: Collection[str]) -> tuple[str, ...]:
    """Find the documents that wait with what is published now: what they said holds though they were not read."""
    same = (
        dispute.document_uri
        for dispute in disputes
        if dispute.remains and dispute.rule_id != STALE and winner.says(dispute.content_hash)
    )
    return tuple(uri for uri in dict.fromkeys(same) if uri not in opposed_uris)


def _decide_op(
    source: Claim | None,
    winner: Claim | None,
    stored: Published | None,
    *,
    changes: bool,
    agreed: tuple[Claim, ...],
    opposed: tuple[Claim, ...],
    after: tuple[str, ...],
    remaining: tuple[str, ...],
    displaced: tuple[str, ...],
    joined: tuple[str, ...],
    policy: Policy,
    now: int,
    is_registry: bool,
    is_declared: bool,
    deleted_epoch: int | None,
) -> Verdict:
    """Decide what happens, and whose text and dates the entity gets."""
    op = None
    if stored is None:
        op = None if source is None else "insert"
    elif changes or _redates(source, stored):
        op = "update"
    elif policy.prune and not agreed and not opposed and not after and not is_declared:
        op = "delete"
    elif after != stored.document_uris:
        op = "own"
    is_foreign = changes and stored is not None and not is_registry
    by_owner = stored is not None and not {*_uris(agreed)}.isdisjoint(stored.document_uris)
    named = winner or source
    written = source if op in ("insert", "update") else None
    shown = written or stored
    epoch, createdat, modifiedat = (None, None, None) if shown is None else (shown.epoch, shown.createdat, shown.modifiedat)
    if written is not None:
        epoch, createdat, modifiedat = _life(written, stored, now, deleted_epoch)
    return Verdict(
        op,
        CONFLICT if op is None and not agreed and opposed and not is_registry else None,
        None if written is None else written.document_uri,
        None if shown is None else shown.content_hash,
        epoch,
        createdat,
        modifiedat,
        None if shown is None else shown.isdefault,
        None if shown is None else shown.defaultversionid,
        after,
        remaining[0] if is_foreign and not by_owner and remaining else None,
        is_foreign and not remaining and source is not None and not source.is_new,
        None if named is None else named.document_uri,
        agreed,
        opposed,
        displaced,
        joined,
        remaining,
        None if written is None else written.twin_hash,
        None if source is None else source.epoch,
        None if source is None else source.modifiedat,
        stored,
    )


def _life(written: Claim, stored: Published | None, now: int, deleted_epoch: int | None) -> tuple[int, int | None, int | None]:
    """Return epoch, createdat and modifiedat of what is written: as declared, else counted, kept, or the time of the snapshot."""
    counted = stored.epoch + 1 if stored is not None else (deleted_epoch or 0) + 1
    createdat = _first(written.createdat, None if stored is None else stored.createdat, now)
    return counted if written.epoch is None else written.epoch, createdat, _first(written.modifiedat, now)


def _redates(source: Claim | None, stored: Published) -> bool:
    """Return whether a document declares another epoch or date than is stored."""
    if source is None:
        return False
    declared = (source.epoch, source.createdat, source.modifiedat)
    published = (stored.epoch, stored.createdat, stored.modifiedat)
    return any(own is not None and own != published_value for own, published_value in zip(declared, published, strict=True))


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)


def without_stale(outcome: Verdict, *, has_epoch: bool, has_modifiedat: bool) -> Verdict:
    """Refuse an update that is older than what is stored (decision 8): declared is compared with declared.

    Args:
        outcome: a suspect.
        has_epoch: a document declared the epoch that is stored.
        has_modifiedat: a document declared the date that is stored.
    """
    stored = outcome.stored
    assert stored is not None
    is_older = (has_epoch and _is_less(outcome.declared_epoch, stored.epoch)) or (
        has_modifiedat and _is_less(outcome.declared_modifiedat, stored.modifiedat)
    )
    if not is_older:
        return outcome
    owners = tuple(sorted(outcome.remaining))
    return replace(
        outcome,
        op="own" if owners != stored.document_uris else None,
        refused=STALE,
        document_uri=None,
        content_hash=stored.content_hash,
        epoch=stored.epoch,
        createdat=stored.createdat,
        modifiedat=stored.modifiedat,
        isdefault=stored.isdefault,
        defaultversionid=stored.defaultversionid,
        document_uris=owners,
        taken_from=None,
        regained=False,
        displaced=(),
        joined=(),
    )


def with_default(outcome: Verdict, *, is_default: bool) -> Verdict:
    """Make `isdefault` of a Version what its published message or schema says (decision 7).

    Args:
        outcome: what happens to the Version.
        is_default: the message or schema names it.

    Returns:
        The default Version of a message that stays is not deleted. Where only `isdefault` changes, document_uri is None: the text
        is the stored one, whose hash the caller sets.
    """
    if outcome.op == "delete":
        if not is_default:
            return outcome
        return replace(outcome, op="own" if outcome.stored is not None and outcome.stored.document_uris else None)
    if outcome.isdefault is None or outcome.isdefault is is_default:
        return outcome
    op = "update" if outcome.op in (None, "own") else outcome.op
    result = replace(outcome, isdefault_differs=True, isdefault=is_default, op=op)
    return result if outcome.document_uri is None else replace(result, content_hash=outcome.twin_hash)


def with_counted_epoch(outcome: Verdict, now: int, *, declares_epoch: bool, declares_modifiedat: bool) -> Verdict:
    """Count the epoch of a holder of which members came or went, and set its date, but for what its document declares.

    Args:
        outcome: what happens to the holder, which is published and not written.
        now: time of the snapshot to come.
        declares_epoch: its document declares the epoch.
        declares_modifiedat: its document declares the date.
    """
    if outcome.stored is None or (declares_epoch and declares_modifiedat):
        return outcome
    return replace(
        outcome,
        op="update",
        epoch=outcome.stored.epoch if declares_epoch else outcome.stored.epoch + 1,
        modifiedat=outcome.stored.modifiedat if declares_modifiedat else now,
        document_uri=outcome.document_uris[0] if outcome.has_text else None,
        isdefault_differs=False,
    )


def unchanged(stored: Published) -> Verdict:
    """Return the verdict of an entity that no document that was read says anything of."""
    return Verdict(
        None, None, None, stored.content_hash, stored.epoch, stored.createdat, stored.modifiedat, stored.isdefault,
        stored.defaultversionid, stored.document_uris, None, False, None, (), (), (), (), stored.document_uris, None, None, None,
        stored,
    )  # fmt: skip


class Transfer(NamedTuple):
    """That a document took an entity from another one (DOC-002), or got it back (DOC-005); other: the owner before."""

    document_uri: str
    content_hash: str
    rule_id: str
    other: str | None


def transfers(outcome: Verdict) -> list[Transfer]:
    """Return what documents took from others or got back, and what is still reported of that while they stay as they are."""
    now = OWNER_CHANGED if outcome.taken_from is not None else REGAINED if outcome.regained else None
    if now is not None:
        taken = (claim for claim in outcome.agreed if claim.document_uri == outcome.source_uri)
        return [Transfer(claim.document_uri, claim.content_hash, now, outcome.taken_from) for claim in taken]
    return [
        Transfer(claim.document_uri, claim.content_hash, claim.rule_id, claim.other)
        for claim in outcome.agreed
        if claim.again and not claim.is_new and claim.rule_id in (OWNER_CHANGED, REGAINED)
    ]


def is_reported(outcome: Verdict) -> bool:
    """Return whether findings or disputes are about an outcome."""
    if outcome.refused or outcome.taken_from or outcome.regained or outcome.opposed or outcome.displaced:
        return True
    return any(claim.rule_id is not None for claim in outcome.agreed)


def is_contested(claim: Claim) -> bool:
    """Return whether a claim that is not published is refused (DOC-001), and not just overruled by what came later."""
    return claim.is_new or claim.rule_id == CONFLICT


def disputes_after(outcome: Verdict, *, is_registry: bool) -> Iterator[Dispute]:
    """Return what documents keep of an outcome: the first about a document counts; rule `SETTLED`: it waits no more."""
    if not is_registry:
        for claim in outcome.opposed:
            yield Dispute(claim.document_uri, claim.content_hash, CONFLICT if is_contested(claim) else None)
    for uri in outcome.displaced:
        yield Dispute(uri, None if outcome.stored is None else outcome.stored.content_hash)
    if outcome.refused == STALE:
        for claim in outcome.agreed:
            if claim.document_uri not in outcome.document_uris:
                yield Dispute(claim.document_uri, claim.content_hash, STALE)
    for taken in transfers(outcome):
        yield Dispute(taken.document_uri, taken.content_hash, taken.rule_id, taken.other)
    for uri in outcome.joined:
        yield Dispute(uri, None, SETTLED)


class Report(NamedTuple):
    """A finding about who defines an entity: action `quarantined` refuses what the document says of it."""

    document_uri: str
    rule_id: str
    severity: str
    action: str
    message: str


def reports(outcome: Verdict, *, is_registry: bool) -> Iterator[Report]:
    """Report what was refused or changed hands because documents, or a document and the catalog, disagree (DOC-001 to 005)."""
    first = outcome.document_uris[0] if outcome.document_uris else outcome.source_uri
    for claim in outcome.opposed:
        if claim.document_uri != first and (is_registry or is_contested(claim)):
            what = " differ in the registry's own attributes" if is_registry else " define this entity differently"
            message = f"the documents {first} and {claim.document_uri}{what}; those of the first are taken"
            severity, action = ("info", "kept") if is_registry else ("error", "quarantined")
            yield Report(claim.document_uri, CONFLICT, severity, action, message)
    if outcome.refused == STALE:
        for claim in outcome.agreed:
            yield Report(claim.document_uri, STALE, "warning", "quarantined", _stale(outcome))
    for taken in transfers(outcome):
        severity = "warning" if taken.rule_id == OWNER_CHANGED else "info"
        message = transfer_message(taken.document_uri, taken.rule_id, taken.other)
        yield Report(taken.document_uri, taken.rule_id, severity, "kept", message)


def transfer_message(document_uri: str, rule_id: str, other: str | None) -> str:
    """Return what is reported of a document that took an entity over (DOC-002), or got it back (DOC-005)."""
    if rule_id == OWNER_CHANGED:
        return f"it was defined by {other}, and {document_uri} now takes it over"
    return f"no other document defines it any more: it is taken from {document_uri} again"


def _stale(outcome: Verdict) -> str:
    assert outcome.stored is not None
    epoch = "not declared" if outcome.declared_epoch is None else str(outcome.declared_epoch)
    date = "not declared" if outcome.declared_modifiedat is None else _as_spark(outcome.declared_modifiedat)
    stored = _as_spark(outcome.stored.modifiedat)
    return f"it is older than what is stored: epoch {epoch} against {outcome.stored.epoch}, modifiedat {date} against {stored}"


def _as_spark(micros: int) -> str:
    """Write a moment as Spark writes a TIMESTAMP as text."""
    return rfc3339(micros).removesuffix("Z").replace("T", " ")
