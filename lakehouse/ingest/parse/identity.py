"""Ids of entities and what stands in `meta`, as they are written."""

from __future__ import annotations

from typing import Any

from lakehouse.dialects.entityreader import NormalEntity, read_entity
from lakehouse.dialects.tables import family_of
from lakehouse.rules.one.table import Subject
from lakehouse.store.keys import LIFE
from lakehouse.text.names import WHOLE, Pointer
from lakehouse.text.problems import Problem
from lakehouse.text.xid import id_problem

_META = ("xref", "readonly", "compatibility", "authority", "deprecated", "defaultversionid", "defaultversionsticky", *LIFE)


def dependent(here: Pointer, cause: str) -> Problem:
    """Give the finding of what cannot be loaded since something else was refused (MSG-115)."""
    return Problem(here, "MSG-115", "error", f"it cannot be loaded: {cause}", "Fix the cause, which has its own finding.")


def subject_of(entity: str, read: NormalEntity, name: str, group: NormalEntity, family: str | None, dialect: str) -> Subject:
    """Give what the rules about one entity look at, with what its group supplies."""
    own = family or family_of(group.known.get("protocol"))
    return Subject(entity, read.known, name, own, group.known.get("envelope"), dialect, read.extensions)


def meta_of(entity: str, written: dict[str, Any]) -> dict[str, Any]:
    """Give what stands in `meta` of a message or schema."""
    meta: dict[str, Any] = read_entity(entity, written, WHOLE, None).known.get("meta", {})
    return meta


def split_meta(meta: dict[str, Any] | None, entity: str) -> NormalEntity:
    """Divide `meta` into attributes that are known there and extensions.

    `readonly: false` says what its absence says (core/spec.md, "`readonly` Attribute"), so the normal form leaves it out.
    """
    if not meta:
        return NormalEntity()
    known = {key: meta[key] for key in _META if key in meta and (key, meta[key]) != ("readonly", False)}
    rest = {key: value for key, value in meta.items() if key not in _META and key != f"{entity}id"}
    return NormalEntity(known=known, extensions=rest)


def id_syntax(text: str, rule: str, here: Pointer) -> list[Problem]:
    """Check that an id can be one."""
    problem = id_problem(text)
    return [Problem(here, rule, "error", problem, "Rename it.")] if problem else []


def id_problems(key: str, read: NormalEntity, attribute: str, rule: str, here: Pointer, seen: dict[str, str]) -> list[Problem]:
    """Check an id: its syntax, that the attribute equals the key, that no neighbour differs in letter case only (decision 1)."""
    problems = id_syntax(key, rule, here)
    declared = read.known.get(attribute, key)
    if declared != key:
        told = f"`{attribute}` is {declared!r}, and its key in the map is {key!r}"
        problems.append(
            Problem(Pointer(here + read.pointers.get(attribute, "/" + attribute)), rule, "error", told, "Make the two equal.")
        )
    read.known.pop(attribute, None)
    other = seen.setdefault(key.lower(), key)
    if other != key:
        told = f"the ids {other!r} and {key!r} differ in letter case only"
        problems.append(Problem(here, rule, "error", told, "Rename one of them."))
    return problems
