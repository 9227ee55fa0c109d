"""`lakehouse ingest --watch`: documents are loaded as they come into a folder, by Structured Streaming.

The stream shows only which documents are new or changed, also under an old name: Spark's own file source never sees the latter.
Each batch of them is one ingest. That each counts once is not the stream's doing: the log knows every document by URI and hash,
so a batch that comes again, or a document offered twice, commits nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyarrow import fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxFiles
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.errors import SourceNotFound
from lakehouse.ingest.pipeline import IngestRequest, ingest
from lakehouse.ingest.sources import Hidden, look_into
from lakehouse.ingest.summary import Summary
from lakehouse.progress import Watcher
from lakehouse.settings import Settings
from lakehouse.store.microbatches import run_stream
from lakehouse.store.session import absolute_location
from lakehouse.text.documentnames import is_document

SOURCE = "xregistry_landing"
# A document may come to be seen after one that is newer: so long before it is looked for, in nanoseconds.
LOOK_BACK = 60_000_000_000
_PATHS = StructType([StructField("path", StringType())])


@dataclass(frozen=True)
class FolderEntry:
    """A document in the folder: when it last changed, in nanoseconds since 1970, and its location."""

    changed: int
    path: str


@dataclass(frozen=True)
class Landing:
    """What is watched, and how.

    Attributes:
        folder: folder or URI; its folders are watched too.
        available_now: end when all that is there has been loaded.
        every: seconds between two looks.
        max_documents: most documents of a batch.
    """

    folder: str
    available_now: bool = False
    every: int = 10
    max_documents: int = 1000


class _Paths(InputPartition):
    """The documents of a batch."""

    def __init__(self, paths: list[str]) -> None:
        super().__init__(paths)
        self.paths = paths


class LandingSource(DataSource):
    """Streaming source of the locations of documents that are new or changed."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the data source for Spark."""
        return SOURCE

    def schema(self) -> StructType:
        """Return the schema, which has one column."""
        return _PATHS

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  Spark's name
        """Open the stream."""
        return LandingReader(self.options["path"], int(self.options["maxDocuments"]))


class LandingReader(DataSourceStreamReader):
    """Reads the folder again for each batch; an offset is the last change seen, and which documents were seen just before it."""

    def __init__(self, folder: str, max_documents: int) -> None:
        self.folder = folder
        self.max_documents = max_documents

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Start before all documents."""
        return {"changed": 0, "seen": ""}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Limit a batch."""
        return ReadMaxFiles(self.max_documents)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the offset at which the next batch ends; `start` if there is nothing new."""
        return next_offset(list_documents(self.folder), start, limit.max_files if isinstance(limit, ReadMaxFiles) else None)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Return the documents between two offsets."""
        return [_Paths([entry.path for entry in between(list_documents(self.folder), start, end)])]

    def read(self, partition: InputPartition) -> Iterator[tuple[str]]:
        """Yield the rows."""
        assert isinstance(partition, _Paths)
        for path in partition.paths:
            yield (path,)


def next_offset(results: list[FolderEntry], start: dict[str, Any], most: int | None) -> dict[str, Any]:
    """Return the offset at which the next batch ends: after the newest document, or after `most` of the new ones.

    Documents that came at the same time, as those of a folder that was moved in, may be in several batches.
    """
    fresh = _fresh(results, start)
    later = set(fresh[most:]) if most is not None else set()
    batch = [entry for entry in fresh if entry not in later]
    end = max(start["changed"], batch[-1].changed if batch else 0)
    seen = [_identity(entry) for entry in results if end - LOOK_BACK < entry.changed <= end and entry not in later]
    return {"changed": end, "seen": " ".join(sorted(seen))} if batch else start


def between(results: list[FolderEntry], start: dict[str, Any], end: dict[str, Any]) -> list[FolderEntry]:
    """Return the documents of a batch: those since its start, and late ones of shortly before that were not seen then."""
    last, seen = end["changed"], set(end["seen"].split(" "))
    return [
        entry
        for entry in _fresh(results, start)
        if entry.changed <= last - LOOK_BACK or (entry.changed <= last and _identity(entry) in seen)
    ]


def list_documents(folder: str) -> list[FolderEntry]:
    """List the documents below a folder, the oldest change first; what Spark would hide is left out.

    A local file shows when its name or its content changed, so one that was moved in with an old date is seen. To move a folder
    changes nothing of the files in it: the folder shows it. An object store shows when a file was put there.
    """
    local = re.sub(r"\Afile:/*", "/", folder)
    results = _list_local(Path(local)) if local.startswith("/") else _list_remote(folder)
    return sorted(results, key=lambda entry: (entry.changed, entry.path))


def watch(
    spark: SparkSession,
    settings: Settings,
    landing: Landing,
    details: Callable[[Summary], None],
    is_stopped: Callable[[], bool] = lambda: False,
    *,
    registry_from: str | None = None,
    request: IngestRequest | None = None,
    watcher: Watcher | None = None,
) -> None:
    """Load what comes into a folder, until stopped.

    Args:
        spark: the session.
        settings: the warehouse; the stream remembers below it what it has seen.
        landing: what is watched.
        details: is called with the summary of each batch.
        is_stopped: returns whether to stop; asked each second.
        registry_from: as in `ingest`.
        request: as in `ingest`.
        watcher: as in `ingest`.

    Raises:
        SourceNotFound: there is no such folder.
        LakehouseError: what an ingest raises.
    """
    folder = absolute_location(landing.folder).rstrip("/")
    list_documents(folder)
    load_documents = partial(
        ingest, spark, settings, registry_from=registry_from, request=request, watcher=watcher, root=_as_uri(folder)
    )

    reported: set[Hidden] = set()

    def load(batch: DataFrame, _: int) -> None:
        paths = [row["path"] for row in batch.collect() if _still_exists(row["path"])]
        gone: list[Hidden] = []
        while paths:
            try:
                summary = load_documents(paths)
            except SourceNotFound as error:  # it was taken away since it was listed
                if error.source not in paths:
                    raise
                paths.remove(error.source)
                gone.append(Hidden(error.source, str(error)))
                continue
            hidden = [each for each in look_into(_as_uri(folder)).hidden if each not in reported]
            reported.update(hidden)
            details(replace(summary, hidden=[*summary.hidden, *gone, *hidden]))
            return

    spark.dataSource.register(LandingSource)
    stream = spark.readStream.format(SOURCE).option("maxDocuments", str(landing.max_documents)).load(folder)
    every = None if landing.available_now else landing.every
    run_stream(stream, load, checkpoint(settings, folder, registry_from), is_stopped, every=every)


def checkpoint(settings: Settings, folder: str, registry_from: str | None) -> str:
    """Return the checkpoint folder of a stream: one for each landing folder and way of naming registries."""
    what = json.dumps([folder, settings.registry, registry_from])
    return f"{absolute_location(settings.warehouse)}/_watch/{hashlib.sha256(what.encode()).hexdigest()[:16]}"


def _fresh(results: list[FolderEntry], start: dict[str, Any]) -> list[FolderEntry]:
    """Return the documents that were not seen up to an offset."""
    last, seen = start["changed"], set(start["seen"].split(" "))
    return [
        entry for entry in results if entry.changed > last or (entry.changed > last - LOOK_BACK and _identity(entry) not in seen)
    ]


def _identity(entry: FolderEntry) -> str:
    return hashlib.sha256(f"{entry.changed} {entry.path}".encode()).hexdigest()[:12]


def _list_local(folder: Path) -> Iterator[FolderEntry]:
    if not folder.is_dir():
        raise SourceNotFound(str(folder), "no such folder. --watch takes one folder.")
    inside = look_into(_as_uri(str(folder)))
    changes = {str(folder): 0}
    for uri in (*inside.files, *(uri for uri, _ in inside.unreadable)):
        path = uri.removeprefix("file:")
        with suppress(OSError):  # it has just been taken away
            status = os.stat(path)
            yield FolderEntry(max(status.st_ctime_ns, status.st_mtime_ns, _last_change(os.path.dirname(path), changes)), path)


def _last_change(folder: str, changes: dict[str, int]) -> int:
    """Return when a folder, or one between it and the landing folder, was moved, or an entry of it came or went.

    Args:
        folder: its path.
        changes: of the folders looked at so far, and 0 for the landing folder; is added to.
    """
    if folder not in changes:
        changes[folder] = max(os.stat(folder).st_ctime_ns, _last_change(os.path.dirname(folder), changes))
    return changes[folder]


def _list_remote(folder: str) -> Iterator[FolderEntry]:
    scheme = urllib.parse.urlsplit(folder).scheme
    store, path = fs.FileSystem.from_uri(re.sub(r"\As3[an]:", "s3:", folder))
    for info in store.get_file_info(fs.FileSelector(path, recursive=True)):
        inner = info.path[len(path) :].split("/")
        if info.type == fs.FileType.File and info.size and _is_wanted(inner[-1]) and not _is_hidden(inner):
            yield FolderEntry(int(info.mtime_ns or 0), f"{scheme}://{info.path}")


def _is_wanted(name: str) -> bool:
    return not name.startswith(("_", ".")) and is_document(name)


def _is_hidden(parts: list[str]) -> bool:
    return any(part.startswith(("_", ".")) for part in parts)


def _still_exists(path: str) -> bool:
    """Return whether a local document still exists since it was listed."""
    return not path.startswith("/") or os.path.exists(path)


def _as_uri(folder: str) -> str:
    return f"file:{folder}" if folder.startswith("/") else folder
