"""The Version of a schema that a reference leads to: the look-up of pages, search, examples and exports.

A reference to a schema means its default Version, `…/versions/v` that one and no other; an alias (`xref`) has the Versions of the
schema that it stands for (MSG-096).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lakehouse.domain.bases import FindAttributes, definition_of
from lakehouse.domain.references import SchemaPlace, schema_places
from lakehouse.text.jsontext import object_at, objects_at, text_at
from lakehouse.text.names import Xid
from lakehouse.text.xid import last_id, split_version, xid_of_version


class StoredSchema(NamedTuple):
    """A Version of a schema in a registry document: its XID, its attributes, and the place in it that a reference names."""

    xid: Xid
    attributes: dict[str, Any]
    place: SchemaPlace


def version_at(place: SchemaPlace, find: FindAttributes) -> Xid | None:
    """Return the Version that a reference means, which may be missing; None: there is no schema, or none with a definition.

    Args:
        place: where the reference leads.
        find: gives the attributes of a schema, `xref` and `defaultversionid` among them; None: it is not there.
    """
    result = definition_of(place.schema, find)
    versionid = None if result is None else last_id(place.version) if place.version else result[1].get("defaultversionid")
    return None if result is None or versionid is None else xid_of_version(result[0], versionid)


def shown_schema(registry: dict[str, Any], xid: Xid) -> dict[str, Any] | None:
    """Return the schema of a registry document that an XID shows: itself, or what its `xref` names; None: there is none."""
    result = definition_of(xid, lambda schema: _attributes(registry, schema))
    return None if result is None else _schema(registry, result[0])


def stored_schema(registry: dict[str, Any], place: SchemaPlace) -> StoredSchema | None:
    """Return the Version of a schema of a registry document that a reference means; None: the document does not hold it."""
    version = version_at(place, lambda schema: _attributes(registry, schema))
    if version is None:
        return None
    xid, versionid = split_version(version)
    schema = _schema(registry, xid) or {}
    attributes = objects_at(schema, "versions").get(str(versionid))
    if attributes is None and versionid == schema.get("versionid", versionid):  # it has the default Version alone, in itself
        attributes = schema
    return None if attributes is None else StoredSchema(version, attributes, place)


def first_stored(registry: dict[str, Any], reference: str) -> StoredSchema | None:
    """Return the Version of a schema of a registry document that a reference means, as it is written or without a type."""
    found = (stored_schema(registry, place) for place in schema_places(reference))
    return next((stored for stored in found if stored is not None), None)


def _attributes(registry: dict[str, Any], xid: Xid) -> dict[str, Any] | None:
    schema = _schema(registry, xid)
    if schema is None:
        return None
    return {"xref": text_at(object_at(schema, "meta"), "xref"), "defaultversionid": text_at(schema, "versionid") or "1"}


def _schema(registry: dict[str, Any], xid: Xid) -> dict[str, Any] | None:
    tokens = xid.split("/")
    if len(tokens) != 5:
        return None
    return objects_at(objects_at(registry, "schemagroups").get(tokens[2]), "schemas").get(tokens[4])
