"""Subjects of a schema registry in the catalog: their names as ids, their kinds of schema as formats and documents.

A context is a schemagroup, `default` where a subject names none; a subject is a schema. What an id cannot have is escaped, and
the entity has the name, too, so that the way back is exact.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from typing import Any

from lakehouse.dialects.draft.conversions import rows, schema_format
from lakehouse.dialects.schemadocuments import document_of, family_of_format
from lakehouse.text.xid import ID

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"
DEFAULT_GROUP = "default"
ID_LABEL, GUID_LABEL, DELETED_LABEL = "confluent.id", "confluent.guid", "confluent.deleted"  # of a Version
_FAMILIES = {"avro": AVRO, "jsonschema": JSON, "protobuf": PROTOBUF}
_CONTEXT = re.compile(r":\.([^:]*):(.*)", re.DOTALL)
_SYNTAX = re.compile(r"^\s*(?:syntax|edition)\s*=\s*[\"'](?:proto)?(\d+)[\"']", re.MULTILINE)
_NO_ID = re.compile(r"[^A-Za-z0-9_.\-:@]")
_BAD_START = re.compile(r"\A(?=[^A-Za-z0-9_])")
_NUMBER = re.compile(r"[1-9][0-9]{0,9}")
_MOST_OF_ID = 128
_DIGITS_OF_HASH = 12


def context_of(subject: str) -> tuple[str, str]:
    """Return the context of a subject (empty: the default one), and its name there."""
    parts = _CONTEXT.fullmatch(subject)
    return (parts[1], parts[2]) if parts else ("", subject)


def qualified(context: str, name: str) -> str:
    """Return a subject with its context: `:.context:name`; one of the default context is its name."""
    return f":.{context}:{name}" if context else name


def is_qualified(subject: str) -> bool:
    """Return whether a subject names its context."""
    return _CONTEXT.fullmatch(subject) is not None


def id_of_name(text: str) -> str:
    """Return a name as an id: what an id may not have is `~` and two hexadecimal digits for each byte."""
    escaped = _NO_ID.sub(lambda mark: "".join(f"~{byte:02X}" for byte in mark[0].encode("utf-8", "surrogatepass")), text)
    escaped = _BAD_START.sub("_", escaped)
    return escaped if ID.match(escaped) else hashed_id(escaped, text)


def hashed_id(escaped: str, text: str) -> str:
    """Return an id of a name that is too long, or differs from another one in letter case only."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS_OF_HASH]
    return f"{escaped[: _MOST_OF_ID - _DIGITS_OF_HASH - 1]}~{digest}"


def ids_of_name(text: str) -> tuple[str, str]:
    """Return the ids that a name may have, the usual one first."""
    usual = id_of_name(text)
    return usual, hashed_id(usual, text)


def name_of_id(entityid: str, name: Any) -> str:
    """Return the name that an id was made of.

    Args:
        entityid: of a schemagroup or schema.
        name: the attribute; it counts only if the id is made of it, since it may be any text.
    """
    return name if isinstance(name, str) and entityid in ids_of_name(name) else entityid


def may_have_name(entityid: str) -> bool:
    """Return whether an id may be made of another name."""
    return "~" in entityid or entityid.startswith("_")


def number_of(text: str | None) -> int | None:
    """Return the id or the version that a text is, from 1 to 2^31-1; None: it is none."""
    return int(text) if text is not None and _NUMBER.fullmatch(text) and int(text) < 1 << 31 else None


def kind_of_format(format: Any, document: Any) -> str | None:
    """Return the kind of schema that a format is; None: schema registries have none for it."""
    return _FAMILIES.get(family_of_format(format if isinstance(format, str) else "", document))


def format_of_kind(kind: str, schema: str) -> str:
    """Return the format of a schema; that of a Protobuf schema is in its text, and proto2 where it is not."""
    if kind == PROTOBUF:
        syntax = _SYNTAX.search(schema)
        return f"Protobuf/{syntax[1] if syntax else '2'}"
    return schema_format(_kinds(), kind, schema_document(kind, schema))


def schema_document(kind: str, schema: str) -> Any:
    """Return a schema in normal form; one that does not parse is its text, of which rule COMP-003 reports it."""
    document = document_of(schema.encode("utf-8", "surrogatepass"), "text/plain" if kind == PROTOBUF else None)
    return schema if document is None else document


@cache
def _kinds() -> dict[str, dict[str, str]]:
    return {row["format"].upper(): row for row in rows("schematype")}
