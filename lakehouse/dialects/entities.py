"""One object of a document becomes an entity in normal form: names by the tables of `dialects`, values by `coercions`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from lakehouse.dialects.coercions import COERCIONS, Coercion
from lakehouse.dialects.entity import Entity, Noting
from lakehouse.dialects.places import read_place
from lakehouse.dialects.schemabytes import decoded_base64, document_of
from lakehouse.dialects.tables import FAMILIES, Attribute, dialect_rules, family_of, moves_of, places_of
from lakehouse.text.jsontext import pointer_of, same
from lakehouse.text.names import Pointer
from lakehouse.text.problems import ICON
from lakehouse.text.xid import as_xid

_PLACES = ("meta", "envelopemetadata", "protocoloptions")
_NOT_PLAIN = ("computed", "entities")
# Attributes without a column, whose type is checked all the same.
_EXTENSIONS = {"icon": Attribute("icon", "url", ICON)}


def read_entity(entity: str, written: dict[str, Any], pointer: Pointer, family: str | None, dialect: str = "") -> Entity:
    """Bring one object of a document into normal form.

    Args:
        entity: entity of the table: registry, messagegroup, endpoint, message, schemagroup, schema.
        written: the object as written; it is not changed.
        pointer: JSON Pointer of the object in its document.
        family: protocol family whose options stand in it, when it names none itself.
        dialect: of the document; '' when it is not told.
    """
    reading = _Reading(entity, pointer)
    reading.read(written)
    found = reading.found
    own = family_of(found.known.get("protocol")) or family
    for place in _PLACES:
        if isinstance(found.known.get(place), dict):
            found.known[place] = read_place(reading, place, found.known[place], own, dialect)
    if entity == "schema" and "schemabase64" in found.extensions:
        _read_bytes(found)
    asked = dialect_rules(dialect, entity)
    if asked:
        _check_dialect(reading, asked)
    return found


def _read_bytes(found: Entity) -> None:
    """Bring a document in `schemabase64` into normal form; bytes that are no text stay there."""
    coded, contenttype = found.extensions["schemabase64"], found.known.get("contenttype")
    content = decoded_base64(coded) if isinstance(coded, str) and coded and "schema" not in found.known else None
    document = None if content is None else document_of(content, contenttype if isinstance(contenttype, str) else None)
    if document is not None:
        found.known["schema"] = document
        found.pointers["schema"] = "/schemabase64"
        del found.extensions["schemabase64"]


def _check_dialect(noting: Noting, asked: list[dict[str, str]]) -> None:
    """Tell what only the document's dialect asks for: warnings, since the normal form does without."""
    found = noting.found
    everything = found.extensions | found.known
    for row in asked:
        paths = row["attributes"].split()
        if not _TESTS[row["test"]]([_at(everything, path) for path in paths]):
            where = found.pointers.get(paths[0], "/" + paths[0]) if _at(everything, paths[0]) is not None else ""
            noting.warn(where, row["rule"], row["message"], row["hint"])


def _at(value: Any, path: str) -> Any:
    for token in path.split("/"):
        value = value.get(token) if isinstance(value, dict) else None
    return value


class _Plain(NamedTuple):
    """An attribute that is written under its own name, where nothing else has to be looked at, and its coercion."""

    attribute: Attribute
    coerce: Coercion | None


@cache
def _plain_of(entity: str) -> dict[str, _Plain]:
    """Give the plain attributes of an entity by their names."""
    moves = moves_of(entity)
    targets = places_of(entity, None)[""].targets.items()
    fit = {key: one for key, one in targets if key == one.name and key not in moves and one.type not in _NOT_PLAIN}
    return {key: _Plain(attribute, COERCIONS.get(attribute.type)) for key, attribute in fit.items()}


class _Reading(Noting):
    """One object on its way into normal form."""

    def read(self, written: dict[str, Any]) -> None:
        top = places_of(self.entity, None)[""]
        moves = moves_of(self.entity)
        plain = _plain_of(self.entity)
        known = self.found.known
        moved: list[tuple[str, str, Attribute, Any, str]] = []
        for key, value in written.items():
            if key in plain and key not in known:
                attribute, coerce = plain[key]
                normal = value if value is None or coerce is None else coerce(self, attribute, value, "/" + key, key)
                if normal is not None:
                    known[key] = normal
            elif not (key in moves and self._moves_away(key, value, moves[key], moved)):
                self._read_other(top.targets, key, value)
        for _key, place, attribute, value, where in moved:
            self._put(place, attribute, value, where)

    def _read_other(self, targets: dict[str, Attribute], key: str, value: Any) -> None:
        """Read an attribute that is not plain, or none of the specification."""
        attribute = targets.get(key)
        if attribute is None:
            checked = _EXTENSIONS.get(key)
            if checked is None or value is None or self.coerce(checked, value, pointer_of(key)) is not None:
                self.found.extensions[key] = value
        elif key == "format" and attribute.name in ("envelope", "protocol"):
            self._known(targets["envelope" if family_of(value) not in FAMILIES else "protocol"], key, value)
        else:
            self._known(attribute, key, value)

    def _moves_away(
        self,
        key: str,
        value: Any,
        targets: list[tuple[str, str, Attribute]],
        moved: list[tuple[str, str, Attribute, Any, str]],
    ) -> bool:
        """Note the members of a top-level key that belong elsewhere; False leaves the key an ordinary attribute."""
        where = pointer_of(key)
        if not targets[0][0]:
            attribute = targets[0][2]
            if value is None:
                return True
            if key == "uri" and (not isinstance(value, str) or as_xid(value) is None):
                return False
            moved.append((key, targets[0][1], attribute, value, where))
            return True
        if not isinstance(value, dict):
            return False
        named = {rest: (place, attribute) for rest, place, attribute in targets}
        for member, inner in value.items():
            if member not in named and "*" not in named:
                return False
            place, attribute = named[member] if member in named else named["*"]
            named_attribute = attribute if member in named else attribute._replace(name=member)
            if place:
                moved.append((key, place, named_attribute, inner, where + pointer_of(member)))
            else:
                self._known(named_attribute, f"{key}/{member}", inner)
        return True

    def _put(self, place: str, attribute: Attribute, value: Any, where: str) -> None:
        """Put a moved member into its place, unless the place has its own."""
        if value is None:
            return
        if attribute.type == "computed":
            self.respelled(where[1:], f"{place}/{attribute.name}")
            return
        target = self.found.known.setdefault(place, {})
        if not isinstance(target, dict):
            return
        target = self.found.known[place] = dict(target)
        self.respelled(where[1:], f"{place}/{attribute.name}")
        if attribute.name not in target:
            target[attribute.name] = value
            self.found.pointers[f"{place}/{attribute.name}"] = where
        elif not same(target[attribute.name], value):
            self.told(
                where,
                attribute.rule,
                "warning",
                f"`{attribute.name}` is given here and in `{place}` with another value, which is taken",
                "Keep the one in its place.",
            )

    def _known(self, attribute: Attribute, key: str, value: Any) -> None:
        name = attribute.name
        if value is None or attribute.type == "computed":
            return
        where = "/" + key  # a name of the table, or a path of two
        if attribute.type == "entities":
            if name in self.found.children:
                self.told(where, attribute.rule, "error", f"`{name}` is written in two spellings", f"Keep `{name}` only.")
            self.found.children[name] = (key, value)
            return
        if key != name:
            self.respelled(key, name)
        if name in self.found.known:
            coerced = self.coerce(attribute, value, where)
            self._twice(attribute, key, coerced, where)
            if key != name:
                return
            self.found.pointers.pop(name, None)
        else:
            coerced = self.coerce(attribute, value, where)
        if coerced is not None:
            self.found.known[name] = coerced
            if key != name:
                self.found.pointers[name] = where

    def _twice(self, attribute: Attribute, key: str, value: Any, where: str) -> None:
        if value is not None and not same(value, self.found.known[attribute.name]):
            taken = f"`{attribute.name}`" if key == attribute.name else "the other one"
            self.told(
                where,
                attribute.rule,
                "warning",
                f"`{attribute.name}` is written in two spellings with different values; {taken} is taken",
                f"Keep `{attribute.name}` only.",
            )


# Tests of `dialect_rules.csv`: what the attributes' values must be, None when absent.
_TESTS: dict[str, Callable[[list[Any]], bool]] = {
    "one_of": lambda values: any(value is not None for value in values),
    "versioned": lambda values: not isinstance(values[0], str) or "/" in values[0],
    "needs": lambda values: values[0] is None or values[1] is not None,
    "filled": lambda values: values[0] != "",
    "agree": lambda values: None in values or values[0] == values[1],
}
