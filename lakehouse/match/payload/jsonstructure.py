"""JSON Structure by its SDK, whose regular expressions of schemas are run by RE2: Python's would backtrack."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import re2
from json_structure import InstanceValidator, instance_validator

from lakehouse.match.definition.compiled import escape
from lakehouse.match.payload.costlimit import effort_of
from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.payload.validators import Decoded, Error, Unsupported, decode_json, may_be_long

instance_validator.re = re2  # each `pattern` of a schema goes through this name of the module; RE2 is linear
_PLACE = re.compile(r"(?<= at )(?P<place>#[^\s:,]*)")
_SLOWNESS = 20  # it is plain Python
_INDEX = re.compile(r"\[(\d+)\]")
_MISSING = re.compile(r"(?:Missing required property|Required property|missing required property) '(?P<name>[^']*)'")


class StructureValidator:
    """Validates JSON against a JSON Structure document; `$import` is not followed."""

    remarks: tuple[str, ...] = ()

    def __init__(self, document: Any, resolved: Resolved, find: Callable[[str], Any]) -> None:
        if not isinstance(document, dict):
            raise Unsupported("a JSON Structure document is an object")
        if resolved.fragment:
            document = {**document, "$root": f"#{resolved.fragment}"}
        self._document = document
        self._effort = effort_of(document)

    def may_hang(self, body: bytes | None, data: Any) -> bool:
        """Return whether a payload may make the schema costly."""
        return may_be_long(self._effort, body, data, slowness=_SLOWNESS)

    def decode(self, body: bytes | None, data: Any, content_type: str | None) -> Decoded:
        """Read JSON."""
        return decode_json(body, data, content_type)

    def errors(self, value: Any) -> list[Error]:
        """Return what breaks the schema."""
        try:
            result = InstanceValidator(self._document, allow_import=False).validate_instance(value)
        except re2.error as error:
            raise Unsupported(f"a pattern that RE2 does not run: {error}") from error
        return [_error(problem) for problem in result[:5]]


def _error(text: str) -> Error:
    """Read the place out of the SDK's message: `… at #/items[0]/name …`."""
    match = _PLACE.search(text)
    pointer = "" if match is None else _INDEX.sub(r"/\1", match["place"].lstrip("#"))
    missing = _MISSING.search(text)
    if missing:
        return (f"{pointer}/{escape(missing['name'])}", "required", text)
    return (pointer, "type" if text.startswith(("Expected", "Invalid")) or "union" in text else "validation", text)
