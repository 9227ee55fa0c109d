"""File systems that Hadoop reaches, through the JVM; in their place Arrow's, which are of Python, or a Connect server's."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from py4j.java_gateway import is_instance_of
from pyarrow import fs
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.store.internals.jvm import is_connect, java_class, require_classic, uses_internals

_PIECE = 1 << 20  # bytes that are copied at once
_URI = re.compile(r"\A([A-Za-z][A-Za-z0-9+.\-]*):(.*)\Z", re.DOTALL)


class FileEntry(NamedTuple):
    """A file or folder: its URI as Hadoop writes it, its bytes, and when it was changed, in seconds since 1970."""

    uri: str
    is_folder: bool
    size: int
    modified: float


class FileSystem(Protocol):
    """A file system; locations are paths, or URIs of it."""

    @property
    def is_local(self) -> bool:
        """Return whether it is the local one."""

    def qualified(self, location: str) -> str:
        """Return a location as a URI as Hadoop writes it."""

    def exists(self, location: str) -> bool:
        """Return whether there is a file or folder."""

    def entry(self, location: str) -> FileEntry | None:
        """Return a file or folder; None: there is none."""

    def members(self, location: str) -> list[FileEntry]:
        """Return the members of a folder; none where there is no folder."""

    def files_below(self, location: str) -> Iterator[FileEntry]:
        """Return the files of a folder and of all folders in it."""

    def size_below(self, location: str) -> tuple[int, int]:
        """Return how many files are below a folder, and their bytes; nothing where there is no folder."""

    def matches(self, glob: str, base: str, pattern: str) -> list[FileEntry]:
        """Return what a glob matches; `base`: the folder before its first wildcard, `pattern`: it as a regular expression."""

    def make_folder(self, location: str) -> bool:
        """Make a folder, and those that it is in; return whether it is there."""

    def remove(self, location: str) -> None:
        """Remove a file or folder with all that is in it; one that is not there is no error."""

    def rename(self, source: str, target: str) -> bool:
        """Rename a file or folder; return whether that was done."""

    def open(self, location: str) -> Any:
        """Open a file to read: an object with `seek` and `close`."""

    def create(self, location: str) -> Any:
        """Open a file to write, over the one that is there: an object with `write` and `close`."""

    def read(self, location: str, offset: int = 0) -> bytes:
        """Read a file from an offset to its end."""

    def copy(self, source: Any, length: int, target: Any) -> None:
        """Copy bytes from an open file to another one."""


def filesystem_of(spark: SparkSession, location: str, *, checksums: bool = True, on_client: bool = False) -> FileSystem:
    """Return the file system of a location.

    Args:
        spark: the session, whose settings say how object stores are reached; without internals the environment does.
        location: a path or a URI.
        checksums: Hadoop keeps a checksum file next to each local file.
        on_client: of Spark Connect, the file system of this process, and not that of the server.
    """
    if is_connect(spark) and not on_client:
        return ServerFileSystem(spark, location)
    return HadoopFileSystem(spark, location, checksums=checksums) if uses_internals(spark) else ArrowFileSystem(location)


class HadoopFileSystem:
    """A file system of Hadoop, as `FileSystem` says."""

    def __init__(self, spark: SparkSession, location: str, *, checksums: bool = True) -> None:
        session: Any = spark
        self._jvm = session._jvm
        result = self._path(location).getFileSystem(session._jsc.hadoopConfiguration())
        if not checksums:
            gateway = session.sparkContext._gateway
            result = result.getRaw() if is_instance_of(gateway, result, "org.apache.hadoop.fs.LocalFileSystem") else result
        self._fs = result

    @property
    def is_local(self) -> bool:
        """See `FileSystem`; not each knows its scheme, but all know their URI."""
        return str(self._fs.getUri().getScheme()) == "file"

    def qualified(self, location: str) -> str:
        """See `FileSystem`."""
        return str(self._fs.makeQualified(self._path(location)).toString())

    def exists(self, location: str) -> bool:
        """See `FileSystem`."""
        return bool(self._fs.exists(self._path(location)))

    def entry(self, location: str) -> FileEntry | None:
        """See `FileSystem`."""
        path = self._path(location)
        return _entry(self._fs.getFileStatus(path)) if self._fs.exists(path) else None

    def members(self, location: str) -> list[FileEntry]:
        """See `FileSystem`."""
        path = self._path(location)
        return [_entry(status) for status in self._fs.listStatus(path)] if self._fs.exists(path) else []

    def files_below(self, location: str) -> Iterator[FileEntry]:
        """See `FileSystem`."""
        path = self._path(location)
        files = self._fs.listFiles(path, True) if self._fs.exists(path) else None
        while files is not None and files.hasNext():
            yield _entry(files.next())

    def size_below(self, location: str) -> tuple[int, int]:
        """See `FileSystem`."""
        path = self._path(location)
        if not self._fs.exists(path):
            return 0, 0
        details = self._fs.getContentSummary(path)
        return int(details.getFileCount()), int(details.getLength())

    def matches(self, glob: str, base: str, pattern: str) -> list[FileEntry]:
        """See `FileSystem`."""
        return [_entry(status) for status in self._fs.globStatus(self._path(glob)) or []]

    def make_folder(self, location: str) -> bool:
        """See `FileSystem`."""
        return bool(self._fs.mkdirs(self._path(location)))

    def remove(self, location: str) -> None:
        """See `FileSystem`."""
        self._fs.delete(self._path(location), True)

    def rename(self, source: str, target: str) -> bool:
        """See `FileSystem`; Hadoop's answer false where they could not, and not all of them raise an error."""
        return bool(self._fs.rename(self._path(source), self._path(target)))

    def open(self, location: str) -> Any:
        """See `FileSystem`."""
        return self._fs.open(self._path(location))

    def create(self, location: str) -> Any:
        """See `FileSystem`."""
        return _Output(self._fs.create(self._path(location), True))

    def read(self, location: str, offset: int = 0) -> bytes:
        """See `FileSystem`."""
        stream = self.open(location)
        try:
            stream.seek(offset)
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def copy(self, source: Any, length: int, target: Any) -> None:
        """See `FileSystem`: within the JVM."""
        java_class(self._jvm, "org.apache.commons.io.IOUtils").copyLarge(source, target.stream, 0, length)

    def _path(self, location: str) -> Any:
        return java_class(self._jvm, "org.apache.hadoop.fs.Path")(location)


class _Output:
    """A stream of the JVM that takes bytes of Python."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def write(self, text: bytes) -> None:
        self.stream.write(bytearray(text))

    def close(self) -> None:
        self.stream.close()


def _entry(status: Any) -> FileEntry:
    modified = status.getModificationTime() / 1000
    return FileEntry(str(status.getPath().toString()), bool(status.isDirectory()), int(status.getLen()), modified)


class _WithoutJvm:
    """What follows from the scheme of a location and from the list of its files."""

    def __init__(self, location: str) -> None:
        self._scheme, _ = _parts(location)

    @property
    def is_local(self) -> bool:
        """See `FileSystem`."""
        return self._scheme == "file"

    def qualified(self, location: str) -> str:
        """See `FileSystem`."""
        return _as_uri(*_parts(location))

    def files_below(self, location: str) -> Iterator[FileEntry]:
        """See `FileSystem`."""
        raise NotImplementedError

    def size_below(self, location: str) -> tuple[int, int]:
        """See `FileSystem`."""
        sizes = [entry.size for entry in self.files_below(location)]
        return len(sizes), sum(sizes)


class ArrowFileSystem(_WithoutJvm):
    """A file system of Arrow's, as `FileSystem` says; object stores are reached with the credentials of the environment."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        if self.is_local:
            self._fs: Any = fs.LocalFileSystem()
        else:
            self._fs, _ = fs.FileSystem.from_uri(re.sub(r"\As3[an]:", "s3:", location))

    def exists(self, location: str) -> bool:
        """See `FileSystem`."""
        return self.entry(location) is not None

    def entry(self, location: str) -> FileEntry | None:
        """See `FileSystem`."""
        result = self._fs.get_file_info(self._path(location))
        return None if result.type == fs.FileType.NotFound else self._entry(result)

    def members(self, location: str) -> list[FileEntry]:
        """See `FileSystem`."""
        return self._selected(location, recursive=False)

    def files_below(self, location: str) -> Iterator[FileEntry]:
        """See `FileSystem`."""
        return (entry for entry in self._selected(location, recursive=True) if not entry.is_folder)

    def matches(self, glob: str, base: str, pattern: str) -> list[FileEntry]:
        """See `FileSystem`."""
        wanted = re.compile(pattern)
        return [entry for entry in self._selected(base, recursive=True) if wanted.fullmatch(entry.uri)]

    def make_folder(self, location: str) -> bool:
        """See `FileSystem`."""
        self._fs.create_dir(self._path(location), recursive=True)
        return True

    def remove(self, location: str) -> None:
        """See `FileSystem`."""
        result = self.entry(location)
        with contextlib.suppress(FileNotFoundError):  # taken away meanwhile
            if result is not None and result.is_folder:
                self._fs.delete_dir(self._path(location))
            elif result is not None:
                self._fs.delete_file(self._path(location))

    def rename(self, source: str, target: str) -> bool:
        """See `FileSystem`."""
        self._fs.move(self._path(source), self._path(target))
        return True

    def open(self, location: str) -> Any:
        """See `FileSystem`."""
        return self._fs.open_input_file(self._path(location))

    def create(self, location: str) -> Any:
        """See `FileSystem`; the folder is made, as Hadoop does."""
        path = self._path(location)
        self._fs.create_dir(path.rpartition("/")[0], recursive=True)
        return self._fs.open_output_stream(path)

    def read(self, location: str, offset: int = 0) -> bytes:
        """See `FileSystem`."""
        with self.open(location) as file:
            file.seek(offset)
            return bytes(file.read())

    def copy(self, source: Any, length: int, target: Any) -> None:
        """See `FileSystem`."""
        while length and (piece := source.read(min(length, _PIECE))):
            target.write(piece)
            length -= len(piece)

    def _selected(self, location: str, *, recursive: bool) -> list[FileEntry]:
        details = fs.FileSelector(self._path(location), allow_not_found=True, recursive=recursive)
        return [self._entry(row) for row in self._fs.get_file_info(details)]

    def _path(self, location: str) -> str:
        return _parts(location)[1]

    def _entry(self, result: Any) -> FileEntry:
        is_folder = result.type == fs.FileType.Directory
        uri, size = _as_uri(self._scheme, result.path), 0 if is_folder else int(result.size)
        return FileEntry(uri, is_folder, size, (result.mtime_ns or 0) / 1e9)


class ServerFileSystem(_WithoutJvm):
    """The file system of a Spark Connect server, as `FileSystem` says: Spark's source `binaryFile` lists and reads it.

    It writes nothing, and does not see what is called `_…` or `.…` within a folder. A file is local to the server.
    """

    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(location)
        self._spark = spark

    def exists(self, location: str) -> bool:
        """See `FileSystem`."""
        try:
            return bool(self._files(location).columns)  # Spark looks for the location now
        except PySparkException as error:
            if error.getCondition() == "PATH_NOT_FOUND":
                return False
            raise

    def entry(self, location: str) -> FileEntry | None:
        """See `FileSystem`; of a folder the size and the time are not known."""
        if not self.exists(location):
            return None
        uri = self.qualified(location)
        return next((entry for entry in self._entries(location) if entry.uri == uri), FileEntry(uri, True, 0, 0))

    def members(self, location: str) -> list[FileEntry]:
        """See `FileSystem`; folders are left out."""
        return self._entries(location) if self.exists(location) else []

    def files_below(self, location: str) -> Iterator[FileEntry]:
        """See `FileSystem`."""
        return iter(self._entries(location, recursive=True) if self.exists(location) else [])

    def read(self, location: str, offset: int = 0) -> bytes:
        """See `FileSystem`; nothing of a file whose name Spark hides."""
        row = self._files(location).select("content").first()
        return b"" if row is None else bytes(row["content"])[offset:]

    def _refuse(self, *_: Any, **__: Any) -> Any:
        """Refuse what a Connect server has no call for.

        Raises:
            SettingsError: always.
        """
        require_classic(self._spark, "What writes files, or finds them by a glob,")

    make_folder = remove = rename = open = create = copy = matches = _refuse

    def _files(self, location: str, *, recursive: bool = False) -> DataFrame:
        files = self._spark.read.format("binaryFile").option("recursiveFileLookup", str(recursive).lower())
        return files.load(self.qualified(location))

    def _entries(self, location: str, *, recursive: bool = False) -> list[FileEntry]:
        modified = F.unix_micros("modificationTime").alias("modified")
        rows = self._files(location, recursive=recursive).select("path", "length", modified).collect()
        return [FileEntry(row["path"], False, row["length"], row["modified"] / 1e6) for row in rows]


def _as_uri(scheme: str, path: str) -> str:
    path = path if path == "/" else path.rstrip("/")
    return f"file:{path}" if scheme == "file" else f"{scheme}://{path}"


def _parts(location: str) -> tuple[str, str]:
    """Return the scheme of a location, and its path as Arrow has it: of an object store with the bucket."""
    match = _URI.match(location)
    if match is None or match[1] == "file":
        path = location if match is None else match[2]
        return "file", re.sub(r"\A/+", "/", path)
    return match[1], match[2].removeprefix("//")
