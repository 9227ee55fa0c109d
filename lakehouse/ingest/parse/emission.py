"""Entities that were read become rows, or findings with the reason why they do not."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any, NamedTuple

from lakehouse.dialects.entityreader import NormalEntity, read_entity
from lakehouse.dialects.locate import locate
from lakehouse.dialects.tables import family_of
from lakehouse.ingest.parse.readings import TABLE_NAMES, Reading, make_row, take_life
from lakehouse.rules.declared import RULES
from lakehouse.rules.entity.constraints import Subject
from lakehouse.rules.entity.engine import NO_LABELS, PRESENCE, check_entity
from lakehouse.store.keys import LIFECYCLE, VERSION_KIND
from lakehouse.text.jsontext import as_written, below, escaped
from lakehouse.text.names import ROOT, Pointer, Xid
from lakehouse.text.problems import Finding, Problem
from lakehouse.text.xid import id_problem, xid_of_version


class Resource(NamedTuple):
    """A message or schema as it is written: its entity, its key, its XID, its JSON Pointer, its text, its group."""

    entity: str
    name: str
    xid: Xid
    here: Pointer
    written: dict[str, Any]
    group: NormalEntity


class Emission:
    """Adds to a reading what becomes of each entity: its row, or its refusal, with what was found in its text and by the rules.

    Args:
        reading: what is added to.
        text_problems: what reading the text found.
        dialect: of the document.
        rules: apply the rules about one entity, besides those of types and ids.
    """

    def __init__(self, reading: Reading, text_problems: list[Problem], dialect: str, *, rules: bool) -> None:
        self.reading = reading
        self.refusals = Refusals(reading)
        self.dialect = dialect
        self.rules = rules
        self.text_problems = text_problems
        # Errors by pointer, so that those below one are adjacent: an entity reads its own.
        self._text_errors = sorted(
            (f"{problem.pointer}/", n) for n, problem in enumerate(text_problems) if problem.severity == "error"
        )

    def emit(
        self,
        kind: str,
        xid: Xid,
        here: Pointer,
        written: dict[str, Any],
        read: NormalEntity,
        problems: list[Problem],
        *,
        keep_raw: bool = True,
    ) -> bool:
        """Emit an entity's row, or refuse it when there is an error; True when it was accepted."""
        if read.spellings:
            self.reading.spellings.update(read.spellings)
        life, life_problems = take_life(read.attributes, below(here, "meta") if kind in VERSION_KIND else here)
        every = [*problems, *read.problems, *life_problems]
        row = None
        if not has_error(every):
            try:
                row = make_row(kind, xid, life, read, written if keep_raw else None)
            except OverflowError as error:
                every.append(Problem(here, "MSG-104", "error", str(error), "Write a number that a double holds, or a string."))
        raw = as_written(written) if row is None else None
        for problem in every:
            self.refusals.report(
                kind, xid, problem, "kept" if row else "quarantined", raw if problem.severity == "error" else None
            )
        if row is None:
            self.refusals.reading.refuse(kind, xid)
            return False
        self.reading.rows.append(row)
        self.reading.entities[TABLE_NAMES[kind]] += 1
        return True

    def broken(self, subject: Subject, read: NormalEntity, *written: tuple[Pointer, dict[str, Any]]) -> list[Problem]:
        """Apply the rules about one entity, and show where they are broken in the document as written."""
        problems = []
        for path, rule_id, message, severity in check_entity(subject) if self.rules else ():
            if rule_id in PRESENCE and has_error(read.problems):
                continue  # what is missing was rejected for its type, with a finding
            if rule_id == NO_LABELS and any(problem.keeps_entity for problem in read.problems):
                continue
            rule = RULES[rule_id]
            where = locate(subject.entity, path, *written)
            problems.append(Problem(where, rule_id, severity or rule.severity, message, rule.hint))
        return problems

    def text_errors(self, here: Pointer, children: tuple[str, ...] = ()) -> list[Problem]:
        """Return the errors of the text in the entity at `here`, without those in entities of its collections."""
        if not self._text_errors:
            return []
        start = f"{here}/"
        collections = tuple(start + escaped(child) + "/" for child in children)
        inside = []
        for index in range(bisect_left(self._text_errors, (start, 0)), len(self._text_errors)):
            at, number = self._text_errors[index]
            if not at.startswith(start):
                break
            if not (at.startswith(collections) and at not in collections):
                inside.append(number)
        return [self.text_problems[number] for number in sorted(inside)]

    def respelled(self, entity: str, spelled: str, normal: str) -> None:
        """Count a name that was written otherwise."""
        if spelled != normal:
            self.reading.spellings[f"{entity}: {spelled} → {normal}"] += 1


class Refusals:
    """Adds findings, and counts of what is quarantined, to what was read of a document."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading

    def refuse_shape(self, kind: str, xid: Xid, here: Pointer, written: Any, rule: str) -> None:
        """Refuse what is not an object."""
        details = Problem(here, rule, "error", "it is not an object", "Write an object.")
        self.refuse(kind, xid, details, as_written(written))

    def refuse_dependent(self, kind: str, xid: Xid, here: Pointer, written: Any, cause: str) -> None:
        """Refuse what cannot live without an entity that was refused: a message or schema with its Versions, or a Version."""
        self.refuse(kind, xid, dependent(here, cause), as_written(written))
        if kind in VERSION_KIND:
            self.refuse_versions(kind, xid, here, written, cause)

    def refuse_versions(self, kind: str, xid: Xid, here: Pointer, written: Any, cause: str) -> None:
        """Refuse the Versions of a message or schema that was refused; one that names none has one."""
        if isinstance(written, dict) and "xref" in meta_of(kind, written):
            return  # an alias has no Versions
        versions = written.get("versions") if isinstance(written, dict) else None
        if isinstance(versions, dict) and versions:
            for versionid in versions:
                self.refuse(
                    VERSION_KIND[kind],
                    xid_of_version(xid, versionid),
                    dependent(below(here, "versions", versionid), cause),
                    None,
                )
        else:
            declared = written.get("versionid", written.get("defaultversionid")) if isinstance(written, dict) else None
            versionid = declared if isinstance(declared, str) else "1"
            self.refuse(VERSION_KIND[kind], xid_of_version(xid, versionid), dependent(here, cause), None)

    def refuse(self, kind: str, xid: Xid, problem: Problem, raw: str | None) -> None:
        """Refuse an entity for a problem, and keep its JSON."""
        self.reading.refuse(kind, xid)
        self.report(kind, xid, problem, "quarantined", raw)

    def report(self, kind: str, xid: Xid, problem: Problem, action: str, raw: str | None) -> None:
        """Add a finding about an entity; raw: its JSON, if the problem has none."""
        pointer, rule_id, severity, message, hint, own_raw, _ = problem
        self.reading.findings.append(Finding(kind, xid, pointer, rule_id, severity, action, message, hint, own_raw or raw))


_META = ("xref", "readonly", "compatibility", "authority", "deprecated", "defaultversionid", "defaultversionsticky", *LIFECYCLE)


def dependent(here: Pointer, cause: str) -> Problem:
    """Return the finding of an entity that cannot be loaded because another one was rejected (MSG-115)."""
    return Problem(here, "MSG-115", "error", f"it cannot be loaded: {cause}", "Fix the cause, which has its own finding.")


def subject_of(resource: Resource, read: NormalEntity, family: str | None, dialect: str) -> Subject:
    """Return what the rules check of a message or schema, or of one of its Versions, with what its group supplies."""
    entity, name, xid, _, _, group = resource
    protocol, envelope = group.attributes.get("protocol"), group.attributes.get("envelope")
    in_endpoint = entity == "message" and xid.startswith("/endpoints/")
    own = family or family_of(protocol)
    return Subject(entity, read.attributes, name, own, envelope, dialect, read.extensions, in_endpoint, protocol)


def meta_of(entity: str, written: dict[str, Any]) -> dict[str, Any]:
    """Return the members of `meta` of a message or schema."""
    meta: dict[str, Any] = read_entity(entity, written, ROOT, None).attributes.get("meta", {})
    return meta


def split_meta(meta: dict[str, Any] | None, entity: str) -> NormalEntity:
    """Divide `meta` into attributes that are known there and extensions.

    `readonly: false` says what its absence says (core/spec.md, "`readonly` Attribute"), so the normal form leaves it out.
    """
    if not meta:
        return NormalEntity()
    attributes = {key: meta[key] for key in _META if key in meta and (key, meta[key]) != ("readonly", False)}
    rest = {key: value for key, value in meta.items() if key not in _META and key != f"{entity}id"}
    return NormalEntity(attributes=attributes, extensions=rest)


def id_syntax(text: str, rule: str, here: Pointer) -> list[Problem]:
    """Check that an id can be one."""
    problem = id_problem(text)
    return [Problem(here, rule, "error", problem, "Rename it.")] if problem else []


def id_problems(key: str, read: NormalEntity, attribute: str, rule: str, here: Pointer, seen: dict[str, str]) -> list[Problem]:
    """Check an id: its syntax, that the attribute equals the key, that no neighbour differs in letter case only (decision 1)."""
    problems = id_syntax(key, rule, here)
    declared = read.attributes.get(attribute, key)
    if declared != key:
        message = f"`{attribute}` is {declared!r}, and its key in the map is {key!r}"
        problems.append(
            Problem(Pointer(here + read.pointers.get(attribute, "/" + attribute)), rule, "error", message, "Make the two equal.")
        )
    read.attributes.pop(attribute, None)
    other = seen.setdefault(key.lower(), key)
    if other != key:
        message = f"the ids {other!r} and {key!r} differ in letter case only"
        problems.append(Problem(here, rule, "error", message, "Rename one of them."))
    return problems


def has_error(problems: list[Problem]) -> bool:
    """Return whether one of the problems is an error that takes its entity out."""
    return bool(problems) and any(problem.severity == "error" and not problem.keeps_entity for problem in problems)
