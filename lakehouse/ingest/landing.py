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
    """A document in the folder: when it last changed, in nanoseconds since 1970, and its location.

    folder: which folder below the landing folder holds it, another one once that was moved; empty: none does, or the store shows
    when a file came.
    """

    changed: int
    path: str
    folder: str = ""


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
    """Reads the folder again for each batch.

    An offset is the last change seen, which documents were seen just before it, and which folders were seen whole. Of one that
    was seen in part, `part` has the folder, and the change and the path of its last document seen.
    """

    def __init__(self, folder: str, max_documents: int) -> None:
        self.folder = folder
        self.max_documents = max_documents

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Start before all documents."""
        return {"changed": 0, "seen": "", "folders": "", "part": []}

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

    Documents that came at the same time, or in a folder that was moved in, may be in several batches.
    """
    changed, moved = _changed(results, start), _moved_in(results, start)
    fresh = changed + moved
    batch = fresh if most is None else fresh[:most]
    if not batch:
        return start
    later = set(fresh[len(batch) :])
    end = max(start["changed"], *(entry.changed for entry in batch))
    seen = (_identity(entry) for entry in results if end - LOOK_BACK < entry.changed <= end and entry not in later)
    in_part = {entry.folder for entry in later.intersection(moved)}
    last, part = batch[-1], start.get("part", [])
    return {
        "changed": end,
        "seen": " ".join(sorted(seen)),
        "folders": " ".join(sorted({entry.folder for entry in results} - in_part - {""})),
        "part": [last.folder, last.changed, last.path] if last.folder in in_part and last in moved else part if in_part else [],
    }


def between(results: list[FolderEntry], start: dict[str, Any], end: dict[str, Any]) -> list[FolderEntry]:
    """Return the documents of a batch: those since its start, and those before it that were not seen then."""
    last, seen, whole = end["changed"], _words(end, "seen"), _words(end, "folders")
    changed = [
        entry
        for entry in _changed(results, start)
        if entry.changed <= last - LOOK_BACK or (entry.changed <= last and _identity(entry) in seen)
    ]
    return changed + [entry for entry in _moved_in(results, start) if entry.folder in whole or _is_in_part(entry, end)]


def list_documents(folder: str) -> list[FolderEntry]:
    """List the documents below a folder, the oldest change first; what Spark would hide is left out.

    A local file shows when its name or its content changed, so one that was moved in with an old date is seen. To move a folder
    changes nothing of the files in it, but they are in another folder then. An object store shows when a file was put there.
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


def _changed(results: list[FolderEntry], start: dict[str, Any]) -> list[FolderEntry]:
    """Return the documents that changed since an offset, or shortly before and were not seen."""
    last, seen = start["changed"], _words(start, "seen")
    return [
        entry for entry in results if entry.changed > last or (entry.changed > last - LOOK_BACK and _identity(entry) not in seen)
    ]


def _moved_in(results: list[FolderEntry], start: dict[str, Any]) -> list[FolderEntry]:
    """Return the documents that changed before, in folders that were not seen; folder by folder."""
    last, whole = start["changed"] - LOOK_BACK, _words(start, "folders")
    moved = [
        entry
        for entry in results
        if entry.changed <= last and entry.folder and entry.folder not in whole and not _is_in_part(entry, start)
    ]
    return sorted(moved, key=lambda entry: (entry.folder, entry.changed, entry.path))


def _is_in_part(entry: FolderEntry, offset: dict[str, Any]) -> bool:
    """Return whether a document is of the part of a folder that was seen at an offset."""
    folder, *last = offset.get("part") or [None]
    return entry.folder == folder and [entry.changed, entry.path] <= last


def _words(offset: dict[str, Any], name: str) -> set[str]:
    """Return a member of an offset; those of earlier releases have no folders."""
    return set(offset.get(name, "").split(" "))


def _identity(entry: FolderEntry) -> str:
    return hashlib.sha256(f"{entry.changed} {entry.path}".encode()).hexdigest()[:12]


def _list_local(folder: Path) -> Iterator[FolderEntry]:
    if not folder.is_dir():
        raise SourceNotFound(str(folder), "no such folder. --watch takes one folder.")
    inside = look_into(_as_uri(str(folder)))
    folders = {str(folder): ""}
    for uri in (*inside.files, *(uri for uri, _ in inside.unreadable)):
        path = uri.removeprefix("file:")
        above = os.path.dirname(path)
        with suppress(OSError):  # it has just been taken away
            status = os.stat(path)
            if above not in folders:
                folders[above] = hashlib.sha256(f"{os.stat(above).st_ino} {above}".encode()).hexdigest()[:12]
            yield FolderEntry(max(status.st_ctime_ns, status.st_mtime_ns), path, folders[above])


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
