"""Rows of schemas' Versions in the log, as the read model numbers them: what they hold, and the id that each one has.

The id is the one that a schema registry gave (its label). Where none gave one, it is FIRST_OWN_ID plus the position in the log of
the row since which the Version has its schema: the log only grows, so an id means one schema for good.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from lakehouse.dialects.schemadocuments import content_of
from lakehouse.dialects.versionorder import natural_order
from lakehouse.domain.subjects import may_have_name, name_of_id, number_of
from lakehouse.readmodel import View
from lakehouse.text.jsontext import canonical_text, in_order, object_at, read_canonical, read_written
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import last_id, split_version

Json = dict[str, Any]
FIRST_OWN_ID = 1 << 30  # ids have 31 bits; registries count from 1
GROUPS = "/schemagroups/"
_GROUPS_END = "/schemagroups0"


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
        query += f" AND l.xid > '{GROUPS}' AND l.xid < '{_GROUPS_END}' AND {self._view.holds('l.')} AND v.kind IS NOT NULL"
        query += "" if deleted else " AND NOT v.is_deleted"
        rows: Iterator[tuple[Xid]] = self._view.db.execute(query, (self._registryid,))
        return Counter(split_version(xid)[0] for (xid,) in rows)

    def select(self, condition: str, *values: Any, past: bool = False) -> list[SchemaRecord]:
        """Return Versions of kinds that schema registries have; `past`: also those that are no more, or were otherwise."""
        if self._view is None:
            return []
        until = f"l.snapshot_id <= {self._view.snapshot_id:d}" if past else self._view.holds("l.")
        rows = self._view.db.execute(
            "SELECT l.xid, l.snapshot_id, v.position, v.kind, v.registry_id, v.guid, v.is_deleted,"
            f" {self._view.holds('l.')}, l.body, l.raw"
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
            f" AND e.whole IS NOT NULL AND {self._view.holds('l.')}",
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
