"""One registry document becomes rows: its entities in normal form, and what was found.

Runs on the executors: groups, and their messages and schemas, each with its Versions. An error takes its entity out, and what
cannot live without it (the messages of a group, the Versions of a message); everything else of the document stays. What is taken
out is reported with its raw JSON. Decisions 7 to 20.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lakehouse.dialects.detection import COLLECTIONS, dialect_of
from lakehouse.dialects.entityreader import NormalEntity, read_entity
from lakehouse.dialects.messagefamilies import FAMILY_MEMBERS, FindMessage, Messages, family_of_message, key_of_options
from lakehouse.dialects.tables import DIALECTS, NORMAL
from lakehouse.dialects.versionorder import version_order
from lakehouse.domain.relations import check_promise
from lakehouse.domain.versionchanges import PROMISES, ComparableVersion, comparable_version, earlier_versions
from lakehouse.domain.versions import choose_default
from lakehouse.ingest.parse.emission import (
    Emission,
    Resource,
    dependent,
    has_error,
    id_problems,
    id_syntax,
    split_meta,
    subject_of,
)
from lakehouse.ingest.parse.readings import Collection, Reading, Whole, take_life
from lakehouse.rules.declared import RULES
from lakehouse.rules.entity.constraints import Subject
from lakehouse.store.keys import LIFECYCLE, VERSION_KIND
from lakehouse.text.jsontext import as_written, below, canonical_body, pointer_of, same
from lakehouse.text.names import NO_XID, REGISTRY, ROOT, Pointer, Xid
from lakehouse.text.problems import FAULT, LIMIT, STRICT, Finding, Problem
from lakehouse.text.streams import read_chunk
from lakehouse.text.xid import last_id, xid_of, xid_of_version

_OTHER_SPECVERSIONS = frozenset(name for name in DIALECTS if name[0].isdigit()) - {NORMAL}  # others are no specversion
_GROUPS = {
    "messagegroups": Collection(
        "messagegroup", "group", "messagegroupid", "messages", "message", "MSG-020", "MSG-018", "MSG-036"
    ),
    "endpoints": Collection("endpoint", "endpoint", "endpointid", "messages", "message", "END-033", "END-031", "END-045"),
    "schemagroups": Collection("schemagroup", "group", "schemagroupid", "schemas", "schema", "MSG-020", "MSG-018", "MSG-036"),
}
CHUNK = 1 << 20  # bytes that are read at once
_MOST_ERRORS = 20
_PACKAGE = Path(__file__).parents[2]
Files = Mapping[str, str]
NONE: Files = {}


class Resources:
    """Reads messages and schemas.

    Args:
        emission: takes what becomes of them.
        find_message: gives the members of a message that determine its protocol, by XID.
    """

    def __init__(self, emission: Emission, find_message: FindMessage) -> None:
        self.emission = emission
        self.dialect = emission.dialect
        self.find_message = find_message

    def read(self, resource: Resource, seen: dict[str, str]) -> None:
        """Read a message or schema with its Versions.

        Args:
            resource: the message or schema.
            seen: ids of its neighbours so far, in lower case and as written.
        """
        entity, name, _, here, written, group = resource
        emission = self.emission
        problems: list[Problem] = []
        family = self._family(written, here, group, problems) if entity == "message" else None
        read = read_entity(entity, written, here, family, self.dialect)
        problems += id_problems(name, read, f"{entity}id", "MSG-037", here, seen)
        meta = split_meta(read.attributes.pop("meta", None), entity)
        if meta.attributes or meta.extensions:
            subject = Subject("meta", meta.attributes, dialect=self.dialect, extensions=meta.extensions)
            inner = written.get("meta")
            problems += emission.broken(
                subject, read, (here, written), (below(here, "meta"), inner if isinstance(inner, dict) else {})
            )
        key, members = read.children.get("versions", ("versions", None))
        if members is not None and not isinstance(members, dict):
            message = "`versions` is not a map"
            problems.append(Problem(below(here, key), "MSG-069", "error", message, "Write a map keyed by versionid."))
            members = None
        if "xref" in meta.attributes:
            self._read_alias(resource, read, meta, problems)
        elif members:
            self._read_versioned(resource, read, meta, (key, members), family, problems)
        else:
            declared = read.attributes.get("versionid", meta.attributes.get("defaultversionid", "1"))
            results = [*id_syntax(declared, "MSG-038", here), *emission.text_errors(here)]
            results += emission.broken(subject_of(resource, read, family, self.dialect), read, (here, written))
            self._emit_single(resource, meta, Version(declared, here, written, read, results), problems)

    def _read_alias(self, resource: Resource, read: NormalEntity, meta: NormalEntity, problems: list[Problem]) -> None:
        """An entity with `xref` stands for another one and has no Versions (decision 20)."""
        own = sorted(set(read.attributes) - {"versionid", *LIFECYCLE}) + sorted(read.extensions)
        if own or read.children:
            message = f"`xref` is set, so its own {', '.join(own or ['versions'])} is ignored"
            problems.append(Problem(resource.here, "MSG-096", "warning", message, "Leave out `xref`, or the attributes."))
        meta.problems, meta.spellings = read.problems, read.spellings
        self.emission.emit(
            resource.entity,
            resource.xid,
            resource.here,
            resource.written,
            meta,
            [*problems, *self.emission.text_errors(resource.here)],
        )

    def _read_versioned(
        self,
        resource: Resource,
        read: NormalEntity,
        meta: NormalEntity,
        children: tuple[str, dict[str, Any]],
        family: str | None,
        problems: list[Problem],
    ) -> None:
        entity, _, _, here, written, group = resource
        key, members = children
        problems += self.emission.text_errors(here, (key,))
        outer = {name: written[name] for name in FAMILY_MEMBERS if name in written}
        versions = self._read_versions(entity, below(here, key), members, group, outer)
        rest = {member: value for member, value in written.items() if member != key}
        default = default_version(entity, read, meta, versions, here, problems)
        fill_default(entity, read, default, problems)
        for version in versions:
            if version.read is not None:
                context = [(here, rest)] if version is default else []
                subject = subject_of(resource, version.read, family, self.dialect)
                version.problems.extend(self.emission.broken(subject, version.read, (version.pointer, version.written), *context))
        _check_promise(VERSION_KIND[entity], meta.attributes.get("compatibility"), versions)
        self._emit_versioned(resource._replace(written=rest), read, meta, versions, default, problems)

    def _read_versions(
        self, entity: str, here: Pointer, members: dict[str, Any], group: NormalEntity, outer: dict[str, Any]
    ) -> list[Version]:
        versions = []
        seen: dict[str, str] = {}
        for versionid, written in members.items():
            at = below(here, versionid)
            if isinstance(written, dict):
                problems: list[Problem] = []
                family = self._family(outer | written, at, group, problems) if entity == "message" else None
                read = read_entity(entity, written, at, family, self.dialect)
                version_meta = read.attributes.get("meta", {})
                if "deprecated" in version_meta:
                    read.attributes["deprecated"] = version_meta.pop("deprecated")
                if version_meta:
                    message = (
                        f"{', '.join(sorted(version_meta))} belongs to the {entity}, not to a Version, and is kept in raw only"
                    )
                    problems.append(Problem(at, "MSG-066", "warning", message, f"Write it in `meta` of the {entity}."))
                problems += id_problems(versionid, read, "versionid", "MSG-038", at, seen)
                problems += self.emission.text_errors(at)
                read.attributes.pop(f"{entity}id", None)
                versions.append(Version(versionid, at, written, read, problems))
            else:
                versions.append(Version(versionid, at, written, None, []))
        return sorted(versions, key=lambda version: version_order(version.versionid, version.read and version.read.attributes))

    def _emit_single(self, resource: Resource, meta: NormalEntity, version: Version, problems: list[Problem]) -> None:
        """Emit a message without `versions`: what it says of itself belongs to its only Version, and `raw` is there."""
        entity, _, xid, here, written, _ = resource
        emit, read = self.emission.emit, version.read
        assert read is not None
        kind, version_xid = VERSION_KIND[entity], xid_of_version(xid, version.versionid)
        meta.attributes["defaultversionid"] = version.versionid
        if has_error(problems) or has_error(take_life(dict(meta.attributes), here)[1]):
            emit(entity, xid, here, written, meta, problems, keep_raw=False)
            if version.broken:
                emit(kind, version_xid, here, written, read, version.problems)
            else:
                self.emission.refusals.refuse_dependent(kind, version_xid, here, written, f"{xid} was refused")
            return
        read.attributes["ancestor"] = read.attributes.get("ancestor", version.versionid)
        read.attributes["isdefault"] = True
        if not emit(kind, version_xid, here, written, read, version.problems):
            problems = [*problems, dependent(here, f"its only Version {version.versionid} was refused")]
        emit(entity, xid, here, written, meta, problems, keep_raw=False)

    def _emit_versioned(
        self,
        resource: Resource,
        read: NormalEntity,
        meta: NormalEntity,
        versions: list[Version],
        default: Version,
        problems: list[Problem],
    ) -> None:
        """Emit a message with `versions`; it falls with its default Version, since it shows nothing without."""
        entity, _, xid, here, written, _ = resource
        refusals = self.emission.refusals
        if default.broken:
            problems.append(dependent(here, f"its default Version {default.versionid} was refused"))
        meta.attributes["defaultversionid"] = default.versionid
        own = own_extensions(read, default)
        if own:
            subject = Subject("meta", {}, dialect=self.dialect, extensions=own)
            problems += self.emission.broken(subject, read, (here, written))
            meta.extensions |= own
        meta.problems, meta.spellings = read.problems, read.spellings
        accepted = self.emission.emit(entity, xid, here, written, meta, problems)
        kind = VERSION_KIND[entity]
        before: str | None = None
        for version in versions:
            version_xid = xid_of_version(xid, version.versionid)
            if version.read is None:
                refusals.refuse_shape(kind, version_xid, version.pointer, version.written, "MSG-069")
            elif not accepted and not version.broken:
                refusals.refuse_dependent(kind, version_xid, version.pointer, version.written, f"{xid} was refused")
            else:
                version.read.attributes |= {
                    "ancestor": version.read.attributes.get("ancestor", before or version.versionid),
                    "isdefault": version is default,
                }
                if self.emission.emit(kind, version_xid, version.pointer, version.written, version.read, version.problems):
                    before = version.versionid

    def _family(self, written: dict[str, Any], here: Pointer, group: NormalEntity, warned: list[Problem]) -> str | None:
        """Find the protocol family of a message, and warn of options for which none is named."""
        family = family_of_message(written, group.attributes.get("protocol"), self.find_message)
        if family is None:
            key = key_of_options(written)
            if written.get(key):
                message = f"`{key}` is given without a protocol; its options are kept as written"
                warned.append(Problem(below(here, key), "MSG-111", "warning", message, "Set `protocol`."))
        return family


def _check_promise(kind: str, compatibility: Any, versions: list[Version]) -> None:
    """Compare the Versions of a message or schema in a document by what its `compatibility` promises (COMP-001)."""
    if compatibility not in PROMISES:
        return
    comparable: dict[str, ComparableVersion] = {}
    ancestors: dict[str, str] = {}
    before: str | None = None
    for version in versions:
        if version.read is None or version.broken:
            continue
        versionid = version.versionid
        comparable[versionid] = comparable_version(kind, version.read.attributes | {"extensions": version.read.extensions})
        ancestors[versionid] = str(version.read.attributes.get("ancestor") or before or versionid)
        for earlier in earlier_versions(versionid, ancestors, compatibility=compatibility):
            for rule_id, pointer, message, _ in check_promise(
                kind=kind,
                compatibility=compatibility,
                version=comparable[versionid],
                versionid=versionid,
                earlier=comparable[earlier],
                earlier_id=earlier,
            ):
                place = Pointer(version.pointer + pointer)
                version.problems.append(Problem(place, rule_id, "error", message, RULES[rule_id].hint))
        if not version.broken:
            before = versionid


class Version(NamedTuple):
    """A Version on its way: `read` is None when what was written is not an object."""

    versionid: str
    pointer: Pointer
    written: Any
    read: NormalEntity | None
    problems: list[Problem]

    @property
    def broken(self) -> bool:
        """Return whether an error was found."""
        if self.read is None:
            return True
        results = [*self.problems, *self.read.problems, *take_life(dict(self.read.attributes), self.pointer)[1]]
        if has_error(results):
            return True
        try:
            canonical_body({"attributes": self.read.attributes, "extensions": self.read.extensions})
        except OverflowError:
            return True
        return False


def default_version(
    entity: str, read: NormalEntity, meta: NormalEntity, versions: list[Version], here: Pointer, problems: list[Problem]
) -> Version:
    """Choose the default Version: the declared one, else the newest (decision 7)."""
    by_id = {version.versionid: version for version in versions}
    marked = [version.versionid for version in versions if version.read and version.read.attributes.get("isdefault") is True]
    declared = (
        meta.attributes.get("defaultversionid"),
        read.attributes.get("versionid"),
        marked[0] if len(marked) == 1 else None,
    )
    chosen = choose_default(declared, by_id, versions[-1].versionid)
    for versionid in chosen.unknown:
        message = f"the default Version {versionid!r} is not one of the {entity}'s Versions ({', '.join(list(by_id)[:10])})"
        problems.append(Problem(here, "MSG-038", "error", message, "Name an existing versionid."))
    return by_id[chosen.versionid or ""]


def fill_default(entity: str, read: NormalEntity, default: Version, problems: list[Problem]) -> None:
    """Copy the attributes of the message to its default Version, unless that has them."""
    if default.read is None:
        return
    for name, value in read.attributes.items():
        if name in ("versionid", "isdefault", "ancestor"):
            continue
        if name not in default.read.attributes:
            default.read.attributes[name] = value
        elif not same(default.read.attributes[name], value) and name not in LIFECYCLE:
            message = f"`{name}` of the {entity} differs from its default Version's, which is taken"
            problems.append(Problem(default.pointer, "MSG-038", "warning", message, "Write it in the Version only."))


def own_extensions(read: NormalEntity, default: Version) -> dict[str, Any]:
    """Return the unknown attributes of a message that are not copies of its default Version's (MSG-070)."""
    shown = default.read.extensions if default.read else {}
    return {key: value for key, value in read.extensions.items() if key not in shown or not same(value, shown[key])}


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
        root = read_entity("registry", self.document, ROOT, None, self.dialect)
        self._read_specversion(root)
        self.reading.registryid = root.attributes.get("registryid")
        written = {key: value for key, value in self.document.items() if key not in COLLECTIONS}
        self.reading.root = as_written(written)
        subject = Subject("registry", root.attributes, dialect=self.dialect, extensions=root.extensions)
        problems = [
            *self.emission.text_errors(ROOT, tuple(COLLECTIONS)),
            *self.emission.broken(subject, root, (ROOT, written)),
        ]
        self.emission.emit("registry", REGISTRY, ROOT, written, root, problems)
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
