"""JSON Schema by jsonschema-rs: compiled once, offline, formats checked, regular expressions that are linear."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import jsonschema_rs

from lakehouse.match.payload.costlimit import effort_of
from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.payload.validators import Decoded, Error, Unresolved, Unsupported, decode_json, may_be_long, pointer_of

_DRAFTS = {
    "draft-04": "http://json-schema.org/draft-04/schema#",
    "draft-06": "http://json-schema.org/draft-06/schema#",
    "draft-07": "http://json-schema.org/draft-07/schema#",
    "2019-09": "https://json-schema.org/draft/2019-09/schema",
    "2020-12": "https://json-schema.org/draft/2020-12/schema",
}
_WHOLE = "urn:xregistry:schema"


class JsonSchemaValidator:
    """Validates JSON against a JSON Schema; the draft is that of `$schema`, else of the format, else 2020-12."""

    def __init__(self, document: Any, resolved: Resolved, find: Callable[[str], Any]) -> None:
        wanted = _draft_of(resolved.format)
        self.remarks: tuple[str, ...] = ()
        schema = document
        if isinstance(document, dict):
            named = document.get("$schema")
            if named is None and wanted:
                schema = {"$schema": wanted, **document}
            elif named is not None and wanted and str(named).rstrip("#") != wanted.rstrip("#"):
                self.remarks = (f"$schema is {named}, and the format says {resolved.format}",)
        if not isinstance(schema, dict | bool):
            raise Unsupported("a JSON Schema is an object or a boolean")
        self._effort = effort_of(document, find)
        try:
            registry = jsonschema_rs.Registry([(_WHOLE, schema)], retriever=find)
            if resolved.fragment and isinstance(schema, dict):  # a place inside of the schema, whose references are of the whole
                place = resolved.fragment if resolved.fragment.startswith("/") else f"/{resolved.fragment}"
                schema = {"$schema": schema.get("$schema", _DRAFTS["2020-12"]), "$ref": f"{_WHOLE}#{place}"}
            self._validator = jsonschema_rs.validator_for(
                schema, validate_formats=True, offline=True, registry=registry, pattern_options=jsonschema_rs.RegexOptions()
            )
        except (jsonschema_rs.ReferencingError, ValueError) as error:
            reason = str(error).splitlines()[0]
            is_invalid = isinstance(error, jsonschema_rs.ValidationError) or "Recursion limit" in reason
            raise (
                Unsupported(f"no valid schema: {reason}") if is_invalid else Unresolved(f"refers to what is not there: {reason}")
            ) from error

    @cached_property
    def is_valid(self) -> Callable[[Any], bool] | None:
        """Return a quick check whether a value is valid, the same object each time; None where that may take long."""
        return self._validator.is_valid if self._effort.is_plain else None

    def may_hang(self, body: bytes | None, data: Any) -> bool:
        """Return whether a payload may make the schema costly."""
        return may_be_long(self._effort, body, data)

    def decode(self, body: bytes | None, data: Any, content_type: str | None) -> Decoded:
        """Read JSON."""
        return decode_json(body, data, content_type)

    def errors(self, value: Any) -> list[Error]:
        """Return what breaks the schema."""
        if self._validator.is_valid(value):
            return []
        results = []
        for error in self._validator.iter_errors(value):
            keyword = str(error.schema_path[-1]) if error.schema_path else ""
            results.append((_pointer(error, keyword), keyword, error.message))
            if len(results) == 5:
                break
        return results


def _pointer(error: Any, keyword: str) -> str:
    """Return the place of an error; of a member that is missing, where it would be."""
    pointer = pointer_of(error.instance_path)
    missing = getattr(error.kind, "property", None) if keyword == "required" else None
    return pointer if missing is None else pointer + pointer_of([missing])


def _draft_of(written: str) -> str | None:
    version = written.partition("/")[2].lower().removeprefix("draft/").removeprefix("draft-").removeprefix("v").lstrip("0")
    for name, uri in _DRAFTS.items():
        if version and version == name.removeprefix("draft-").lstrip("0"):
            return uri
    return None
