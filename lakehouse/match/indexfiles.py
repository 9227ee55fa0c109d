"""An index as a folder of Arrow files, which every Python worker of a machine maps: one copy, in the page cache.

`keys.arrow` and `definitions.arrow` are the index, `schemas.arrow` the Versions of schemas, `schemakeys.arrow` their positions
there. The folder is named by the digest of its content, so workers know what they have opened already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from lakehouse.match.index import Index, IndexTables, hash_of
from lakehouse.match.matcher import Matcher, MatchRequest
from lakehouse.match.payload.payloads import Payloads
from lakehouse.match.payload.schemas import Key, Schemas, SchemaVersion
from lakehouse.text.names import RegistryId

_FILES = ("keys", "definitions", "schemas", "schemakeys")
SCHEMA_ROWS = pa.schema(
    [("registryid", pa.string()), ("xid", pa.string()), ("schema_xid", pa.string()), ("isdefault", pa.bool_()),
     ("format", pa.string()), ("schema", pa.string()), ("createdat", pa.int64()), ("labels", pa.map_(pa.string(), pa.string()))]
)  # fmt: skip
_opened: dict[tuple[str, str], tuple[Index, Schemas]] = {}  # of this process, by folder and rule of placeholders


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
