"""The renderer: a definition and values become a message, which is matched back before it is returned (law 1 of MATCH).

A message is written as the line that `match` reads, or as JSON for people; many CloudEvents in one message are a batch in JSON,
alone or as the body of an HTTP request (HTTP binding, 3.3).
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from random import Random
from typing import Any

import orjson

from lakehouse.errors import SettingsError
from lakehouse.match.definition.compiled import ENVELOPE, Definition
from lakehouse.match.definition.valuetypes import is_timestamp
from lakehouse.match.evaluation import Evaluation, Reason, Tolerance, evaluate, is_credential
from lakehouse.match.event.canonical import Event, events_of
from lakehouse.match.event.captured import landed_of_text
from lakehouse.match.payload.payloads import INVALID, UNDECODABLE, Payloads
from lakehouse.match.payload.schemas import Schemas
from lakehouse.render.encode import Bound, bind
from lakehouse.render.example.payload import Examples
from lakehouse.render.filling import RenderInput, ResolvedDefinition, fill
from lakehouse.render.protocolbinding import ProtocolBinding
from lakehouse.render.unrenderable import Refusal, RenderRefused, refusals_of
from lakehouse.text.jsontext import canonical, in_order, read_exactly
from lakehouse.text.names import NO_XID, RegistryId, Xid

BATCH_JSON = "application/cloudevents-batch+json"


@dataclass(frozen=True)
class Rendered:
    """A message made from a definition.

    Attributes:
        registryid, xid: the definition.
        protocol: as the catalog writes it; None: a CloudEvent for no protocol.
        mode: `binary` or `structured`; None: no CloudEvent.
        captured: what the transport carries, named as in `protocoloptions`.
        event: a structured CloudEvent, or None.
        body: payload of the transport's message; None: it has none.
        variables: what the placeholders hold.
        payload_status: as in `event_matches`: `valid`, `none`, `no_schema` ….
        remarks: why the payload was not checked, or not made.
        endpoint: XID of the endpoint whose options were used, or None.
        uri: first address of that endpoint, or None.
        acks: of that endpoint, or None (END-178).
        node: of AMQP that the endpoint names, or the path of its address; None: neither.
        kinds: declared types of options, by their names as in `DeclaredAttribute.key`; `captured` has `binary` in base64.
    """

    registryid: RegistryId
    xid: Xid
    protocol: str | None
    mode: str | None
    captured: Mapping[str, Any]
    event: Mapping[str, Any] | None = None
    body: bytes | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    payload_status: str = "none"
    remarks: tuple[str, ...] = ()
    endpoint: str | None = None
    uri: str | None = None
    acks: int | None = None
    node: str | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)

    @property
    def family(self) -> str | None:
        """Return the name of the protocol."""
        return self.protocol.partition("/")[0].upper() if self.protocol else None

    def line(self) -> bytes:
        """Return the line that `match` reads: registryid, sent_as, protocol, captured, payload_base64; or the CloudEvent."""
        if self.protocol is None:
            return self.body or b""
        encoded = None if self.body is None else base64.b64encode(self.body).decode()
        fields = {
            "registryid": self.registryid,
            "sent_as": self.xid or None,
            "protocol": self.protocol,
            "captured": self.captured,
        }
        return in_order(fields | {"payload_base64": encoded})

    def as_json(self) -> bytes:
        """Return it as one JSON value, its payload as JSON or text where it is that; or the CloudEvent."""
        if self.protocol is None:
            return self.body or b""
        fields: dict[str, Any] = {
            "registryid": self.registryid,
            "xid": self.xid or None,
            "protocol": self.protocol,
            "mode": self.mode,
        }
        fields |= {"endpoint": self.endpoint} if self.endpoint else {}
        fields |= {"captured": self.captured} | _payload(self.body)
        fields |= {"variables": self.variables, "payload_status": self.payload_status}
        return in_order(fields | ({"remarks": self.remarks} if self.remarks else {}))


def _payload(body: bytes | None) -> dict[str, Any]:
    """Return a payload as JSON holds it: JSON objects and arrays as they are, other texts as texts, bytes in base64."""
    if body is None:
        return {}
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"payload_base64": base64.b64encode(body).decode()}
    if text[:1] in ("{", "["):
        try:
            return {"payload": read_exactly(body)}
        except orjson.JSONDecodeError:
            return {"payload": text}
    return {"payload": text}


def batched(messages: Iterable[Rendered]) -> list[Rendered]:
    """Return structured events in batches: those with the same path, query and headers together.

    Args:
        messages: rendered in structured mode, over HTTP or for no protocol.

    Returns:
        A message for each batch, in the order of their first events; of a batch of several definitions `xid` is empty.
    """
    results: dict[tuple[str | None, str | None, bytes], list[Rendered]] = {}
    for message in messages:
        key = (message.protocol, message.uri, canonical(message.captured))
        results.setdefault(key, []).append(message)
    return [_batch(members) for members in results.values()]


def _batch(members: list[Rendered]) -> Rendered:
    first = members[0]
    events = [member.event for member in members]
    captured: dict[str, Any] = dict(first.captured)
    if "headers" in captured:
        headers = [header for header in captured["headers"] if header["name"].lower() != "content-type"]
        captured["headers"] = [*headers, {"name": "content-type", "value": BATCH_JSON}]
    is_of_single_definition = len({(member.registryid, member.xid) for member in members}) == 1
    statuses = {member.payload_status for member in members}
    return replace(
        first,
        xid=first.xid if is_of_single_definition else NO_XID,
        captured=captured,
        event=None,
        body=in_order(events),
        variables=first.variables if len(members) == 1 else {},
        payload_status=statuses.pop() if len(statuses) == 1 else "mixed",
        remarks=tuple(dict.fromkeys(remark for member in members for remark in member.remarks)),
    )


@dataclass(frozen=True)
class RenderStyle:
    """How messages are rendered.

    Attributes:
        mode: `binary` or `structured`; None: as the endpoint says, else as it fits.
        example: values and payloads that are not given are made up.
        seed: of all that is made up, ids too; None: another each time.
        now: RFC 3339 timestamp that stands for the current time; None: the clock's.
        strict: what only deviates is refused, too.
    """

    mode: str | None = None
    example: bool = False
    seed: int | None = None
    now: str | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        if self.now is not None and not is_timestamp(self.now):
            raise SettingsError(f"--now {self.now}: an RFC 3339 timestamp is needed, such as 2026-01-01T00:00:00Z.")


class Renderer:
    """Renders messages.

    Args:
        schemas: of the catalog: payloads are validated with them, and made up from them.
        style: how.
    """

    def __init__(self, schemas: Schemas, style: RenderStyle | None = None) -> None:
        self.style = style or RenderStyle()
        self._payloads = Payloads(schemas)
        self._examples = Examples(schemas, self._payloads)
        self._tolerance = Tolerance("strict" if self.style.strict else "default")

    def render(self, binding: ProtocolBinding, render_input: RenderInput | None = None, number: int = 0) -> Rendered:
        """Render one message.

        Args:
            binding: the definition as a protocol carries it.
            render_input: values and payload.
            number: of the message among those of its definition: with a seed, each number makes up other values.

        Raises:
            MissingValues: values are missing; with all of them.
            RenderRefused: the message would not match its definition, or its payload breaks the schema.
        """
        definition, endpoint = binding.definition, binding.endpoint
        mode = binding.mode(self.style.mode)
        random = self._random(binding, number)
        new_id = str(uuid.UUID(int=random.getrandbits(128), version=4))
        render_input = render_input or RenderInput()
        remarks: tuple[str, ...] = ()
        if self.style.example:
            render_input, remarks = self._examples.complete(binding, render_input, random)
        filled = fill(binding, render_input, self.style.now or _clock(), new_id)
        bound = bind(binding, filled, render_input, mode)
        made = Rendered(
            registryid=definition.registryid,
            xid=definition.xid,
            protocol=binding.protocol,
            mode=mode,
            captured=bound.captured,
            event=bound.event,
            body=bound.body,
            variables=filled.variables,
            remarks=remarks,
            endpoint=endpoint.xid if endpoint else None,
            uri=endpoint.uri if endpoint else None,
            acks=_acks(binding),
            node=endpoint.node if endpoint else None,
            kinds=_kinds(definition),
        )
        return self._checked(binding, made, filled, bound)

    def readable(self, definition: Definition, message: Rendered) -> Any:
        """Return the payload of a rendered message as a JSON value, where Avro or Protobuf encodes it; else None."""
        return self._payloads.readable(definition, lambda: _landed(message))

    def _random(self, binding: ProtocolBinding, number: int) -> Random:
        """Return the source of what is made up: the same for a definition, whatever else is rendered, over any protocol."""
        seed = self.style.seed
        key = (binding.definition.registryid, binding.definition.xid, number)
        return Random() if seed is None else Random(f"{seed}\0{key}")  # noqa: S311  examples are no secrets

    def _checked(self, binding: ProtocolBinding, made: Rendered, filled: ResolvedDefinition, bound: Bound) -> Rendered:
        refusals = refusals_of(binding.protocol, made.captured, made.kinds, made.body) if binding.protocol else []
        event = _landed(made)
        refusals += _unmatched(binding, event, filled, evaluate(binding.definition, event, self._tolerance), self.style.strict)
        if refusals:
            raise RenderRefused(made.xid, list(dict.fromkeys(refusals)))
        verdict = self._payloads.check(binding.definition, event)
        if verdict.status in (INVALID, UNDECODABLE):
            raise RenderRefused(made.xid, [Refusal(f"payload{error.pointer}", error.message) for error in verdict.errors])
        return replace(made, payload_status=verdict.status, remarks=(*made.remarks, *verdict.remarks))


def _landed(message: Rendered) -> Event:
    """Return a rendered message as `match` would read it."""
    [event] = [opened for landed in landed_of_text(message.line()) for opened in events_of(landed)]
    return event


def _unmatched(
    binding: ProtocolBinding, event: Event, filled: ResolvedDefinition, outcome: Evaluation, strict: bool
) -> list[Refusal]:
    """Return why a message would not match back with the values that it was made of."""
    if event.problem:
        return [Refusal("", event.problem)]
    placeholders = binding.placeholders
    read = {
        name
        for attribute in binding.definition.attributes
        if attribute.template is not None and not is_credential(attribute)
        for name in attribute.template.names
    }
    # Of a text that is no URI or timestamp an event that was sent only deviates; one that is to be sent is refused.
    forms = [reason for reason in outcome.deviations if reason.pointer.startswith(ENVELOPE) and reason.reason == "type"]
    refusals = [Refusal(reason.pointer, f"{reason.actual!r}: no {reason.expected}") for reason in forms]
    refusals += [
        _refusal(reason) for reason in (*outcome.reasons, *(outcome.deviations if strict else ())) if reason not in forms
    ]
    refusals += [
        Refusal(
            placeholders[name].pointer,
            f"placeholder {name}: {text!r} was given, and {outcome.variables.get(name)!r} would be read",
        )
        for name, text in filled.variables.items()
        if name in read and outcome.variables.get(name) != text
    ]
    return refusals


def _refusal(reason: Reason) -> Refusal:
    start = f"would not match back ({reason.reason}): "
    expected = "nothing" if reason.expected is None else repr(reason.expected)
    return Refusal(reason.pointer, start + f"{expected} is declared, {reason.actual!r} would be there")


def _kinds(definition: Definition) -> dict[str, str]:
    """Return the types of the protocol options that declare one, or for which the specification infers one."""
    declared = ((attribute, attribute.kind or attribute.inferred_kind) for attribute in definition.attributes)
    return {attribute.key: kind for attribute, kind in declared if kind and attribute.section == "protocol"}


def _acks(binding: ProtocolBinding) -> int | None:
    result = binding.endpoint.options.get("acks") if binding.endpoint and binding.family == "KAFKA" else None
    return result if isinstance(result, int) and not isinstance(result, bool) else None


def _clock() -> str:
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
