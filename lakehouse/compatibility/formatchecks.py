"""Whether a schema keeps the rules of its format: its syntax, and what each part of it may be.

No library of a format is needed, so that the answer is the same everywhere. References to other documents are not followed. Of
JSON Schema each keyword has the kind of value that the meta-schema of its draft demands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from lakehouse.compatibility.avroschemas import check_avro, read_avro
from lakehouse.compatibility.jsonshapes import JsonDocument
from lakehouse.compatibility.jsonstructures import check_structure, read_structure
from lakehouse.compatibility.limits import INVALID, MOST_DEPTH, MOST_TEXT, Malformed, Unreadable, text_of
from lakehouse.compatibility.protoschemas import ProtoFile
from lakehouse.compatibility.xmlschemas import XmlDocument
from lakehouse.dialects.schemadocuments import family_of_format
from lakehouse.text.jsontext import read_exactly

_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_DRAFT = re.compile(r"draft[-/]?0?([467])|draft[-/](2019-09|2020-12)")
_NAMED: dict[str, tuple[str, ...]] = {
    "schema": (
        "additionalItems", "additionalProperties", "contains", "else", "if", "not", "propertyNames", "then", "unevaluatedItems",
        "unevaluatedProperties",
    ),
    "schemas": ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"),
    "alternatives": ("allOf", "anyOf", "oneOf", "prefixItems"),
    "count": ("maxContains", "maxItems", "maxLength", "maxProperties", "minContains", "minItems", "minLength", "minProperties"),
    "number": ("maximum", "minimum"),
    "text": (
        "$comment", "$id", "$ref", "$schema", "contentEncoding", "contentMediaType", "description", "format", "pattern", "title",
    ),
    "flag": ("deprecated", "readOnly", "uniqueItems", "writeOnly"),
    "names": ("required",),
    "list": ("examples",),
}  # fmt: skip
_KINDS = {keyword: kind for kind, keywords in _NAMED.items() for keyword in keywords}
# The first draft with a keyword: an earlier one does not look at it.
_SINCE = {
    "contains": 6, "examples": 6, "propertyNames": 6, "const": 6, "if": 7, "then": 7, "else": 7, "readOnly": 7, "writeOnly": 7,
    "$comment": 7, "contentEncoding": 7, "contentMediaType": 7, "$defs": 8, "deprecated": 8, "dependentSchemas": 8,
    "dependentRequired": 8, "maxContains": 8, "minContains": 8, "unevaluatedItems": 8, "unevaluatedProperties": 8,
    "prefixItems": 9,
}  # fmt: skip
_NEWEST = 9
_LAST_WITH_ITEMS_LIST = 8
_CACHED = 4_096  # answers


def check_keywords(document: Any, format: str = "") -> None:
    """Check a JSON Schema.

    Args:
        document: the schema as a JSON value.
        format: of the Version, which names the draft where `$schema` does not.

    Raises:
        Malformed: a keyword has a value that its draft does not allow.
        Unreadable: the schema is too deep, or of a draft before 4.
    """
    named = str(document.get("$schema") or format) if isinstance(document, dict) else format
    if "draft-03" in named.lower():
        raise Unreadable("JSON Schema is checked from draft 4 on")
    match = _DRAFT.search(named.lower())
    number = match and (match.group(1) or {"2019-09": "8", "2020-12": "9"}[match.group(2)])
    _Checker(int(number or _NEWEST)).check(document, "", 0)


class _Checker:
    def __init__(self, draft: int) -> None:
        self._draft = draft
        self._kinds: dict[str, Callable[[Any], bool]] = {
            "count": lambda value: _is_number(value) and value == int(value) and value >= 0,
            "number": _is_number,
            "text": lambda value: isinstance(value, str),
            "flag": lambda value: isinstance(value, bool),
            "names": lambda value: _are_names(value) and (draft > 4 or bool(value)),
            "list": lambda value: isinstance(value, list),
        }

    def check(self, schema: Any, pointer: str, depth: int) -> None:
        """Check a schema and those within it."""
        if depth > MOST_DEPTH:
            raise Unreadable(f"the schema is deeper than {MOST_DEPTH} levels")
        if isinstance(schema, bool) and (self._draft > 4 or pointer.rpartition("/")[2].startswith("additional")):
            return
        if not isinstance(schema, dict):
            raise Malformed(f"{pointer or '/'}: {_shown(schema)} is no schema")
        for keyword, value in schema.items():
            if self._draft >= _SINCE.get(keyword, 0):
                here = f"{pointer}/{keyword}"
                for name, inner in self._within(keyword, value, here):
                    self.check(inner, here + name, depth + 1)

    def _within(self, keyword: str, value: Any, here: str) -> Iterator[tuple[str, Any]]:
        """Check the value of a keyword, and yield the schemas that it holds with where they are."""
        kind = _KINDS.get(keyword)
        if kind == "schema":
            yield "", value
        elif kind == "schemas" and isinstance(value, dict):
            yield from ((f"/{name}", inner) for name, inner in value.items())
        elif (kind == "alternatives" and isinstance(value, list) and value) or (
            keyword == "items" and isinstance(value, list) and self._draft <= _LAST_WITH_ITEMS_LIST
        ):
            yield from ((f"/{at}", inner) for at, inner in enumerate(value))
        elif keyword == "items":
            yield "", value
        elif keyword == "dependencies" and isinstance(value, dict):
            yield from ((f"/{name}", inner) for name, inner in value.items() if not _are_names(inner))
        elif not self._is_allowed(keyword, kind, value):
            raise Malformed(f"{here}: {_shown(value)} is no value of `{keyword}`")

    def _is_allowed(self, keyword: str, kind: str | None, value: Any) -> bool:
        if kind is not None:
            check = self._kinds.get(kind)
            return check is not None and check(value)
        match keyword:
            case "type":
                names = value if isinstance(value, list) and value else [value]
                return _are_names(names) and _TYPES.issuperset(names)
            case "enum":
                return isinstance(value, list) and (self._draft > 4 or bool(value))
            case "multipleOf":
                return _is_number(value) and value > 0
            case "exclusiveMaximum" | "exclusiveMinimum":
                return isinstance(value, bool) if self._draft == 4 else _is_number(value)
            case "dependentRequired":
                return isinstance(value, dict) and all(map(_are_names, value.values()))
            case "dependencies":
                return False
        return True


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value) and len(set(value)) == len(value)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else text[:37] + "..."


class FormatCheck(NamedTuple):
    """Whether a schema keeps the rules of its format; None: that was not checked. Where it is not True, the reason."""

    is_valid: bool | None
    reason: str = ""


def check_format(document: Any, format: str) -> FormatCheck:
    """Check a schema, once for each text.

    Args:
        document: the schema, as a JSON value or as text.
        format: as `format` of a Version names it.
    """
    family = family_of_format(format, document)
    if family not in _CHECKS:
        return FormatCheck(None, f"schemas of format {format} are not checked")
    text = text_of(document)
    if len(text) > MOST_TEXT:
        return FormatCheck(None, f"the schema is longer than {MOST_TEXT} letters")
    return _checked(text, isinstance(document, str), family, format)


@lru_cache(_CACHED)
def _checked(text: str, is_text: bool, family: str, format: str) -> FormatCheck:
    try:
        _CHECKS[family](text if is_text else read_exactly(text.encode()), format)
    except Malformed as error:
        return FormatCheck(False, str(error))
    except Unreadable as error:
        return FormatCheck(None, str(error))
    except RecursionError:
        return FormatCheck(None, "the schema is too deep")
    except INVALID as error:
        return FormatCheck(None, f"the schema could not be read: {type(error).__name__}: {error}"[:200])
    return FormatCheck(True)


def _avro(document: Any, _: str) -> None:
    read_avro(document)
    is_json = isinstance(document, str) and document.lstrip().startswith(("{", "[", '"'))
    check_avro(read_exactly(document.encode()) if is_json else document)


def _json(document: Any, format: str) -> None:
    check_keywords(JsonDocument(document, format).root, format)


def _protobuf(document: Any, _: str) -> None:
    if not isinstance(document, str):
        raise Unreadable("a Protobuf schema that is not text is not read")
    ProtoFile(document)


def _xml(document: Any, _: str) -> None:
    XmlDocument(document).check()


def _structure(document: Any, _: str) -> None:
    check_structure(read_structure(document))


_CHECKS: dict[str, Callable[[Any, str], None]] = {
    "avro": _avro,
    "jsonschema": _json,
    "protobuf": _protobuf,
    "xsd": _xml,
    "jsonstructure": _structure,
}
