"""Schemas as a person reads them: fields of JSON Schema, JSON Structure, Avro and Protobuf as rows, and the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

_DEEPEST, _MOST_ROWS, _MOST_ENUM = 8, 150, 12
MOST_TEXT = 24_000  # characters that a page shows; the whole stands in a file of its own
_PROTOBUF = re.compile(
    r"^\s*(?:(?P<block>message|enum|oneof)\s+(?P<name>\w+)\s*\{|(?:(?P<label>repeated|optional|required)\s+)?"
    r"(?P<type>map\s*<[^>]*>|[\w.]+)\s+(?P<field>\w+)\s*=\s*(?P<number>\d+)[^;]*;|(?P<end>\}))",
    re.MULTILINE,
)
_WORDS = ("format", "pattern", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength",
          "minItems", "maxItems", "multipleOf", "const", "default", "unit", "symbol", "precision", "scale", "logicalType",
          "aliases")  # fmt: skip


class Field(NamedTuple):
    """A field.

    Attributes:
        depth: within how many others it stands.
        name: of it.
        type: in words.
        required: yes, no, or None: that cannot be told.
        description: of it.
        limits: what its values must be beside the type.
    """

    depth: int
    name: str
    type: str
    required: bool | None
    description: str
    limits: str


class Readable(NamedTuple):
    """A schema.

    Attributes:
        text: as it is shown: JSON laid out, else as written; cut when it is long.
        is_cut: the text is longer.
        fields: as rows; empty where it is not known how to read it.
        is_more: there are more fields.
        title: what it says of itself.
        description: what it says of itself.
    """

    text: str
    is_cut: bool
    fields: list[Field]
    is_more: bool
    title: str
    description: str


def whole_text(schema: Any) -> str:
    """Give the text of a schema: JSON laid out, other languages as written."""
    return schema if isinstance(schema, str) else orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode()


def readable(schema: Any, format_: str | None) -> Readable:
    """Read a schema.

    Args:
        schema: its document: a JSON value, or text.
        format_: as the catalog writes it, such as `Avro/1.11.1`.
    """
    family = (format_ or "").partition("/")[0].lower()
    value = schema
    if isinstance(schema, str) and schema.lstrip()[:1] in ("{", "["):
        try:
            value = orjson.loads(schema)
        except orjson.JSONDecodeError:
            value = schema
    rows: Iterator[Field] = iter(())
    if family == "avro" and isinstance(value, (dict, list)):
        rows = _avro(value, 0, "", True, "", {})
    elif family == "protobuf" and isinstance(schema, str):
        rows = _protobuf(schema)
    elif isinstance(value, dict) and family in ("jsonschema", "jsonstructure", ""):
        rows = _object(value, value, 0)
    found: list[Field] = []
    for row in rows:
        found.append(row)
        if len(found) > _MOST_ROWS:
            break
    text = whole_text(value)
    told = value if isinstance(value, dict) else {}
    title, description = (_text(told.get(name)) for name in ("title", "description"))
    return Readable(
        text[:MOST_TEXT], len(text) > MOST_TEXT, found[:_MOST_ROWS], len(found) > _MOST_ROWS, title or _text(told.get("name")),
        description or _text(told.get("doc")),
    )  # fmt: skip


def _object(schema: dict[str, Any], root: dict[str, Any], depth: int, seen: tuple[str, ...] = ()) -> Iterator[Field]:
    """Give the fields of JSON Schema and JSON Structure."""
    schema, seen = _referred(schema, root, seen)
    if not depth and "properties" not in schema and isinstance(schema.get("$root"), str):
        schema, seen = _referred({"$ref": schema["$root"]}, root, seen)
    for part in _list(schema.get("allOf")):
        if isinstance(part, dict):
            yield from _object(part, root, depth, seen)
    required: Any = schema.get("required")
    names = set(_list(required)) if not (_list(required) and isinstance(_list(required)[0], list)) else set(required[0])
    properties = schema.get("properties")
    for name, written in properties.items() if isinstance(properties, dict) else ():
        held = written if isinstance(written, dict) else {}
        inner, path = _referred(held, root, seen)
        items = inner.get("items")
        merged = inner | held
        yield Field(depth, name, _type(held, root), name in names, _text(merged.get("description")), _limits(merged))
        if depth < _DEEPEST and path is not None:
            yield from _object(inner, root, depth + 1, path)
            if isinstance(items, dict):
                yield from _object(items, root, depth + 1, path)
    if "properties" not in schema and isinstance(schema.get("items"), dict) and not depth:
        yield Field(0, "[ ]", _type(schema["items"], root), None, _text(schema.get("description")), "")
        yield from _object(schema["items"], root, 1, seen)


def _referred(schema: dict[str, Any], root: dict[str, Any], seen: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Follow `$ref` within the document, each once on a way down; what is met again has no fields any more."""
    reference = schema.get("$ref")
    if reference is None and isinstance(schema.get("type"), dict):  # JSON Structure
        reference = schema["type"].get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/"):
        return schema, seen
    if reference in seen:
        return {}, seen
    at: Any = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        at = at.get(name) if isinstance(at, dict) else None
    return (at, (*seen, reference)) if isinstance(at, dict) else (schema, seen)


def _type(schema: dict[str, Any], root: dict[str, Any]) -> str:
    reference = schema.get("$ref")
    kind = schema.get("type")
    if reference is None and isinstance(kind, dict):
        reference = kind.get("$ref")
    if isinstance(reference, str):
        return reference.rpartition("/")[2]
    if kind in ("array", "set") and isinstance(schema.get("items"), dict):
        return f"{kind} of {_type(schema['items'], root)}"
    if kind == "map" and isinstance(schema.get("values"), dict):
        return f"map of {_type(schema['values'], root)}"
    if isinstance(kind, list):
        return " or ".join(one if isinstance(one, str) else _type(one, root) for one in kind if isinstance(one, (str, dict)))
    if kind is None:
        for word in ("oneOf", "anyOf"):
            if _list(schema.get(word)):
                return " or ".join(_type(one, root) for one in schema[word][:6] if isinstance(one, dict))
        return "object" if "properties" in schema else "enum" if "enum" in schema else "const" if "const" in schema else "any"
    return str(kind)


def _limits(schema: dict[str, Any]) -> str:
    told = [f"{name} {_text(schema[name])}" for name in _WORDS if name in schema]
    values = _list(schema.get("enum"))
    if values:
        more = " …" if len(values) > _MOST_ENUM else ""
        told.insert(0, "one of " + ", ".join(_text(one) for one in values[:_MOST_ENUM]) + more)
    return "; ".join(told)[:300]


def _avro(
    schema: Any, depth: int, name: str, required: bool, doc: str, named: dict[str, Any], limits: str = ""
) -> Iterator[Field]:
    """Give the fields of an Avro schema; name: of the field that has it."""
    if isinstance(schema, list) and not depth and not name:
        for one in schema:
            yield from _avro(one, 0, _text(one.get("name")) if isinstance(one, dict) else "", True, "", named)
        return
    if isinstance(schema, list):
        others = [one for one in schema if one != "null"]
        required = len(others) == len(schema)
        schema = others[0] if len(others) == 1 else others
    if name:
        told = _limits(schema) if isinstance(schema, dict) else ""
        symbols = _list(schema.get("symbols")) if isinstance(schema, dict) else []
        words = [limits, told, ("one of " + ", ".join(map(_text, symbols[:_MOST_ENUM]))) if symbols else ""]
        yield Field(depth, name, _avro_type(schema), required, doc, "; ".join(word for word in words if word))
    inside = depth + 1 if name else depth
    if depth > _DEEPEST:
        return
    held = schema
    while isinstance(held, dict) and held.get("type") in ("array", "map"):
        held = held.get("items") if held["type"] == "array" else held.get("values")
    for one in held if isinstance(held, list) else [held]:
        if isinstance(one, dict) and one.get("type") == "record" and _text(one.get("name")) not in named:
            below = named | {_text(one.get("name")): one}
            for field in _list(one.get("fields")):
                if isinstance(field, dict):
                    default = f"default {orjson.dumps(field['default']).decode()[:80]}" if "default" in field else ""
                    yield from _avro(
                        field.get("type"), inside, _text(field.get("name")), True, _text(field.get("doc")), below, default
                    )


def _avro_type(schema: Any) -> str:
    if isinstance(schema, list):
        return " or ".join(_avro_type(one) for one in schema)
    if not isinstance(schema, dict):
        return _text(schema)
    kind = schema.get("type")
    if kind == "array":
        return f"array of {_avro_type(schema.get('items'))}"
    if kind == "map":
        return f"map of {_avro_type(schema.get('values'))}"
    if kind in ("record", "enum", "fixed"):
        return f"{kind} {_text(schema.get('name'))}"
    return _avro_type(kind) if isinstance(kind, (dict, list)) else _text(kind)


def _protobuf(text: str) -> Iterator[Field]:
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", lambda found: "\n" * found[0].count("\n"), text, flags=re.DOTALL)
    depth = 0
    for found in _PROTOBUF.finditer(plain.replace("{", "{\n").replace("}", "\n}")):
        if found["end"]:
            depth = max(0, depth - 1)
        elif found["block"]:
            yield Field(depth, found["name"], found["block"], None, "", "")
            depth += 1
        elif found["type"] not in ("option", "syntax", "reserved"):
            label = found["label"] or ""
            kind = f"{label} {found['type']}".strip() if label == "repeated" else found["type"]
            yield Field(
                depth, found["field"], kind, {"required": True, "optional": False}.get(label), "", f"no. {found['number']}"
            )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return text if len(text) <= 300 else text[:299] + "…"
