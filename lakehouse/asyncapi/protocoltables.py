"""What AsyncAPI calls protocols, bindings, schema formats and ways to log in, and what xRegistry does."""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from lakehouse.dialects.tables import PROTOCOLS, family_of
from lakehouse.text.csvtables import read_rows

_PACKAGE = "lakehouse.asyncapi"
_OUTSIDE = re.compile(r"[^A-Za-z0-9_.\-]")
_FORMAT_VERSION = re.compile(r";\s*version=\"?([^;\"\s]+)")


class Wire(NamedTuple):
    """A row of `asyncapi_protocols.csv`.

    Attributes:
        normal: family in the normal form, or the protocol's own name.
        scheme: of addresses of endpoints.
        secured: `yes`: by TLS.
        address: option of an endpoint that holds a channel's address.
        own: `yes`: the server is the application itself and no broker, so that roles are those of its peers.
        version: of a protocol that xRegistry does not define, where none is written.
    """

    protocol: str
    normal: str
    scheme: str
    secured: str
    address: str
    own: str
    version: str


class BindingMember(NamedTuple):
    """A row of `asyncapi_bindings.csv`: a member of a binding, and the option that means the same.

    Attributes:
        level: server, operation or message.
        how: of endpoints `plain`, the value itself; `fixed`, a schema of one value; `map`, a schema of texts of one value each.
            Of messages, which declare values: `value`, the value itself; `number`, one whose text is the value; `schema`, either
            the value or its schema.
    """

    binding: str
    level: str
    member: str
    entity: str
    option: str
    how: str


class FamilyNames(NamedTuple):
    """A row of `asyncapi_families.csv`: name of the binding, and options of messages for headers and address."""

    family: str
    binding: str
    headers: str
    declared_address: str


class FormatName(NamedTuple):
    """A row of `asyncapi_formats.csv`: version: the one that is meant without one."""

    media_type: str
    normal: str
    version: str


class LoginName(NamedTuple):
    """A row of `asyncapi_security.csv`: type of a security scheme, and of an endpoint's `authorization`."""

    type: str
    normal: str


WIRES = {row.protocol: row for row in read_rows(_PACKAGE, "asyncapi_protocols", Wire)}
BINDINGS = read_rows(_PACKAGE, "asyncapi_bindings", BindingMember)
FAMILY_NAMES = {row.family: row for row in read_rows(_PACKAGE, "asyncapi_families", FamilyNames)}
FORMATS = {row.media_type: row for row in read_rows(_PACKAGE, "asyncapi_formats", FormatName)}
LOGINS = {row.type: row.normal for row in read_rows(_PACKAGE, "asyncapi_security", LoginName)}


def wire_of(protocol: str, version: str | None) -> Wire:
    """Return the row of a protocol; one that has none is its own name: xRegistry leaves others alone."""
    if protocol in ("amqp", "amqps") and version is not None and version.startswith("1"):
        protocol = f"{protocol}1"
    return WIRES.get(protocol) or Wire(protocol, _OUTSIDE.sub("-", protocol), _OUTSIDE.sub("-", protocol), "", "", "", "")


def normal_protocol(wire: Wire, version: str | None) -> str:
    """Write a protocol as the normal form does, with its version if it has one there."""
    protocol_row = PROTOCOLS.get(wire.normal)
    if protocol_row is None:
        return f"{wire.normal}/{version or wire.version}".rstrip("/")
    if not protocol_row.versions:
        return wire.normal
    versions = protocol_row.versions.split()
    wanted = "5" if wire.protocol == "mqtt5" else version
    fits = [
        full_version for full_version in versions if wanted is not None and full_version.split(".")[0] == wanted.split(".")[0]
    ]
    return f"{wire.normal}/{fits[0] if fits else protocol_row.shorthand or versions[0]}"


@cache
def bindings_of(protocol: str | None, level: str) -> tuple[BindingMember, ...]:
    """Return the members of a protocol's binding that have an option in the normal form: none of messages of MQTT 3.1.1."""
    names = FAMILY_NAMES.get(family_of(protocol) or "")
    has_options = names is not None and (protocol, level) != ("MQTT/3.1.1", "message")
    return tuple(row for row in BINDINGS if has_options and names and (row.binding, row.level) == (names.binding, level))


def format_of(media_type: str | None) -> str:
    """Write a schema format as the normal form does; one that is not known is named by its media type."""
    name = (media_type or "application/vnd.aai.asyncapi").split(";")[0].strip().lower()
    written = _FORMAT_VERSION.search(media_type or "")
    row = FORMATS.get(name)
    if row is None:
        return f"{name.replace('/', '.')}/{written[1] if written else '1'}"
    is_own = "asyncapi" in name  # the version is that of AsyncAPI
    return f"{row.normal}/{written[1] if written and not is_own else row.version}"


def media_type_of(schema_format: str) -> str | None:
    """Write a schema format as AsyncAPI does; None: it is the usual one."""
    name, _, version = schema_format.partition("/")
    if name.lower() == "jsonschema":
        return None if version.lower() == "draft-07" else f"application/schema+json;version={version}"
    row = next((format_row for format_row in FORMATS.values() if format_row.normal.lower() == name.lower()), None)
    if row is not None:
        return f"{row.media_type};version={version}"
    return f"{name.replace('.', '/', 1) if '.' in name else f'application/{name.lower()}'};version={version or '1'}"


def is_json_schema(schema_format: str | None) -> bool:
    """Return whether a format is a JSON Schema, whose references are in `$ref`."""
    return (schema_format or "").lower().startswith("jsonschema/")


def has_references(schema_format: str | None) -> bool:
    """Return whether schemas of a format refer to their parts in `$ref`, as JSON Schema and JSON Structure do."""
    return (schema_format or "").lower().startswith(("jsonschema/", "jsonstructure/"))


def id_word_of(schema_format: str) -> str:
    """Return the keyword for the identifier of a JSON Schema: `id` up to draft 4."""
    return "id" if schema_format.lower().endswith(("/draft-03", "/draft-04")) else "$id"
