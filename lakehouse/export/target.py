"""Where an export goes: a file or folder on any filesystem that Hadoop reaches, under its name only when it is complete.

All is written beside the target under a temporary name that starts with `.`, and renamed at the end.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import SparkSession

from lakehouse.errors import TargetError, reason_of
from lakehouse.store.files import is_local
from lakehouse.store.jvm import java_class
from lakehouse.store.places import refuse_target
from lakehouse.store.session import absolute_location


class Target:
    """A file, or a folder of files, that appears when all of it is written.

    Attributes:
        location: what the user named.
        replace: a folder that holds an earlier export gives way to this one, whole; files are always replaced.
        scratch: URI of a folder beside it for parts; removed in the end.
    """

    def __init__(self, spark: SparkSession, location: str, *, is_folder: bool, replace: bool = False) -> None:
        self.location = location
        self.is_folder = is_folder
        self.replace = replace
        jvm: Any = spark._jvm
        self._jvm = jvm
        self._streams: dict[int, tuple[str, Any]] = {}  # by thread, since several files may be written at once: a part, opened
        self._path = java_class(jvm, "org.apache.hadoop.fs.Path")(absolute_location(location).rstrip("/"))
        with self._told():
            filesystem = self._path.getFileSystem(spark._jsc.hadoopConfiguration())
            # A local file gets no checksum file beside it.
            adds_checksums = is_instance_of(spark.sparkContext._gateway, filesystem, "org.apache.hadoop.fs.LocalFileSystem")
            self._fs = filesystem.getRaw() if adds_checksums else filesystem
            self._path = self._fs.makeQualified(self._path)
        self._parent, self._name = self._path.getParent(), self._path.getName()
        if self._parent is None:
            raise TargetError(location, "the root of a filesystem is not a place for an export. Name a file or folder in it.")
        token = uuid.uuid4().hex[:12]
        self._parts = self._at(self._parent, f".{self._name}.{token}.parts")
        self._growing = self._at(self._parent, f".{self._name}.{token}.growing")
        self._earlier = self._at(self._parent, f".{self._name}.{token}.earlier")
        self.scratch = str(self._parts.toString())

    def __enter__(self) -> Target:
        """Check that the target can be written.

        Raises:
            TargetError: it cannot, or a folder is there and not empty, or what it holds is not an export.
        """
        with self._told():
            if self._fs.exists(self._path):
                is_folder = self._fs.getFileStatus(self._path).isDirectory()
                holds = is_folder and not self.replace and bool(self._fs.listStatus(self._path))
                refuse_target(self.location, to_folder=self.is_folder, is_folder=is_folder, holds_something=holds)
                if is_folder and self.replace:
                    self._check_that_only_exports_go()
            self._fs.mkdirs(self._parent)
            if not self._fs.mkdirs(self._parts):
                raise TargetError(self.location, "cannot be written next to it")
            if self.is_folder:
                self._fs.mkdirs(self._growing)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove what is temporary; without an error all of the target is there by then."""
        for _, stream in self._streams.values():
            stream.close()
        for path in (self._parts, self._growing):
            self._fs.delete(path, True)

    def parts(self) -> list[str]:
        """Give the names of the parts that Spark has written, in their order."""
        names = [str(status.getPath().getName()) for status in self._fs.listStatus(self._parts)]
        return sorted(name for name in names if name.startswith("part-"))

    def last_line(self, part: str, digits: int) -> bytes:
        """Read the last line of a part without the digits at its end, which tell its length."""
        path = self._at(self._parts, part)
        length = self._fs.getFileStatus(path).getLen()
        size = int(self._tail(path, length - digits - 1))
        return self._tail(path, length - digits - 1 - size)[:size]

    @contextmanager
    def file(self, name: str) -> Iterator[TargetFile]:
        """Open a file to write: of a folder the one with this name."""
        growing = self._at(self._growing, name) if self.is_folder else self._growing
        with self._told():
            stream = self._fs.create(growing, True)
        try:
            yield TargetFile(self, stream)
        finally:
            stream.close()

    def publish(self) -> None:
        """Give the target its name: all of it has been written."""
        with self._told():
            aside = self.is_folder and self._fs.exists(self._path)
            if aside:
                self._rename(self._path, self._earlier, "the earlier export could not be moved aside")
            if not self.is_folder and not self._renames_over():
                self._fs.delete(self._path, True)
            try:
                self._rename(self._growing, self._path, "the file written next to it could not be renamed to it")
            except Exception:
                if aside:
                    told = "neither the export nor the earlier one could be renamed to it; that one is "
                    self._rename(self._earlier, self._path, told + str(self._earlier.toString()))
                raise
            if aside:
                self._fs.delete(self._earlier, True)

    def copy(self, part: str, offset: int, length: int, into: Any) -> None:
        """Copy bytes of a part within the JVM; each thread holds one part open, since it goes from part to part."""
        thread = threading.get_ident()
        opened, source = self._streams.get(thread, ("", None))
        if opened != part:
            if source is not None:
                source.close()
            source = self._fs.open(self._at(self._parts, part))
            self._streams[thread] = (part, source)
        source.seek(offset)
        with self._told():
            java_class(self._jvm, "org.apache.commons.io.IOUtils").copyLarge(source, into, 0, length)

    def _rename(self, source: Any, target: Any, problem: str) -> None:
        """Rename; Hadoop's filesystems answer false where they could not, and not all of them raise an error.

        Raises:
            TargetError: it was not renamed.
        """
        if not self._fs.rename(source, target):
            raise TargetError(self.location, problem)

    def _check_that_only_exports_go(self) -> None:
        """Look for files that no export has written: a wrong name must not delete them."""
        files = self._fs.listFiles(self._path, True)
        while files.hasNext():
            name = str(files.next().getPath().getName())
            if not name.endswith(".json"):
                raise TargetError(self.location, f"the folder holds {name}, which no export wrote. Name another one.")

    def _renames_over(self) -> bool:
        """Tell whether a rename replaces a file in one step, as it does on local disks."""
        return is_local(self._fs)

    def _tail(self, path: Any, offset: int) -> bytes:
        stream = self._fs.open(path)
        try:
            stream.seek(offset)
            return bytes(stream.readAllBytes())
        finally:
            stream.close()

    def _at(self, folder: Any, name: str) -> Any:
        return java_class(self._jvm, "org.apache.hadoop.fs.Path")(f"{folder.toString().rstrip('/')}/{name}")

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except TargetError:
            raise
        except Exception as error:
            reason = reason_of(error).partition("\n")[0]
            raise TargetError(self.location, f"cannot be written: {reason}") from error


class TargetFile:
    """A file of a target while it is written."""

    def __init__(self, target: Target, stream: Any) -> None:
        self._target = target
        self._stream = stream
        self.size = 0

    def write(self, text: bytes) -> None:
        """Append bytes."""
        self._stream.write(bytearray(text))
        self.size += len(text)

    def copy(self, part: str, offset: int, length: int) -> None:
        """Append bytes of a part."""
        self._target.copy(part, offset, length, self._stream)
        self.size += length
