"""One registry document becomes rows: its entities in normal form, and what was found.

Runs on the executors. An error takes its entity out, and what cannot live without it (the messages of a group, the Versions
of a message); everything else of the document stays. What is taken out is reported with its raw JSON. Decisions 7 to 20.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lakehouse.dialects.detection import COLLECTIONS, dialect_of
from lakehouse.dialects.entityreader import NormalEntity, read_entity
from lakehouse.dialects.messagefamilies import Messages
from lakehouse.dialects.tables import DIALECTS, NORMAL
from lakehouse.ingest.parse.emission import Emission, id_problems
from lakehouse.ingest.parse.readings import Collection, Reading, Whole
from lakehouse.ingest.parse.resources import Resource, Resources
from lakehouse.rules.entity.constraints import Subject
from lakehouse.text.jsontext import as_written, below, pointer_of
from lakehouse.text.names import NO_XID, REGISTRY, WHOLE, Pointer, Xid
from lakehouse.text.problems import FAULT, LIMIT, STRICT, Finding, Problem
from lakehouse.text.streams import read_chunk
from lakehouse.text.xid import last_id, xid_of

_OTHER_SPECVERSIONS = frozenset(name for name in DIALECTS if name[0].isdigit()) - {NORMAL}  # others are no specversion
_GROUPS = {
    "messagegroups": Collection(
        "messagegroup", "group", "messagegroupid", "messages", "message", "MSG-020", "MSG-018", "MSG-036"
    ),
    "endpoints": Collection("endpoint", "endpoint", "endpointid", "messages", "message", "END-033", "END-031", "END-045"),
    "schemagroups": Collection("schemagroup", "group", "schemagroupid", "schemas", "schema", "MSG-020", "MSG-018", "MSG-036"),
}


def read_document(
    document: dict[str, Any], problems: list[Problem], dialect: str = "", *, rules: bool = True, whole: Whole | None = None
) -> Reading:
    """Read a registry document into rows.

    Args:
        document: the parsed document, for which `not_a_registry` gave None.
        problems: what reading the text and redacting found; an error takes out the entity at its pointer.
        dialect: of the document, for what only that one asks for.
        rules: apply the rules about one entity, besides those of types and ids.
        whole: the document that this one is a part of; None: it is whole.
    """
    return _Document(document, problems, dialect, rules, whole or Whole(Messages(lambda: [document]).find)).read()


def wrong_collection(document: Any) -> Problem | None:
    """Return the problem of the first collection, in any spelling, that is not a map (MSG-018, END-031), else None."""
    for key, value in document.items() if isinstance(document, dict) else ():
        if key in COLLECTIONS and value is not None and not isinstance(value, dict):
            message = f"`{key}` is {'an array' if isinstance(value, list) else 'a scalar'}, not a map"
            return Problem(pointer_of(key), _GROUPS[COLLECTIONS[key]].map_rule, "error", message, "Write a map keyed by id.")
    return None


class _Document:
    """A registry document: its root, and its groups with what they hold."""

    def __init__(self, document: dict[str, Any], problems: list[Problem], dialect: str, rules: bool, whole: Whole) -> None:
        self.document = document
        self.seen = whole.groups
        self.dialect = dialect or dialect_of(document, Counter())
        self.reading = Reading()
        self.emission = Emission(self.reading, problems, self.dialect, rules=rules)
        self.refusals = self.emission.refusals
        self.resources = Resources(self.emission, whole.find_message)

    def read(self) -> Reading:
        for problem in self.emission.text_problems:
            if problem.severity != "error":
                self.refusals.report("", NO_XID, problem, "kept", None)
        root = read_entity("registry", self.document, WHOLE, None, self.dialect)
        self._read_specversion(root)
        self.reading.registryid = root.attributes.get("registryid")
        written = {key: value for key, value in self.document.items() if key not in COLLECTIONS}
        self.reading.root = as_written(written)
        subject = Subject("registry", root.attributes, dialect=self.dialect, extensions=root.extensions)
        problems = [
            *self.emission.text_errors(WHOLE, tuple(COLLECTIONS)),
            *self.emission.broken(subject, root, (WHOLE, written)),
        ]
        self.emission.emit("registry", REGISTRY, WHOLE, written, root, problems)
        for key, value in self.document.items():
            if key in COLLECTIONS and value is not None:
                self.emission.respelled("registry", key, COLLECTIONS[key])
                self._read_groups(key, value, COLLECTIONS[key])
        return self.reading

    def _read_specversion(self, root: NormalEntity) -> None:
        """Set the root's specversion to that of the normal form (WIP-001); that of an unknown specification stays."""
        declared = root.attributes.get("specversion", NORMAL)
        if declared in _OTHER_SPECVERSIONS:
            self.emission.respelled("registry", f"specversion {declared}", NORMAL)
            declared = NORMAL
        root.attributes["specversion"] = declared

    def _read_groups(self, key: str, groups: Any, collection: str) -> None:
        shape = _GROUPS[collection]
        here = pointer_of(key)
        if not isinstance(groups, dict):
            problem = Problem(
                here, shape.map_rule, "error", f"`{key}` is not a map", "Write a map keyed by id.", as_written(groups)
            )
            self.refusals.report("registry", REGISTRY, problem, "quarantined", None)
            return
        seen = self.seen.setdefault(collection, {})
        earlier = set(seen.values())
        for groupid, written in groups.items():
            xid = xid_of(collection, groupid)
            at = below(here, groupid)
            if isinstance(written, dict):
                read = read_entity(shape.entity, written, at, None, self.dialect)
                ids = id_problems(groupid, read, shape.idattribute, shape.id_rule, at, seen)
                if groupid in earlier:
                    message = f"{xid} occurs twice in `{collection}`, or in both its spellings"
                    ids.append(Problem(at, shape.map_rule, "error", message, f"Keep it in `{collection}`."))
                self._read_group(shape, xid, at, written, read, ids)
            else:
                self.refusals.refuse_shape(shape.kind, xid, at, written, shape.map_rule)

    def _read_group(
        self, shape: Collection, xid: Xid, here: Pointer, written: dict[str, Any], read: NormalEntity, ids: list[Problem]
    ) -> None:
        key, members = read.children.get(shape.members, (shape.members, None))
        own = {name: value for name, value in written.items() if name != key}
        ident = last_id(xid)
        subject = Subject(shape.entity, read.attributes, ident, dialect=self.dialect, extensions=read.extensions)
        problems = [*ids, *self.emission.text_errors(here, (key,) if isinstance(members, dict) else ())]
        problems += self.emission.broken(subject, read, (here, written))
        if members is not None and not isinstance(members, dict):
            details = Problem(below(here, key), shape.members_rule, "error", f"`{key}` is not a map", "Write a map keyed by id.")
            problems.append(details)
            own, members = written, None
        accepted = self.emission.emit(shape.kind, xid, here, own, read, problems)
        self.emission.respelled(shape.entity, key, shape.members)
        seen: dict[str, str] = {}
        for name, member in (members or {}).items():
            at = below(here, key, name)
            member_xid = Xid(f"{xid}/{shape.members}/{name}")
            if not accepted:
                self.refusals.refuse_dependent(shape.member, member_xid, at, member, f"{xid}, which holds it, was refused")
            elif isinstance(member, dict):
                self.resources.read(Resource(shape.member, name, member_xid, at, member, read), seen)
            else:
                self.refusals.refuse_shape(shape.member, member_xid, at, member, shape.members_rule)
                self.refusals.refuse_versions(shape.member, member_xid, at, member, f"{member_xid} was refused")


CHUNK = 1 << 20  # bytes that are read at once
_MOST_ERRORS = 20
_PACKAGE = Path(__file__).parents[2]

Files = Mapping[str, str]
NONE: Files = {}


class ParseLimits(NamedTuple):
    """What holds for all documents: limits, whether an error refuses a document whole, the dialect when it is not detected.

    The limits are on bytes as stored, bytes out of a `.gz`, nesting, entities; above `stream` bytes a document is read part by
    part. `located`: documents that are known under another URI than that of their file: that URI → URI of the file. `roots`:
    folders out of which no document refers to a file; none: a document's own folder.
    """

    bytes: int
    unpacked: int
    depth: int
    entities: int
    stream: int
    strict: bool
    dialect: str | None = None
    located: Files = NONE
    roots: tuple[str, ...] = ()


class Rejected(Exception):
    """A document is refused whole: the rule, what is wrong, how to fix it."""

    def __init__(self, rule_id: str, message: str, hint: str) -> None:
        super().__init__(message)
        self.rule_id = rule_id
        self.message = message
        self.hint = hint


class Tally:
    """Counts entities and errors of a document against the limits: too many, or under `strict` an error, refuse it whole."""

    def __init__(self, limits: ParseLimits) -> None:
        self._limits = limits
        self._entities = 0
        self._errors = 0
        self._first: list[Finding] = []

    def add(self, reading: Reading) -> None:
        """Count a part of the document, or all of it."""
        self._entities += reading.entities.total() + reading.quarantined.total()
        if self._limits.strict:
            errors = [finding for finding in reading.findings if finding.severity == "error"]
            self._errors += len(errors)
            self._first += errors[: _MOST_ERRORS - len(self._first)]

    @property
    def is_over(self) -> bool:
        """Return whether the document will be rejected."""
        return self._entities > self._limits.entities or self._errors > 0

    def refuse(self) -> None:
        """Refuse the document when it is over a limit.

        Raises:
            Rejected: it is.
        """
        count, most = self._entities, self._limits.entities
        if count > most:
            raise Rejected(LIMIT, f"{count} entities, more than max_entities ({most})", "Split it, or raise the limit.")
        if self._errors:
            details = "; ".join(f"{finding.pointer}: {finding.rule_id}: {finding.message}" for finding in self._first)
            raise Rejected(
                STRICT, f"{self._errors} errors under --strict: {details}", "Fix them, or load the rest without --strict."
            )


def fault_of(error: BaseException) -> Rejected:
    """Return the rejection for an unforeseen error by its kind and place only, since its message may hold a secret."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _PACKAGE in Path(frame.filename).parents] or frames
    place = f" in {Path(own[-1].filename).name}, line {own[-1].lineno}" if own else ""
    message = f"reading it failed: {type(error).__name__}{place}"
    return Rejected(FAULT, message, "Report it, with what is unusual about the document.")


def read_up_to(stream: BinaryIO, size: int) -> bytes:
    """Read a stream until its end, or until `size` bytes are there."""
    chunks: list[bytes] = []
    left = size
    while left > 0 and (chunk := read_chunk(stream, min(left, CHUNK))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks)
