"""Differences between two snapshots: what `ddl/diffs/snapshot_diff.sql` finds, as long as what changed fits in memory.

What is compared is what `ddl/views/comparable_definitions.sql` shows, and the rules are read out of
`ddl/views/compatibility_rules.sql`; tests hold both ways equal, and what is narrowed to the changes equal to the whole.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import orjson

from lakehouse.ingest.parse.rows import leaves_of_body
from lakehouse.readmodel.differences import CLASSES, Difference
from lakehouse.readmodel.model import ReadModel
from lakehouse.readmodel.view import Entity, View
from lakehouse.settings import data_folder
from lakehouse.text.jsontext import as_column_text, pointer_of
from lakehouse.text.names import REGISTRY, WHOLE, Pointer, RegistryId, Xid

MOST_CHANGED = 20_000  # entities that are compared here
Key = tuple[RegistryId, str, Xid]  # registryid, kind, xid
Leaves = dict[Pointer, str]
Definitions = dict[Key, Leaves]
_SCHEMA = pointer_of("schema")
_TEXTS = ("name", "description", "documentation")
_KINDS = ("message", "group", "endpoint", "schema", "schemaversion")
_RULE = re.compile(r"^  \((\d+), (.*)\),?$", re.MULTILINE)
_TEXT = re.compile(r"(r?)'((?:[^'\\]|\\.)*)'")
_DECLARATION = re.compile(r"^/(envelopemetadata|protocoloptions)/.+/(type|value|required|description|specurl)$")


class Rule(NamedTuple):
    """A row of the view `compatibility_rules`."""

    rule: str
    kind: str
    change: str
    place: str
    pointer: str
    value: str
    for_producers: str
    for_consumers: str
    told: str


@cache
def compatibility_rules() -> list[Rule]:
    """Read the rules, in order: the first that fits holds."""
    text = (data_folder("ddl") / "views" / "compatibility_rules.sql").read_text(encoding="utf-8")
    found = []
    for ordinal, columns in _RULE.findall(text):
        values = [value if raw else re.sub(r"\\(.)", r"\1", value) for raw, value in _TEXT.findall(columns)]
        found.append((int(ordinal), Rule(*values)))
    return [rule for _, rule in sorted(found)]


class TooManyChanges(Exception):
    """More than `MOST_CHANGED` entities changed: Spark compares them."""


def diff_snapshots(model: ReadModel, before: str | int, after: str | int) -> list[Difference]:
    """Compare two snapshots; only what changed between them is read.

    Args:
        model: the read model, up to date.
        before: number, label, date or time of a snapshot.
        after: likewise; it may be the earlier one.

    Raises:
        DefinitionsGone: effective definitions are not stored for one of them any more.
        SnapshotNotFound: one of them is not there.
        TooManyChanges: they are too far apart.
    """
    first, last = sorted(model.answer(lambda view: view.snapshot_id, side) for side in (before, after))
    changed = model.answer(lambda view: changed_since(view, first), last)
    if len(changed) > MOST_CHANGED:
        raise TooManyChanges
    return differences(*(model.answer(lambda view: definitions_of(view, changed), side) for side in (before, after)))


def changed_since(view: View, first: int) -> set[Key]:
    """Give the entities whose definition may differ between a snapshot and the view's, among others that do not.

    Args:
        view: the later snapshot.
        first: number of the earlier one.

    Raises:
        DefinitionsGone: effective definitions are not stored for the view's snapshot any more.
    """
    marks = ", ".join("?" * len(_KINDS))
    rows = view.db.execute(
        f"SELECT DISTINCT registryid, kind, xid FROM log WHERE snapshot_id > ? AND snapshot_id <= ? AND kind IN ({marks})",
        (first, view.snapshot_id, *_KINDS),
    )
    return {*rows, *((registryid, "message", xid) for registryid, xid in view.defined_since(first))}


def definitions_of(view: View, only: Iterable[Key] | None = None) -> Definitions:
    """Give the rows of the view `comparable_definitions` at a snapshot: registryid, kind, xid to leaves.

    Args:
        view: the snapshot.
        only: these entities; None: all.

    Raises:
        DefinitionsGone: effective definitions are not stored for this snapshot any more.
    """
    if only is None:
        entities = (one for registryid in view.registries() for one in view.below(registryid, REGISTRY))
    else:
        looked_up = (view.entity(registryid, xid) for registryid, _, xid in only)
        entities = (one for one in looked_up if one is not None)
    found: Definitions = {}
    deprecated: dict[RegistryId, dict[Xid, Any]] = defaultdict(dict)
    for entity in entities:
        if entity.kind == "message":
            deprecated[entity.registryid][entity.xid] = entity.attributes.get("deprecated")
        elif entity.kind in _KINDS:
            found[entity.registryid, entity.kind, entity.xid] = leaves_of_entity(entity)
    for registryid, messages in deprecated.items():
        for one in view.definitions(registryid, xids=None if only is None else messages):
            if one["xid"] in messages:
                own = _text_leaf("deprecated", messages[one["xid"]])
                found[registryid, "message", one["xid"]] = _without_nothing(own | one["inferred"] | one["attributes"])
    return found


def differences(before: Definitions, after: Definitions) -> list[Difference]:
    """Compare definitions: the gravest differences first, then by registry, XID and pointer."""
    found = []
    for key in before.keys() | after.keys():
        one, other = before.get(key), after.get(key)
        if one != other:
            found += list(_differences(key, one, other))
    return sorted(found, key=lambda row: (CLASSES.index(row.class_), row.registryid, row.xid, row.pointer))


def _differences(key: Key, before: Leaves | None, after: Leaves | None) -> Iterator[Difference]:
    registryid, kind, xid = key
    if before is None or after is None:
        change = "added" if before is None else "removed"
        yield _ruled(registryid, kind, xid, change, "", WHOLE, None, None)
        return
    for pointer in before.keys() | after.keys():
        was, now = before.get(pointer), after.get(pointer)
        if was != now:
            change = "added" if was is None else "removed" if now is None else "changed"
            yield _ruled(registryid, kind, xid, change, _place(pointer, before, after), pointer, was, now)


def _place(pointer: Pointer, before: Leaves, after: Leaves) -> str:
    """Tell whether a declaration stays, came or went, of which the attribute is a part."""
    if not _DECLARATION.search(pointer):
        return ""
    holder = pointer[: pointer.rfind("/") + 1]
    if not any(other.startswith(holder) for other in before):
        return "new"
    return "declaration" if any(other.startswith(holder) for other in after) else "gone"


def _ruled(
    registryid: RegistryId, kind: str, xid: Xid, change: str, place: str, pointer: Pointer, was: str | None, now: str | None
) -> Difference:
    value = now if now is not None else was or ""
    rule = next(
        rule
        for rule in compatibility_rules()
        if rule.kind in ("", kind)
        and rule.change in ("", change)
        and rule.place in ("", place)
        and re.search(rule.pointer, pointer)
        and re.search(rule.value, value)
    )
    effects = (rule.for_producers, rule.for_consumers)
    class_ = next(one for one in CLASSES if one in effects)
    return Difference(registryid, kind, xid, change, pointer, was, now, class_, *effects, rule.rule, rule.told)


def leaves_of_entity(entity: Entity) -> Leaves:
    """Give the leaves by which a group, endpoint, schema or Version of a schema is compared."""
    return _without_nothing(_leaves(entity))


def _leaves(entity: Entity) -> dict[Pointer, str | None]:
    known = orjson.loads(entity.body)
    texts = {pointer_of(name): _json(known.get(name)) for name in _TEXTS}
    labels = _text_leaf("labels", known.get("labels")) | _text_leaf("deprecated", known.get("deprecated"))
    if entity.kind == "group":
        return texts | labels | {pointer_of(name): _json(known.get(name)) for name in ("envelope", "protocol")}
    if entity.kind == "endpoint":
        names = ("channel", "envelope", "protocol")
        options = known.get("protocoloptions") or {}
        return (
            texts
            | labels
            | {pointer_of(name): _json(known.get(name)) for name in names}
            | _text_leaf("envelopeoptions", known.get("envelopeoptions"))
            | {pointer_of("usage", role): "true" for role in known.get("usage") or []}
            | {pointer_of("messagegroups", xid): "true" for xid in known.get("messagegroups") or []}
            | {pointer_of("protocoloptions", name): as_column_text(value) for name, value in options.items()}
        )
    if entity.kind == "schema":
        named = {pointer_of(name): _json(known.get(name)) for name in ("defaultversionid", "compatibility")}
        return _text_leaf("deprecated", known.get("deprecated")) | named
    named = {pointer_of(name): _json(known.get(name)) for name in ("format", "schemauri", "contenttype")}
    schema = dict(leaves_of_body(entity.body)).get(_SCHEMA)
    labels = _text_leaf("labels", known.get("labels"))
    return texts | labels | named | {_SCHEMA: schema}


def _text_leaf(name: str, value: Any) -> dict[Pointer, str | None]:
    return {pointer_of(name): as_column_text(value)}


def _json(value: Any) -> str | None:
    """Write a value as JSON; None for null."""
    return None if value is None else orjson.dumps(value).decode()


def _without_nothing(leaves: dict[Pointer, str | None]) -> Leaves:
    return {pointer: value for pointer, value in leaves.items() if value is not None and value != "{}"}
