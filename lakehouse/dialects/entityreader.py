"""Reading of one object of a document into normal form: names by the tables of `dialects`, values by `coercions`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from lakehouse.dialects.coercions import COERCIONS, Coercion, Renamed, is_declaration, is_normal_declaration, kind_of
from lakehouse.dialects.schemadocuments import document_of
from lakehouse.dialects.tables import FAMILIES, Attribute, Move, Place, dialect_rules, family_of, moves_of, places_of
from lakehouse.text.jsontext import escaped, pointer_of, same
from lakehouse.text.names import Pointer
from lakehouse.text.problems import ICON, Problem
from lakehouse.text.values import decoded_base64
from lakehouse.text.xid import as_xid

_PLACES = ("meta", "envelopemetadata", "protocoloptions")
_NOT_PLAIN = ("computed", "entities")
_DECLARATIONS = ("attribute", "declaration")
# Attributes without a column, whose type is checked all the same.
_EXTENSIONS = {"icon": Attribute("icon", "url", ICON)}


@dataclass(slots=True)
class NormalEntity:
    """An entity in normal form.

    What is written in normal form already is not copied: values of `attributes` may be those of the document.

    Attributes:
        attributes: attributes of the specification by normal name, without nulls; `meta` holds those of the meta object.
        extensions: all other attributes as written.
        children: collections by normal name: the key as written, and the value.
        pointers: for a known attribute that was spelled otherwise, the key as written.
        problems: findings.
        spellings: how often each other spelling was met, as 'entity: spelled → normal'.
    """

    attributes: dict[str, Any] = field(default_factory=dict)
    extensions: dict[str, Any] = field(default_factory=dict)
    children: dict[str, tuple[str, Any]] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    spellings: dict[str, int] = field(default_factory=dict)


def read_entity(entity: str, written: dict[str, Any], pointer: Pointer, family: str | None, dialect: str = "") -> NormalEntity:
    """Return one object of a document in normal form.

    Args:
        entity: entity of the table: registry, messagegroup, endpoint, message, schemagroup, schema.
        written: the object as written; it is not changed.
        pointer: JSON Pointer of the object in its document.
        family: protocol family whose options the object holds, when it names none itself.
        dialect: of the document; '' when it is unknown.
    """
    reader = EntityReader(entity, pointer)
    reader.read(written)
    result = reader.entity
    own_family = family_of(result.attributes.get("protocol")) or family
    for place in _PLACES:
        if isinstance(result.attributes.get(place), dict):
            result.attributes[place] = reader.read_place(place, result.attributes[place], own_family, dialect)
    if entity == "schema" and "schemabase64" in result.extensions:
        _read_bytes(result)
    _check_dialect(reader, dialect_rules(dialect, entity))
    return result


def _read_bytes(schema: NormalEntity) -> None:
    """Convert a document in `schemabase64` to normal form; bytes that are not text stay in `schemabase64`."""
    coded, contenttype = schema.extensions["schemabase64"], schema.attributes.get("contenttype")
    content = decoded_base64(coded) if isinstance(coded, str) and coded and "schema" not in schema.attributes else None
    document = None if content is None else document_of(content, contenttype if isinstance(contenttype, str) else None)
    if document is not None:
        schema.attributes["schema"] = document
        schema.pointers["schema"] = "/schemabase64"
        del schema.extensions["schemabase64"]


def _check_dialect(reader: _Findings, rules: list[dict[str, str]]) -> None:
    """Report breaches of rules that only the document's dialect has, as warnings: the normal form does without."""
    if not rules:
        return
    entity = reader.entity
    attributes = entity.extensions | entity.attributes
    for rule in rules:
        paths = rule["attributes"].split()
        if not _TESTS[rule["test"]]([_value_at(attributes, path) for path in paths]):
            is_set = _value_at(attributes, paths[0]) is not None
            where = entity.pointers.get(paths[0], "/" + paths[0]) if is_set else ""
            reader.warn(where, rule["rule"], rule["message"], rule["hint"])


def _value_at(value: Any, path: str) -> Any:
    for token in path.split("/"):
        value = value.get(token) if isinstance(value, dict) else None
    return value


# Tests of `dialect_rules.csv`: what the attributes' values must be, None when absent.
_TESTS: dict[str, Callable[[list[Any]], bool]] = {
    "one_of": lambda values: any(value is not None for value in values),
    "versioned": lambda values: not isinstance(values[0], str) or "/" in values[0],
    "needs": lambda values: values[0] is None or values[1] is not None,
    "filled": lambda values: values[0] != "",
    "agree": lambda values: None in values or values[0] == values[1],
}


class _Plain(NamedTuple):
    """An attribute under its normal name that needs nothing but its coercion."""

    attribute: Attribute
    coerce: Coercion | None


@cache
def _plain_of(entity: str) -> dict[str, _Plain]:
    """Return the plain attributes of an entity by their names."""
    moves = moves_of(entity)
    targets = places_of(entity, None)[""].targets.items()
    plain = {key: attribute for key, attribute in targets if key == attribute.name and key not in moves}
    return {
        key: _Plain(attribute, COERCIONS.get(attribute.type))
        for key, attribute in plain.items()
        if attribute.type not in _NOT_PLAIN
    }


class _Moved(NamedTuple):
    """A member that is written at the top of an entity, and belongs to one of its places."""

    place: str
    attribute: Attribute
    value: Any
    where: str


class _Findings:
    """An entity that is read, its findings and counts of spellings; the `ProblemReporter` of the coercions.

    Args:
        name: entity of the table.
        pointer: JSON Pointer of the object in its document; pointers of methods are below it.
    """

    def __init__(self, name: str, pointer: Pointer) -> None:
        self.name = name
        self.pointer = pointer
        self.entity = NormalEntity()

    def coerce(self, attribute: Attribute, value: Any, where: str, path: str = "") -> Any:
        """Check the type of a value and return it in normal form; None when it is rejected or absent."""
        coerce = COERCIONS.get(attribute.type)
        if coerce is None:
            return value
        return coerce(self, attribute, value, where, path or attribute.name)

    def wrong(self, attribute: Attribute, value: Any, where: str, wanted: str) -> None:
        """Report an error: the value is of another type than the specification's."""
        message = f"`{attribute.name}` is {kind_of(value)} and must be {wanted}"
        self.report(where, attribute.rule, "error", message, f"Write {wanted}.")

    def leave_out(self, attribute: Attribute, value: Any, where: str, wanted: str) -> None:
        """Report an error that removes no entity: the attribute is not in the normal form, and stays in `raw`."""
        left_out = f"`{attribute.name.split('.')[0]}` is left out"
        message = f"`{attribute.name}` is {'empty' if value == '' else kind_of(value)} and must be {wanted}; {left_out}"
        self.report(where, attribute.rule, "error", message, f"Write {wanted}.", keeps_entity=True)

    def warn(self, where: str, rule: str, message: str, hint: str) -> None:
        """Report a warning."""
        self.report(where, rule, "warning", message, hint)

    def report(self, where: str, rule: str, severity: str, message: str, hint: str, *, keeps_entity: bool = False) -> None:
        """Add a finding at a JSON Pointer below the entity."""
        self.entity.problems.append(
            Problem(Pointer(self.pointer + where), rule, severity, message, hint, keeps_entity=keeps_entity)
        )

    def respelled(self, spelled: str, normal: str) -> None:
        """Count a name or a value that was written otherwise."""
        spelling = f"{self.name}: {spelled} → {normal}"
        self.entity.spellings[spelling] = self.entity.spellings.get(spelling, 0) + 1


class EntityReader(_Findings):
    """Reads one object into a `NormalEntity`."""

    # Attributes of the entity

    def read(self, written: dict[str, Any]) -> None:
        """Read the members of the object."""
        targets = places_of(self.name, None)[""].targets
        moves = moves_of(self.name)
        plain = _plain_of(self.name)
        attributes = self.entity.attributes
        moved: list[_Moved] = []
        for key, value in written.items():
            if key in plain and key not in attributes:
                attribute, coerce = plain[key]
                normal = value if value is None or coerce is None else coerce(self, attribute, value, "/" + key, key)
                if normal is not None:
                    attributes[key] = normal
                continue
            members = _moved_members(key, value, moves[key]) if key in moves else None
            if members is None:
                self._read_other(targets, key, value)
                continue
            for member in members:
                if member.place:
                    moved.append(member)
                else:
                    self._add_attribute(member.attribute, member.where[1:], member.value)
        for member in moved:
            self._put(member)

    def _read_other(self, targets: dict[str, Attribute], key: str, value: Any) -> None:
        """Read an attribute that is not plain, or none of the specification."""
        attribute = targets.get(key)
        if attribute is None:
            checked = _EXTENSIONS.get(key)
            if checked is None or value is None or self.coerce(checked, value, pointer_of(key)) is not None:
                self.entity.extensions[key] = value
        elif key == "format" and attribute.name in ("envelope", "protocol"):
            self._add_attribute(targets["envelope" if family_of(value) not in FAMILIES else "protocol"], key, value)
        else:
            self._add_attribute(attribute, key, value)

    def _put(self, member: _Moved) -> None:
        """Move a member to its place, unless the place has its own."""
        place, attribute, value, where = member
        if value is None:
            return
        if attribute.type == "computed":
            self.respelled(where[1:], f"{place}/{attribute.name}")
            return
        target = self.entity.attributes.setdefault(place, {})
        if not isinstance(target, dict):
            return
        target = self.entity.attributes[place] = dict(target)
        self.respelled(where[1:], f"{place}/{attribute.name}")
        if attribute.name not in target:
            target[attribute.name] = value
            self.entity.pointers[f"{place}/{attribute.name}"] = where
        elif not same(target[attribute.name], value):
            message = f"`{attribute.name}` is given here and in `{place}` with another value, which is taken"
            self.warn(where, attribute.rule, message, "Keep the one in its place.")

    def _add_attribute(self, attribute: Attribute, key: str, value: Any) -> None:
        name = attribute.name
        if value is None or attribute.type == "computed":
            return
        where = "/" + key  # a name of the table, or a path of two
        if attribute.type == "entities":
            if name in self.entity.children:
                self.report(where, attribute.rule, "error", f"`{name}` is written in two spellings", f"Keep `{name}` only.")
            self.entity.children[name] = (key, value)
            return
        if key != name:
            self.respelled(key, name)
        coerced = self.coerce(attribute, value, where)
        if name in self.entity.attributes:
            self._check_repeated(attribute, key, coerced, where)
            if key != name:
                return
            self.entity.pointers.pop(name, None)
        if coerced is not None:
            self.entity.attributes[name] = coerced
            if key != name:
                self.entity.pointers[name] = where

    def _check_repeated(self, attribute: Attribute, key: str, value: Any, where: str) -> None:
        if value is not None and not same(value, self.entity.attributes[attribute.name]):
            taken = f"`{attribute.name}`" if key == attribute.name else "the other one"
            message = f"`{attribute.name}` is written in two spellings with different values; {taken} is taken"
            self.warn(where, attribute.rule, message, f"Keep `{attribute.name}` only.")

    # Members of a place

    def read_place(self, place: str, written: dict[str, Any], family: str | None, dialect: str) -> dict[str, Any]:
        """Return the members of a nested place in normal form.

        Args:
            place: as in the table: meta, envelopemetadata, protocoloptions.
            written: its members as written.
            family: protocol family of the entity.
            dialect: of the document.
        """
        rows = places_of(self.name, family if family in FAMILIES else None, dialect).get(place)
        if rows is None:
            return written
        normal: dict[str, Any] = {}
        is_wrapped = rows.unwraps and not written.keys().isdisjoint(rows.unwraps)
        members = self._unwrapped(rows, place, written) if is_wrapped else [(key, value, "") for key, value in written.items()]
        for key, value, where in members:
            attribute = rows.targets.get(key) or rows.everything
            if attribute is None:
                normal.setdefault(key, value)
            elif value is None or attribute.type == "computed":
                continue
            elif key not in normal and _is_normal_member(attribute, key, value):
                normal[key] = value
            else:
                named = attribute if key in rows.targets else attribute._replace(name=key)
                self._add_member(named, place, key, value, where or self._pointer_of(place) + "/" + escaped(key), normal)
        return normal

    def _add_member(self, attribute: Attribute, place: str, key: str, value: Any, where: str, normal: dict[str, Any]) -> None:
        """Add a member in normal form, unless `normal` has it."""
        path = f"{place}/{attribute.name}"
        if key != attribute.name:
            self.respelled(f"{place}/{key}", path)
        where = self.entity.pointers.get(path, where)
        coerced = self.coerce(attribute, value, where, path)
        if isinstance(coerced, Renamed):
            attribute, coerced = attribute._replace(name=coerced.name), coerced.value
        if attribute.name in normal and not same(normal[attribute.name], coerced):
            message = f"`{attribute.name}` is written twice with different values; the first is taken"
            self.warn(where, attribute.rule, message, "Keep one of them.")
        elif coerced is not None:
            normal[attribute.name] = coerced

    def _pointer_of(self, place: str) -> str:
        """Return the pointer of a place, below the entity."""
        return self.entity.pointers.get(place, "/" + place)

    def _unwrapped(self, rows: Place, place: str, written: dict[str, Any]) -> list[tuple[str, Any, str]]:
        """Return the members of a place, the direct ones first, then those of its wrappers (END-050, MSG-234, END-127).

        A member of a wrapper that is given directly too is left out, with a warning.
        """
        direct: list[tuple[str, Any, str]] = []
        wrapped: list[tuple[str, Any, str]] = []
        for key, value in written.items():
            where = f"{self._pointer_of(place)}/{escaped(key)}"
            if key in rows.unwraps and isinstance(value, dict) and not (key == "attributes" and is_declaration(value)):
                self.respelled(f"{place}/{key}/*", f"{place}/*")
                wrapped.extend((inner, member, where + pointer_of(inner)) for inner, member in value.items())
            else:
                direct.append((key, value, where))
        names = {key for key, _, _ in direct}
        for key, _, where in wrapped:
            if key in names:
                message = f"`{key}` is given here and one level up; the one above is taken"
                self.warn(where, "END-050", message, "Keep the one above.")
        return direct + [member for member in wrapped if member[0] not in names]


def _moved_members(key: str, value: Any, moves: list[Move]) -> list[_Moved] | None:
    """Return the members of a top-level key that belong elsewhere; None: the key is an ordinary attribute."""
    where = pointer_of(key)
    first = moves[0]
    if not first.rest:  # the key itself moves
        if value is None:
            return []
        if key == "uri" and (not isinstance(value, str) or as_xid(value) is None):
            return None
        return [_Moved(first.place, first.attribute, value, where)]
    named = {move.rest: move for move in moves}
    if not isinstance(value, dict) or ("*" not in named and not value.keys() <= named.keys()):
        return None
    moved = []
    for member, inner in value.items():
        move = named.get(member) or named["*"]
        attribute = move.attribute if member in named else move.attribute._replace(name=member)
        moved.append(_Moved(move.place, attribute, inner, where + pointer_of(member)))
    return moved


def _is_normal_member(attribute: Attribute, key: str, value: Any) -> bool:
    """Return whether a member is a declaration in normal form already, as most are."""
    is_declared = attribute.type in _DECLARATIONS and attribute.name in (key, "*") and isinstance(value, dict)
    return is_declared and is_normal_declaration(value)
