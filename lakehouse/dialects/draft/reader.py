"""A document of the CNCF Message and Event Catalog draft becomes a registry document, by the table `cncf_catalog.csv`.

A row of the table says where a member of the draft is in the normal form: of a group, a definition, a version, or of a section
of the `definition` of a format; its type; which names are allowed where users name the members (`*`); of which version of the
protocol alone it is; its default; and its rule. `closed` sections know no other members; a `schematype` is written with a
version in the normal form, and the suffix of a URI implies it where nothing else does.

The definitions of a group, with their versions, become messages. A version without a number gets the next one; whether that
number is free, only the catalog knows (`numbering`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakehouse.dialects.coercions import kind_of
from lakehouse.dialects.detection import is_definition, is_group
from lakehouse.dialects.draft.conversions import (
    ATTRIBUTES,
    CHECKS,
    ID,
    URI,
    formats,
    names_of_sections,
    read_sections,
    rows,
    sections_of,
)
from lakehouse.text.jsontext import below, pointer_of, same
from lakehouse.text.names import ROOT, Pointer, Xid
from lakehouse.text.problems import Problem
from lakehouse.text.values import is_whole, path_of_uri
from lakehouse.text.xid import xid_of, xid_of_version


def is_lone(item: Any) -> bool:
    """Return whether an item is a definition that no group holds."""
    return isinstance(item, dict) and not is_group(item) and is_definition(item)


@dataclass
class Keyed:
    """A member of a map, with its key."""

    value: Any
    key: str


def numbered(member: Any) -> Any:
    """Return a version with its number, which may be its key."""
    if isinstance(member, Keyed):
        if isinstance(member.value, dict) and "version" not in member.value:
            return member.value | {"version": int(member.key) if is_whole(member.key) else member.key}
        return member.value
    return member


def number_of(version: Any) -> int | None:
    """Return the number that a version declares, None when it declares none that can be one."""
    number = version.get("version") if isinstance(version, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else None


def numbers_differ(parts: Sequence[tuple[str, dict[str, Any]]], written: dict[str, Any]) -> bool:
    """Return whether parts of one id are versions of it: each has a number, and no two the same."""
    numbers = [number_of(version) for _, version in parts] + [number_of(written)]
    return None not in numbers and len(set(numbers)) == len(numbers) and "versions" not in written


@dataclass
class Converted:
    """A document of the draft as a registry document.

    Attributes:
        document: in 1.0-rc2, all messages with `versions`.
        errors: findings that remove the entity at their pointer in `document`.
        reported: other findings, with the XID of their entity.
        pointers: where something of `document` is written.
        written: entities as written, without their children, by XID.
    """

    document: dict[str, Any] = field(default_factory=lambda: {"messagegroups": {}})
    errors: list[Problem] = field(default_factory=list)
    reported: list[tuple[Xid, Problem]] = field(default_factory=list)
    pointers: dict[Pointer, Pointer] = field(default_factory=dict)
    written: dict[Xid, Any] = field(default_factory=dict)


class Notes:
    """Collects the findings while a document is converted: in its members, its ids, its attributes."""

    def __init__(self, converted: Converted, types: dict[str, str] | None = None) -> None:
        self.converted = converted
        self.types = {} if types is None else types  # of attributes, as they were met

    def error(self, pointer: Pointer, rule: str, message: str, hint: str) -> None:
        """Report an error of the entity at the pointer."""
        self.converted.errors.append(Problem(pointer, rule, "error", message, hint))

    def leave_out(self, pointer: Pointer, rule: str, message: str, hint: str) -> None:
        """Report an error that removes no entity: what is at the pointer is left out."""
        self.converted.errors.append(Problem(pointer, rule, "error", message, hint, keeps_entity=True))

    def report(self, pointer: Pointer, rule: str, severity: str, message: str, hint: str) -> None:
        """Report something that removes no entity."""
        xid = xid_of(*pointer.split("/")[1 : _depth(pointer) + 1])
        self.converted.reported.append((xid, Problem(pointer, rule, severity, message, hint)))

    def members(self, written: Any, pointer: Pointer, source: Pointer, name: str, rule: str) -> list[tuple[Pointer, Any]]:
        """Return the members of a map or an array, each with its pointer; a member of a map that has no id gets its key."""
        where = below(source, name)
        if written is None:
            return []
        if isinstance(written, list):
            return [(below(where, str(index)), member) for index, member in enumerate(written)]
        if isinstance(written, dict):
            return [(below(where, key), Keyed(member, key)) for key, member in written.items()]
        self.error(below(pointer, name), rule, f"`{name}` is {kind_of(written)}, neither a map nor an array", "Write a map.")
        return []

    def id_of(
        self, written: dict[str, Any], key: str | None, what: str, taken: Collection[str]
    ) -> tuple[str, tuple[str, str, str] | None]:
        """Return an id that no neighbour has, and what is wrong with the one that is written."""
        rules = {"group": ("CAT-018", "CAT-019", "CAT-020", "CAT-021", "CAT-022")}.get(
            what, ("CAT-058", "CAT-059", "CAT-060", "CAT-061", "CAT-062")
        )
        result = written.get("id", key)
        problem = None
        if result is None:
            problem = (rules[1], f"the {what} has no `id`", "Write one.")
        elif not isinstance(result, str):
            problem = (rules[0], f"`id` is {kind_of(result)} and must be a string", "Write a string.")
        elif not result:
            problem = (rules[2], "`id` is empty", "Write one.")
        elif key is not None and result != key:
            problem = (rules[0], f"`id` is {result!r}, and its key in the map is {key!r}", "Make the two equal.")
        elif not ID.fullmatch(result):
            problem = (rules[3], f"`id` {result!r} holds what an id must not (blank, slash, colon ...)", "Rename it.")
        elif result in taken:
            problem = (rules[4], f"the id {result!r} occurs twice", "Rename one of them.")
        name = key if key is not None else result if isinstance(result, str) and result else f"without-id-{len(taken) + 1}"
        unique, nth = name, 1
        while unique in taken:
            nth += 1
            unique = f"{name}~{nth}"
        return unique, problem

    def attributes(
        self, level: str, written: dict[str, Any], normal: dict[str, Any], pointer: Pointer, xid: Xid, only: tuple[str, ...] = ()
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
                    convert_value(self, row, value, written, normal, pointer)


def _depth(pointer: Pointer) -> int:
    tokens = pointer.split("/")[1:]
    return 6 if tokens[4:5] == ["versions"] else 4 if tokens[2:3] == ["messages"] else 2


_DATES = ("createdtimeutc", "updatedtimeutc")  # a definition's own; a version has others


def version_uri(authority: str | None, identifier: str, catalog: str | None = None) -> str | None:
    """Compose the URI of a definition version: the authority (empty: the catalog's own URI) and the id.

    A path is appended; of an absolute id only the path is taken; a `urn` is joined with a colon.
    """
    base = authority or catalog
    if not base:
        return None
    if base.lower().startswith("urn:"):
        return f"{base}:{identifier.lstrip('/')}"
    path = path_of_uri(identifier) if "://" in identifier else identifier
    return f"{base.rstrip('/')}/{path.lstrip('/')}"


def version_id(group: str, definition: str, number: int | str) -> str:
    """Return the path of a definition version in a catalog."""
    return f"/{group}/messagedefinitions/{definition}/versions/{number}"


class Definitions(Notes):
    """Converts definitions.

    Args:
        made: what the document becomes.
        types: of the document, as in `Notes`.
        lone: definitions that no group holds, by their pointer.
    """

    def __init__(self, converted: Converted, types: dict[str, str], lone: dict[Pointer, Any]) -> None:
        super().__init__(converted, types)
        self.lone = lone

    def convert(
        self, group: str, group_format: str | None, pointer: Pointer, members: list[tuple[Pointer, Any]]
    ) -> dict[str, Any]:
        """Convert the definitions of a group; several version objects may be of one definition."""
        pointer = pointer or pointer_of("messagegroups", group)
        messages: dict[str, Any] = {}
        taken: set[str] = set()
        numbered: dict[str, list[tuple[Pointer, dict[str, Any]]]] = {}
        for source, member in members:
            written = member.value if isinstance(member, Keyed) else member
            key = member.key if isinstance(member, Keyed) else None
            if not isinstance(written, dict):
                name = key or f"at{source.replace('/', '-')}"
                taken.add(name)
                messages[name] = written
                self.converted.pointers[below(pointer, "messages", name)] = source
                continue
            identifier = written.get("id")
            if (
                key is None
                and isinstance(identifier, str)
                and identifier in numbered
                and numbers_differ(numbered[identifier], written)
            ):
                numbered[identifier].append((source, written))
                continue
            name, problem = self.id_of(written, key, "definition", taken)
            taken.add(name)
            numbered[name] = [(source, written)]
            if problem:
                self.error(below(pointer, "messages", name, "id"), *problem)
        for name, parts in numbered.items():
            own_format = None if parts[0][0] in self.lone else group_format
            messages[name] = self._definition(group, own_format, name, below(pointer, "messages", name), parts)
        return messages

    def _definition(
        self, group: str, group_format: str | None, name: str, pointer: Pointer, parts: list[tuple[Pointer, dict[str, Any]]]
    ) -> dict[str, Any]:
        source, written = parts[0]
        xid = xid_of("messagegroups", group, "messages", name)
        self.converted.pointers[pointer] = source
        shared: dict[str, Any] = {}
        versions = parts
        if "versions" in written:
            shared = {key: value for key, value in written.items() if key not in ("versions", "version", "definition")}
            self.converted.written[xid] = {key: value for key, value in written.items() if key != "versions"}
            versions = []
            for where, member in self.members(written["versions"], pointer, source, "versions", "CAT-034"):
                versions.append((where, numbered(member)))
            if not versions:
                self.error(below(pointer, "versions"), "CAT-035", "the definition has no version", "Write at least one.")
        meta: dict[str, Any] = {}
        message: dict[str, Any] = {"meta": meta, "versions": {}}
        if shared:
            self.attributes("definition", shared, meta, pointer, xid, only=("createdat", "modifiedat"))
        outer = shared or written
        own_format = self._format(outer, group_format, pointer)
        authority = self._authority(outer, meta, pointer)
        numbers = [number_of(item) for _, item in versions]
        last = max((number for number in numbers if number), default=0)
        for (where, entry), number in zip(versions, numbers, strict=True):
            if number is None and not (isinstance(entry, dict) and "version" in entry):
                last += 1
                number = last  # noqa: PLW2901
            versionid = str(number) if number else f"at-{len(message['versions']) + 1}"
            path = below(pointer, "versions", versionid)
            self.converted.pointers.setdefault(path, where)
            if not isinstance(entry, dict):
                message["versions"][versionid] = entry
                continue
            self._number_problem(entry, number, versionid in message["versions"], path)
            self._same_as_definition(entry, outer, name, own_format, path)
            self.converted.written[xid_of_version(xid, versionid)] = entry
            inherited = {key: value for key, value in shared.items() if key not in _DATES}
            version = self._version(inherited | entry, name, own_format, path, xid_of_version(xid, versionid))
            uri = version_uri(authority, version_id(group, name, versionid))
            message["versions"][versionid] = version if uri is None else version | {"version_uri": uri}
        before: str | None = None
        for versionid in sorted(message["versions"], key=lambda item: int(item) if is_whole(item) else 0):
            if isinstance(message["versions"][versionid], dict):
                message["versions"][versionid]["ancestor"] = before or versionid
            before = meta["defaultversionid"] = versionid
        return message

    def _format(self, written: dict[str, Any], group_format: str | None, pointer: Pointer) -> str | None:
        """Return the format of a definition: its own, its group's, else that of its sections."""
        identifier = written.get("format")
        if identifier is not None and not isinstance(identifier, str):
            self.error(
                below(pointer, "format"), "CAT-069", f"`format` is {kind_of(identifier)} and must be a string", "Leave it out."
            )
        elif identifier == "":
            self.error(below(pointer, "format"), "CAT-071", "`format` is empty", "Leave it out.")
        elif identifier is not None and group_format is not None and identifier != group_format:
            message = f"`format` is {identifier!r}, and the group's is {group_format!r}"
            self.error(below(pointer, "format"), "CAT-069", message, "Make the two equal, or leave it out.")
        if identifier and isinstance(identifier, str):
            return identifier
        sections = written.get("definition")
        named = set(sections) if isinstance(sections, dict) else set()
        fits = [name for name in formats() if named and named <= {row["path"].split("/")[0] for row in sections_of(name)}]
        return group_format or (fits[0] if len(fits) == 1 else None)

    def _authority(self, written: dict[str, Any], meta: dict[str, Any], pointer: Pointer) -> str | None:
        authority = written.get("authority")
        if authority in (None, ""):
            return None
        if not isinstance(authority, str) or not URI.fullmatch(authority):
            self.error(
                below(pointer, "authority"), "CAT-066", f"`authority` {authority!r} is not a URI", "Write an absolute URI."
            )
            return None
        meta["authority"] = authority
        return authority

    def _number_problem(self, row: dict[str, Any], number: int | None, taken: bool, path: Pointer) -> None:
        if number is None:
            written = row.get("version")
            rule = "CAT-078" if isinstance(written, int) and not isinstance(written, bool) else "CAT-077"
            message = f"`version` is {kind_of(written)} and must be a counter: 1, 2, 3 ..."
            self.error(below(path, "version"), rule, message, "Leave it out: the catalog counts.")
        elif taken:
            self.error(below(path, "version"), "CAT-077", f"the version {number} occurs twice", "Leave one of them out.")

    def _same_as_definition(
        self, version: dict[str, Any], outer: dict[str, Any], name: str, own_format: str | None, path: Pointer
    ) -> None:
        for key, expected in (("id", name), ("format", own_format)):
            if version is not outer and version.get(key, expected) != expected:
                text = f"`{key}` of the version is {version[key]!r}, and the definition's is {expected!r}"
                self.error(below(path, key), "CAT-036", text, "Make the two equal: versions share both.")

    # Versions

    def _version(self, written: dict[str, Any], name: str, own_format: str | None, pointer: Pointer, xid: Xid) -> dict[str, Any]:
        version: dict[str, Any] = {}
        self.attributes("definition", written, version, pointer, xid)
        if "createdat" in version:  # a version never changes, so it was last modified when it was created
            version.setdefault("modifiedat", version["createdat"])
        sections = written.get("definition")
        if not isinstance(sections, dict):
            message = "the version has no `definition`" if sections is None else f"`definition` is {kind_of(sections)}"
            self.error(below(pointer, "definition"), "CAT-081", message, "Write an object with the sections of the format.")
            return version
        if own_format is None:
            self.error(
                below(pointer, "definition"), "CAT-024", "the definition has no `format`, and neither has its group", "Name it."
            )
            return version
        row = formats().get(own_format)
        if row is None:
            return version | {"envelope": own_format, "definition": sections}
        added = {key: version.pop(key) for key in names_of_sections(own_format) if key in version}
        version[row["normal"]] = row["type"]
        read_sections(self, own_format, sections, version, pointer, self.converted.pointers)
        check = CHECKS.get(own_format)
        if check is not None:
            check(self, sections, version, name, pointer)
        return version | self._not_replaced(added, version, pointer)

    def _not_replaced(self, added: dict[str, Any], version: dict[str, Any], pointer: Pointer) -> dict[str, Any]:
        """Return what may stay of members that the draft does not know, and that have names of what its sections become."""
        for key in added.keys() & version.keys():
            if added[key] is not None and not same(added[key], version[key]):
                message = f"`{key}` is the name of what `definition` becomes; it is left out"
                self.leave_out(below(pointer, key), "CAT-081", message, "Write it into `definition`, or rename it.")
        return {key: value for key, value in added.items() if key not in version}


__all__ = ["IMPLIED_GROUP", "Converted", "convert"]

IMPLIED_GROUP = "default"
_PATH = re.compile(r"/([^/]+)/messagedefinitions/[^/]+(?:/versions?/[^/]+)?\Z")


def convert(value: Any, uri: str = "") -> Converted:
    """Write a document of the draft as a registry document."""
    return _Conversion(uri).convert(value)


class _Conversion(Notes):
    """A document of the draft on its way."""

    def __init__(self, uri: str) -> None:
        match = _PATH.search(re.sub(r"(?:\.[A-Za-z]+)+\Z", "", uri))
        self.lone_group = match.group(1) if match else IMPLIED_GROUP
        super().__init__(Converted())
        self.lone: dict[Pointer, Any] = {}  # definitions that no group holds, by their pointer
        self.left: dict[Pointer, Any] = {}  # those of them that no group of the document has taken

    def convert(self, value: Any) -> Converted:
        items = list(enumerate(value)) if isinstance(value, list) else [(0, value)]
        source = {index: pointer_of(str(index)) if isinstance(value, list) else ROOT for index, _ in items}
        self.lone = {source[index]: item for index, item in items if is_lone(item)}
        self.left = dict(self.lone)
        for index, item in items:
            if source[index] not in self.lone:
                self._group(item, source[index])
        if self.left:
            groups = self.converted.document["messagegroups"]
            groups[self.lone_group] = {"messages": self._definitions(self.lone_group, None, ROOT, list(self.left.items()))}
        return self.converted

    def _group(self, written: Any, source: Pointer) -> None:
        groups = self.converted.document["messagegroups"]
        if not isinstance(written, dict):
            groups[f"at{source.replace('/', '-')}"] = written
            self.converted.pointers[pointer_of("messagegroups", f"at{source.replace('/', '-')}")] = source
            return
        key, problem = self.id_of(written, None, "group", groups)
        pointer = pointer_of("messagegroups", key)
        self.converted.pointers[pointer] = source
        self.converted.written[xid_of("messagegroups", key)] = {
            name: value for name, value in written.items() if name != "messagedefinitions"
        }
        group: dict[str, Any] = {}
        groups[key] = group
        if problem:
            self.error(below(pointer, "id"), *problem)
        group_format = written.get("format")
        if not isinstance(group_format, str) or not group_format:
            rule = "CAT-024" if group_format in (None, "") else "CAT-023"
            self.error(
                below(pointer, "format"), rule, "the group has no `format`, which says what its definitions are", "Name one."
            )
            group_format = None
        self.attributes("group", written, group, pointer, xid_of("messagegroups", key))
        members = self.members(written.get("messagedefinitions"), pointer, source, "messagedefinitions", "CAT-011")
        if key == self.lone_group:  # in the order of the document, since of two with one id the first wins
            before = [value for value in self.left.items() if int(value[0][1:]) < int(source[1:])]
            members = [*before, *members, *(value for value in self.left.items() if value not in before)]
            self.left = {}
        group["messages"] = self._definitions(key, group_format, pointer, members)
        self._format_of_group(group, group_format, pointer)

    def _format_of_group(self, group: dict[str, Any], name: str | None, pointer: Pointer) -> None:
        """Write the group's format as envelope or protocol (requirements.md 38)."""
        if name is None:
            return
        row = formats().get(name)
        if row is None:
            group["envelope"] = name
            text = f"`format` {name!r} is not one of {', '.join(formats())}, so it is taken for one that is defined elsewhere"
            self.report(below(pointer, "format"), "CAT-026", "warning", text, "Correct it if it is misspelt.")
            return
        protocols = {
            protocol if isinstance(protocol := version.get("protocol"), str) else None
            for message in group["messages"].values()
            if isinstance(message, dict)
            for version in message.get("versions", {}).values()
            if isinstance(version, dict)
        }
        if row["normal"] == "envelope" or protocols in (set(), {None}):
            group[row["normal"]] = row["type"]
        elif len(protocols) == 1:  # definitions of two versions of MQTT leave the group without one
            group["protocol"] = protocols.pop()

    def _definitions(
        self, group: str, group_format: str | None, pointer: Pointer, members: list[tuple[Pointer, Any]]
    ) -> dict[str, Any]:
        return Definitions(self.converted, self.types, self.lone).convert(group, group_format, pointer, members)
