"""The SQLite file of the read model: its tables, connections to it, and its rows made from those of the Delta tables.

Maps and lists become JSON text. References from entity to entity are found in one row of the log as
`ddl/views/entity_references.sql` finds them.
"""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from lakehouse.domain.references import spelled
from lakehouse.domain.subjects import DELETED_LABEL, GUID_LABEL, ID_LABEL, kind_of_format, number_of
from lakehouse.readmodel.file.packed import Packs, let_read
from lakehouse.text.jsontext import canonical_text, object_at, read_canonical, text_at
from lakehouse.text.names import JsonText, Pointer, Xid

if TYPE_CHECKING:
    import pyarrow as pa


FORMAT = 10  # a file of another format is made again
NEVER = 2**62  # `until` of a row that nothing has replaced

# Kinds that are listed whole; a query says these words, so that SQLite takes the index.
FEW = "kind NOT IN ('message', 'version', 'schema', 'schemaversion')"
GROUPS = f"kind IN ('group', 'endpoint') AND {FEW}"  # without those words SQLite reads all that the groups hold, too

# References with the rows that hold them. SQLite keeps the order of a CROSS JOIN: it finds few references by their targets, and
# does not read all rows of a registry to look at the references of each.
EDGES = "edges AS e CROSS JOIN log AS l ON l.id = e.log_id"

# Columns of `effective_messages` that are JSON text here.
JSON_COLUMNS = ("labels", "document_uris", "attributes", "inferred", "depends_on")
EFFECTIVE_COLUMNS = (
    "registryid", "xid", "group_xid", "messageid", "version_xid", "chain_status", "chain_depth", "name", "description", "labels",
    "envelope", "ce_type", "ce_type_required", "ce_source", "ce_source_required", "ce_subject", "ce_subject_required",
    "protocol", "protocol_family", "protocol_version", "address", "kafka_key", "http_method", "http_status", "dataschemaformat",
    "schema_xid", "dataschemauri", "datacontenttype", "document_uris", "attributes", "inferred", "depends_on", "snapshot_id",
)  # fmt: skip
# What distinguishes definitions: read of all of them, out of an index alone.
TELLING_COLUMNS = ("chain_status", "envelope", "ce_type", "protocol", "address")
BOOLEAN_COLUMNS = ("ce_type_required", "ce_source_required", "ce_subject_required")
VIOLATION_COLUMNS = (
    "violation_id", "ingest_id", "found_at", "registryid", "document_uri", "xid", "pointer", "rule_id", "severity", "action",
    "message", "hint", "raw",
)  # fmt: skip
LOG_COLUMNS = (
    "snapshot_id", "registryid", "kind", "xid", "op", "content_hash", "epoch", "createdat", "modifiedat", "document_uris",
    "body", "raw",
)  # fmt: skip
# What is searched of an entity, in the order of the index's columns.
WORD_COLUMNS = ("ids", "name", "type", "address", "labels", "description", "attributes", "fields", "names")

# Texts that are kept together with those of other rows. All else is kept as it is, for conditions to look at.
LOG_TEXTS = Packs("log_texts", ("body", "raw"))
EFFECTIVE_TEXTS = Packs("effective_texts", ("description", "attributes", "inferred", "depends_on"))
WORD_TEXTS = Packs("word_texts", WORD_COLUMNS)

TABLES = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE log_rows (
  id INTEGER PRIMARY KEY,
  snapshot_id INTEGER NOT NULL,
  until INTEGER NOT NULL,
  registryid TEXT NOT NULL,
  kind TEXT NOT NULL,
  xid TEXT NOT NULL,
  op TEXT NOT NULL,
  content_hash TEXT,
  epoch INTEGER,
  createdat INTEGER,
  modifiedat INTEGER,
  document_uris TEXT
);
{LOG_TEXTS.ddl}
CREATE VIEW log AS SELECT id, until, {LOG_TEXTS.select(LOG_COLUMNS)} FROM log_rows;
CREATE TABLE edges (
  log_id INTEGER NOT NULL,
  relation TEXT NOT NULL,
  pointer TEXT NOT NULL,
  target TEXT NOT NULL,
  whole TEXT,
  without_suffix TEXT,
  type_name TEXT
);
CREATE TABLE schema_rows (
  log_id INTEGER PRIMARY KEY, position INTEGER, kind TEXT, registry_id INTEGER, guid TEXT, is_deleted INTEGER NOT NULL
);
CREATE TABLE version_uris (log_id INTEGER PRIMARY KEY, version_uri TEXT NOT NULL);
CREATE TABLE effective_rows (id INTEGER PRIMARY KEY, {", ".join(EFFECTIVE_TEXTS.row_columns(EFFECTIVE_COLUMNS))});
{EFFECTIVE_TEXTS.ddl}
CREATE VIEW effective AS SELECT {EFFECTIVE_TEXTS.select(EFFECTIVE_COLUMNS)} FROM effective_rows;
CREATE TABLE violations ({", ".join(VIOLATION_COLUMNS)});
CREATE TABLE searched (
  id INTEGER PRIMARY KEY, registryid TEXT NOT NULL, kind TEXT NOT NULL, xid TEXT NOT NULL, entityid TEXT NOT NULL
);
CREATE VIRTUAL TABLE words USING fts5({", ".join(WORD_COLUMNS)}, content = '', tokenize = 'unicode61 remove_diacritics 2');
{WORD_TEXTS.ddl}
CREATE VIEW found_by AS SELECT id, registryid, kind, xid, entityid, {WORD_TEXTS.select(WORD_COLUMNS)} FROM searched;
CREATE VIRTUAL TABLE vocabulary USING fts5vocab('words', 'row');
"""
# Made after the first rows, which is quicker.
LOG_INDEXES = f"""
CREATE INDEX log_by_xid ON log_rows (registryid, xid, snapshot_id);
CREATE INDEX log_by_snapshot ON log_rows (snapshot_id, registryid, xid, kind, op);
CREATE INDEX log_by_owner ON log_rows (registryid, document_uris) WHERE document_uris IS NOT NULL;
CREATE INDEX log_of_shared ON log_rows (registryid) WHERE document_uris LIKE '%",%';
CREATE INDEX log_of_few ON log_rows (kind, registryid, xid) WHERE {FEW};
CREATE INDEX edges_by_source ON edges (log_id);
CREATE INDEX edges_by_target ON edges (whole);
CREATE INDEX edges_by_other_target ON edges (without_suffix) WHERE without_suffix IS NOT NULL;
CREATE INDEX schema_rows_by_position ON schema_rows (position);
CREATE INDEX schema_rows_by_registry_id ON schema_rows (registry_id) WHERE registry_id IS NOT NULL;
CREATE INDEX schema_rows_by_guid ON schema_rows (guid) WHERE guid IS NOT NULL;
CREATE INDEX version_uris_by_uri ON version_uris (version_uri);
"""
INDEXES = f"""
CREATE INDEX effective_by_schema ON effective_rows (registryid, schema_xid) WHERE schema_xid IS NOT NULL;
CREATE INDEX effective_by_snapshot ON effective_rows (snapshot_id);
CREATE INDEX effective_by_group ON effective_rows (registryid, group_xid, xid, {", ".join(TELLING_COLUMNS)});
CREATE UNIQUE INDEX violations_by_id ON violations (violation_id);
CREATE INDEX violations_by_document ON violations (registryid, document_uri);
CREATE UNIQUE INDEX searched_by_xid ON searched (registryid, kind, xid);
CREATE INDEX searched_by_id ON searched (entityid);
"""
PACKED = (LOG_TEXTS, EFFECTIVE_TEXTS, WORD_TEXTS)
_BUSY_SECONDS = 30
_OF_VERSION = {name: Pointer(f"/{name}") for name in ("basemessage", "dataschemauri", "dataschemaxid")}
_XREF, _WILL = Pointer("/meta/xref"), Pointer("/protocoloptions/willmessage")


def create(path: Path) -> sqlite3.Connection:
    """Create a file that nobody reads yet, readable by its owner only; nothing of it need survive a crash until it is whole."""
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    made = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=ReadConnection)
    made.executescript(
        "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; PRAGMA cache_size = -24576;"
    )
    made.executescript(TABLES)
    let_read(made, PACKED)
    return made


class ReadConnection(sqlite3.Connection):
    """A connection that knows its cursors.

    SQLite lets a statement that was not read to its end go on after ROLLBACK: the connection would show its next reader the state
    of then. An error keeps such a cursor alive, as long as its traceback is kept.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._cursors: weakref.WeakSet[sqlite3.Cursor] = weakref.WeakSet()

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Execute a statement."""
        made = super().execute(*arguments)
        self._cursors.add(made)
        return made

    def end(self) -> None:
        """End the transaction, and with it whatever still reads in it."""
        for cursor in list(self._cursors):
            cursor.close()
        self.execute("ROLLBACK")


def connect(path: Path, *, write: bool = False) -> ReadConnection:
    """Open a file that is whole; a reader cannot change it.

    Raises:
        sqlite3.OperationalError: it is not there.
    """
    opened = sqlite3.connect(
        f"{path.as_uri()}?mode=rw",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=_BUSY_SECONDS,
        factory=ReadConnection,
    )
    let_read(opened, PACKED)
    opened.execute("PRAGMA cell_size_check = ON")
    opened.execute(f"PRAGMA query_only = {'OFF' if write else 'ON'}")
    if write:
        opened.execute("PRAGMA synchronous = NORMAL")
        opened.execute("PRAGMA cache_size = -24576")
    return opened


def decoded(row: Iterable[Any]) -> dict[str, Any]:
    """Return a row of `effective` as Python values."""
    result = dict(zip(EFFECTIVE_COLUMNS, row, strict=True))
    for name in JSON_COLUMNS:
        if result[name] is not None:
            result[name] = orjson.loads(result[name])
    for name in BOOLEAN_COLUMNS:
        if result[name] is not None:
            result[name] = bool(result[name])
    return result


def log_rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Return rows of `changes` in the order of `LOG_COLUMNS`; dates in microseconds since 1970."""
    return zip(*(_column(batch, name) for name in LOG_COLUMNS), strict=True)


def effective_rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Return rows of `effective_messages` in the order of `EFFECTIVE_COLUMNS`."""
    return zip(*(_column(batch, name) for name in EFFECTIVE_COLUMNS), strict=True)


def pointers_of(batch: pa.RecordBatch) -> Iterator[tuple[str, ...]]:
    """Return the pointers of the attributes of each row of `effective_messages`."""
    column = batch.column(batch.schema.get_field_index("attributes"))
    ends = column.offsets.to_pylist()
    keys = column.keys.slice(ends[0], ends[-1] - ends[0]).to_pylist()
    return (tuple(keys[start - ends[0] : end - ends[0]]) for start, end in pairwise(ends))


def violation_rows(batch: pa.RecordBatch) -> Iterator[tuple[Any, ...]]:
    """Return rows of `violations` in the order of `VIOLATION_COLUMNS`."""
    return zip(*(_column(batch, name) for name in VIOLATION_COLUMNS), strict=True)


def _column(batch: pa.RecordBatch, name: str) -> list[Any]:
    import pyarrow as pa

    if name not in batch.schema.names:  # a file that was written before a migration added the column
        return [None] * batch.num_rows
    column = batch.column(batch.schema.get_field_index(name))
    if pa.types.is_map(column.type):
        return _maps(column)
    if pa.types.is_list(column.type):
        return _lists(column)
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64()).to_pylist())
    values: list[Any] = column.to_pylist()
    return [None if value is None else int(value) for value in values] if name in BOOLEAN_COLUMNS else values


def _maps(column: pa.MapArray) -> list[str | None]:
    """Write maps as JSON objects, out of two flat columns: a Python object for each pair would take most of the time."""
    ends = column.offsets.to_pylist()
    first, count = ends[0], ends[-1] - ends[0]  # the flat columns are those of the whole row group
    keys, items = column.keys.slice(first, count).to_pylist(), column.items.slice(first, count).to_pylist()
    null = column.is_null().to_pylist()
    results: list[str | None] = []
    for row, is_null in enumerate(null):
        if is_null:
            results.append(None)
        else:
            start, end = ends[row] - first, ends[row + 1] - first
            results.append(orjson.dumps(dict(zip(keys[start:end], items[start:end], strict=True))).decode())
    return results


def _lists(column: pa.ListArray) -> list[str | None]:
    """Write lists as JSON arrays; the same list is written once."""
    ends = column.offsets.to_pylist()
    first, count = ends[0], ends[-1] - ends[0]
    values = column.values.slice(first, count).to_pylist()
    null = column.is_null().to_pylist()
    texts: dict[tuple[str, ...], str] = {}
    results: list[str | None] = []
    for row, is_null in enumerate(null):
        if is_null:
            results.append(None)
            continue
        items = tuple(values[ends[row] - first : ends[row + 1] - first])
        text = texts.get(items)
        if text is None:
            text = texts[items] = orjson.dumps(items).decode()
        results.append(text)
    return results


class Edge(NamedTuple):
    """A reference as an entity holds it.

    Attributes:
        relation, pointer, target: as in the view `entity_references`.
        whole: the XID that the target spells; None: it leads to another host.
        without_suffix: the same without `:Type`, which is looked for second; None: there is no suffix.
        type_name: what follows a second `#`; None: there is none.
    """

    relation: str
    pointer: Pointer
    target: str
    whole: Xid | None
    without_suffix: Xid | None
    type_name: str | None


def edges_of(kind: str, body: JsonText) -> Iterator[Edge]:
    """Return the references of an entity.

    Args:
        kind: of the log.
        body: its normal form.
    """
    if kind == "version":
        if '"basemessage"' in body or '"dataschemauri"' in body or '"dataschemaxid"' in body:
            attributes = read_canonical(body)
            for name, pointer in _OF_VERSION.items():
                if isinstance(attributes.get(name), str):
                    yield _edge(name, pointer, attributes[name])
    elif kind in ("message", "schema"):
        if '"xref"' in body:
            attributes = read_canonical(body)
            if isinstance(attributes.get("xref"), str):
                yield _edge("xref", _XREF, attributes["xref"])
    elif kind == "schemaversion":
        if '"references"' in body:
            yield from _edges_of_schema(read_canonical(body).get("extensions") or {})
    elif kind == "endpoint":
        yield from _edges_of_endpoint(read_canonical(body))


def version_uri_of(kind: str, body: JsonText) -> str | None:
    """Return the URI that names a Version across catalogs; None: it has none."""
    if kind != "version" or '"version_uri"' not in body:
        return None
    uri = read_canonical(body).get("version_uri")
    return uri if isinstance(uri, str) else None


class SchemaRow(NamedTuple):
    """What is looked up of a row of a schema's Version.

    Attributes:
        kind: of schema, as schema registries name it; None: they have none for it, or the catalog does not hold its document.
        registry_id, guid: those that a schema registry gave; None: it gave none.
        is_deleted: whether it is deleted there, and not for good.
    """

    kind: str | None
    registry_id: int | None
    guid: str | None
    is_deleted: bool


def schema_row_of(kind: str, body: JsonText) -> SchemaRow | None:
    """Return what is looked up of a row of the log; None: it is of no Version of a schema."""
    if kind != "schemaversion":
        return None
    attributes = read_canonical(body)
    schema, labels = attributes.get("schema"), object_at(attributes, "labels")
    own = None if schema is None else kind_of_format(attributes.get("format"), schema)
    return SchemaRow(
        own, number_of(text_at(labels, ID_LABEL)), text_at(labels, GUID_LABEL), text_at(labels, DELETED_LABEL) == "true"
    )


def _edges_of_schema(extensions: dict[str, Any]) -> Iterator[Edge]:
    """Return the references to other schemas that came from a schema registry."""
    references = extensions.get("references")
    for position, reference in enumerate(references if isinstance(references, list) else ()):
        xid = reference.get("xid") if isinstance(reference, dict) else None
        if isinstance(xid, str) and xid.startswith("/"):
            yield _edge("references", Pointer(f"/extensions/references/{position}/xid"), xid)


def _edges_of_endpoint(attributes: dict[str, Any]) -> Iterator[Edge]:
    for position, group in enumerate(attributes.get("messagegroups") or []):
        yield _edge("messagegroups", Pointer(f"/messagegroups/{position}"), group)
    options = attributes.get("protocoloptions")
    will = options.get("willmessage") if isinstance(options, dict) else None
    if will is not None:
        text = will if isinstance(will, str) else canonical_text(will)
        yield _edge("willmessage", _WILL, text)


def _edge(relation: str, pointer: Pointer, target: str) -> Edge:
    return Edge(relation, pointer, target, *spelled(target, names_type=relation == "dataschemauri"))
