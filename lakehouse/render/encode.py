"""A filled definition as a protocol carries it: CloudEvents bound in either mode, under the names of `protocoloptions`.

What the definition says of the protocol goes before what the binding of the envelope says (001, Metadata Envelopes and Message
Protocols; MSG-195).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import orjson

from lakehouse.dialects.tables import FAMILIES, PROTOCOLS, listed_options
from lakehouse.match.definition.compiled import CONTENT_TYPE, ENVELOPE, tokens_of
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.canonical import STRUCTURED_JSON
from lakehouse.match.payload.validators import is_json
from lakehouse.render.filling import RenderInput, ResolvedDefinition
from lakehouse.render.protocolbinding import ProtocolBinding
from lakehouse.render.unrenderable import Refusal, RenderRefused, is_utf8
from lakehouse.text.jsontext import in_order, read_exactly
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.values import media_type

_OF_ENVELOPE = Pointer(f"{ENVELOPE}datacontenttype")
_PAIRS = {family: listed for family in FAMILIES if (listed := listed_options(family))}
# What is unencoded in headers of HTTP and NATS: printable ASCII but space, double quote and percent (CloudEvents, HTTP
# binding, 3.1.3.2).
_UNENCODED = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


@dataclass(frozen=True)
class Bound:
    """A message as a protocol carries it.

    Attributes:
        captured: what the transport carries, named as in `protocoloptions`; empty for a CloudEvent for no protocol.
        event: a structured CloudEvent, or None; `data` may be a fragment of JSON.
        body: payload of the transport's message; None: it has none.
        content_type: of the payload, or None.
    """

    captured: dict[str, Any]
    event: dict[str, Any] | None
    body: bytes | None
    content_type: str | None


def bind(binding: ProtocolBinding, filled: ResolvedDefinition, render_input: RenderInput, mode: str | None) -> Bound:
    """Write a filled definition as its protocol carries it.

    Raises:
        RenderRefused: the payload is not what its content type says, or the format of the envelope is not JSON.
    """
    data_type = content_type_of(binding, filled.ce, filled.options, render_input)
    options = {} if binding.protocol is None else _options(binding, filled)
    further = [] if binding.protocol is None else filled.further
    content_key = _content_key(binding)
    event = None
    body = render_input.payload
    if mode == "structured":
        event = _structured(binding, filled, render_input, data_type)
        envelope_type = _envelope_type(binding)
        body = in_order(event)
        if content_key and not binding.only_structured:
            options.setdefault(content_key, envelope_type)
    else:
        if mode == "binary":
            options = _bound(binding.family, filled.ce) | options
        if data_type is not None and content_key and not (binding.family == "MQTT" and binding.only_structured):
            options.setdefault(content_key, data_type)
    return Bound(_captured(binding, [*options.items(), *further]), event, body, data_type)


def content_type_of(
    binding: ProtocolBinding, ce: Mapping[str, Any], options: Mapping[str, Any], render_input: RenderInput
) -> str | None:
    """Return the content type of the payload: of the event, the protocol, the message, inferred, or that of what was given."""
    candidates = [
        ce.get("datacontenttype"),
        options.get(_content_key(binding)),
        binding.definition.constant(CONTENT_TYPE),
        binding.inferred.get(f"{ENVELOPE}datacontenttype/value"),
        binding.inferred.get(CONTENT_TYPE),
        render_input.payload_type,
    ]
    return next(
        (
            candidate
            for candidate in candidates
            if isinstance(candidate, str) and candidate and not candidate.lower().startswith("application/cloudevents")
        ),
        None,
    )


def _content_key(binding: ProtocolBinding) -> str:
    return PROTOCOLS[binding.family].content_type if binding.family in PROTOCOLS else ""


def declared_content_type(binding: ProtocolBinding, values: Mapping[str, Any]) -> str | None:
    """Return the content type of the payload before the definition is filled."""
    named = [values.get("datacontenttype"), values.get(f"{ENVELOPE}datacontenttype")]
    declared = next((value for value in named if isinstance(value, str)), None) or binding.definition.constant(_OF_ENVELOPE)
    key = _content_key(binding)
    options = {key: binding.definition.constant(Pointer(f"/protocoloptions/{key}"))} if key else {}
    return content_type_of(binding, {"datacontenttype": declared}, options, RenderInput())


def is_text(content_type: str) -> bool:
    """Return whether a content type is of text that is no JSON."""
    kind = media_type(content_type)[0]
    return kind.startswith("text/") or kind.endswith(("/xml", "+xml", "/yaml", "+yaml"))


def json_of(definition_xid: Xid, payload: bytes) -> orjson.Fragment:
    """Return a payload that its content type says is JSON as it is written, in one line.

    Raises:
        RenderRefused: it is none.
    """
    try:
        read_exactly(payload)
    except orjson.JSONDecodeError as error:
        raise RenderRefused(definition_xid, [Refusal("payload", f"no JSON, as its content type says: {error}")]) from error
    return orjson.Fragment(payload.translate(None, b"\r\n"))  # strings of JSON hold none


def _options(binding: ProtocolBinding, filled: ResolvedDefinition) -> dict[str, Any]:
    """Return the protocol options, with the defaults of the protocol."""
    options = dict(filled.options)
    if binding.family == "MQTT":  # END-163, END-165
        options = {"qos": 0, "retain": False} | options
    elif binding.family == "HTTP" and "status" not in options:  # END-135
        options = {"method": "POST", "path": "/"} | options
        options["method"] = as_text(options["method"]).upper()
    elif binding.family == "KAFKA" and not {"key", "key_base64"} & options.keys() and "partitionkey" in filled.ce:
        options["key"] = as_text(filled.ce["partitionkey"])  # CloudEvents, Kafka binding, 3.1
    return options


def _envelope_type(binding: ProtocolBinding) -> str:
    """Return the content type of a structured event: of the message, of the endpoint, or the usual one."""
    written = binding.definition.constant(CONTENT_TYPE) or ""
    candidates = [written, (binding.endpoint.format if binding.endpoint else None) or ""]
    result = next(
        (candidate for candidate in candidates if candidate.lower().startswith("application/cloudevents")), STRUCTURED_JSON
    )
    if not media_type(result)[0].endswith("cloudevents+json"):
        raise RenderRefused(
            binding.definition.xid, [Refusal(CONTENT_TYPE, f"{result}: structured events are written in JSON only")]
        )
    return result


def _structured(
    binding: ProtocolBinding, filled: ResolvedDefinition, render_input: RenderInput, data_type: str | None
) -> dict[str, Any]:
    """Return the event in JSON: JSON payloads as they are, texts as texts, others in base64 (CloudEvents, JSON format)."""
    event = dict(filled.ce)
    if data_type is not None and (render_input.payload is not None or "datacontenttype" in event or _says_type(binding)):
        event["datacontenttype"] = data_type
    if render_input.payload is None:
        return event
    if data_type is None or is_json(media_type(data_type)[0]):
        event["data"] = json_of(binding.definition.xid, render_input.payload)
    elif is_text(data_type) and is_utf8(render_input.payload):
        event["data"] = render_input.payload.decode()
    else:
        event["data_base64"] = base64.b64encode(render_input.payload).decode()
    return event


def _says_type(binding: ProtocolBinding) -> bool:
    return binding.definition.attribute(CONTENT_TYPE) is not None or f"{ENVELOPE}datacontenttype/value" in binding.inferred


def _bound(family: str, ce: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a binary event as options of the protocol; `datacontenttype` is the content type there."""
    start = PROTOCOLS[family].ce_attributes.split()[0]
    encoded = PROTOCOLS[family].ce_encoding == "percent"
    results = {}
    for name, value in ce.items():
        if name != "datacontenttype":
            native = family == "AMQP" and isinstance(value, bool | int)
            text = value if native else as_text(value)
            results[f"{start}{name}"] = quote(text, safe=_UNENCODED) if encoded else text
    return results


def _captured(binding: ProtocolBinding, options: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Nest options: headers and user properties as lists of name and value, sections of AMQP as objects."""
    captured: dict[str, Any] = {}
    if binding.family in _PAIRS and binding.protocol is not None:
        listed = [
            name for name in _PAIRS[binding.family] if not (binding.only_structured and name in ("headers", "user_properties"))
        ]
        captured = {name: [] for name in listed}
    elif binding.family == "AMQP":
        captured = {"properties": {}, "application-properties": {}}
    for key, value in options:
        section, *name = tokens_of(Pointer(f"/{key}"))
        if not name:
            captured[section] = value
        elif section in _PAIRS.get(binding.family, ()):
            captured.setdefault(section, []).append({"name": name[0], "value": as_text(value)})
        else:
            captured.setdefault(section, {})[name[0]] = value
    return captured
