"""What is to be sent to a target: a SQLite file in the folder of its state, so that a push that died goes on where it was.

Grain: a row of `outbox` for each group, endpoint, message and schema that changed; of `sent` for each that the target has from
us, with the Versions that it has; of `refused` for each that the target did not take, with its reason. Texts are not kept: what
is sent is what the catalog holds when it is sent.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from lakehouse.dialects.tables import family_of
from lakehouse.dialects.writing import ENTITIES_OF, to_dialect
from lakehouse.export.view import Urls, group_view, resource_view
from lakehouse.readmodel import View
from lakehouse.readmodel.detail import stored
from lakehouse.replicate.sourcedocuments import Json, bare_group, bare_resource
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import xid_of_group

_NOT_SENT = ("epoch", "xid", "isdefault", "readonly")  # they are the target's
_DATES = ("createdat", "modifiedat")  # the target's own where it was written later
_TABLES = """
CREATE TABLE IF NOT EXISTS outbox (place INTEGER PRIMARY KEY, xid TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE IF NOT EXISTS sent (xid TEXT PRIMARY KEY, versions TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS refused (xid TEXT PRIMARY KEY, reason TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS reached (one INTEGER PRIMARY KEY CHECK (one = 1), snapshot INTEGER, digest TEXT, until INTEGER,
  until_digest TEXT) STRICT;
"""


def body_of(view: View, registryid: RegistryId, xid: Xid, dialect: str) -> Json:
    """Return an entity as it is sent: without what a server computes, and without epochs, which are the target's own."""
    collection = xid.split("/")[1]
    row = view.entity(registryid, xid)
    if xid.count("/") == 2:
        written, _ = to_dialect(group_view(xid, None if row is None else stored(row), Urls()), dialect, ENTITIES_OF[collection])
        return {name: value for name, value in bare_group(written).items() if name not in _NOT_SENT}
    group = view.entity(registryid, xid_of_group(xid))
    protocol = group.attributes.get("protocol") if group is not None and group.kind == "group" else None
    versions = [stored(version) for version in view.versions(registryid, xid)]
    view_of_resource = resource_view(xid, None if row is None else stored(row), versions, None, Urls(), bare=False)
    slim = {name: value for name, value in view_of_resource.items() if name in ("protocol", "meta", "versions")}
    written, _ = to_dialect(slim, dialect, ENTITIES_OF[xid.split("/")[3]], family_of(protocol))
    bare = bare_resource(written)
    bare["meta"] = {name: value for name, value in bare.get("meta", {}).items() if name not in _NOT_SENT}
    bare["versions"] = {key: _version_of(version) for key, version in bare.get("versions", {}).items()}
    return bare


def _version_of(version: Json) -> Json:
    named = {"schemauri": "schemaurl"}  # as the API spells it
    attributes = {named.get(name, name): value for name, value in version.items() if name not in _NOT_SENT}
    if isinstance(
        attributes.get("schema"), (dict, list)
    ):  # a server sets it where a client does not (core, `<RESOURCE>` attribute)
        attributes.setdefault("contenttype", "application/json")
    return attributes


def meta_of(meta: Json) -> Json:
    """Return the meta object: a default Version that nobody chose is the newest, which the target finds itself."""
    if meta.get("defaultversionsticky"):
        return meta
    return {name: value for name, value in meta.items() if name not in ("defaultversionid", "defaultversionsticky")}


def is_same_group(existing: Json, body: Json) -> bool:
    """Return whether a group of a target is what would be sent; who wrote it last, and when, does not count.

    Args:
        existing: the answer of the target.
        body: as from `body_of`.
    """
    return _undated(bare_group(existing)) == _undated(body)


def is_same_resource(existing: Json, body: Json) -> bool:
    """Return whether a message or schema of a target, in the document view with its Versions, is what would be sent."""
    return _comparable(existing) == _comparable(body)


def _comparable(resource: Json) -> Json:
    """Return what counts of a message or schema."""
    bare = bare_resource(resource)
    meta, versions = bare.get("meta"), bare.get("versions")
    if not isinstance(meta, dict) or (not isinstance(versions, dict) and "xref" not in meta):
        return {"as it is": resource}  # the target does not show all of it
    if "xref" in meta:
        return {"xref": meta["xref"]}
    assert isinstance(versions, dict)
    versions_sent = {key: _undated(_version_of(version)) for key, version in versions.items() if isinstance(version, dict)}
    return {"meta": _undated(meta_of(meta)), "versions": versions_sent}


def _undated(entity: Json) -> Json:
    return {name: value for name, value in entity.items() if name not in (*_DATES, *_NOT_SENT)}


class Reached(NamedTuple):
    """How far a target is: the snapshot that it was sent whole, and the one that the outbox leads to."""

    snapshot: int = 0
    digest: str = ""
    until: int = 0
    until_digest: str = ""


class Outbox:
    """The outbox of one target."""

    def __init__(self, folder: Path) -> None:
        self.db = sqlite3.connect(folder / "outbox.sqlite", isolation_level=None)
        self.db.execute("PRAGMA journal_mode = WAL")
        self.db.executescript(_TABLES)

    def close(self) -> None:
        """Close the file."""
        self.db.close()

    def reached(self) -> Reached:
        """Return how far the target is."""
        row = self.db.execute("SELECT snapshot, digest, until, until_digest FROM reached").fetchone()
        return Reached(*row) if row else Reached()

    def fill(self, xids: Iterable[Xid], reached: Reached) -> None:
        """Add to the outbox what changed, in order, and what was rejected before, all or nothing."""
        self.db.execute("BEGIN IMMEDIATE")
        with self.db:
            again = [row[0] for row in self.db.execute("SELECT xid FROM refused ORDER BY xid")]
            self.db.executemany(
                "INSERT OR IGNORE INTO outbox (xid) VALUES (?)", ((xid,) for xid in dict.fromkeys([*xids, *again]))
            )
            self.db.execute("INSERT OR REPLACE INTO reached VALUES (1, ?, ?, ?, ?)", reached)

    def next(self) -> Xid | None:
        """Return the XID that comes next; None: nothing is left."""
        row = self.db.execute("SELECT xid FROM outbox ORDER BY place LIMIT 1").fetchone()
        return row[0] if row else None

    def waits(self, xid: Xid) -> bool:
        """Return whether something is still to be sent."""
        return self.db.execute("SELECT 1 FROM outbox WHERE xid = ?", (xid,)).fetchone() is not None

    def postpone(self, xid: Xid) -> None:
        """Move an item behind all others."""
        self.db.execute("UPDATE outbox SET place = (SELECT max(place) + 1 FROM outbox) WHERE xid = ?", (xid,))

    def again(self, xids: Iterable[Xid]) -> None:
        """Add to the outbox, in order, what was rejected: the target may have what it refers to by now."""
        self.db.execute("BEGIN IMMEDIATE")
        with self.db:
            self.db.executemany("INSERT OR IGNORE INTO outbox (xid) VALUES (?)", ((xid,) for xid in xids))

    def waiting(self) -> int:
        """Count what is left."""
        return int(self.db.execute("SELECT count(*) FROM outbox").fetchone()[0])

    def sent(self, xid: Xid) -> list[str] | None:
        """Return the ids of the Versions that the target has of us; None: it has nothing of this from us."""
        row = self.db.execute("SELECT versions FROM sent WHERE xid = ?", (xid,)).fetchone()
        return None if row is None else list(json.loads(row[0]))

    def all_sent(self) -> list[Xid]:
        """Return the XIDs of all that the target has from us."""
        return [row[0] for row in self.db.execute("SELECT xid FROM sent ORDER BY xid")]

    def begin(self, xid: Xid, versions: list[str]) -> None:
        """Record that the target is being sent this, with these Versions, in case of a crash before its response."""
        versions_sent = self.sent(xid)
        if versions_sent != []:  # an alias stays one until it is deleted
            every = sorted({*(versions_sent or ()), *versions})
            self.db.execute("INSERT OR REPLACE INTO sent VALUES (?, ?)", (xid, json.dumps(every)))

    def leave(self, xid: Xid) -> None:
        """Record that nothing of this need be sent."""
        self.db.execute("BEGIN IMMEDIATE")
        with self.db:
            self.db.execute("DELETE FROM outbox WHERE xid = ?", (xid,))
            self.db.execute("DELETE FROM refused WHERE xid = ?", (xid,))

    def done(self, xid: Xid, versions: list[str] | None) -> None:
        """Record that the target has this now, with these Versions; None: it has it no longer."""
        self.db.execute("BEGIN IMMEDIATE")
        with self.db:
            self.db.execute("DELETE FROM outbox WHERE xid = ?", (xid,))
            self.db.execute("DELETE FROM refused WHERE xid = ?", (xid,))
            if versions is None:  # and what it held
                self.db.execute("DELETE FROM sent WHERE xid = ? OR substr(xid, 1, ?) = ?", (xid, len(xid) + 1, xid + "/"))
            else:
                self.db.execute("INSERT OR REPLACE INTO sent VALUES (?, ?)", (xid, json.dumps(versions)))

    def refuse(self, xid: Xid, reason: str) -> None:
        """Record that the target rejected this; it is sent again with the next changes."""
        self.db.execute("BEGIN IMMEDIATE")
        with self.db:
            self.db.execute("DELETE FROM outbox WHERE xid = ?", (xid,))
            self.db.execute("INSERT OR REPLACE INTO refused VALUES (?, ?)", (xid, reason))

    def refused(self) -> list[tuple[Xid, str]]:
        """Return what the target did not take, with the reasons."""
        return list(self.db.execute("SELECT xid, reason FROM refused ORDER BY xid"))

    def finish(self) -> None:
        """Record that the target is up to date with the outbox."""
        self.db.execute("UPDATE reached SET snapshot = until, digest = until_digest")
