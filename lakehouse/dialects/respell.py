"""The normal form is written in another dialect: the way back of `entities`, by the same tables.

A pure function over one entity with all that it holds, so that it works on a group as on a whole registry. What a dialect
cannot say is left out and told, never dropped silently; what it leaves to be computed (`dialect_lacks.csv`) is no loss.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from lakehouse.dialects.tables import Attribute, family_of, table
from lakehouse.dialects.versionorder import version_order
from lakehouse.text.jsontext import below, same
from lakehouse.text.names import WHOLE, Pointer

COLLECTIONS = {
    "messagegroups": "messagegroup",
    "endpoints": "endpoint",
    "schemagroups": "schemagroup",
    "messages": "message",
    "schemas": "schema",
}
_RESOURCE = frozenset(("versions", "meta"))  # a message or schema has them, and a Version has not
_PLACES = ("meta", "envelopemetadata", "protocoloptions")


class Loss(NamedTuple):
    """Something that a dialect cannot say: its pointer in the normal form, the rule, and what it is."""

    pointer: Pointer
    rule_id: str
    message: str


def respell(
    written: dict[str, Any], dialect: str, entity: str = "registry", family: str | None = None
) -> tuple[dict[str, Any], list[Loss]]:
    """Write an entity in normal form in a dialect that names an entity's attributes as xRegistry does.

    Args:
        written: the entity with what it holds: a registry, a group, a message ...; it is not changed.
        dialect: a column of `dialects.csv`; 1.0-rc2 is the normal form itself.
        entity: which entity of the table it is.
        family: protocol family of what holds it, when it cannot be combined.

    Returns:
        The entity in the dialect, and what could not be said.
    """
    losses: list[Loss] = []
    found = _Respelling(dialect, losses).write(entity, written, WHOLE, family)
    if entity == "registry" and "specversion" in found:
        found["specversion"] = dialect
    return found, losses


@cache
def _named(entity: str, family: str | None, dialect: str) -> dict[tuple[str, str], tuple[Attribute, str]]:
    """Compile the way back: (place, normal name) → the attribute, and how the dialect spells it."""
    found: dict[tuple[str, str], tuple[Attribute, str]] = {}
    for row in table():
        if row["entity"] == entity and row["protocol"] in ("", family):
            words = row.get(dialect, "").split()
            attribute = Attribute(row["name"], row["type"], row["rule"])
            found[row["place"], row["name"]] = (attribute, words[0] if words else row["name"])
    for row in table("dialect_types"):
        if (row["dialect"], row["entity"], row["protocol"]) == (dialect, entity, family):
            found[row["place"], row["name"]] = (Attribute(row["name"], row["type"], row["rule"]), row["name"])
    return found


@cache
def _lacks(dialect: str, entity: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Give what a dialect does not know of an entity: (place, name) → how, rule."""
    return {
        (row["place"], row["name"]): (row["how"], row["rule"])
        for row in table("dialect_lacks")
        if (row["dialect"], row["entity"]) == (dialect, entity)
    }


@cache
def _ways(dialect: str) -> dict[tuple[str, str], str]:
    return {(row["type"], row["protocol"]): row["how"] for row in table("dialect_writes") if row["dialect"] == dialect}


@cache
def _values(dialect: str) -> dict[tuple[str, str], str]:
    return {(row["member"], row["normal"]): row["written"] for row in table("dialect_values") if row["dialect"] == dialect}


class _Respelling:
    """A document on its way into a dialect."""

    def __init__(self, dialect: str, losses: list[Loss]) -> None:
        self.dialect = dialect
        self.losses = losses

    def write(
        self, entity: str, written: dict[str, Any], pointer: Pointer, family: str | None, implied: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        family = family_of(written.get("protocol")) or family
        named = _named(entity, family, self.dialect)
        found: dict[str, Any] = {}
        for name, value in written.items():
            at = below(pointer, name)
            if ("", name) not in named:
                found[name] = value
                continue
            attribute, spelled = named["", name]
            if self._left_out(entity, "", name, value, at, implied, is_version=_RESOURCE.isdisjoint(written)):
                continue
            if attribute.type == "entities" and isinstance(value, dict):
                found[spelled] = self._children(entity, name, value, at, family)
            elif name in _PLACES and isinstance(value, dict):
                self._place(entity, name, value, at, family, found)
            else:
                self._put(found, spelled, self._value(attribute, value, family, at))
        return found

    def _children(self, entity: str, name: str, members: dict[str, Any], at: Pointer, family: str | None) -> dict[str, Any]:
        child = COLLECTIONS.get(name, entity)
        implied: dict[str, dict[str, Any]] = {}
        if name == "versions":
            before: str | None = None
            for versionid in sorted(members, key=lambda versionid: version_order(versionid, members[versionid])):
                implied[versionid] = {"ancestor": before or versionid}
                before = versionid
        return {
            key: self.write(child, member, below(at, key), family, implied.get(key)) if isinstance(member, dict) else member
            for key, member in members.items()
        }

    def _left_out(
        self,
        entity: str,
        place: str,
        name: str,
        value: Any,
        at: Pointer,
        implied: dict[str, Any] | None = None,
        *,
        is_version: bool = False,
    ) -> bool:
        """Tell whether the dialect does not know an attribute: of this entity, or of one that is no Version."""
        how, rule = _lacks(self.dialect, entity).get((place, name), ("", ""))
        if how == "lost" or (how == "implied" and not same((implied or {}).get(name, value), value)):
            self.losses.append(Loss(at, rule, f"{self.dialect} has no `{name}` of a {entity}"))
        return how not in ("", "of Versions") or (how == "of Versions" and not is_version)

    def _place(
        self, entity: str, place: str, members: dict[str, Any], at: Pointer, family: str | None, found: dict[str, Any]
    ) -> None:
        """Write the members of a place: into the place as it is called, or where the dialect has them."""
        named = _named(entity, family, self.dialect)
        everything = named.get((place, "*"))
        inner: dict[str, Any] = {}
        moved = False
        for name, value in members.items():
            here = below(at, name)
            if self._left_out(entity, place, name, value, here):
                moved = True
                continue
            attribute, spelled = named.get((place, name), (None, name))
            if attribute is None and everything is not None and everything[0].type != "plain":
                attribute = everything[0]._replace(name=name)
            normal = value if attribute is None else self._value(attribute, value, family, here)
            if spelled.startswith("/"):
                moved = True
                self._put(found, spelled[1:], normal)
            else:
                inner[spelled] = normal
        self._binary_key(inner, at)
        if inner or not moved:
            found[named["", place][1]] = inner

    def _put(self, found: dict[str, Any], path: str, value: Any) -> None:
        *holders, last = path.split("/")
        for token in holders:
            found = found.setdefault(token, {})
        found[last] = value

    def _value(self, attribute: Attribute, value: Any, family: str | None, at: Pointer) -> Any:
        ways = _ways(self.dialect)
        how = ways.get((attribute.type, family or "")) or ways.get((attribute.type, ""), "")
        write = _WRITES.get(attribute.type)
        return value if write is None else write(self, how, value)

    def declaration(self, how: str, value: Any) -> Any:
        """Write a declaration: its values as the dialect spells them, and bare when only `value` is set and may stand so."""
        if not isinstance(value, dict):
            return {"value": self.member("value", value)} if how == "wrapped" else self.member("value", value)
        found = {name: self.member(name, member) for name, member in value.items()}
        is_bare = (
            how != "wrapped" and found.keys() == {"value"} and not isinstance(found["value"], dict) and found["value"] is not None
        )
        return found["value"] if is_bare else found

    def member(self, name: str, value: Any) -> Any:
        """Write a member of a declaration."""
        return _values(self.dialect).get((name, value), value) if isinstance(value, str) else value

    def _binary_key(self, options: dict[str, Any], at: Pointer) -> None:
        """Write the key of a Kafka record as base64, where the dialect has only that."""
        if ("binarykey", "KAFKA") not in _ways(self.dialect):
            return
        text = options["key"].get("value") if isinstance(options.get("key"), dict) else None
        if isinstance(text, str) and "{" not in text:  # a template stays as it is
            if text and text.isprintable():
                options["key"]["value"] = base64.b64encode(text.encode()).decode()
            elif not _is_text(text):
                self.losses.append(Loss(below(at, "key"), "WIP-059", f"{self.dialect} would read this `key` as other bytes"))
                del options["key"]
        coded = options.pop("key_base64", None)
        if coded is None:
            return
        declared = coded if isinstance(coded, dict) else {"value": coded}
        if "key" in options or not isinstance(declared.get("value"), str) or _is_text(declared["value"]):
            self.losses.append(Loss(below(at, "key_base64"), "WIP-059", f"{self.dialect} would read this `key_base64` as a text"))
        else:
            options["key"] = declared


def _is_text(text: str) -> bool:
    """Tell what a reader takes for a text: base64 of a readable one, a template, or what is no base64 at all."""
    try:
        decoded = base64.b64decode(text, validate=True).decode()
    except UnicodeDecodeError:
        return False
    except ValueError:
        return True
    return decoded != "" and decoded.isprintable()


def _declarations(writing: _Respelling, how: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: writing.declaration("wrapped" if how == "" else how, member) for name, member in value.items()}


def _named_values(writing: _Respelling, how: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: writing.declaration(how, member) for name, member in value.items()}


def _headers(writing: _Respelling, how: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    items = []
    for item in value:
        written = {name: writing.member(name, member) for name, member in item.items()} if isinstance(item, dict) else item
        if how == "keyed" and isinstance(written, dict) and isinstance(written.get("name"), str):
            written = {written["name"]: {name: member for name, member in written.items() if name != "name"}}
        items.append(written)
    return items


def _xid(writing: _Respelling, how: str, value: Any) -> Any:
    """Write a reference as a JSON Pointer, where the dialect has those."""
    is_pointer = how == "pointer" and isinstance(value, str) and value.startswith("/")
    return "#" + value.replace("~", "~0") if is_pointer else value


def _authorization(writing: _Respelling, how: str, value: Any) -> Any:
    return [value] if how == "list" and isinstance(value, dict) else value


def _key(writing: _Respelling, how: str, value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else {"value": value}


_Write = Callable[[_Respelling, str, Any], Any]
_WRITES: dict[str, _Write] = {
    "declaration": _Respelling.declaration,
    "attribute": lambda writing, how, value: writing.declaration("wrapped", value),
    "declarations": _declarations,
    "namedvalues": _named_values,
    "headers": _headers,
    "xid": _xid,
    "authorization": _authorization,
    "binarykey": _key,
}
