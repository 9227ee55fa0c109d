"""The members of a nested place of an entity, such as `protocoloptions`, in normal form."""

from __future__ import annotations

from typing import Any

from lakehouse.dialects.coercions import Renamed, is_declaration, is_normal_declaration
from lakehouse.dialects.entity import Noting
from lakehouse.dialects.tables import FAMILIES, Attribute, Place, places_of
from lakehouse.text.jsontext import escaped, pointer_of, same

_DECLARATIONS = ("attribute", "declaration")


def read_place(noting: Noting, place: str, written: dict[str, Any], family: str | None, dialect: str) -> dict[str, Any]:
    """Bring the members of a nested place into normal form.

    Args:
        noting: notes what is found.
        place: as in the table: meta, envelopemetadata, protocoloptions.
        written: its members as written.
        family: protocol family of the entity.
        dialect: of the document.
    """
    rows = places_of(noting.entity, family if family in FAMILIES else None, dialect).get(place)
    if rows is None:
        return written
    normal: dict[str, Any] = {}
    is_wrapped = rows.lifts and not written.keys().isdisjoint(rows.lifts)
    members = _lifted(noting, rows, place, written) if is_wrapped else [(key, value, "") for key, value in written.items()]
    for key, value, at in members:
        attribute = rows.targets.get(key) or rows.everything
        if attribute is None:
            normal.setdefault(key, value)
        elif value is None or attribute.type == "computed":
            continue
        elif (
            attribute.type in _DECLARATIONS
            and attribute.name in (key, "*")
            and key not in normal
            and isinstance(value, dict)
            and is_normal_declaration(value)
        ):
            normal[key] = value  # as most are
        else:
            named = attribute if key in rows.targets else attribute._replace(name=key)
            _add(noting, named, place, key, value, at or _at(noting, place) + "/" + escaped(key), normal)
    return normal


def _add(noting: Noting, attribute: Attribute, place: str, key: str, value: Any, at: str, normal: dict[str, Any]) -> None:
    """Bring a member into normal form and add it, unless it stands there already."""
    path = f"{place}/{attribute.name}"
    if key != attribute.name:
        noting.respelled(f"{place}/{key}", path)
    where = noting.found.pointers.get(path, at)
    coerced = noting.coerce(attribute, value, where, path)
    if isinstance(coerced, Renamed):
        attribute, coerced = attribute._replace(name=coerced.name), coerced.value
    if attribute.name in normal and not same(normal[attribute.name], coerced):
        told = f"`{attribute.name}` is written twice with different values; the first is taken"
        noting.warn(where, attribute.rule, told, "Keep one of them.")
    elif coerced is not None:
        normal[attribute.name] = coerced


def _at(noting: Noting, place: str) -> str:
    """Give the pointer of a place, below the entity."""
    return noting.found.pointers.get(place, "/" + place)


def _lifted(noting: Noting, rows: Place, place: str, written: dict[str, Any]) -> list[tuple[str, Any, str]]:
    """Give the members of a place, the direct ones first, then those of its wrappers (END-050, MSG-234, END-127)."""
    direct: list[tuple[str, Any, str]] = []
    lifted: list[tuple[str, Any, str]] = []
    where = _at(noting, place)
    for key, value in written.items():
        at = f"{where}/{escaped(key)}"
        wraps = key in rows.lifts and isinstance(value, dict) and not (key == "attributes" and is_declaration(value))
        if wraps:
            noting.respelled(f"{place}/{key}/*", f"{place}/*")
            lifted.extend((inner, member, at + pointer_of(inner)) for inner, member in value.items())
        else:
            direct.append((key, value, at))
    names = {key for key, _, _ in direct}
    return direct + [member for member in lifted if member[0] not in names or _hides(noting, member)]


def _hides(noting: Noting, member: tuple[str, Any, str]) -> bool:
    told = f"`{member[0]}` is given here and one level up; the one above is taken"
    noting.warn(member[2], "END-050", told, "Keep the one above.")
    return False
