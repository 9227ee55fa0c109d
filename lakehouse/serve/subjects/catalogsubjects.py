"""Schemas of a snapshot as a schema registry has them: contexts, subjects, and versions with numbers and ids.

Ids lead to what was deleted, too, as records that were written with it remain. An id is the one that a schema registry gave (its
label). Where none gave one, it is FIRST_OWN_ID plus the position in the log of the row since which the Version has its schema:
the log only grows, so an id means one schema for good.

Blanks, comments of Protobuf, the order of JSON members, and how Avro spells a name with its namespace do not make another schema.
Protobuf schemas are descriptors, too, as some clients write them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from lakehouse.compatibility.avroschemas import full_name
from lakehouse.compatibility.limits import Malformed
from lakehouse.compatibility.protoschemas import json_name_of, proto_tokens
from lakehouse.dialects.schemadocuments import content_of
from lakehouse.dialects.versionorder import natural_order
from lakehouse.domain.subjects import (
    AVRO,
    DEFAULT_GROUP,
    PROTOBUF,
    context_of,
    ids_of_name,
    is_qualified,
    may_have_name,
    name_of_id,
    number_of,
    qualified,
    schema_document,
)
from lakehouse.readmodel import View
from lakehouse.serve.answer.entityviews import SnapshotCatalog
from lakehouse.text.jsontext import canonical_text, in_order, object_at, read_canonical, read_written, text_at
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.values import decoded_base64
from lakehouse.text.xid import ID, last_id, split_version, xid_of

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

Json = dict[str, Any]
FIRST_OWN_ID = 1 << 30  # ids have 31 bits; registries count from 1
GROUPS = "/schemagroups/"
_GROUPS_END = "/schemagroups0"
Imports = tuple[tuple[str, str], ...]
_NAMED = ("record", "error", "enum", "fixed")
_SIMPLE = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class SchemaRecord(NamedTuple):
    """A row of a Version in the log.

    Attributes:
        xid: of the Version.
        snapshot_id: that the row came with.
        position: in the log, among all rows of schemas' Versions.
        kind: AVRO, JSON or PROTOBUF.
        registry_id, guid: that a schema registry gave; None: it gave none.
        is_deleted: whether it is deleted in its registry, and not for good.
        is_current: whether the row is that of the Version at the snapshot.
        body: its normal form.
        raw: as written; None: equal to body.
    """

    xid: Xid
    snapshot_id: int
    position: int
    kind: str
    registry_id: int | None
    guid: str | None
    is_deleted: bool
    is_current: bool
    body: JsonText
    raw: JsonText | None

    @property
    def attributes(self) -> Json:
        """Return its normal form."""
        attributes: Json = read_canonical(self.body)
        return attributes

    @property
    def text(self) -> str:
        """Return the schema as it was written."""
        content = content_of(read_written(self.raw)) if self.raw is not None else None
        if content is not None:
            return content.decode()
        value = self.attributes["schema"]
        return value if isinstance(value, str) else in_order(value).decode()


class SchemaRecords:
    """The rows of a registry, as a snapshot has them.

    Args:
        view: the snapshot; None: there is none, and nothing in it.
        registryid: the registry.
    """

    def __init__(self, view: View | None, registryid: RegistryId) -> None:
        self._view = view
        self._registryid = registryid

    def counts(self, *, deleted: bool) -> dict[Xid, int]:
        """Return how many Versions schemas have, of kinds that schema registries have."""
        if self._view is None:
            return {}
        query = "SELECT l.xid FROM log AS l INNER JOIN schema_rows AS v ON v.log_id = l.id WHERE l.registryid = ?"
        query += f" AND l.xid > '{GROUPS}' AND l.xid < '{_GROUPS_END}' AND {self._view.in_snapshot('l.')} AND v.kind IS NOT NULL"
        query += "" if deleted else " AND NOT v.is_deleted"
        rows: Iterator[tuple[Xid]] = self._view.db.execute(query, (self._registryid,))
        return Counter(split_version(xid)[0] for (xid,) in rows)

    def select(self, condition: str, *values: Any, past: bool = False) -> list[SchemaRecord]:
        """Return Versions of kinds that schema registries have; `past`: also those that are no more, or were otherwise."""
        if self._view is None:
            return []
        until = f"l.snapshot_id <= {self._view.snapshot_id:d}" if past else self._view.in_snapshot("l.")
        rows = self._view.db.execute(
            "SELECT l.xid, l.snapshot_id, v.position, v.kind, v.registry_id, v.guid, v.is_deleted,"
            f" {self._view.in_snapshot('l.')}, l.body, l.raw"
            " FROM schema_rows AS v INNER JOIN log AS l ON l.id = v.log_id"
            f" WHERE l.registryid = ?1 AND v.kind IS NOT NULL AND {until} {condition} ORDER BY l.xid, v.position",
            (self._registryid, *values),
        )
        return [SchemaRecord._make((*row[:6], bool(row[6]), bool(row[7]), *row[8:])) for row in rows]

    def id_of(self, record: SchemaRecord) -> int:
        """Return the id of a Version: of its registry, else of the first row since which it has its schema."""
        if record.registry_id is not None:
            return record.registry_id
        assert self._view is not None
        position, key = record.position, schema_key(record)
        rows = self._view.db.execute(
            "SELECT l.op, l.body, v.position, v.registry_id FROM log AS l LEFT JOIN schema_rows AS v ON v.log_id = l.id"
            " WHERE l.registryid = ? AND l.xid = ? AND l.kind = 'schemaversion' AND l.snapshot_id < ?"
            " ORDER BY l.snapshot_id DESC",
            (self._registryid, record.xid, record.snapshot_id),
        )
        for op, body, earlier, registry_id in rows.fetchall():
            if op == "delete" or registry_id is not None or _key(read_canonical(body)) != key:
                break
            position = earlier
        return FIRST_OWN_ID + position

    def numbers(self, xid: Xid) -> dict[str, int]:
        """Return the numbers of a schema's Versions: their ids, if all that it ever had are numbers; else as they came."""
        assert self._view is not None
        rows = self._view.db.execute(
            "SELECT xid, min(snapshot_id) FROM log WHERE registryid = ? AND xid > ? AND xid < ? AND kind = 'schemaversion'"
            f" AND snapshot_id <= {self._view.snapshot_id:d} GROUP BY xid",
            (self._registryid, f"{xid}/versions/", f"{xid}/versions0"),
        ).fetchall()
        ids = [(last_id(version_xid), snapshot_id) for version_xid, snapshot_id in rows]
        numbers = {versionid: number for versionid, _ in ids if (number := number_of(versionid)) is not None}
        if len(numbers) == len(ids):
            return numbers
        ordered = sorted(ids, key=lambda pair: (pair[1], natural_order(pair[0])))
        return {versionid: number for number, (versionid, _) in enumerate(ordered, 1)}

    def name_of(self, xid: Xid) -> str:
        """Return the name of a schema in its context: its id, unless that is made of a name."""
        schemaid = last_id(xid)
        if not may_have_name(schemaid):
            return schemaid
        versions = self._view.versions(self._registryid, xid) if self._view is not None else []
        named = {name_of_id(schemaid, version.attributes.get("name")) for version in versions}
        return next(iter(sorted(named - {schemaid})), schemaid)

    def aliases(self) -> Iterator[tuple[Xid, Xid]]:
        """Yield the schemas that stand for others, and for which."""
        if self._view is None:
            return
        yield from self._view.db.execute(
            "SELECT l.xid, e.whole FROM log AS l INNER JOIN edges AS e ON e.log_id = l.id WHERE l.registryid = ?"
            f" AND l.xid > '{GROUPS}' AND l.xid < '{_GROUPS_END}' AND l.kind = 'schema' AND e.relation = 'xref'"
            f" AND e.whole IS NOT NULL AND {self._view.in_snapshot('l.')}",
            (self._registryid,),
        ).fetchall()

    def target_of(self, xid: Xid) -> Xid:
        """Return the schema that one stands for; itself, if it is no alias."""
        target = self.attributes(xid).get("xref")
        return Xid(target) if isinstance(target, str) and target.startswith(GROUPS) and target.count("/") == 4 else xid

    def referring_to(self, xid: Xid) -> list[Xid]:
        """Return the Versions whose schema refers to a Version."""
        results = self._view.referring_to(self._registryid, xid) if self._view is not None else []
        return [reference.source_xid for reference in results if reference.relation == "references"]

    def attributes(self, xid: Xid) -> Json:
        """Return the attributes of an entity; nothing: it is not at the snapshot."""
        result = None if self._view is None else self._view.entity(self._registryid, xid)
        return {} if result is None else result.attributes


def schema_key(record: SchemaRecord) -> str:
    """Return a text that is equal for rows with the same schema."""
    return _key(record.attributes)


def _key(attributes: Json) -> str:
    references = object_at(attributes, "extensions").get("references")
    return canonical_text([attributes.get("format"), attributes.get("schema"), references])


class CatalogVersion(NamedTuple):
    """A version of a subject: its name, its number, its id, and its row."""

    subject: str
    number: int
    id: int
    record: SchemaRecord

    def schema(self) -> Json:
        """Return the schema as the API has it, without subject, version and id."""
        attributes = self.record.attributes
        extensions = object_at(attributes, "extensions")
        result: Json = {"schema": self.record.text}
        if self.record.kind != AVRO:
            result["schemaType"] = self.record.kind
        if self.record.guid is not None:
            result["guid"] = self.record.guid
        if references := references_of(extensions, context_of(self.subject)[0]):
            result["references"] = references
        properties = {name: value for name, value in object_at(attributes, "labels").items() if not name.startswith("confluent.")}
        if metadata := object_at(extensions, "metadata") | ({"properties": properties} if properties else {}):
            result["metadata"] = metadata
        if ruleset := object_at(extensions, "ruleset"):
            result["ruleSet"] = ruleset
        return result

    def as_json(self) -> Json:
        """Return it as the API has it."""
        deleted = {"deleted": True} if self.record.is_deleted else {}
        return {"subject": self.subject, "version": self.number, "id": self.id} | self.schema() | deleted


def references_of(extensions: Json, context: str) -> list[Json]:
    """Return references as the API has them: with the context that they are read in, without the XID."""
    references = extensions.get("references")
    results = []
    for reference in references if isinstance(references, list) else ():
        subject = text_at(reference, "subject") if isinstance(reference, dict) else None
        if subject is not None:
            named = subject if is_qualified(subject) else qualified(context, subject)
            results.append({"name": reference.get("name"), "subject": named, "version": reference.get("version")})
    return results


class CatalogSubject(NamedTuple):
    """A subject: its name, the XID of its schema, and its versions by number, also those that are deleted in their registry."""

    name: str
    xid: Xid
    level: str | None
    latest: CatalogVersion | None
    versions: list[CatalogVersion]

    def living(self, *, deleted: bool = False) -> list[CatalogVersion]:
        """Return the versions; `deleted`: also those that are deleted."""
        return [version for version in self.versions if deleted or not version.record.is_deleted]


class CatalogSubjects:
    """The subjects of a registry at a snapshot.

    Args:
        catalog: the registry.
        view: the snapshot; None: it holds nothing.
    """

    def __init__(self, catalog: SnapshotCatalog, view: View | None) -> None:
        self._catalog = catalog
        self.records = SchemaRecords(view, catalog.registryid)

    @cached_property
    def groups(self) -> dict[str, str]:
        """Return the schemagroup of each context; that of the empty name is the default context."""
        ids = self._catalog.ids_of_groups("schemagroups")
        return {"" if groupid == DEFAULT_GROUP else self._context_name(groupid): groupid for groupid in ids}

    @cached_property
    def _contexts(self) -> dict[str, str]:
        return {groupid: context for context, groupid in self.groups.items()}

    @property
    def plain_group(self) -> str | None:
        """Return the schemagroup of ids that are looked up without a subject: the default context, or the only one there is."""
        ids = list(self.groups.values())
        return DEFAULT_GROUP if DEFAULT_GROUP in ids else ids[0] if len(ids) == 1 else None

    def names(self, *, deleted: bool = False, deleted_only: bool = False) -> list[tuple[str, Xid, int]]:
        """Return name, schema and number of versions of each subject, by name.

        Args:
            deleted: also of what is deleted in its registry.
            deleted_only: only subjects of which all versions are.
        """
        catalog = self._catalog
        return catalog.cache.get_or_make(
            (*catalog.key, "subjects", deleted, deleted_only), lambda: self._names(deleted, deleted_only), len
        )

    def _names(self, deleted: bool, deleted_only: bool) -> list[tuple[str, Xid, int]]:
        counts = self.records.counts(deleted=deleted or deleted_only)
        if deleted_only:
            living = self.records.counts(deleted=False)
            counts = {xid: count for xid, count in counts.items() if xid not in living}
        counts |= {xid: counts[target] for xid, target in self.records.aliases() if target in counts}
        return sorted(
            (qualified(self._contexts[_group_of(xid)], self.records.name_of(xid)), xid, count) for xid, count in counts.items()
        )

    def find(self, subject: str) -> CatalogSubject | None:
        """Return a subject; None: there is none.

        One that names no context is that of the default context, else that of the only other context which has it.
        """
        context, name = context_of(subject)
        if (result := self._in_context(context, name)) is not None or is_qualified(subject):
            return result
        candidates = [
            candidate for context in self.groups if context and (candidate := self._in_context(context, name)) is not None
        ]
        return candidates[0] if len(candidates) == 1 else None

    def load(self, name: str, xid: Xid) -> CatalogSubject | None:
        """Return the subject of a schema; None: it has no version of a kind that schema registries have."""
        target = self.records.target_of(xid)
        attributes = self.records.attributes(target)
        records = self.records.select("AND l.xid > ?2 AND l.xid < ?3", f"{target}/versions/", f"{target}/versions0")
        if not records:
            return None
        numbers = self.records.numbers(target)
        versions = [self._version(name, record, numbers) for record in records]
        versions.sort(key=lambda version: version.number)
        living = [version for version in versions if not version.record.is_deleted]
        newest = living[-1] if living else None
        latest = next(
            (version for version in living if last_id(version.record.xid) == attributes.get("defaultversionid")), newest
        )
        return CatalogSubject(name, xid, text_at(attributes, "compatibility"), latest, versions)

    def by_id(self, number: int) -> list[CatalogVersion]:
        """Return the versions that have an id, also those of the past: current ones first, then by subject."""
        own = self._of_rows("AND v.registry_id IS NULL AND v.position = ?2", number - FIRST_OWN_ID)
        return sorted(
            [*self._of_rows("AND v.registry_id = ?2", number), *(version for version in own if version.id == number)], key=_order
        )

    def by_guid(self, guid: str) -> list[CatalogVersion]:
        """Return the versions that have a GUID, as `by_id`."""
        return self._of_rows("AND v.guid = ?2", guid.lower())

    def referring_to(self, version: CatalogVersion) -> list[int]:
        """Return the ids of the versions that refer to one."""
        records = [
            record
            for xid in self.records.referring_to(version.record.xid)
            for record in self.records.select("AND l.xid = ?2", xid)
        ]
        return sorted({self.records.id_of(record) for record in records})

    def _of_rows(self, condition: str, *values: Any) -> list[CatalogVersion]:
        """Return the versions that rows of the log are of; where the schema is still the same, as it is now."""
        newest = {record.xid: record for record in self.records.select(condition, *values, past=True)}
        results = []
        for past in newest.values():
            now = [] if past.is_current else self.records.select("AND l.xid = ?2", past.xid)
            record = now[0] if now and self.records.id_of(now[0]) == self.records.id_of(past) else past
            schema = split_version(record.xid)[0]
            name = qualified(self._contexts.get(_group_of(schema), _group_of(schema)), self.records.name_of(schema))
            results.append(self._version(name, record, self.records.numbers(schema)))
        return sorted(results, key=_order)

    def _version(self, name: str, record: SchemaRecord, numbers: dict[str, int]) -> CatalogVersion:
        return CatalogVersion(name, numbers[last_id(record.xid)], self.records.id_of(record), record)

    def _in_context(self, context: str, name: str) -> CatalogSubject | None:
        groupid = self.groups.get(context)
        ids = dict.fromkeys((name, *ids_of_name(name))) if groupid is not None else ()
        for xid in (
            xid_of("schemagroups", groupid, "schemas", schemaid) for schemaid in ids if groupid is not None and ID.match(schemaid)
        ):
            if self.records.name_of(xid) == name and (result := self.load(qualified(context, name), xid)) is not None:
                return result
        return None

    def _context_name(self, groupid: str) -> str:
        own = self.records.attributes(xid_of("schemagroups", groupid)) if may_have_name(groupid) else {}
        return name_of_id(groupid, own.get("name")).replace(":", "~3A")


def _group_of(xid: Xid) -> str:
    return xid.split("/")[2]


def _order(version: CatalogVersion) -> tuple[Any, ...]:
    return not version.record.is_current, version.record.is_deleted, version.subject, version.number


def key_of_schema(kind: str, text: str) -> str:
    """Return a text that is equal for the same schemas of a kind."""
    if kind == PROTOBUF:
        try:
            return "\n".join(proto_tokens(text))
        except Malformed:
            return text
    document = schema_document(kind, text)
    if kind != AVRO:
        return canonical_text(document)
    try:
        if isinstance(document, str):
            document = document.strip().strip('"')
        return canonical_text(_avro(document, ""))
    except (RecursionError, AttributeError, TypeError):  # no Avro schema: it is compared as the JSON value that it is
        return canonical_text(document)


def _avro(part: Any, space: str) -> Any:
    """Write a type with whole names, and a type that is nothing but another one as that."""
    if isinstance(part, list):
        return [_avro(branch, space) for branch in part]
    if isinstance(part, str):
        return part if part in _SIMPLE else full_name(part, space)
    kind = part.get("type")
    result = dict(part)
    if kind in _NAMED:
        result["name"] = full_name(part["name"], result.pop("namespace", space) or "")
        space = result["name"].rpartition(".")[0]
        if "fields" in part:
            result["fields"] = [{**field, "type": _avro(field["type"], space)} for field in part["fields"]]
        return result
    for name in ("items", "values"):
        if name in part:
            result[name] = _avro(part[name], space)
    if kind not in ("array", "map"):
        result["type"] = _avro(kind, space)
    return result["type"] if set(result) == {"type"} else result


def descriptor_in(text: str) -> FileDescriptorProto | None:
    """Return the descriptor that a text is, in base64, as Python's serializers write Protobuf schemas; None: it is none.

    Raises:
        ModuleNotFoundError: the library for Protobuf is not installed.
    """
    content = decoded_base64(text)
    if content is None:
        return None
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    try:
        return FileDescriptorProto.FromString(content)
    except DecodeError:
        return None


def descriptor_of(text: str, imports: Imports) -> FileDescriptorProto:
    """Compile a Protobuf schema.

    Args:
        text: the schema.
        imports: name and text of the schemas that it refers to.

    Raises:
        ModuleNotFoundError: the compiler is not installed.
        lakehouse.match.payload.validators.Unsupported: it does not compile.
    """
    from lakehouse.match.payload.protobuf import compiled

    return _plain(compiled(text, imports)[0])


def is_same_descriptor(descriptor: FileDescriptorProto, other: FileDescriptorProto) -> bool:
    """Return whether two descriptors are of the same schema, whatever their files are named."""
    return bool(_plain(descriptor) == _plain(other))


def _plain(descriptor: FileDescriptorProto) -> FileDescriptorProto:
    """Return a copy without what is not in the text: the file's name, places in it, and JSON names that follow from names."""
    result = type(descriptor)()
    result.CopyFrom(descriptor)
    result.ClearField("name")
    result.ClearField("source_code_info")
    left = list(result.message_type)
    while left:
        message = left.pop()
        left += message.nested_type
        for field in message.field:
            if field.json_name == json_name_of(field.name):
                field.ClearField("json_name")
    return result
