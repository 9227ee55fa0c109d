"""Over which protocols a message can be rendered, and what the endpoint adds that carries it there.

A definition that names a protocol goes over that one only; others go over any, and by default over those of the endpoints that
carry them, else over HTTP. Options of an endpoint become declarations of the message (END-135 to END-192), so one rule fills,
matches and refuses both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

import orjson

from lakehouse.dialects.tables import PROTOCOLS, shared_options, shorthands
from lakehouse.match.definition.compiled import CONTENT_TYPE, OWN_PROTOCOL, DeclaredAttribute, Definition, definition_of, escape
from lakehouse.match.definition.templates import Rule
from lakehouse.match.event.captured import SECRET_HEADERS
from lakehouse.render.unrenderable import Refusal, RenderRefused
from lakehouse.text.jsontext import decoded, in_order
from lakehouse.text.names import JsonText, Pointer, RegistryId, Xid

_PRODUCER_ONLY = frozenset({"key", "partition", "retain", "durable"})  # END-147, END-165, 002 on Kafka's options
CLOUDEVENTS, ALL = "CLOUDEVENTS", "ALL"
FAMILIES = tuple(family for family, protocol in PROTOCOLS.items() if protocol.ce_attributes)  # a binding of CloudEvents is there
_VERSIONED = {family: f"{family}/{version}" for family, version in shorthands().items()}  # END-090, END-092
_FIRST_NATS_WITH_HEADERS = (2, 2)


@dataclass(frozen=True)
class Endpoint:
    """An endpoint.

    Attributes:
        registryid, xid: whose it is.
        usage: `producer`, `consumer`, `subscriber`; there may be several.
        protocol: as written, such as `MQTT/5.0`; None: it says none.
        mode: of CloudEvents, or None: both (END-081).
        format: content type of structured events, or None.
        options: its `protocoloptions`.
        messagegroups: XIDs of the groups that it carries, in addition to its own messages.
    """

    registryid: RegistryId
    xid: Xid
    usage: tuple[str, ...] = ()
    protocol: str | None = None
    mode: str | None = None
    format: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    messagegroups: tuple[str, ...] = ()

    @property
    def family(self) -> str:
        """Return the name part of the protocol, in upper case; empty: it says none."""
        return (self.protocol or "").partition("/")[0].upper()

    @property
    def uri(self) -> str | None:
        """Return its first address."""
        results = self.options.get("endpoints")
        uris = [address.get("uri") for address in results if isinstance(address, dict)] if isinstance(results, list) else []
        return next((uri for uri in uris if isinstance(uri, str) and uri), None)

    @property
    def node(self) -> str | None:
        """Return what the path of its address names, such as the node of AMQP: its option, else that path (END-052)."""
        protocol = PROTOCOLS.get(self.family)
        node = self.options.get((protocol and protocol.path) or "node")
        return node if isinstance(node, str) and node else urlsplit(self.uri or "").path.lstrip("/") or None

    def carries(self, registryid: RegistryId, group_xid: Xid) -> bool:
        """Return whether it carries the messages of a group, or holds them itself."""
        return registryid == self.registryid and (group_xid == self.xid or group_xid in self.messagegroups)

    def flat_attributes(self) -> dict[Pointer, JsonText]:
        """Return its options as flat attributes of a message; credentials are of the connection, and none."""
        results: dict[Pointer, Any] = {}
        is_producer = not self.usage or "producer" in self.usage
        for name, pointer, _ in shared_options(self.family):
            value = self.options.get(name)
            is_filter = name == "topic" and isinstance(value, str) and ("+" in value or "#" in value)
            if value is not None and value != "" and not is_filter and (is_producer or name not in _PRODUCER_ONLY):
                results[pointer] = value
        if self.family == "HTTP":
            pairs = [(kind, name, text) for kind in ("headers", "query") for name, text in self._pairs(kind)]
            sent = [pair for pair in pairs if pair[1].lower() not in SECRET_HEADERS]
            results |= {Pointer(f"/protocoloptions/{kind}/{escape(name)}/value"): text for kind, name, text in sent}
            path = urlsplit(self.uri or "").path
            if path not in ("", "/"):
                results[Pointer("/protocoloptions/path/value")] = path
        return {pointer: decoded(in_order(value)) for pointer, value in results.items()}

    def _pairs(self, name: str) -> Iterator[tuple[str, Any]]:
        """Read headers or a query: a list of {name, value}, or a map."""
        entries = self.options.get(name)
        if isinstance(entries, Mapping):
            yield from entries.items()
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
                yield entry["name"], entry.get("value")


def endpoint_of(row: Mapping[str, Any]) -> Endpoint:
    """Make an endpoint of a row of the table `endpoints`: registryid, xid, usage, protocol, envelopeoptions, protocoloptions."""
    envelope = orjson.loads(row.get("envelopeoptions") or "{}")
    options = orjson.loads(row.get("protocoloptions") or "{}")
    texts = {name: envelope[name] for name in ("mode", "format") if isinstance(envelope.get(name), str)}
    return Endpoint(
        row["registryid"],
        row["xid"],
        tuple(row.get("usage") or ()),
        row.get("protocol") or None,
        texts.get("mode"),
        texts.get("format"),
        options if isinstance(options, dict) else {},
        tuple(row.get("messagegroups") or ()),
    )


@dataclass(frozen=True)
class ProtocolBinding:
    """A definition as one protocol carries it.

    Attributes:
        row: the row of `flat_messages` that it is made from.
        definition: what the message asks there, with what the endpoint adds.
        inferred: what the specifications infer: JSON Pointer → JSON value.
        protocol: as the catalog writes it; None: a CloudEvent in JSON, for no protocol.
        endpoint: what carries it, or None.
    """

    row: Mapping[str, Any] = field(repr=False)
    definition: Definition
    inferred: Mapping[str, Any] = field(default_factory=dict)
    protocol: str | None = None
    endpoint: Endpoint | None = None

    @cached_property
    def family(self) -> str:
        """Return the name of the protocol; CLOUDEVENTS for none."""
        return self.protocol.partition("/")[0].upper() if self.protocol else CLOUDEVENTS

    @cached_property
    def placeholders(self) -> dict[str, DeclaredAttribute]:
        """Return the placeholders of the definition, each with the attribute that asks for it first."""
        results: dict[str, DeclaredAttribute] = {}
        for attribute in self.definition.attributes:
            for name in attribute.template.names if attribute.template else ():
                results.setdefault(name, attribute)
        return results

    @property
    def only_structured(self) -> bool:
        """Return whether the protocol has no place for attributes: MQTT 3.1.1, and NATS before 2.2 (MSG-196)."""
        version = (self.protocol or "").partition("/")[2]
        if self.family == "MQTT":
            return version.startswith("3")
        parts = version.split(".")[:2]
        numbers = tuple(int(part) for part in parts) if parts and all(part.isdigit() for part in parts) else ()
        return self.family == CLOUDEVENTS or (self.family == "NATS" and () < numbers < _FIRST_NATS_WITH_HEADERS)

    def mode(self, requested: str | None) -> str | None:
        """Return the mode of a CloudEvent: as asked, else as the endpoint says, else as it fits; None: it is no CloudEvent.

        Raises:
            RenderRefused: binary is asked, and the protocol or the declared content type has it not.
        """
        if not self.definition.is_cloudevent:
            return None
        enveloped = is_enveloped(self.definition)
        if requested == "binary" and (self.only_structured or enveloped) and self.protocol is not None:
            reason = f"{self.protocol} carries CloudEvents in structured mode only" if self.only_structured else (
                "the declared content type is that of an envelope, so the mode is structured"
            )  # fmt: skip
            raise RenderRefused(self.definition.xid, [Refusal("/protocol" if self.only_structured else CONTENT_TYPE, reason)])
        if self.only_structured or enveloped:
            return "structured"
        return requested or (self.endpoint.mode if self.endpoint else None) or "binary"


def is_enveloped(definition: Definition) -> bool:
    """Return whether the message's own content type is that of a structured CloudEvent (MSG-190)."""
    return (definition.constant(CONTENT_TYPE) or "").lower().startswith("application/cloudevents")


def bindings_of(
    row: Mapping[str, Any], endpoints: Iterable[Endpoint] = (), requested: Sequence[str] = (), rule: Rule = "auto"
) -> list[ProtocolBinding]:
    """Return the bindings of a message: over which protocols it goes.

    Args:
        row: a row of `flat_messages` or `effective_messages`, as `definition_of` takes it.
        endpoints: endpoints of the catalog; those that do not carry the message are passed over.
        requested: families (`KAFKA`, …), `CLOUDEVENTS` or `ALL`; nothing: the message's protocol, else those of its endpoints,
            else HTTP.
        rule: how placeholders match.

    Raises:
        RenderRefused: it does not go over what is asked.
    """
    bare = definition_of(row, rule)
    own = [endpoint for endpoint in endpoints if endpoint.carries(bare.registryid, bare.group_xid)]
    own.sort(key=lambda endpoint: (bool(endpoint.usage) and "producer" not in endpoint.usage, endpoint.xid))
    families = _families(bare, own, [name.upper() for name in requested])
    bindings = []
    for family in families:
        endpoint = next((endpoint for endpoint in own if endpoint.family == family), None)
        bindings.append(_binding(row, bare, family, endpoint, rule))
    return bindings


def _families(bare: Definition, own: list[Endpoint], requested: list[str]) -> list[str]:
    if not requested:
        return (
            [bare.family]
            if bare.family
            else list(dict.fromkeys(endpoint.family for endpoint in own if endpoint.family in FAMILIES)) or ["HTTP"]
        )
    if ALL in requested:
        able = [bare.family] if bare.family in FAMILIES else [] if bare.family else list(FAMILIES)
        return ([CLOUDEVENTS] if bare.is_cloudevent else []) + able
    for family in requested:
        if family == CLOUDEVENTS and not bare.is_cloudevent:
            raise RenderRefused(bare.xid, [Refusal("/envelope", "declares no envelope CloudEvents")])
        if family != CLOUDEVENTS and bare.family and family != bare.family:
            raise RenderRefused(bare.xid, [Refusal("/protocol", f"is declared for {bare.family}, and {family} is asked")])
    return list(dict.fromkeys(requested))


def _binding(row: Mapping[str, Any], bare: Definition, family: str, endpoint: Endpoint | None, rule: Rule) -> ProtocolBinding:
    inferred = {pointer: orjson.loads(text) for pointer, text in dict(row.get("inferred") or ()).items()}
    if family == CLOUDEVENTS:
        of_envelope = tuple(attribute for attribute in bare.attributes if attribute.section != "protocol")
        return ProtocolBinding(row, replace(bare, family=None, version=None, attributes=of_envelope), inferred)
    if family not in FAMILIES:
        raise RenderRefused(
            bare.xid, [Refusal("/protocol", f"{family}: of this protocol it is not known what a message looks like")]
        )
    protocol = _protocol(bare, family, endpoint)
    version = protocol.partition("/")[2] or None
    alone = replace(bare, version=version) if family == bare.family else definition_of(_with(row, protocol, {}), rule)
    added = _added(alone, endpoint.flat_attributes() if endpoint else {}, family)
    return ProtocolBinding(
        row, definition_of(_with(row, protocol, added), rule) if added else alone, inferred, protocol, endpoint
    )


def _added(alone: Definition, flat_attributes: Mapping[Pointer, JsonText], family: str) -> dict[Pointer, JsonText]:
    """Return what an endpoint adds: options that the message does not say itself."""
    declared: set[str] = {attribute.pointer for attribute in alone.attributes if attribute.has_value}
    for option in shared_options(family):
        if option.instead is not None and option.instead.removesuffix("/value") in declared:
            declared.add(option.pointer.removesuffix("/value"))
    if "/protocoloptions/status" in declared:  # of a response
        declared.add("/protocoloptions/path")
    headers = "/protocoloptions/headers/"
    results = {}
    for pointer, text in flat_attributes.items():
        base = pointer.removesuffix("/value")
        if (base.lower() if family == "HTTP" and base.startswith(headers) else base) not in declared:
            results[pointer] = text
    return results


def _with(row: Mapping[str, Any], protocol: str, flat_attributes: Mapping[Pointer, JsonText]) -> dict[str, Any]:
    named = {OWN_PROTOCOL: decoded(orjson.dumps(protocol))}
    return {**row, "protocol": protocol, "attributes": dict(row["attributes"] or ()) | named | dict(flat_attributes)}


def _protocol(bare: Definition, family: str, endpoint: Endpoint | None) -> str:
    if bare.family:
        return f"{bare.family}/{bare.version}" if bare.version else _VERSIONED.get(family, family)
    if endpoint and endpoint.protocol:
        return family + endpoint.protocol[len(family) :] if "/" in endpoint.protocol else _VERSIONED.get(family, family)
    return _VERSIONED.get(family, family)
