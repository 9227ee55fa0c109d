"""The entities of one snapshot, loaded as they are asked for, and kept for the next request.

What is kept is made of rows that never change (a row of the log has a number), so a Resource outlives the snapshot that it was
read for, as long as a list of members holds it; the lists are those of the newest snapshots asked for, up to a number of entries.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import orjson

from lakehouse.export.view import Stored
from lakehouse.readmodel import View
from lakehouse.serve.answer.entities import Group, Resource, make_group, make_registry, make_resource
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import MEMBERS
from lakehouse.store.keys import OVER_HTTP
from lakehouse.text.names import REGISTRY, RegistryId, Xid
from lakehouse.text.xid import xid_of

T = TypeVar("T")
_AT_ONCE = 500  # rows of the log that are fetched with one statement
_MOST_ENTRIES = 60_000  # of lists that are kept
# The text as written is needed where it tells how a date was spelled, or the bytes of a document.
_DATED = "CASE WHEN kind = 'schemaversion' OR instr(raw, 'createdat\"') OR instr(raw, 'modifiedat\"') THEN raw END"
_COLUMNS = f"id, registryid, kind, xid, epoch, createdat, modifiedat, body, {_DATED}"
_IS_HELD = f"EXISTS (SELECT 1 FROM json_each(document_uris) WHERE value <> '{OVER_HTTP}')"


class Entry(NamedTuple):
    """A member of a group before it is loaded: its id, its row's number and those of its Versions."""

    id: str
    row: int | None
    versions: tuple[int, ...]


class Kept:
    """What is kept between requests, shared by threads: lists by snapshot and place, Resources as long as a list holds them."""

    def __init__(self, most: int = _MOST_ENTRIES) -> None:
        self.most = most
        self._guard = threading.Lock()
        self._lists: OrderedDict[tuple[Any, ...], tuple[int, Any]] = OrderedDict()
        self._size = 0
        self.resources: weakref.WeakValueDictionary[tuple[Any, ...], Resource] = weakref.WeakValueDictionary()

    def of(self, key: tuple[Any, ...], make: Callable[[], T], weight: Callable[[T], int]) -> T:
        """Give what is kept under a key, or make it; what weighs more than a quarter of everything is not kept."""
        with self._guard:
            found = self._lists.get(key)
            if found is not None:
                self._lists.move_to_end(key)
                value: T = found[1]
                return value
        made = make()
        size = weight(made) + 1
        if size <= self.most // 4:
            with self._guard:
                self._size += size - self._lists.pop(key, (0, None))[0]
                self._lists[key] = (size, made)
                while self._size > self.most:
                    self._size -= self._lists.popitem(last=False)[1][0]
        return made


class Deadline:
    """Ends work that takes too long.

    Args:
        seconds: that it may take.
        begun: when they began, by the monotonic clock; None: now.
    """

    def __init__(self, seconds: float, begun: float | None = None) -> None:
        self.until = (time.monotonic() if begun is None else begun) + seconds
        self._ticks = 0

    def tick(self) -> None:
        """Count a step of the work.

        Raises:
            ProblemFound: it takes too long.
        """
        self._ticks += 1
        if self._ticks % 64 == 0:
            self.check()

    def check(self) -> None:
        """Look at the clock.

        Raises:
            ProblemFound: it takes too long.
        """
        if time.monotonic() > self.until:
            raise ProblemFound("", status=503, detail="The request took too long. Ask for less of it, page by page with ?limit.")


class Catalog:
    """A registry at a snapshot, in a dialect."""

    def __init__(self, view: View, key: str, registryid: RegistryId, dialect: str, kept: Kept, deadline: Deadline) -> None:
        """Look at a registry.

        Args:
            view: the snapshot.
            key: what tells the snapshot from all others that ever had its number.
            registryid: the registry.
            dialect: how entities are written.
            kept: what is kept between requests.
            deadline: until when this may take.
        """
        self.view = view
        self.key = (key, registryid)
        self.registryid = registryid
        self.dialect = dialect
        self.kept = kept
        self.deadline = deadline
        self._holds = f"snapshot_id <= {view.snapshot_id:d} AND until > {view.snapshot_id:d} AND op <> 'delete'"

    def exists(self) -> bool:
        """Tell whether the registry holds anything at the snapshot."""
        rows = self.view.db.execute(
            f"SELECT 1 FROM log WHERE registryid = ? AND kind NOT IN ('document', 'label', 'snapshot') AND {self._holds} LIMIT 1",
            (self.registryid,),
        )
        return rows.fetchone() is not None

    def registry(self) -> dict[str, Any]:
        """Give the registry's own attributes; an empty registry has been there since 1970."""
        row = self._row(REGISTRY)
        lived = (0, 0) if row is not None else self.view.lived(self.registryid) or (0, 0)
        return make_registry(self.registryid, row, lived, self.dialect)

    def group(self, xid: Xid) -> Group | None:
        """Look a Group up."""
        row = self._row(xid)
        if row is None and not self.entries(xid):
            return None
        return make_group(xid, row, self.dialect)

    def groups(self, collection: str) -> list[Group]:
        """List the Groups of a type, by id."""
        return self.kept.of((*self.key, self.dialect, collection), lambda: self._groups(collection), len)

    def ids_of_groups(self, collection: str) -> list[str]:
        """List the ids of the Groups of a type: those that are there, and those of which members are."""
        return self.kept.of((*self.key, "ids", collection), lambda: list(self._ids_of_groups(collection)), len)

    def entries(self, group_xid: Xid) -> list[Entry]:
        """List the members of a Group, by id, without loading them."""
        return self.kept.of((*self.key, group_xid), lambda: self._entries(group_xid), len)

    def resource(self, xid: Xid) -> Resource | None:
        """Look a message or schema up."""
        members, _, resource_id = xid.rpartition("/")
        entries = self._entries_below(xid, members + "/")
        entry = next((one for one in entries if one.id == resource_id), None)
        if entry is None:
            return None
        group_row = self._row(Xid(members.rsplit("/", 1)[0]))
        return self._load(members + "/", [entry], _protocol(group_row))[0]

    def resources(self, group: Group, entries: list[Entry] | None = None) -> list[Resource]:
        """Load members of a Group: those of some entries, or all of them."""
        prefix = f"{group.xid}/{group.members}/"
        if entries is not None:
            return self._load(prefix, entries, group.protocol)
        key = (*self.key, self.dialect, group.xid, "members")
        return self.kept.of(key, lambda: self._load(prefix, self.entries(group.xid), group.protocol), len)

    def _row(self, xid: Xid) -> Stored | None:
        rows = self.view.db.execute(
            f"SELECT {_COLUMNS} FROM log WHERE registryid = ? AND xid = ? AND {self._holds}", (self.registryid, xid)
        )
        row = rows.fetchone()
        return None if row is None else Stored(*row[1:])

    def _groups(self, collection: str) -> list[Group]:
        rows = self.view.db.execute(
            f"SELECT {_COLUMNS} FROM log WHERE kind IN ('group', 'endpoint') AND registryid = ?1 AND xid > ?2 AND xid < ?3"
            f" AND {self._holds}",
            (self.registryid, f"/{collection}/", f"/{collection}0"),
        )
        known = {row[3]: Stored(*row[1:]) for row in rows}
        found = []
        for one in self.ids_of_groups(collection):
            self.deadline.tick()
            xid = xid_of(collection, one)
            found.append(make_group(xid, known.get(xid), self.dialect))
        return found

    def _ids_of_groups(self, collection: str) -> Iterator[str]:
        """Jump from group to group: over the members of each, however many there are."""
        prefix = f"/{collection}/"
        after, end = prefix, prefix[:-1] + "0"
        found: set[str] = set()
        while True:
            self.deadline.tick()
            row = self.view.db.execute(
                f"SELECT xid FROM log WHERE registryid = ? AND xid >= ? AND xid < ? AND {self._holds} ORDER BY xid LIMIT 1",
                (self.registryid, after, end),
            ).fetchone()
            if row is None:
                break
            one = row[0][len(prefix) :].split("/", 1)[0]
            found.add(one)
            # A group's own row comes first; ids that begin with this one's may stand between it and its members.
            after = row[0] + "\x01" if row[0] == prefix + one else f"{prefix}{one}0"
        yield from sorted(found)

    def _entries(self, group_xid: Xid) -> list[Entry]:
        prefix = f"{group_xid}/{MEMBERS[group_xid[1:].split('/', 1)[0]]}/"
        return sorted(self._entries_below(prefix[:-1], prefix))

    def _entries_below(self, place: str, prefix: str) -> list[Entry]:
        """List members whose rows have a path as XID, or stand below it."""
        rows = self.view.db.execute(
            "SELECT id, xid FROM log WHERE registryid = ?1 AND (xid = ?2 OR (xid > ?3 AND xid < ?4))"
            f" AND kind IN ('message', 'version', 'schema', 'schemaversion') AND {self._holds}",
            (self.registryid, place, place + "/", place + "0"),
        )
        own: dict[str, int | None] = {}
        versions: dict[str, list[int]] = {}
        for number, row_xid in rows:
            self.deadline.tick()
            name, _, version = row_xid[len(prefix) :].partition("/")
            if version:
                own.setdefault(name, None)
                versions.setdefault(name, []).append(number)
            else:
                own[name] = number
        return [Entry(name, row, tuple(sorted(versions.get(name, ())))) for name, row in own.items()]

    def _load(self, prefix: str, entries: list[Entry], protocol: str | None) -> list[Resource]:
        found: list[Resource] = []
        for start in range(0, len(entries), _AT_ONCE):
            found += self._load_some(prefix, entries[start : start + _AT_ONCE], protocol)
        return found

    def _load_some(self, prefix: str, entries: list[Entry], protocol: str | None) -> list[Resource]:
        keys = [(self.registryid, self.dialect, prefix + entry.id, protocol, entry.row, entry.versions) for entry in entries]
        known = [self.kept.resources.get(key) for key in keys]
        missing = [entry for entry, one in zip(entries, known, strict=True) if one is None]
        rows = self._rows([number for entry in missing for number in (entry.row, *entry.versions) if number is not None])
        found = []
        for entry, key, one in zip(entries, keys, known, strict=True):
            self.deadline.tick()
            resource = one
            if resource is None:
                resource = self._made(Xid(prefix + entry.id), entry, rows, protocol)
                if resource.xref is None:  # what an alias shows changes with what it stands for
                    self.kept.resources[key] = resource
            found.append(resource)
        return found

    def _made(self, xid: Xid, entry: Entry, rows: dict[int, Stored], protocol: str | None) -> Resource:
        row = None if entry.row is None else rows[entry.row]
        versions = [rows[number] for number in entry.versions]
        target = None
        if row is not None and not versions and '"xref"' in row.body:
            target = self._target(orjson.loads(row.body).get("xref"), xid)
        return make_resource(xid, row, versions, protocol, self.dialect, target)

    def _target(self, xref: Any, xid: Xid) -> tuple[Stored, list[Stored], str | None] | None:
        """Find what an alias stands for: a Resource of the same type that is no alias itself."""
        if not isinstance(xref, str) or xref.count("/") != 4 or xref.split("/")[3] != xid.split("/")[3]:
            return None
        prefix, _, name = xref.rpartition("/")
        entry = next((one for one in self._entries_below(xref, prefix + "/") if one.id == name), None)
        if entry is None or entry.row is None or not entry.versions:
            return None
        rows = self._rows([entry.row, *entry.versions])
        group = self._row(Xid(prefix.rsplit("/", 1)[0]))
        return rows[entry.row], [rows[number] for number in entry.versions], _protocol(group)

    def _rows(self, numbers: list[int]) -> dict[int, Stored]:
        if not numbers:
            return {}
        rows = self.view.db.execute(
            f"SELECT {_COLUMNS}, NULL, {_IS_HELD} FROM log WHERE id IN (SELECT value FROM json_each(?))",
            (orjson.dumps(numbers).decode(),),
        )
        return {row[0]: Stored(*row[1:]) for row in rows}


class EmptyCatalog(Catalog):
    """A registry without anything in it: the warehouse holds no catalog yet."""

    def __init__(self, registryid: RegistryId, dialect: str, kept: Kept, deadline: Deadline) -> None:
        self.registryid, self.dialect, self.kept, self.deadline = registryid, dialect, kept, deadline

    def registry(self) -> dict[str, Any]:
        """Give attributes that every registry has."""
        return make_registry(self.registryid, None, (0, 0), self.dialect)

    def group(self, xid: Xid) -> None:
        """Find nothing."""

    def resource(self, xid: Xid) -> None:
        """Find nothing."""

    def groups(self, collection: str) -> list[Group]:
        """Find nothing."""
        return []

    def ids_of_groups(self, collection: str) -> list[str]:
        """Find nothing."""
        return []


def _protocol(row: Stored | None) -> str | None:
    """Give the protocol of a group, as it stands in what `make_group` makes of its row."""
    if row is None:
        return None
    found = orjson.loads(row.body).get("protocol")
    return found if isinstance(found, str) else None
