"""Names of the fields of a payload, for search: read from the text of its schema alone, whatever its format.

The pages list fields with types (`lakehouse.site.fields`), for which they need the libraries of each format. Search needs
only names, of every message, whenever a file is built: a definition that a schema refers to is listed by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

import orjson

from lakehouse.domain.references import schema_places
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of_version

_MOST = 1_000  # fields of one schema
_DEEPEST = 24
_LONGEST = 400_000  # characters of a schema
_MEMBERS = ("properties", "patternProperties")  # of JSON Schema and JSON Structure: name to schema
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PROTOBUF = re.compile(r"(?:^|[;{}])\s*(?:repeated\s+|optional\s+|required\s+)?(?:map\s*<[^>]*>|[\w.]+)\s+(\w+)\s*=\s*\d+")
_XML = re.compile(r"<(?:[\w.-]+:)?(?:element|attribute)\b[^>]*?\bname\s*=\s*[\"']([^\"']+)[\"']")


def field_paths(schema: Any) -> list[str]:
    """Return the names of fields, with dots after those that each is within; each once, in their order.

    Args:
        schema: a JSON value (JSON Schema, JSON Structure, Avro), or a text, which may be JSON, Protobuf or XML.
    """
    if isinstance(schema, str):
        if len(schema) > _LONGEST:
            return []
        try:
            schema = orjson.loads(schema)
        except orjson.JSONDecodeError:
            is_xml = schema.lstrip().startswith("<")
            names = _XML.findall(schema) if is_xml else _PROTOBUF.findall(_COMMENT.sub(" ", schema))
            return list(dict.fromkeys(names))[:_MOST]
    return list(islice(dict.fromkeys(_paths(schema, "", 0)), _MOST))


def _paths(value: Any, within: str, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for one in value:
            yield from _paths(one, within, depth + 1)
    if not isinstance(value, dict):
        return
    for key, below in value.items():
        if key in _MEMBERS and isinstance(below, dict):
            for name, member in below.items():
                yield f"{within}{name}"
                yield from _paths(member, f"{within}{name}.", depth + 1)
        elif key == "fields" and isinstance(below, list):  # of a record of Avro
            for member in below:
                if isinstance(member, dict) and isinstance(member.get("name"), str):
                    yield f"{within}{member['name']}"
                    yield from _paths(member.get("type"), f"{within}{member['name']}.", depth + 1)
        elif key in ("definitions", "$defs"):
            yield from (path for member in _members(below) for path in _paths(member, "", depth + 1))
        elif key not in ("enum", "const", "default", "examples", "required"):
            yield from _paths(below, within, depth + 1)


def _members(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else []


def payload_fields(definition: Mapping[str, Any], body_of: Callable[[str, Xid], Mapping[str, Any] | None]) -> list[str]:
    """Return the names of the fields of a message's payload; none where its schema is not in the catalog.

    Args:
        definition: of a message, `schema_xid`, `dataschemauri` and `attributes` (JSON Pointer to JSON text).
        body_of: returns the body of an entity by kind and XID; None: there is no such entity.
    """
    inline = (definition["attributes"] or {}).get("/dataschema")
    if inline is not None:
        return field_paths(orjson.loads(inline))
    for place in schema_places(definition["dataschemauri"] or definition["schema_xid"] or ""):
        schema = body_of("schema", place.schema)
        default = None if schema is None else xid_of_version(place.schema, schema.get("defaultversionid"))
        version = place.version or default
        body = None if version is None else body_of("schemaversion", version)
        if body is not None and "schema" in body:
            return field_paths(body["schema"])
    return []
