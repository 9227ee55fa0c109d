"""Write what `lakehouse export --dialect` writes of a registry, without Spark: the same functions over the read model.

python tests/clients/exported.py WAREHOUSE REGISTRY DIALECT FILE BASE_URL
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from lakehouse.dialects.layouts import to_dialect
from lakehouse.dialects.tables import NORMAL, family_of
from lakehouse.export.view import MEMBERS, Urls, as_bytes, group_view, registry_view, resource_view
from lakehouse.readmodel import View, open_model
from lakehouse.readmodel.render import stored
from lakehouse.settings import read_settings


def exported(view: View, registryid: str, dialect: str, base: str | None) -> dict[str, Any]:
    """Give the document of a registry."""
    urls, is_normal = Urls(base), dialect == NORMAL
    row = view.entity(registryid, "/")
    document = registry_view(registryid, None if row is None else stored(row), (0, 0), urls)
    for collection in MEMBERS:
        document[f"{collection}url"] = urls.of(collection)
        document[collection] = {}
    for group in view.children(registryid, "/"):
        collection, groupid = group.xid[1:].split("/")
        members = MEMBERS[collection]
        shown = group_view(group.xid, stored(group), urls)
        shown[f"{members}url"] = urls.of(collection, groupid, members)
        shown[members] = {}
        for member in view.children(registryid, group.xid):
            versions = [stored(one) for one in view.versions(registryid, member.xid)]
            protocol = shown.get("protocol") if is_normal else None
            written = resource_view(member.xid, stored(member), versions, protocol, urls, bare=is_normal)
            if not is_normal:
                written, _ = to_dialect(written, dialect, members[:-1], family_of(shown.get("protocol")))
            shown[members][member.xid.rsplit("/", 1)[1]] = written
        shown[f"{members}count"] = len(shown[members])
        document[collection][groupid] = shown
    for collection in MEMBERS:
        document[f"{collection}count"] = len(document[collection])
    return document if is_normal else document | {"specversion": dialect}


def main() -> None:
    """Write a file."""
    warehouse, registryid, dialect, file, base = sys.argv[1:]
    with open_model(read_settings(warehouse=warehouse)) as model, model.at() as view:
        Path(file).write_bytes(as_bytes(exported(view, registryid, dialect, base or None)))


if __name__ == "__main__":
    main()
