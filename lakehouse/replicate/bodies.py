"""What is sent of an entity, and whether the target has it already."""

from __future__ import annotations

from lakehouse.dialects.layouts import to_dialect
from lakehouse.dialects.respell import COLLECTIONS as SINGULAR
from lakehouse.dialects.tables import family_of
from lakehouse.export.view import Urls, group_view, resource_view
from lakehouse.readmodel import View
from lakehouse.readmodel.render import stored
from lakehouse.replicate.screen import Json, bare_group, bare_resource
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import xid_of_group

_NOT_SENT = ("epoch", "xid", "isdefault", "readonly")  # they are the target's
_DATES = ("createdat", "modifiedat")  # the target's own where it was written later


def body_of(view: View, registryid: RegistryId, xid: Xid, dialect: str) -> Json:
    """Give an entity as it is sent: without what a server computes, and without epochs, which are the target's own."""
    collection = xid.split("/")[1]
    row = view.entity(registryid, xid)
    if xid.count("/") == 2:
        written, _ = to_dialect(group_view(xid, None if row is None else stored(row), Urls()), dialect, SINGULAR[collection])
        return {name: value for name, value in bare_group(written).items() if name not in _NOT_SENT}
    group = view.entity(registryid, xid_of_group(xid))
    protocol = group.attributes.get("protocol") if group is not None and group.kind == "group" else None
    versions = [stored(one) for one in view.versions(registryid, xid)]
    found = resource_view(xid, None if row is None else stored(row), versions, None, Urls(), bare=False)
    slim = {name: value for name, value in found.items() if name in ("protocol", "meta", "versions")}
    written, _ = to_dialect(slim, dialect, SINGULAR[xid.split("/")[3]], family_of(protocol))
    bare = bare_resource(written)
    bare["meta"] = {name: value for name, value in bare.get("meta", {}).items() if name not in _NOT_SENT}
    bare["versions"] = {key: _version_of(one) for key, one in bare.get("versions", {}).items()}
    return bare


def _version_of(version: Json) -> Json:
    named = {"schemauri": "schemaurl"}  # as the API spells it
    found = {named.get(name, name): value for name, value in version.items() if name not in _NOT_SENT}
    if isinstance(found.get("schema"), (dict, list)):  # a server sets it where a client does not (core, `<RESOURCE>` attribute)
        found.setdefault("contenttype", "application/json")
    return found


def meta_of(meta: Json) -> Json:
    """Give the meta object: a default Version that nobody chose is the newest, which the target finds itself."""
    if meta.get("defaultversionsticky"):
        return meta
    return {name: value for name, value in meta.items() if name not in ("defaultversionid", "defaultversionsticky")}


def is_held_group(found: Json, body: Json) -> bool:
    """Tell whether a group of a target is what would be sent; who wrote it last, and when, does not count.

    Args:
        found: the answer of the target.
        body: as from `body_of`.
    """
    return _undated(bare_group(found)) == _undated(body)


def is_held_resource(found: Json, body: Json) -> bool:
    """Tell whether a message or schema of a target, in the document view with its Versions, is what would be sent."""
    return _told(found) == _told(body)


def _told(resource: Json) -> Json:
    """Give what counts of a message or schema."""
    bare = bare_resource(resource)
    meta, versions = bare.get("meta"), bare.get("versions")
    if not isinstance(meta, dict) or (not isinstance(versions, dict) and "xref" not in meta):
        return {"as it is": resource}  # the target does not show all of it
    if "xref" in meta:
        return {"xref": meta["xref"]}
    assert isinstance(versions, dict)
    told = {key: _undated(_version_of(one)) for key, one in versions.items() if isinstance(one, dict)}
    return {"meta": _undated(meta_of(meta)), "versions": told}


def _undated(entity: Json) -> Json:
    return {name: value for name, value in entity.items() if name not in (*_DATES, *_NOT_SENT)}
