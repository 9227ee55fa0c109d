"""An index as a folder of Arrow files, which every Python worker of a machine maps: one copy, in the page cache.

`keys.arrow` and `definitions.arrow` are the index, `schemas.arrow` the Versions of schemas. The folder is named by the digest of
what it holds, so workers know what they have opened already.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc

from lakehouse.match.matching.index import Index, IndexTables
from lakehouse.match.matching.matcher import Matcher, Request
from lakehouse.match.payload.payloads import Payloads
from lakehouse.match.payload.schemas import Schemas, SchemaVersion

_FILES = ("keys", "definitions", "schemas")
SCHEMA_ROWS = pa.schema(
    [("registryid", pa.string()), ("xid", pa.string()), ("schema_xid", pa.string()), ("isdefault", pa.bool_()),
     ("format", pa.string()), ("schema", pa.string())]
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
    for name, table in zip(_FILES, (index.keys, index.definitions, schemas.select(SCHEMA_ROWS.names)), strict=True):
        path = made / f"{name}.arrow"
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest() if hasattr(hashlib, "file_digest") else file.read())
    return made.rename(folder / f"match-{digest.hexdigest()[:16]}")


def open_store(folder: str, request: Request) -> Matcher:
    """Open an index that was written; a process opens each once.

    Args:
        folder: as `write_store` gave it.
        request: how events are matched.
    """
    key = (folder, request.tolerance.placeholders)
    if key not in _opened:
        _opened.clear()  # of an earlier snapshot: its maps go
        keys, definitions, schemas = (_mapped(f"{folder}/{name}.arrow") for name in _FILES)
        _opened[key] = (Index(IndexTables(keys, definitions), request.tolerance.placeholders), schemas_of(schemas))
    index, known = _opened[key]
    return Matcher(index, Payloads(known, request.max_unpacked_bytes), request)


def schemas_of(table: pa.Table) -> Schemas:
    """Give the schemas of a table with columns of `SCHEMA_ROWS`."""
    return Schemas(SchemaVersion(*(row[name] for name in SCHEMA_ROWS.names)) for row in table.to_pylist())


def schema_table(versions: list[SchemaVersion]) -> pa.Table:
    """Give Versions of schemas as a table with columns of `SCHEMA_ROWS`."""
    return pa.Table.from_pylist([dict(zip(SCHEMA_ROWS.names, one, strict=True)) for one in versions], schema=SCHEMA_ROWS)


def _mapped(path: str) -> Any:
    return pa.ipc.open_file(pa.memory_map(path)).read_all()
