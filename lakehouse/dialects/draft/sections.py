"""The sections of a definition of the CNCF catalog draft become attributes of a Version, by the table `cncf_catalog.csv`."""

from __future__ import annotations

import re
from typing import Any

from lakehouse.dialects.coercions import kind_of
from lakehouse.dialects.draft.attributes import MEMBERS, Draft, rows, sections_of
from lakehouse.text.jsontext import below
from lakehouse.text.names import Pointer


def translated(pointer: Pointer, pointers: dict[Pointer, Pointer]) -> Pointer:
    """Give a pointer into the document as written for one into the converted document."""
    known = pointer
    while known not in pointers:
        if not known:
            return pointer
        known = Pointer(known.rpartition("/")[0])
    return Pointer(pointers[known] + pointer[len(known) :])


def read_sections(
    at: Draft, own_format: str, sections: dict[str, Any], version: dict[str, Any], here: Pointer, pointers: dict[Pointer, Pointer]
) -> None:
    """Read the sections of a format into a Version.

    Args:
        at: the document, which is told what is wrong.
        own_format: one of `formats`.
        sections: the `definition` as written.
        version: the Version, which gets what is read.
        here: pointer of the Version in the converted document.
        pointers: gets where each member stands as written.
    """
    by_path = {row["path"]: row for row in sections_of(own_format)}
    closed = {row["path"]: row["rule"] for row in rows("closed") if row["format"] == own_format}
    for section, members in sections.items():
        place = below(here, "definition", section)
        if section not in {path.split("/")[0] for path in by_path}:
            told = f"the format {own_format} has no section `{section}`"
            at.error(place, "CAT-027", told, "Leave it out, or correct `format`.")
        elif not isinstance(members, dict):
            rule = by_path.get(f"{section}/*", {}).get("rule", "CAT-081")
            if members is not None:
                at.error(place, rule, f"`{section}` is {kind_of(members)} and must be an object", "Write an object.")
        else:
            for member, value in members.items():
                row = by_path.get(f"{section}/{member}") or by_path.get(f"{section}/*")
                if row is None:
                    rule = closed.get(section, "CAT-027")
                    at.error(below(place, member), rule, f"`{section}` knows no `{member}`", "Leave it out.")
                elif value is not None:
                    _member(at, row, member, value, version, (here, below(place, member)), pointers)
    _only(at, own_format, sections, version, here)


def _member(
    at: Draft,
    row: dict[str, str],
    member: str,
    value: Any,
    version: dict[str, Any],
    where: tuple[Pointer, Pointer],
    pointers: dict[Pointer, Pointer],
) -> None:
    """Read a member of a section; where: pointers of the Version, and of the member in the converted document."""
    here, place = where
    if row["names"] and not re.fullmatch(row["names"], member):
        told = f"{member!r} is not a name of `{row['path'].split('/')[0]}`"
        at.error(place, row["rule"], told, "Rename it.")
    kind, _, argument = row["type"].partition(" ")
    normal = MEMBERS[kind](at, row, argument, value, version, place)
    if normal is None or not row["normal"]:
        return
    *holders, last = row["normal"].split("/")
    last = member if last == "*" else last
    if row["normal"] == "protocol":
        version["protocol"] = f"MQTT/{normal}"
        return
    target = version
    for token in holders:
        target = target.setdefault(token, {})
    target[last] = normal
    pointers[below(here, *holders, last)] = translated(place, pointers)


def _only(at: Draft, own_format: str, sections: dict[str, Any], version: dict[str, Any], here: Pointer) -> None:
    """Refuse members that the version of the protocol does not know (MQTT 3.1.1)."""
    for row in sections_of(own_format):
        section, member = row["path"].split("/")
        members = sections.get(section)
        if not row["only"] or row["only"] == version.get("protocol") or not isinstance(members, dict):
            continue
        for name in members if member == "*" else {member} & members.keys():
            told = f"`{name}` is of {row['only']} only, and this is {version.get('protocol')}"
            at.error(below(here, "definition", section, name), row["rule"], told, "Leave it out.")
