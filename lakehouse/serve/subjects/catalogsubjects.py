"""Schemas of a snapshot as a schema registry has them: contexts, subjects, and versions with numbers and ids.

Ids lead to what was deleted, too, as records that were written with it remain.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

from lakehouse.domain.subjects import (
    AVRO,
    DEFAULT_GROUP,
    context_of,
    ids_of_name,
    is_qualified,
    may_have_name,
    name_of_id,
    qualified,
)
from lakehouse.readmodel import View
from lakehouse.serve.answer.entityviews import SnapshotCatalog
from lakehouse.serve.subjects.schemarecords import FIRST_OWN_ID, Json, SchemaRecord, SchemaRecords
from lakehouse.text.jsontext import object_at, text_at
from lakehouse.text.names import Xid
from lakehouse.text.xid import ID, last_id, split_version, xid_of


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
