"""What kind of document a JSON file is: a registry document and its dialect, or something else and what."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any

from lakehouse.dialects.draft.conversions import rows
from lakehouse.dialects.tables import DIALECTS, NORMAL, table

# Collections of the root, in all spellings, and what they are in normal form.
COLLECTIONS = {
    "messagegroups": "messagegroups",
    "definitionGroups": "messagegroups",
    "endpoints": "endpoints",
    "schemagroups": "schemagroups",
    "schemaGroups": "schemagroups",
}
_OTHER_KINDS = {"openapi": "an OpenAPI document", "swagger": "an OpenAPI document"}
_OWN = {"labels", "capabilities", "model", "modelsource"}
_READ_BY = ("dialect_types", "dialect_rules", "dialect_checks")  # tables of what one dialect alone asks for
DRAFT = "cncf-catalog"
_ASYNCAPI = re.compile(r"(2)\.[0-6]\.\d+(?:[-+].*)?|(3)\.[01]\.\d+(?:[-+].*)?")
_CLOUDEVENT = {"specversion", "id", "source", "type"}


def not_a_registry(document: Any, dialect: str | None = None) -> str | None:
    """Return why a JSON document is not a document of messages, endpoints or schemas; None when it is one.

    Args:
        document: the value.
        dialect: as which it is to be read; None: as that which it is of.
    """
    if (dialect is None or isinstance(document, dict)) and (is_draft(document) or asyncapi_of(document)):
        return None
    if not isinstance(document, dict):
        return f"the root is {'an array' if isinstance(document, list) else 'a scalar'}, not a registry object"
    if "asyncapi" in document:
        return f"an AsyncAPI document of version {str(document['asyncapi'])[:20]}; 2.0 to 2.6, 3.0 and 3.1 are read"
    for key, kind in _OTHER_KINDS.items():
        if key in document:
            return kind
    if any(isinstance(document.get(key), dict) for key in COLLECTIONS):
        return None
    if _is_model(document.get("groups")):
        return "a model file, not a registry document"
    if "json-schema.org" in str(document.get("$schema", "")):
        return "a JSON Schema"
    if any(document.get(key) is not None for key in COLLECTIONS):
        return None  # of a wrong shape, which is reported then
    foreign = [key for key, value in document.items() if _is_collection(value) and key not in _OWN]
    says_registry = any(isinstance(document.get(key), str) for key in ("specversion", "registryid"))
    if says_registry and not foreign and not document.keys() >= _CLOUDEVENT:
        return None
    if {"properties", "$defs", "definitions"} & document.keys():
        return "a JSON Schema"
    if foreign:
        return f"data of another model (collections: {', '.join(sorted(foreign)[:5])})"
    return "not a registry document: it has no messagegroups, endpoints or schemagroups"


def is_draft(value: Any) -> bool:
    """Return whether a JSON value is a document of the draft: a group, a definition, a version, or an array of groups."""
    items = value if isinstance(value, list) else [value]
    return bool(items) and all(isinstance(item, dict) and (is_group(item) or is_definition(item)) for item in items)


def asyncapi_of(document: Any) -> str | None:
    """Return the dialect of an AsyncAPI document of a version that is read, `asyncapi-2` or `asyncapi-3`; None: it is none."""
    written = document.get("asyncapi") if isinstance(document, dict) else None
    version = _ASYNCAPI.fullmatch(written) if isinstance(written, str) else None
    return f"asyncapi-{version[1] or version[2]}" if version else None


def is_group(item: dict[str, Any]) -> bool:
    """Return whether an object is a group of the draft, by its members."""
    named = {row["path"] for row in rows("group")}
    return "messagedefinitions" in item or ("format" in item and "definition" not in item and item.keys() <= named)


def is_definition(item: dict[str, Any]) -> bool:
    """Return whether an object is a definition or a version of the draft, by its members."""
    if isinstance(item.get("definition"), dict):
        return "id" in item or "format" in item
    return isinstance(item.get("versions"), dict | list) and isinstance(item.get("id"), str) and "format" in item


def declared_dialect(document: Any) -> str | None:
    """Return the dialect that a document declares, before it is read: by its collections, its specversion, its $schema."""
    if is_draft(document):
        return DRAFT
    if dialect := asyncapi_of(document):
        return dialect
    for row in table("detection"):
        dialect = _MARKS[row["what"]](document, row)
        if dialect:
            return dialect
        if row["what"] == "$schema":
            return None
    return None


def dialect_of(document: dict[str, Any], spellings: Counter[str], marks: Collection[str] = ()) -> str:
    """Return the dialect of a document that was read: the declared one, else by the spellings and names in it.

    Args:
        document: the document as written; its root, or nothing of it, when it was read part by part.
        spellings: how often each other spelling was met, as 'entity: spelled → normal'.
        marks: as from `marks_of`, of the other parts.
    """
    declared = declared_dialect(document)
    if declared:
        return declared
    met = {spelling.split(": ", 1)[1].split(" → ")[0].rsplit("/", 1)[-1] for spelling in spellings}
    for row in table("detection"):
        if row["what"] == "spelling":
            if met & {word for item in table() for word in item[row["dialect"]].split()}:
                return row["dialect"]
        elif row["what"] == "member" and (row["mark"] in marks or _member(document, row)):
            return row["dialect"]
    return NORMAL


def has_own_rules(dialect: str) -> bool:
    """Return whether a document of a dialect is read otherwise than one of the normal form."""
    return any(row["dialect"] == dialect for name in _READ_BY for row in table(name))


def marks_of(document: Any) -> set[str]:
    """Return the names in a part of a document that only one dialect has."""
    return {row["mark"] for row in table("detection") if row["what"] == "member" and _member(document, row)}


def _member(document: Any, row: dict[str, str]) -> str | None:
    """Return the dialect of a mark when the document has its member; `*` stands for any member."""
    values = [document]
    for token in row["mark"].split("/"):
        objects = [value for value in values if isinstance(value, dict)]
        values = [item for value in objects for key, item in value.items() if token in ("*", key)]
    return row["dialect"] if values else None


def _specversion(document: Any, row: dict[str, str]) -> str | None:
    version = document.get("specversion")
    return version if isinstance(version, str) and version else None


def _schema_uri(document: Any, row: dict[str, str]) -> str | None:
    """Return the dialect whose name is in the URI of the document's JSON Schema."""
    return next((name for name in DIALECTS if name in re.split("[/#]", str(document.get("$schema", "")))), None)


_MARKS: dict[str, Callable[[Any, dict[str, str]], str | None]] = {
    "member": _member,
    "specversion": _specversion,
    "$schema": _schema_uri,
}


def _is_model(groups: Any) -> bool:
    return (
        isinstance(groups, dict)
        and bool(groups)
        and all(isinstance(group, dict) and {"singular", "plural", "resources"} & group.keys() for group in groups.values())
    )


def _is_collection(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(member, dict) for member in value.values())
