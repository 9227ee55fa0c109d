"""A document of the CNCF Message and Event Catalog draft becomes a registry document, told by the table `cncf_catalog.csv`.

A row of the table tells where a member of the draft stands in the normal form: of a group, a definition, a version, or of a
section of the `definition` of a format; its type; which names are allowed where users name the members (`*`); of which version
of the protocol alone it is; its default; and its rule. `closed` sections know no other members; a `schematype` is written with
a version in the normal form, and its suffix of a URI tells it when nothing else does.

A version without a number gets the next one; whether that number is free, only the catalog knows (`numbering`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from lakehouse.dialects.coercions import kind_of
from lakehouse.dialects.draft.attributes import ATTRIBUTES, CHECKS, ID, URI, formats, rows, sections_of
from lakehouse.dialects.draft.numbers import Keyed, is_lone, number_of, numbered, numbers_differ
from lakehouse.dialects.draft.sections import read_sections
from lakehouse.text.jsontext import pointer_of
from lakehouse.text.problems import Problem

IMPLIED_GROUP = "default"
_DATES = ("createdtimeutc", "updatedtimeutc")  # a definition's own; a version has others
_PATH = re.compile(r"/([^/]+)/messagedefinitions/[^/]+(?:/versions?/[^/]+)?\Z")


@dataclass
class Converted:
    """A document of the draft as a registry document.

    Attributes:
        document: in 1.0-rc2, all messages with `versions`.
        errors: what takes out the entity at its pointer in `document`.
        told: other problems, with the XID of their entity.
        pointers: where something of `document` stands as written.
        written: entities as written, without their children, by XID.
    """

    document: dict[str, Any] = field(default_factory=lambda: {"messagegroups": {}})
    errors: list[Problem] = field(default_factory=list)
    told: list[tuple[str, Problem]] = field(default_factory=list)
    pointers: dict[str, str] = field(default_factory=dict)
    written: dict[str, Any] = field(default_factory=dict)


def convert(value: Any, uri: str = "") -> Converted:
    """Write a document of the draft as a registry document."""
    return _Conversion(uri).convert(value)


def version_uri(authority: str | None, identifier: str, catalog: str | None = None) -> str | None:
    """Compose the URI of a definition version: the authority (empty: the catalog's own URI) and the id.

    A path is appended; of an absolute id only the path is taken; a `urn` is joined with a colon.
    """
    base = authority or catalog
    if not base:
        return None
    if base.lower().startswith("urn:"):
        return f"{base}:{identifier.lstrip('/')}"
    path = urlsplit(identifier).path if "://" in identifier else identifier
    return f"{base.rstrip('/')}/{path.lstrip('/')}"


def version_id(group: str, definition: str, number: int | str) -> str:
    """Give the path of a definition version in a catalog."""
    return f"/{group}/messagedefinitions/{definition}/versions/{number}"


class _Conversion:
    """A document of the draft on its way."""

    def __init__(self, uri: str) -> None:
        found = _PATH.search(re.sub(r"(?:\.[A-Za-z]+)+\Z", "", uri))
        self.lone_group = found.group(1) if found else IMPLIED_GROUP
        self.made = Converted()
        self.types: dict[str, str] = {}
        self.lone: dict[str, Any] = {}  # definitions that stand in no group, by their pointer
        self.left: dict[str, Any] = {}  # those of them that no group of the document has taken

    def convert(self, value: Any) -> Converted:
        items = list(enumerate(value)) if isinstance(value, list) else [(0, value)]
        at = {index: f"/{index}" if isinstance(value, list) else "" for index, _ in items}
        self.lone = {at[index]: item for index, item in items if is_lone(item)}
        self.left = dict(self.lone)
        for index, item in items:
            if at[index] not in self.lone:
                self._group(item, at[index])
        if self.left:
            groups = self.made.document["messagegroups"]
            groups[self.lone_group] = {"messages": self._definitions(self.lone_group, None, "", list(self.left.items()))}
        return self.made

    # Groups

    def _group(self, written: Any, at: str) -> None:
        groups = self.made.document["messagegroups"]
        if not isinstance(written, dict):
            groups[f"at{at.replace('/', '-')}"] = written
            self.made.pointers[f"/messagegroups/at{at.replace('/', '-')}"] = at
            return
        key, problem = self._id_of(written, None, "group", groups)
        here = pointer_of("messagegroups", key)
        self.made.pointers[here] = at
        self.made.written[f"/messagegroups/{key}"] = {name: one for name, one in written.items() if name != "messagedefinitions"}
        group: dict[str, Any] = {}
        groups[key] = group
        if problem:
            self.error(here + "/id", *problem)
        group_format = written.get("format")
        if not isinstance(group_format, str) or not group_format:
            rule = "CAT-024" if group_format in (None, "") else "CAT-023"
            self.error(here + "/format", rule, "the group has no `format`, which tells what its definitions are", "Name one.")
            group_format = None
        self._attributes("group", written, group, here, f"/messagegroups/{key}")
        members = self._members(written.get("messagedefinitions"), here, at, "messagedefinitions", "CAT-011")
        if key == self.lone_group:  # in the order of the document, since of two with one id the first wins
            before = [one for one in self.left.items() if int(one[0][1:]) < int(at[1:])]
            members = [*before, *members, *(one for one in self.left.items() if one not in before)]
            self.left = {}
        group["messages"] = self._definitions(key, group_format, here, members)
        self._format_of_group(group, group_format, here)

    def _format_of_group(self, group: dict[str, Any], name: str | None, here: str) -> None:
        """Write the group's format as envelope or protocol (requirements.md 38)."""
        if name is None:
            return
        known = formats().get(name)
        if known is None:
            group["envelope"] = name
            told = f"`format` {name!r} is none of {', '.join(formats())} and taken for one that is defined elsewhere"
            self.tell(here + "/format", "CAT-026", "warning", told, "Mend it if it is misspelt.")
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

    def _members(self, written: Any, here: str, at: str, name: str, rule: str) -> list[tuple[str, Any]]:
        """Give the members of a map or an array, each with its pointer; a member of a map that has no id gets its key."""
        where = at + pointer_of(name)
        if written is None:
            return []
        if isinstance(written, list):
            return [(f"{where}/{index}", member) for index, member in enumerate(written)]
        if isinstance(written, dict):
            return [(where + pointer_of(key), Keyed(member, key)) for key, member in written.items()]
        self.error(here + pointer_of(name), rule, f"`{name}` is {kind_of(written)}, neither a map nor an array", "Write a map.")
        return []

    def _id_of(
        self, written: dict[str, Any], key: str | None, what: str, taken: Collection[str]
    ) -> tuple[str, tuple[str, str, str] | None]:
        """Give an id that no neighbour has, and what is wrong with the one that is written."""
        rules = {"group": ("CAT-018", "CAT-019", "CAT-020", "CAT-021", "CAT-022")}.get(
            what, ("CAT-058", "CAT-059", "CAT-060", "CAT-061", "CAT-062")
        )
        found = written.get("id", key)
        problem = None
        if found is None:
            problem = (rules[1], f"the {what} has no `id`", "Write one.")
        elif not isinstance(found, str):
            problem = (rules[0], f"`id` is {kind_of(found)} and must be a string", "Write a string.")
        elif not found:
            problem = (rules[2], "`id` is empty", "Write one.")
        elif key is not None and found != key:
            problem = (rules[0], f"`id` is {found!r}, and its key in the map is {key!r}", "Make the two equal.")
        elif not ID.fullmatch(found):
            problem = (rules[3], f"`id` {found!r} holds what an id must not (blank, slash, colon ...)", "Rename it.")
        elif found in taken:
            problem = (rules[4], f"the id {found!r} stands twice", "Rename one of them.")
        name = key if key is not None else found if isinstance(found, str) and found else f"without-id-{len(taken) + 1}"
        unique, nth = name, 1
        while unique in taken:
            nth += 1
            unique = f"{name}~{nth}"
        return unique, problem

    # Definitions

    def _definitions(self, group: str, group_format: str | None, here: str, members: list[tuple[str, Any]]) -> dict[str, Any]:
        """Convert the definitions of a group; version objects of one definition may stand side by side."""
        here = here or pointer_of("messagegroups", group)
        messages: dict[str, Any] = {}
        taken: set[str] = set()
        numbered: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        for at, member in members:
            written = member.value if isinstance(member, Keyed) else member
            key = member.key if isinstance(member, Keyed) else None
            if not isinstance(written, dict):
                name = key or f"at{at.replace('/', '-')}"
                taken.add(name)
                messages[name] = written
                self.made.pointers[here + pointer_of("messages", name)] = at
                continue
            own = written.get("id")
            if key is None and isinstance(own, str) and own in numbered and numbers_differ(numbered[own], written):
                numbered[own].append((at, written))
                continue
            name, problem = self._id_of(written, key, "definition", taken)
            taken.add(name)
            numbered[name] = [(at, written)]
            if problem:
                self.error(here + pointer_of("messages", name) + "/id", *problem)
        for name, parts in numbered.items():
            own_format = None if parts[0][0] in self.lone else group_format
            messages[name] = self._definition(group, own_format, name, here + pointer_of("messages", name), parts)
        return messages

    def _definition(
        self, group: str, group_format: str | None, name: str, here: str, parts: list[tuple[str, dict[str, Any]]]
    ) -> dict[str, Any]:
        at, written = parts[0]
        xid = f"/messagegroups/{group}/messages/{name}"
        self.made.pointers[here] = at
        shared: dict[str, Any] = {}
        versions = parts
        if "versions" in written:
            shared = {key: value for key, value in written.items() if key not in ("versions", "version", "definition")}
            self.made.written[xid] = {key: value for key, value in written.items() if key != "versions"}
            versions = []
            for where, member in self._members(written["versions"], here, at, "versions", "CAT-034"):
                versions.append((where, numbered(member)))
            if not versions:
                self.error(here + "/versions", "CAT-035", "the definition has no version", "Write at least one.")
        meta: dict[str, Any] = {}
        message: dict[str, Any] = {"meta": meta, "versions": {}}
        if shared:
            self._attributes("definition", shared, meta, here, xid, only=("createdat", "modifiedat"))
        outer = shared or written
        own_format = self._format(outer, group_format, here)
        authority = self._authority(outer, meta, here)
        numbers = [number_of(one) for _, one in versions]
        last = max((number for number in numbers if number), default=0)
        for (where, one), number in zip(versions, numbers, strict=True):
            if number is None and not (isinstance(one, dict) and "version" in one):
                last += 1
                number = last  # noqa: PLW2901
            versionid = str(number) if number else f"at-{len(message['versions']) + 1}"
            path = here + pointer_of("versions", versionid)
            self.made.pointers.setdefault(path, where)
            if not isinstance(one, dict):
                message["versions"][versionid] = one
                continue
            self._number_problem(one, number, versionid in message["versions"], path)
            self._same_as_definition(one, outer, name, own_format, path)
            self.made.written[f"{xid}/versions/{versionid}"] = one
            inherited = {key: value for key, value in shared.items() if key not in _DATES}
            version = self._version(inherited | one, name, own_format, path, f"{xid}/versions/{versionid}")
            uri = version_uri(authority, version_id(group, name, versionid))
            message["versions"][versionid] = version if uri is None else version | {"version_uri": uri}
        before: str | None = None
        for versionid in sorted(message["versions"], key=lambda one: int(one) if one.isdigit() else 0):
            if isinstance(message["versions"][versionid], dict):
                message["versions"][versionid]["ancestor"] = before or versionid
            before = meta["defaultversionid"] = versionid
        return message

    def _format(self, written: dict[str, Any], group_format: str | None, here: str) -> str | None:
        """Tell the format of a definition: its own, its group's, else that of its sections."""
        own = written.get("format")
        if own is not None and not isinstance(own, str):
            self.error(here + "/format", "CAT-069", f"`format` is {kind_of(own)} and must be a string", "Leave it out.")
        elif own == "":
            self.error(here + "/format", "CAT-071", "`format` is empty", "Leave it out.")
        elif own is not None and group_format is not None and own != group_format:
            told = f"`format` is {own!r}, and the group's is {group_format!r}"
            self.error(here + "/format", "CAT-069", told, "Make the two equal, or leave it out.")
        if own and isinstance(own, str):
            return own
        sections = written.get("definition")
        named = set(sections) if isinstance(sections, dict) else set()
        fits = [name for name in formats() if named and named <= {row["path"].split("/")[0] for row in sections_of(name)}]
        return group_format or (fits[0] if len(fits) == 1 else None)

    def _authority(self, written: dict[str, Any], meta: dict[str, Any], here: str) -> str | None:
        authority = written.get("authority")
        if authority in (None, ""):
            return None
        if not isinstance(authority, str) or not URI.fullmatch(authority):
            self.error(here + "/authority", "CAT-066", f"`authority` {authority!r} is not a URI", "Write an absolute URI.")
            return None
        meta["authority"] = authority
        return authority

    def _number_problem(self, one: dict[str, Any], number: int | None, taken: bool, path: str) -> None:
        if number is None:
            written = one.get("version")
            rule = "CAT-078" if isinstance(written, int) and not isinstance(written, bool) else "CAT-077"
            told = f"`version` is {kind_of(written)} and must be a counter: 1, 2, 3 ..."
            self.error(path + "/version", rule, told, "Leave it out: the catalog counts.")
        elif taken:
            self.error(path + "/version", "CAT-077", f"the version {number} stands twice", "Leave one of them out.")

    def _same_as_definition(
        self, one: dict[str, Any], outer: dict[str, Any], name: str, own_format: str | None, path: str
    ) -> None:
        for key, told in (("id", name), ("format", own_format)):
            if one is not outer and one.get(key, told) != told:
                text = f"`{key}` of the version is {one[key]!r}, and the definition's is {told!r}"
                self.error(path + pointer_of(key), "CAT-036", text, "Make the two equal: versions share both.")

    # Versions

    def _version(self, written: dict[str, Any], name: str, own_format: str | None, here: str, xid: str) -> dict[str, Any]:
        version: dict[str, Any] = {}
        self._attributes("definition", written, version, here, xid)
        if "createdat" in version:  # a version never changes, so it was last modified when it was created
            version.setdefault("modifiedat", version["createdat"])
        sections = written.get("definition")
        if not isinstance(sections, dict):
            told = "the version has no `definition`" if sections is None else f"`definition` is {kind_of(sections)}"
            self.error(here + "/definition", "CAT-081", told, "Write an object with the sections of the format.")
            return version
        if own_format is None:
            self.error(here + "/definition", "CAT-024", "nothing tells the `format` of the definition", "Name it.")
            return version
        known = formats().get(own_format)
        if known is None:
            return version | {"envelope": own_format, "definition": sections}
        version[known["normal"]] = known["type"]
        read_sections(self, own_format, sections, version, here, self.made.pointers)
        check = CHECKS.get(own_format)
        if check is not None:
            check(self, sections, version, name, here)
        return version

    # Attributes

    def _attributes(
        self, level: str, written: dict[str, Any], normal: dict[str, Any], here: str, xid: str, only: tuple[str, ...] = ()
    ) -> None:
        """Convert the attributes of a group, definition or version; unknown ones are kept."""
        named = {row["path"]: row for row in rows(level)} | (
            {} if level == "group" else {row["path"]: row for row in rows("version")}
        )
        for name, value in written.items():
            row = named.get(name)
            if row is None:
                if not only:
                    normal[name] = value
            elif row["normal"] and value is not None and (not only or row["normal"] in only):
                convert_value = ATTRIBUTES.get(row["type"])
                if convert_value is not None:
                    convert_value(self, row, value, written, normal, here)

    def error(self, pointer: str, rule: str, message: str, hint: str) -> None:
        """Note an error of the entity at the pointer."""
        self.made.errors.append(Problem(pointer, rule, "error", message, hint))

    def leave_out(self, pointer: str, rule: str, message: str, hint: str) -> None:
        """Note an error that takes nothing out: what is at the pointer is left out."""
        self.made.errors.append(Problem(pointer, rule, "error", message, hint, kept=True))

    def tell(self, pointer: str, rule: str, severity: str, message: str, hint: str) -> None:
        xid = "/" + "/".join(pointer.split("/")[1 : _depth(pointer) + 1])
        self.made.told.append((xid, Problem(pointer, rule, severity, message, hint)))


def _depth(pointer: str) -> int:
    tokens = pointer.split("/")[1:]
    return 6 if tokens[4:5] == ["versions"] else 4 if tokens[2:3] == ["messages"] else 2
