"""A change of an entity becomes CloudEvents, in two feeds.

That of the xRegistry core (`io.xregistry.<entity>.<action>`, core/events.md), and that of message catalogs
(`io.cloudevents.messagecatalog.updated.v1` and `.deleted.v1`; CAT-196 to CAT-211). All follows from the log, so an event that is
made twice is the same event, with the same id: readers that resume from a snapshot miss none.

The event of a Version that changed, or was made from another one, says what differs and whom that breaks: at which endpoints too.

A change makes parts of events: its own, and those of what holds it. What several changes of a snapshot mean for one subject is
one event.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from lakehouse.domain.versionchanges import VERSION_KINDS, ancestor_of, version_change
from lakehouse.text.jsontext import as_column_text, read_canonical
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.timestamps import microseconds, rfc3339

CORE = "core"
MESSAGE_CATALOG = "messagecatalog"
FEEDS = (CORE, MESSAGE_CATALOG)
ENTITY_OF_KIND = {
    "registry": "registry",
    "group": "group",
    "endpoint": "group",
    "message": "resource",
    "schema": "resource",
    "version": "version",
    "schemaversion": "version",
}
_TYPES = {
    (MESSAGE_CATALOG, "updated"): "io.cloudevents.messagecatalog.updated.v1",
    (MESSAGE_CATALOG, "deleted"): "io.cloudevents.messagecatalog.deleted.v1",
}
_DEPRECATION = "deprecation"
_ACTION = {"insert": "created", "update": "updated", "delete": "deleted"}
_STRONGEST_LAST = (_DEPRECATION, "updated", "created", "deleted")
_OF_REGISTRY = ("model", "modelsource", "capabilities")
_WITHOUT_LIST = ("model", "modelsource", MESSAGE_CATALOG)
_ZONED = re.compile(r"\A\d{4}-\d\d-\d\d[Tt][0-9:.]+([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_OF_DRAFT = {"createdat": "createdtimeutc", "modifiedat": "updatedtimeutc"}  # in the CNCF catalog draft
_DATES = ["epoch", "modifiedat"]
_Attributes = dict[str, str | None]
Endpoints = dict[str, list[Xid]]  # by `producers` and `consumers`


class Changed(NamedTuple):
    """A row of the log that changed an entity.

    Attributes:
        registryid, kind, xid, op, createdat, modifiedat, raw, body: of the row.
        before: the body before it; None: the entity was not there.
        ancestor: of a Version that came: the body of its ancestor; None: it has none.
    """

    registryid: RegistryId
    kind: str
    xid: Xid
    op: str
    createdat: int | None
    modifiedat: int | None
    raw: JsonText | None
    body: JsonText | None
    before: JsonText | None
    ancestor: JsonText | None = None


class SubjectChange(NamedTuple):
    """What a change means for a subject.

    Attributes:
        registryid: of both.
        entity: what the subject is in the core; `messagecatalog` in that feed.
        subject: of the event.
        action: created, updated, deleted or deprecation.
        names: attributes that it changed.
        time: as recorded at the entity; None: that of the commit.
        compatibility: of a Version: what differs and whom that breaks, as JSON; None: nothing, or it was not compared.
    """

    registryid: RegistryId
    entity: str
    subject: str
    action: str
    names: list[str]
    time: str | None = None
    compatibility: JsonText | None = None

    @property
    def key(self) -> tuple[RegistryId, str, str, bool]:
        """Which event of a snapshot it is a part of: a deprecation is a separate event."""
        return self.registryid, self.entity, self.subject, self.action == _DEPRECATION


class ChangeEvent(NamedTuple):
    """An event before it is written; time None: that of the commit. Events of a snapshot come in this order.

    Attributes:
        registryid, subject, type, time, changed: of the event.
        compatibility: of a Version, as `SubjectChange` has it.
    """

    registryid: RegistryId
    subject: str
    type: str
    time: str | None
    changed: list[str] | None
    compatibility: JsonText | None = None

    @property
    def broken(self) -> list[str]:
        """Return who breaks by it, `producers` and `consumers`: then the event names endpoints."""
        breaks = {} if self.compatibility is None else orjson.loads(self.compatibility)["breaks"]
        return [party for party, side in (("producers", "writers"), ("consumers", "readers")) if breaks.get(side) == "yes"]


class Commit(NamedTuple):
    """What events take from the commit of their snapshot."""

    snapshot_id: int
    committed_at: str
    ingest_id: str


def cloudevents(
    commit: Commit,
    changed: Iterable[Changed],
    source: str,
    feeds: Sequence[str] = FEEDS,
    endpoints_of: Callable[[ChangeEvent], Endpoints] = lambda _: {},
) -> Iterator[JsonText]:
    """Return the events of a snapshot as JSON, in order.

    Args:
        commit: of the snapshot.
        changed: what it changed, whatever the kind.
        source: URL of the registry, setting `events_source`; `{registryid}` stands for its id.
        feeds: which feeds.
        endpoints_of: finds the endpoints at which an event that breaks someone does so.
    """
    parts: dict[tuple[RegistryId, str, str, bool], list[SubjectChange]] = {}
    for row in changed:
        for part in parts_of(row, feeds):
            parts.setdefault(part.key, []).append(part)
    events = map(event_of, parts.values())
    for event in sorted(events, key=lambda event: event[:3]):
        yield as_cloudevent(event, commit, source, endpoints_of(event) if event.broken else {})


def parts_of(row: Changed, feeds: Sequence[str] = FEEDS) -> Iterator[SubjectChange]:
    """Return the parts of events that a change makes."""
    if row.kind not in ENTITY_OF_KIND:
        return
    if CORE in feeds:
        before, after = _attributes(row.before), _attributes(row.body)
        names = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
        yield from _own_parts(row, names)
        yield from _parts_of_parent(row, names, after)
        yield from _parts_of_members(row, names, before, after)
    if MESSAGE_CATALOG in feeds and row.xid.startswith("/messagegroups/"):
        yield _catalog_part(row)


def event_of(parts: Sequence[SubjectChange]) -> ChangeEvent:
    """Return the event of parts with one key: the strongest action, all names that changed."""
    registryid, entity, subject, _ = parts[0].key
    action = max((part.action for part in parts), key=_STRONGEST_LAST.index)
    has_list = action in ("updated", _DEPRECATION) and entity not in _WITHOUT_LIST
    names = sorted({name for part in parts for name in part.names}) if has_list else None
    type_ = _TYPES.get((entity, action), f"io.xregistry.{entity}.{action}")
    compatibility = next((part.compatibility for part in parts if part.compatibility is not None), None)
    return ChangeEvent(registryid, subject, type_, parts[0].time, names, compatibility if action != "deleted" else None)


def as_cloudevent(event: ChangeEvent, commit: Commit, source: str, endpoints: Endpoints | None = None) -> JsonText:
    """Write an event as JSON; its id begins with the number of the snapshot, and is the same whenever it is written.

    Args:
        event: the event.
        commit: of its snapshot.
        source: URL of the registry.
        endpoints: at which it breaks producers or consumers.
    """
    digest = hashlib.sha256("\n".join((event.registryid, event.type, event.subject)).encode()).hexdigest()[:32]
    members: dict[str, Any] = {
        "specversion": "1.0",
        "type": event.type,
        "source": source.replace("{registryid}", event.registryid),
        "subject": event.subject,
        "id": f"{commit.snapshot_id}-{digest}",
        "time": event.time or rfc3339(microseconds(datetime.fromisoformat(commit.committed_at).isoformat())[0]),
        "xregcorrelationid": commit.ingest_id,
    }
    data: dict[str, Any] = {} if event.changed is None else {"changed": event.changed}
    if event.compatibility is not None:
        data["compatibility"] = orjson.loads(event.compatibility) | ({"endpoints": endpoints} if endpoints else {})
    if data:
        members |= {"datacontenttype": "application/json", "data": data}
    return JsonText(orjson.dumps(members).decode())


def _own_parts(row: Changed, names: list[str]) -> Iterator[SubjectChange]:
    """Return that of the entity itself; a Version that only became or ceased to be the default has none."""
    if row.op != "update" or names != ["isdefault"]:
        entity = ENTITY_OF_KIND[row.kind]
        own = [name for name in names if name != "isdefault"] + _DATES
        meta = [f"meta.{name}" for name in own] if entity == "resource" else own
        yield SubjectChange(row.registryid, entity, row.xid, _ACTION[row.op], meta, compatibility=_compatibility_of(row))


def _compatibility_of(row: Changed) -> JsonText | None:
    """Compare a Version with what it was, one that came with its ancestor; None: it is no Version, or not compared."""
    if row.kind not in VERSION_KINDS or row.op == "delete" or row.body is None:
        return None
    is_new = row.before is None
    earlier = row.ancestor if is_new else row.before
    if earlier is None:
        return None
    earlier_xid = ancestor_of(row.xid, row.body) if is_new else row.xid
    change = None if earlier_xid is None else version_change(row.kind, earlier_xid, earlier, row.body)
    return None if change is None else JsonText(orjson.dumps(change.as_json()).decode())


def _parts_of_parent(row: Changed, names: list[str], after: _Attributes) -> Iterator[SubjectChange]:
    """Return that of what holds what came or went, and of the Resource whose default Version changed."""
    entity = ENTITY_OF_KIND[row.kind]
    if entity == "registry":
        return
    parent, collection, _ = row.xid.rsplit("/", 2)
    listed = [collection, f"{collection}count"]
    parent_entity = {"group": "registry", "resource": "group", "version": "resource"}[entity]
    if row.op != "update":
        dates = ["meta.epoch", "meta.modifiedat"] if entity == "version" else _DATES
        yield SubjectChange(row.registryid, parent_entity, parent or "/", "updated", [*dates, *listed])
        return
    became = "isdefault" in names
    if entity == "version" and (became or after.get("isdefault") == "true"):
        shown = [*names, *after] if became else names
        yield SubjectChange(
            row.registryid, parent_entity, parent, "updated", [name for name in shown if name != "isdefault"] + _DATES
        )


def _parts_of_members(row: Changed, names: list[str], before: _Attributes, after: _Attributes) -> Iterator[SubjectChange]:
    """Return those of a registry's model and capabilities, and of deprecations."""
    entity = ENTITY_OF_KIND[row.kind]
    if entity == "registry" and row.op == "update":
        for member in _OF_REGISTRY:
            if member in names:
                yield SubjectChange(row.registryid, member, row.xid, _ACTION[row.op], _differing(before, after, "capabilities"))
    if entity in ("group", "resource") and row.op != "delete" and "deprecated" in names:
        yield SubjectChange(row.registryid, entity, row.xid, _DEPRECATION, _differing(before, after, "deprecated"))


def _catalog_part(row: Changed) -> SubjectChange:
    """Return that of a message group, message or Version of one in the feed of message catalogs, without data (CAT-202)."""
    part = row.xid.split("/")
    subject = f"/messagecatalog/{part[2]}"
    subject += f"/messagedefinitions/{part[4]}" if len(part) > 4 else ""
    subject += f"/versions/{part[6]}" if len(part) > 6 else ""
    if row.op == "delete":
        return SubjectChange(row.registryid, MESSAGE_CATALOG, subject, "deleted", [])
    name, moment = ("createdat", row.createdat) if row.kind == "version" else ("modifiedat", row.modifiedat)
    return SubjectChange(row.registryid, MESSAGE_CATALOG, subject, "updated", [], _recorded(row.raw, name, moment))


def _attributes(body: JsonText | None) -> _Attributes:
    """Return the attributes of a body by name as text, unknown ones among the others."""
    attributes: dict[str, Any] = {} if body is None else read_canonical(body)
    unknown = attributes.pop("extensions", None) or {}
    return {
        name: as_column_text(attributes[name] if attributes.get(name) is not None else unknown.get(name))
        for name in attributes.keys() | unknown.keys()
    }


def _differing(before: _Attributes, after: _Attributes, name: str) -> list[str]:
    """Return the names of the members of an object-valued attribute that differ."""
    members_before, members_after = (_members(attributes.get(name)) for attributes in (before, after))
    return [
        member
        for member in members_before.keys() | members_after.keys()
        if members_before.get(member) != members_after.get(member)
    ]


def _members(text: str | None) -> _Attributes:
    try:
        value = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return {}
    return {name: as_column_text(member) for name, member in value.items()} if isinstance(value, dict) else {}


def _recorded(raw: str | None, name: str, moment: int | None) -> str | None:
    """Return a date as the document wrote it, where it did so with a zone, else as it is stored (CAT-200)."""
    written = orjson.loads(raw) if raw is not None else {}
    for spelling in (name, _OF_DRAFT[name]):
        if isinstance(written.get(spelling), str) and _ZONED.match(written[spelling]):
            return str(written[spelling])
    return None if moment is None else rfc3339(moment)
