"""Whom a change of a schema breaks: the endpoints that carry messages with it, by the role in which clients use them."""

from __future__ import annotations

from dataclasses import replace

from lakehouse.domain.diff import Difference
from lakehouse.readmodel.flattened import carrying
from lakehouse.readmodel.snapshotview import View
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import split_version, xid_of_group, xid_of_resource

_ROLES = {"producers": ("producer",), "consumers": ("consumer", "subscriber")}
_MOST_SHOWN = 5


def with_endpoints(view: View, one: Difference) -> Difference:
    """Add to a difference within a schema at which endpoints it breaks whom; others are returned as they are.

    Args:
        view: the state after it.
        one: the difference.
    """
    breaks = [who for who, effect in (("producers", one.for_producers), ("consumers", one.for_consumers)) if effect == "breaking"]
    if not one.is_about_schema or not breaks:
        return one
    groups = sorted({xid_of_group(message) for message in _messages_with(view, one)})
    endpoints = {endpoint.xid: endpoint for group in groups for endpoint in carrying(view, one.registryid, group)}
    sentences = []
    for who in breaks:
        xids = [
            xid for xid, endpoint in sorted(endpoints.items()) if set(_ROLES[who]) & set(endpoint.attributes.get("usage") or ())
        ]
        more = f" and {len(xids) - _MOST_SHOWN} more" if len(xids) > _MOST_SHOWN else ""
        if xids:
            sentences.append(f"It breaks {who} at {', '.join(xids[:_MOST_SHOWN])}{more}.")
    return replace(one, told=" ".join([one.told, *sentences]))


def _messages_with(view: View, one: Difference) -> set[Xid]:
    """Return the messages whose payload follows a schema: those that name it, and those that are based on them."""
    if one.kind == "message":
        return _extending(view, one.registryid, {one.xid})
    schema = xid_of_resource(one.xid)
    _, versionid = split_version(one.xid)
    named = [one.xid] if versionid is not None else []
    holder = view.entity(one.registryid, schema)
    if versionid is None or (holder is not None and holder.attributes.get("defaultversionid") == versionid):
        named.append(schema)
    naming = (reference for xid in named for reference in view.referring_to(one.registryid, xid))
    found = {xid_of_resource(one.source_xid) for one in naming if one.relation.startswith("dataschema")}
    return _extending(view, one.registryid, found)


def _extending(view: View, registryid: RegistryId, messages: set[Xid]) -> set[Xid]:
    """Return messages and those that are based on them, directly or not."""
    found, left = set(messages), list(messages)
    while left:
        naming = view.referring_to(registryid, left.pop())
        new = {xid_of_resource(one.source_xid) for one in naming if one.relation == "basemessage"} - found
        found |= new
        left += new
    return found
