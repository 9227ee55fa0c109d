"""What kind of document a JSON file is: a registry document and its dialect, or something else and what."""

from __future__ import annotations

from collections import Counter
from typing import Any

from lakehouse.dialects import table

# Collections of the root, in all spellings, and what they are in normal form.
COLLECTIONS = {
    "messagegroups": "messagegroups",
    "definitionGroups": "messagegroups",
    "endpoints": "endpoints",
    "schemagroups": "schemagroups",
    "schemaGroups": "schemagroups",
}
_OTHER_KINDS = {"asyncapi": "an AsyncAPI document", "openapi": "an OpenAPI document", "swagger": "an OpenAPI document"}
_OWN = {"labels", "capabilities", "model", "modelsource"}
_CLOUDEVENT = {"specversion", "id", "source", "type"}


def not_a_registry(document: Any) -> str | None:
    """Tell why a JSON document is no xRegistry document of messages, endpoints or schemas; None when it is one."""
    if not isinstance(document, dict):
        return f"the root is {'an array' if isinstance(document, list) else 'a scalar'}, not a registry object"
    for key, kind in _OTHER_KINDS.items():
        if key in document:
            return kind
    if any(isinstance(document.get(key), dict) for key in COLLECTIONS):
        return None
    if _is_model(document.get("groups")):
        return "a model file, not a registry document"
    if "json-schema.org" in str(document.get("$schema", "")):
        return "a JSON Schema"
    foreign = [key for key, value in document.items() if _is_collection(value) and key not in _OWN]
    says_registry = any(isinstance(document.get(key), str) for key in ("specversion", "registryid"))
    if says_registry and not foreign and not document.keys() >= _CLOUDEVENT:
        return None
    if {"properties", "$defs", "definitions"} & document.keys():
        return "a JSON Schema"
    if foreign:
        return f"data of another model (collections: {', '.join(sorted(foreign)[:5])})"
    return "not a registry document: it has no messagegroups, endpoints or schemagroups"


def dialect_of(document: dict[str, Any], spellings: Counter[str]) -> str:
    """Name the dialect of a document: by its collections, its specversion, else by the spellings that were met in it.

    Args:
        document: the document as written.
        spellings: how often each other spelling was met, as 'entity: spelled → normal'.
    """
    if "definitionGroups" in document or "schemaGroups" in document:
        return "cereg"
    version = document.get("specversion")
    if isinstance(version, str) and version:
        return version
    met = {spelling.split(": ", 1)[1].split(" → ")[0].rsplit("/", 1)[-1] for spelling in spellings}
    for dialect in ("0.5-wip", "1.0-rc1"):
        if met & {word for row in table() for word in row[dialect].split()}:
            return dialect
    return "1.0-rc2"


def _is_model(groups: Any) -> bool:
    return (
        isinstance(groups, dict)
        and bool(groups)
        and all(isinstance(group, dict) and {"singular", "plural", "resources"} & group.keys() for group in groups.values())
    )


def _is_collection(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(member, dict) for member in value.values())
