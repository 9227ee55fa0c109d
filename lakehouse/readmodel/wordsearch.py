"""Search for words in ids, names, types, addresses, labels, descriptions and attributes of the newest snapshot."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple
from unicodedata import category, normalize

from lakehouse.readmodel.file.words import KINDS, Words, declared_in
from lakehouse.readmodel.snapshotview import View
from lakehouse.text.documentnames import documents_of
from lakehouse.text.names import RegistryId, Xid

_WORD = re.compile(r"[^\W_]+", re.UNICODE)
_ASCII_WORDS = bytes(ord(chr(code).lower()) if chr(code).isalnum() and code < 128 else 32 for code in range(256))
# A part of what is searched: a column's prefix, if it has one, and the text up to the next blank.
_PART = re.compile(r"(?:(field|attr|topic):)?(\S+)", re.IGNORECASE)
_OF_PREFIX = {"field": "fields", "attr": "names", "topic": "address"}
# What an id or a name says counts more than what a description does: weights of the columns of the table `words`.
_RANK = "bm25(words, 10.0, 8.0, 6.0, 4.0, 3.0, 2.0, 1.0, 2.0, 2.0)"
# The columns of the index, in the order in which a hit names those that hold a word.
_COLUMNS = ("ids", "name", "type", "address", "labels", "description", "attributes", "fields")
_RANKED = f"""
  SELECT s.registryid, s.kind, s.xid
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
"""
_HIT = """
  SELECT coalesce(e.name, w.name), w.description, w.ids, w.type, w.address, w.labels, w.attributes, w.fields  -- of a message
  FROM found_by AS w                                                           -- `found_by` has the words of its name, too
  LEFT JOIN effective AS e ON e.registryid = w.registryid AND e.xid = w.xid AND w.kind = 'message'
  WHERE w.registryid = ? AND w.kind = ? AND w.xid = ?
"""
_SECTIONS = {"envelopemetadata": "envelope attribute", "protocoloptions": "protocol option"}
_MOST_FRAGMENTS = 4
_MOST_WORDS = 2_000  # of one entity: more than that has only a schema in a definition that is as long as a book
_ALIKE = 0.3  # share of trigrams that two words have in common, from which one may be meant for the other
Key = tuple[RegistryId, str, Xid]


class Hit(NamedTuple):
    """What was found.

    Attributes:
        registryid, kind, xid: the entity; of a document xid is its URI.
        name, description: of the entity; None: it has none.
        where: the best columns that hold the words: ids, name, type, address, labels, description, attributes or fields.
        fragments: declarations and payload fields whose names hold the words, such as `payload field address.region`.
    """

    registryid: RegistryId
    kind: str
    xid: Xid
    name: str | None
    description: str | None
    where: list[str]
    fragments: list[str]


class PastEntity(NamedTuple):
    """What an entity was found by in a past snapshot, where that may not be what the index holds."""

    name: str | None
    words: Words


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
    """Find entities that hold all words of a text, as `find_by_words`, and say where they hold them."""
    keys = find_by_words(view, text, kinds, registryid=registryid, limit=limit, offset=offset, filters=filters, most=most)
    return hits_of(view, text, keys)


def find_by_words(
    view: View,
    text: str,
    kinds: Sequence[str] = KINDS,
    *,
    registryid: RegistryId | None = None,
    limit: int = -1,
    offset: int = 0,
    filters: Filters | None = None,
    most: int = -1,
) -> list[Key]:
    """Find entities that hold all words of a text; the last word may be the beginning of one. The best come first.

    Args:
        view: the newest snapshot.
        text: some words; `field:`, `attr:` and `topic:` before one look for it among the fields of the payload, the names of
            declarations, and addresses; all else between words is passed over.
        kinds: message, group, endpoint, schema, document.
        registryid: only of this registry.
        limit: how many at most; -1: all.
        offset: how many of the best are passed over.
        filters: protocol and label leave messages only, for nothing else has them in the index.
        most: how many that hold the words are ranked, for words that nearly all have; -1: all.
    """
    words = _words(text)
    if not words:
        return []
    query = " AND ".join(f'{prefix} : "{word}"' if prefix else f'"{word}"' for prefix, word in words) + "*"
    wanted = filters or Filters()
    label, has_value, value = (wanted.label or "").partition("=")
    rows = view.db.execute(
        _RANKED,
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
    return rows.fetchall()


def _words(text: str) -> list[tuple[str, str]]:
    """Return the words of a text, each with the column that it is looked for in; empty: in all."""
    parts = _PART.findall(text)
    return [(_OF_PREFIX.get(prefix.lower(), ""), word) for prefix, part in parts for word in _WORD.findall(part)]


def words_in(columns: Iterable[str | None]) -> Iterator[str]:
    """Yield the words of an entity, each once, as the index has them: in lower case, without accents."""
    text = " ".join(column for column in columns if column)
    if text.isascii():
        words = text.encode().translate(_ASCII_WORDS).decode().split()  # what the pattern finds, in a fraction of the time
    else:
        words = _WORD.findall("".join(character for character in normalize("NFD", text) if category(character)[0] != "M").lower())
    return islice(dict.fromkeys(words), _MOST_WORDS)


def holds_words(words: Words, text: str) -> bool:
    """Return whether an entity holds all words of a text, as `find_by_words` finds it."""
    wanted = _words(text)
    for at, (prefix, word) in enumerate(wanted):
        plain = next(words_in([word]), "")
        present = words_in([getattr(words, prefix)] if prefix else words)
        if not any(word.startswith(plain) if at == len(wanted) - 1 else word == plain for word in present):
            return False
    return bool(wanted)


def names_of_messages(view: View) -> list[tuple[Key, str | None, str | None]]:
    """Return the columns `names` and `fields` of each message in the index."""
    rows = view.db.execute("SELECT registryid, kind, xid, names, fields FROM found_by WHERE kind = 'message'")
    return [((registryid, kind, xid), names, fields) for registryid, kind, xid, names, fields in rows]


def vocabulary(view: View) -> list[str]:
    """Return all words that are in the index."""
    return [word for (word,) in view.db.execute("SELECT term FROM vocabulary")]


def respelled(words: Sequence[str], text: str) -> str:
    """Return a text with words of the catalog for those that it does not have; empty: it has all, or none that is alike.

    Args:
        words: of the catalog.
        text: what was searched for.
    """
    present = set(words)
    results = {}
    for _, word in _words(text):
        plain = next(words_in([word]), "")
        if plain in present:
            continue
        own = _trigrams(plain)
        alike = [(len(own & other) / len(own | other), word) for word in words if own & (other := _trigrams(word))]
        share, nearest = min(alike, key=lambda scored: (-scored[0], scored[1]), default=(0.0, ""))
        if share < _ALIKE:
            return ""
        results[word] = nearest
    return _WORD.sub(lambda match: results.get(match[0], match[0]), text) if results else ""


def _trigrams(word: str) -> set[str]:
    text = f"  {word} "
    return {text[at : at + 3] for at in range(len(text) - 2)}


def hits_of(view: View, text: str, keys: Iterable[Key], past: Mapping[Key, PastEntity] | None = None) -> list[Hit]:
    """Return what a page shows of entities, and where they hold the words of a text.

    Args:
        view: the snapshot.
        text: what was searched for.
        keys: the entities.
        past: of a past snapshot, entities that were not then what the index holds.
    """
    words = [word.lower() for _, word in _words(text)]
    hits = []
    for key in keys:
        earlier = (past or {}).get(key)
        if earlier is None:
            row = view.db.execute(_HIT, key).fetchone()
        else:
            columns_then = earlier.words
            row = (
                earlier.name, columns_then.description, columns_then.ids, columns_then.type, columns_then.address,
                columns_then.labels, columns_then.attributes, columns_then.fields,
            )  # fmt: skip
        if row is None:
            continue
        name, description, ids, types, address, labels, attributes, fields = row
        columns = zip(_COLUMNS, (ids, name, types, address, labels, description, attributes, fields), strict=True)
        where = [column for column, value in columns if value and any(word in value.lower() for word in words)]
        fragments = _fragments(words, attributes or "", fields or "") if key[1] == "message" else []
        hits.append(Hit(*key, name, description, where, fragments))
    return hits


def declaration(section: str, name: str, is_required: bool) -> str:
    """Return a declaration in words, such as `envelope attribute region, required`."""
    return f"{_SECTIONS[section]} {name}{', required' if is_required else ''}"


def _fragments(words: list[str], attributes: str, fields: str) -> list[str]:
    """Return the declarations and fields of a message whose names hold one of the words, at a word's beginning."""

    def fits(name: str) -> bool:
        return any(part.startswith(word) for part in _WORD.findall(name.lower()) for word in words)

    declared = [declaration(section, name, is_required) for section, name, is_required in declared_in(attributes) if fits(name)]
    paths = [f"payload field {path}" for path in fields.partition("\n")[0].split() if fits(path)]
    return [*declared, *paths][:_MOST_FRAGMENTS]


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
