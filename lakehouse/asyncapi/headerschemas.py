"""Declarations of xRegistry (`value`, `type`, `required`) and the properties of a JSON Schema that say the same.

CloudEvents in AsyncAPI: attributes as headers (binary mode), or as members of the payload (structured mode).
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import Any, NamedTuple

from lakehouse.compatibility.jsonshapes import JsonDocument
from lakehouse.dialects.tables import PROTOCOLS, table
from lakehouse.text.jsontext import array_at, object_at, text_at, without
from lakehouse.text.values import is_now, is_whole

HINT = "x-xregistry"
# What an entity has besides its attributes: computed by a registry, or no part of its definition.
COMPUTED = frozenset(
    row["name"] for row in table() if not row["place"] and row["type"] in ("computed", "entities", "id", "timestamp", "uinteger")
) | {"ancestor", "isdefault", "meta", "specversion"}
_JSON_TYPES = {
    "integer": "integer",
    "uinteger": "integer",
    "int": "integer",
    "boolean": "boolean",
    "decimal": "number",
    "float": "number",
    "double": "number",
    "array": "array",
    "object": "object",
    "map": "object",
}
_TYPES = {"string": "string", "integer": "integer", "boolean": "boolean", "number": "decimal"}
_SYNTAX = re.compile(r"[\\^$.*+?()\[\]{}|/]")  # what may be escaped in a pattern (ECMA-262, Unicode mode)
_FORMATS = {"timestamp": "date-time", "uri": "uri", "urireference": "uri-reference", "uritemplate": "uri-template"}


def property_of(declaration: dict[str, Any]) -> dict[str, Any]:
    """Write a declaration, without `required`, as a schema; what JSON Schema cannot say of it is in `x-xregistry`."""
    kind = text_at(declaration, "type") or "string"
    schema: dict[str, Any] = {} if kind == "any" else {"type": _JSON_TYPES.get(kind, "string")}
    if kind in _FORMATS and kind != "uritemplate":
        schema["format"] = _FORMATS[kind]
    value = declaration.get("value")
    if isinstance(value, str) and "{" in value:
        schema["pattern"] = "^" + re.sub(r"\\\{[^{}]*\\\}", ".*", _SYNTAX.sub(r"\\\g<0>", value)) + "$"
    elif value is not None and not is_now(value):
        schema["const"] = value
    if declaration.get("description"):
        schema["description"] = declaration["description"]
    rest = {name: member for name, member in declaration.items() if name not in ("required", "name")}
    return schema if declaration_of(schema) == rest else schema | {HINT: rest}


def declaration_of(schema: Any) -> dict[str, Any]:
    """Read a schema as a declaration, without `required`: as far as it is about one value."""
    if not isinstance(schema, dict):
        return {}
    if isinstance(schema.get(HINT), dict):
        return dict(schema[HINT])
    results: dict[str, Any] = {}
    formats = {written: kind for kind, written in _FORMATS.items()}
    kind, written_format = schema.get("type"), text_at(schema, "format")
    if written_format in formats and kind == "string":
        results["type"] = formats[written_format]
    elif isinstance(kind, str) and kind in _TYPES:
        results["type"] = _TYPES[kind]
    fixed = fixed_value(schema)
    if fixed is not None:
        results["value"] = fixed
    if isinstance(schema.get("description"), str):
        results["description"] = schema["description"]
    return results


def fixed_value(schema: Any) -> Any:
    """Return the one value that a schema allows; a value that is no schema is that itself; None: it allows others."""
    if not isinstance(schema, dict):
        return schema
    if "const" in schema:
        return schema["const"]
    choices = schema.get("enum")
    return choices[0] if isinstance(choices, list) and len(choices) == 1 else None


def option_of(how: str, member: Any) -> Any:
    """Return the option of a member of a binding, as the `how` of its row reads it; None: no option says it."""
    if how == "schema" and isinstance(member, dict):
        return declaration_of(member) or None
    if how == "map" and isinstance(member, dict):
        values = {name: fixed_value(member_value) for name, member_value in object_at(member, "properties").items()}
        return values if values and all(isinstance(member_value, str) for member_value in values.values()) else None
    value = fixed_value(member) if how == "fixed" else member
    if value is None or isinstance(value, dict | list):
        return None
    return {"value": str(value) if how == "number" else value} if how in ("schema", "value", "number") else value


def member_of(how: str, option: Any) -> Any:
    """Return the member of a binding that says an option, the reverse of `option_of`; None: none does."""
    if how == "fixed":
        return {"type": "string", "const": option}
    if how == "map":
        return (
            None
            if not isinstance(option, dict)
            else {"type": "object", "properties": {name: {"type": "string", "const": text} for name, text in option.items()}}
        )
    if how == "plain":
        return option
    declaration = declared(option)
    value = declaration.get("value")
    if how == "schema":
        return property_of(declaration)
    if how == "number":
        return int(value) if isinstance(value, str) and is_whole(value) else None
    return None if isinstance(value, str) and "{" in value else value


def declared(option: Any) -> dict[str, Any]:
    """Return an option as a declaration: a value alone is one of that value."""
    return option if isinstance(option, dict) else {"value": option}


def says_the_same(member: Any, written: Any) -> bool:
    """Return whether a member of a binding, or a property, says no more than the one that would be written for it."""
    is_fixed = isinstance(member, dict) and set(member) <= {"type", "const", "enum"} and fixed_value(member) is not None
    return bool(member == written or (is_fixed and isinstance(written, dict) and fixed_value(member) == fixed_value(written)))


def headers_schema(declared: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Write declarations by their names as the schema of an object."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {name: property_of(declaration) for name, declaration in declared.items()},
    }
    required = [name for name, declaration in declared.items() if declaration.get("required") is True]
    if required:
        schema["required"] = required
    optional = [name for name, declaration in declared.items() if declaration.get("required") is False]
    for name in optional:
        schema["properties"][name].setdefault(HINT, {k: v for k, v in declared[name].items() if k != "name"})
    return schema


def declared_headers(schema: Any) -> dict[str, dict[str, Any]]:
    """Read the schema of an object as declarations by their names; `$ref`s to parts of the schema itself are followed."""
    return _HeadersReading(schema).read(schema)


class _HeadersReading:
    """The schema of an object on its way to declarations."""

    def __init__(self, whole: Any) -> None:
        self._whole = whole
        self._read: set[str] = set()  # `$ref`s that led to schemas of the object: each counts once, so a circle ends

    @cached_property
    def _document(self) -> JsonDocument:
        return JsonDocument(self._whole)

    def read(self, schema: Any) -> dict[str, dict[str, Any]]:
        reference = text_at(schema, "$ref")
        if reference is not None:
            is_new = reference not in self._read
            self._read.add(reference)
            return self.read(self._document.follow(reference)) if is_new else {}
        properties = object_at(schema, "properties")
        result = {name: declaration_of(self._followed(property_schema)) for name, property_schema in properties.items()}
        for part in array_at(schema, "allOf"):
            result |= self.read(part)
        for name in array_at(schema, "required"):
            if isinstance(name, str) and name in result:
                result[name]["required"] = True
        return result

    def _followed(self, schema: Any) -> Any:
        """Return what a schema refers to, without what an export noted of that elsewhere; None: that leads nowhere."""
        over: set[str] = set()
        while (reference := text_at(schema, "$ref")) is not None:
            target = None if reference in over else self._document.follow(reference)
            schema = without(target, (HINT,)) if isinstance(target, dict) else None
            over.add(reference)
        return schema


def is_declared(schema: Any) -> bool:
    """Return whether declarations say all that the schema of an object does."""
    properties = object_at(schema, "properties")
    is_plain = isinstance(schema, dict) and set(schema) <= {"type", "properties", "required"}
    return is_plain and all(
        HINT in object_at(properties, name) or says_the_same(property_schema, property_of(declaration_of(property_schema)))
        for name, property_schema in properties.items()
    )


CLOUDEVENTS = "CloudEvents/1.0"
STRUCTURED = "application/cloudevents+json"
_REQUIRED = ("specversion", "id", "source", "type")
_IMPLIED: dict[str, dict[str, Any]] = {"specversion": {"value": "1.0"}, "id": {}, "source": {}, "type": {}}
_ATTRIBUTES = (*_REQUIRED, "subject", "time", "datacontenttype", "dataschema")
_EXPLICIT = "explicit"
_DATA = "data"
_OPEN = {"type", "properties", "required", "title", "description", "additionalProperties", "$schema"}


class Envelope(NamedTuple):
    """A CloudEvents envelope.

    Attributes:
        metadata: `envelopemetadata` of the message.
        rest: what is left of the headers, or of the payload (the schema of `data`; None: it has none).
    """

    metadata: dict[str, Any]
    rest: Any


def prefix_of(family: str | None) -> str | None:
    """Return what headers that are CloudEvents attributes begin with in a protocol, the form that is written."""
    protocol_row = PROTOCOLS.get(family or "")
    return protocol_row.ce_attributes.split()[0].rpartition("/")[2] if protocol_row else "ce_" if family else None


def from_headers(declared: dict[str, dict[str, Any]], family: str | None) -> Envelope | None:
    """Take the attributes of CloudEvents out of headers; None: the headers are not those of a CloudEvent."""
    protocol_row = PROTOCOLS.get(family or "")
    prefixes = (
        [path.rpartition("/")[2] for path in protocol_row.ce_attributes.split()]
        if protocol_row
        else ["ce_", "ce-", "cloudEvents:"]
    )
    for prefix in prefixes:
        names = {name: name[len(prefix) :].lower() for name in declared if name.lower().startswith(prefix.lower())}
        names = {name: attribute for name, attribute in names.items() if attribute.isalnum()}
        result = set(names.values())
        is_event = {"type", "source"} <= result or {"specversion", "type"} <= result
        if is_event and (prefix or set(_REQUIRED) <= result):
            taken = names if prefix else {name: attribute for name, attribute in names.items() if attribute in _ATTRIBUTES}
            headers = {name: declaration for name, declaration in declared.items() if name not in taken}
            return Envelope(_read({attribute: declared[name] for name, attribute in taken.items()}), headers)
    return None


def from_payload(schema: Any) -> Envelope | None:
    """Take the attributes of CloudEvents out of the schema of a structured event; None: it is none."""
    if not isinstance(schema, dict) or set(schema) - _OPEN or schema.get("type") != "object":
        return None
    properties, required = schema.get("properties"), array_at(schema, "required")
    if not isinstance(properties, dict) or not all(name in required for name in _REQUIRED):
        return None
    if not set(_REQUIRED) <= properties.keys() or "#/" in str(properties.get(_DATA)):
        return None
    attributes = {name: property_schema for name, property_schema in properties.items() if name != _DATA}
    return Envelope(_read(declared_headers({"properties": attributes, "required": required})), properties.get(_DATA))


def says_more(schema: dict[str, Any]) -> bool:
    """Return whether the schema of a structured event says more than its attributes, and the schema of its `data`, do."""
    properties = object_at(schema, "properties")
    attributes = {name: attribute for name, attribute in properties.items() if name != _DATA}
    stated = {name: attribute for name, attribute in attributes.items() if attribute != {}}
    has_other_data = _DATA in properties and not isinstance(properties[_DATA], dict)
    requires_more = any(name not in list(attributes) for name in array_at(schema, "required"))
    return has_other_data or requires_more or not is_declared(schema | {"properties": stated})


def declares_the_same(schema: Any, headers: dict[str, dict[str, Any]], family: str | None) -> bool:
    """Return whether the schema of headers still declares what a message does, which may declare none."""
    declared_there = declared_headers(schema)
    event, own = from_headers(declared_there, family), from_headers(headers, family)
    if (event and event.metadata) != (own and own.metadata):
        return False
    rest = own.rest if own else headers
    return not rest or rest == (event.rest if event else declared_there)


def as_headers(metadata: dict[str, Any], family: str | None) -> dict[str, dict[str, Any]]:
    """Write attributes as declared headers of a protocol."""
    prefix = prefix_of(family) or ""
    return {f"{prefix}{name}": declaration for name, declaration in _written(metadata).items()}


def as_payload(metadata: dict[str, Any], data: Any) -> dict[str, Any]:
    """Write attributes and the schema of `data` as the schema of a structured event."""
    schema = headers_schema(_written(metadata))
    if data is not None:
        schema["properties"][_DATA] = data
    return schema


def _written(metadata: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Add what every CloudEvent has; a declaration that says no more than that is marked, so that it is read back."""
    every: dict[str, dict[str, Any]] = {}
    for name, implied in _IMPLIED.items():
        declared = metadata.get(name)
        is_explicit = declared is not None and _read({name: implied | declared | {"required": True}}).get(name) != declared
        every[name] = implied | (declared or {}) | {"required": True} | ({_EXPLICIT: declared} if is_explicit else {})
    return every | {
        name: declaration for name, declaration in metadata.items() if name not in every and isinstance(declaration, dict)
    }


def _read(declared: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Read attributes; what is true of every CloudEvent is not declared."""
    results = {}
    for name, declared_attribute in declared.items():
        if _EXPLICIT in declared_attribute:
            results[name] = declared_attribute[_EXPLICIT]
        elif name not in _REQUIRED:
            results[name] = declared_attribute
        else:
            declaration = {member: value for member, value in declared_attribute.items() if member != "required"}
            if name in ("type", "source") or declaration not in (
                {},
                {"type": "string"},
                _IMPLIED[name],
                _IMPLIED[name] | {"type": "string"},
            ):
                results[name] = declaration
    return results
