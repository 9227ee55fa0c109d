"""Search for words in ids, names, types, addresses, labels, descriptions and attributes of the newest snapshot."""

from __future__ import annotations

import re
from collections import Counter
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
# A part of what is searched: a column's prefix, `=` for a whole name, and the text up to the next blank.
_PART = re.compile(r"(?:(field|attr|topic):(=?))?(\S*)", re.IGNORECASE)
_OF_PREFIX = {"field": "fields", "attr": "names", "topic": "address"}
# Where a column has whole names: the paths of fields are before its line break.
_NAMES = {"fields": "substr(f.fields, 1, instr(f.fields || char(10), char(10)) - 1)", "names": "f.names", "address": "f.address"}
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
    {{exact}}
  ORDER BY r.rank, s.registryid, s.xid LIMIT :limit OFFSET :offset
"""
_EXACT = """AND EXISTS (
      SELECT 1 FROM found_by AS f WHERE f.id = s.id AND instr(' ' || {names} || ' ', ' ' || :exact{at} || ' ') > 0
    )"""
_HIT = """
  SELECT coalesce(e.name, w.name), w.description, w.ids, w.type, w.address, w.labels, w.attributes, w.fields  -- of a message
  FROM found_by AS w                                                           -- `found_by` has the words of its name, too
  LEFT JOIN effective AS e ON e.registryid = w.registryid AND e.xid = w.xid AND w.kind = 'message'
  WHERE w.registryid = ? AND w.kind = ? AND w.xid = ?
"""
_SECTIONS = {"envelopemetadata": "envelope attribute", "protocoloptions": "protocol option"}
_MOST_FRAGMENTS = 4
_MOST_ROWS = 2**63 - 1  # the largest integer of SQLite
_MOST_WORDS = 2_000  # of one entity: more than that has only a schema in a definition that is as long as a book
_ALIKE = 0.12  # share of trigrams that two words have in common, from which one may be meant for the other
_MOST_ALIKE = 200
_MOST_RESPELLED = 100_000  # words of an index whose trigrams are kept: 8 MB, made in a second
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


class _SearchPart(NamedTuple):
    """A part of what is searched: the column it is looked for in (empty: all), its words, and a whole name."""

    column: str
    words: list[str]
    exact: str


class Vocabulary(NamedTuple):
    """The words of a catalog, and those that have each trigram."""

    words: set[str]
    by_trigram: dict[str, list[str]]


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
            declarations, and addresses, `field:=` and so on for that name alone; all else between words is passed over.
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
    names = [(part.column, part.exact) for part in _parts(text) if part.exact]
    exact = " ".join(_EXACT.format(names=_NAMES[column], at=at) for at, (column, _) in enumerate(names))
    rows = view.db.execute(
        _RANKED.format(exact=exact),
        {f"exact{at}": name for at, (_, name) in enumerate(names)}
        | {
            "query": query,
            "most": most,
            "registryid": registryid,
            "kinds": "[" + ",".join(f'"{kind}"' for kind in kinds) + "]",
            "protocol": wanted.protocol.upper() if wanted.protocol else None,
            "groupid": wanted.groupid,
            "label": label or None,
            "value": value if has_value else None,
            "limit": min(limit, _MOST_ROWS),
            "offset": offset,
        },
    )
    return rows.fetchall()


def _words(text: str) -> list[tuple[str, str]]:
    """Return the words of a text, each with the column that it is looked for in; empty: in all."""
    return [(part.column, word) for part in _parts(text) for word in part.words]


def _parts(text: str) -> list[_SearchPart]:
    results = ((_OF_PREFIX.get(prefix.lower(), ""), sign, part) for prefix, sign, part in _PART.findall(text))
    return [_SearchPart(column, _WORD.findall(part), part if sign else "") for column, sign, part in results if part]


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
    names = ((part.exact, getattr(words, part.column) or "") for part in _parts(text) if part.exact)
    return bool(wanted) and all(name in column.partition("\n")[0].split() for name, column in names)


def names_of_messages(view: View) -> list[tuple[Key, str | None, str | None]]:
    """Return the columns `names` and `fields` of each message in the index."""
    rows = view.db.execute("SELECT registryid, kind, xid, names, fields FROM found_by WHERE kind = 'message'")
    return [((registryid, kind, xid), names, fields) for registryid, kind, xid, names, fields in rows]


def vocabulary(view: View) -> Vocabulary:
    """Return all words that are in the index; of a very large one without those that a misspelled word may be meant for."""
    result = Vocabulary({word for (word,) in view.db.execute("SELECT term FROM vocabulary")}, {})
    for word in result.words if len(result.words) <= _MOST_RESPELLED else ():
        for trigram in _trigrams(word):
            result.by_trigram.setdefault(trigram, []).append(word)
    return result


def respelled(catalog_words: Vocabulary, text: str) -> str:
    """Return a text with words of the catalog for those that it does not have; empty: it has all, or none that is alike.

    Args:
        catalog_words: the words of the catalog.
        text: what was searched for.
    """
    results = {}
    for _, word in _words(text):
        plain = next(words_in([word]), "")
        if plain in catalog_words.words:
            continue
        nearest = _nearest(catalog_words, plain)
        if not nearest:
            return ""
        results[word] = nearest
    return _WORD.sub(lambda match: results.get(match[0], match[0]), text) if results else ""


def _nearest(catalog_words: Vocabulary, plain: str) -> str:
    """Return the word with the fewest letters changed, of those with trigrams in common; empty: more than a third is changed."""
    own = _trigrams(plain)
    common = Counter(word for trigram in own for word in catalog_words.by_trigram.get(trigram, ()))
    shares = sorted((-count / (len(own) + len(_trigrams(word)) - count), word) for word, count in common.items())
    alike = ((distance(plain, word), share, word) for share, word in shares[:_MOST_ALIKE] if -share >= _ALIKE)
    changed, _, nearest = min(alike, default=(len(plain), 0.0, ""))
    return nearest if changed <= max(1, len(plain) // 3) else ""


def distance(first: str, other: str) -> int:
    """Count the letters that are changed, missing, too many, or in the wrong order next to each other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(first, 1):
        earlier, before, row = before, row, [at]
        for place, other_letter in enumerate(other, 1):
            cost = min(before[place] + 1, row[-1] + 1, before[place - 1] + (letter != other_letter))
            if at > 1 < place and letter == other[place - 2] and first[at - 2] == other_letter:
                cost = min(cost, earlier[place - 2] + 1)
            row.append(cost)
    return row[-1]


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
    parts = _parts(text)
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
        where = [column for column, value in columns if value and _is_in(parts, column, value.lower())]
        fragments = _fragments(parts, address or "", attributes or "", fields or "") if key[1] == "message" else []
        hits.append(Hit(*key, name, description, where, fragments))
    return hits


def declaration(section: str, name: str, is_required: bool) -> str:
    """Return a declaration in words, such as `envelope attribute region, required`."""
    return f"{_SECTIONS[section]} {name}{', required' if is_required else ''}"


def _is_in(parts: list[_SearchPart], column: str, value: str) -> bool:
    """Return whether a column holds a word that may be in it; `names` are those of attributes."""
    wanted = (part for part in parts if part.column in ("", column if column != "attributes" else "names"))
    return any(word.lower() in value for part in wanted for word in part.words)


def _fragments(parts: list[_SearchPart], address: str, attributes: str, fields: str) -> list[str]:
    """Return the address, declarations and fields of a message that hold all words of a part of what is searched."""
    declared = (declaration(*declared) for declared in declared_in(attributes) if _fits(parts, "names", declared[1]))
    addresses = [f"address {address}"] if _fits(parts, "address", address) else []
    return [*addresses, *declared, *_fitting_fields(parts, fields.partition("\n")[0].split())][:_MOST_FRAGMENTS]


def field_fragments(text: str, paths: Iterable[str]) -> list[str]:
    """Return the fields, of these, that hold all words of a part of a text, in words."""
    return list(islice(_fitting_fields(_parts(text), paths), _MOST_FRAGMENTS))


def _fitting_fields(parts: list[_SearchPart], paths: Iterable[str]) -> Iterator[str]:
    return (f"payload field {path}" for path in paths if _fits(parts, "fields", path))


def _fits(parts: list[_SearchPart], column: str, name: str) -> bool:
    """Return whether a name holds all words of a part that may be of its column, each at a word's beginning."""
    present = _WORD.findall(name.lower())

    def holds(part: _SearchPart) -> bool:
        if part.exact:
            return part.exact == name
        return bool(part.words) and all(any(own.startswith(word.lower()) for own in present) for word in part.words)

    return any(part.column in ("", column) and holds(part) for part in parts)


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
