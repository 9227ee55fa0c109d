"""Attributes that load as extensions, and whose name is nearly one of the specification's: `envelopmetadata` (TEXT-002)."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import Any, NamedTuple

from lakehouse.dialects.tables import FAMILIES, family_of, family_of_options, moves_of, places_of
from lakehouse.rules.entity.constraints import CLOUDEVENTS, ENVELOPE_NAMES, EntityViolation, Subject
from lakehouse.store.keys import LIFE
from lakehouse.text.problems import MISSPELLED

_CUTOFF = 0.85  # of the ratio of difflib
_DECLARATION = ("name", "type", "value", "required", "description", "specurl")
_OWN = "own"  # family of protocols that are in no table
# Names that are near a known one, and are common for something else.
_OTHERS = frozenset(("version", "icon", "documentationtext"))


def check_names(subject: Subject, *, is_event: bool) -> Iterator[EntityViolation]:
    """Find the misspelled names of an entity: of its attributes, its envelope's and its protocol's.

    A name whose known neighbour is set in the same place was chosen for something else.

    Args:
        subject: the entity.
        is_event: its envelope is CloudEvents.
    """
    entity, known = subject.entity, subject.known
    if subject.extensions:
        yield from _misspelled(subject.extensions, (), (entity, "", ""), known)
    metadata, options = known.get("envelopemetadata"), known.get("protocoloptions")
    if is_event and isinstance(metadata, dict):
        yield from _misspelled(metadata, ("envelopemetadata",), (entity, "envelopemetadata", CLOUDEVENTS), metadata)
    if entity in ("message", "endpoint") and isinstance(options, dict) and options:
        family = family_of(known.get("protocol")) or subject.family or family_of_options(options)
        family = family if family in FAMILIES else _OWN if family else ""
        yield from _misspelled(options, ("protocoloptions",), (entity, "protocoloptions", family), options)


def check_members(declaration: dict[str, Any], path: tuple[str, ...]) -> Iterator[EntityViolation]:
    """Find the misspelled members of a declared property."""
    yield from _misspelled(declaration, path, ("", "declaration", ""), declaration)


_Where = tuple[str, str, str]  # entity; place; family, the envelope's or the protocol's


class _KnownName(NamedTuple):
    """A name that a place knows: its canonical one, whether it is that of a map of entities, whether it is ever suggested."""

    name: str
    is_map: bool = False
    is_meant: bool = True


def _misspelled(
    written: dict[str, Any], path: tuple[str, ...], where: _Where, known: dict[str, Any]
) -> Iterator[EntityViolation]:
    names = _names(*where)
    for name, value in written.items():
        near = None if name in names else _near(name, where)
        if near is None or (names[near].is_map and not isinstance(value, dict)):
            continue
        if names[near].name not in known or names[near].name in LIFE:  # a published row has no dates among its attributes
            yield EntityViolation(
                (*path, name), MISSPELLED, f"`{name}` is not an attribute of the specification; did you mean `{near}`?"
            )


@lru_cache(maxsize=5_000)
def _near(name: str, where: _Where) -> str | None:
    meant = [one for one, known in _names(*where).items() if known.is_meant]
    return next(iter(get_close_matches(name, meant, 1, _CUTOFF)), None)


@cache
def _names(entity: str, place: str, family: str) -> dict[str, _KnownName]:
    """Return the attributes that may appear in a place, by each spelling."""
    fixed = {"declaration": _DECLARATION, "envelopemetadata": ENVELOPE_NAMES}.get(place)
    if fixed:
        return {name: _KnownName(name) for name in fixed}
    names = {name: _KnownName(name, is_meant=False) for name in _OTHERS}
    for one in ("message", "schema") if entity == "meta" else (entity,):
        for kind in FAMILIES if place == "protocoloptions" and not family else (family or None,):
            places = places_of(one, kind)
            for where in (place, "meta") if entity == "meta" else (place,):
                targets = places[where].targets if where in places else {}
                names |= {name: _KnownName(known.name, known.type == "entities") for name, known in targets.items()}
        if not place:
            names |= {name: _KnownName(name, is_meant=False) for name in moves_of(one) if name not in names}
    return names
