"""Change events as CloudEvents, snapshot by snapshot: what `lakehouse.query.events` tells with Spark, told out of the read model.

The feeds, the rules and the ids are those of `lakehouse.query.events`; a test holds both equal, text by text.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from lakehouse.readmodel.view import View
from lakehouse.text.jsontext import as_column_text
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.timestamps import microseconds, rfc3339

CORE = "core"
MESSAGE_CATALOG = "messagecatalog"
FEEDS = (CORE, MESSAGE_CATALOG)
_UPDATED = "io.cloudevents.messagecatalog.updated.v1"
_DELETED = "io.cloudevents.messagecatalog.deleted.v1"
_ENTITY = {
    "registry": "registry",
    "group": "group",
    "endpoint": "group",
    "message": "resource",
    "schema": "resource",
    "version": "version",
    "schemaversion": "version",
}
_ACTION = {"insert": "created", "update": "updated", "delete": "deleted"}
_STRONGEST_LAST = ("deprecation", "updated", "created", "deleted")
_OF_REGISTRY = ("model", "modelsource", "capabilities")
_ZONED = re.compile(r"\A\d{4}-\d\d-\d\d[Tt][0-9:.]+([Zz]|[+-]\d\d:\d\d)\Z", re.ASCII)
_DATES = ["epoch", "modifiedat"]
Attributes = dict[str, str | None]


class Changed(NamedTuple):
    """A row of the log that changed an entity, with the body before it (None: the entity was not there)."""

    registryid: RegistryId
    kind: str
    xid: Xid
    op: str
    createdat: int | None
    modifiedat: int | None
    raw: JsonText | None
    body: JsonText | None
    before: JsonText | None


class Event(NamedTuple):
    """An event before it is written; time None: that of the commit."""

    registryid: RegistryId
    subject: str
    type: str
    time: str | None
    changed: list[str] | None


def change_events(
    view: View, source: str, since: int, until: int | None = None, feeds: Sequence[str] = FEEDS
) -> Iterator[tuple[int, str]]:
    """Give the events of the snapshots after `since`, in order.

    Args:
        view: whose `head` is the newest snapshot that can be told.
        source: URL of the registry, setting `events_source`; `{registryid}` stands for its id.
        since: the last snapshot that the reader knows; 0: none.
        until: the last snapshot to tell of; None: the head.
        feeds: which feeds.

    Returns:
        Snapshot and event (CloudEvents JSON).
    """
    for snapshot_id in range(since + 1, (view.head if until is None else until) + 1):
        commit = view.commit_of(snapshot_id)
        committed_at = datetime.fromisoformat(commit["committed_at"]).isoformat()
        moment = rfc3339(microseconds(committed_at)[0])
        changed = list(_changed_in(view, snapshot_id))
        events = [
            *(_core_events(changed) if CORE in feeds else ()),
            *(_catalog_events(changed) if MESSAGE_CATALOG in feeds else ()),
        ]
        for event in sorted(events, key=lambda one: (one.registryid, one.subject, one.type)):
            yield snapshot_id, _as_cloudevent(event, source, snapshot_id, moment, commit["ingest_id"])


def _changed_in(view: View, snapshot_id: int) -> Iterator[Changed]:
    rows = view.db.execute(
        """
        SELECT n.registryid, n.kind, n.xid, n.op, n.createdat, n.modifiedat, n.raw, n.body, p.body, p.op
        FROM log AS n
        LEFT JOIN log AS p ON p.registryid = n.registryid AND p.xid = n.xid AND p.kind = n.kind AND p.until = n.snapshot_id
        WHERE n.snapshot_id = ? AND n.op <> 'own'
        """,
        (snapshot_id,),
    )
    for *row, before, op in rows:
        if row[1] in _ENTITY:
            yield Changed._make((*row, None if op == "delete" else before))


def _core_events(changed: list[Changed]) -> Iterator[Event]:
    """Give the events of the xRegistry core: at most one of created, updated, deleted for a subject, deprecations beside."""
    merged: dict[tuple[RegistryId, str, str, str], tuple[str, set[str]]] = {}
    for row in changed:
        for entity, subject, action, names in _parts_of(row):
            key = (row.registryid, entity, subject, action if action == "deprecation" else "")
            strongest, known = merged.get(key, (action, set()))
            merged[key] = (max(strongest, action, key=_STRONGEST_LAST.index), known | set(names))
    for (registryid, entity, subject, _), (action, every) in merged.items():
        has_list = action in ("updated", "deprecation") and entity not in ("model", "modelsource")
        yield Event(registryid, subject, f"io.xregistry.{entity}.{action}", None, sorted(every) if has_list else None)


def _parts_of(row: Changed) -> Iterator[tuple[str, str, str, list[str]]]:
    """Give entity, subject, action and names of attributes of each event that a row makes."""
    before, after = _attributes(row.before), _attributes(row.body)
    names = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
    entity, action = _ENTITY[row.kind], _ACTION[row.op]
    came_or_went = row.op != "update"
    if came_or_went or names != ["isdefault"]:
        own = [name for name in names if name != "isdefault"] + _DATES
        yield entity, row.xid, action, [f"meta.{name}" for name in own] if entity == "resource" else own
    holder = row.xid.rsplit("/", 2)[0] if row.xid != "/" else ""
    collection = row.xid.split("/")[-2]
    listed = [collection, f"{collection}count"]
    if came_or_went and entity == "group":
        yield "registry", holder or "/", "updated", [*_DATES, *listed]
    if came_or_went and entity == "resource":
        yield "group", holder or "/", "updated", [*_DATES, *listed]
    if came_or_went and entity == "version":
        yield "resource", holder or "/", "updated", ["meta.epoch", "meta.modifiedat", *listed]
    became = "isdefault" in names
    if not came_or_went and entity == "version" and (became or after.get("isdefault") == "true"):
        shown = [*names, *after] if became else names
        yield "resource", holder or "/", "updated", [name for name in shown if name != "isdefault"] + _DATES
    if not came_or_went and entity == "registry":
        for part in _OF_REGISTRY:
            if part in names:
                yield part, row.xid, action, _differing(before, after, "capabilities")
    if entity in ("group", "resource") and row.op != "delete" and "deprecated" in names:
        yield entity, row.xid, "deprecation", _differing(before, after, "deprecated")


def _catalog_events(changed: list[Changed]) -> Iterator[Event]:
    """Give the events of message catalogs: of message groups, messages and their Versions, without data (CAT-202)."""
    for row in changed:
        if not row.xid.startswith("/messagegroups/"):
            continue
        part = row.xid.split("/")
        subject = f"/messagecatalog/{part[2]}"
        subject += f"/messagedefinitions/{part[4]}" if len(part) > 4 else ""
        subject += f"/versions/{part[6]}" if len(part) > 6 else ""
        if row.op == "delete":
            yield Event(row.registryid, subject, _DELETED, None, None)
        else:
            name, moment = ("createdat", row.createdat) if row.kind == "version" else ("modifiedat", row.modifiedat)
            yield Event(row.registryid, subject, _UPDATED, _recorded(row.raw, name, moment), None)


def _as_cloudevent(event: Event, source: str, snapshot_id: int, committed_at: str, ingest_id: str) -> str:
    digest = hashlib.sha256("\n".join((event.registryid, event.type, event.subject)).encode()).hexdigest()[:32]
    told: dict[str, Any] = {
        "specversion": "1.0",
        "type": event.type,
        "source": source.replace("{registryid}", event.registryid),
        "subject": event.subject,
        "id": f"{snapshot_id}-{digest}",
        "time": event.time or committed_at,
        "xregcorrelationid": ingest_id,
    }
    if event.changed is not None:
        told |= {"datacontenttype": "application/json", "data": {"changed": event.changed}}
    return orjson.dumps(told).decode()


def _attributes(body: str | None) -> Attributes:
    """Give the attributes of a body by name as text, unknown ones among the others."""
    known: dict[str, Any] = {} if body is None else orjson.loads(body)
    unknown = known.pop("extensions", None) or {}
    return {
        name: as_column_text(known[name] if known.get(name) is not None else unknown.get(name))
        for name in known.keys() | unknown.keys()
    }


def _differing(before: Attributes, after: Attributes, name: str) -> list[str]:
    """Give the names of the members of an object-valued attribute that differ."""
    one, other = (_members(attributes.get(name)) for attributes in (before, after))
    return [member for member in one.keys() | other.keys() if one.get(member) != other.get(member)]


def _members(text: str | None) -> Attributes:
    try:
        value = orjson.loads(text or "{}")
    except orjson.JSONDecodeError:
        return {}
    return {name: as_column_text(member) for name, member in value.items()} if isinstance(value, dict) else {}


def _recorded(raw: str | None, name: str, moment: int | None) -> str | None:
    """Give a date as the document wrote it, where it did so with a zone, else as it is stored."""
    written = orjson.loads(raw).get(name) if raw is not None else None
    if isinstance(written, str) and _ZONED.match(written):
        return written
    return None if moment is None else rfc3339(moment)
