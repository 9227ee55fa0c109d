"""Matching on Spark: landed rows → one `mapInArrow` pass, which matches and validates; no event is joined or shuffled.

The index of a snapshot is written once and sent to the executors as a folder of Arrow files, which every Python worker of a
machine maps: one copy, in the page cache. `keys.arrow` and `definitions.arrow` are the index, `schemas.arrow` the Versions of
schemas, `schemakeys.arrow` their positions there. The folder is named by the digest of its content, so workers know what they
have opened already.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.log.snapshots import open_relations, resolve_snapshot
from lakehouse.match.definition.scope import MESSAGE_COLUMNS, SCHEMA_COLUMNS, Scope, in_scope
from lakehouse.match.event.adapters import LANDED, to_landed
from lakehouse.match.index import DEFINITION_ROWS, Index, IndexTables, definition_rows, hash_of, index_of
from lakehouse.match.matcher import RESULT_COLUMNS, Matcher, MatchRequest
from lakehouse.match.payload.payloads import Payloads
from lakehouse.match.payload.schemas import Key, Schemas, SchemaVersion
from lakehouse.match.vectorized.batch import match_batch
from lakehouse.settings import Settings
from lakehouse.store.internals.plans import send_folder
from lakehouse.store.materialize import hand_over, map_few
from lakehouse.store.views import most_based, read_view, with_read
from lakehouse.text.names import RegistryId

# What a batch may hold. Spark has a limit of bytes, too, but with one it counts all vectors again after each row, and lists that
# are NULL (`ce` of most landings) from their start, so that time grows with the square of the rows. How many fit follows from
# their size.
_BATCH_ROWS, _BATCH_BYTES = "spark.sql.execution.arrow.maxRecordsPerBatch", "spark.sql.execution.arrow.maxBytesPerBatch"
_MOST_ROWS, _FEWEST_ROWS, _MOST_BYTES = 50_000, 100, 2**26
_NO_LIMIT = str(2**31 - 1)  # Spark then counts no bytes
_LOOKED_AT = 1_000  # rows of a source
_ROW_BYTES = 500  # in addition to payload, line and key
_FILES = ("keys", "definitions", "schemas", "schemakeys")
SCHEMA_ROWS = pa.schema(
    [("registryid", pa.string()), ("xid", pa.string()), ("schema_xid", pa.string()), ("isdefault", pa.bool_()),
     ("format", pa.string()), ("schema", pa.string()), ("createdat", pa.int64()), ("labels", pa.map_(pa.string(), pa.string()))]
)  # fmt: skip
_opened: dict[tuple[str, str], tuple[Index, Schemas]] = {}  # of this process, by folder and rule of placeholders


@dataclass(frozen=True)
class OpenedIndex:
    """An index that executors can open.

    Attributes:
        name: of the folder that was sent to them.
        path: where it is on the driver.
        snapshot_id: of the catalog.
        definitions: how many there are; Versions that are not the default do not count.
    """

    name: str
    path: str
    snapshot_id: int
    definitions: int


def open_index(spark: SparkSession, settings: Settings, scope: Scope, at: str | None = None) -> OpenedIndex:
    """Make the index of a snapshot, and send it to the executors.

    Raises:
        WarehouseError: the warehouse holds no catalog.
        SnapshotNotFound: `at` names none.
        SettingsError: the scope names what is not there.
    """
    tables = ("changes", "schemaversions", "endpoints", "messages", "versions")
    schema = open_relations(spark, settings, with_read(["flat_messages"]), tables, at)
    snapshot_id = resolve_snapshot(spark, at or "head")
    deprecated = spark.table(f"{schema}.messages").select("registryid", "xid", "deprecated")
    messages = spark.table(f"{schema}.flat_messages").select(*MESSAGE_COLUMNS, F.lit(None).cast("INT").alias("older"))
    if scope.all_versions:
        messages = messages.unionByName(older_versions(spark, settings, schema))
    messages = messages.join(deprecated, on=["registryid", "xid"], how="left")
    if scope.registry:
        messages = messages.filter(F.col("registryid") == scope.registry)
    if scope.is_narrow:
        endpoints = spark.table(f"{schema}.endpoints").select("registryid", "xid", "protocol", "protocoloptions", "messagegroups")
        rows = in_scope([row.asDict() for row in messages.collect()], [row.asDict() for row in endpoints.collect()], scope)
        definitions = definition_rows(rows)
    else:
        columns = "keys ARRAY<STRING>, body BINARY"
        definitions = map_few(messages, _definition_batches, columns).toArrow().cast(DEFINITION_ROWS)
        if scope.registry:
            in_scope([{"registryid": scope.registry}] if definitions.num_rows else [], [], scope)
    schemas = spark.table(f"{schema}.schemaversions").select(*SCHEMA_COLUMNS).toArrow()
    folder = Path(tempfile.mkdtemp(prefix="lakehouse-match-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = write_store(folder, index_of(definitions), schemas)
    send_folder(spark, path)
    former = _count_older(definitions) if scope.all_versions else 0
    return OpenedIndex(path.name, str(path), snapshot_id, definitions.num_rows - former)


def older_versions(spark: SparkSession, settings: Settings, schema: str) -> DataFrame:
    """Flatten the Versions of messages that are not the default, each over its bases as they are.

    Args:
        spark: the session.
        settings: how far chains are followed.
        schema: of the catalog, or of a snapshot.

    Returns:
        `MESSAGE_COLUMNS`, and `older`: 1 for the newest of a message, by createdat, else by versionid.
    """
    message = [F.col("registryid"), F.col("message_xid").alias("xid"), F.col("versionid").alias("defaultversionid")]
    former_versions = spark.table(f"{schema}.versions").filter("NOT isdefault")
    newest = Window.partitionBy("registryid", "message_xid").orderBy(
        F.col("createdat").desc_nulls_last(), F.length("versionid").desc(), F.col("versionid").desc()
    )
    ranked = former_versions.select("registryid", F.col("xid").alias("version_xid"), F.row_number().over(newest).alias("older"))
    owners = spark.table(f"{schema}.messages").drop("defaultversionid").filter("xref IS NULL")
    scope = former_versions.select(*message).join(owners, on=["registryid", "xid"])
    shown = scope.select("registryid", "xid", "group_xid", "messageid", "defaultversionid", "xref", "document_uris")
    based = most_based(spark.table(f"{schema}.versions"))
    flat = read_view(spark, settings, schema, {"scope": shown}, "computed_messages", based=based).select(*MESSAGE_COLUMNS)
    flat = hand_over(flat, spark)
    return flat.join(ranked, on=["registryid", "version_xid"])


def _count_older(definitions: pa.Table) -> int:
    return sum("older" in orjson.loads(body) for body in definitions.column("body").to_pylist())


def with_matches(
    landed: DataFrame, opened: OpenedIndex, request: MatchRequest, wanted: Collection[str] = RESULT_COLUMNS
) -> DataFrame:
    """Match landed rows.

    Args:
        landed: the columns of `LANDED`.
        opened: the index.
        request: how.
        wanted: columns of the results; what is not asked for is not sent from Python to the JVM and made rows there.

    Returns:
        One row an event: the columns of `RESULT_COLUMNS` that are wanted.
    """
    rows = landed.select(*LANDED)
    if "place" not in wanted:
        rows = rows.withColumn("place", F.lit(None).cast(LANDED["place"]))
    columns = ", ".join(f"{name} {RESULT_COLUMNS[name]}" for name in wanted)
    return rows.mapInArrow(_pass(opened.name, request, tuple(wanted)), columns)


@contextmanager
def large_batches(spark: SparkSession, *landed: DataFrame) -> Iterator[None]:
    """Set larger Arrow batches while events are matched: more rows of one type then go through columns together.

    Args:
        spark: the session.
        landed: landed rows of each source; their first ones show how many are some 64 MiB.
    """
    rows = min(map(rows_of_batch, landed), default=_MOST_ROWS)
    wanted = {_BATCH_ROWS: str(rows), _BATCH_BYTES: _NO_LIMIT}
    before = {key: spark.conf.get(key, None) for key in wanted}
    try:
        for key, value in wanted.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key, previous in before.items():
            if previous is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, previous)


def rows_of_batch(landed: DataFrame) -> int:
    """Return how many landed rows go into a batch, by the size of the first ones."""
    size = sum((F.coalesce(F.length(name), F.lit(0)) for name in ("payload", "line", "key")), F.lit(_ROW_BYTES))
    sample = landed.limit(_LOOKED_AT).agg(F.avg(size).alias("size")).first()
    mean = sample["size"] if sample is not None and sample["size"] is not None else _ROW_BYTES
    return max(_FEWEST_ROWS, min(_MOST_ROWS, int(_MOST_BYTES / mean)))


def match(
    spark: SparkSession,
    settings: Settings,
    rows: DataFrame,
    scope: Scope | None = None,
    request: MatchRequest | None = None,
    at: str | None = None,
) -> DataFrame:
    """Match a DataFrame of landed rows, of any shape that `adapters` know, with the definitions of the catalog.

    Args:
        spark: the session.
        settings: the warehouse.
        rows: as they landed, such as Kafka's columns with `headers`.
        scope: whose messages are candidates; None: all.
        request: how they are matched; None: as `lakehouse match` does without options.
        at: snapshot of the catalog; None: its head.

    Returns:
        One row an event: the columns of `RESULT_COLUMNS`.

    Raises:
        SettingsError: the columns are of no landing that is known, or the scope names what is not there.
        WarehouseError: the warehouse holds no catalog.
    """
    landed = to_landed(rows)
    return with_matches(landed, open_index(spark, settings, scope or Scope(), at), request or MatchRequest())


def _pass(
    name: str, request: MatchRequest, wanted: tuple[str, ...] = tuple(RESULT_COLUMNS)
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        matcher = open_store(SparkFiles.get(name), request)
        places: Counter[tuple[str | None, int | None]] = Counter()
        for batch in batches:
            for made in match_batch(matcher, number_lines(batch, places)):
                yield made.select(wanted)

    return run


def number_lines(batch: pa.RecordBatch, places: Counter[tuple[str | None, int | None]]) -> pa.RecordBatch:
    """Number the lines of files in the split that they are in, where the landing does not.

    Args:
        batch: the columns of `LANDED`.
        places: how many came before, by file and split; counted further.
    """
    if batch.column("line").null_count == batch.num_rows:
        return batch
    numbers = []
    for row in batch.select(["source", "partition", "row"]).append_column("is_line", batch.column("line").is_valid()).to_pylist():
        number = row["row"]
        if row["is_line"] and number is None:
            place = (row["source"], row["partition"])
            number = places[place]
            places[place] += 1
        numbers.append(number)
    at = batch.schema.get_field_index("row")
    return batch.set_column(at, batch.schema.field(at), pa.array(numbers, pa.int64()))


def _definition_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from definition_rows(batch.to_pylist()).to_batches()


def write_store(folder: Path, index: IndexTables, schemas: pa.Table) -> Path:
    """Write an index and its schemas below a folder.

    Returns:
        The folder of the index, named by its digest.
    """
    made = folder / "index"
    made.mkdir(parents=True)
    digest = hashlib.sha256()
    rows = schemas.select(SCHEMA_ROWS.names).cast(SCHEMA_ROWS)
    for name, table in zip(_FILES, (index.keys, index.definitions, rows, _schema_keys(rows)), strict=True):
        path = made / f"{name}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest() if hasattr(hashlib, "file_digest") else file.read())
    return made.rename(folder / f"match-{digest.hexdigest()[:16]}")


def open_store(folder: str, request: MatchRequest) -> Matcher:
    """Open an index that was written; a process opens each once.

    Args:
        folder: as `write_store` gave it.
        request: how events are matched.
    """
    key = (folder, request.tolerance.placeholders)
    if key not in _opened:
        _opened.clear()  # of an earlier snapshot: its maps go
        keys, definitions, schemas, schema_keys = (_mapped(f"{folder}/{name}.arrow") for name in _FILES)
        index = Index(IndexTables(keys, definitions), request.tolerance.placeholders)
        _opened[key] = (index, Schemas(MappedVersions(schemas, schema_keys)))
    index, versions = _opened[key]
    return Matcher(index, Payloads(versions, request.max_unpacked_bytes), request)


class MappedVersions:
    """Versions of schemas in mapped files, of which those that are asked for are read.

    Args:
        rows: columns of `SCHEMA_ROWS`.
        keys: as `_schema_keys` gives them.
    """

    def __init__(self, rows: pa.Table, keys: pa.Table) -> None:
        self._rows = rows
        self._hashes, self._numbers = (keys.column(name).to_numpy() for name in ("key_hash", "row"))

    def version(self, key: Key) -> SchemaVersion | None:
        """Find a Version by its registry and XID."""
        return next((version for version in self._versions_of("version", key) if (version.registryid, version.xid) == key), None)

    def default(self, key: Key) -> SchemaVersion | None:
        """Find the default Version of a schema by its registry and the schema's XID."""
        return next(
            (version for version in self._versions_of("default", key) if (version.registryid, version.schema_xid) == key), None
        )

    def defaults(self, registryid: RegistryId) -> Iterator[SchemaVersion]:
        """Return the default Versions of a registry."""
        for batch in self._rows.filter((pc.field("registryid") == registryid) & pc.field("isdefault")).to_batches():
            yield from map(_version, batch.to_pylist())

    def of_schema(self, key: Key) -> Iterator[SchemaVersion]:
        """Return all Versions of a schema by its registry and the schema's XID."""
        return (version for version in self._versions_of("schema", key) if (version.registryid, version.schema_xid) == key)

    def _versions_of(self, kind: str, key: Key) -> Iterator[SchemaVersion]:
        wanted = np.uint64(hash_of("\x1f".join((kind, *key))))
        first, last = (np.searchsorted(self._hashes, wanted, side) for side in ("left", "right"))
        for number in self._numbers[first:last].tolist():
            yield _version(self._rows.slice(number, 1).to_pylist()[0])


def _version(row: dict[str, Any]) -> SchemaVersion:
    return SchemaVersion(*(row | {"labels": None if row["labels"] is None else dict(row["labels"])}).values())


def _schema_keys(rows: pa.Table) -> pa.Table:
    """Return where each Version is, the default one and all of each schema: key_hash, row; sorted by hash."""
    hashes, numbers = [], []
    defaults: dict[Key, int] = {}
    names = ("registryid", "xid", "schema_xid", "isdefault")
    for number, version in enumerate(zip(*(rows.column(name).to_pylist() for name in names), strict=True)):
        registryid, xid, schema_xid, isdefault = version
        hashes.append(hash_of("\x1f".join(("version", registryid, xid))))
        hashes.append(hash_of("\x1f".join(("schema", registryid, schema_xid))))
        numbers += [number, number]
        if isdefault or (registryid, schema_xid) not in defaults:
            defaults[registryid, schema_xid] = number
    hashes += [hash_of("\x1f".join(("default", *key))) for key in defaults]
    sorted_by = np.argsort(np.array(hashes, np.uint64), kind="stable")
    columns = [np.array(hashes, np.uint64)[sorted_by], np.array([*numbers, *defaults.values()], np.int64)[sorted_by]]
    return pa.table(columns, names=["key_hash", "row"])


def schema_table(versions: list[SchemaVersion]) -> pa.Table:
    """Return Versions of schemas as a table with columns of `SCHEMA_ROWS`."""
    return pa.Table.from_pylist([dict(zip(SCHEMA_ROWS.names, version, strict=True)) for version in versions], schema=SCHEMA_ROWS)


def _mapped(path: str) -> Any:
    return pa.ipc.open_file(pa.memory_map(path)).read_all()
