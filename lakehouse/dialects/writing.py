"""The normal form written in another dialect: the way back of `entityreader`, by the same tables.

A pure function over one entity with all that it holds, so that it works on a group as on a whole registry. What a dialect
cannot express is left out and reported; what it leaves to be computed (`dialect_lacks.csv`) is no loss.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from lakehouse.dialects.detection import DRAFT
from lakehouse.dialects.draft.writer import write_draft, write_drafts
from lakehouse.dialects.tables import WHOLE_DIALECTS, WRITABLE, Attribute, Loss, family_of, table
from lakehouse.dialects.versionorder import version_order
from lakehouse.text.jsontext import below, same
from lakehouse.text.names import ROOT, Pointer

ENTITIES_OF = {
    "messagegroups": "messagegroup",
    "endpoints": "endpoint",
    "schemagroups": "schemagroup",
    "messages": "message",
    "schemas": "schema",
}
_RESOURCE = frozenset(("versions", "meta"))  # a message or schema has them, and a Version has not
_PLACES = ("meta", "envelopemetadata", "protocoloptions")


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
        The entity in the dialect, and what could not be expressed.
    """
    losses: list[Loss] = []
    result = _DialectWriter(dialect, losses).write(entity, written, ROOT, family)
    if entity == "registry" and "specversion" in result:
        result["specversion"] = dialect
    return result, losses


@cache
def _named(entity: str, family: str | None, dialect: str) -> dict[tuple[str, str], tuple[Attribute, str]]:
    """Compile the way back: (place, normal name) → the attribute, and how the dialect spells it."""
    result: dict[tuple[str, str], tuple[Attribute, str]] = {}
    for row in table():
        if row["entity"] == entity and row["protocol"] in ("", family):
            words = row.get(dialect, "").split()
            attribute = Attribute(row["name"], row["type"], row["rule"])
            result[row["place"], row["name"]] = (attribute, words[0] if words else row["name"])
    for row in table("dialect_types"):
        if (row["dialect"], row["entity"], row["protocol"]) == (dialect, entity, family):
            result[row["place"], row["name"]] = (Attribute(row["name"], row["type"], row["rule"]), row["name"])
    return result


@cache
def _lacks(dialect: str, entity: str) -> dict[tuple[str, str], tuple[str, str]]:
    """Return what a dialect does not know of an entity: (place, name) → how, rule."""
    return {
        (row["place"], row["name"]): (row["how"], row["rule"])
        for row in table("dialect_lacks")
        if (row["dialect"], row["entity"]) == (dialect, entity)
    }


@cache
def _forms(dialect: str) -> dict[tuple[str, str], str]:
    return {(row["type"], row["protocol"]): row["how"] for row in table("dialect_writes") if row["dialect"] == dialect}


@cache
def _values(dialect: str) -> dict[tuple[str, str], str]:
    return {(row["member"], row["normal"]): row["written"] for row in table("dialect_values") if row["dialect"] == dialect}


class _DialectWriter:
    """A document on its way into a dialect."""

    def __init__(self, dialect: str, losses: list[Loss]) -> None:
        self.dialect = dialect
        self.losses = losses

    def write(
        self, entity: str, written: dict[str, Any], pointer: Pointer, family: str | None, implied: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        family = family_of(written.get("protocol")) or family
        named = _named(entity, family, self.dialect)
        result: dict[str, Any] = {}
        for name, value in written.items():
            item_pointer = below(pointer, name)
            if ("", name) not in named:
                result[name] = value
                continue
            attribute, spelled = named["", name]
            if self._left_out(entity, "", name, value, item_pointer, implied, is_version=_RESOURCE.isdisjoint(written)):
                continue
            if attribute.type == "entities" and isinstance(value, dict):
                result[spelled] = self._children(entity, name, value, item_pointer, family)
            elif name in _PLACES and isinstance(value, dict):
                self._place(entity, name, value, item_pointer, family, result)
            else:
                self._put(result, spelled, self._value(attribute, value, family, item_pointer))
        return result

    def _children(self, entity: str, name: str, members: dict[str, Any], pointer: Pointer, family: str | None) -> dict[str, Any]:
        child = ENTITIES_OF.get(name, entity)
        implied: dict[str, dict[str, Any]] = {}
        if name == "versions":
            before: str | None = None
            for versionid in sorted(members, key=lambda versionid: version_order(versionid, members[versionid])):
                implied[versionid] = {"ancestor": before or versionid}
                before = versionid
        return {
            key: self.write(child, member, below(pointer, key), family, implied.get(key)) if isinstance(member, dict) else member
            for key, member in members.items()
        }

    def _left_out(
        self,
        entity: str,
        place: str,
        name: str,
        value: Any,
        pointer: Pointer,
        implied: dict[str, Any] | None = None,
        *,
        is_version: bool = False,
    ) -> bool:
        """Return whether the dialect does not know an attribute: of this entity, or of one that is no Version."""
        how, rule = _lacks(self.dialect, entity).get((place, name), ("", ""))
        if how == "lost" or (how == "implied" and not same((implied or {}).get(name, value), value)):
            self.losses.append(Loss(pointer, rule, f"{self.dialect} has no `{name}` of a {entity}"))
        return how not in ("", "of Versions") or (how == "of Versions" and not is_version)

    def _place(
        self, entity: str, place: str, members: dict[str, Any], pointer: Pointer, family: str | None, result: dict[str, Any]
    ) -> None:
        """Write the members of a place: into the place as it is called, or where the dialect has them."""
        named = _named(entity, family, self.dialect)
        everything = named.get((place, "*"))
        inner: dict[str, Any] = {}
        moved = False
        for name, value in members.items():
            inner_pointer = below(pointer, name)
            if self._left_out(entity, place, name, value, inner_pointer):
                moved = True
                continue
            attribute, spelled = named.get((place, name), (None, name))
            if attribute is None and everything is not None and everything[0].type != "plain":
                attribute = everything[0]._replace(name=name)
            normal = value if attribute is None else self._value(attribute, value, family, inner_pointer)
            if spelled.startswith("/"):
                moved = True
                self._put(result, spelled[1:], normal)
            else:
                inner[spelled] = normal
        self._binary_key(inner, pointer)
        if inner or not moved:
            result[named["", place][1]] = inner

    def _put(self, result: dict[str, Any], path: str, value: Any) -> None:
        *holders, last = path.split("/")
        for token in holders:
            result = result.setdefault(token, {})
        result[last] = value

    def _value(self, attribute: Attribute, value: Any, family: str | None, pointer: Pointer) -> Any:
        forms = _forms(self.dialect)
        how = forms.get((attribute.type, family or "")) or forms.get((attribute.type, ""), "")
        write = _WRITES.get(attribute.type)
        return value if write is None else write(self, how, value)

    def declaration(self, how: str, value: Any) -> Any:
        """Write a declaration: its values as the dialect spells them, bare when only `value` is set and the dialect allows it."""
        if not isinstance(value, dict):
            return {"value": self.member("value", value)} if how == "wrapped" else self.member("value", value)
        result = {name: self.member(name, member) for name, member in value.items()}
        is_bare = (
            how != "wrapped"
            and result.keys() == {"value"}
            and not isinstance(result["value"], dict)
            and result["value"] is not None
        )
        return result["value"] if is_bare else result

    def member(self, name: str, value: Any) -> Any:
        """Write a member of a declaration."""
        return _values(self.dialect).get((name, value), value) if isinstance(value, str) else value

    def _binary_key(self, options: dict[str, Any], pointer: Pointer) -> None:
        """Write the key of a Kafka record as base64, where the dialect has only that."""
        if ("binarykey", "KAFKA") not in _forms(self.dialect):
            return
        text = options["key"].get("value") if isinstance(options.get("key"), dict) else None
        if isinstance(text, str) and "{" not in text:  # a template stays as it is
            if text and text.isprintable():
                options["key"]["value"] = base64.b64encode(text.encode()).decode()
            elif not _is_text(text):
                self.losses.append(Loss(below(pointer, "key"), "WIP-059", f"{self.dialect} would read this `key` as other bytes"))
                del options["key"]
        coded = options.pop("key_base64", None)
        if coded is None:
            return
        declared = coded if isinstance(coded, dict) else {"value": coded}
        if "key" in options or not isinstance(declared.get("value"), str) or _is_text(declared["value"]):
            self.losses.append(
                Loss(below(pointer, "key_base64"), "WIP-059", f"{self.dialect} would read this `key_base64` as a text")
            )
        else:
            options["key"] = declared


def _is_text(text: str) -> bool:
    """Return what a reader takes for a text: base64 of a readable one, a template, or what is no base64 at all."""
    try:
        decoded = base64.b64decode(text, validate=True).decode()
    except UnicodeDecodeError:
        return False
    except ValueError:
        return True
    return decoded != "" and decoded.isprintable()


def _declarations(writer: _DialectWriter, how: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: writer.declaration("wrapped" if how == "" else how, member) for name, member in value.items()}


def _named_values(writer: _DialectWriter, how: str, value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: writer.declaration(how, member) for name, member in value.items()}


def _headers(writer: _DialectWriter, how: str, value: Any) -> Any:
    if not isinstance(value, list):
        return value
    items = []
    for item in value:
        written = {name: writer.member(name, member) for name, member in item.items()} if isinstance(item, dict) else item
        if how == "keyed" and isinstance(written, dict) and isinstance(written.get("name"), str):
            written = {written["name"]: {name: member for name, member in written.items() if name != "name"}}
        items.append(written)
    return items


def _xid(writer: _DialectWriter, how: str, value: Any) -> Any:
    """Write a reference as a JSON Pointer, where the dialect has those."""
    is_pointer = how == "pointer" and isinstance(value, str) and value.startswith("/")
    return "#" + value.replace("~", "~0") if is_pointer else value


def _authorization(writer: _DialectWriter, how: str, value: Any) -> Any:
    return [value] if how == "list" and isinstance(value, dict) else value


def _key(writer: _DialectWriter, how: str, value: Any) -> Any:
    return dict(value) if isinstance(value, dict) else {"value": value}


_Write = Callable[[_DialectWriter, str, Any], Any]
_WRITES: dict[str, _Write] = {
    "declaration": _DialectWriter.declaration,
    "attribute": lambda writer, how, value: writer.declaration("wrapped", value),
    "declarations": _declarations,
    "namedvalues": _named_values,
    "headers": _headers,
    "xid": _xid,
    "authorization": _authorization,
    "binarykey": _key,
}


class Layout(NamedTuple):
    """How documents of a dialect are laid out.

    Attributes:
        collections: those of the root that it knows.
        is_array: the document is an array of groups, and not a registry with maps of them.
        has_urls: its entities hold URLs of entities.
        rule: what a collection that it does not know is lost by.
    """

    collections: tuple[str, ...] = ("endpoints", "messagegroups", "schemagroups")
    is_array: bool = False
    has_urls: bool = True
    rule: str = ""


# Dialects that do not lay things out as xRegistry does.
_LAYOUTS = {
    DRAFT: Layout(("messagegroups",), is_array=True, has_urls=False, rule="CAT-011"),
    **dict.fromkeys(WHOLE_DIALECTS, Layout(has_urls=False)),
}


def layout_of(dialect: str) -> Layout:
    """Return how documents of a dialect are laid out."""
    return _LAYOUTS.get(dialect, Layout())


_DRAFT_WRITERS: dict[str, Callable[[dict[str, Any]], tuple[Any, list[Loss]]]] = {
    "registry": write_drafts,
    "messagegroup": write_draft,
}


def _write_draft(value: dict[str, Any], entity: str) -> tuple[Any, list[Loss]]:
    if entity not in _DRAFT_WRITERS:
        return None, [loss_of_entity(DRAFT, entity)]
    return _DRAFT_WRITERS[entity](value)


def loss_of_entity(dialect: str, what: str) -> Loss:
    """Return the loss of an entity of a collection that the dialect does not know."""
    return Loss(ROOT, layout_of(dialect).rule, f"{dialect} has no {what}")


# Dialects that do not name things as xRegistry does have another writer.
_WRITERS: dict[str, Callable[[dict[str, Any], str], tuple[Any, list[Loss]]]] = {DRAFT: _write_draft}


def to_dialect(
    value: dict[str, Any], dialect: str, entity: str = "registry", family: str | None = None
) -> tuple[Any, list[Loss]]:
    """Write a document, or one entity of it, in a dialect.

    Args:
        value: in normal form, with all that it holds; it is not changed.
        dialect: one of WRITABLE.
        entity: registry (the document), messagegroup, endpoint, schemagroup, message or schema.
        family: protocol family of what holds the entity, when it cannot be combined.

    Returns:
        What is written (of the catalog draft: a group, or the array of a registry's groups; None when it has nothing of the
        kind), and what the dialect cannot express, with pointers into `value`.
    """
    if dialect not in WRITABLE:
        raise ValueError(f"{dialect!r} is none of {', '.join(WRITABLE)}")
    write = _WRITERS.get(dialect)
    return respell(value, dialect, entity, family) if write is None else write(value, entity)
