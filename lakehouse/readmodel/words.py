"""What is searched: for each entity of the catalog as it is now, the words of its ids, names, types, addresses, attributes."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from lakehouse.readmodel.schema import NEVER

KINDS = ("message", "group", "endpoint", "schema", "document")
_HOLDER = {"version": "message", "schemaversion": "schema"}
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_MOST = 20_000  # characters of one entity's attributes: a schema that stands in the definition may be as long as a book


class Words(NamedTuple):
    """The columns of the table `words`."""

    ids: str = ""
    name: str | None = None
    type: str | None = None
    address: str | None = None
    labels: str | None = None
    description: str | None = None
    attributes: str | None = None


def holder_of(kind: str, xid: str) -> tuple[str, str] | None:
    """Give kind and XID under which what an entity says is found; None: under none."""
    if kind in KINDS:
        return kind, xid
    return (_HOLDER[kind], "/".join(xid.split("/")[:5])) if kind in _HOLDER else None


def index_all(db: sqlite3.Connection) -> None:
    """Index every entity of a file that has nothing indexed yet."""
    kinds = ", ".join(f"'{kind}'" for kind in KINDS)
    keys = db.execute(
        f"SELECT DISTINCT registryid, kind, xid FROM log WHERE kind IN ({kinds}) AND until = ? AND op <> 'delete'", (NEVER,)
    )
    _insert(db, keys, first=1)


def index_again(db: sqlite3.Connection, keys: Iterable[tuple[str, str, str]]) -> None:
    """Index entities as they are now; those that are no more are not found any longer.

    Args:
        db: the file, within a transaction.
        keys: registryid, kind, xid.
    """
    wanted = sorted(set(keys))
    for key in wanted:
        for (row,) in db.execute("SELECT id FROM searched WHERE registryid = ? AND kind = ? AND xid = ?", key).fetchall():
            db.execute("DELETE FROM words WHERE rowid = ?", (row,))
            db.execute("DELETE FROM searched WHERE id = ?", (row,))
    there = [
        key
        for key in wanted
        if db.execute(
            "SELECT 1 FROM log WHERE registryid = ? AND kind = ? AND xid = ? AND until = ? AND op <> 'delete'", (*key, NEVER)
        ).fetchone()
    ]
    _insert(db, there, first=1 + (db.execute("SELECT max(id) FROM searched").fetchone()[0] or 0))


def _insert(db: sqlite3.Connection, keys: Iterable[tuple[str, str, str]], first: int) -> None:
    rows = db.cursor()
    for row, (registryid, kind, xid) in enumerate(keys, start=first):
        entityid = xid if kind == "document" else xid.rsplit("/", 1)[1]
        rows.execute("INSERT INTO searched VALUES (?, ?, ?, ?, ?)", (row, registryid, kind, xid, entityid))
        words = words_of(db, registryid, kind, xid)
        rows.execute(
            f"INSERT INTO words (rowid, {', '.join(Words._fields)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (row, *words),
        )


def words_of(db: sqlite3.Connection, registryid: str, kind: str, xid: str) -> Words:
    """Give what an entity is found by: a message by its effective definition, where there is one yet."""
    if kind == "message":
        found = db.execute(
            "SELECT name, ce_type, address, labels, description, attributes, protocol FROM effective"
            " WHERE registryid = ? AND xid = ?",
            (registryid, xid),
        ).fetchone()
        ids = _split(xid)
        if found is None:
            return Words(ids)
        name, ce_type, address, labels, description, attributes, protocol = found
        kinds = " ".join(text for text in (_split(ce_type or ""), protocol or "") if text) or None
        return Words(ids, _split(name or "") or None, kinds, address, labels, description, _plain(attributes))
    if kind == "document":
        return Words(xid)
    body = _body(db, registryid, kind, xid)
    if kind == "schema":
        default = body.get("defaultversionid")
        body = (_body(db, registryid, "schemaversion", f"{xid}/versions/{default}") if default is not None else {}) | body
    return _words_of_body(xid, kind, body)


def _words_of_body(xid: str, kind: str, body: dict[str, Any]) -> Words:
    named = {name: body[name] for name in ("name", "description") if isinstance(body.get(name), str)}
    kinds = [body[name] for name in ("format", "protocol", "envelope") if isinstance(body.get(name), str)]
    rest = {name: body[name] for name in ("protocoloptions", "schema", "channel", "usage", "extensions") if name in body}
    options = body.get("protocoloptions")
    addresses = options.get("endpoints") if kind == "endpoint" and isinstance(options, dict) else None
    return Words(
        _split(xid),
        named.get("name"),
        " ".join(kinds) or None,
        None if addresses is None else orjson.dumps(addresses).decode(),
        orjson.dumps(body["labels"]).decode() if body.get("labels") else None,
        named.get("description"),
        _plain(orjson.dumps(rest).decode()) if rest else None,
    )


def _body(db: sqlite3.Connection, registryid: str, kind: str, xid: str) -> dict[str, Any]:
    found = db.execute(
        "SELECT body FROM log WHERE registryid = ? AND xid = ? AND kind = ? AND until = ? AND op <> 'delete'",
        (registryid, xid, kind, NEVER),
    ).fetchone()
    known: dict[str, Any] = {} if found is None else orjson.loads(found[0])
    return known


def _split(text: str) -> str:
    """Give a name and, where it is written in camel case, its words beside."""
    words = _CAMEL.sub(" ", text)
    return text if words == text else f"{text} {words}"


def _plain(attributes: str | None) -> str | None:
    """Take the escapes of JSON out of the text, which would stick to words."""
    return None if attributes is None else attributes[:_MOST].replace("\\n", " ").replace("\\t", " ").replace('\\"', " ")
