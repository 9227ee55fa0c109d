"""The spellings of all dialects become one normal form (1.0-rc2), told by the table `dialects.csv`.

A row of the table is an attribute of the normal form: of which entity, in which place, for which protocol (family), its
name, its type, the rule that asks for the type, and how else it is spelled, a column for each dialect and one for what is
seen elsewhere. A spelling is relative to its place; one that starts with `/` starts at the entity. `*` stands for all
members of a place, so `options/*` lifts the members of `options` into it.

Types: `computed` is dropped (an export computes it); `any` and `plain` are taken as they are; a `declaration` is an object
with `value`, `type`, `required` …, and a bare value becomes one; `attribute` is a declaration that must be written as one;
`declarations` is a map of them; `namedvalues` a map of them that may be written as a list of named items; `headers` the list.
Decisions 11 to 19 of docs/decisions.md.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from lakehouse.findings import Problem
from lakehouse.jsontext import pointer_of, same
from lakehouse.xid import as_xid

FAMILIES = ("AMQP", "HTTP", "KAFKA", "MQTT", "NATS")
_FORMS = ("entity", "place", "protocol", "name", "type", "rule")
_DECLARATION = {"type", "value", "required", "description", "specurl"}


class Attribute(NamedTuple):
    """A row of the table without its spellings."""

    name: str
    type: str
    rule: str


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


@cache
def table() -> list[dict[str, str]]:
    """Read `dialects.csv`: one dict a row."""
    text = files("lakehouse").joinpath("dialects.csv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def family_of(protocol: Any) -> str | None:
    """Give the family of a protocol: the part before `/`, in upper case (requirements.md 22)."""
    if not isinstance(protocol, str) or protocol.strip().lower() == "none":
        return None
    return protocol.split("/", 1)[0].strip().upper() or None


def family_of_options(options: Any) -> str | None:
    """Guess the family of message options whose message names no protocol, from names that only one family has."""
    if not isinstance(options, dict) or not options:
        return None
    names = [set(_places("message", family)["protocoloptions"].targets) for family in FAMILIES]
    fits = [family for family, known in zip(FAMILIES, names, strict=True) if set(options) <= known]
    return fits[0] if len(fits) == 1 else None


def read_entity(entity: str, written: dict[str, Any], pointer: str, family: str | None) -> Entity:
    """Bring one object of a document into normal form.

    Args:
        entity: entity of the table: registry, messagegroup, endpoint, message, schemagroup, schema.
        written: the object as written; it is not changed.
        pointer: JSON Pointer of the object in its document.
        family: protocol family whose options stand in it, when it names none itself.
    """
    return _Reading(entity, pointer).read(written, family)


class _Place(NamedTuple):
    """A place of an entity: by spelling there the attribute that is meant; lifts: objects whose members belong here."""

    targets: dict[str, Attribute]
    lifts: tuple[str, ...]
    everything: Attribute | None


@cache
def _places(entity: str, family: str | None) -> dict[str, _Place]:
    """Compile the rows of an entity that hold for a family."""
    places: dict[str, _Place] = {}
    for row in table():
        if row["entity"] != entity or row["protocol"] not in ("", family):
            continue
        place = places.setdefault(row["place"], _Place({}, (), None))
        attribute = Attribute(row["name"], row["type"], row["rule"])
        spelled = [word for column, cell in row.items() if column not in _FORMS for word in cell.split()]
        lifts = tuple(word[:-2] for word in spelled if word.endswith("/*") and not word.startswith("/"))
        if row["name"] == "*":
            places[row["place"]] = place._replace(
                lifts=(*place.lifts, *(word for word in lifts if word not in place.lifts)),
                everything=attribute if row["type"] != "plain" else place.everything,
            )
            continue
        for word in (row["name"], *spelled):
            if not word.startswith("/"):
                place.targets.setdefault(word, attribute)
    return places


@cache
def _moves(entity: str) -> dict[str, list[tuple[str, str, Attribute]]]:
    """Compile the spellings that start at the entity: first key → (rest of the path, place, attribute)."""
    moves: dict[str, list[tuple[str, str, Attribute]]] = {}
    for row in table():
        spelled = {word for column, cell in row.items() if column not in _FORMS for word in cell.split() if word.startswith("/")}
        if row["entity"] == entity:
            for word in sorted(spelled, reverse=True):  # named members before `*`
                key, _, rest = word[1:].partition("/")
                moves.setdefault(key, []).append((rest, row["place"], Attribute(row["name"], row["type"], row["rule"])))
    for targets in moves.values():
        targets.sort(key=lambda target: target[0] == "*")
    return moves


class _Reading:
    """One object on its way into normal form."""

    def __init__(self, entity: str, pointer: str) -> None:
        self.entity = entity
        self.pointer = pointer
        self.found = Entity()

    def read(self, written: dict[str, Any], family: str | None) -> Entity:
        top = _places(self.entity, None)[""]
        moves = _moves(self.entity)
        moved: list[tuple[str, str, Attribute, Any, str]] = []
        for key, value in written.items():
            if key in moves and self._moves_away(key, value, moves[key], moved):
                continue
            attribute = top.targets.get(key)
            if attribute is None:
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
        if attribute.type == "computed" or value is None:
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
        where = "/" + key if "/" in key else pointer_of(key)
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
        rows = _places(self.entity, family if family in FAMILIES else None).get(place)
        if rows is None:
            return written
        where = self.found.pointers.get(place, "/" + place)
        normal: dict[str, Any] = {}
        for key, value, at in self._lifted(rows, place, written, where):
            attribute = rows.targets.get(key) or (rows.everything and rows.everything._replace(name=key))
            if attribute is None:
                normal.setdefault(key, value)
            elif value is not None and attribute.type != "computed":
                if key != attribute.name:
                    self._spelled(f"{place}/{key}", f"{place}/{attribute.name}")
                where_written = self.found.pointers.get(f"{place}/{attribute.name}", at)
                coerced = self._coerce(attribute, value, where_written, f"{place}/{attribute.name}")
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

    def _lifted(self, rows: _Place, place: str, written: dict[str, Any], where: str) -> list[tuple[str, Any, str]]:
        """Give the members of a place, the direct ones first, then those of its wrappers (END-050, MSG-234, END-127)."""
        direct: list[tuple[str, Any, str]] = []
        lifted: list[tuple[str, Any, str]] = []
        for key, value in written.items():
            at = where + pointer_of(key)
            wraps = key in rows.lifts and isinstance(value, dict) and not (key == "attributes" and _is_declaration(value))
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

    def _coerce(self, attribute: Attribute, value: Any, where: str, path: str = "") -> Any:
        """Check the type of a value and bring it into normal form; None when it is refused or absent."""
        coerce = _COERCIONS.get(attribute.type)
        if coerce is None:
            return value
        return coerce(self, attribute, value, where, path or attribute.name)

    def wrong(self, attribute: Attribute, value: Any, where: str, wanted: str) -> None:
        """Note an error: the value is of another type than the specification's."""
        self._told(
            where, attribute.rule, "error", f"`{attribute.name}` is {_kind_of(value)} and must be {wanted}", f"Write {wanted}."
        )

    def _told(self, where: str, rule: str, severity: str, message: str, hint: str) -> None:
        self.found.problems.append(Problem(self.pointer + where, rule, severity, message, hint))

    def warn(self, where: str, rule: str, message: str, hint: str) -> None:
        """Note a warning."""
        self._told(where, rule, "warning", message, hint)

    def _spelled(self, spelled: str, normal: str) -> None:
        self.found.spellings[f"{self.entity}: {spelled} → {normal}"] += 1

    def respelled(self, spelled: str, normal: str) -> None:
        """Count a value (not a name) that was written otherwise."""
        self._spelled(spelled, normal)


def _is_declaration(value: dict[str, Any]) -> bool:
    """Tell a declaration from a map of declarations, which may hold one of `type` too (requirements.md 7)."""
    plain = all(not isinstance(member, dict) for key, member in value.items() if key != "value")
    return bool(value) and value.keys() <= _DECLARATION and plain


def _kind_of(value: Any) -> str:
    for kind, name in ((bool, "a boolean"), (str, "a string"), (int, "a number"), (dict, "an object"), (list, "an array")):
        if isinstance(value, kind):
            return f"{name} ({value!r})" if kind in (bool, str, int) and len(repr(value)) < 60 else name
    return "null" if value is None else f"a number ({value})"


_Coercion = Callable[[_Reading, Attribute, Any, str, str], Any]


def _typed(kind: type, wanted: str) -> _Coercion:
    def coerce(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        return reading.wrong(attribute, value, where, wanted)

    return coerce


def _uinteger(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63:
        return value
    return reading.wrong(attribute, value, where, "an unsigned integer below 2^63")


def _protocol(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Write a known protocol's name as the specification does; the text "None" is absent (decision 14, MSG-375)."""
    if not isinstance(value, str):
        return reading.wrong(attribute, value, where, "a string")
    if value.strip().lower() == "none":
        return reading.respelled('protocol "None"', "absent")
    name, slash, version = value.partition("/")
    if name.upper() in FAMILIES and name != name.upper():
        reading.respelled(f'protocol "{name}"', f'"{name.upper()}"')
        return name.upper() + slash + version
    return value


def _map(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    if not isinstance(value, dict):
        return reading.wrong(attribute, value, where, "a map of strings")
    for key, member in value.items():
        if not isinstance(member, str):
            reading.wrong(attribute._replace(name=f"{attribute.name}.{key}"), member, where + pointer_of(key), "a string")
    return value


def _strings(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take an array of strings; one bare string becomes an array (END-057)."""
    if isinstance(value, str):
        reading.respelled(f"{path} as a string", "an array")
        return [value]
    if isinstance(value, list) and all(isinstance(member, str) for member in value):
        return value
    return reading.wrong(attribute, value, where, "an array of strings")


def _xid(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Turn a reference into an XID; one that leads to another host stays as written (requirements.md 6)."""
    if not isinstance(value, str):
        return reading.wrong(attribute, value, where, "an XID")
    xid = as_xid(value)
    if xid is not None and xid != value:
        reading.respelled(f"{path} #/…", "an XID")
    return xid or value


def _xids(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    references = _strings(reading, attribute, value, where, path)
    if references is None:
        return None
    return [_xid(reading, attribute, reference, where, path) for reference in references]


def _addresses(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take addresses as objects with `uri`; older spellings are a bare string and `url` (END-047)."""
    if not isinstance(value, list):
        return reading.wrong(attribute, value, where, "an array of objects")
    addresses = []
    for index, item in enumerate(value):
        at = f"{where}/{index}"
        if isinstance(item, str):
            reading.respelled(f"{path}/[] as a string", f"{path}/[]/uri")
            addresses.append({"uri": item})
        elif not isinstance(item, dict):
            reading.wrong(attribute, item, at, "an object with `uri`")
        elif "url" in item:
            reading.respelled(f"{path}/[]/url", f"{path}/[]/uri")
            if item.get("uri", item["url"]) != item["url"]:
                reading.warn(at, "END-047", "`uri` and `url` differ; `uri` is taken", "Keep `uri`.")
            addresses.append(
                {"uri": item.get("uri", item["url"])} | {key: item[key] for key in item if key not in ("url", "uri")}
            )
        else:
            addresses.append(item)
    return addresses


def _declaration(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take a declaration; a bare value becomes one (decision 11, requirements.md 15)."""
    if not isinstance(value, dict):
        return {"value": value}
    return {key: member for key, member in value.items() if member is not None or key == "value"}


def _attribute(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    if not isinstance(value, dict):
        return reading.wrong(attribute, value, where, 'a declaration such as {"value": …}')
    return _declaration(reading, attribute, value, where, path)


def _declarations(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take a section: a map of declarations; the names of a section with fixed members are spelled as the table tells."""
    if not isinstance(value, dict):
        return reading.wrong(attribute, value, where, "a map of declarations")
    fixed = _places(reading.entity, "AMQP").get(path)
    names = {} if fixed is None else fixed.targets
    section: dict[str, Any] = {}
    for key, member in value.items():
        name = names[key].name if key in names else key
        if name != key:
            reading.respelled(f"{path}/{key}", f"{path}/{name}")
        if member is not None:
            declaration = _declaration(reading, attribute, member, where + pointer_of(key), path)
            if not same(section.setdefault(name, declaration), declaration):
                told = f"`{name}` is written twice with different values; the first is taken"
                reading.warn(where + pointer_of(key), attribute.rule, told, "Keep one of them.")
    return section


def _named_values(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take a map name → declaration; written as a list it becomes one when no name stands twice (requirements.md 14)."""
    if isinstance(value, list):
        names = [item.get("name") if isinstance(item, dict) else None for item in value]
        if not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
            return value
        reading.respelled(f"{path} as a list", "a map")
        return {item["name"]: _without_name(item, item["name"]) for item in value}
    if not isinstance(value, dict):
        return reading.wrong(attribute, value, where, "a map")
    if value.get("type") == "object" and isinstance(value.get("properties"), dict):
        reading.warn(
            where,
            attribute.rule,
            f"`{attribute.name}` is shaped like a JSON Schema; its `properties` are taken",
            "Write a map of name to declaration.",
        )
        value = value["properties"]
    return {
        key: _without_name(_declaration(reading, attribute, member, where, path), key)
        for key, member in value.items()
        if member is not None
    }


def _without_name(item: dict[str, Any], name: str) -> dict[str, Any]:
    return {
        key: member
        for key, member in item.items()
        if not (key == "name" and member == name) and (member is not None or key == "value")
    }


def _headers(reading: _Reading, attribute: Attribute, value: Any, where: str, path: str) -> Any:
    """Take a list of named items; a map, or items `{name: declaration}`, become one (WIP-056, decision 13)."""
    if isinstance(value, dict):
        reading.respelled(f"{path} as a map", "a list")
        return [{"name": name} | _declaration(reading, attribute, member, where, path) for name, member in value.items()]
    if not isinstance(value, list):
        return reading.wrong(attribute, value, where, "an array of objects with `name` and `value`")
    items = []
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            return reading.wrong(attribute, item, f"{where}/{index}", "an object with `name` and `value`")
        if len(item) == 1 and isinstance(inner := next(iter(item.values())), dict):
            reading.respelled(f"{path}/[] as {{name: declaration}}", f"{path}/[]/name")
            items.append({"name": next(iter(item))} | inner)
        else:
            items.append(item)
    return items


_COERCIONS: dict[str, _Coercion] = {
    "string": _typed(str, "a string"),
    "id": _typed(str, "a string"),
    "timestamp": _typed(str, "a timestamp (RFC 3339) in a string"),
    "boolean": _typed(bool, "true or false"),
    "object": _typed(dict, "an object"),
    "uinteger": _uinteger,
    "protocol": _protocol,
    "map": _map,
    "strings": _strings,
    "xid": _xid,
    "xids": _xids,
    "addresses": _addresses,
    "declaration": _declaration,
    "attribute": _attribute,
    "declarations": _declarations,
    "namedvalues": _named_values,
    "headers": _headers,
}
