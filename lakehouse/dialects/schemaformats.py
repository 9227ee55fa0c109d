"""Formats of schemas: which family a `format` names, however it is written, or a document shows."""

from __future__ import annotations

from typing import Any


def family_of_format(written: str, document: Any) -> str:
    """Return the family of a schema format: `jsonschema`, `avro`, `protobuf`, `jsonstructure`, `xsd`, or the name as written."""
    name = written.partition("/")[0].strip().lower().replace("-", "").replace("_", "").replace(" ", "")
    known = {"jsonschema": "jsonschema", "draft": "jsonschema", "avro": "avro", "protobuf": "protobuf", "proto": "protobuf",
             "protocolbuffers": "protobuf", "jsonstructure": "jsonstructure", "xsd": "xsd", "xmlschema": "xsd"}  # fmt: skip
    if name in known:
        return known[name]
    if name in ("", "unknown") and isinstance(document, dict):
        return _guess(document)
    return name or "unknown"


def _guess(document: dict[str, Any]) -> str:
    named = str(document.get("$schema", ""))
    if "json-structure" in named:
        return "jsonstructure"
    if "json-schema" in named:
        return "jsonschema"
    return "avro" if document.get("type") == "record" and "fields" in document else "unknown"
