"""Search for words in ids, names, types, addresses, labels, descriptions and attributes of the newest snapshot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from lakehouse.readmodel.file.words import KINDS
from lakehouse.readmodel.snapshotview import View
from lakehouse.text.documentnames import documents_of
from lakehouse.text.names import RegistryId, Xid

_WORD = re.compile(r"[^\W_]+", re.UNICODE)
# What an id or a name says counts more than what a description does: weights of the columns of the table `words`.
_RANK = "bm25(words, 10.0, 8.0, 6.0, 4.0, 3.0, 2.0, 1.0)"
# The columns of the index, in the order in which a hit names those that hold a word.
_COLUMNS = ("ids", "name", "type", "address", "labels", "description", "attributes")
_SEARCH = f"""
  SELECT f.registryid, f.kind, f.xid, coalesce(f.name, w.name), w.description, w.ids, w.type, w.address, w.labels, w.attributes
  FROM (
    SELECT r.id, r.rank, s.registryid, s.kind, s.xid, e.name  -- of a message `words` has the name's words, too
    FROM (SELECT rowid AS id, {_RANK} AS rank FROM words WHERE words MATCH :query LIMIT :most) AS r
    INNER JOIN searched AS s ON s.id = r.id
    LEFT JOIN effective AS e ON e.registryid = s.registryid AND e.xid = s.xid AND s.kind = 'message'
    WHERE (:registryid IS NULL OR s.registryid = :registryid) AND s.kind IN (SELECT value FROM json_each(:kinds))
      AND (:protocol IS NULL OR e.protocol_family = :protocol)
      AND (
        :groupid IS NULL
        OR substr(s.xid, instr(substr(s.xid, 2), '/') + 2, length(:groupid) + 1) = :groupid || '/'
        OR (s.kind IN ('group', 'endpoint') AND s.entityid = :groupid)
      )
      AND (:label IS NULL OR EXISTS (
        SELECT 1 FROM json_each(e.labels) AS l WHERE l.key = :label AND (:value IS NULL OR l.value = :value)
      ))
    ORDER BY r.rank, s.registryid, s.xid LIMIT :limit OFFSET :offset
  ) AS f
  INNER JOIN words AS w ON w.rowid = f.id
  ORDER BY f.rank, f.registryid, f.xid
"""


class Hit(NamedTuple):
    """What was found.

    Attributes:
        registryid, kind, xid: the entity; of a document xid is its URI.
        name, description: of the entity; None: it has none.
        where: the best columns that hold the words: ids, name, type, address, labels, description or attributes.
    """

    registryid: RegistryId
    kind: str
    xid: Xid
    name: str | None
    description: str | None
    where: list[str]


class Filters(NamedTuple):
    """Filters of messages: family of the protocol, id of the group that holds it, a label (name, or name=value)."""

    protocol: str | None = None
    groupid: str | None = None
    label: str | None = None


def search(
    view: View,
    text: str,
    kinds: Sequence[str] = KINDS,
    *,
    registryid: RegistryId | None = None,
    limit: int = 50,
    offset: int = 0,
    filters: Filters | None = None,
    most: int = -1,
) -> list[Hit]:
    """Find entities that hold all words of a text; the last word may be the beginning of one. The best come first.

    Args:
        view: the newest snapshot.
        text: some words; all else between them is passed over.
        kinds: message, group, endpoint, schema, document.
        registryid: only of this registry.
        limit: how many at most.
        offset: how many of the best are passed over.
        filters: protocol and label leave messages only, for nothing else has them in the index.
        most: how many that hold the words are ranked, for words that nearly all have; -1: all.
    """
    words = _WORD.findall(text)
    if not words:
        return []
    query = " AND ".join(f'"{word}"' for word in words) + "*"
    wanted = filters or Filters()
    label, has_value, value = (wanted.label or "").partition("=")
    rows = view.db.execute(
        _SEARCH,
        {
            "query": query,
            "most": most,
            "registryid": registryid,
            "kinds": "[" + ",".join(f'"{kind}"' for kind in kinds) + "]",
            "protocol": wanted.protocol.upper() if wanted.protocol else None,
            "groupid": wanted.groupid,
            "label": label or None,
            "value": value if has_value else None,
            "limit": limit,
            "offset": offset,
        },
    )
    found = []
    for one, kind, xid, name, description, ids, types, address, labels, attributes in rows:
        columns = dict(zip(_COLUMNS, (ids, name, types, address, labels, description, attributes), strict=True))
        where = [column for column, held in columns.items() if held and any(word.lower() in held.lower() for word in words)]
        found.append(Hit(one, kind, xid, name, description, where))
    return found


def find_ids(
    view: View, entityid: str, kinds: Sequence[str] = KINDS, registryid: RegistryId | None = None
) -> list[tuple[RegistryId, str, Xid]]:
    """Find entities by their id alone: registryid, kind, xid, sorted."""
    rows = view.db.execute(
        "SELECT registryid, kind, xid FROM searched WHERE entityid = ?1 AND (?2 IS NULL OR registryid = ?2)"
        " AND kind IN (SELECT value FROM json_each(?3)) ORDER BY 1, 2, 3",
        (entityid, registryid, "[" + ",".join(f'"{kind}"' for kind in kinds) + "]"),
    )
    return rows.fetchall()


def find_documents(view: View, text: str, registryid: RegistryId | None = None) -> list[str]:
    """Find documents by any spelling of their URI, or by its end after a `/`; sorted, each once."""
    return documents_of(text, (uri for _, uri, _, _ in view.documents(registryid)))
