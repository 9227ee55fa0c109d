"""The definitions of a group of the draft, with their versions, become messages.

A version without a number gets the next one; whether that number is free, only the catalog knows (`numbering`).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from lakehouse.dialects.coercions import kind_of
from lakehouse.dialects.draft.attributes import CHECKS, URI, formats, sections_of
from lakehouse.dialects.draft.notes import Converted, Notes
from lakehouse.dialects.draft.numbers import Keyed, number_of, numbered, numbers_differ
from lakehouse.dialects.draft.sections import read_sections
from lakehouse.text.jsontext import below, pointer_of
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.xid import xid_of, xid_of_version

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
    path = urlsplit(identifier).path if "://" in identifier else identifier
    return f"{base.rstrip('/')}/{path.lstrip('/')}"


def version_id(group: str, definition: str, number: int | str) -> str:
    """Give the path of a definition version in a catalog."""
    return f"/{group}/messagedefinitions/{definition}/versions/{number}"


class Definitions(Notes):
    """Converts definitions.

    Args:
        made: what the document becomes.
        types: of the document, as in `Notes`.
        lone: definitions that stand in no group, by their pointer.
    """

    def __init__(self, made: Converted, types: dict[str, str], lone: dict[Pointer, Any]) -> None:
        super().__init__(made, types)
        self.lone = lone

    def convert(self, group: str, group_format: str | None, here: Pointer, members: list[tuple[Pointer, Any]]) -> dict[str, Any]:
        """Convert the definitions of a group; version objects of one definition may stand side by side."""
        here = here or pointer_of("messagegroups", group)
        messages: dict[str, Any] = {}
        taken: set[str] = set()
        numbered: dict[str, list[tuple[Pointer, dict[str, Any]]]] = {}
        for at, member in members:
            written = member.value if isinstance(member, Keyed) else member
            key = member.key if isinstance(member, Keyed) else None
            if not isinstance(written, dict):
                name = key or f"at{at.replace('/', '-')}"
                taken.add(name)
                messages[name] = written
                self.made.pointers[below(here, "messages", name)] = at
                continue
            own = written.get("id")
            if key is None and isinstance(own, str) and own in numbered and numbers_differ(numbered[own], written):
                numbered[own].append((at, written))
                continue
            name, problem = self.id_of(written, key, "definition", taken)
            taken.add(name)
            numbered[name] = [(at, written)]
            if problem:
                self.error(below(here, "messages", name, "id"), *problem)
        for name, parts in numbered.items():
            own_format = None if parts[0][0] in self.lone else group_format
            messages[name] = self._definition(group, own_format, name, below(here, "messages", name), parts)
        return messages

    def _definition(
        self, group: str, group_format: str | None, name: str, here: Pointer, parts: list[tuple[Pointer, dict[str, Any]]]
    ) -> dict[str, Any]:
        at, written = parts[0]
        xid = xid_of("messagegroups", group, "messages", name)
        self.made.pointers[here] = at
        shared: dict[str, Any] = {}
        versions = parts
        if "versions" in written:
            shared = {key: value for key, value in written.items() if key not in ("versions", "version", "definition")}
            self.made.written[xid] = {key: value for key, value in written.items() if key != "versions"}
            versions = []
            for where, member in self.members(written["versions"], here, at, "versions", "CAT-034"):
                versions.append((where, numbered(member)))
            if not versions:
                self.error(below(here, "versions"), "CAT-035", "the definition has no version", "Write at least one.")
        meta: dict[str, Any] = {}
        message: dict[str, Any] = {"meta": meta, "versions": {}}
        if shared:
            self.attributes("definition", shared, meta, here, xid, only=("createdat", "modifiedat"))
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
            path = below(here, "versions", versionid)
            self.made.pointers.setdefault(path, where)
            if not isinstance(one, dict):
                message["versions"][versionid] = one
                continue
            self._number_problem(one, number, versionid in message["versions"], path)
            self._same_as_definition(one, outer, name, own_format, path)
            self.made.written[xid_of_version(xid, versionid)] = one
            inherited = {key: value for key, value in shared.items() if key not in _DATES}
            version = self._version(inherited | one, name, own_format, path, xid_of_version(xid, versionid))
            uri = version_uri(authority, version_id(group, name, versionid))
            message["versions"][versionid] = version if uri is None else version | {"version_uri": uri}
        before: str | None = None
        for versionid in sorted(message["versions"], key=lambda one: int(one) if one.isdigit() else 0):
            if isinstance(message["versions"][versionid], dict):
                message["versions"][versionid]["ancestor"] = before or versionid
            before = meta["defaultversionid"] = versionid
        return message

    def _format(self, written: dict[str, Any], group_format: str | None, here: Pointer) -> str | None:
        """Tell the format of a definition: its own, its group's, else that of its sections."""
        own = written.get("format")
        if own is not None and not isinstance(own, str):
            self.error(below(here, "format"), "CAT-069", f"`format` is {kind_of(own)} and must be a string", "Leave it out.")
        elif own == "":
            self.error(below(here, "format"), "CAT-071", "`format` is empty", "Leave it out.")
        elif own is not None and group_format is not None and own != group_format:
            told = f"`format` is {own!r}, and the group's is {group_format!r}"
            self.error(below(here, "format"), "CAT-069", told, "Make the two equal, or leave it out.")
        if own and isinstance(own, str):
            return own
        sections = written.get("definition")
        named = set(sections) if isinstance(sections, dict) else set()
        fits = [name for name in formats() if named and named <= {row["path"].split("/")[0] for row in sections_of(name)}]
        return group_format or (fits[0] if len(fits) == 1 else None)

    def _authority(self, written: dict[str, Any], meta: dict[str, Any], here: Pointer) -> str | None:
        authority = written.get("authority")
        if authority in (None, ""):
            return None
        if not isinstance(authority, str) or not URI.fullmatch(authority):
            self.error(below(here, "authority"), "CAT-066", f"`authority` {authority!r} is not a URI", "Write an absolute URI.")
            return None
        meta["authority"] = authority
        return authority

    def _number_problem(self, one: dict[str, Any], number: int | None, taken: bool, path: Pointer) -> None:
        if number is None:
            written = one.get("version")
            rule = "CAT-078" if isinstance(written, int) and not isinstance(written, bool) else "CAT-077"
            told = f"`version` is {kind_of(written)} and must be a counter: 1, 2, 3 ..."
            self.error(below(path, "version"), rule, told, "Leave it out: the catalog counts.")
        elif taken:
            self.error(below(path, "version"), "CAT-077", f"the version {number} occurs twice", "Leave one of them out.")

    def _same_as_definition(
        self, one: dict[str, Any], outer: dict[str, Any], name: str, own_format: str | None, path: Pointer
    ) -> None:
        for key, told in (("id", name), ("format", own_format)):
            if one is not outer and one.get(key, told) != told:
                text = f"`{key}` of the version is {one[key]!r}, and the definition's is {told!r}"
                self.error(below(path, key), "CAT-036", text, "Make the two equal: versions share both.")

    # Versions

    def _version(self, written: dict[str, Any], name: str, own_format: str | None, here: Pointer, xid: Xid) -> dict[str, Any]:
        version: dict[str, Any] = {}
        self.attributes("definition", written, version, here, xid)
        if "createdat" in version:  # a version never changes, so it was last modified when it was created
            version.setdefault("modifiedat", version["createdat"])
        sections = written.get("definition")
        if not isinstance(sections, dict):
            told = "the version has no `definition`" if sections is None else f"`definition` is {kind_of(sections)}"
            self.error(below(here, "definition"), "CAT-081", told, "Write an object with the sections of the format.")
            return version
        if own_format is None:
            self.error(
                below(here, "definition"), "CAT-024", "the definition has no `format`, and neither has its group", "Name it."
            )
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
