"""What changed here is sent to a server that can be written, entity by entity (CAT-185).

The target gets what the catalog holds: groups first, then messages and schemas with all of their Versions, then what is deleted,
and only what it has from us. Epochs are the target's own, by the rules of the API. A message whose authority is the target itself
is not sent back there (CAT-182); one that it has under another authority than ours is left alone (CAT-183). Without Spark.

What is to be sent is in a SQLite file in the folder of the target's state, so that a push that died goes on where it was: a row
of `outbox` for each group, endpoint, message and schema that changed; of `sent` for each that the target has from us, with the
Versions that it has; of `refused` for each that the target did not take, with its reason. Texts are read when they are sent.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from lakehouse.dialects.tables import family_of
from lakehouse.dialects.writing import ENTITIES_OF, to_dialect
from lakehouse.errors import ReplicationError, SettingsError
from lakehouse.export.view import Urls, group_view, resource_view
from lakehouse.readmodel import ReadModel, View, open_model
from lakehouse.readmodel.detail import stored
from lakehouse.replicate.client import CatalogAddress, Client, RequestLimits, RequestRefused
from lakehouse.replicate.sourcedocuments import COLLECTIONS, MEMBERS, Json, bare_group, bare_resource
from lakehouse.replicate.state import PeerState
from lakehouse.settings import Settings
from lakehouse.text.jsontext import as_written, without
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import xid_of_group, xid_of_resource, xid_of_version

_NOT_SENT = ("epoch", "xid", "isdefault", "readonly")  # they are the target's
_DATES = ("createdat", "modifiedat")  # the target's own where it was written later
_TABLES = """
CREATE TABLE IF NOT EXISTS outbox (place INTEGER PRIMARY KEY, xid TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE IF NOT EXISTS sent (xid TEXT PRIMARY KEY, versions TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS refused (xid TEXT PRIMARY KEY, reason TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS reached (one INTEGER PRIMARY KEY CHECK (one = 1), snapshot INTEGER, digest TEXT, until INTEGER,
  until_digest TEXT) STRICT;
"""
_DIALECTS = ("1.0-rc2", "1.0-rc4")
_MOST_REFUSED_LISTED = 20
_TOO_LARGE = 406
_STOPS = (401, 403, 405)  # statuses of a server that takes no writes


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
    if isinstance(attributes.get("schema"), (dict, list)):
        # A server sets it where a client does not (core, `<RESOURCE>` attribute).
        attributes.setdefault("contenttype", "application/json")
    return attributes


def meta_of(meta: Json) -> Json:
    """Return the meta object: a default Version that nobody chose is the newest, which the target finds itself."""
    if meta.get("defaultversionsticky"):
        return meta
    return {name: value for name, value in meta.items() if name not in ("defaultversionid", "defaultversionsticky")}


def _promise(resource: Json | None) -> str | None:
    """Return the `compatibility` of a message or schema in the document view; None: it promises nothing."""
    result = ((resource or {}).get("meta") or {}).get("compatibility")
    return None if result in (None, "none") else str(result)


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


@dataclass(frozen=True)
class Push:
    """What is pushed, and how.

    Attributes:
        target: address of the other catalog.
        scope: XIDs of groups, endpoints, messages and schemas; none: all (CAT-186).
        authority: of the target; None: its URL.
        limits: what the target may ask of us.
    """

    target: CatalogAddress
    scope: tuple[Xid, ...] = ()
    authority: str | None = None
    limits: RequestLimits = field(default_factory=RequestLimits)


class Pushed(NamedTuple):
    """What a round sent: XIDs that were written, deleted, left (the target's own, or there already), and refused."""

    snapshot: int
    written: int
    deleted: int
    left: int
    refused: list[tuple[Xid, str]]

    def as_json(self) -> Json:
        """Return what was sent as a JSON value."""
        refused = [{"xid": xid, "reason": reason} for xid, reason in self.refused[:_MOST_REFUSED_LISTED]]
        counts = {"written": self.written, "deleted": self.deleted, "left": self.left, "refused": len(self.refused)}
        return {"snapshot": self.snapshot} | counts | ({"examples": refused} if refused else {})


class Pusher:
    """Pushes to one target, round after round.

    Args:
        settings: the warehouse, the registry that is sent, the authority of what has none.
        options: what is pushed.
        state: as from `open_state`.
        report: is called with how far a round is: an XID, and how many are left.
    """

    def __init__(
        self, settings: Settings, options: Push, state: PeerState, report: Callable[[Xid, int], None] = lambda xid, left: None
    ) -> None:
        self.settings = settings
        self.options = options
        self.report = report
        self.client = Client(options.target, options.limits)
        self.outbox = Outbox(state.folder)
        self._dialect: str | None = None
        self._own = (options.authority or options.target.url).rstrip("/")

    def close(self) -> None:
        """Close connections and files."""
        self.client.close()
        self.outbox.close()

    def run(self) -> Pushed:
        """Send what changed since the last round, or what that one left.

        Raises:
            ReplicationError: the target does not answer, or cannot be written; what was not sent waits.
            SettingsError: the catalog holds several registries, and none is named.
        """
        with open_model(self.settings) as model:
            with model.at() as view:
                registryid = _registry_of(view, self.settings)
                if not self.outbox.waiting():
                    self._fill(view, registryid)
                if not self.outbox.waiting():
                    return Pushed(view.head, 0, 0, 0, [])
            self._dialect = self._dialect or _dialect_of(self.client, self.options.target.url)
            return self._send_all(model, registryid)

    def _fill(self, view: View, registryid: RegistryId) -> None:
        """Find what changed since the target was last in sync; everything, if that is not known any more."""
        reached = self.outbox.reached()
        is_past = 0 < reached.snapshot <= view.head
        is_in_log = is_past and str(view.commit_of(reached.snapshot)["digest"]) == reached.digest
        since = reached.snapshot if is_in_log else 0
        if since == view.head and not self.outbox.refused():
            return
        changed = _changed(view, registryid, since) | (set() if is_in_log else set(self.outbox.all_sent()))
        wanted = [xid for xid in changed if _is_wanted(xid, self.options.scope)]
        existing = {xid for xid in wanted if _exists(view, registryid, xid)}
        gone = sorted((xid for xid in set(wanted) - existing if self.outbox.sent(xid) is not None), key=_order, reverse=True)
        digest = str(view.commit_of(view.head)["digest"]) if view.head else ""
        base = reached.digest if is_in_log else ""
        self.outbox.fill([*sorted(existing, key=_order), *gone], Reached(since, base, view.head, digest))
        if not self.outbox.waiting():
            self.outbox.finish()

    def _send_all(self, model: ReadModel, registryid: RegistryId) -> Pushed:
        """Send what waits; then what was refused, as long as less is refused each time: it may refer to what came later."""
        counts = {"written": 0, "deleted": 0, "left": 0}
        refused: list[tuple[Xid, str]] = []
        with model.at() as view:
            while True:
                before, progress = len(refused), sum(counts.values())
                while (xid := self.outbox.next()) is not None:
                    self.report(xid, self.outbox.waiting())
                    self._send(view, registryid, xid, counts)
                refused = self.outbox.refused()
                if not refused or sum(counts.values()) == progress or (before and len(refused) >= before):
                    break
                self.outbox.again(sorted((refused_xid for refused_xid, _ in refused), key=_order))
            self.outbox.finish()
            return Pushed(view.head, **counts, refused=refused)

    def _send(self, view: View, registryid: RegistryId, xid: Xid, counts: dict[str, int]) -> None:
        """Send what comes next.

        Raises:
            ReplicationError: the target does not answer, or cannot be written.
        """
        try:
            if not _exists(view, registryid, xid):
                counts["deleted"] += self._delete(xid)
            elif (written := self._write(view, registryid, xid)) is not None:
                counts["written" if written else "left"] += 1
        except RequestRefused as refused:
            if refused.status in _STOPS:
                detail = f"it does not let itself be written ({refused.status}): it may take nothing in (CAT-184). {refused}"
                raise ReplicationError(self.options.target.url, detail) from refused
            self.outbox.refuse(xid, str(refused))

    def _delete(self, xid: Xid) -> bool:
        """Delete what the target has from us; False: it has nothing of it."""
        is_sent = self.outbox.sent(xid) is not None
        if is_sent and xid.count("/") == 2 and self._holds_more(xid):
            is_sent = False
        if is_sent:
            self._request("DELETE", xid, None, missing=True)
        self.outbox.done(xid, None)
        return is_sent

    def _holds_more(self, xid: Xid) -> bool:
        """Return whether a group of the target still has members, which are not from us: ours went before."""
        existing = self._existing(xid)
        return bool(existing and existing.get(f"{MEMBERS[xid.split('/')[1]]}count"))

    def _write(self, view: View, registryid: RegistryId, xid: Xid) -> bool | None:
        """Write an entity; False: the target has it as it is, or it is the target's own; None: it comes later."""
        body = body_of(view, registryid, xid, self._dialect or _DIALECTS[0])
        if xid.count("/") == 2:
            return self._write_group(xid, body)
        sent = self.outbox.sent(xid)
        meta: Json = body.setdefault("meta", {})
        authority = meta.get("authority")
        if xid.split("/")[3] == "messages":
            if isinstance(authority, str) and authority.rstrip("/") == self._own:
                self.outbox.leave(xid)
                return False
            if not authority and self.settings.authority and "xref" not in meta:
                authority = meta["authority"] = self.settings.authority
        existing = self._existing(xid, "?doc&inline=*")
        if existing is not None and sent is None:
            _check_authority(self.options.target.url_of(xid), existing, authority)
        if existing is not None and is_same_resource(existing, body):
            self.outbox.leave(xid) if sent is None else self.outbox.done(xid, list(body.get("versions", {})))
            return False
        self._write_resource(xid, body, sent, existing)
        return True

    def _write_group(self, xid: Xid, body: Json) -> bool | None:
        """Write a group or endpoint; False: the target has it as it is; None: it comes later.

        A message that an endpoint refers to may be the endpoint's own, so neither can be first: while the message is still to be
        sent, the endpoint is sent without its `willmessage`, and again behind the rest.
        """
        existing = self._existing(xid)
        if existing is not None and is_same_group(existing, body):
            self.outbox.leave(xid)
            return False
        options = body.get("protocoloptions")
        will = options.get("willmessage") if isinstance(options, dict) else None
        comes = isinstance(will, str) and will.startswith("/") and self.outbox.waits(xid_of_resource(Xid(will)))
        if comes and existing is not None:
            self.outbox.postpone(xid)
            return None
        self.outbox.begin(xid, [])
        if comes:
            assert isinstance(options, dict)
            self._request("PUT", xid, body | {"protocoloptions": without(options, ("willmessage",))})
            self.outbox.postpone(xid)
            return None
        self._request("PUT", xid, body)
        self.outbox.done(xid, [])
        return True

    def _write_resource(self, xid: Xid, body: Json, sent: list[str] | None, existing: Json | None) -> None:
        """Write a message or schema with its Versions, of which the target has some from us; another promise ends before."""
        meta, versions = body["meta"], body.get("versions", {})
        if "xref" in meta:
            self.outbox.begin(xid, [])
            self._request("PUT", xid, {"meta": {"xref": meta["xref"]}}, details=True)
            self.outbox.done(xid, [])
            return
        self.outbox.begin(xid, list(versions))
        if sent == []:  # the target has an alias, which takes no Versions
            self._request("DELETE", xid, None, missing=True)
        elif _promise(existing) not in (None, _promise(body)):
            self._request("PATCH", f"{xid}/meta", {"compatibility": None})
        self._request("POST", f"{xid}/versions", versions)
        for versionid in sorted(set(sent or ()) - set(versions)):
            self._request("DELETE", xid_of_version(xid, versionid), None, missing=True)
        self._request("PUT", f"{xid}/meta", meta_of(meta))
        self.outbox.done(xid, list(versions))

    def _existing(self, path: str, flags: str = "") -> Json | None:
        """Fetch the target's entity; None if there is none."""
        details = "$details" if "/schemas/" in path else ""
        try:
            entity = self.client.json(self.options.target.url_of(path) + details + flags)
        except RequestRefused as refused:
            if refused.status == _TOO_LARGE:
                meta = self._existing(f"{path}/meta")
                return None if meta is None else {"meta": meta}
            if refused.status != 404:
                raise
            entity = None
        return entity if isinstance(entity, dict) else None

    def _request(self, method: str, path: str, body: Any, *, missing: bool = False, details: bool = False) -> None:
        """Send a request; with `missing` what is not there is as good as deleted."""
        url = self.options.target.url_of(path) + ("$details" if details and "/schemas/" in path else "")
        try:
            self.client.send(method, url, None if body is None else as_written(body).encode())
        except RequestRefused as refused:
            if not (missing and refused.status == 404):
                raise


def _registry_of(view: View, settings: Settings) -> RegistryId:
    registryids = view.registries()
    if settings.registry:
        return RegistryId(settings.registry)
    if len(registryids) > 1:
        raise SettingsError(f"the catalog holds several registries ({', '.join(registryids[:10])}): name one with --registry.")
    return registryids[0] if registryids else RegistryId("default")


def _dialect_of(client: Client, url: str) -> str:
    """Return how a target spells things (CAT-184)."""
    root = client.json(url)
    version = root.get("specversion") if isinstance(root, dict) else None
    if not isinstance(version, str):
        raise ReplicationError(url, "it is not an xRegistry server: there is no `specversion`.")
    return next((dialect for dialect in _DIALECTS if dialect == version.lower()), _DIALECTS[0])


def _changed(view: View, registryid: RegistryId, since: int) -> set[Xid]:
    """Return the XIDs of the groups, messages and schemas that changed after a snapshot, themselves or in a Version."""
    rows = view.db.execute(
        "SELECT DISTINCT xid FROM log WHERE registryid = ? AND snapshot_id > ? AND snapshot_id <= ? AND op <> 'own'"
        " AND kind IN ('group', 'endpoint', 'message', 'version', 'schema', 'schemaversion')",
        (registryid, since, view.head),
    )
    return {xid_of_resource(row[0]) for row in rows}


def _is_wanted(xid: Xid, scope: Sequence[Xid]) -> bool:
    """Return whether something lies in the scope, or holds what does."""
    return not scope or any(
        selected == xid or xid.startswith(selected + "/") or selected.startswith(xid + "/") for selected in scope
    )


def _check_authority(url: str, existing: Json, authority: Any) -> None:
    """Check that the target does not have an entity under another authority, whose entity stays as it is.

    Raises:
        RequestRefused: it has this, and not from us.
    """
    meta = existing.get("meta")
    target_authority = meta.get("authority") if isinstance(meta, dict) else None
    if target_authority and target_authority != authority:
        raise RequestRefused(url, 409, f"the target has it under the authority {target_authority}, and here it is {authority}")


def _order(xid: Xid) -> tuple[int, int, str]:
    """Order what is written: groups before their members, schemas before messages."""
    collection = xid.split("/")[1]
    return (xid.count("/"), -COLLECTIONS.index(collection) if collection in COLLECTIONS else 1, xid)


def _exists(view: View, registryid: RegistryId, xid: Xid) -> bool:
    return view.entity(registryid, xid) is not None
