"""Declarations of xRegistry (`value`, `type`, `required`) and the properties of a JSON Schema that say the same."""

from __future__ import annotations

import re
from typing import Any

from lakehouse.dialects.tables import table

HINT = "x-xregistry"
# What an entity has beside its attributes: computed by a registry, or no part of its definition.
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
_FORMATS = {"timestamp": "date-time", "uri": "uri", "urireference": "uri-reference", "uritemplate": "uri-template"}
_NO_VALUE = ("any", "binary")


def property_of(declaration: dict[str, Any]) -> dict[str, Any]:
    """Write a declaration, without `required`, as a schema; what JSON Schema cannot say of it stands in `x-xregistry`."""
    told = declaration.get("type")
    kind = told if isinstance(told, str) else "string"
    schema: dict[str, Any] = {} if kind == "any" else {"type": _JSON_TYPES.get(kind, "string")}
    if kind in _FORMATS and kind != "uritemplate":
        schema["format"] = _FORMATS[kind]
    value = declaration.get("value")
    if isinstance(value, str) and "{" in value:
        schema["pattern"] = "^" + re.sub(r"\\\{[^{}]*\\\}", ".*", re.escape(value)) + "$"
    elif value is not None:
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
    found: dict[str, Any] = {}
    formats = {written: kind for kind, written in _FORMATS.items()}
    kind = schema.get("type")
    if schema.get("format") in formats and kind == "string":
        found["type"] = formats[schema["format"]]
    elif isinstance(kind, str) and kind in _TYPES:
        found["type"] = _TYPES[kind]
    known = fixed_value(schema)
    if known is not None:
        found["value"] = known
    if isinstance(schema.get("description"), str):
        found["description"] = schema["description"]
    return found


def fixed_value(schema: Any) -> Any:
    """Give the one value that a schema allows; a value that is no schema is that itself; None: it allows others."""
    if not isinstance(schema, dict):
        return schema
    if "const" in schema:
        return schema["const"]
    choices = schema.get("enum")
    return choices[0] if isinstance(choices, list) and len(choices) == 1 else None


def headers_schema(declared: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Write declarations by their names as the schema of an object."""
    schema: dict[str, Any] = {"type": "object", "properties": {name: property_of(one) for name, one in declared.items()}}
    required = [name for name, one in declared.items() if one.get("required") is True]
    if required:
        schema["required"] = required
    optional = [name for name, one in declared.items() if one.get("required") is False]
    for name in optional:
        schema["properties"][name].setdefault(HINT, {k: v for k, v in declared[name].items() if k != "name"})
    return schema


def declared_headers(schema: Any) -> dict[str, dict[str, Any]]:
    """Read the schema of an object as declarations by their names."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    required = schema.get("required") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return {}
    found = {name: declaration_of(one) for name, one in properties.items()}
    for name in required if isinstance(required, list) else ():
        if name in found:
            found[name]["required"] = True
    return found
