"""JSON values: whether two are the same, and whether one satisfies a JSON Schema, as far as that can be told without patterns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

_NOT_DECIDED = (
    "pattern", "format", "not", "if", "patternProperties", "propertyNames", "contains", "dependencies", "dependentRequired",
    "dependentSchemas", "unevaluatedProperties", "unevaluatedItems", "multipleOf", "$dynamicRef", "$recursiveRef", "uniqueItems",
    "prefixItems", "additionalItems",
)  # fmt: skip


def as_key(value: Any) -> bytes:
    """Return what two equal JSON values have alike: 1 and 1.0 are equal, 1 and true are not."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)
    if isinstance(value, dict | list):
        value = _plain(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError:  # an integer of more than 64 bits
        return repr(value).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 2**53 else value


def type_of(value: Any) -> str:
    """Return the type of a JSON value as JSON Schema names it; a number without a fraction is an integer."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):
        return "integer"
    return {float: "number", str: "string", list: "array"}.get(type(value), "object")


def satisfies(value: Any, schema: Any, follow: Callable[[str], Any], depth: int = 0) -> bool | None:
    """Return whether a value satisfies a schema; None: that is not decided here.

    Args:
        value: a JSON value.
        schema: a JSON Schema.
        follow: gives what a reference leads to; None: it is not there.
        depth: how many references and combinations it is in.
    """
    if isinstance(schema, bool):
        return schema
    if not isinstance(schema, dict) or depth > 20:
        return None
    answers: list[bool | None] = []
    if "$ref" in schema:
        target = follow(schema["$ref"])
        answers.append(None if target is None else satisfies(value, target, follow, depth + 1))
    answers += [None for name in _NOT_DECIDED if name in schema]
    kind = type_of(value)
    declared = schema.get("type")
    if declared is not None:
        types = declared if isinstance(declared, list) else [declared]
        answers.append(kind in types or (kind == "integer" and "number" in types))
    if "enum" in schema:
        answers.append(as_key(value) in {as_key(one) for one in schema["enum"]})
    if "const" in schema:
        answers.append(as_key(value) == as_key(schema["const"]))
    answers += [_of_parts(value, schema, kind, follow, depth)]
    for name, combine in (("allOf", _all), ("anyOf", _any), ("oneOf", _one)):
        if name in schema:
            answers.append(combine([satisfies(value, one, follow, depth + 1) for one in schema[name]]))
    return _all(answers)


def _of_parts(value: Any, schema: dict[str, Any], kind: str, follow: Callable[[str], Any], depth: int) -> bool | None:
    if kind in ("integer", "number"):
        low, high = schema.get("minimum"), schema.get("maximum")
        over, under = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
        if low is not None and (value < low or (over is True and value == low)):
            return False
        if high is not None and (value > high or (under is True and value == high)):
            return False
        is_over = over is None or isinstance(over, bool) or value > over
        return is_over and (under is None or isinstance(under, bool) or value < under)
    if kind == "string":
        return bool(schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)))
    if kind == "array":
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        items = schema.get("items", True)
        return None if isinstance(items, list) else _all([satisfies(one, items, follow, depth + 1) for one in value])
    if kind == "object":
        if not schema.get("minProperties", 0) <= len(value) <= schema.get("maxProperties", len(value)):
            return False
        required = schema.get("required")
        if isinstance(required, list) and not set(required) <= value.keys():
            return False
        properties, extra = schema.get("properties") or {}, schema.get("additionalProperties", True)
        return _all([satisfies(one, properties.get(name, extra), follow, depth + 1) for name, one in value.items()])
    return True


def _all(answers: list[bool | None]) -> bool | None:
    return False if False in answers else None if None in answers else True


def _any(answers: list[bool | None]) -> bool | None:
    return True if True in answers else None if None in answers else False


def _one(answers: list[bool | None]) -> bool | None:
    count = answers.count(True)
    return False if count > 1 else None if None in answers else count == 1
