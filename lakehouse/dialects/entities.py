"""One object of a document becomes an entity in normal form: names by the tables of `dialects`, values by `coercions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lakehouse.dialects.coercions import COERCIONS, Renamed, is_declaration, kind_of
from lakehouse.dialects.tables import FAMILIES, Attribute, Place, dialect_rules, family_of, moves_of, places_of
from lakehouse.text.jsontext import escaped, pointer_of, same
from lakehouse.text.problems import ICON, Problem
from lakehouse.text.xid import as_xid

# Attributes without a column, whose type is checked all the same.
_EXTENSIONS = {"icon": Attribute("icon", "url", ICON)}


@dataclass
class Entity:
    """An entity in normal form.

    Attributes:
        known: attributes of the specification by normal name, without nulls; `meta` holds those of the meta object.
        extensions: all other attributes as written.
        children: collections by normal name: the key as written, and the value.
        pointers: for a known attribute that was spelled otherwise, the key as written.
        problems: what was found.
        spellings: how often each other spelling was met, as 'entity: spelled → normal'.
    """

    known: dict[str, Any] = field(default_factory=dict)
    extensions: dict[str, Any] = field(default_factory=dict)
    children: dict[str, tuple[str, Any]] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    spellings: Counter[str] = field(default_factory=Counter)


def read_entity(entity: str, written: dict[str, Any], pointer: str, family: str | None, dialect: str = "") -> Entity:
    """Bring one object of a document into normal form.

    Args:
        entity: entity of the table: registry, messagegroup, endpoint, message, schemagroup, schema.
        written: the object as written; it is not changed.
        pointer: JSON Pointer of the object in its document.
        family: protocol family whose options stand in it, when it names none itself.
        dialect: of the document; '' when it is not told.
    """
    reading = _Reading(entity, pointer, dialect)
    found = reading.read(written, family)
    reading.check_dialect()
    return found


class _Reading:
    """One object on its way into normal form."""

    def __init__(self, entity: str, pointer: str, dialect: str) -> None:
        self.entity = entity
        self.pointer = pointer
        self.dialect = dialect
        self.found = Entity()

    def read(self, written: dict[str, Any], family: str | None) -> Entity:
        top = places_of(self.entity, None)[""]
        moves = moves_of(self.entity)
        moved: list[tuple[str, str, Attribute, Any, str]] = []
        for key, value in written.items():
            if key in moves and self._moves_away(key, value, moves[key], moved):
                continue
            attribute = top.targets.get(key)
            if attribute is None:
                checked = _EXTENSIONS.get(key)
                if checked is None or value is None or self._coerce(checked, value, pointer_of(key)) is not None:
                    self.found.extensions[key] = value
            elif key == "format" and attribute.name in ("envelope", "protocol"):
                self._known(top.targets["envelope" if family_of(value) not in FAMILIES else "protocol"], key, value)
            else:
                self._known(attribute, key, value)
        for _key, place, attribute, value, where in moved:
            self._put(place, attribute, value, where)
        known = self.found.known
        own = family_of(known.get("protocol")) or family
        for place in ("meta", "envelopemetadata", "protocoloptions"):
            if isinstance(known.get(place), dict):
                known[place] = self._place(place, known[place], own)
        return self.found

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
            self._spelled(where[1:], f"{place}/{attribute.name}")
            return
        target = self.found.known.setdefault(place, {})
        if not isinstance(target, dict):
            return
        target = self.found.known[place] = dict(target)
        self._spelled(where[1:], f"{place}/{attribute.name}")
        if attribute.name not in target:
            target[attribute.name] = value
            self.found.pointers[f"{place}/{attribute.name}"] = where
        elif not same(target[attribute.name], value):
            self._told(
                where,
                attribute.rule,
                "warning",
                f"`{attribute.name}` stands here and in `{place}` with another value, which is taken",
                "Keep the one in its place.",
            )

    def _known(self, attribute: Attribute, key: str, value: Any) -> None:
        name = attribute.name
        if value is None or attribute.type == "computed":
            return
        where = "/" + key  # a name of the table, or a path of two
        if attribute.type == "entities":
            if name in self.found.children:
                self._told(where, attribute.rule, "error", f"`{name}` is written in two spellings", f"Keep `{name}` only.")
            self.found.children[name] = (key, value)
            return
        if key != name:
            self._spelled(key, name)
        if name in self.found.known:
            coerced = self._coerce(attribute, value, where)
            self._twice(attribute, key, coerced, where)
            if key != name:
                return
            self.found.pointers.pop(name, None)
        else:
            coerced = self._coerce(attribute, value, where)
        if coerced is not None:
            self.found.known[name] = coerced
            if key != name:
                self.found.pointers[name] = where

    def _twice(self, attribute: Attribute, key: str, value: Any, where: str) -> None:
        if value is not None and not same(value, self.found.known[attribute.name]):
            taken = f"`{attribute.name}`" if key == attribute.name else "the other one"
            self._told(
                where,
                attribute.rule,
                "warning",
                f"`{attribute.name}` is written in two spellings with different values; {taken} is taken",
                f"Keep `{attribute.name}` only.",
            )

    def _place(self, place: str, written: dict[str, Any], family: str | None) -> dict[str, Any]:
        """Bring the members of a nested place into normal form."""
        rows = places_of(self.entity, family if family in FAMILIES else None, self.dialect).get(place)
        if rows is None:
            return written
        where = self.found.pointers.get(place, "/" + place)
        normal: dict[str, Any] = {}
        for key, value, at in self._lifted(rows, place, written, where):
            attribute = rows.targets.get(key) or (rows.everything and Attribute(key, *rows.everything[1:]))
            if attribute is None:
                normal.setdefault(key, value)
            elif value is not None and attribute.type != "computed":
                if key != attribute.name:
                    self._spelled(f"{place}/{key}", f"{place}/{attribute.name}")
                where_written = self.found.pointers.get(f"{place}/{attribute.name}", at)
                coerced = self._coerce(attribute, value, where_written, f"{place}/{attribute.name}")
                if isinstance(coerced, Renamed):
                    attribute, coerced = attribute._replace(name=coerced.name), coerced.value
                if attribute.name in normal and not same(normal[attribute.name], coerced):
                    self._told(
                        where_written,
                        attribute.rule,
                        "warning",
                        f"`{attribute.name}` is written twice with different values; the first is taken",
                        "Keep one of them.",
                    )
                elif coerced is not None:
                    normal[attribute.name] = coerced
        return normal

    def _lifted(self, rows: Place, place: str, written: dict[str, Any], where: str) -> list[tuple[str, Any, str]]:
        """Give the members of a place, the direct ones first, then those of its wrappers (END-050, MSG-234, END-127)."""
        direct: list[tuple[str, Any, str]] = []
        lifted: list[tuple[str, Any, str]] = []
        for key, value in written.items():
            at = f"{where}/{escaped(key)}"
            wraps = key in rows.lifts and isinstance(value, dict) and not (key == "attributes" and is_declaration(value))
            if wraps:
                self._spelled(f"{place}/{key}/*", f"{place}/*")
                lifted.extend((inner, member, at + pointer_of(inner)) for inner, member in value.items())
            else:
                direct.append((key, value, at))
        names = {key for key, _, _ in direct}
        return direct + [member for member in lifted if member[0] not in names or self._hides(member)]

    def _hides(self, member: tuple[str, Any, str]) -> bool:
        self._told(
            member[2],
            "END-050",
            "warning",
            f"`{member[0]}` stands here and one level up; the one above is taken",
            "Keep the one above.",
        )
        return False

    def check_dialect(self) -> None:
        """Tell what only the document's dialect asks for: warnings, since the normal form does without."""
        for row in dialect_rules(self.dialect, self.entity):
            paths = row["attributes"].split()
            if not _TESTS[row["test"]]([self._at(path) for path in paths]):
                where = self.found.pointers.get(paths[0], "/" + paths[0]) if self._at(paths[0]) is not None else ""
                self._told(where, row["rule"], "warning", row["message"], row["hint"])

    def _at(self, path: str) -> Any:
        value: Any = self.found.extensions | self.found.known
        for token in path.split("/"):
            value = value.get(token) if isinstance(value, dict) else None
        return value

    def _coerce(self, attribute: Attribute, value: Any, where: str, path: str = "") -> Any:
        """Check the type of a value and bring it into normal form; None when it is refused or absent."""
        coerce = COERCIONS.get(attribute.type)
        if coerce is None:
            return value
        return coerce(self, attribute, value, where, path or attribute.name)

    def wrong(self, attribute: Attribute, value: Any, where: str, wanted: str) -> None:
        """Note an error: the value is of another type than the specification's."""
        self._told(
            where, attribute.rule, "error", f"`{attribute.name}` is {kind_of(value)} and must be {wanted}", f"Write {wanted}."
        )

    def leave_out(self, attribute: Attribute, value: Any, where: str, wanted: str) -> None:
        """Note an error that takes nothing out: the attribute is not in the normal form, and stays in `raw`."""
        left_out = f"`{attribute.name.split('.')[0]}` is left out"
        told = f"`{attribute.name}` is {kind_of(value)} and must be {wanted}; {left_out}"
        self._told(where, attribute.rule, "error", told, f"Write {wanted}.", kept=True)

    def _told(self, where: str, rule: str, severity: str, message: str, hint: str, *, kept: bool = False) -> None:
        self.found.problems.append(Problem(self.pointer + where, rule, severity, message, hint, kept=kept))

    def warn(self, where: str, rule: str, message: str, hint: str) -> None:
        """Note a warning."""
        self._told(where, rule, "warning", message, hint)

    def _spelled(self, spelled: str, normal: str) -> None:
        self.found.spellings[f"{self.entity}: {spelled} → {normal}"] += 1

    def respelled(self, spelled: str, normal: str) -> None:
        """Count a value (not a name) that was written otherwise."""
        self._spelled(spelled, normal)


# Tests of `dialect_rules.csv`: what the attributes' values must be, None when absent.
_TESTS: dict[str, Callable[[list[Any]], bool]] = {
    "one_of": lambda values: any(value is not None for value in values),
    "versioned": lambda values: not isinstance(values[0], str) or "/" in values[0],
    "needs": lambda values: values[0] is None or values[1] is not None,
    "filled": lambda values: values[0] != "",
    "agree": lambda values: None in values or values[0] == values[1],
}
