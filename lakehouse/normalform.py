"""One registry document becomes rows: its entities in normal form, and what was found.

Runs on the executors. An error takes its entity out, and what cannot live without it (the messages of a group, the Versions
of a message); everything else of the document stays. What is taken out is told with its raw JSON. Decisions 7 to 20.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, NamedTuple

from lakehouse.constraints import PRESENCE, Subject, check_entity
from lakehouse.detection import COLLECTIONS, dialect_of
from lakehouse.dialects import FAMILIES, family_of, family_of_options, table
from lakehouse.entities import Entity, read_entity
from lakehouse.findings import Finding, Problem
from lakehouse.jsontext import as_written, canonical, pointer_of, same
from lakehouse.locate import locate
from lakehouse.rules import RULES
from lakehouse.timestamps import microseconds
from lakehouse.xid import as_xid, id_problem, xid_of

SPECVERSION = "1.0-rc2"
_OTHER_SPECVERSIONS = frozenset(("0.5-wip", "1.0-rc1", "1.0-rc4"))
TABLE_OF_KIND = {
    "registry": "registries",
    "group": "groups",
    "endpoint": "endpoints",
    "message": "messages",
    "version": "versions",
    "schema": "schemas",
    "schemaversion": "schemaversions",
}
_LIFE = ("epoch", "createdat", "modifiedat")
_META = ("xref", "readonly", "compatibility", "authority", "deprecated", "defaultversionid", "defaultversionsticky", *_LIFE)
# Identity, which the XID tells, and what stands in rows of its own.
_NOT_IN_BODY = frozenset(("registryid", "versionid", "messageid", "schemaid", "meta"))
# Attributes of a Version that are no part of the definition, so that nothing inherits them (requirements.md 3).
_NOT_INHERITED = frozenset(("isdefault", "ancestor", "basemessage", "deprecated", "version_uri", "extensions"))
_MAX_BASES = 20
_OLD_NAMES = {"messagegroups": ("definitionGroups",), "messages": ("definitions",)}
_TELLS_FAMILY = ("protocol", "format", "basemessage", "basemessageuri", "basemessageurl")


class Row(NamedTuple):
    """An entity in normal form; epoch and dates as declared, the dates in microseconds since 1970 (UTC)."""

    kind: str
    xid: str
    content_hash: str
    epoch: int | None
    createdat: int | None
    modifiedat: int | None
    body: str
    raw: str | None
    attributes: list[tuple[str, str]] | None


@dataclass
class Reading:
    """What came out of one document: rows, findings, counts by table, and spellings met."""

    rows: list[Row] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    entities: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    spellings: Counter[str] = field(default_factory=Counter)
    registryid: str | None = None
    root: str = "{}"

    def add_counts(self, part: Reading) -> None:
        """Add what was counted in a part of the same document."""
        self.entities.update(part.entities)
        self.quarantined.update(part.quarantined)
        self.spellings.update(part.spellings)


@dataclass
class Whole:
    """What the parts of a document share when it is read part by part.

    Attributes:
        find_message: gives the members of a message that tell its protocol, by XID; None when there is no such message.
        groups: ids met so far by collection, in lower case and as written.
    """

    find_message: Callable[[str], dict[str, Any] | None]
    groups: dict[str, dict[str, str]] = field(default_factory=dict)


class _Collection(NamedTuple):
    """A collection of groups: the entity and kind of its members, and of what they hold; rules of their shape."""

    entity: str
    kind: str
    idattribute: str
    members: str
    member: str
    id_rule: str
    map_rule: str
    members_rule: str


_GROUPS = {
    "messagegroups": _Collection(
        "messagegroup", "group", "messagegroupid", "messages", "message", "MSG-020", "MSG-018", "MSG-036"
    ),
    "endpoints": _Collection("endpoint", "endpoint", "endpointid", "messages", "message", "END-033", "END-031", "END-045"),
    "schemagroups": _Collection("schemagroup", "group", "schemagroupid", "schemas", "schema", "MSG-020", "MSG-018", "MSG-036"),
}
_VERSION_KIND = {"message": "version", "schema": "schemaversion"}


class _Version(NamedTuple):
    """A Version on its way: `read` is None when what was written is no object."""

    versionid: str
    pointer: str
    written: Any
    read: Entity | None
    problems: list[Problem]

    @property
    def broken(self) -> bool:
        """Tell whether an error was found."""
        if self.read is None:
            return True
        found = [*self.problems, *self.read.problems, *_life(dict(self.read.known), self.pointer)[1]]
        if _has_error(found):
            return True
        try:
            canonical([self.read.known, self.read.extensions])
        except OverflowError:
            return True
        return False


def read_document(
    document: dict[str, Any], problems: list[Problem], dialect: str = "", *, rules: bool = True, whole: Whole | None = None
) -> Reading:
    """Bring a registry document into rows.

    Args:
        document: the parsed document, for which `not_a_registry` gave None.
        problems: what reading the text and redacting found; an error takes out the entity at its pointer.
        dialect: of the document, for what only that one asks for.
        rules: apply the rules about one entity, beside those of types and ids.
        whole: the document that this one is a part of; None: it is whole.
    """
    return _Document(document, problems, dialect, rules, whole or Whole(partial(_find_message, document))).read()


def tell_protocols(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Give for each message of a document, by XID, the members that tell its protocol."""
    return {
        xid_of(collection, groupid, "messages", messageid): {name: message[name] for name in _TELLS_FAMILY if name in message}
        for key, collection in COLLECTIONS.items()
        for groupid, group in _members(document, (key,))
        for messageid, message in _members(group, ("messages", *_OLD_NAMES["messages"]))
        if isinstance(message, dict)
    }


def natural_order(text: str) -> list[tuple[int, int, str]]:
    """Give a sort key under which 1.10 comes after 1.9 (decision 7)."""
    parts = re.findall(r"0*([0-9]+)|([^0-9]+)", text)
    return [(0, len(digits), digits) if digits else (1, 0, other) for digits, other in parts] + [(-1, 0, text)]


def created(known: Any) -> int:
    """Give the declared createdat to order Versions by; one without comes before all others (decision 7)."""
    text = known.get("createdat") if isinstance(known, dict) else None
    try:
        return microseconds(text)[0] if isinstance(text, str) else -(2**62)
    except ValueError:
        return -(2**62)


class _Document:
    def __init__(self, document: dict[str, Any], problems: list[Problem], dialect: str, rules: bool, whole: Whole) -> None:
        self.document = document
        self.whole = whole
        self.rules = rules
        self.text_problems = problems
        self.reading = Reading()
        self.dialect = dialect or dialect_of(document, Counter())

    def read(self) -> Reading:
        for problem in self.text_problems:
            if problem.severity != "error":
                self._tell("", "", problem, "kept", None)
        root = read_entity("registry", self.document, "", None, self.dialect)
        self._read_specversion(root)
        self.reading.registryid = root.known.get("registryid")
        written = {key: value for key, value in self.document.items() if key not in COLLECTIONS}
        self.reading.root = as_written(written)
        problems = [
            *self._text_errors("", tuple(COLLECTIONS)),
            *self._broken(Subject("registry", root.known), root, ("", written)),
        ]
        self._emit("registry", "/", "", written, root, problems)
        for key, value in self.document.items():
            if key in COLLECTIONS and value is not None:
                self._respelled("registry", key, COLLECTIONS[key])
                self._read_groups(key, value, COLLECTIONS[key])
        return self.reading

    def _read_specversion(self, root: Entity) -> None:
        """Give the root the specversion of the normal form (WIP-001); one of an unknown specification stays."""
        declared = root.known.get("specversion", SPECVERSION)
        if declared in _OTHER_SPECVERSIONS:
            self._respelled("registry", f"specversion {declared}", SPECVERSION)
            declared = SPECVERSION
        root.known["specversion"] = declared

    def _read_groups(self, key: str, groups: Any, collection: str) -> None:
        shape = _GROUPS[collection]
        here = pointer_of(key)
        if not isinstance(groups, dict):
            problem = Problem(here, shape.map_rule, "error", f"`{key}` is no map", "Write a map keyed by id.", as_written(groups))
            self._tell("registry", "/", problem, "quarantined", None)
            return
        seen = self.whole.groups.setdefault(collection, {})
        earlier = set(seen.values())
        for groupid, written in groups.items():
            xid = xid_of(collection, groupid)
            at = here + pointer_of(groupid)
            if isinstance(written, dict):
                read = read_entity(shape.entity, written, at, None, self.dialect)
                ids = _id_problems(groupid, read, shape.idattribute, shape.id_rule, at, seen)
                if groupid in earlier:
                    told = f"{xid} stands twice in `{collection}`, or in both its spellings"
                    ids.append(Problem(at, shape.map_rule, "error", told, f"Keep it in `{collection}`."))
                self._read_group(shape, xid, at, written, read, ids)
            else:
                self._refuse_shape(shape.kind, xid, at, written, shape.map_rule)

    def _read_group(
        self, shape: _Collection, xid: str, here: str, written: dict[str, Any], read: Entity, ids: list[Problem]
    ) -> None:
        key, members = read.children.get(shape.members, (shape.members, None))
        own = {name: value for name, value in written.items() if name != key}
        subject = Subject(shape.entity, read.known, xid.rsplit("/", 1)[-1], extensions=read.extensions)
        problems = [*ids, *self._text_errors(here, (key,)), *self._broken(subject, read, (here, written))]
        if members is not None and not isinstance(members, dict):
            told = Problem(here + pointer_of(key), shape.members_rule, "error", f"`{key}` is no map", "Write a map keyed by id.")
            problems.append(told)
            own, members = written, None
        accepted = self._emit(shape.kind, xid, here, own, read, problems)
        self._respelled(shape.entity, key, shape.members)
        seen: dict[str, str] = {}
        for name, member in (members or {}).items():
            at = here + pointer_of(key, name)
            member_xid = xid_of(*xid[1:].split("/"), shape.members, name)
            if not accepted:
                self._refuse_dependent(shape.member, member_xid, at, member, f"{xid}, which holds it, was refused")
            elif isinstance(member, dict):
                self._read_resource(shape.member, name, member_xid, at, member, read, seen)
            else:
                self._refuse_shape(shape.member, member_xid, at, member, shape.members_rule)
                self._refuse_versions(shape.member, member_xid, at, member, f"{member_xid} was refused")

    def _read_resource(
        self, entity: str, name: str, xid: str, here: str, written: dict[str, Any], group: Entity, seen: dict[str, str]
    ) -> None:
        """Read a message or schema with its Versions (decision 7)."""
        warned: list[Problem] = []
        family = self._family(written, here, group, warned) if entity == "message" else None
        read = read_entity(entity, written, here, family, self.dialect)
        problems = [*warned, *_id_problems(name, read, f"{entity}id", "MSG-037", here, seen)]
        meta = _split_meta(read.known.pop("meta", {}), entity)
        problems.extend(self._broken(Subject("meta", meta.known), read, (here, written)))
        key, members = read.children.get("versions", ("versions", None))
        if members is not None and not isinstance(members, dict):
            problems.append(
                Problem(here + pointer_of(key), "MSG-069", "error", "`versions` is no map", "Write a map keyed by versionid.")
            )
            members = None
        if "xref" in meta.known:
            self._read_alias(entity, xid, here, written, read, meta, problems)
        elif members:
            problems.extend(self._text_errors(here, (key,)))
            versions = self._read_versions(
                entity, here + pointer_of(key), members, group, {name: written[name] for name in _TELLS_FAMILY if name in written}
            )
            rest = {member: value for member, value in written.items() if member != key}
            default = _default_version(entity, read, meta, versions, here, problems)
            _fill_default(entity, read, default, problems)
            for version in versions:
                if version.read is not None:
                    outer = [(here, rest)] if version is default else []
                    subject = _subject(entity, version.read, name, group, family)
                    version.problems.extend(self._broken(subject, version.read, (version.pointer, version.written), *outer))
            self._emit_versioned(entity, xid, here, rest, read, meta, versions, default, problems)
        else:
            declared = read.known.get("versionid", meta.known.get("defaultversionid", "1"))
            single = _Version(
                declared, here, written, read, [*_id_syntax(declared, "MSG-038", here), *self._text_errors(here, ())]
            )
            single.problems.extend(self._broken(_subject(entity, read, name, group, family), read, (here, written)))
            self._emit_single(entity, xid, here, written, meta, single, problems)

    def _read_alias(
        self, entity: str, xid: str, here: str, written: dict[str, Any], read: Entity, meta: Entity, problems: list[Problem]
    ) -> None:
        """An entity with `xref` stands for another one and has no Versions (decision 20)."""
        own = sorted(set(read.known) - {"versionid", *_LIFE}) + sorted(read.extensions)
        if own or read.children:
            told = f"`xref` is set, so its own {', '.join(own or ['versions'])} is ignored"
            problems.append(Problem(here, "MSG-096", "warning", told, "Leave out `xref`, or the attributes."))
        meta.problems, meta.spellings = read.problems, read.spellings
        self._emit(entity, xid, here, written, meta, [*problems, *self._text_errors(here, ())])

    def _read_versions(
        self, entity: str, here: str, members: dict[str, Any], group: Entity, outer: dict[str, Any]
    ) -> list[_Version]:
        versions = []
        seen: dict[str, str] = {}
        for versionid, written in members.items():
            at = here + pointer_of(versionid)
            if isinstance(written, dict):
                warned: list[Problem] = []
                family = self._family(outer | written, at, group, warned) if entity == "message" else None
                read = read_entity(entity, written, at, family, self.dialect)
                self_meta = read.known.get("meta", {})
                if "deprecated" in self_meta:
                    read.known["deprecated"] = self_meta.pop("deprecated")
                if self_meta:
                    told = f"{', '.join(sorted(self_meta))} belongs to the {entity}, not to a Version, and is kept in raw only"
                    warned.append(Problem(at, "MSG-066", "warning", told, f"Write it in `meta` of the {entity}."))
                problems = [*warned, *_id_problems(versionid, read, "versionid", "MSG-038", at, seen), *self._text_errors(at, ())]
                read.known.pop(f"{entity}id", None)
                versions.append(_Version(versionid, at, written, read, problems))
            else:
                versions.append(_Version(versionid, at, written, None, []))
        return sorted(
            versions, key=lambda version: (created(version.read and version.read.known), natural_order(version.versionid))
        )

    def _emit_single(
        self, entity: str, xid: str, here: str, written: dict[str, Any], meta: Entity, version: _Version, problems: list[Problem]
    ) -> None:
        """Emit a message without `versions`: what it says of itself belongs to its only Version, and `raw` stands there."""
        read = version.read
        assert read is not None
        kind, version_xid = _VERSION_KIND[entity], f"{xid}/versions/{version.versionid}"
        meta.known["defaultversionid"] = version.versionid
        if _has_error([*problems, *_life(dict(meta.known), here)[1]]):
            self._emit(entity, xid, here, written, meta, problems, keep_raw=False)
            if version.broken:
                self._emit(kind, version_xid, here, written, read, version.problems)
            else:
                self._refuse_dependent(kind, version_xid, here, written, f"{xid} was refused")
            return
        read.known |= {"ancestor": read.known.get("ancestor", version.versionid), "isdefault": True}
        if not self._emit(kind, version_xid, here, written, read, version.problems):
            problems = [*problems, _dependent(here, f"its only Version {version.versionid} was refused")]
        self._emit(entity, xid, here, written, meta, problems, keep_raw=False)

    def _emit_versioned(
        self,
        entity: str,
        xid: str,
        here: str,
        written: dict[str, Any],
        read: Entity,
        meta: Entity,
        versions: list[_Version],
        default: _Version,
        problems: list[Problem],
    ) -> None:
        """Emit a message with `versions`; it falls with its default Version, since it shows nothing without."""
        if default.broken:
            problems.append(_dependent(here, f"its default Version {default.versionid} was refused"))
        meta.known["defaultversionid"] = default.versionid
        meta.extensions |= _own_extensions(read, default)
        meta.problems, meta.spellings = read.problems, read.spellings
        accepted = self._emit(entity, xid, here, written, meta, problems)
        kind = _VERSION_KIND[entity]
        before: str | None = None
        for version in versions:
            version_xid = f"{xid}/versions/{version.versionid}"
            if version.read is None:
                self._refuse_shape(kind, version_xid, version.pointer, version.written, "MSG-069")
            elif not accepted and not version.broken:
                self._refuse_dependent(kind, version_xid, version.pointer, version.written, f"{xid} was refused")
            else:
                version.read.known |= {
                    "ancestor": version.read.known.get("ancestor", before or version.versionid),
                    "isdefault": version is default,
                }
                if self._emit(kind, version_xid, version.pointer, version.written, version.read, version.problems):
                    before = version.versionid

    def _family(self, written: dict[str, Any], here: str, group: Entity, warned: list[Problem]) -> str | None:
        """Find the protocol family of a message: its own, its group's, its base's, or that of its option names (decision 15)."""
        own = family_of(written.get("protocol"))
        if own is None and family_of(written.get("format")) in FAMILIES:
            own = family_of(written.get("format"))
        key = "protocoloptions" if "protocoloptions" in written else "protocolmetadata"
        options = written.get(key)
        if own or not options:
            return own
        family = family_of(group.known.get("protocol")) or self._base_family(written, 0) or family_of_options(options)
        if family is None:
            told = f"`{key}` stands without a protocol; its options are kept as written"
            warned.append(Problem(here + pointer_of(key), "MSG-111", "warning", told, "Set `protocol`."))
        return family

    def _base_family(self, written: dict[str, Any], depth: int) -> str | None:
        """Follow base references inside this document to a message that names a protocol."""
        spelled = ("basemessage", "basemessageuri", "basemessageurl")
        reference = next((written[key] for key in spelled if isinstance(written.get(key), str)), None)
        xid = as_xid(reference) if reference else None
        if xid is None or depth == _MAX_BASES:
            return None
        base = self.whole.find_message("/".join(xid.split("/")[:5]))
        if base is None:
            return None
        return family_of(base.get("protocol")) or self._base_family(base, depth + 1)

    def _emit(
        self,
        kind: str,
        xid: str,
        here: str,
        written: dict[str, Any],
        read: Entity,
        problems: list[Problem],
        *,
        keep_raw: bool = True,
    ) -> bool:
        """Emit an entity's row, or refuse it when there is an error; True when it was accepted."""
        self.reading.spellings.update(read.spellings)
        life, life_problems = _life(read.known, f"{here}/meta" if kind in _VERSION_KIND else here)
        every = [*problems, *read.problems, *life_problems]
        row = None
        if not _has_error(every):
            try:
                row = _row(kind, xid, life, read, written if keep_raw else None)
            except OverflowError as error:
                every.append(Problem(here, "MSG-104", "error", str(error), "Write a number that a double holds, or a string."))
        raw = as_written(written) if row is None else None
        for problem in every:
            self._tell(kind, xid, problem, "kept" if row else "quarantined", raw if problem.severity == "error" else None)
        if row is None:
            self.reading.quarantined[TABLE_OF_KIND[kind]] += 1
            return False
        self.reading.rows.append(row)
        self.reading.entities[TABLE_OF_KIND[kind]] += 1
        return True

    def _broken(self, subject: Subject, read: Entity, *written: tuple[str, dict[str, Any]]) -> list[Problem]:
        """Apply the rules about one entity, and tell where they are broken in the document as written."""
        problems = []
        for path, rule_id, message, severity in check_entity(subject._replace(dialect=self.dialect)) if self.rules else ():
            if rule_id in PRESENCE and _has_error(read.problems):
                continue  # what is missing was refused for its type, which is told
            rule = RULES[rule_id]
            where = locate(subject.entity, path, *written)
            problems.append(Problem(where, rule_id, severity or rule.severity, message, rule.hint))
        return problems

    def _text_errors(self, here: str, children: tuple[str, ...]) -> list[Problem]:
        """Give the errors of the text that lie in the entity at `here` and not in an entity of its collections."""
        inside = []
        for problem in self.text_problems:
            tokens = problem.pointer[len(here) :].split("/")[1:]
            in_child = len(tokens) > 1 and tokens[0] in [pointer_of(child)[1:] for child in children]
            if problem.severity == "error" and (problem.pointer + "/").startswith(here + "/") and not in_child:
                inside.append(problem)
        return inside

    def _refuse_shape(self, kind: str, xid: str, here: str, written: Any, rule: str) -> None:
        told = Problem(here, rule, "error", "it is no object", "Write an object.")
        self._refuse(kind, xid, told, as_written(written))

    def _refuse_dependent(self, kind: str, xid: str, here: str, written: Any, cause: str) -> None:
        """Refuse what cannot live without an entity that was refused: a message or schema with its Versions, or a Version."""
        self._refuse(kind, xid, _dependent(here, cause), as_written(written))
        if kind in _VERSION_KIND:
            self._refuse_versions(kind, xid, here, written, cause)

    def _refuse_versions(self, kind: str, xid: str, here: str, written: Any, cause: str) -> None:
        if isinstance(written, dict) and "xref" in _meta_of(kind, written):
            return  # an alias has no Versions
        versions = written.get("versions") if isinstance(written, dict) else None
        if isinstance(versions, dict) and versions:
            for versionid in versions:
                self._refuse(
                    _VERSION_KIND[kind],
                    f"{xid}/versions/{versionid}",
                    _dependent(here + pointer_of("versions", versionid), cause),
                    None,
                )
        else:
            declared = written.get("versionid", written.get("defaultversionid")) if isinstance(written, dict) else None
            versionid = declared if isinstance(declared, str) else "1"
            self._refuse(_VERSION_KIND[kind], f"{xid}/versions/{versionid}", _dependent(here, cause), None)

    def _refuse(self, kind: str, xid: str, problem: Problem, raw: str | None) -> None:
        self.reading.quarantined[TABLE_OF_KIND[kind]] += 1
        self._tell(kind, xid, problem, "quarantined", raw)

    def _tell(self, kind: str, xid: str, problem: Problem, action: str, raw: str | None) -> None:
        pointer, rule_id, severity, message, hint, own_raw = problem
        self.reading.findings.append(Finding(kind, xid, pointer, rule_id, severity, action, message, hint, own_raw or raw))

    def _respelled(self, entity: str, spelled: str, normal: str) -> None:
        if spelled != normal:
            self.reading.spellings[f"{entity}: {spelled} → {normal}"] += 1


def _find_message(document: dict[str, Any], xid: str) -> dict[str, Any] | None:
    found: Any = document
    for token in xid[1:].split("/"):
        names = (token, *_OLD_NAMES.get(token, ()))
        found = next((found[name] for name in names if name in found), None) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None


def _members(holder: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name in names if isinstance(holder, dict) else ():
        if isinstance(holder.get(name), dict):
            yield from holder[name].items()


def _has_error(problems: list[Problem]) -> bool:
    return any(problem.severity == "error" for problem in problems)


def _dependent(here: str, cause: str) -> Problem:
    return Problem(here, "MSG-115", "error", f"it cannot be loaded: {cause}", "Mend the cause, which has a finding of its own.")


def _subject(entity: str, read: Entity, name: str, group: Entity, family: str | None) -> Subject:
    own = family or family_of(group.known.get("protocol"))
    return Subject(entity, read.known, name, own, group.known.get("envelope"), extensions=read.extensions)


def _meta_of(entity: str, written: dict[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = read_entity(entity, written, "", None).known.get("meta", {})
    return meta


def _split_meta(meta: dict[str, Any], entity: str) -> Entity:
    known = {key: meta[key] for key in _META if key in meta}
    rest = {key: value for key, value in meta.items() if key not in _META and key != f"{entity}id"}
    return Entity(known=known, extensions=rest)


def _id_syntax(text: str, rule: str, here: str) -> list[Problem]:
    problem = id_problem(text)
    return [Problem(here, rule, "error", problem, "Rename it.")] if problem else []


def _id_problems(key: str, read: Entity, attribute: str, rule: str, here: str, seen: dict[str, str]) -> list[Problem]:
    """Check an id: its syntax, that the attribute equals the key, that no neighbour differs in letter case only (decision 1)."""
    problems = _id_syntax(key, rule, here)
    declared = read.known.get(attribute, key)
    if declared != key:
        told = f"`{attribute}` is {declared!r}, and its key in the map is {key!r}"
        problems.append(Problem(here + read.pointers.get(attribute, "/" + attribute), rule, "error", told, "Make the two equal."))
    read.known.pop(attribute, None)
    other = seen.setdefault(key.lower(), key)
    if other != key:
        told = f"the ids {other!r} and {key!r} differ in letter case only"
        problems.append(Problem(here, rule, "error", told, "Rename one of them."))
    return problems


def _default_version(
    entity: str, read: Entity, meta: Entity, versions: list[_Version], here: str, problems: list[Problem]
) -> _Version:
    """Choose the default Version: the declared one, else the newest (decision 7)."""
    by_id = {version.versionid: version for version in versions}
    marked = [version.versionid for version in versions if version.read and version.read.known.get("isdefault") is True]
    declared = (meta.known.get("defaultversionid"), read.known.get("versionid"), marked[0] if len(marked) == 1 else None)
    for versionid in declared:
        if versionid in by_id:
            return by_id[versionid]
        if versionid is not None:
            told = f"the default Version {versionid!r} is none of the {entity}'s Versions ({', '.join(list(by_id)[:10])})"
            problems.append(Problem(here, "MSG-038", "error", told, "Name an existing versionid."))
    return versions[-1]


def _fill_default(entity: str, read: Entity, default: _Version, problems: list[Problem]) -> None:
    """Give the default Version the attributes that stand at the message only; where both have one, the Version's wins."""
    if default.read is None:
        return
    for name, value in read.known.items():
        if name in ("versionid", "isdefault", "ancestor"):
            continue
        if name not in default.read.known:
            default.read.known[name] = value
        elif not same(default.read.known[name], value) and name not in _LIFE:
            told = f"`{name}` of the {entity} differs from its default Version's, which is taken"
            problems.append(Problem(default.pointer, "MSG-038", "warning", told, "Write it in the Version only."))


def _own_extensions(read: Entity, default: _Version) -> dict[str, Any]:
    """Give the unknown attributes of a message that do not show those of its default Version (MSG-070)."""
    shown = default.read.extensions if default.read else {}
    return {key: value for key, value in read.extensions.items() if key not in shown or not same(value, shown[key])}


def _life(known: dict[str, Any], here: str) -> tuple[tuple[int | None, int | None, int | None], list[Problem]]:
    """Take epoch and dates out of the known attributes."""
    problems: list[Problem] = []
    moments: list[int | None] = []
    for name in ("createdat", "modifiedat"):
        text = known.pop(name, None)
        moment = None
        if text is not None:
            try:
                moment, has_zone = microseconds(text)
            except ValueError as error:
                problems.append(
                    Problem(f"{here}/{name}", "MSG-047", "error", f"`{name}`: {error}", "Write it as 2024-12-31T23:59:59Z.")
                )
            else:
                if not has_zone:
                    told = f"`{name}` {text!r} has no time zone and is taken as UTC"
                    problems.append(Problem(f"{here}/{name}", "MSG-047", "warning", told, "Add Z."))
        moments.append(moment)
    return (known.pop("epoch", None), moments[0], moments[1]), problems


def _row(
    kind: str, xid: str, life: tuple[int | None, int | None, int | None], read: Entity, written: dict[str, Any] | None
) -> Row:
    known = {key: value for key, value in read.known.items() if key not in _NOT_IN_BODY}
    if read.extensions:
        known["extensions"] = read.extensions
    body = canonical(known)
    text = body.decode()
    raw = as_written(written) if written is not None else None
    attributes = None if kind not in _VERSION_KIND.values() else list(_leaves(known, read.extensions))
    return Row(kind, xid, hashlib.sha256(body).hexdigest(), *life, text, None if raw == text else raw, attributes)


@cache
def _sections() -> frozenset[str]:
    """Give the names of protocol options that hold a map of declarations."""
    return frozenset(
        row["name"] for row in table() if row["entity"] == "message" and row["type"] in ("declarations", "namedvalues")
    )


def _leaves(known: dict[str, Any], extensions: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Give the leaves of a definition: scalars, arrays, empty objects, schemas, values of declarations (decision 12)."""
    for name, value in known.items():
        if name == "envelopemetadata":
            yield from _declarations("/envelopemetadata", value)
        elif name == "protocoloptions" and isinstance(value, dict) and value:
            for option, member in value.items():
                at = "/protocoloptions" + pointer_of(option)
                if option in _sections():
                    yield from _declarations(at, member)
                else:
                    yield from _declarations("/protocoloptions", {option: member})
        elif name in ("dataschema", "schema"):
            yield "/" + name, canonical(value).decode()
        elif name not in _NOT_INHERITED:
            yield from _plain("/" + name, value)
    for name, value in extensions.items():
        yield from _plain(pointer_of(name), value)


def _declarations(pointer: str, declarations: Any) -> Iterator[tuple[str, str]]:
    """Give the leaves of a map of declarations; the `value` of each is opaque."""
    if not isinstance(declarations, dict) or not declarations:
        yield pointer, canonical(declarations).decode()
        return
    for name, declaration in declarations.items():
        at = pointer + pointer_of(name)
        if isinstance(declaration, dict) and declaration:
            for key, member in declaration.items():
                if key == "value":
                    yield f"{at}/value", canonical(member).decode()
                else:
                    yield from _plain(at + pointer_of(key), member)
        else:
            yield at, canonical(declaration).decode()


def _plain(pointer: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, member in value.items():
            yield from _plain(pointer + pointer_of(key), member)
    else:
        yield pointer, canonical(value).decode()
