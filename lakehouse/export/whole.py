"""A registry as one value: for dialects whose document is not written group by group."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from lakehouse.export.view import MEMBERS, Stored, Urls, group_view, registry_view, resource_view
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import last_id, xid_of_resource


def whole_registry(registryid: RegistryId, rows: Iterable[Stored]) -> dict[str, Any]:
    """Give a registry with all that it holds, in normal form, declarations as objects.

    Args:
        registryid: the registry.
        rows: of it, groups before what they hold.
    """
    urls = Urls()
    stored = list(rows)
    root = next((row for row in stored if row.kind == "registry"), None)
    document = registry_view(registryid, root, (0, 0), urls)
    others = (row for row in stored if row.kind != "registry")
    for xid, held in groupby(others, key=lambda row: xid_of_resource(row.xid)):
        versions = list(held)
        tokens = xid[1:].split("/")
        collection, groupid = tokens[0], tokens[1]
        groups = document.setdefault(collection, {})
        if len(tokens) == 2:
            groups[groupid] = group_view(xid, versions[0], urls)
            continue
        group = groups.setdefault(groupid, group_view(Xid(f"/{collection}/{groupid}"), None, urls))
        own = versions[0] if versions[0].xid == xid else None
        view = resource_view(xid, own, versions[1:] if own else versions, None, urls, bare=False)
        group.setdefault(MEMBERS[collection], {})[last_id(xid)] = view
    return document


def stored_row(row: Any, names: Iterable[str]) -> Stored:
    """Give a row that Spark collected as a row of the log; names: of the columns that it may have."""
    values = {name: row[name] for name in Stored._fields if name in names and name in row}
    leaves = values.get("leaves")
    return Stored(**values | ({"leaves": list(leaves.items())} if isinstance(leaves, dict) else {}))
