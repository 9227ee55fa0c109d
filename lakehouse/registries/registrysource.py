"""SOURCES of an ingest that are schema registries: `confluent+https://host/`, and the topic of one as `confluent+file:PATH`."""

from __future__ import annotations

import gzip
import re
import zlib
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from lakehouse.errors import SettingsError, SourceNotFound
from lakehouse.registries.schemastopic import TopicRecord, UnreadableRecord, record_of_columns, record_of_line, replay
from lakehouse.registries.subjectdocuments import Messages, RegistryContent, SubjectMapping
from lakehouse.replicate.state import at_hand, open_state
from lakehouse.text.jsontext import as_read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakehouse.ingest.pipeline import IngestRequest
    from lakehouse.ingest.summary import Summary
    from lakehouse.progress import Watcher
    from lakehouse.replicate.client import CatalogAddress
    from lakehouse.settings import Settings

PREFIX = "confluent+"
_TEXTS = (".json", ".jsonl", ".ndjson", ".txt", ".log")


class RegistryOptions(NamedTuple):
    """What of a registry is loaded.

    Attributes:
        deleted: also what was soft-deleted.
        messages: for which subjects messages are made, as in `SubjectMapping`.
    """

    deleted: bool = False
    messages: Messages | None = None


@dataclass(frozen=True)
class RegistrySource:
    """A schema registry as a SOURCE, and how it is read.

    Attributes:
        base: URI without user and password that the URIs of its documents begin with.
        address: of its API; None: it is a topic.
        path: of the topic as it landed; None: it is an API.
    """

    base: str
    address: CatalogAddress | None = None
    path: Path | None = None

    @property
    def is_table(self) -> bool:
        """Return whether Spark reads it: a topic in Parquet or Delta."""
        return self.path is not None and not _texts(self.path)

    def uri_of(self, subject: str) -> str:
        """Return the URI of the document of a subject: at an API that of its versions."""
        name = quote(subject, safe="")
        return f"{self.base}subjects/{name}/versions" if self.address else f"{self.base}#{name}"

    @property
    def scope(self) -> str:
        """Return a regular expression (Java) for the URIs of all documents of the registry."""
        from lakehouse.replicate.pull import quoted_pattern  # noqa: PLC0415  as below

        begin = f"{self.base}subjects/" if self.address else f"{self.base}#"
        return rf"\A{quoted_pattern(begin)}.*\z"


def is_registry(source: str) -> bool:
    """Return whether a SOURCE is a schema registry."""
    return source.startswith(PREFIX)


def read_registry_source(*sources: str) -> RegistrySource:
    """Read a SOURCE that is a schema registry.

    Raises:
        SettingsError: the URL is none, or other sources are named besides.
        SourceNotFound: the file or folder does not exist.
    """
    from lakehouse.replicate.client import read_address  # noqa: PLC0415  urllib3 is there with the extra `replicate` only

    if len(sources) != 1:
        raise SettingsError("a schema registry is loaded alone: load the other SOURCES by another command.")
    source = sources[0]
    rest = source.removeprefix(PREFIX)
    if not rest.startswith("file:"):
        address = read_address(rest, "SOURCE")
        return RegistrySource(address.url, address)
    path = Path(re.sub(r"\Afile:(?://(?=/))?", "", rest)).absolute()
    if not path.exists():
        raise SourceNotFound(source, "no such file or folder. Name the topic `_schemas` as it landed, or the URL of a registry.")
    return RegistrySource(path.as_uri(), path=path)


def fetch_registry(
    source: RegistrySource,
    settings: Settings,
    options: RegistryOptions,
    *,
    spark: SparkSession | None = None,
) -> RegistryContent:
    """Read what a registry holds; the catalog is not touched.

    Args:
        source: the registry.
        settings: limits of what an API may answer.
        options: what is loaded.
        spark: reads a topic in Parquet or Delta (`RegistrySource.is_table`); other sources need none.

    Raises:
        ReplicationError: an API cannot be read as a whole.
        SourceNotFound: a topic cannot be read.
    """
    if source.address is not None:
        from lakehouse.registries.restapi import RestReader, unfinished_read  # noqa: PLC0415
        from lakehouse.replicate.client import Client, RequestLimits  # noqa: PLC0415

        limits = RequestLimits(bytes=settings.max_document_bytes, depth=settings.max_json_depth)
        with (
            closing(Client(source.address, limits)) as client,
            unfinished_read(settings, source.address.url) as answers,
        ):
            return RestReader(client, answers).read(with_deleted=options.deleted)
    assert source.path is not None
    try:
        return replay(_of_table(spark, str(source.path)) if spark and source.is_table else _of_lines(source.path))
    except (UnreadableRecord, OSError, EOFError, zlib.error) as error:
        raise SourceNotFound(f"{PREFIX}file:{source.path}", str(error)) from error


def _texts(path: Path) -> list[Path]:
    """Return the files of a topic that landed as lines of text, in the order of their names; none: it did not."""
    if path.is_file():
        return [path] if path.suffix != ".parquet" else []
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.startswith(("_", ".")))
    is_delta = (path / "_delta_log").is_dir()
    return [] if is_delta else [file for file in files if file.name.removesuffix(".gz").endswith(_TEXTS)]


def _of_lines(path: Path) -> Iterator[TopicRecord]:
    for file in _texts(path):
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _record(line, file, number)


def _record(line: bytes, file: Path, number: int) -> TopicRecord:
    try:
        return record_of_line(line)
    except UnreadableRecord as error:
        raise UnreadableRecord(f"{file.name}, line {number}: {error}") from error


def _of_table(spark: SparkSession, path: str) -> list[TopicRecord]:
    from lakehouse.match.event.adapters import read_source  # noqa: PLC0415

    rows = read_source(spark, path)
    names = [name for name in ("key", "value", "payload", "offset") if name in rows.columns]
    return [record_of_columns(row.asDict()) for row in rows.select(*names).toLocalIterator()]


def load_registry(
    spark: SparkSession,
    settings: Settings,
    source: RegistrySource,
    content: RegistryContent,
    *,
    options: RegistryOptions,
    request: IngestRequest,
    watcher: Watcher | None = None,
) -> Summary:
    """Load the content of a registry: a document for each subject, by one ingest.

    Returns:
        What was loaded; `remarks` says what is wrong with versions of subjects, which are loaded nevertheless.

    Raises:
        ReplicationError: another process loads the same registry.
        LakehouseError: what an ingest raises.
    """
    from lakehouse.ingest.pipeline import Located, ingest  # noqa: PLC0415

    mapping = SubjectMapping(content, keep_deleted=options.deleted, messages=options.messages)
    with open_state(settings, source.base, (), "ingest") as state:
        files: dict[str, Path] = {}
        try:
            for document in mapping.documents():
                uri = source.uri_of(document.subject)
                files[uri] = state.part(uri)
                files[uri].write_bytes(as_read(document.value))
            located = Located({uri: at_hand(settings, file) for uri, file in files.items()}, source.scope)
            paths = list(located.documents.values())
            summary = ingest(spark, settings, paths, request=request, watcher=watcher, located=located)
        finally:
            state.keep_only(set())
    return replace(summary, remarks=[str(remark) for remark in mapping.remarks()])
