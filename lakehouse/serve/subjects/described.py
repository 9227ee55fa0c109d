"""The paths below `/ccompat/v7`, for OpenAPI."""

from __future__ import annotations

import re
from typing import Any

from lakehouse.serve.subjects.registryapi import ROUTES, SubjectRoute
from lakehouse.serve.subjects.registryerrors import CONTENT_TYPE
from lakehouse.serve.targets import SUBJECTS

Document = dict[str, Any]
_ERRORS = {
    "400": "A parameter is wrong.",
    "401": "A user is asked for.",
    "404": "There is no such thing.",
    "405": "The request writes.",
    "406": "Too large.",
    "414": "The URL is too long.",
    "422": "The schema or the version is wrong, or the request writes.",
    "501": "The library for Protobuf is not installed.",
    "503": "Not now.",
}
_ERRORS_OF_BODIES = {"408": "The body did not come in time.", "413": "The body is too large."}
_ERROR = {
    "type": "object",
    "required": ["error_code", "message"],
    "properties": {"error_code": {"type": "integer"}, "message": {"type": "string"}},
}
_SCHEMA = {
    "type": "object",
    "required": ["schema"],
    "properties": {
        "schema": {"type": "string"},
        "schemaType": {"type": "string", "enum": ["AVRO", "JSON", "PROTOBUF"]},
        "references": {"type": "array", "items": {"type": "object"}},
    },
}
_PARAMETERS = {
    "deleted": "Also what is deleted in its registry.",
    "deletedOnly": "Only what is.",
    "subjectPrefix": "How subjects begin; empty: those without a context, `:*:`: in any.",
    "subject": "Where an id is looked up: a subject, or a context as `:.NAME:`.",
    "format": "`serialized`: a Protobuf schema as a descriptor in base64.",
    "latestOnly": "Only the latest version of each subject.",
    "offset": "Results that are left out.",
    "limit": "Results at most; below 0: no limit.",
    "defaultToGlobal": "Of a subject without a level, that of all.",
    "verbose": "Say why.",
    "key": "Name of a property.",
    "value": "Its value.",
}
_NUMBERS = ("offset", "limit")


def subject_paths() -> Document:
    """Describe the paths."""
    paths: Document = {}
    for route in ROUTES:
        path = f"/{SUBJECTS}/v7" + route.path.rstrip("/")
        item = paths.setdefault(path, {"parameters": [_in_path(name) for name in re.findall(r"{(\w+)}", path)]})
        item[route.method.lower()] = _operation(route)
    return paths


def _operation(route: SubjectRoute) -> Document:
    has_body = route.method == "POST"
    errors = _ERRORS | (_ERRORS_OF_BODIES if has_body else {})
    answers: Document = {"200": {"description": "There it is.", "content": {CONTENT_TYPE: {"schema": {}}}}}
    answers |= {status: {"description": text, "content": {CONTENT_TYPE: {"schema": _ERROR}}} for status, text in errors.items()}
    answers["400"]["content"]["application/json"] = {}  # of a path that cannot be read
    answers["307"] = {"description": "A name of a snapshot leads to its number."}
    parameters = [
        {
            "name": name,
            "in": "query",
            "description": _PARAMETERS[name],
            "schema": {"type": "integer" if name in _NUMBERS else "string"},
        }
        for name in route.parameters
    ]
    operation: Document = {"summary": route.summary, "parameters": parameters, "responses": answers}
    if has_body:
        operation["requestBody"] = {"required": True, "content": {CONTENT_TYPE: {"schema": _SCHEMA}}}
    return operation


def _in_path(name: str) -> Document:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
