"""A document of the CNCF Message and Event Catalog draft becomes a registry document, told by the table `cncf_catalog.csv`.

A row of the table tells where a member of the draft stands in the normal form: of a group, a definition, a version, or of a
section of the `definition` of a format; its type; which names are allowed where users name the members (`*`); of which version
of the protocol alone it is; its default; and its rule. `closed` sections know no other members; a `schematype` is written with
a version in the normal form, and its suffix of a URI tells it when nothing else does.
"""

from __future__ import annotations

import re
from typing import Any

from lakehouse.dialects.draft.attributes import formats
from lakehouse.dialects.draft.definitions import Definitions
from lakehouse.dialects.draft.notes import Converted, Notes
from lakehouse.dialects.draft.numbers import is_lone
from lakehouse.text.jsontext import below, pointer_of
from lakehouse.text.names import WHOLE, Pointer
from lakehouse.text.xid import xid_of

__all__ = ["IMPLIED_GROUP", "Converted", "convert"]

IMPLIED_GROUP = "default"
_PATH = re.compile(r"/([^/]+)/messagedefinitions/[^/]+(?:/versions?/[^/]+)?\Z")


def convert(value: Any, uri: str = "") -> Converted:
    """Write a document of the draft as a registry document."""
    return _Conversion(uri).convert(value)


class _Conversion(Notes):
    """A document of the draft on its way."""

    def __init__(self, uri: str) -> None:
        found = _PATH.search(re.sub(r"(?:\.[A-Za-z]+)+\Z", "", uri))
        self.lone_group = found.group(1) if found else IMPLIED_GROUP
        super().__init__(Converted())
        self.lone: dict[Pointer, Any] = {}  # definitions that stand in no group, by their pointer
        self.left: dict[Pointer, Any] = {}  # those of them that no group of the document has taken

    def convert(self, value: Any) -> Converted:
        items = list(enumerate(value)) if isinstance(value, list) else [(0, value)]
        at = {index: pointer_of(str(index)) if isinstance(value, list) else WHOLE for index, _ in items}
        self.lone = {at[index]: item for index, item in items if is_lone(item)}
        self.left = dict(self.lone)
        for index, item in items:
            if at[index] not in self.lone:
                self._group(item, at[index])
        if self.left:
            groups = self.made.document["messagegroups"]
            groups[self.lone_group] = {"messages": self._definitions(self.lone_group, None, WHOLE, list(self.left.items()))}
        return self.made

    def _group(self, written: Any, at: Pointer) -> None:
        groups = self.made.document["messagegroups"]
        if not isinstance(written, dict):
            groups[f"at{at.replace('/', '-')}"] = written
            self.made.pointers[pointer_of("messagegroups", f"at{at.replace('/', '-')}")] = at
            return
        key, problem = self.id_of(written, None, "group", groups)
        here = pointer_of("messagegroups", key)
        self.made.pointers[here] = at
        self.made.written[xid_of("messagegroups", key)] = {
            name: one for name, one in written.items() if name != "messagedefinitions"
        }
        group: dict[str, Any] = {}
        groups[key] = group
        if problem:
            self.error(below(here, "id"), *problem)
        group_format = written.get("format")
        if not isinstance(group_format, str) or not group_format:
            rule = "CAT-024" if group_format in (None, "") else "CAT-023"
            self.error(below(here, "format"), rule, "the group has no `format`, which says what its definitions are", "Name one.")
            group_format = None
        self.attributes("group", written, group, here, xid_of("messagegroups", key))
        members = self.members(written.get("messagedefinitions"), here, at, "messagedefinitions", "CAT-011")
        if key == self.lone_group:  # in the order of the document, since of two with one id the first wins
            before = [one for one in self.left.items() if int(one[0][1:]) < int(at[1:])]
            members = [*before, *members, *(one for one in self.left.items() if one not in before)]
            self.left = {}
        group["messages"] = self._definitions(key, group_format, here, members)
        self._format_of_group(group, group_format, here)

    def _format_of_group(self, group: dict[str, Any], name: str | None, here: Pointer) -> None:
        """Write the group's format as envelope or protocol (requirements.md 38)."""
        if name is None:
            return
        known = formats().get(name)
        if known is None:
            group["envelope"] = name
            told = f"`format` {name!r} is not one of {', '.join(formats())}, so it is taken for one that is defined elsewhere"
            self.tell(below(here, "format"), "CAT-026", "warning", told, "Correct it if it is misspelt.")
            return
        protocols = {
            version.get("protocol")
            for message in group["messages"].values()
            if isinstance(message, dict)
            for version in message.get("versions", {}).values()
            if isinstance(version, dict)
        }
        if known["normal"] == "envelope" or protocols in (set(), {None}):
            group[known["normal"]] = known["type"]
        elif len(protocols) == 1:  # definitions of two versions of MQTT leave the group without one
            group["protocol"] = protocols.pop()

    def _definitions(
        self, group: str, group_format: str | None, here: Pointer, members: list[tuple[Pointer, Any]]
    ) -> dict[str, Any]:
        return Definitions(self.made, self.types, self.lone).convert(group, group_format, here, members)
