"""The neighbours of an entity, found by look-ups, and the rules of `relations` that it breaks with them.

Spark finds the same neighbours by joins (`rules.relational`). Here the look-ups follow one entity that was written: its parent,
what it names, what it is merged with, what it carries. Those that name or carry it are other entities, looked up separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, Protocol

from lakehouse.dialects.tables import family_of, has_rule
from lakehouse.domain import relations
from lakehouse.domain.bases import Attributes, FindAttributes, Leaves, bases_of, chain_of, merged, shown_version, text_at
from lakehouse.domain.leaves import leaves_of
from lakehouse.domain.promises import PROMISES, compared_pairs
from lakehouse.domain.references import spelled
from lakehouse.domain.relations import ABOUT_CHANGE, ONE_TYPE, VARYING, Violations
from lakehouse.domain.versionchanges import compared_version
from lakehouse.text.jsontext import as_column_text, canonical_text
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.xid import last_id, split_version, xid_of_group, xid_of_resource, xid_of_version

_METADATA = ("envelope", "envelopemetadata", "protocol", "protocoloptions")
_KEY = Pointer("/protocoloptions/key_base64/value")


class EntityState(NamedTuple):
    """An entity as it is or would be.

    Attributes:
        kind: of the log.
        xid: of the entity.
        known: its attributes in normal form.
        dialect: of the document that holds it; None: none does.
        is_declared: its document writes it itself; a Version may be only implied by its message.
        is_written: it is new or was changed; a definition that is not is judged with its bases by `lakehouse validate` only.
        document: the document that holds it, of several the one that findings are for; empty: none does.
    """

    kind: str
    xid: Xid
    known: Attributes
    dialect: str | None = None
    is_declared: bool = True
    is_written: bool = True
    document: str = ""


class Surroundings(Protocol):
    """The entities of a registry as they would be."""

    def entity(self, xid: Xid) -> EntityState | None:
        """Return an entity; None: it is not there."""

    def held(self, xid: Xid) -> Iterable[EntityState]:
        """Return what a group, an endpoint or a message holds itself, by XID."""

    def siblings(self, version: EntityState) -> Iterable[EntityState]:
        """Return the Versions of the same message that the same document holds, this one among them."""

    def alike(self, xid: Xid) -> Xid | None:
        """Return an earlier entity of the same collection whose XID differs in letter case only."""


class RuleLimits(NamedTuple):
    """Settings that rules follow.

    Attributes:
        max_chain_depth: how many bases are followed.
        duplicate_messageids: how grave it is that a messageid comes twice.
        with_warnings: look for what is no error, too.
        first_of_type: gives the message that has had a `type` first; None: it is not looked for.
        with_published: judge entities that were not written, too, each with its bases or earlier Versions (`lakehouse validate`).
    """

    max_chain_depth: int
    duplicate_messageids: str
    with_warnings: bool = True
    first_of_type: Callable[[str], Xid | None] | None = None
    with_published: bool = False


def violations_of(entity: EntityState, before: EntityState | None, around: Surroundings, limits: RuleLimits) -> Violations:
    """Yield the rules between entities that an entity breaks which is new or was changed.

    Args:
        entity: as it would be.
        before: as it is; None: it is new.
        around: what would be there, this entity among it.
        limits: the settings.
    """
    other = around.alike(entity.xid) if entity.kind in VARYING else None
    if other is not None:
        yield from relations.of_variant(kind=entity.kind, other=other)
    if before is not None and entity.dialect and any(has_rule(entity.dialect, rule_id) for rule_id in ABOUT_CHANGE):
        yield from _of_change(entity, before)
    if entity.kind in ("version", "schemaversion", "message", "schema"):
        yield from _of_promises(entity, before, around, limits)
    if entity.kind == "version":
        yield from _Version(entity, around, limits).violations()
    elif entity.kind in ("message", "schema"):
        yield from _of_alias(entity, around, limits)
        if entity.kind == "message" and entity.is_written:
            yield from _of_shown_cycle(entity, around)
    elif entity.kind == "endpoint":
        yield from _Endpoint(entity, around, limits).violations()


def _of_change(entity: EntityState, before: EntityState) -> Violations:
    was, now = before.known, entity.known
    yield from relations.of_change(
        kind=entity.kind,
        is_declared=entity.is_declared,
        format=now.get("envelope") or now.get("protocol"),
        old_format=was.get("envelope") or was.get("protocol"),
        authority=now.get("authority"),
        old_authority=was.get("authority"),
    )


def _of_promises(entity: EntityState, before: EntityState | None, around: Surroundings, limits: RuleLimits) -> Violations:
    """Compare Versions with those before them, by what `compatibility` promises.

    A finding is about the later Version, if that was written, else about the earlier one; about the message or schema if neither
    was, and `compatibility` is another one now. Of what is published, it is about the later Version.
    """
    is_holder = entity.kind in ("message", "schema")
    holder = entity if is_holder else around.entity(xid_of_resource(entity.xid))
    compatibility = holder.known.get("compatibility") if holder is not None else None
    is_judged = entity.is_written or limits.with_published
    if holder is None or not is_judged or compatibility not in PROMISES:
        return
    if is_holder and (before is None or before.known.get("compatibility") == compatibility):
        return
    versions = {last_id(one.xid): one for one in around.held(holder.xid) if one.kind in ("version", "schemaversion")}
    ancestors = {versionid: str(one.known.get("ancestor") or versionid) for versionid, one in versions.items()}
    for later, earlier in compared_pairs(ancestors, compatibility):
        pair = versions[later], versions[earlier]
        subject = pair[0] if limits.with_published else next((one for one in pair if one.is_written), holder)
        if subject.xid == entity.xid:
            yield from relations.of_promise(
                kind=pair[0].kind,
                compatibility=compatibility,
                version=compared_version(pair[0].kind, pair[0].known),
                versionid=later,
                earlier=compared_version(pair[1].kind, pair[1].known),
                earlier_id=earlier,
                is_holders=is_holder,
            )


def _of_alias(entity: EntityState, around: Surroundings, limits: RuleLimits) -> Violations:
    xref = entity.known.get("xref")
    if not isinstance(xref, str):
        return
    target = around.entity(Xid(xref))
    if limits.with_warnings:
        is_there = target is not None and target.kind == entity.kind
        further = target.known.get("xref") if target is not None and is_there else None
        yield from relations.of_alias(xid=entity.xid, xref=xref, is_there=is_there, further=further)
    shown = _shown(entity.xid, around)
    if entity.kind == "message" and shown is not None:
        yield from _of_holder(entity.xid, shown.known, around, is_based=False)


def _of_shown_cycle(message: EntityState, around: Surroundings) -> Violations:
    """Check the messages that would refer to an existing Version: they may close a cycle (MSG-146)."""
    if message.known.get("xref") is not None or message.known.get("defaultversionid") is None:
        return
    version = around.entity(xid_of_version(message.xid, message.known["defaultversionid"]))
    if version is not None and not version.is_written and version.xid in bases_of(version.xid, _finder(around)):
        yield from relations.of_cycle(basemessage=version.known["basemessage"], by_default=True)


def _of_holder(message: Xid, known: Attributes, around: Surroundings, *, is_based: bool) -> Violations:
    holder = around.entity(xid_of_group(message))
    if holder is not None:
        yield from relations.of_holder(
            in_group=holder.kind == "group",
            is_based=is_based,
            envelope=known.get("envelope"),
            protocol=known.get("protocol"),
            holder_envelope=holder.known.get("envelope"),
            holder_protocol=holder.known.get("protocol"),
        )


class _Version:
    """A Version of a message, with what it names."""

    def __init__(self, entity: EntityState, around: Surroundings, limits: RuleLimits) -> None:
        self.entity, self.around, self.limits = entity, around, limits
        self.known = entity.known
        self.message = xid_of_resource(entity.xid)
        self.isdefault = self.known.get("isdefault") is True
        self.is_based = self.known.get("basemessage") is not None

    def violations(self) -> Violations:
        if self.isdefault:
            yield from _of_holder(self.message, self.known, self.around, is_based=self.is_based)
            yield from self._of_siblings()
        for attribute, target in self._targets():
            if not _is_there(self.around, target, "message", "version", "schema"):
                has_group = _is_there(self.around, xid_of_group(target), "group")
                yield from relations.of_absent_target(attribute=attribute, target=target, has_group=has_group)
        if self.limits.with_warnings:
            yield from self._of_schema_uri()
        if self.is_based:
            yield from self._of_chain()

    def _targets(self) -> Iterator[tuple[str, Xid]]:
        for name in ("basemessage", "dataschemaxid"):
            named = self.known.get(name)
            if isinstance(named, str) and named.startswith("/"):
                yield name, split_version(named)[0]
        ancestor = self.known.get("ancestor")
        if ancestor is not None and xid_of_version(self.message, ancestor) != self.entity.xid:
            yield "ancestor", xid_of_version(self.message, ancestor)

    def _of_schema_uri(self) -> Violations:
        uri = self.known.get("dataschemauri")
        if not isinstance(uri, str):
            return
        read = spelled(uri, names_type=True)
        if read.whole is None or not read.whole.lower().startswith("/schemagroups"):
            return
        named = (_cut_off(one) for one in (read.whole, read.without_suffix) if one is not None)
        if not any(_is_there(self.around, one, "schema", "schemaversion") for one in named):
            has_group = _is_there(self.around, xid_of_group(read.whole), "group")
            is_fragment = uri.lstrip().startswith("#")
            yield from relations.of_absent_schema(path=read.whole, is_fragment=is_fragment, has_group=has_group)

    def _of_chain(self) -> Violations:
        find = _finder(self.around)
        if self.entity.xid in bases_of(self.entity.xid, find):
            if self.entity.is_written or not self.isdefault or not self._is_shown_anew():
                yield from relations.of_cycle(basemessage=self.known["basemessage"])
            return
        holder = self.around.entity(xid_of_group(self.message))
        envelope = holder.known.get("envelope") if holder is not None and holder.kind == "group" else None
        needs_envelope = self.known.get("envelope") is None and envelope is not None
        is_judged = (self.entity.is_written or self.limits.with_published) and self.isdefault
        if is_judged and (needs_envelope or relations.lacks_something(self.known)):
            status, leaves = _flattened(self.entity.xid, find, self.limits)
            if status == "resolved":  # where a base may come later nothing is judged
                yield from relations.of_flattened(leaves=leaves, holder_envelope=envelope)

    def _is_shown_anew(self) -> bool:
        """Return whether the message was changed, so that the finding is about that."""
        message = self.around.entity(self.message)
        return message is not None and message.is_written

    def _of_siblings(self) -> Violations:
        """Compare with the other Versions and, where the dialect asks for it, with other messages of the same `type`."""
        if self.limits.with_warnings:
            versions = [one.known for one in self.around.siblings(self.entity)]
            metadata = {canonical_text([one.get(name) for name in _METADATA]) for one in versions}
            if len(metadata) > 1 and all(one.get("basemessage") is None for one in versions):
                yield from relations.of_versions()
        if self.limits.first_of_type is None or self.is_based or not has_rule(self.entity.dialect or "", ONE_TYPE):
            return
        ce_type = text_at(_leaves(self.known), "/envelopemetadata/type/value")
        other = None if ce_type is None else self.limits.first_of_type(ce_type)
        if ce_type is not None and other not in (None, self.message):
            yield from relations.of_same_type(ce_type=ce_type, other=str(other))


class _Endpoint:
    """An endpoint, with what it names and carries."""

    def __init__(self, entity: EntityState, around: Surroundings, limits: RuleLimits) -> None:
        self.entity, self.around, self.limits = entity, around, limits
        self.known = entity.known
        named = self.known.get("messagegroups")
        self.groups: list[Xid] | None = named if isinstance(named, list) else None
        self.containers = list(dict.fromkeys([*(self.groups or ()), entity.xid]))

    def violations(self) -> Violations:
        yield from self._of_will()
        if self.groups is not None and (self.limits.with_warnings or self.limits.duplicate_messageids == "error"):
            yield from self._of_messageids()
        if self.limits.with_warnings:
            for group in self.groups or ():
                if group.startswith("/") and not _is_there(self.around, group, "group", "endpoint"):
                    yield from relations.of_absent_group(group=group)
            if self.groups is not None:
                yield from self._of_listed()
            yield from self._of_options()

    def _of_will(self) -> Violations:
        will = (self.known.get("protocoloptions") or {}).get("willmessage")
        if not isinstance(will, str) or not will.startswith("/"):
            return
        target = split_version(will)[0]
        if not _is_there(self.around, target, "message", "version", "schema"):
            yield from relations.of_absent_target(attribute="willmessage", target=target)
            return
        message = self.around.entity(target)
        shown = None if message is None or message.known.get("xref") is not None else _shown(target, self.around)
        if shown is not None:
            known = shown.known
            yield from relations.of_will(target=target, envelope=known.get("envelope"), protocol=known.get("protocol"))

    def _of_messageids(self) -> Violations:
        holders: dict[str, Xid] = {}
        twice = set()
        for container in self.containers:
            for message, _ in _carried(container, self.around):
                messageid = message.rsplit("/", 1)[1]
                if holders.setdefault(messageid, message) != message:
                    twice.add(messageid)
        if twice:
            yield from relations.of_messageids(messageid=min(twice), severity=self.limits.duplicate_messageids)

    def _of_listed(self) -> Violations:
        listed = [
            {
                "envelope": shown.known.get("envelope"),
                "protocol": shown.known.get("protocol"),
                "message_xid": message,
                "messages": 1,
            }
            for container in self.containers
            if container != self.entity.xid
            for message, shown in _carried(container, self.around)
        ]
        own = {"envelope": self.known.get("envelope"), "protocol": self.known.get("protocol")}
        yield from relations.of_listed(listed=listed, **own)

    def _of_options(self) -> Violations:
        family = family_of(self.known.get("protocol"))
        options = self.known.get("protocoloptions") or {}
        asked = {one.pointer: as_column_text(options.get(one.name)) for one in relations.judged_options().get(family or "", ())}
        asked = {pointer: text for pointer, text in asked.items() if text}
        if not asked:
            return
        declared: dict[Pointer, list[dict[str, Any]]] = {pointer: [] for pointer in asked}
        for container in self.containers:
            for message, shown in _carried(container, self.around):
                _, leaves = _flattened(shown.xid, _finder(self.around), self.limits)
                if family_of(text_at(leaves, "/protocol")) in (None, family):
                    for pointer, results in declared.items():
                        says = {"value": leaves.get(pointer), "key_base64": leaves.get(_KEY)}
                        results.append(says | {"message_xid": message, "messages": 1})
        for pointer, text in asked.items():
            yield from relations.of_option(pointer=pointer, asked=str(text), declared=declared[pointer])


def _finder(around: Surroundings) -> FindAttributes:
    def find(xid: Xid) -> Attributes | None:
        result = around.entity(xid)
        return None if result is None else result.known

    return find


def _is_there(around: Surroundings, xid: Xid, *kinds: str) -> bool:
    result = around.entity(xid)
    return result is not None and result.kind in kinds


def _shown(message: Xid, around: Surroundings) -> EntityState | None:
    """Return the default Version that a message shows, its own or another's (`xref`)."""
    version = shown_version(message, _finder(around))
    return None if version is None else around.entity(version)


def _carried(holder: Xid, around: Surroundings) -> Iterator[tuple[Xid, EntityState]]:
    """Yield the messages of a group or an endpoint that show a definition, each with the Version that it shows."""
    for message in around.held(holder):
        shown = _shown(message.xid, around) if message.kind == "message" else None
        if shown is not None:
            yield message.xid, shown


def _flattened(version: Xid, find: FindAttributes, limits: RuleLimits) -> tuple[str, Leaves]:
    """Return how a chain of bases ends, and the definition merged with the bases that were found."""
    chain = chain_of(version, find, limits.max_chain_depth)
    followed = chain.versions[:1] if chain.status == "cycle" else chain.versions
    return chain.status, merged(_leaves(find(one) or {}) for one in followed)


def _leaves(known: Attributes) -> Leaves:
    return dict(leaves_of(dict(known), known.get("extensions", {})))


def _cut_off(spelling: Xid) -> Xid:
    """Cut an XID off behind the schema, or the Version of one, that it leads into."""
    tokens = spelling.split("/")
    return Xid("/".join(tokens[: 7 if tokens[5:6] == ["versions"] else 5]))
