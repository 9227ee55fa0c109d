"""The table `cncf_catalog.csv`, and the types in it: each brings a value of the draft into normal form, or reports what is wrong.

Of a document of the CNCF Message and Event Catalog draft, section 3.1 (attribute value templates, data schemas): its attributes,
and the sections of a definition.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from lakehouse.dialects.coercions import kind_of
from lakehouse.text.csvtables import read_table
from lakehouse.text.jsontext import below
from lakehouse.text.names import Pointer
from lakehouse.text.timestamps import microseconds
from lakehouse.text.values import is_base64, is_whole, path_of_uri

ID = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=@]|%[0-9A-Fa-f]{2})+")
URI = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|[^\x00-\x7f]|%[0-9A-Fa-f]{2})+")
_URI_REFERENCE = re.compile(r"(?:[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=]|[^\x00-\x7f]|%[0-9A-Fa-f]{2})+")
_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z{}-]+(?:\s*;.*)?")
_NAME = r"[A-Za-z0-9_.%\-]+(?::[1-9][0-9]{0,3}|\*)?"
EXPRESSION = re.compile(rf"\{{[+#./;?&|!=,@]?{_NAME}(?:,{_NAME})*\}}")
_DRAFT = re.compile(r"draft-0[0-9]|20[0-9]{2}-[0-9]{2}")
_MEMBERS_OF_TEMPLATE = {"required": (bool, "true or false", "CAT-087"), "description": (str, "a string", "CAT-088")}
_OF_SCHEMA = ("dataschema", "dataschemaformat", "dataschemauri")  # attributes that a data schema becomes
_KINDS = {dict: "an object", list: "an array", str: "a string", bool: "true or false", int: "an integer"}


class Draft(Protocol):
    """Receives the findings of a document of the draft."""

    types: dict[str, str]

    def error(self, pointer: Pointer, rule: str, message: str, hint: str) -> None:
        """Report an error of the entity at the pointer."""

    def leave_out(self, pointer: Pointer, rule: str, message: str, hint: str) -> None:
        """Report an error that removes no entity: a word for people is left out, and its entity kept."""

    def report(self, pointer: Pointer, rule: str, severity: str, message: str, hint: str) -> None:
        """Report something that removes no entity."""


def draft_table() -> list[dict[str, str]]:
    """Return `cncf_catalog.csv`: one dict a row."""
    return read_table("lakehouse.dialects.draft", "cncf_catalog")


@cache
def rows(level: str) -> list[dict[str, str]]:
    """Read the rows of a level of `cncf_catalog.csv`."""
    return [row for row in draft_table() if row["level"] == level]


@cache
def formats() -> dict[str, dict[str, str]]:
    """Return the formats of the draft by name."""
    return {row["format"]: row for row in rows("format")}


@cache
def sections_of(own_format: str) -> list[dict[str, str]]:
    """Return the rows of the sections of a format."""
    return [row for row in rows("section") if row["format"] == own_format]


@cache
def names_of_sections(own_format: str) -> tuple[str, ...]:
    """Return the names of a Version's attributes that a definition of a format, and its sections, become; sorted."""
    names = {formats()[own_format]["normal"], *_OF_SCHEMA}
    return tuple(sorted(names | {row["normal"].split("/")[0] for row in sections_of(own_format) if row["normal"]}))


# Attributes


def _text(
    draft: Draft, row: dict[str, str], value: Any, written: dict[str, Any], normal: dict[str, Any], pointer: Pointer
) -> None:
    if isinstance(value, str):
        normal[row["normal"]] = value
    else:
        message = f"`{row['path']}` is {kind_of(value)} and must be a string; it is left out"
        draft.leave_out(below(pointer, row["path"]), row["rule"], message, "Write a string.")


def _documentation(
    draft: Draft, row: dict[str, str], value: Any, written: dict[str, Any], normal: dict[str, Any], pointer: Pointer
) -> None:
    """Convert `documentation`: a URL is the registry's, a text goes into `documentationtext` (CAT-029)."""
    if not isinstance(value, str):
        _text(draft, row, value, written, normal, pointer)
    elif written.get("documentationformat", "URL") == "URL" and URI.fullmatch(value):
        normal["documentation"] = value
    else:
        normal["documentationtext"] = value


def _documentation_format(
    draft: Draft, row: dict[str, str], value: Any, written: dict[str, Any], normal: dict[str, Any], pointer: Pointer
) -> None:
    _text(draft, row, value, written, normal, pointer)
    if isinstance(value, str) and value not in ("HTML", "Markdown", "URL"):
        message = f"`documentationformat` is {value!r}; well known are HTML, Markdown and URL"
        draft.report(below(pointer, "documentationformat"), "CAT-030", "warning", message, "Correct it if it is misspelt.")
    if value == "URL" and URI.fullmatch(str(written.get("documentation"))):
        del normal["documentationformat"]


def _tags(
    draft: Draft, row: dict[str, str], value: Any, written: dict[str, Any], normal: dict[str, Any], pointer: Pointer
) -> None:
    if isinstance(value, str):
        normal["labels"] = {tag.strip(): "" for tag in value.split(",") if tag.strip()}
    else:
        _text(draft, row, value, written, normal, pointer)


def _timestamp(
    draft: Draft, row: dict[str, str], value: Any, written: dict[str, Any], normal: dict[str, Any], pointer: Pointer
) -> None:
    try:
        microseconds(value)
        normal[row["normal"]] = value
    except (TypeError, ValueError):
        message = f"`{row['path']}` is {kind_of(value)} and must be a timestamp (RFC 3339)"
        draft.error(below(pointer, row["path"]), row["rule"], message, "Write it as 2024-12-31T23:59:59Z.")


_Attribute = Callable[[Draft, dict[str, str], Any, dict[str, Any], dict[str, Any], Pointer], None]
ATTRIBUTES: dict[str, _Attribute] = {
    "text": _text,
    "documentation": _documentation,
    "documentationformat": _documentation_format,
    "tags": _tags,
    "timestamp": _timestamp,
}


# Members of sections: each gives a declaration or a value, or None when it is rejected or means nothing.


def _template(
    draft: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], pointer: Pointer
) -> dict[str, Any] | None:
    """Convert an attribute value template (3.1.1): a text with placeholders is a uritemplate, an empty one allows anything."""
    if not isinstance(value, dict):
        message = f"it is {kind_of(value)} and must be an object with `value`"
        draft.error(pointer, row["rule"], message, 'Write {"value": ...}.')
        return None
    declaration = {name: member for name, member in value.items() if member is not None}
    for name, (kind, wanted, rule) in _MEMBERS_OF_TEMPLATE.items():
        if name in declaration and not isinstance(declaration[name], kind):
            message = f"`{name}` is {kind_of(declaration[name])} and must be {wanted}"
            draft.error(below(pointer, name), rule, message, f"Write {wanted}.")
    if "value" in value and value["value"] is None:
        return None  # as if it were not listed (CAT-084)
    if "value" not in value:
        draft.report(
            pointer, "CAT-085", "warning", "it has no `value`, so any content is allowed", "Write one; empty allows anything."
        )
        return declaration
    text = declaration.pop("value")
    if not isinstance(text, str):
        draft.error(below(pointer, "value"), "CAT-082", f"`value` is {kind_of(text)} and must be a string", "Write a string.")
        return None
    if not text:
        return declaration
    return _declared(draft, row, argument, text, below(pointer, "value")) | declaration


def _declared(draft: Draft, row: dict[str, str], argument: str, text: str, pointer: Pointer) -> dict[str, Any]:
    """Declare a value that is written as text."""
    rest = EXPRESSION.sub("", text)
    if "{" in rest or "}" in rest:
        draft.error(pointer, "CAT-086", f"{text!r} is not a URI template (RFC 6570)", "Close the braces, and put a name in them.")
    if EXPRESSION.search(text):
        plain = EXPRESSION.sub(lambda expression: expression.group().replace("-", "_"), text)  # requirements.md 12
        return {"type": "uritemplate", "value": plain}
    if argument and not is_draft_value(argument, text):
        draft.error(pointer, row["rule"], f"{text!r} is not a value of `{row['path'].split('/')[1]}`", "Fix it.")
    return {"value": int(text) if argument == "integer" and is_whole(text) else text}


def is_draft_value(argument: str, text: str) -> bool:
    """Return whether a text is a value of a member that `argument` describes: a kind, or a regular expression."""
    if argument == "media":
        return _MEDIA_TYPE.fullmatch(text) is not None
    if argument == "integer":
        return is_whole(text)
    if argument == "binary":
        return is_base64(text)
    if argument == "timestamp":
        try:
            microseconds(text)
        except ValueError:
            return False
        return True
    return re.fullmatch(argument, text) is not None


def _bare(kind: type, wanted: str) -> _Member:
    """Convert a member that is a plain value, or a template of one."""

    def convert_bare(
        draft: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], pointer: Pointer
    ) -> Any:
        content = value.get("value") if isinstance(value, dict) else value
        rest = {name: member for name, member in value.items() if name != "value"} if isinstance(value, dict) else {}
        if content is None:
            return None if value is None or "value" in value else rest
        fits = isinstance(content, kind) and not (kind is int and isinstance(content, bool))
        if fits and isinstance(content, str):
            return _declared(draft, row, argument, content, pointer) | rest if content else rest
        if not fits or (argument and not re.fullmatch(argument, str(content))):
            message = f"it is {kind_of(content)} and must be {argument.replace('|', ' or ') or wanted}"
            draft.error(pointer, row["rule"], message, f"Write {wanted}.")
            return None
        return {"value": content} | rest

    return convert_bare


def _binary(draft: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], pointer: Pointer) -> Any:
    return _bare(str, "base64 text")(draft, row, "binary", value, version, pointer)


def _allowed_value(
    draft: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], pointer: Pointer
) -> Any:
    allowed = argument.removeprefix("of ")
    if not isinstance(value, str) or not re.fullmatch(allowed, value):
        names = allowed.replace("|", ", ").replace("\\", "")
        draft.error(pointer, row["rule"], f"it is {kind_of(value)} and must be one of {names}", f"Write one of {names}.")
        return None
    return value


def _runtime(draft: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], pointer: Pointer) -> Any:
    """Keep what is state of a running system and no part of a definition of the draft (requirements.md 42)."""
    message = "it is state of a running node, and no part of a definition"
    draft.report(pointer, row["rule"], "warning", message, "Leave it out.")
    return value if isinstance(value, dict) else {"value": value}


def _dataschema(draft: Draft, row: dict[str, str], argument: str, value: Any, version: dict[str, Any], pointer: Pointer) -> Any:
    """Convert a data schema (3.1.2) into dataschemauri, dataschema and dataschemaformat of the message."""
    if not isinstance(value, dict):
        message = f"`dataschema` is {kind_of(value)} and must be an object"
        draft.error(pointer, "CAT-089", message, "Write an object with value, schematype, schema.")
        return None
    uri, kind, schema = (value.get(name) for name in ("value", "schematype", "schema"))
    if uri is not None:
        if not isinstance(uri, str) or not _URI_REFERENCE.fullmatch(EXPRESSION.sub("x", uri)):
            draft.error(below(pointer, "value"), row["rule"], f"{uri!r} is not a URI", "Write a URI.")
        else:
            version["dataschemauri"] = uri
    if schema is not None:
        version["dataschema"] = schema
    kinds = {row["format"]: row for row in rows("schematype")}
    if kind is not None and not isinstance(kind, str):
        draft.error(
            below(pointer, "schematype"), "CAT-092", f"`schematype` is {kind_of(kind)} and must be a string", "Write a string."
        )
    elif kind is not None:
        version["dataschemaformat"] = schema_format(kinds, kind, schema)
        _check_schema(draft, kinds.get(kind), schema, below(pointer, "schema"))
    else:
        _infer_format(draft, kinds, uri, schema, version, pointer)
    return {name: member for name, member in value.items() if name not in ("value", "schematype", "schema")} or None


def schema_format(kinds: dict[str, dict[str, str]], kind: str, schema: Any) -> str:
    """Write a kind of schema with its version; that of a JSON Schema is in the schema itself."""
    if kind not in kinds:
        return kind
    normal = kinds[kind]["normal"]
    draft = _DRAFT.search(str(schema.get("$schema", ""))) if isinstance(schema, dict) else None
    return f"{normal.split('/')[0]}/{draft.group()}" if kind == "JSON" and draft else normal


def _check_schema(draft: Draft, kind: dict[str, str] | None, schema: Any, pointer: Pointer) -> None:
    if schema is None:
        return
    if not isinstance(schema, str | dict) or (kind and kind["type"] == "string" and not isinstance(schema, str)):
        draft.error(
            pointer, "CAT-098", f"the schema is {kind_of(schema)} and must be a string", "Write the document as a string."
        )
    if kind and not isinstance(schema, {"string": str, "object": dict}[kind["type"]]):
        message = f"a schema of type {kind['format']} is written as {'text' if kind['type'] == 'string' else 'an object'}"
        draft.report(
            pointer,
            kind["rule"],
            "warning",
            message,
            f"Write {_KINDS[{'string': str, 'object': dict}[kind['type']]]}.",
        )


def _infer_format(
    draft: Draft, kinds: dict[str, dict[str, str]], uri: Any, schema: Any, version: dict[str, Any], pointer: Pointer
) -> None:
    """Infer the format of a schema from its document, or from the suffix of its URI (CAT-091)."""
    by_suffix = [kind for kind, row in kinds.items() if isinstance(uri, str) and path_of_uri(uri).endswith(row["path"])]
    guess = (
        "JSON" if isinstance(schema, dict) and "json-schema.org" in str(schema.get("$schema")) else next(iter(by_suffix), None)
    )
    if guess is not None:
        version["dataschemaformat"] = schema_format(kinds, guess, schema)
        message = f"no `schematype`; {version['dataschemaformat']} is a guess from the schema or the suffix of its URI"
        draft.report(pointer, "CAT-091", "info", message, "Write `schematype`.")


_Member = Callable[[Draft, dict[str, str], str, Any, dict[str, Any], Pointer], Any]
MEMBERS: dict[str, _Member] = {
    "template": _template,
    "string": _bare(str, "a string"),
    "boolean": _bare(bool, "true or false"),
    "integer": _bare(int, "an integer"),
    "binary": _binary,
    "one": _allowed_value,
    "runtime": _runtime,
    "dataschema": _dataschema,
}


# What a format asks of a whole definition


def _check_cloudevents(draft: Draft, sections: dict[str, Any], version: dict[str, Any], name: str, pointer: Pointer) -> None:
    metadata = version.get("envelopemetadata", {})
    declared = metadata.get("type")
    value = declared.get("value") if isinstance(declared, dict) else None
    where = below(pointer, "definition", "attributes")
    if not isinstance(value, str) or not value:
        draft.error(where, "CAT-102", "no `type` with a value is declared", "Declare the type of the event.")
    elif value != name:
        message = f"the `id` is {name!r}, and the declared `type` is {value!r}"
        draft.error(below(where, "type"), "CAT-103", message, "Make the two equal.")
    if isinstance(value, str) and draft.types.setdefault(value, name) != name:
        message = f"the definition {draft.types[value]!r} has the type {value!r} too"
        draft.error(below(where, "type"), "CAT-007", message, "One type, one definition.")
    has_schema = "dataschema" in version or "dataschemauri" in version
    if has_schema and "datacontenttype" not in metadata:
        draft.report(where, "CAT-104", "warning", "the event has data, and no `datacontenttype` is declared", "Declare it.")
    if "datacontenttype" in metadata and not has_schema:
        draft.report(where, "CAT-106", "warning", "the event has data, and no `dataschema` is declared", "Declare it.")


def _check_mqtt(draft: Draft, sections: dict[str, Any], version: dict[str, Any], name: str, pointer: Pointer) -> None:
    """Convert user properties to a list, as in normal form (CAT-148)."""
    options = version.get("protocoloptions", {})
    if "user_properties" in options:
        options["user_properties"] = [{"name": key} | item for key, item in options["user_properties"].items()]


CHECKS: dict[str, Callable[[Draft, dict[str, Any], dict[str, Any], str, Pointer], None]] = {
    "CloudEvents": _check_cloudevents,
    "MQTT": _check_mqtt,
}


def translated(pointer: Pointer, pointers: dict[Pointer, Pointer]) -> Pointer:
    """Return a pointer into the document as written for one into the converted document."""
    prefix = pointer
    while prefix not in pointers:
        if not prefix:
            return pointer
        prefix = Pointer(prefix.rpartition("/")[0])
    return Pointer(pointers[prefix] + pointer[len(prefix) :])


def read_sections(
    draft: Draft,
    own_format: str,
    sections: dict[str, Any],
    version: dict[str, Any],
    pointer: Pointer,
    pointers: dict[Pointer, Pointer],
) -> None:
    """Read the sections of a format into a Version.

    Args:
        draft: receives the findings.
        own_format: one of `formats`.
        sections: the `definition` as written.
        version: the Version, which gets what is read.
        pointer: pointer of the Version in the converted document.
        pointers: gets where each member is written.
    """
    by_path = {row["path"]: row for row in sections_of(own_format)}
    closed = {row["path"]: row["rule"] for row in rows("closed") if row["format"] == own_format}
    for section, members in sections.items():
        place = below(pointer, "definition", section)
        if section not in {path.split("/")[0] for path in by_path}:
            message = f"the format {own_format} has no section `{section}`"
            draft.error(place, "CAT-027", message, "Leave it out, or correct `format`.")
        elif not isinstance(members, dict):
            rule = by_path.get(f"{section}/*", {}).get("rule", "CAT-081")
            if members is not None:
                draft.error(place, rule, f"`{section}` is {kind_of(members)} and must be an object", "Write an object.")
        else:
            for member, value in members.items():
                row = by_path.get(f"{section}/{member}") or by_path.get(f"{section}/*")
                if row is None:
                    rule = closed.get(section, "CAT-027")
                    draft.error(below(place, member), rule, f"`{section}` knows no `{member}`", "Leave it out.")
                elif value is not None:
                    _member(draft, row, member, value, version, (pointer, below(place, member)), pointers)
    _only(draft, own_format, sections, version, pointer)


def _member(
    draft: Draft,
    row: dict[str, str],
    member: str,
    value: Any,
    version: dict[str, Any],
    where: tuple[Pointer, Pointer],
    pointers: dict[Pointer, Pointer],
) -> None:
    """Read a member of a section; where: pointers of the Version, and of the member in the converted document."""
    pointer, place = where
    if row["names"] and not re.fullmatch(row["names"], member):
        message = f"{member!r} is not a name of `{row['path'].split('/')[0]}`"
        draft.error(place, row["rule"], message, "Rename it.")
    kind, _, argument = row["type"].partition(" ")
    normal = MEMBERS[kind](draft, row, argument, value, version, place)
    if normal is None or not row["normal"]:
        return
    *holders, last = row["normal"].split("/")
    last = member if last == "*" else last
    if row["normal"] == "protocol":
        version["protocol"] = f"MQTT/{normal}"
        return
    target = version
    for token in holders:
        target = target.setdefault(token, {})
    target[last] = normal
    pointers[below(pointer, *holders, last)] = translated(place, pointers)


def _only(draft: Draft, own_format: str, sections: dict[str, Any], version: dict[str, Any], pointer: Pointer) -> None:
    """Refuse members that the version of the protocol does not know (MQTT 3.1.1)."""
    for row in sections_of(own_format):
        section, member = row["path"].split("/")
        members = sections.get(section)
        if not row["only"] or row["only"] == version.get("protocol") or not isinstance(members, dict):
            continue
        for name in members if member == "*" else {member} & members.keys():
            message = f"`{name}` is of {row['only']} only, and this is {version.get('protocol')}"
            draft.error(below(pointer, "definition", section, name), row["rule"], message, "Leave it out.")
