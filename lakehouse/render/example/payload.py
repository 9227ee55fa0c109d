"""`--example`: what was not given is made up: a payload of the schema, then values that agree with it.

A payload is validated before it is used; one that is not valid is made up again, with less each time. Members of the payload that
are called like a placeholder give its value, where it fits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from random import Random
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

import orjson

from lakehouse.dialects.schemadocuments import family_of_format
from lakehouse.extras import not_installed
from lakehouse.match.definition.compiled import ENVELOPE, PROTOCOL, DeclaredAttribute, Definition
from lakehouse.match.definition.valuetypes import TEMPLATED_THEN_TYPED, as_text, is_of_type, is_uri_reference
from lakehouse.match.event.canonical import Event
from lakehouse.match.payload.payloads import INVALID, NONE, UNDECODABLE, NoAnswer, Payloads, run_in_fork, try_to_make
from lakehouse.match.payload.schemas import Resolved, Schemas
from lakehouse.match.payload.validators import Unsupported, is_json, make_validator
from lakehouse.render.encode import declared_content_type
from lakehouse.render.example.plausible import Impossible, Plausible
from lakehouse.render.filling import RenderInput, kind_of, needs_of, typed
from lakehouse.render.protocolbinding import ProtocolBinding
from lakehouse.render.unrenderable import Need, Refusal, RenderRefused, problem_of_option
from lakehouse.text.jsontext import in_order, read_exactly
from lakehouse.text.values import media_type

_LEVELS = (0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 9, 9)
_USUAL_TYPES = {"jsonschema": "application/json", "jsonstructure": "application/json", "avro": "avro/binary",
                "protobuf": "application/protobuf", "xsd": "application/xml"}  # fmt: skip
_ADDRESSED = ("topic", "topic_name", "subject", "reply-to", "path", "method")  # of the protocol: places with their own characters
_SAFE = re.compile(r"\A[A-Za-z0-9_-]+\Z")
_HEADER = re.compile(r"\A[\x21-\x7e]+\Z")
_MOST_MEMBERS = 2_000
_SECONDS = 3.0  # for an example of a schema that may be costly


class _Maker(NamedTuple):
    """What makes up payloads of a schema: `make`, or `reason`, why there is none; and the usual content type."""

    make: Callable[[Plausible], bytes] | None
    reason: str = ""
    content_type: str | None = None


class Examples:
    """Makes up what was not given.

    Args:
        schemas: of the catalog.
        payloads: what validates payloads.
    """

    def __init__(self, schemas: Schemas, payloads: Payloads) -> None:
        self._schemas, self._payloads = schemas, payloads
        self._makers = lru_cache(1_000)(self._maker)

    def complete(
        self, binding: ProtocolBinding, render_input: RenderInput, random: Random
    ) -> tuple[RenderInput, tuple[str, ...]]:
        """Make up the payload and the values that are missing.

        Args:
            binding: the definition as a protocol carries it.
            render_input: what was given, which stays.
            random: what is drawn from.

        Returns:
            All values and the payload; and why there is no payload, where the schema cannot be had.

        Raises:
            RenderRefused: the schema is at hand, and no payload was found that satisfies it.
        """
        remarks: tuple[str, ...] = ()
        drawn = Random(random.getrandbits(64))  # noqa: S311  values are the same for any payload; examples are no secrets
        if render_input.payload is None:
            payload, content_type, reason = self._payload(binding, render_input, random)
            render_input = replace(render_input, payload=payload, payload_type=content_type)
            remarks = (f"no payload was made up: {reason}",) if reason else ()
        members = _members(render_input.payload)
        values = dict(render_input.values)
        for need in needs_of(binding, render_input):
            values[need.name] = _value_of(binding, need, values, members, Plausible(drawn))
        return replace(render_input, values=values), remarks

    def _payload(
        self, binding: ProtocolBinding, render_input: RenderInput, random: Random
    ) -> tuple[bytes | None, str | None, str]:
        content_type = declared_content_type(binding, render_input.values)
        result = self._makers(binding.definition, content_type)
        if result.make is None:
            return (None if result.reason else _without_schema(content_type)), None, result.reason
        return self._valid(binding, render_input, random, result.make, result.content_type), result.content_type, ""

    def _valid(
        self,
        binding: ProtocolBinding,
        render_input: RenderInput,
        random: Random,
        make: Callable[[Plausible], bytes],
        content_type: str | None,
    ) -> bytes:
        """Make payloads up until one is valid; values that were given go into members of their names, where they fit."""
        reason = "the schema asks for too much"
        for level in _LEVELS:
            try:
                payload = make(Plausible(Random(random.getrandbits(64)), level))  # noqa: S311
            except Impossible as error:
                reason = str(error)
                continue
            except NoAnswer as error:
                reason = str(error)
                break
            for candidate in dict.fromkeys((_with_values(payload, render_input.values, content_type), payload)):
                event = Event(mode="binary", content_type=content_type, body=candidate)
                verdict = self._payloads.check(binding.definition, event)
                if verdict.status not in (INVALID, UNDECODABLE) and (candidate or verdict.status == NONE):
                    return candidate
                reason = "; ".join(f"{error.pointer or '/'}: {error.message}" for error in verdict.errors) or verdict.status
        raise RenderRefused(binding.definition.xid, [Refusal("payload", f"no example was found that its schema takes: {reason}")])

    def _maker(self, definition: Definition, content_type: str | None) -> _Maker:
        resolved = self._schemas.resolve(definition)
        if isinstance(resolved, str):
            is_named = resolved != "no_schema"
            return _Maker(None, f"{definition.schema_reference} is not in the catalog" if is_named else "")
        family = family_of_format(resolved.format, resolved.document)
        kind = content_type or _USUAL_TYPES.get(family)
        try:
            return _Maker(_maker(family, resolved, self._schemas.finder(definition.registryid), kind or ""), "", kind)
        except Unsupported as error:
            return _Maker(None, f"{resolved.xid}: {error}"[:300])
        except ModuleNotFoundError as error:
            return _Maker(None, not_installed(error))


def _maker(family: str, resolved: Resolved, find: Callable[[str], Any], content_type: str) -> Callable[[Plausible], bytes]:
    """Return what makes up a payload of a schema.

    Raises:
        Unsupported: no library reads the schema.
    """
    as_json = is_json(media_type(content_type)[0]) if content_type else True
    try:
        flaw = try_to_make(resolved, find)
    except NoAnswer as error:
        raise Unsupported(f"the schema cannot be read: {error}") from error
    if flaw is not None:
        raise Unsupported(flaw.remarks[0].removeprefix(f"{resolved.xid}: "))
    try:
        validator: Any = make_validator(resolved, find)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise Unsupported(f"{type(error).__name__}: {error}") from error
    document = (
        read_exactly(resolved.document.encode())
        if isinstance(resolved.document, str) and family not in ("protobuf", "xsd")
        else resolved.document
    )
    if family == "jsonschema":
        from lakehouse.render.example.jsonschema import JsonExample

        def example(made: Plausible) -> bytes:
            return in_order(JsonExample(document, find, made).make(resolved.fragment))

        return example if validator.is_valid is not None else partial(_made_apart, example)
    if family == "jsonstructure":
        from lakehouse.render.example.structureexample import StructureExample

        return lambda made: in_order(StructureExample(document, made).make(resolved.fragment))
    if family == "avro":
        return _avro_maker(validator, as_json)
    if family == "xsd":
        from lakehouse.render.example.xsdexample import XsdExample

        return lambda made: XsdExample(validator.schema, made).make(validator.wanted)
    from lakehouse.render.example.protobufexample import ProtobufExample

    def protobuf(made: Plausible) -> bytes:
        message = ProtobufExample(made).fill(validator.message_class())
        if as_json:
            from google.protobuf import json_format

            return orjson.dumps(json_format.MessageToDict(message, preserving_proto_field_name=True))
        encoded: bytes = message.SerializeToString(deterministic=True)
        return encoded

    return protobuf


def _made_apart(example: Callable[[Plausible], bytes], made: Plausible) -> bytes:
    """Make up a payload in its own process: its schema may keep that busy for long.

    Raises:
        Impossible: none was found.
        NoAnswer: it took too long.
    """

    def work() -> bytes | str:
        try:
            return example(made)
        except Impossible as error:
            return str(error)

    result = run_in_fork(work, _SECONDS)
    if isinstance(result, str):
        raise Impossible(result)
    return result


def _avro_maker(validator: Any, as_json: bool) -> Callable[[Plausible], bytes]:
    import io

    import fastavro

    from lakehouse.render.example.avroexample import AvroExample

    def avro(made: Plausible) -> bytes:
        datum = AvroExample(validator.schema, made, as_json=as_json).make()
        if as_json:
            return orjson.dumps(datum)
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, validator.schema, datum)
        return stream.getvalue()

    return avro


def _without_schema(content_type: str | None) -> bytes | None:
    """Return a payload of which only the content type is known; none where nothing is."""
    kind = media_type(content_type)[0] if content_type else ""
    return b"{}" if is_json(kind) else b"example" if kind.startswith("text/") else None


def _with_values(payload: bytes, values: Mapping[str, Any], content_type: str | None) -> bytes:
    """Write values that were given into the members of an object that are called so."""
    if not values or (content_type and not is_json(media_type(content_type)[0])):
        return payload
    document = read_exactly(payload)
    if not isinstance(document, dict):
        return payload
    named = {_squashed(name): value for name, value in values.items() if not name.startswith("/")}
    for name, member in document.items():
        value = named.get(_squashed(name))
        if value is None or isinstance(member, dict | list):
            continue
        if isinstance(member, str):
            document[name] = as_text(value)
        elif not isinstance(value, str):
            document[name] = value
        elif is_of_type(value, "number") and not isinstance(member, bool):
            document[name] = read_exactly(value.encode())
        elif value in ("true", "false") and isinstance(member, bool):
            document[name] = value == "true"
    return in_order(document)


def _members(payload: bytes | None) -> dict[str, str]:
    """Return the texts of a JSON payload's scalar members by name, letters and digits only; higher ones win."""
    try:
        document = read_exactly(payload or b"null")
    except orjson.JSONDecodeError:
        return {}
    results: dict[str, str] = {}
    level: list[Any] = [document]
    for _ in range(_MOST_MEMBERS):
        if not level:
            break
        part = level.pop(0)
        if isinstance(part, dict):
            for name, member in part.items():
                if isinstance(member, str | int | float):
                    results.setdefault(_squashed(name), as_text(member))
            level += [member for member in part.values() if isinstance(member, dict | list)]
        elif isinstance(part, list):
            level += [member for member in part if isinstance(member, dict | list)]
    return results


def _value_of(
    binding: ProtocolBinding, need: Need, values: Mapping[str, Any], members: Mapping[str, str], made: Plausible
) -> str:
    """Make up a value: the payload's member of the name, else what the name suggests, else what the type asks for."""
    moment = f"{made.moment():%Y-%m-%dT%H:%M:%SZ}"
    word = made.text(need.name if not need.name.startswith("/") else need.name.rpartition("/")[2])
    number = str(made.integer())
    kinds = {
        "timestamp": moment, "datetime": moment, "duration": "PT5M",
        "boolean": "true", "integer": number, "number": str(made.number()), "binary": made.base64(),
        "uri": f"https://example.com/{word}", "symbol": re.sub(r"[^A-Za-z0-9_]", "_", word),
        "ulong": number, "uuid": str(uuid5(NAMESPACE_URL, word)),
    }  # fmt: skip
    holes = binding.placeholders
    if need.template is None or need.name not in holes:
        return _attribute_value(binding, need, kinds, word)
    suggested = [members[_squashed(need.name)]] if _squashed(need.name) in members else []
    lowered = need.name.lower()
    suggested += [kinds["uri"]] if "url" in lowered or "uri" in lowered else []
    suggested += [kinds["timestamp"]] if "time" in lowered else []
    suggested += [moment[:10]] if "date" in lowered or "day" in lowered else []
    candidates = [*suggested, word, moment[:10], *kinds.values(), "0"]  # the last fits where only small numbers do
    return next((text for text in candidates if _fits(binding, need.name, text, values)), word)


def _attribute_value(binding: ProtocolBinding, need: Need, kinds: Mapping[str, str], word: str) -> str:
    """Make up the value of an attribute that has none."""
    named = binding.definition.xid.rpartition("/messages/")[2] or "message"
    if need.pointer == f"{ENVELOPE}type":
        return named
    if need.pointer == f"{ENVELOPE}source":
        return f"https://example.com/{binding.definition.group_xid.rpartition('/')[2]}"
    if need.pointer == "/protocoloptions/topic_name":
        return re.sub(r"[^A-Za-z0-9_/-]", "_", named.replace(".", "/"))
    if need.pointer in ("/protocoloptions/topic", "/protocoloptions/subject"):
        return re.sub(r"[^A-Za-z0-9_.-]", "-", named).strip(".")[:200]
    if need.pointer.endswith(("content-type", "content_type", "datacontenttype")):
        return "application/json"
    text = kinds.get(need.kind or "", word)
    option = need.pointer.removeprefix(PROTOCOL)
    return "0" if problem_of_option(option, typed(text, need.kind)) else text


def _fits(binding: ProtocolBinding, name: str, text: str, values: Mapping[str, Any]) -> bool:
    """Return whether a text can be the value of a placeholder, wherever it is used."""
    return bool(text) and all(
        _fits_attribute(binding, attribute, name, text, values)
        for attribute in binding.definition.attributes
        if attribute.template is not None and name in attribute.template.names
    )


def _fits_attribute(
    binding: ProtocolBinding, attribute: DeclaredAttribute, name: str, text: str, values: Mapping[str, Any]
) -> bool:
    template, kind = attribute.template, kind_of(attribute)
    if template is None:
        return True
    texts = {other: as_text(values.get(other) or "x") for other in template.names} | {name: text}
    try:
        written = template.fill(texts)
    except ValueError:
        return False
    whole = all(other == name or other in values for other in template.names)
    if kind in TEMPLATED_THEN_TYPED and whole and not is_of_type(written, kind or "", small=attribute.section == "envelope"):
        return False
    if kind in ("uri", "urireference", "uritemplate") and not is_uri_reference(written):
        return False
    if whole and attribute.section == "protocol" and problem_of_option(attribute.key, typed(written, kind)):
        return False
    if attribute.section == "protocol" and attribute.key in _ADDRESSED:
        return _SAFE.match(text) is not None
    return attribute.section == "envelope" or binding.family not in ("HTTP", "NATS") or _HEADER.match(text) is not None


def _squashed(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
