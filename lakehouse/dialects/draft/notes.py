"""What a document of the draft is converted into, and what is noted on the way."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from lakehouse.dialects.coercions import kind_of
from lakehouse.dialects.draft.attributes import ATTRIBUTES, ID, rows
from lakehouse.dialects.draft.numbers import Keyed
from lakehouse.text.jsontext import below
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.problems import Problem
from lakehouse.text.xid import xid_of


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
    told: list[tuple[Xid, Problem]] = field(default_factory=list)
    pointers: dict[Pointer, Pointer] = field(default_factory=dict)
    written: dict[Xid, Any] = field(default_factory=dict)


class Notes:
    """Notes what is found while a document is converted: in its members, its ids, its attributes."""

    def __init__(self, made: Converted, types: dict[str, str] | None = None) -> None:
        self.made = made
        self.types = {} if types is None else types  # of attributes, as they were met

    def error(self, pointer: Pointer, rule: str, message: str, hint: str) -> None:
        """Note an error of the entity at the pointer."""
        self.made.errors.append(Problem(pointer, rule, "error", message, hint))

    def leave_out(self, pointer: Pointer, rule: str, message: str, hint: str) -> None:
        """Note an error that takes nothing out: what is at the pointer is left out."""
        self.made.errors.append(Problem(pointer, rule, "error", message, hint, kept=True))

    def tell(self, pointer: Pointer, rule: str, severity: str, message: str, hint: str) -> None:
        """Note what takes nothing out."""
        xid = xid_of(*pointer.split("/")[1 : _depth(pointer) + 1])
        self.made.told.append((xid, Problem(pointer, rule, severity, message, hint)))

    def members(self, written: Any, here: Pointer, at: Pointer, name: str, rule: str) -> list[tuple[Pointer, Any]]:
        """Give the members of a map or an array, each with its pointer; a member of a map that has no id gets its key."""
        where = below(at, name)
        if written is None:
            return []
        if isinstance(written, list):
            return [(below(where, str(index)), member) for index, member in enumerate(written)]
        if isinstance(written, dict):
            return [(below(where, key), Keyed(member, key)) for key, member in written.items()]
        self.error(below(here, name), rule, f"`{name}` is {kind_of(written)}, neither a map nor an array", "Write a map.")
        return []

    def id_of(
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
            problem = (rules[4], f"the id {found!r} occurs twice", "Rename one of them.")
        name = key if key is not None else found if isinstance(found, str) and found else f"without-id-{len(taken) + 1}"
        unique, nth = name, 1
        while unique in taken:
            nth += 1
            unique = f"{name}~{nth}"
        return unique, problem

    def attributes(
        self, level: str, written: dict[str, Any], normal: dict[str, Any], here: Pointer, xid: Xid, only: tuple[str, ...] = ()
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


def _depth(pointer: Pointer) -> int:
    tokens = pointer.split("/")[1:]
    return 6 if tokens[4:5] == ["versions"] else 4 if tokens[2:3] == ["messages"] else 2
