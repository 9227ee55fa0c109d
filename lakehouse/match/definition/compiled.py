"""Definitions as predicates: what a flattened message asks of an event, attribute by attribute.

A definition is made from one row of `flat_messages` (or `effective_messages`) and its flat attributes. What the specifications
only infer is never enforced but for `required` (MSG-249 to MSG-253); a declared value is (MSG-224).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

import orjson

from lakehouse.dialects.tables import PROTOCOLS, separator_of, shared_options
from lakehouse.domain.references import schema_reference
from lakehouse.match.definition.templates import Rule, Template, compile_template, has_placeholder
from lakehouse.match.definition.valuetypes import TEMPLATED, TEMPLATED_THEN_TYPED
from lakehouse.text.jsontext import decoded, in_order, read_exactly
from lakehouse.text.names import NO_XID, JsonText, Pointer, RegistryId, Xid

ENVELOPE, PROTOCOL = "/envelopemetadata/", "/protocoloptions/"
TYPE, OWN_PROTOCOL, CONTENT_TYPE = Pointer("/envelopemetadata/type"), Pointer("/protocol"), Pointer("/datacontenttype")
SPECVERSION = Pointer("/envelopemetadata/specversion")
CORE = ("type", "source", "id", "specversion")  # CloudEvents asks for them, declared or not (MSG-245, MSG-274)
# Hops change these, so they only deviate.
_CHANGED_BY_HOPS = ("header/", "delivery-annotations/", "footer/")
_CHANGED_BY_BROKERS = frozenset({"qos", "retain", "message_expiry_interval"})
_MEMBERS = ("value", "type", "required")
_LISTS = frozenset({"headers", "user_properties", "query"})
# Last tokens of the pointers that `definition_of` reads as declarations, its own protocol and content type with them.
DECIDING = (*_MEMBERS, *sorted(_LISTS), "protocol", "envelope", "datacontenttype")
ADDRESSES = {family: protocol.address for family, protocol in PROTOCOLS.items() if protocol.address}


@dataclass(frozen=True, eq=False)
class DeclaredAttribute:
    """One declared attribute, and what it asks.

    Attributes:
        pointer: JSON Pointer of the declaration: `/envelopemetadata/type`, `/protocoloptions/headers/<name>`.
        key: its name in an event: the CloudEvents attribute, or the pointer behind `/protocoloptions/`.
        section: `envelope`, `protocol` or `message`.
        kind: declared type, or None.
        inferred_kind: type that the specification infers; it only deviates.
        has_value: a value is declared.
        value: the declared value.
        required: it must be there, declared or inferred.
        decides: a failure makes it no match; else it is a deviation.
        template: the compiled value, when it holds placeholders.
    """

    pointer: Pointer
    key: str
    section: str
    kind: str | None = None
    inferred_kind: str | None = None
    has_value: bool = False
    value: Any = None
    required: bool = False
    decides: bool = True
    template: Template | None = None

    @cached_property
    def question(self) -> tuple[object, ...]:
        """Return what an answer to a value depends on: two attributes of one protocol that ask the same have the same."""
        template = None if self.template is None else (self.template.text, self.template.separator)
        return (self.pointer, self.kind, self.inferred_kind, self.has_value, in_order(self.value), template)

    @cached_property
    def shape(self) -> tuple[str, str] | None:
        """Return what distinguishes it from others, names of placeholders removed; None when it has no value."""
        if not self.has_value:
            return None
        return (self.pointer, "{" + self.template.shape if self.template else "=" + decoded(in_order(self.value)))

    @cached_property
    def demands(self) -> tuple[tuple[str, str], ...]:
        """Return what it requires in addition to a value: that it is there, and its type."""
        needed = ((self.pointer, "required"),) if self.required else ()
        return (*needed, (self.pointer, f"type {self.kind}")) if self.kind else needed

    @cached_property
    def rank(self) -> tuple[int, str]:
        """Return its place in the order of checks, the fastest and most selective first: constants, templates, the rest."""
        if self.pointer == TYPE:
            return (0, "")
        return (3 if not self.has_value else 2 if self.template else 1, self.pointer)


@dataclass(frozen=True, eq=False)
class Definition:
    """A message definition as an event is matched with it.

    Attributes:
        registryid, xid, version_xid, group_xid: whose it is.
        chain: XIDs of its bases.
        family, version: of the protocol that it names; None: any.
        is_cloudevent: its envelope is CloudEvents.
        attributes: what it asks, in the order in which it is checked.
        dataschemauri, dataschemaxid, schema_format, inline_schema: the schema of its payload.
        incomplete: the status of a chain that is not whole: dangling, external, too_deep or cycle; else empty.
        deprecated: it says so.
        version_age: 0: the default Version of its message; else which of the others, 1 the newest of them.
    """

    registryid: RegistryId
    xid: Xid
    version_xid: Xid = NO_XID
    group_xid: Xid = NO_XID
    chain: frozenset[Xid] = frozenset()
    family: str | None = None
    version: str | None = None
    is_cloudevent: bool = False
    attributes: tuple[DeclaredAttribute, ...] = ()
    dataschemauri: str | None = None
    dataschemaxid: str | None = None
    schema_format: str | None = None
    inline_schema: JsonText | None = field(default=None, repr=False)
    incomplete: str = ""
    deprecated: bool = False
    version_age: int = 0

    @property
    def key(self) -> tuple[RegistryId, Xid]:
        """Return its registry and XID."""
        return (self.registryid, self.xid)

    @property
    def schema_reference(self) -> str | None:
        """Return the reference that names the schema of its payload; None: nothing does, or it holds the schema itself."""
        return schema_reference(self.dataschemauri, self.dataschemaxid)

    @cached_property
    def shapes(self) -> frozenset[tuple[str, str]]:
        """Return its values by pointer, names of placeholders removed, with its protocol: what specificity compares."""
        own = {attribute.shape for attribute in self.attributes} - {None}
        return frozenset(own | ({("/protocol", self.family)} if self.family else set()))  # type: ignore[arg-type]

    @cached_property
    def demands(self) -> frozenset[tuple[str, str]]:
        """Return what it asks in addition to values: attributes that must be there, and types."""
        return frozenset(chain.from_iterable(attribute.demands for attribute in self.attributes))

    @cached_property
    def is_bare(self) -> bool:
        """Return whether only its payload (and protocol) distinguishes it: no envelope, value or demand does (MSG-087)."""
        discriminator = (attribute for attribute in self.attributes if attribute.pointer != CONTENT_TYPE)
        return not self.is_cloudevent and not any(attribute.has_value or attribute.required for attribute in discriminator)

    def attribute(self, pointer: Pointer) -> DeclaredAttribute | None:
        """Find an attribute."""
        return next((attribute for attribute in self.attributes if attribute.pointer == pointer), None)

    def constant(self, pointer: Pointer) -> str | None:
        """Return the value of an attribute that has one without placeholders, as text."""
        result = self.attribute(pointer)
        return result.value if result and result.has_value and not result.template and isinstance(result.value, str) else None

    @property
    def address(self) -> DeclaredAttribute | None:
        """Return the attribute that says where it travels: topic, topic_name, subject or path."""
        name = ADDRESSES.get(self.family or "")
        return None if name is None else self.attribute(Pointer(PROTOCOL + name))


def definition_of(row: Mapping[str, Any], rule: Rule = "auto", endpoint: Mapping[Pointer, JsonText] | None = None) -> Definition:
    """Make the definition of a row.

    Args:
        row: columns of `flat_messages`: registryid, xid, version_xid, group_xid, chain_status, envelope, protocol,
            dataschemaformat, attributes, inferred, depends_on; and `deprecated` and `older`, where
            they are known.
        rule: how placeholders match.
        endpoint: for a scope, the endpoint's own options (pointer → JSON text), which apply where the message says nothing, and
            `/protocol`.
    """
    flat_attributes, inferred = dict(row["attributes"] or ()), dict(row.get("inferred") or ())
    flat_attributes |= _of_endpoint(endpoint or {}, flat_attributes)
    protocol = _text(flat_attributes.get("/protocol")) or row.get("protocol") or ""
    family, _, version = protocol.partition("/")
    normal_family = family.upper() if family.upper() not in ("", "NONE") else None
    envelope = (row.get("envelope") or _text(flat_attributes.get("/envelope")) or "").upper()
    is_cloudevent = envelope.startswith("CLOUDEVENTS") or (
        not envelope and any(name.startswith(ENVELOPE) for name in flat_attributes)
    )
    return Definition(
        registryid=row["registryid"],
        xid=row["xid"],
        version_xid=row.get("version_xid") or NO_XID,
        group_xid=row.get("group_xid") or NO_XID,
        chain=frozenset(row.get("depends_on") or ()) - {row["xid"]},
        family=normal_family,
        version=version or None,
        is_cloudevent=is_cloudevent,
        attributes=tuple(
            sorted(_attributes(flat_attributes, inferred, normal_family, is_cloudevent, rule), key=attrgetter("rank"))
        ),
        dataschemauri=_text(flat_attributes.get("/dataschemauri")),
        dataschemaxid=_text(flat_attributes.get("/dataschemaxid")),
        schema_format=row.get("dataschemaformat") or _text(flat_attributes.get("/dataschemaformat")),
        inline_schema=flat_attributes.get("/dataschema"),
        incomplete=incomplete_of(row.get("chain_status")),
        deprecated=bool(row.get("deprecated")),
        version_age=row.get("older") or 0,
    )


def _of_endpoint(endpoint: Mapping[Pointer, JsonText], flat_attributes: Mapping[Pointer, JsonText]) -> dict[Pointer, JsonText]:
    """Return what an endpoint says where a message says nothing, neither that nor the option that excludes it (MSG-370)."""
    family = (_text(endpoint.get(OWN_PROTOCOL)) or "").partition("/")[0].upper()
    replaced = {option.pointer for option in shared_options(family) if option.instead in flat_attributes}
    return {pointer: text for pointer, text in endpoint.items() if pointer not in flat_attributes and pointer not in replaced}


def incomplete_of(chain_status: str | None) -> str:
    """Return the status of a chain of bases that is not whole: dangling, external, too_deep or cycle; else an empty text."""
    return "" if chain_status in (None, "", "none", "resolved") else chain_status


def tokens_of(pointer: Pointer) -> list[str]:
    """Split a JSON Pointer (RFC 6901)."""
    return [unescape(token) for token in pointer.split("/")[1:]]


def escape(token: str) -> str:
    """Write a name as one token of a JSON Pointer (RFC 6901)."""
    return token.replace("~", "~0").replace("/", "~1") if "/" in token or "~" in token else token


def unescape(token: str) -> str:
    """Return the name that one token of a JSON Pointer writes (RFC 6901)."""
    return token.replace("~1", "/").replace("~0", "~")


def _attributes(
    flat_attributes: Mapping[Pointer, JsonText],
    inferred: Mapping[str, JsonText],
    family: str | None,
    is_cloudevent: bool,
    rule: Rule,
) -> Iterator[DeclaredAttribute]:
    declared: dict[str, dict[str, JsonText]] = {}
    listed: list[tuple[str, dict[str, JsonText]]] = []
    for pointer, text in flat_attributes.items():
        if (is_cloudevent and pointer.startswith(ENVELOPE)) or (family and pointer.startswith(PROTOCOL)):
            base, _, member = pointer.rpartition("/")
            if member in _MEMBERS and base not in ("/envelopemetadata", "/protocoloptions"):
                declared.setdefault(base, {})[member] = text
            elif member in _LISTS and base == "/protocoloptions":
                listed += _of_list(pointer, read_exactly(text.encode()))
    if is_cloudevent:
        for name in CORE:
            declared.setdefault(ENVELOPE + name, {})
    if family == "KAFKA":  # of a header that repeats its readers take the last
        listed = list(dict(listed).items())
    named = {base for base, _ in listed}
    declarations = [*(pair for pair in declared.items() if pair[0] not in named), *listed]
    if family == "HTTP":
        declarations = [(_lower_header(base), members) for base, members in declarations]
    for base, members in declarations:
        declaration = _Declaration(
            pointer=Pointer(base),
            value_text=members.get("value"),
            type_text=members.get("type"),
            required_text=members.get("required"),
            inferred_type=inferred.get(f"{base}/type"),
            inferred_required=inferred.get(f"{base}/required"),
        )
        yield _attribute(declaration, None if base.startswith(ENVELOPE) else family, rule)
    if CONTENT_TYPE in flat_attributes:
        value = _text(flat_attributes[CONTENT_TYPE])
        yield DeclaredAttribute(CONTENT_TYPE, "", "message", has_value=value is not None, value=value)


class _Declaration(NamedTuple):
    """The texts of one declared attribute: what its members say, and what the specification infers of it."""

    pointer: Pointer
    value_text: JsonText | None
    type_text: JsonText | None
    required_text: JsonText | None
    inferred_type: JsonText | None
    inferred_required: JsonText | None


@lru_cache(1 << 14)  # many definitions declare the same
def _attribute(declaration: _Declaration, family: str | None, rule: Rule) -> DeclaredAttribute:
    """Make what one declaration requires; family: of the protocol, None in the envelope."""
    pointer = declaration.pointer
    in_envelope = pointer.startswith(ENVELOPE)
    key = pointer[len(ENVELOPE if in_envelope else PROTOCOL) :]
    texts = (declaration.type_text, declaration.value_text)
    kind, value = (None if text is None else read_exactly(text.encode()) for text in texts)
    if in_envelope and key == "specversion" and value is None:
        value = "1.0"
    if declaration.required_text is not None:
        required = orjson.loads(declaration.required_text) in (True, "true")
    else:
        required = declaration.inferred_required == "true" or (in_envelope and key in CORE)
    template = None
    if isinstance(value, str) and has_placeholder(value) and (kind is None or kind in TEMPLATED or kind in TEMPLATED_THEN_TYPED):
        template = compile_template(value, separator_of(family, key), rule)
    hops = family == "AMQP" and key.startswith(_CHANGED_BY_HOPS)
    return DeclaredAttribute(
        pointer=pointer,
        key=key,
        section="envelope" if in_envelope else "protocol",
        kind=kind if isinstance(kind, str) else None,
        inferred_kind=None if kind else _text(declaration.inferred_type),
        has_value=value is not None,
        value=value,
        required=required,
        decides=not (hops or (family == "MQTT" and key in _CHANGED_BY_BROKERS)),
        template=template,
    )


def _of_list(pointer: Pointer, items: Any) -> Iterator[tuple[str, dict[str, JsonText]]]:
    """Read headers or user properties written as a list of {name, value}, or a query written so."""
    named = items.items() if isinstance(items, dict) else ((item.get("name"), item) for item in items if isinstance(item, dict))
    for name, members in named:
        if isinstance(name, str):
            values = members if isinstance(members, dict) else {"value": members}
            texts = {member: decoded(in_order(values[member])) for member in _MEMBERS if member in values}
            yield f"{pointer}/{escape(name)}", texts


def _lower_header(pointer: str) -> str:
    start = f"{PROTOCOL}headers/"
    return start + pointer[len(start) :].lower() if pointer.startswith(start) else pointer


def _text(leaf: JsonText | None) -> str | None:
    value = None if leaf is None else orjson.loads(leaf)
    return value if isinstance(value, str) else None
