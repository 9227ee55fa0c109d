"""Audits of one entity: who changed it, when, from which document, what; and who set each of its attributes.

All is read out of the log. A state is the normal form of the entity with its epoch and dates; a change is a JSON Patch
(RFC 6902) from the state before to the state after.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jsonpatch

from lakehouse.errors import EntityNotFound, SettingsError
from lakehouse.readmodel.detail import full_xid
from lakehouse.readmodel.violationlist import with_reasons
from lakehouse.text.jsontext import below
from lakehouse.text.names import ROOT, Pointer, RegistryId, Xid

if TYPE_CHECKING:
    from pyspark.sql import Row

    from lakehouse.readmodel.snapshotview import View

_BOOKKEEPING = ("/epoch", "/createdat", "/modifiedat")


@dataclass(frozen=True)
class Change:
    """One change of an entity.

    Attributes:
        snapshot_id, committed_at, committed_by, command: the commit.
        registryid, kind, xid, op: the entity, and what happened to it.
        document_uris: documents that hold it afterwards.
        documents_before: documents that held it before.
        patch: JSON Patch from the state before to the state after; an insert adds the whole, a delete removes it.
        state: the state after; None when it was deleted.
    """

    snapshot_id: int
    committed_at: str
    committed_by: str
    command: str
    registryid: RegistryId
    kind: str
    xid: Xid
    op: str
    document_uris: list[str]
    documents_before: list[str]
    patch: list[dict[str, Any]]
    state: dict[str, Any] | None

    def as_json(self) -> dict[str, Any]:
        """Return an item of `lakehouse log --json`."""
        return {name: value for name, value in vars(self).items() if name not in ("state", "documents_before")}

    def described(self) -> Iterator[str]:
        """Yield each operation in words, without epoch and dates if there are others."""
        essential = [operation for operation in self.patch if operation["path"] not in _BOOKKEEPING]
        for operation in essential or self.patch:
            value = f" {json.dumps(operation['value'], ensure_ascii=False)}" if "value" in operation else ""
            moved = f" from {operation['from']}" if "from" in operation else ""
            yield f"{operation['op']} {operation['path'] or '(all)'}{moved}{value}"
        for uri in sorted(set(self.document_uris) - set(self.documents_before)):
            yield f"held by {uri}"
        for uri in sorted(set(self.documents_before) - set(self.document_uris)):
            yield f"no longer held by {uri}"


@dataclass(frozen=True)
class Blame:
    """Who set an attribute to the value that it has.

    Attributes:
        xid, registryid: the entity.
        pointer: JSON Pointer to the attribute in the entity's normal form.
        value: its value.
        snapshot_id, committed_at, committed_by: the commit that set it.
        document_uris: documents that held the entity after that commit.
    """

    registryid: RegistryId
    xid: Xid
    pointer: Pointer
    value: Any
    snapshot_id: int
    committed_at: str
    committed_by: str
    document_uris: list[str]

    def as_json(self) -> dict[str, Any]:
        """Return an item of `lakehouse blame --json`."""
        return dict(vars(self))


def read_history(view: View, text: str, registryid: RegistryId | None = None, *, below: bool = False) -> list[Change]:
    """Read all changes of an entity and of its Versions up to the snapshot, oldest first.

    Args:
        view: the snapshot.
        text: XID of the entity, or an id that only one entity has.
        registryid: the registry; None: all that have the XID.
        below: with every entity below it, not only its Versions.

    Raises:
        EntityNotFound: the log knows no such entity.
        SettingsError: the text names a document, which has no history.
    """
    with with_reasons(view, registryid):
        wanted = Xid(full_xid(view, text, registryid))
        if not wanted.startswith("/"):
            raise SettingsError(f"{wanted} is a document and has no history: `lakehouse show {text}`.")
        rows = view.history_rows(wanted, registryid, below=below)
        if not rows:
            raise EntityNotFound(text, registryid)
    return history(rows, {number: view.commit_of(number) for number in {row["snapshot_id"] for row in rows}})


def history(rows: Iterable[Row | dict[str, Any]], commits: dict[int, dict[str, Any]]) -> list[Change]:
    """Return what each row of the log changed.

    Args:
        rows: rows of entities, in any order, with all rows of each up to the last; createdat and modifiedat as text.
        commits: facts of the snapshots, by number.
    """
    states: dict[tuple[str, str], dict[str, Any] | None] = {}
    uris_of: dict[tuple[str, str], list[str]] = {}
    changes = []
    for row in sorted(rows, key=lambda row: (row["snapshot_id"], row["registryid"], row["xid"])):
        key = (row["registryid"], row["xid"])
        before, after = states.get(key), None if row["op"] == "delete" else _state(row)
        commit, uris = commits[row["snapshot_id"]], list(row["document_uris"] or [])
        changes.append(
            Change(
                row["snapshot_id"],
                commit["committed_at"],
                changed_by(commit, *key),
                commit["command"],
                row["registryid"],
                row["kind"],
                row["xid"],
                row["op"],
                uris,
                uris_of.get(key, []),
                _patch(before, after),
                after,
            )
        )
        states[key], uris_of[key] = after, [] if after is None else uris
    return changes


def changed_by(commit: dict[str, Any], registryid: RegistryId, xid: Xid) -> str:
    """Return who changed an entity in a snapshot: of the users whose requests it has, the one who requested this change.

    Args:
        commit: facts of the snapshot.
        registryid: the registry.
        xid: the entity.
    """
    users: dict[str, str] = commit.get("changed_by", {})
    return users.get(f"{registryid} {xid}") or str(commit["committed_by"])


def blame(changes: Iterable[Change]) -> list[Blame]:
    """Return for each attribute of each existing entity the change that set it.

    Args:
        changes: as from `history`.
    """
    set_by: dict[tuple[RegistryId, Xid], dict[Pointer, tuple[Any, Change]]] = {}
    for change in changes:
        key = (change.registryid, change.xid)
        before = set_by.get(key, {})
        after: dict[Pointer, tuple[Any, Change]] = {}
        for pointer, value in flat_attributes(change.state) if change.state is not None else ():
            is_same = pointer in before and _same(before[pointer][0], value)
            after[pointer] = before[pointer] if is_same else (value, change)
        set_by[key] = after
    return [
        Blame(*key, pointer, value, change.snapshot_id, change.committed_at, change.committed_by, change.document_uris)
        for key, attributes in sorted(set_by.items())
        for pointer, (value, change) in sorted(attributes.items())
    ]


def flat_attributes(value: dict[str, Any], pointer: Pointer = ROOT) -> Iterator[tuple[Pointer, Any]]:
    """Yield an object as flat attributes: scalars, arrays, empty objects."""
    for key, member in value.items():
        place = below(pointer, key)
        if isinstance(member, dict) and member:
            yield from flat_attributes(member, place)
        else:
            yield place, member


def _state(row: Row | dict[str, Any]) -> dict[str, Any]:
    """Return the former state of the entity in normal form, with unknown attributes, epoch and dates."""
    body: dict[str, Any] = json.loads(row["body"])
    body |= body.pop("extensions", {})
    dates = {name: f"{row[name]}Z" for name in ("createdat", "modifiedat") if row[name] is not None}
    return body | {"epoch": row["epoch"]} | dates


def _patch(before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[dict[str, Any]]:
    if after is None:
        return [{"op": "remove", "path": ""}]
    if before is None:
        return [{"op": "add", "path": "", "value": after}]
    operations: list[dict[str, Any]] = jsonpatch.make_patch(before, after).patch
    return operations


def _same(value: Any, other: Any) -> bool:
    """Compare as JSON: 1 and true differ."""
    return json.dumps(value, sort_keys=True) == json.dumps(other, sort_keys=True)
