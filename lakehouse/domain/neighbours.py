"""The neighbours of an entity, found by look-ups, and the rules of `relations` that it breaks with them.

Spark finds the same neighbours by joins (`rules.relational`). Here the look-ups follow one entity that was written: its parent,
what it names, what it is merged with, what it carries. Those that name or carry it are other entities, looked up separately.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple, Protocol

from lakehouse.dialects.tables import family_of, has_rule
from lakehouse.domain import relations
from lakehouse.domain.bases import Attributes, FindAttributes, FlatAttributes, bases_of, chain_of, merged, shown_version, text_at
from lakehouse.domain.flatattributes import flat_attributes_of
from lakehouse.domain.references import spelled
from lakehouse.domain.relations import ABOUT_CHANGE, UNIQUE_TYPE, VARYING, Violations
from lakehouse.domain.versionchanges import PROMISES, comparable_version, earlier_versions, pairs_to_compare
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
        attributes: its attributes in normal form.
        dialect: of the document that holds it; None: none does.
        is_declared: its document writes it itself; a Version may be only implied by its message.
        is_written: it is new or was changed; a definition that is not is judged with its bases by `lakehouse validate` only.
        document: the document that holds it, of several the one that findings are for; empty: none does.
    """

    kind: str
    xid: Xid
    attributes: Attributes
    dialect: str | None = None
    is_declared: bool = True
    is_written: bool = True
    document: str = ""


class RegistryContext(Protocol):
    """The entities of a registry as they would be."""

    def entity(self, xid: Xid) -> EntityState | None:
        """Return an entity; None: it is not there."""

    def children(self, xid: Xid) -> Iterable[EntityState]:
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


def violations_of(entity: EntityState, before: EntityState | None, context: RegistryContext, limits: RuleLimits) -> Violations:
    """Yield the rules between entities that an entity breaks which is new or was changed.

    Args:
        entity: as it would be.
        before: as it is; None: it is new.
        context: what would be there, this entity among it.
        limits: the settings.
    """
    other = context.alike(entity.xid) if entity.kind in VARYING else None
    if other is not None:
        yield from relations.check_variant(kind=entity.kind, other=other)
    if before is not None and entity.dialect and any(has_rule(entity.dialect, rule_id) for rule_id in ABOUT_CHANGE):
        yield from _check_change(entity, before)
    if entity.kind in ("version", "schemaversion", "message", "schema"):
        yield from _check_promises(entity, before, context, limits)
    if entity.kind == "version":
        yield from _Version(entity, context, limits).violations()
    elif entity.kind in ("message", "schema"):
        yield from _check_alias(entity, context, limits)
        if entity.kind == "message" and entity.is_written:
            yield from _check_shown_cycle(entity, context)
    elif entity.kind == "endpoint":
        yield from _Endpoint(entity, context, limits).violations()


def _check_change(entity: EntityState, before: EntityState) -> Violations:
    was, now = before.attributes, entity.attributes
    yield from relations.check_change(
        kind=entity.kind,
        is_declared=entity.is_declared,
        format=now.get("envelope") or now.get("protocol"),
        old_format=was.get("envelope") or was.get("protocol"),
        authority=now.get("authority"),
        old_authority=was.get("authority"),
    )


def _check_promises(entity: EntityState, before: EntityState | None, context: RegistryContext, limits: RuleLimits) -> Violations:
    """Compare Versions with those before them, by what `compatibility` promises.

    A finding is about the later Version, if that was written, else about the earlier one; about the message or schema if neither
    was, and `compatibility` is another one now. Of what is published, it is about the later Version.
    """
    is_parent = entity.kind in ("message", "schema")
    parent = entity if is_parent else context.entity(xid_of_resource(entity.xid))
    compatibility = parent.attributes.get("compatibility") if parent is not None else None
    is_judged = entity.is_written or limits.with_published
    if parent is None or not is_judged or compatibility not in PROMISES:
        return
    if is_parent and (before is None or before.attributes.get("compatibility") == compatibility):
        return
    versions = {
        last_id(version.xid): version for version in context.children(parent.xid) if version.kind in ("version", "schemaversion")
    }
    ancestors = {versionid: str(version.attributes.get("ancestor") or versionid) for versionid, version in versions.items()}
    if is_parent:
        pairs = [
            pair for pair in pairs_to_compare(ancestors, compatibility) if not any(versions[each].is_written for each in pair)
        ]
    else:
        own = last_id(entity.xid)
        pairs = [(own, earlier) for earlier in earlier_versions(own, ancestors, compatibility=compatibility)]
        unwritten = () if limits.with_published else (each for each, version in versions.items() if not version.is_written)
        pairs += [(each, own) for each in unwritten if own in earlier_versions(each, ancestors, compatibility=compatibility)]
    named = {versionid for pair in pairs for versionid in pair}
    comparable = {versionid: comparable_version(versions[versionid].kind, versions[versionid].attributes) for versionid in named}
    for later, earlier in pairs:
        yield from relations.check_promise(
            kind=versions[later].kind,
            compatibility=compatibility,
            version=comparable[later],
            versionid=later,
            earlier=comparable[earlier],
            earlier_id=earlier,
            is_about_parent=is_parent,
        )


def _check_alias(entity: EntityState, context: RegistryContext, limits: RuleLimits) -> Violations:
    xref = entity.attributes.get("xref")
    if not isinstance(xref, str):
        return
    target = context.entity(Xid(xref))
    if limits.with_warnings:
        is_there = target is not None and target.kind == entity.kind
        further = target.attributes.get("xref") if target is not None and is_there else None
        yield from relations.check_alias(xid=entity.xid, xref=xref, is_there=is_there, further=further)
    shown = _shown(entity.xid, context)
    if entity.kind == "message" and shown is not None:
        yield from _check_parent(entity.xid, shown.attributes, context, is_based=False)


def _check_shown_cycle(message: EntityState, context: RegistryContext) -> Violations:
    """Check the messages that would refer to an existing Version: they may close a cycle (MSG-146)."""
    if message.attributes.get("xref") is not None or message.attributes.get("defaultversionid") is None:
        return
    version = context.entity(xid_of_version(message.xid, message.attributes["defaultversionid"]))
    if version is not None and not version.is_written and version.xid in bases_of(version.xid, _finder(context)):
        yield from relations.check_cycle(basemessage=version.attributes["basemessage"], by_default=True)


def _check_parent(message: Xid, attributes: Attributes, context: RegistryContext, *, is_based: bool) -> Violations:
    parent = context.entity(xid_of_group(message))
    if parent is not None:
        yield from relations.check_parent(
            in_group=parent.kind == "group",
            is_based=is_based,
            envelope=attributes.get("envelope"),
            protocol=attributes.get("protocol"),
            parent_envelope=parent.attributes.get("envelope"),
            parent_protocol=parent.attributes.get("protocol"),
        )


class _Version:
    """A Version of a message, with what it names."""

    def __init__(self, entity: EntityState, context: RegistryContext, limits: RuleLimits) -> None:
        self.entity, self.context, self.limits = entity, context, limits
        self.attributes = entity.attributes
        self.message = xid_of_resource(entity.xid)
        self.isdefault = self.attributes.get("isdefault") is True
        self.is_based = self.attributes.get("basemessage") is not None

    def violations(self) -> Violations:
        if self.isdefault:
            yield from _check_parent(self.message, self.attributes, self.context, is_based=self.is_based)
            yield from self._check_siblings()
        for attribute, target in self._targets():
            if not _exists(self.context, target, "message", "version", "schema"):
                has_group = _exists(self.context, xid_of_group(target), "group")
                yield from relations.check_absent_target(attribute=attribute, target=target, has_group=has_group)
        if self.limits.with_warnings:
            yield from self._check_schema_uri()
        if self.is_based:
            yield from self._check_chain()

    def _targets(self) -> Iterator[tuple[str, Xid]]:
        for name in ("basemessage", "dataschemaxid"):
            named = self.attributes.get(name)
            if isinstance(named, str) and named.startswith("/"):
                yield name, split_version(named)[0]
        ancestor = self.attributes.get("ancestor")
        if ancestor is not None and xid_of_version(self.message, ancestor) != self.entity.xid:
            yield "ancestor", xid_of_version(self.message, ancestor)

    def _check_schema_uri(self) -> Violations:
        uri = self.attributes.get("dataschemauri")
        if not isinstance(uri, str):
            return
        read = spelled(uri, names_type=True)
        if read.whole is None or not read.whole.lower().startswith("/schemagroups"):
            return
        named = (_cut_off(xid) for xid in (read.whole, read.without_suffix) if xid is not None)
        if not any(_exists(self.context, xid, "schema", "schemaversion") for xid in named):
            has_group = _exists(self.context, xid_of_group(read.whole), "group")
            is_fragment = uri.lstrip().startswith("#")
            yield from relations.check_absent_schema(path=read.whole, is_fragment=is_fragment, has_group=has_group)

    def _check_chain(self) -> Violations:
        find = _finder(self.context)
        if self.entity.xid in bases_of(self.entity.xid, find):
            if self.entity.is_written or not self.isdefault or not self._is_shown_anew():
                yield from relations.check_cycle(basemessage=self.attributes["basemessage"])
            return
        parent = self.context.entity(xid_of_group(self.message))
        envelope = parent.attributes.get("envelope") if parent is not None and parent.kind == "group" else None
        needs_envelope = self.attributes.get("envelope") is None and envelope is not None
        is_judged = (self.entity.is_written or self.limits.with_published) and self.isdefault
        if is_judged and (needs_envelope or relations.lacks_something(self.attributes)):
            status, flat = _flattened(self.entity.xid, find, self.limits)
            if status == "resolved":  # where a base may come later nothing is judged
                yield from relations.check_flattened(attributes=flat, parent_envelope=envelope)

    def _is_shown_anew(self) -> bool:
        """Return whether the message was changed, so that the finding is about that."""
        message = self.context.entity(self.message)
        return message is not None and message.is_written

    def _check_siblings(self) -> Violations:
        """Compare with the other Versions and, where the dialect asks for it, with other messages of the same `type`."""
        if self.limits.with_warnings:
            versions = [version.attributes for version in self.context.siblings(self.entity)]
            metadata = {canonical_text([attributes.get(name) for name in _METADATA]) for attributes in versions}
            if len(metadata) > 1 and all(attributes.get("basemessage") is None for attributes in versions):
                yield from relations.check_versions()
        if self.limits.first_of_type is None or self.is_based or not has_rule(self.entity.dialect or "", UNIQUE_TYPE):
            return
        ce_type = text_at(_flat_attributes(self.attributes), "/envelopemetadata/type/value")
        other = None if ce_type is None else self.limits.first_of_type(ce_type)
        if ce_type is not None and other not in (None, self.message):
            yield from relations.check_same_type(ce_type=ce_type, other=str(other))


class _Endpoint:
    """An endpoint, with what it names and carries."""

    def __init__(self, entity: EntityState, context: RegistryContext, limits: RuleLimits) -> None:
        self.entity, self.context, self.limits = entity, context, limits
        self.attributes = entity.attributes
        named = self.attributes.get("messagegroups")
        self.groups: list[Xid] | None = named if isinstance(named, list) else None
        self.containers = list(dict.fromkeys([*(self.groups or ()), entity.xid]))

    def violations(self) -> Violations:
        yield from self._check_will()
        if self.groups is not None and (self.limits.with_warnings or self.limits.duplicate_messageids == "error"):
            yield from self._check_messageids()
        if self.limits.with_warnings:
            for group in self.groups or ():
                if group.startswith("/") and not _exists(self.context, group, "group", "endpoint"):
                    yield from relations.check_absent_group(group=group)
            if self.groups is not None:
                yield from self._check_listed()
            yield from self._check_options()

    @cached_property
    def _carried(self) -> list[tuple[Xid, Xid, EntityState]]:
        """Return the messages that show a definition: what holds each, its XID, the Version that it shows."""
        return [
            (container, message.xid, shown)
            for container in self.containers
            for message in self.context.children(container)
            if message.kind == "message" and (shown := _shown(message.xid, self.context)) is not None
        ]

    def _check_will(self) -> Violations:
        will = (self.attributes.get("protocoloptions") or {}).get("willmessage")
        if not isinstance(will, str) or not will.startswith("/"):
            return
        target = split_version(will)[0]
        if not _exists(self.context, target, "message", "version", "schema"):
            yield from relations.check_absent_target(attribute="willmessage", target=target)
            return
        message = self.context.entity(target)
        shown = None if message is None or message.attributes.get("xref") is not None else _shown(target, self.context)
        if shown is not None:
            attributes = shown.attributes
            yield from relations.check_will(
                target=target,
                is_based=attributes.get("basemessage") is not None,
                envelope=attributes.get("envelope"),
                protocol=attributes.get("protocol"),
            )

    def _check_messageids(self) -> Violations:
        message_by_id: dict[str, Xid] = {}
        twice = set()
        for _, message, _ in self._carried:
            messageid = message.rsplit("/", 1)[1]
            if message_by_id.setdefault(messageid, message) != message:
                twice.add(messageid)
        if twice:
            yield from relations.check_messageids(messageid=min(twice), severity=self.limits.duplicate_messageids)

    def _check_listed(self) -> Violations:
        listed = [
            {
                "envelope": shown.attributes.get("envelope"),
                "protocol": shown.attributes.get("protocol"),
                "message_xid": message,
                "messages": 1,
            }
            for container, message, shown in self._carried
            if container != self.entity.xid
        ]
        own = {"envelope": self.attributes.get("envelope"), "protocol": self.attributes.get("protocol")}
        yield from relations.check_listed(listed=listed, **own)

    def _check_options(self) -> Violations:
        family = family_of(self.attributes.get("protocol"))
        options = self.attributes.get("protocoloptions") or {}
        endpoint_values = {
            option.pointer: as_column_text(options.get(option.name))
            for option in relations.judged_options().get(family or "", ())
        }
        endpoint_values = {pointer: text for pointer, text in endpoint_values.items() if text}
        if not endpoint_values:
            return
        declared: dict[Pointer, list[dict[str, Any]]] = {pointer: [] for pointer in endpoint_values}
        for _, message, shown in self._carried:
            _, flat = _flattened(shown.xid, _finder(self.context), self.limits)
            if family_of(text_at(flat, "/protocol")) in (None, family):
                for pointer, results in declared.items():
                    says = {"value": flat.get(pointer), "key_base64": flat.get(_KEY)}
                    results.append(says | {"message_xid": message, "messages": 1})
        for pointer, text in endpoint_values.items():
            yield from relations.check_endpoint_option(pointer=pointer, endpoint_value=str(text), declared=declared[pointer])


def _finder(context: RegistryContext) -> FindAttributes:
    def find(xid: Xid) -> Attributes | None:
        result = context.entity(xid)
        return None if result is None else result.attributes

    return find


def _exists(context: RegistryContext, xid: Xid, *kinds: str) -> bool:
    result = context.entity(xid)
    return result is not None and result.kind in kinds


def _shown(message: Xid, context: RegistryContext) -> EntityState | None:
    """Return the default Version that a message shows, its own or another's (`xref`)."""
    version = shown_version(message, _finder(context))
    return None if version is None else context.entity(version)


def _flattened(version: Xid, find: FindAttributes, limits: RuleLimits) -> tuple[str, FlatAttributes]:
    """Return how a chain of bases ends, and the definition merged with the bases that were found."""
    chain = chain_of(version, find, limits.max_chain_depth)
    followed = chain.versions[:1] if chain.status == "cycle" else chain.versions
    return chain.status, merged(_flat_attributes(find(step) or {}) for step in followed)


def _flat_attributes(attributes: Attributes) -> FlatAttributes:
    return dict(flat_attributes_of(dict(attributes), attributes.get("extensions", {})))


def _cut_off(spelling: Xid) -> Xid:
    """Cut an XID off behind the schema, or the Version of one, that it leads into."""
    tokens = spelling.split("/")
    return Xid("/".join(tokens[: 7 if tokens[5:6] == ["versions"] else 5]))
