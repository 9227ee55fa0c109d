"""The table `cncf_catalog.csv`, and the types in it: each brings a value of the draft into normal form, or tells what is wrong.

Of a document of the CNCF Message and Event Catalog draft, section 3.1 (attribute value templates, data schemas).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol
from urllib.parse import urlsplit

from lakehouse.dialects.coercions import kind_of
from lakehouse.text.csvtables import read_table
from lakehouse.text.jsontext import below
from lakehouse.text.names import Pointer
from lakehouse.text.timestamps import microseconds

ID = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=@]|%[0-9A-Fa-f]{2})+")
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|[^\x00-\x7f]|%[0-9A-Fa-f]{2})+")
_URI_REFERENCE = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|[^\x00-\x7f]|%[0-9A-Fa-f]{2})+")
_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z{}-]+(?:\s*;.*)?")
_NAME = r"[A-Za-z0-9_.%\-]+(?::[1-9][0-9]{0,3}|\*)?"
EXPRESSION = re.compile(rf"\{{[+#./;?&|!=,@]?{_NAME}(?:,{_NAME})*\}}")
_DRAFT = re.compile(r"draft-0[0-9]|20[0-9]{2}-[0-9]{2}")
_MEMBERS_OF_TEMPLATE = {"required": (bool, "true or false", "CAT-087"), "description": (str, "a string", "CAT-088")}
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "true or false", int: "an integer"}


class Draft(Protocol):
    """A document of the draft on its way, which is told what was found in it."""

    types: dict[str, str]

    def error(self, pointer: Pointer, rule: str, message: str, hint: str) -> None:
        """Note an error of the entity at the pointer."""

    def leave_out(self, pointer: Pointer, rule: str, message: str, hint: str) -> None:
        """Note an error that takes out nothing: a word for people is left out, and its entity kept."""

    def tell(self, pointer: Pointer, rule: str, severity: str, message: str, hint: str) -> None:
        """Note something that takes out nothing."""


def draft_table() -> list[dict[str, str]]:
    """Give `cncf_catalog.csv`: one dict a row."""
    return read_table("lakehouse.dialects.draft", "cncf_catalog")


@cache
def rows(level: str) -> list[dict[str, str]]:
    """Read the rows of a level of `cncf_catalog.csv`."""
    return [row for row in draft_table() if row["level"] == level]


@cache
def formats() -> dict[str, dict[str, str]]:
    """Give the formats of the draft by name."""
    return {row["format"]: row for row in rows("format")}


@cache
def sections_of(own_format: str) -> list[dict[str, str]]:
    """Give the rows of the sections of a format."""
    return [row for row in rows("section") if row["format"] == own_format]


# Attributes


def _text(at: Draft, row: dict[str, str], value: Any, written: dict[str, Any], normal: dict[str, Any], here: Pointer) -> None:
    if isinstance(value, str):
        normal[row["normal"]] = value
    else:
        told = f"`{row['path']}` is {kind_of(value)} and must be a string; it is left out"
        at.leave_out(below(here, row["path"]), row["rule"], told, "Write a string.")


def _documentation(
    at: Draft, row: dict[str, str], value: Any, written: dict[str, Any], normal: dict[str, Any], here: Pointer
) -> None:
    """A URL is the documentation of the registry; a text is kept beside (CAT-029)."""
    if not isinstance(value, str):
        _text(at, row, value, written, normal, here)
    elif written.get("documentationformat", "URL") == "URL" and URI.fullmatch(value):
        normal["documentation"] = value
    else:
        normal["documentationtext"] = value


def _documentation_format(
    at: Draft, row: dict[str, str], value: Any, written: dict[str, Any], normal: dict[str, Any], here: Pointer
) -> None:
    _text(at, row, value, written, normal, here)
    if isinstance(value, str) and value not in ("HTML", "Markdown", "URL"):
        told = f"`documentationformat` is {value!r}; well known are HTML, Markdown and URL"
        at.tell(below(here, "documentationformat"), "CAT-030", "warning", told, "Correct it if it is misspelt.")
    if value == "URL" and URI.fullmatch(str(written.get("documentation"))):
        del normal["documentationformat"]


def _tags(at: Draft, row: dict[str, str], value: Any, written: dict[str, Any], normal: dict[str, Any], here: Pointer) -> None:
    if isinstance(value, str):
        normal["labels"] = {tag.strip(): "" for tag in value.split(",") if tag.strip()}
    else:
        _text(at, row, value, written, normal, here)


def _timestamp(
    at: Draft, row: dict[str, str], value: Any, written: dict[str, Any], normal: dict[str, Any], here: Pointer
) -> None:
    try:
        microseconds(value)
        normal[row["normal"]] = value
    except (TypeError, ValueError):
        told = f"`{row['path']}` is {kind_of(value)} and must be a timestamp (RFC 3339)"
        at.error(below(here, row["path"]), row["rule"], told, "Write it as 2024-12-31T23:59:59Z.")


_Attribute = Callable[[Draft, dict[str, str], Any, dict[str, Any], dict[str, Any], Pointer], None]
ATTRIBUTES: dict[str, _Attribute] = {
    "text": _text,
    "documentation": _documentation,
    "documentationformat": _documentation_format,
    "tags": _tags,
    "timestamp": _timestamp,
}


# Members of sections: each gives a declaration or a value, or None when it is refused or stands for nothing.


def _template(
    at: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], here: Pointer
) -> dict[str, Any] | None:
    """Convert an attribute value template (3.1.1): a text with placeholders is a uritemplate, an empty one allows anything."""
    if not isinstance(value, dict):
        told = f"it is {kind_of(value)} and must be an object with `value`"
        at.error(here, row["rule"], told, 'Write {"value": ...}.')
        return None
    declaration = {name: member for name, member in value.items() if member is not None}
    for name, (kind, wanted, rule) in _MEMBERS_OF_TEMPLATE.items():
        if name in declaration and not isinstance(declaration[name], kind):
            told = f"`{name}` is {kind_of(declaration[name])} and must be {wanted}"
            at.error(below(here, name), rule, told, f"Write {wanted}.")
    if "value" in value and value["value"] is None:
        return None  # as if it were not listed (CAT-084)
    if "value" not in value:
        at.tell(here, "CAT-085", "warning", "it has no `value`, so any content is allowed", "Write one; empty allows anything.")
        return declaration
    text = declaration.pop("value")
    if not isinstance(text, str):
        at.error(below(here, "value"), "CAT-082", f"`value` is {kind_of(text)} and must be a string", "Write a string.")
        return None
    if not text:
        return declaration
    return _declared(at, row, argument, text, below(here, "value")) | declaration


def _declared(at: Draft, row: dict[str, str], argument: str, text: str, here: Pointer) -> dict[str, Any]:
    """Declare a value that is written as text."""
    rest = EXPRESSION.sub("", text)
    if "{" in rest or "}" in rest:
        at.error(here, "CAT-086", f"{text!r} is not a URI template (RFC 6570)", "Close the braces, and put a name in them.")
    if EXPRESSION.search(text):
        plain = EXPRESSION.sub(lambda found: found.group().replace("-", "_"), text)  # requirements.md 12
        return {"type": "uritemplate", "value": plain}
    if argument and not _fits(argument, text):
        at.error(here, row["rule"], f"{text!r} is not a value of `{row['path'].split('/')[1]}`", "Fix it.")
    return {"value": int(text) if argument == "integer" and text.isdigit() else text}


def _fits(argument: str, text: str) -> bool:
    if argument == "media":
        return _MEDIA_TYPE.fullmatch(text) is not None
    if argument == "integer":
        return text.isdigit()
    if argument == "binary":
        return _is_base64(text)
    if argument == "timestamp":
        try:
            microseconds(text)
        except ValueError:
            return False
        return True
    return re.fullmatch(argument, text) is not None


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except binascii.Error:
        return False
    return True


def _bare(kind: type, wanted: str) -> _Member:
    """Convert a member that is a plain value, or a template of one."""

    def convert_bare(at: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], here: Pointer) -> Any:
        given = value.get("value") if isinstance(value, dict) else value
        rest = {name: member for name, member in value.items() if name != "value"} if isinstance(value, dict) else {}
        if given is None:
            return None if value is None or "value" in value else rest
        fits = isinstance(given, kind) and not (kind is int and isinstance(given, bool))
        if fits and isinstance(given, str):
            return _declared(at, row, argument, given, here) | rest if given else rest
        if not fits or (argument and not re.fullmatch(argument, str(given))):
            told = f"it is {kind_of(given)} and must be {argument.replace('|', ' or ') or wanted}"
            at.error(here, row["rule"], told, f"Write {wanted}.")
            return None
        return {"value": given} | rest

    return convert_bare


def _binary(at: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], here: Pointer) -> Any:
    return _bare(str, "base64 text")(at, row, "binary", value, version, here)


def _one_of(at: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], here: Pointer) -> Any:
    allowed = argument.removeprefix("of ")
    if not isinstance(value, str) or not re.fullmatch(allowed, value):
        names = allowed.replace("|", ", ").replace("\\", "")
        at.error(here, row["rule"], f"it is {kind_of(value)} and must be one of {names}", f"Write one of {names}.")
        return None
    return value


def _runtime(at: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], here: Pointer) -> Any:
    """Keep what is state of a running system and no part of a definition of the draft (requirements.md 42)."""
    told = "it is state of a running node, and no part of a definition"
    at.tell(here, row["rule"], "warning", told, "Leave it out.")
    return value if isinstance(value, dict) else {"value": value}


def _dataschema(at: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], here: Pointer) -> Any:
    """Convert a data schema (3.1.2) into dataschemauri, dataschema and dataschemaformat of the message."""
    if not isinstance(value, dict):
        told = f"`dataschema` is {kind_of(value)} and must be an object"
        at.error(here, "CAT-089", told, "Write an object with value, schematype, schema.")
        return None
    uri, kind, schema = (value.get(name) for name in ("value", "schematype", "schema"))
    if uri is not None:
        if not isinstance(uri, str) or not _URI_REFERENCE.fullmatch(EXPRESSION.sub("x", uri)):
            at.error(below(here, "value"), row["rule"], f"{uri!r} is not a URI", "Write a URI.")
        else:
            version["dataschemauri"] = uri
    if schema is not None:
        version["dataschema"] = schema
    known = {one["format"]: one for one in rows("schematype")}
    if kind is not None and not isinstance(kind, str):
        at.error(below(here, "schematype"), "CAT-092", f"`schematype` is {kind_of(kind)} and must be a string", "Write a string.")
    elif kind is not None:
        version["dataschemaformat"] = schema_format(known, kind, schema)
        _check_schema(at, known.get(kind), schema, below(here, "schema"))
    else:
        _infer_format(at, known, uri, schema, version, here)
    return {name: member for name, member in value.items() if name not in ("value", "schematype", "schema")} or None


def schema_format(known: dict[str, dict[str, str]], kind: str, schema: Any) -> str:
    """Write a kind of schema with its version; that of a JSON Schema stands in the schema itself."""
    if kind not in known:
        return kind
    normal = known[kind]["normal"]
    draft = _DRAFT.search(str(schema.get("$schema", ""))) if isinstance(schema, dict) else None
    return f"{normal.split('/')[0]}/{draft.group()}" if kind == "JSON" and draft else normal


def _check_schema(at: Draft, known: dict[str, str] | None, schema: Any, here: Pointer) -> None:
    if schema is None:
        return
    if not isinstance(schema, str | dict) or (known and known["type"] == "string" and not isinstance(schema, str)):
        at.error(here, "CAT-098", f"the schema is {kind_of(schema)} and must be a string", "Write the document as a string.")
    if known and not isinstance(schema, {"string": str, "object": dict}[known["type"]]):
        told = f"a schema of type {known['format']} is written as {'text' if known['type'] == 'string' else 'an object'}"
        at.tell(here, known["rule"], "warning", told, f"Write {_KINDS[{'string': str, 'object': dict}[known['type']]]}.")


def _infer_format(
    at: Draft, known: dict[str, dict[str, str]], uri: Any, schema: Any, version: dict[str, Any], here: Pointer
) -> None:
    """Guess the kind of a schema from its document, or from the suffix of its URI (CAT-091)."""
    by_suffix = [kind for kind, row in known.items() if isinstance(uri, str) and urlsplit(uri).path.endswith(row["path"])]
    guess = (
        "JSON" if isinstance(schema, dict) and "json-schema.org" in str(schema.get("$schema")) else next(iter(by_suffix), None)
    )
    if guess is not None:
        version["dataschemaformat"] = schema_format(known, guess, schema)
        told = f"no `schematype`; {version['dataschemaformat']} is a guess from the schema or the suffix of its URI"
        at.tell(here, "CAT-091", "info", told, "Write `schematype`.")


_Member = Callable[[Draft, dict[str, str], str, Any, dict[str, Any], Pointer], Any]
MEMBERS: dict[str, _Member] = {
    "template": _template,
    "string": _bare(str, "a string"),
    "boolean": _bare(bool, "true or false"),
    "integer": _bare(int, "an integer"),
    "binary": _binary,
    "one": _one_of,
    "runtime": _runtime,
    "dataschema": _dataschema,
}


# What a format asks of a whole definition


def _check_cloudevents(at: Draft, sections: dict[str, Any], version: dict[str, Any], name: str, here: Pointer) -> None:
    metadata = version.get("envelopemetadata", {})
    declared = metadata.get("type")
    value = declared.get("value") if isinstance(declared, dict) else None
    where = below(here, "definition", "attributes")
    if not isinstance(value, str) or not value:
        at.error(where, "CAT-102", "no `type` with a value is declared", "Declare the type of the event.")
    elif value != name:
        told = f"the `id` is {name!r}, and the declared `type` is {value!r}"
        at.error(below(where, "type"), "CAT-103", told, "Make the two equal.")
    if isinstance(value, str) and at.types.setdefault(value, name) != name:
        told = f"the definition {at.types[value]!r} has the type {value!r} too"
        at.error(below(where, "type"), "CAT-007", told, "One type, one definition.")
    has_schema = "dataschema" in version or "dataschemauri" in version
    if has_schema and "datacontenttype" not in metadata:
        at.tell(where, "CAT-104", "warning", "the event has data, and no `datacontenttype` is declared", "Declare it.")
    if "datacontenttype" in metadata and not has_schema:
        at.tell(where, "CAT-106", "warning", "the event has data, and no `dataschema` is declared", "Declare it.")


def _check_mqtt(at: Draft, sections: dict[str, Any], version: dict[str, Any], name: str, here: Pointer) -> None:
    """User properties are a list in the normal form (CAT-148)."""
    options = version.get("protocoloptions", {})
    if "user_properties" in options:
        options["user_properties"] = [{"name": key} | one for key, one in options["user_properties"].items()]


CHECKS: dict[str, Callable[[Draft, dict[str, Any], dict[str, Any], str, Pointer], None]] = {
    "CloudEvents": _check_cloudevents,
    "MQTT": _check_mqtt,
}
