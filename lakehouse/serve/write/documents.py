"""The document of a schema as it is uploaded: the bytes of the body, its attributes in `xRegistry-` headers."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote_to_bytes

from lakehouse.dialects.schemabytes import document_of, member_of
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.write.asked import Json, Writing, check_text

_PREFIX = "xregistry-"
_NUMBER = re.compile(r"[0-9]{1,18}")
_NUMBERS = ("epoch",)
_BOOLEANS = ("isdefault", "readonly")


def body_of_document(writing: Writing) -> Json:
    """Give the attributes that headers name, and the document of the body; what no header names is left as it is.

    Raises:
        ProblemFound: a header is none of an attribute that can stand in one, or there is both a body and a URL.
    """
    given: Json = {}
    labels: dict[str, str] = {}
    for name, value in writing.headers.items():
        if name.startswith(_PREFIX):
            attribute = name.removeprefix(_PREFIX)
            if attribute in ("schema", "schemabase64", "contenttype"):
                told = "it is in the body" if attribute != "contenttype" else "it is the header Content-Type"
                raise ProblemFound("extra_xregistry_header", writing.path, name=name, error_detail=told)
            text = _decoded(name, value, writing.path)
            if attribute.startswith(("labels.", "labels-")):
                labels[attribute[len("labels.") :]] = text
            else:
                given[attribute] = _value(attribute, text)
    if labels:
        given["labels"] = labels
    contenttype = writing.headers.get("content-type")
    given["contenttype"] = contenttype or None
    if given.get("schemaurl") is not None:
        if writing.body:
            told = "the body must be empty with it"
            raise ProblemFound("extra_xregistry_header", writing.path, name="xRegistry-schemaurl", error_detail=told)
        return given
    check_text(given | {"schema": document_of(writing.body, contenttype)}, [], writing.path)
    name, document = member_of(writing.body, contenttype)
    return given | {name: document}


def _value(attribute: str, text: str) -> Any:
    if text == "null":
        return None
    if attribute in _NUMBERS and _NUMBER.fullmatch(text):
        return int(text)
    if attribute in _BOOLEANS and text in ("true", "false"):
        return text == "true"
    return text


def _decoded(name: str, value: str, path: str) -> str:
    """Undo the quotes and percent signs of a header's value."""
    text = value
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = re.sub(r"\\(.)", r"\1", text[1:-1])
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError as error:
        raise ProblemFound("header_error", path, name=name, error_detail="it is not UTF-8") from error
