"""Subjects of a schema registry become xRegistry documents, one for each subject: plain Python without I/O.

A context is a schemagroup, a subject a schema, a version a Version whose ancestor is the version before it. A document holds one
subject, so that a subject that did not change costs no reading at the next ingest. Ids and GUIDs become labels, by which `match`
finds the schema that a payload was written with.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from lakehouse.compatibility.avroschemas import full_name
from lakehouse.compatibility.limits import Malformed, Unreadable
from lakehouse.compatibility.protoschemas import ProtoFile
from lakehouse.domain.subjects import (
    AVRO,
    DEFAULT_GROUP,
    DELETED_LABEL,
    GUID_LABEL,
    ID_LABEL,
    JSON,
    PROTOBUF,
    context_of,
    format_of_kind,
    hashed_id,
    id_of_name,
    is_qualified,
    qualified,
    schema_document,
)
from lakehouse.domain.versionchanges import broken_promise, comparable_version, pairs_to_compare
from lakehouse.text.jsontext import object_at, text_at
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of, xid_of_version

Json = dict[str, Any]
Key = TypeVar("Key")
Messages = Literal["topic", "record"]
RECORDS_GROUP = "records"  # messages of records that are in no topic by their subject
DEFAULT_LEVEL = "BACKWARD"  # of a registry that nobody configured
GLOBAL = ""  # the registry itself, among levels and modes
_LEVELS = frozenset({"BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE"})
_READ_ONLY = frozenset({"READONLY", "READONLY_OVERRIDE"})


class SubjectVersion(NamedTuple):
    """A version of a subject.

    Attributes:
        subject: with its context: `:.context:name`; without one in the default context.
        version: its number.
        schema: its text.
        kind: AVRO, JSON or PROTOBUF; another one is kept as the format.
        id, guid: of the schema; None: the registry gives none.
        references: as the registry has them: name, subject, version.
        metadata, ruleset: as the registry has them.
        is_deleted: it was deleted, and not for good.
    """

    subject: str
    version: int
    schema: str
    kind: str = AVRO
    id: int | None = None
    guid: str | None = None
    references: list[Json] = []  # noqa: RUF012  of a tuple, never changed
    metadata: Json = {}  # noqa: RUF012
    ruleset: Json = {}  # noqa: RUF012
    is_deleted: bool = False

    @property
    def format(self) -> str:
        """Return the format of its schema."""
        return format_of_kind(self.kind, self.schema)

    @property
    def document(self) -> Any:
        """Return its schema in normal form."""
        return schema_document(self.kind, self.schema)


@dataclass
class RegistryContent:
    """What a schema registry holds.

    Attributes:
        versions: of all subjects; each pair of subject and number once.
        levels, modes: compatibility levels and modes by subject, by context (`:.context:`), and of all (`GLOBAL`).
    """

    versions: list[SubjectVersion] = field(default_factory=list)
    levels: dict[str, str] = field(default_factory=dict)
    modes: dict[str, str] = field(default_factory=dict)


class SubjectRemark(NamedTuple):
    """What is wrong with a version of a subject, which is loaded nevertheless."""

    subject: str
    version: int
    text: str

    def __str__(self) -> str:
        return f"{self.subject} version {self.version}: {self.text}"


class SubjectMessage(NamedTuple):
    """The message that a subject makes.

    Attributes:
        topic: its address; None: the subject names a record alone.
        group: id of its group.
        id: of the message.
    """

    topic: str | None
    group: str
    id: str


class SubjectDocument(NamedTuple):
    """The document of a subject."""

    subject: str
    value: Json


def version_of(value: Any) -> SubjectVersion:
    """Read a version as the API and the topic write it.

    Raises:
        ValueError: it is none; the message says what is missing.
    """
    if not isinstance(value, dict):
        raise ValueError("a version of a schema is a JSON object")
    for name, kind in (("subject", str), ("version", int), ("schema", str)):
        if not isinstance(value.get(name), kind):
            subject, number = value.get("subject"), value.get("version")
            whose = "a version of a schema" if subject is None else f"subject {subject}, version {number}"
            raise ValueError(f"`{name}` of {whose} is missing, or no {'number' if kind is int else 'text'}")
    number = value.get("id")
    references = value.get("references")
    return SubjectVersion(
        value["subject"],
        value["version"],
        value["schema"],
        (text_at(value, "schemaType") or AVRO).upper(),
        number if isinstance(number, int) else None,
        text_at(value, "guid"),
        [reference for reference in references if isinstance(reference, dict)] if isinstance(references, list) else [],
        object_at(value, "metadata"),
        object_at(value, "ruleSet"),
        value.get("deleted") is True,
    )


class SubjectMapping:
    """Maps the content of one registry.

    Args:
        content: of the registry.
        keep_deleted: make Versions of what was soft-deleted, too.
        messages: `topic` makes a message for each subject `TOPIC-value`, `record` for each `TOPIC-RECORD` and `RECORD`.
    """

    def __init__(self, content: RegistryContent, *, keep_deleted: bool = False, messages: Messages | None = None) -> None:
        self._levels, self._modes, self._messages = content.levels, content.modes, messages
        self._subjects: dict[str, list[SubjectVersion]] = defaultdict(list)
        for version in sorted(content.versions, key=lambda version: (version.subject, version.version)):
            if keep_deleted or not version.is_deleted:
                self._subjects[version.subject].append(version)
        self._broken_levels: dict[str, SubjectRemark | None] = {}  # judged once, for documents and remarks
        contexts = sorted({context_of(subject)[0] for subject in self._subjects})
        self._groups = _distinct((context, context or DEFAULT_GROUP) for context in contexts)
        # Ids of registries grow: what is first keeps its name when another subject comes that differs in letter case only.
        age = {subject: (min(version.id or 0 for version in versions), subject) for subject, versions in self._subjects.items()}
        self._schemas: dict[str, str] = {}
        for context in contexts:
            own = [subject for subject in self._subjects if context_of(subject)[0] == context]
            self._schemas |= _distinct((subject, context_of(subject)[1]) for subject in sorted(own, key=age.__getitem__))
        named = {subject: topic_and_record for subject in self._schemas if (topic_and_record := self._named(subject))}
        self._messages_of = _messages_of(named)

    def documents(self) -> Iterator[SubjectDocument]:
        """Yield the document of each subject, in the order of their names."""
        for subject, versions in self._subjects.items():
            group, schema = self._groups[context_of(subject)[0]], self._schemas[subject]
            written_group: Json = {"schemagroupid": group}
            if context_of(subject)[0] not in ("", group):
                written_group["name"] = context_of(subject)[0]
            value: Json = {"specversion": "1.0-rc2"}
            value["schemagroups"] = {group: written_group | {"schemas": {schema: self._schema(schema, versions)}}}
            value |= self._message(subject)
            yield SubjectDocument(subject, value)

    def remarks(self) -> list[SubjectRemark]:
        """Return what is wrong: broken levels, an id of two schemas, references that lead nowhere or to themselves."""
        broken = (self._broken_level(subject) for subject in self._subjects)
        remarks = [*(remark for remark in broken if remark is not None), *self._ids_twice()]
        edges = {
            (version.subject, version.version): self._targets(version)
            for versions in self._subjects.values()
            for version in versions
        }
        for (subject, version), targets in edges.items():
            for target in targets:
                if target not in edges:
                    text = f"it refers to {target[0]} version {target[1]}, which is not loaded"
                    remarks.append(SubjectRemark(subject, version, text))
        for circle in _circles(edges):
            path = " → ".join(f"{subject} version {version}" for subject, version in [*circle[1:], circle[0]])
            remarks.append(SubjectRemark(*circle[0], f"its references lead back to itself: {path}"))
        return sorted(remarks)

    def _ids_twice(self) -> Iterator[SubjectRemark]:
        first: dict[tuple[str, int], SubjectVersion] = {}
        for versions in self._subjects.values():
            for version in versions:
                if version.id is None:
                    continue
                other = first.setdefault((context_of(version.subject)[0], version.id), version)
                if (other.schema, other.kind) != (version.schema, version.kind):
                    text = (
                        f"its id {version.id} is that of another schema, too: {other.subject} version {other.version}. "
                        "Delete one of them in the registry for good, and register it again: it gets a new id."
                    )
                    yield SubjectRemark(version.subject, version.version, text)

    def _xid(self, subject: str) -> Xid:
        """Return the XID of the schema of a subject; of one that is not loaded, that which it would have alone."""
        context, name = context_of(subject)
        group = self._groups.get(context) or id_of_name(context or DEFAULT_GROUP)
        return xid_of("schemagroups", group, "schemas", self._schemas.get(subject) or id_of_name(name))

    def _schema(self, schemaid: str, versions: list[SubjectVersion]) -> Json:
        living = [version for version in versions if not version.is_deleted]
        meta: Json = {"schemaid": schemaid}
        level = self._level(versions[0].subject)
        if level in _LEVELS and self._broken_level(versions[0].subject) is None:
            meta["compatibility"] = level.lower()
        if (self._setting(self._modes, versions[0].subject) or "").upper() in _READ_ONLY:
            meta["readonly"] = True
        if not living:
            meta["deprecated"] = {}
        elif living[-1] is not versions[-1]:
            meta |= {"defaultversionid": str(living[-1].version), "defaultversionsticky": True}
        ancestors = _ancestors(versions)
        written = {
            str(version.version): self._version(schemaid, version, ancestors[str(version.version)]) for version in versions
        }
        return {"schemaid": schemaid, "meta": meta, "versions": written}

    def _level(self, subject: str) -> str:
        return (self._setting(self._levels, subject) or DEFAULT_LEVEL).upper()

    def _broken_level(self, subject: str) -> SubjectRemark | None:
        """Return which version of a subject breaks its level, so that the schema has no `compatibility`; None: none does.

        A level counts for what is registered from then on. xRegistry's counts from the first Version on, so a level that is
        younger than a version that breaks it would take the schema out of the catalog, with all its Versions (COMP-001).
        """
        if subject not in self._broken_levels:
            self._broken_levels[subject] = next(self._breaks(subject, self._level(subject)), None)
        return self._broken_levels[subject]

    def _breaks(self, subject: str, level: str) -> Iterator[SubjectRemark]:
        if level not in _LEVELS:
            return
        versions, promise = self._subjects[subject], level.lower()
        comparable = {
            str(version.version): comparable_version("schemaversion", {"format": version.format, "schema": version.document})
            for version in versions
        }
        for later, earlier in pairs_to_compare(_ancestors(versions), promise):
            if reasons := broken_promise("schemaversion", promise, comparable[earlier], comparable[later]):
                text = f"it breaks the level {level} over version {earlier}: {reasons[0]} The schema has no `compatibility` here."
                yield SubjectRemark(subject, int(later), text)

    def _version(self, schemaid: str, version: SubjectVersion, ancestor: str) -> Json:
        written: Json = {"schemaid": schemaid, "versionid": str(version.version), "ancestorid": ancestor}
        name = context_of(version.subject)[1]
        if name not in ("", schemaid):
            written["name"] = name
        if labels := _labels(version):
            written["labels"] = labels
        written |= {"format": version.format, "schema": version.document}
        if version.references:
            written["references"] = [self._reference(version, reference) for reference in version.references]
        if version.ruleset:
            written["ruleset"] = version.ruleset
        if metadata := {name: value for name, value in version.metadata.items() if name != "properties" and value}:
            written["metadata"] = metadata
        return written

    def _reference(self, version: SubjectVersion, reference: Json) -> Json:
        """Return a reference with the XID that it leads to."""
        target = _target(version, reference)
        return reference if target is None else reference | {"xid": xid_of_version(self._xid(target[0]), str(target[1]))}

    def _targets(self, version: SubjectVersion) -> list[tuple[str, int]]:
        return [target for reference in version.references if (target := _target(version, reference)) is not None]

    def _setting(self, settings: dict[str, str], subject: str) -> str | None:
        """Return what is set for a subject, else for its context, else for all."""
        context = context_of(subject)[0]
        names = (subject, *([f":.{context}:"] if context else []), GLOBAL)
        return next((settings[name] for name in names if name in settings), None)

    def _newest(self, subject: str) -> SubjectVersion:
        """Return the newest version that is not deleted; of a subject without one, the newest."""
        versions = self._subjects[subject]
        return next((version for version in reversed(versions) if not version.is_deleted), versions[-1])

    def _named(self, subject: str) -> tuple[str | None, str] | None:
        """Return the topic and the message that a subject names; None: it makes no message."""
        name = context_of(subject)[1]
        if self._messages == "topic" and name.endswith("-value"):
            topic = name.removesuffix("-value")
            return topic or None, topic or RECORDS_GROUP
        full = _record_name(self._newest(subject)) if self._messages == "record" else None
        if full and (name == full or name.endswith(f"-{full}")):
            return name.removesuffix(full).removesuffix("-") or None, full
        return None

    def _message(self, subject: str) -> Json:
        """Return the message of a subject, in its group; empty: it makes none."""
        message = self._messages_of.get(subject)
        if message is None:
            return {}
        written: Json = {"messageid": message.id}
        if message.topic:
            written |= {"protocol": "KAFKA", "protocoloptions": {"topic": {"value": message.topic}}}
        if (key := qualified(context_of(subject)[0], f"{message.topic or ''}-key")) in self._schemas:
            written["labels"] = {"confluent.key": self._xid(key)}
        written |= {"dataschemaformat": self._newest(subject).format, "dataschemaxid": self._xid(subject)}
        return {"messagegroups": {message.group: {"messagegroupid": message.group, "messages": {message.id: written}}}}


def _messages_of(named: dict[str, tuple[str | None, str]]) -> dict[str, SubjectMessage]:
    """Return the message of each subject, each with an XID that differs in more than letter case (MSG-020, MSG-037, DOC-001).

    A topic has its name as the id of its group. Where another context has it already, the context is in front.

    Args:
        named: the topic and the message that each subject names; who comes first gets an id that several want.
    """
    places = {subject: (context_of(subject)[0], topic or RECORDS_GROUP) for subject, (topic, _) in named.items()}
    first: dict[str, tuple[str, str]] = {}
    subjects: dict[tuple[str, str], list[str]] = defaultdict(list)
    for subject, place in places.items():
        first.setdefault(id_of_name(place[1]).lower(), place)
        subjects[place].append(subject)
    firsts = dict.fromkeys(first.values())
    in_order = dict.fromkeys([*firsts, *subjects])  # whose id another one has comes last
    groups = _distinct((place, place[1] if place in firsts or not place[0] else ":".join(place)) for place in in_order)
    messages = {}
    for place, of_group in subjects.items():
        for subject, messageid in _distinct((subject, named[subject][1]) for subject in of_group).items():
            messages[subject] = SubjectMessage(named[subject][0], groups[place], messageid)
    return messages


def _ancestors(versions: list[SubjectVersion]) -> dict[str, str]:
    """Return the ancestor of each version: of a living one the last living one, as what was deleted need not be compatible."""
    ancestors: dict[str, str] = {}
    before: SubjectVersion | None = None
    newest: SubjectVersion | None = None
    for version in versions:
        ancestors[str(version.version)] = str(((newest if version.is_deleted else before) or version).version)
        newest, before = version, before if version.is_deleted else version
    return ancestors


def _target(source: SubjectVersion, reference: Json) -> tuple[str, int] | None:
    """Return subject and number that a reference leads to: in its own context, unless it names one; None: it names no version."""
    subject, version = reference.get("subject"), reference.get("version")
    if not isinstance(subject, str) or not isinstance(version, int):
        return None
    context = context_of(source.subject)[0]
    return (subject if is_qualified(subject) else qualified(context, subject)), version


def _circles(edges: dict[tuple[str, int], list[tuple[str, int]]]) -> Iterator[list[tuple[str, int]]]:
    """Yield each circle of references once, beginning with its first version; without recursion, however long it is."""
    done: set[tuple[str, int]] = set()
    for start in sorted(edges):
        if start in done:
            continue
        path = {start: iter(edges[start])}  # in the order in which it leads on
        while path:
            last = next(reversed(path))
            target = next((reference for reference in path[last] if reference in edges and reference not in done), None)
            if target is None:
                done.add(last)
                del path[last]
            elif target in path:
                circle = [*path][[*path].index(target) :]
                least = circle.index(min(circle))
                yield circle[least:] + circle[:least]
            else:
                path[target] = iter(edges[target])


def _labels(version: SubjectVersion) -> dict[str, str]:
    sensitive = version.metadata.get("sensitive")
    hidden = set(map(str, sensitive)) if isinstance(sensitive, list) else set()
    properties = object_at(version.metadata, "properties")
    labels = {name: value for name, value in properties.items() if isinstance(value, str) and name not in hidden}
    labels |= {} if version.id is None else {ID_LABEL: str(version.id)}
    labels |= {} if version.guid is None else {GUID_LABEL: version.guid.lower()}
    return labels | ({DELETED_LABEL: "true"} if version.is_deleted else {})


def _record_name(version: SubjectVersion) -> str | None:
    """Return the full name of a record; None: the schema is of none."""
    if version.kind == PROTOBUF:
        try:
            return ProtoFile(version.schema).first or None
        except (Malformed, Unreadable):
            return None
    document = version.document
    if not isinstance(document, dict):
        return None
    if version.kind == JSON:
        return text_at(document, "title")
    name, namespace = text_at(document, "name"), text_at(document, "namespace")
    return full_name(name, namespace or "") if name else name


def _distinct(named: Iterable[tuple[Key, str]]) -> dict[Key, str]:
    """Return an id for each name, different in more than letter case (MSG-037): the first that wants an id gets it."""
    ids: dict[Key, str] = {}
    taken: set[str] = set()
    for key, text in named:
        wanted = id_of_name(text)
        ids[key] = wanted if wanted.lower() not in taken else hashed_id(wanted, text)
        taken.add(ids[key].lower())
    return ids
