"""The index: the definitions of a snapshot by what distinguishes events, as one memory-mapped Arrow file.

Each definition is stored under its discriminator, the first that is constant: CloudEvents type; subject or address of its
protocol; the start of a path; else under `always`. Workers map the file and read only the rows that an event needs, so a million
definitions cost them page cache and no heap; definitions are compiled on first use.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute

from lakehouse.match.definition.compiled import ADDRESSES, TYPE, Definition, definition_of
from lakehouse.match.definition.templates import Rule
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.canonical import Event
from lakehouse.text.names import Pointer

ALWAYS = "always"
NATIVE = "native\0"  # before the keys of what a protocol carries, of definitions that events ask for by their type
_COLUMNS = ("registryid", "xid", "version_xid", "group_xid", "chain_status", "envelope", "protocol", "dataschemaformat",
         "dataschemauri", "depends_on", "deprecated", "endpoint", "older")  # fmt: skip
_SILENT = ("/description", "/specurl", "/name", "/documentation")
_COMPILED = 50_000
CLOSE_TYPES = 20_000  # above so many distinct types, misspelt ones are not sought letter by letter
_LONG_TYPE = 200
# The option that distinguishes the definitions of a protocol: its address; of AMQP the subject, as its address names a link.
DISCRIMINATORS = ADDRESSES | {"AMQP": "properties/subject"}
_SUBJECT = Pointer(f"/protocoloptions/{DISCRIMINATORS['AMQP']}")
DEFINITION_ROWS = pa.schema([("keys", pa.list_(pa.string())), ("body", pa.binary())])
_KEYS = pa.schema([("key_hash", pa.uint64()), ("key", pa.string()), ("row", pa.int64())])


class IndexTables(NamedTuple):
    """An index: `keys` (key_hash, key, row), sorted by hash; `definitions` (body), which `row` counts from 0."""

    keys: pa.Table
    definitions: pa.Table


def definition_rows(rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return for each definition its keys and what it is made of; columns of `DEFINITION_ROWS`.

    Args:
        rows: as `definition_of` takes them; `endpoint` holds what an endpoint adds.
    """
    keys, bodies = [], []
    for row in rows:
        keys.append(list(_keys_of(definition_of(row, endpoint=row.get("endpoint")))))
        bodies.append(orjson.dumps(_slim(row)))
    return pa.table([pa.array(keys, pa.list_(pa.string())), pa.array(bodies, pa.binary())], schema=DEFINITION_ROWS)


def index_of(definitions: pa.Table) -> IndexTables:
    """Sort the keys of definitions (columns of `DEFINITION_ROWS`)."""
    lists = definitions.column("keys").combine_chunks()
    keys = lists.flatten()
    parents = pa.compute.list_parent_indices(lists).to_numpy()
    hashes = np.fromiter((hash_of(key) for key in keys.to_pylist()), np.uint64, len(keys))
    order = np.argsort(hashes, kind="stable")
    sorted_keys = pa.table(
        [pa.array(hashes[order]), keys.take(pa.array(order)), pa.array(parents[order], pa.int64())], schema=_KEYS
    )
    return IndexTables(sorted_keys, definitions.select(["body"]))


def hash_of(key: str) -> int:
    """Return the hash of a key."""
    return int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


class Index:
    """Finds the definitions that an event may be of.

    Args:
        tables: as `index_of` makes them, or memory-mapped.
        rule: how placeholders match.
    """

    def __init__(self, tables: IndexTables, rule: Rule = "auto") -> None:
        self.rule = rule
        self._keys = tables.keys.combine_chunks()
        self._bodies = tables.definitions.column("body")
        self._hashes = self._keys.column("key_hash").to_numpy() if self._keys.num_rows else np.empty(0, np.uint64)
        self._compile = lru_cache(_COMPILED)(self._compiled)
        self._by_key = lru_cache(_COMPILED)(self._rows_of)
        self._near_types = lru_cache(10_000)(self._near_type)
        self._types: tuple[str, ...] | None = None

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]], rule: Rule = "auto") -> Index:
        """Make an index of rows, as `definition_of` takes them."""
        return cls(index_of(definition_rows(rows)), rule)

    @property
    def always(self) -> tuple[Definition, ...]:
        """Return the definitions that no constant distinguishes: each event is compared with them."""
        return self._by_key(ALWAYS)

    def tells_addresses(self, family: str) -> bool:
        """Return whether only an address distinguishes some definitions of a protocol, so that it is part of the key."""
        return bool(self._by_key(f"blind\0{family}"))

    def candidates(self, event: Event, *, native: bool = False) -> list[Definition]:
        """Return the definitions that an event may be of; native: whatever the type of the event."""
        keys = [*event_keys(event), ALWAYS]
        if native:
            transport = [key for key in keys if not key.startswith("type\0")]
            keys = [*transport, *(NATIVE + key for key in transport)]
        return [definition for key in keys for definition in self._by_key(key)]

    def near(self, event: Event) -> Iterator[Definition]:
        """Return definitions of a similar type, else of the same address: what is found first, in this order.

        Similar are types but for letter case and blanks, or for their namespace, or for two letters.
        """
        for keys in self._near_keys(event):
            results = [
                definition
                for key in keys
                for definition in self._by_key(key)
                if not (definition.version_age or definition.incomplete)
            ]
            if results:
                return iter(results)
        return iter(())

    def _near_keys(self, event: Event) -> Iterator[list[str]]:
        kind = event.ce.get("type")
        if isinstance(kind, str):
            yield [f"fold\0{kind.strip().casefold()}"]
            yield [f"type\0{close}" for close in self._near_types(kind)]
            yield [f"last\0{last_segment(kind).casefold()}"]
        if event.address is not None:
            yield [f"at\0{event.family}\0{event.address}"]

    def definitions(self) -> Iterator[Definition]:
        """Return all definitions."""
        return (self._compile(row) for row in range(len(self._bodies)))

    def _rows_of(self, key: str) -> tuple[Definition, ...]:
        wanted = np.uint64(hash_of(key))
        first, last = np.searchsorted(self._hashes, wanted, "left"), np.searchsorted(self._hashes, wanted, "right")
        results = self._keys.slice(int(first), int(last) - int(first)).select(["key", "row"]).to_pylist()
        return tuple(self._compile(row["row"]) for row in results if row["key"] == key)

    def _compiled(self, row: int) -> Definition:
        body = orjson.loads(self._bodies[row].as_py())
        return definition_of(body, self.rule, body.get("endpoint"))

    def _near_type(self, kind: str) -> tuple[str, ...]:
        if self._types is None and self._keys.num_rows > 8 * CLOSE_TYPES:
            self._types = ()
        if self._types is None:
            results = {key[5:] for key in self._keys.column("key").to_pylist() if key.startswith("type\0")}
            self._types = tuple(sorted(results)) if len(results) <= CLOSE_TYPES else ()
        return tuple(other for other in self._types if other != kind and is_close(other, kind))


def event_keys(event: Event) -> Iterator[str]:
    """Return the keys under which an event asks: its type, its subject or address, the start of its path."""
    kind = event.ce.get("type")
    if kind is not None:
        yield f"type\0{as_text(kind)}"
    family, address = event.family, event.address
    if family is None:
        return
    if family == "AMQP":
        result = event.options.get(DISCRIMINATORS[family])
        blind = result is None and not event.knows(_SUBJECT)
        yield f"blind\0{family}" if blind else f"subject\0{as_text(result)}"
        return
    if address is not None:
        yield f"address\0{family}\0{address}"
        yield f"path\0{family}\0{address.partition('.' if family == 'NATS' else '/')[0]}"
    elif not event.knows(f"/protocoloptions/{ADDRESSES[family]}" if family in ADDRESSES else ""):
        yield f"blind\0{family}"


def is_close(text: str, other: str) -> bool:
    """Return whether two texts are at most two letters apart (inserted, left out or changed)."""
    if abs(len(text) - len(other)) > 2 or len(text) > _LONG_TYPE:
        return False
    start = 0
    while start < min(len(text), len(other)) and text[start] == other[start]:
        start += 1
    text, other = text[start:], other[start:]
    while text and other and text[-1] == other[-1]:
        text, other = text[:-1], other[:-1]
    return _within(text, other, 2)


def _within(text: str, other: str, left: int) -> bool:
    if not text or not other:
        return max(len(text), len(other)) <= left
    if text[0] == other[0]:
        return _within(text[1:], other[1:], left)
    return left > 0 and any(_within(*pair, left - 1) for pair in ((text[1:], other), (text, other[1:]), (text[1:], other[1:])))


def _keys_of(definition: Definition) -> Iterator[str]:
    """Return the keys of a definition: the one under which events ask, and those that help to find what is near."""
    kind = definition.constant(TYPE) if definition.is_cloudevent else None
    if kind is None:
        yield from _transport_keys(definition)
        return
    yield f"type\0{kind}"
    yield f"fold\0{kind.strip().casefold()}"
    yield f"last\0{last_segment(kind).casefold()}"
    address = definition.address
    if address is not None and address.has_value and not address.template:
        yield f"at\0{definition.family}\0{as_text(address.value)}"
    yield from (NATIVE + key for key in _transport_keys(definition))


def _transport_keys(definition: Definition) -> Iterator[str]:
    """Return the keys of what a protocol carries: an address, the start of a path, a subject; ALWAYS: nothing does."""
    address = definition.address
    subject = definition.constant(_SUBJECT)
    if definition.family == "AMQP" and subject is not None and _must_be(definition, _SUBJECT):
        yield f"subject\0{subject}"
    elif address is not None and address.has_value and address.decides and definition.family != "AMQP":
        if address.template is None:
            yield f"address\0{definition.family}\0{as_text(address.value)}"
        elif address.template.separator and isinstance(address.template.segments[0], str):
            yield f"path\0{definition.family}\0{address.template.segments[0]}"
        else:
            yield ALWAYS
            return
    else:
        yield ALWAYS
        return
    yield f"blind\0{definition.family}"


def _must_be(definition: Definition, pointer: Pointer) -> bool:
    result = definition.attribute(pointer)
    return result is not None and result.decides


def last_segment(kind: str) -> str:
    """Return what a type ends with, behind its namespace."""
    return kind.strip().replace("/", ".").rpartition(".")[2]


def _slim(row: Mapping[str, Any]) -> dict[str, Any]:
    """Keep of a row what a definition is made of: no descriptions, of what is inferred only `required` and types."""
    attributes = {pointer: text for pointer, text in dict(row["attributes"] or ()).items() if not pointer.endswith(_SILENT)}
    inferred = dict(row.get("inferred") or ())
    demands = {pointer: text for pointer, text in inferred.items() if pointer.endswith(("/required", "/type"))}
    slim = {name: row[name] for name in _COLUMNS if row.get(name) not in (None, [])}
    if "depends_on" in slim:
        slim["depends_on"] = list(slim["depends_on"])
    return slim | {"attributes": attributes, "inferred": demands}
