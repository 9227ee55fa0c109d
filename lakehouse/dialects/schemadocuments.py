"""The document of a schema: which family its `format` names, and its bytes, which `schemabase64` holds.

A document has one normal form, however it is written: an object or array as the value of `schema`, other text as its string. Only
bytes that are not text stay in `schemabase64`. How the document was spelled is in `raw`, from which its bytes are served.
"""

from __future__ import annotations

import base64
import re
from typing import Any

from lakehouse.text.jsontext import NotJson, as_written, read_json
from lakehouse.text.values import decoded_base64

_MOST_LEVELS = 199  # of a document that is no text: an entity has it a level deeper, and what reads JSON ends at 200
_PLAIN = re.compile(r"text/plain\s*(?:;.*)?", re.IGNORECASE)
_JSON = re.compile(r"application/(?:[A-Za-z0-9!#$&^_.+-]+\+)?json\s*(?:;.*)?", re.IGNORECASE)
_NO_TEXT = re.compile(r"[\x00-\x08\x0b\x0e-\x1f]")


def document_of(content: bytes, contenttype: str | None) -> Any:
    """Return a document as its normal form has it: an object or array, else a string; None: it is no text."""
    if contenttype is None or not _PLAIN.fullmatch(contenttype):
        try:
            value, problems = read_json(content, _MOST_LEVELS)
            if isinstance(value, (dict, list)) and not any(problem.severity == "error" for problem in problems):
                return value
        except NotJson:
            pass  # it is kept as the text that it is
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    return None if _NO_TEXT.search(text) else text


def member_of(content: bytes, contenttype: str | None) -> tuple[str, Any]:
    """Return the name and value under which an entity holds a document, so that `content_of` gives the same bytes again."""
    value = document_of(content, contenttype)
    if value is not None and _bytes_of(value) == content:
        return "schema", value
    return "schemabase64", base64.b64encode(content).decode()


def content_of(written: dict[str, Any]) -> bytes | None:
    """Return the bytes of the document of a Version as written; None: it has none."""
    coded = written.get("schemabase64")
    if isinstance(coded, str):
        return decoded_base64(coded)
    value = written.get("schema")
    return None if value is None else _bytes_of(value)


def is_shown_as_string(contenttype: str | None) -> bool:
    """Return whether a text is shown as the string of `schema`, and not in `schemabase64` (core, `<RESOURCE>` attribute).

    Of a document that names no media type, and of JSON that was written as a string, the string is what was written.
    """
    return contenttype is None or bool(_PLAIN.fullmatch(contenttype) or _JSON.fullmatch(contenttype))


def _bytes_of(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else as_written(value).encode()


def family_of_format(written: str, document: Any) -> str:
    """Return the family of a schema format: `jsonschema`, `avro`, `protobuf`, `jsonstructure`, `xsd`, or the name as written."""
    name = written.partition("/")[0].strip().lower().replace("-", "").replace("_", "").replace(" ", "")
    families = {"jsonschema": "jsonschema", "draft": "jsonschema", "avro": "avro", "protobuf": "protobuf", "proto": "protobuf",
             "protocolbuffers": "protobuf", "jsonstructure": "jsonstructure", "xsd": "xsd", "xmlschema": "xsd"}  # fmt: skip
    if name in families:
        return families[name]
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
