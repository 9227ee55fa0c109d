"""Avro: rules of its specification that reading data does not need: names, symbols, unions, sizes and defaults."""

from __future__ import annotations

import re
from typing import Any

from lakehouse.compatibility.avroschemas import PRIMITIVES
from lakehouse.compatibility.limits import Malformed

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_NAMED = ("record", "error", "enum", "fixed")
_NUMBERS = ("float", "double")
_JSON_TYPES: dict[str, type] = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "bytes": str, "string": str, "enum": str, "fixed": str,
    "array": list, "map": dict, "record": dict, "error": dict,
}  # fmt: skip


def check_avro(part: Any) -> None:
    """Check a schema that `read_avro` reads.

    Args:
        part: a type as a JSON value.

    Raises:
        Malformed: it breaks a rule of the specification.
    """
    if isinstance(part, list):
        _check_union(part)
    elif isinstance(part, dict):
        kind = part.get("type")
        if kind in _NAMED:
            _check_named(kind, part)
        elif kind in ("array", "map"):
            check_avro(part["items" if kind == "array" else "values"])
        elif isinstance(kind, dict | list):
            check_avro(kind)


def _check_union(branches: list[Any]) -> None:
    kinds = [_kind_of(one) for one in branches]
    if any(isinstance(one, list) for one in branches):
        raise Malformed("a union holds another union")
    plain = [kind for kind in kinds if kind in PRIMITIVES or kind in ("array", "map")]
    if len(set(plain)) < len(plain):
        raise Malformed(f"a union holds a type twice: {', '.join(sorted(plain))}")
    for one in branches:
        check_avro(one)


def _check_named(kind: str, part: dict[str, Any]) -> None:
    name = part["name"]
    if not _FULL_NAME.fullmatch(name) or name in PRIMITIVES:
        raise Malformed(f"{name!r} is no name")
    if kind == "fixed":
        size = part.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise Malformed(f"{name} needs a `size`, a number of bytes")
    elif kind == "enum":
        _check_enum(name, part)
    else:
        names = [field["name"] for field in part["fields"]]
        if len(set(names)) < len(names):
            raise Malformed(f"{name} has two fields of the same name")
        for field in part["fields"]:
            _check_field(name, field)


def _check_enum(name: str, part: dict[str, Any]) -> None:
    symbols = part["symbols"]
    wrong = [one for one in symbols if not isinstance(one, str) or not _NAME.fullmatch(one)]
    if wrong:
        raise Malformed(f"{name}: {wrong[0]!r} is no symbol")
    if len(set(symbols)) < len(symbols):
        raise Malformed(f"{name} has a symbol twice")
    if "default" in part and part["default"] not in symbols:
        raise Malformed(f"{name}: the default {part['default']!r} is none of its symbols")


def _check_field(record: str, field: dict[str, Any]) -> None:
    if not _NAME.fullmatch(field["name"]):
        raise Malformed(f"{record}: {field['name']!r} is no name of a field")
    check_avro(field["type"])
    if "default" in field and not any(_is_default(one, field["default"]) for one in _branches(field["type"])):
        raise Malformed(f"{record}.{field['name']}: the default {field['default']!r} is of another type")


def _branches(part: Any) -> list[Any]:
    return part if isinstance(part, list) else [part]


def _kind_of(part: Any) -> Any:
    """Return the name of a type, of one in parentheses that within; None: a union."""
    while isinstance(part, dict):
        part = part.get("type")
    return part if isinstance(part, str) else None


def _is_default(part: Any, value: Any) -> bool:
    """Return whether a default is of the JSON type of a type; that of a type that is named elsewhere is not looked at."""
    kind = _kind_of(part)
    if isinstance(value, bool):
        return kind == "boolean" or kind not in (*_JSON_TYPES, *_NUMBERS)
    if kind in _NUMBERS:
        return isinstance(value, int | float)
    return kind not in _JSON_TYPES or isinstance(value, _JSON_TYPES[kind])
