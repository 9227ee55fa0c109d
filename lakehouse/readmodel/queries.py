"""Queries over a whole snapshot or two: lists for pages, differences and whom they break, change events.

Differences are between any two snapshots: definitions are computed from the bodies in the log. `lakehouse.domain.events` makes
the events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import orjson

from lakehouse.domain.bases import FlatAttributes
from lakehouse.domain.diff import COMPARABLE_KINDS, Definitions, Difference, flat_attributes_of_entity
from lakehouse.domain.effective import compare_bodies
from lakehouse.domain.events import FEEDS, Changed, ChangeEvent, Commit, Endpoints, cloudevents
from lakehouse.domain.flatattributes import flat_attributes_of_body
from lakehouse.domain.versionchanges import VERSION_KINDS, ancestor_of, version_change
from lakehouse.readmodel.file.sqliteschema import EDGES, edges_of
from lakehouse.readmodel.flattened import endpoints_carrying
from lakehouse.readmodel.model import ReadModel
from lakehouse.readmodel.snapshotview import Entity, EntityReferences, Reference, View
from lakehouse.text.jsontext import decoded, in_order, read_canonical
from lakehouse.text.names import REGISTRY, JsonText, Pointer, RegistryId, Xid
from lakehouse.text.xid import split_version, xid_of_group, xid_of_resource, xid_of_version


class TooManyChanges(Exception):
    """More entities may differ than shall be compared."""


def snapshot_differences(
    model: ReadModel, before: str | int, after: str | int, most: int | None = None, *, registryid: RegistryId | None = None
) -> list[Difference]:
    """Compare two snapshots; only what changed between them, and what depends on that, is read.

    Args:
        model: the read model, up to date.
        before: number, label, date or time of a snapshot.
        after: likewise; it may be the earlier one.
        most: how many entities are compared; None: all.
        registryid: only of this registry; None: of all.

    Raises:
        SnapshotNotFound: one of them is not there.
        RegistryNotFound: the registry never held anything.
        TooManyChanges: more than `most` may differ.
    """

    def compare(view: View) -> list[Difference]:
        view.check_registry(registryid, ever=True)
        with model.at(after) as other:
            keys = {key for key in view.may_differ(other) if key[1] in COMPARABLE_KINDS and registryid in (None, key[0])}
            if most is not None and len(keys) > most:
                raise TooManyChanges
            return [with_endpoints(other, difference) for difference in compare_bodies(view.bodies, other.bodies, keys)]

    return model.answer(compare, before)


def definitions_of(view: View) -> Definitions:
    """Return the rows of the view `comparable_definitions` at a snapshot: registryid, kind, xid to flat attributes."""
    keys = [
        (registryid, entity.kind, entity.xid)
        for registryid in view.registries()
        for entity in view.below(registryid, REGISTRY)
        if entity.kind in COMPARABLE_KINDS
    ]
    return {key: attributes for key in keys if (attributes := view.bodies.flat_attributes_of(key)) is not None}


def change_events(
    view: View,
    source: str,
    since: int,
    until: int | None = None,
    feeds: Sequence[str] = FEEDS,
    *,
    registryid: RegistryId | None = None,
) -> Iterator[tuple[int, JsonText]]:
    """Return the events of the snapshots after `since`, in order.

    Args:
        view: whose `head` is the newest snapshot that can be read.
        source: URL of the registry, setting `events_source`; `{registryid}` stands for its id.
        since: the last snapshot that the reader knows; 0: none.
        until: the last snapshot to report; None: the head.
        feeds: which feeds.
        registryid: only of this registry; None: of all.

    Returns:
        Snapshot and event (CloudEvents JSON).

    Raises:
        RegistryNotFound: the registry never held anything.
    """
    view.check_registry(registryid, ever=True)
    for snapshot_id in range(since + 1, (view.head if until is None else until) + 1):
        commit = view.commit_of(snapshot_id)
        of_commit = Commit(snapshot_id, commit["committed_at"], commit["ingest_id"])
        state = view.at(snapshot_id)
        for event in cloudevents(of_commit, _changed_in(state, registryid), source, feeds, partial(_endpoints_of, state)):
            yield snapshot_id, event


def _endpoints_of(state: View, event: ChangeEvent) -> Endpoints:
    return endpoints_broken_by(state, event.registryid, Xid(event.subject), event.broken)


def _changed_in(view: View, registryid: RegistryId | None) -> Iterator[Changed]:
    """Yield what the snapshot changed in a registry (None: in all), each with the body before.

    A Version that came has the body of its ancestor.
    """
    rows = view.db.execute(
        """
        SELECT n.registryid, n.kind, n.xid, n.op, n.createdat, n.modifiedat, n.raw, n.body, p.body, p.op
        FROM log AS n
        LEFT JOIN log AS p ON p.registryid = n.registryid AND p.xid = n.xid AND p.kind = n.kind AND p.until = n.snapshot_id
        WHERE n.snapshot_id = ?1 AND n.op <> 'own' AND (?2 IS NULL OR n.registryid = ?2)
        """,
        (view.snapshot_id, registryid),
    ).fetchall()
    for *row, before, op in rows:
        changed = Changed._make((*row, None if op == "delete" else before, None))
        is_new = changed.kind in VERSION_KINDS and changed.before is None and changed.op != "delete"
        ancestor = ancestor_of(changed.xid, changed.body) if is_new and changed.body is not None else None
        earlier = None if ancestor is None else view.entity(changed.registryid, ancestor)
        yield changed._replace(ancestor=None if earlier is None else earlier.body)


class ChangedRow(NamedTuple):
    """A row of the log in a snapshot, with the body before it (None: the entity was not there)."""

    registryid: RegistryId
    kind: str
    xid: Xid
    op: str
    body: JsonText | None
    before: JsonText | None


def listed_members(view: View) -> dict[tuple[RegistryId, Xid], list[Xid]]:
    """Return the XIDs of messages and schemas of each group or endpoint that holds any, sorted, by registryid and XID of it."""
    rows = view.db.execute(
        f"SELECT registryid, xid FROM log WHERE kind IN ('message', 'schema') AND {view.in_snapshot()} ORDER BY registryid, xid"
    )
    result: dict[tuple[RegistryId, Xid], list[Xid]] = defaultdict(list)
    for registryid, xid in rows:
        result[registryid, xid[: xid.index("/", xid.index("/", 1) + 1)]].append(xid)
    return dict(result)


def definition_texts(
    view: View, registryid: RegistryId, xids: Sequence[Xid], columns: Sequence[str]
) -> Iterator[tuple[Xid, tuple[Any, ...]]]:
    """Yield columns of the effective definitions of some messages, by XID; maps and lists as JSON text."""
    if view.is_stored():
        wanted = "registryid = ? AND xid IN (SELECT value FROM json_each(?))"
        rows = view.db.execute(
            f"SELECT xid, {', '.join(columns)} FROM effective WHERE {wanted}", (registryid, orjson.dumps(xids).decode())
        )
        yield from ((xid, tuple(row)) for xid, *row in rows)
        return
    for definition in view.definitions(registryid, xids=xids):
        yield definition["xid"], tuple(_as_text(definition[name]) for name in columns)


def _as_text(value: Any) -> Any:
    return decoded(in_order(value)) if isinstance(value, dict | list) else value


def protocols_of(view: View) -> dict[tuple[RegistryId, Xid], str | None]:
    """Return the family of the protocol of each message, by registryid and XID; None: it names none."""
    if view.is_stored():
        rows = view.db.execute("SELECT registryid, xid, protocol_family FROM effective")
        return {(registryid, xid): family for registryid, xid, family in rows}
    return {(definition["registryid"], definition["xid"]): definition["protocol_family"] for definition in view.definitions()}


def labelled_messages(view: View) -> Iterator[tuple[RegistryId, Xid, dict[str, Any]]]:
    """Yield registryid, XID and labels of each message whose effective definition has any."""
    if view.is_stored():
        rows = view.db.execute("SELECT registryid, xid, labels FROM effective WHERE labels IS NOT NULL AND labels <> '{}'")
        yield from ((registryid, xid, orjson.loads(labels)) for registryid, xid, labels in rows)
        return
    yield from (
        (definition["registryid"], definition["xid"], definition["labels"])
        for definition in view.definitions()
        if definition["labels"]
    )


def labelled_schemas(view: View) -> Iterator[tuple[RegistryId, Xid, dict[str, Any]]]:
    """Yield registryid, XID and labels of each schema whose default Version has any."""
    query = "SELECT registryid, xid, body FROM log WHERE kind = 'schemaversion' AND instr(body, '\"labels\"') AND "
    for registryid, xid, body in view.db.execute(query + view.in_snapshot()):
        version = read_canonical(body)
        if version.get("isdefault") is True and isinstance(version.get("labels"), dict):
            yield registryid, xid_of_resource(xid), version["labels"]


def last_changes(view: View) -> dict[tuple[RegistryId, Xid], int]:
    """Return the last snapshot that changed each entity or a Version of it, by registryid and XID."""
    rows = view.db.execute(
        "SELECT registryid, kind, xid, max(snapshot_id) FROM log_rows INDEXED BY log_by_snapshot WHERE snapshot_id <= ?"
        " AND kind NOT IN ('document', 'label', 'snapshot') AND op <> 'own' GROUP BY registryid, xid",
        (view.snapshot_id,),
    )
    result: dict[tuple[RegistryId, Xid], int] = {}
    for registryid, kind, xid, snapshot_id in rows:
        key = (registryid, xid_of_resource(xid) if kind in VERSION_KINDS else xid)
        result[key] = max(snapshot_id, result.get(key, 0))
    return result


def formats_in(view: View) -> dict[tuple[RegistryId, Xid], list[str]]:
    """Return the formats of the Versions of each schema, and of the payload of each message, without their versions, sorted."""
    rows = view.db.execute(
        f"SELECT registryid, xid, body ->> '$.format' FROM log WHERE kind = 'schemaversion' AND {view.in_snapshot()}"
    ).fetchall()
    rows += [
        (definition["registryid"], definition["xid"], definition["dataschemaformat"]) for definition in _payload_formats(view)
    ]
    result: dict[tuple[RegistryId, Xid], set[str]] = defaultdict(set)
    for registryid, xid, format_ in rows:
        if isinstance(format_, str) and format_:
            result[registryid, xid_of_resource(xid)].add(format_.partition("/")[0])
    return {key: sorted(formats) for key, formats in result.items()}


def _payload_formats(view: View) -> Iterator[dict[str, Any]]:
    if not view.is_stored():
        yield from view.definitions()
        return
    names = ("registryid", "xid", "dataschemaformat")
    yield from (dict(zip(names, row, strict=True)) for row in view.db.execute(f"SELECT {', '.join(names)} FROM effective"))


def with_schema(view: View, registryid: RegistryId, xid: Xid) -> list[Xid]:
    """List the messages whose effective definition in the newest snapshot names a schema, or an alias of it."""
    aliases = [reference.source_xid for reference in view.referring_to(registryid, xid) if reference.relation == "xref"]
    return [
        message_xid
        for named in (xid, *aliases)
        for (message_xid,) in view.db.execute(
            "SELECT xid FROM effective WHERE registryid = ? AND schema_xid = ?", (registryid, named)
        )
    ]


def find_mentions(view: View, members: Collection[tuple[RegistryId, Xid]]) -> set[tuple[RegistryId, Xid]]:
    """Return the messages and schemas that hold the XID of some others, or a Version of which does: in a reference or a text.

    All texts are read once, however many members there are.
    """
    results = set()
    for registryid in {registryid for registryid, _ in members}:
        xids = [xid for registry, xid in members if registry == registryid]
        collections = {xid.split("/")[3] for xid in xids}
        rows = view.db.execute(
            "SELECT xid, body FROM log WHERE registryid = ? AND kind IN ('message', 'version', 'schema', 'schemaversion')"
            f" AND ({' OR '.join('instr(body, ?)' for _ in collections)}) AND {view.in_snapshot()}",
            (registryid, *(f"/{name}/" for name in collections)),
        )
        results |= {(registryid, xid_of_resource(source)) for source, body in rows if any(xid in body for xid in xids)}
    return results


def deprecated_in(view: View) -> set[tuple[RegistryId, Xid]]:
    """Return the entities that say that they are deprecated, of a message or schema in its default Version, too."""
    rows = view.db.execute(
        "SELECT registryid, kind, xid FROM log WHERE kind IN ('group', 'endpoint', 'message', 'version', 'schema',"
        f" 'schemaversion') AND body LIKE '%\"deprecated\"%' AND body ->> '$.deprecated' IS NOT NULL AND {view.in_snapshot()}"
    ).fetchall()
    results = set()
    for registryid, kind, xid in rows:
        entity_xid = xid_of_resource(xid) if kind in VERSION_KINDS else xid
        entity = view.entity(registryid, entity_xid)
        default = None if entity is None else entity.attributes.get("defaultversionid")
        if entity_xid == xid or xid == xid_of_version(entity_xid, default):
            results.add((registryid, entity_xid))
    return results


def extending(view: View, registryid: RegistryId, xid: Xid, limit: int) -> list[Xid]:
    """List messages whose `basemessage` leads to a message or to a Version of it: at most so many of them, by XID.

    Args:
        view: the snapshot.
        registryid: of both.
        xid: of the message.
        limit: how many are looked up.
    """
    rows = view.db.execute(
        f"""
        SELECT DISTINCT substr(l.xid, 1, instr(l.xid, '/versions/') - 1)
        FROM {EDGES}
        WHERE (e.whole = ?1 OR (e.whole > ?1 || '/versions/' AND e.whole < ?1 || '/versions0'))
          AND e.relation = 'basemessage' AND l.registryid = ?2 AND l.kind = 'version' AND {view.in_snapshot("l.")}
        LIMIT ?3
        """,
        (xid, registryid, limit),
    )
    return sorted(message_xid for (message_xid,) in rows)


def find_referring(view: View, registryid: RegistryId, xid: Xid, relation: str, limit: int) -> list[Xid]:
    """List what refers to an entity or to a Version of it in some way: at most so many XIDs, sorted.

    Args:
        view: the snapshot.
        registryid: of both.
        xid: of the entity.
        relation: as in the view `entity_references`.
        limit: how many are looked up.
    """
    rows = view.db.execute(
        f"""
        SELECT DISTINCT l.xid FROM {EDGES}
        WHERE (e.whole = ?1 OR e.without_suffix = ?1 OR (e.whole > ?1 || '/versions/' AND e.whole < ?1 || '/versions0'))
          AND e.relation = ?2 AND l.registryid = ?3 AND {view.in_snapshot("l.")}
        LIMIT ?4
        """,
        (xid, relation, registryid, limit),
    )
    return sorted(source_xid for (source_xid,) in rows)


def changed_in(
    view: View, snapshot_id: int, limit: int, offset: int = 0, *, registryid: RegistryId | None = None
) -> list[ChangedRow]:
    """List what a snapshot changed, by registry and XID.

    Args:
        view: any snapshot of the log.
        snapshot_id: the snapshot.
        limit: how many at most.
        offset: how many are passed over.
        registryid: only of this registry; None: of all.
    """
    rows = view.db.execute(
        """
        SELECT n.registryid, n.kind, n.xid, n.op, n.body, CASE WHEN p.op = 'delete' THEN NULL ELSE p.body END
        FROM (
          SELECT id FROM log_rows INDEXED BY log_by_snapshot
          WHERE snapshot_id = ?1 AND kind NOT IN ('document', 'label', 'snapshot') AND (?4 IS NULL OR registryid = ?4)
          ORDER BY registryid, xid, kind LIMIT ?2 OFFSET ?3
        ) AS page
        INNER JOIN log AS n ON n.id = page.id
        LEFT JOIN log AS p ON p.registryid = n.registryid AND p.xid = n.xid AND p.kind = n.kind AND p.until = n.snapshot_id
        ORDER BY n.registryid, n.xid, n.kind
        """,
        (snapshot_id, limit, offset, registryid),
    )
    return [ChangedRow._make(row) for row in rows]


def count_changed(view: View, snapshot_id: int, registryid: RegistryId | None = None) -> dict[str, int]:
    """Count what a snapshot changed in a registry (None: in all), by op."""
    rows: Any = view.db.execute(
        "SELECT op, count(*) FROM log_rows INDEXED BY log_by_snapshot"
        " WHERE snapshot_id = ?1 AND kind NOT IN ('document', 'label', 'snapshot') AND (?2 IS NULL OR registryid = ?2)"
        " GROUP BY op",
        (snapshot_id, registryid),
    )
    return dict(rows)


def count_changes_in(view: View, registryid: RegistryId) -> dict[int, dict[str, int]]:
    """Count what each snapshot changed in a registry, by op; a snapshot that changed nothing in it has no entry."""
    rows = view.db.execute(
        "SELECT snapshot_id, op, count(*) FROM log_rows INDEXED BY log_by_snapshot"
        " WHERE registryid = ? AND kind NOT IN ('document', 'label', 'snapshot') GROUP BY snapshot_id, op",
        (registryid,),
    )
    results: dict[int, dict[str, int]] = defaultdict(dict)
    for snapshot_id, op, count in rows:
        results[snapshot_id][op] = count
    return dict(results)


def declared_attributes(kind: str, body: JsonText) -> FlatAttributes:
    """Return the flat attributes by which two states of an entity are compared, as it declares them, without its bases."""
    if kind == "version":
        return {pointer: value for pointer, value in flat_attributes_of_body(body) if value not in ("null", "{}")}
    if kind == "message":
        attributes = read_canonical(body)
        return {Pointer(f"/{name}"): decoded(in_order(value)) for name, value in attributes.items() if value is not None}
    return flat_attributes_of_entity(kind, body)


def attributes_of_version(version: Entity) -> tuple[FlatAttributes, Xid]:
    """Return what a Version declares, and its XID."""
    return declared_attributes(version.kind, version.body), version.xid


def attributes_of_default(view: View, registryid: RegistryId, xid: Xid) -> tuple[FlatAttributes | None, Xid | None]:
    """Return what the default Version of a message or schema declares, and its XID; None: it is not in the snapshot."""
    entity = view.entity(registryid, xid)
    if entity is None:
        return None, None
    versions = view.versions(registryid, xid)
    wanted = xid_of_version(xid, entity.attributes.get("defaultversionid"))
    version = next((version for version in versions if version.xid == wanted), versions[-1] if versions else None)
    return ({}, None) if version is None else attributes_of_version(version)


def comparable_attributes(view: View, entity: Entity) -> FlatAttributes:
    """Return the flat attributes by which two entities of one kind are compared; of a schema those of its default Version.

    Of others they are effective; a message whose definition is not there yet has those of its default Version.
    """
    attributes = None if entity.kind == "schema" else view.bodies.flat_attributes_of((entity.registryid, entity.kind, entity.xid))
    return attributes if attributes is not None else attributes_of_default(view, entity.registryid, entity.xid)[0] or {}


_ROLES = {"producers": frozenset({"producer"}), "consumers": frozenset({"consumer", "subscriber"})}
_MOST_SHOWN = 5


class ReferringBodies:
    """The entities of a state by their bodies alone, with what refers to what: for documents, and for Spark.

    Args:
        rows: registryid, kind, XID and body of each; of several for one entity the first counts.
    """

    def __init__(self, rows: Iterable[tuple[RegistryId, str, Xid, JsonText]]) -> None:
        self._entities: dict[tuple[RegistryId, Xid], Entity] = {}
        for registryid, kind, xid, body in rows:
            entity = Entity(registryid, kind, xid, None, None, None, body, None, [], None, 0, 0)
            self._entities.setdefault((registryid, xid), entity)
        self._referring: dict[tuple[RegistryId, Xid], list[Reference]] = {}
        for (registryid, source), entity in self._entities.items():
            for relation, pointer, target, whole, without_suffix, type_name in edges_of(entity.kind, entity.body):
                is_whole = (registryid, whole) in self._entities or without_suffix is None
                place = whole if is_whole else without_suffix
                if place is not None:
                    reference = Reference(registryid, source, relation, pointer, target, place, type_name, "resolves")
                    self._referring.setdefault((registryid, place), []).append(reference)

    def entity(self, registryid: RegistryId, xid: Xid) -> Entity | None:
        """Look an entity up; None: there is none."""
        return self._entities.get((registryid, xid))

    def referring_to(self, registryid: RegistryId, xid: Xid) -> list[Reference]:
        """List the references that lead to an entity."""
        return self._referring.get((registryid, xid), [])


def with_endpoints(references: EntityReferences, difference: Difference) -> Difference:
    """Add to a difference within a schema at which endpoints it breaks whom; others are returned as they are.

    Args:
        references: of the state after it.
        difference: as a comparison found it.
    """
    broken = [
        side
        for side, effect in (("producers", difference.for_producers), ("consumers", difference.for_consumers))
        if effect == "breaking"
    ]
    if not difference.is_about_schema or not broken:
        return difference
    sentences = []
    for side, xids in endpoints_broken_by(references, difference.registryid, difference.xid, broken).items():
        more = f" and {len(xids) - _MOST_SHOWN} more" if len(xids) > _MOST_SHOWN else ""
        sentences.append(f"It breaks {side} at {', '.join(xids[:_MOST_SHOWN])}{more}.")
    return replace(difference, meaning=" ".join([difference.meaning, *sentences]))


def endpoints_broken_by(
    references: EntityReferences, registryid: RegistryId, xid: Xid, broken: Iterable[str]
) -> dict[str, list[Xid]]:
    """Return the endpoints at which a change breaks clients, by `producers` and `consumers`; who has none is left out.

    Args:
        references: of the state after it.
        registryid: of what changed.
        xid: a message, a schema, or a Version of one.
        broken: who breaks, `producers` or `consumers`.
    """
    groups = sorted({xid_of_group(message) for message in messages_changed_by(references, registryid, xid)})
    endpoints = {endpoint.xid: endpoint for group in groups for endpoint in endpoints_carrying(references, registryid, group)}
    results = {side: [xid for xid, endpoint in sorted(endpoints.items()) if is_endpoint_of(endpoint, side)] for side in broken}
    return {side: xids for side, xids in results.items() if xids}


def changes_in_use(view: View, registryid: RegistryId, version: Xid, schemas: Sequence[Xid]) -> list[dict[str, Any]]:
    """Compare the Version that a message shows, and those of its schemas, each with the Version that it was made from.

    Args:
        view: the snapshot.
        registryid: of all.
        version: of the message.
        schemas: XIDs of schemas (their default Version) or of Versions of them.

    Returns:
        One object for each that differs: version, comparedwith, breaks, differences, endpoints.
    """
    results = []
    for xid in dict.fromkeys([version, *(_shown_version(view, registryid, schema) for schema in schemas)]):
        entity = view.entity(registryid, xid)
        if entity is None or entity.kind not in VERSION_KINDS:
            continue
        ancestor = ancestor_of(xid, entity.body)
        earlier = None if ancestor is None else view.entity(registryid, ancestor)
        change = version_change(entity.kind, earlier.xid, earlier.body, entity.body) if earlier is not None else None
        if change is not None:
            endpoints = endpoints_broken_by(view, registryid, xid, change.broken)
            results.append({"version": xid} | change.as_json() | {"endpoints": endpoints})
    return results


def _shown_version(view: View, registryid: RegistryId, schema: Xid) -> Xid:
    if split_version(schema)[1] is not None:
        return schema
    resource = view.entity(registryid, schema)
    return xid_of_version(schema, None if resource is None else resource.attributes.get("defaultversionid"))


def is_endpoint_of(endpoint: Entity, side: str) -> bool:
    """Return whether `producers` or `consumers` are clients of an endpoint; one that says no `usage` may have both."""
    usage = endpoint.attributes.get("usage")
    return not usage or not _ROLES[side].isdisjoint(usage)


def messages_changed_by(references: EntityReferences, registryid: RegistryId, xid: Xid) -> set[Xid]:
    """Return the messages that a change is about: the message itself or those that name the schema, and all based on them."""
    resource_xid, versionid = split_version(xid)
    if xid_of_group(xid).startswith(("/messagegroups/", "/endpoints/")):
        return _extending(references, registryid, {resource_xid})
    named = [xid] if versionid is not None else []
    schema = references.entity(registryid, resource_xid)
    if versionid is None or (schema is not None and schema.attributes.get("defaultversionid") == versionid):
        named.append(resource_xid)
    naming = (reference for named_xid in named for reference in references.referring_to(registryid, named_xid))
    result = {xid_of_resource(reference.source_xid) for reference in naming if reference.relation.startswith("dataschema")}
    return _extending(references, registryid, result)


def _extending(references: EntityReferences, registryid: RegistryId, messages: set[Xid]) -> set[Xid]:
    """Return messages and those that are based on them, directly or not."""
    result, left = set(messages), list(messages)
    while left:
        naming = references.referring_to(registryid, left.pop())
        new = {xid_of_resource(reference.source_xid) for reference in naming if reference.relation == "basemessage"} - result
        result |= new
        left += new
    return result
