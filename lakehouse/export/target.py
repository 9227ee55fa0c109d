"""Where an export goes: a file or folder on any filesystem that Hadoop reaches, under its name only when it is complete.

All is written next to the target under a temporary name that starts with `.`, and renamed at the end.
"""

from __future__ import annotations

import re
import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.errors import TargetError, reason_of
from lakehouse.store.internals.hadoop import filesystem_of
from lakehouse.store.localpaths import refuse_target
from lakehouse.store.session import absolute_location

_BELOW = re.compile(r"\A[A-Za-z][A-Za-z0-9+.\-]*:(//[^/]+)?/+[^/]")  # there is a name below the root of a filesystem


class Target:
    """A file, or a folder of files, that appears when all of it is written.

    Attributes:
        location: what the user named.
        replace: a folder that holds an earlier export gives way to this one, whole; files are always replaced.
        suffix: what names of exported files end with: a folder with others is no earlier export.
        scratch: URI of a folder next to it for parts; removed at the end.
    """

    def __init__(
        self, spark: SparkSession, location: str, *, is_folder: bool, replace: bool = False, suffix: str = ".json"
    ) -> None:
        self.location = location
        self.is_folder = is_folder
        self.replace = replace
        self.suffix = suffix
        self._streams: dict[int, tuple[str, Any]] = {}  # by thread, since several files may be written at once: a part, opened
        wanted = absolute_location(location).rstrip("/")
        with self._raising_target_errors():
            # A local file gets no checksum file next to it.
            self._fs = filesystem_of(spark, wanted, checksums=False, on_client=True)
            self._path = self._fs.qualified(wanted)
        above, _, name = self._path.rpartition("/")
        if not name or not _BELOW.search(self._path):
            raise TargetError(location, "the root of a filesystem is not a place for an export. Name a file or folder in it.")
        self._parent = f"{above}/"
        token = uuid.uuid4().hex[:12]
        self._parts, self._growing, self._earlier = (
            f"{above}/.{name}.{token}.{kind}" for kind in ("parts", "growing", "earlier")
        )
        self.scratch = self._parts

    def __enter__(self) -> Target:
        """Check that the target can be written.

        Raises:
            TargetError: it cannot, or a folder is there and not empty, or what it holds is not an export.
        """
        with self._raising_target_errors():
            result = self._fs.entry(self._path)
            if result is not None:
                is_folder = result.is_folder
                holds = is_folder and not self.replace and bool(self._fs.members(self._path))
                refuse_target(self.location, to_folder=self.is_folder, is_folder=is_folder, holds_something=holds)
                if is_folder and self.replace:
                    self._check_that_only_exports_go()
            self._fs.make_folder(self._parent)
            if not self._fs.make_folder(self._parts):
                raise TargetError(self.location, "cannot be written next to it")
            if self.is_folder:
                self._fs.make_folder(self._growing)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Remove what is temporary; without an error all of the target is there by then."""
        for _, stream in self._streams.values():
            stream.close()
        for path in (self._parts, self._growing):
            self._fs.remove(path)

    def write_part(self, lines: Iterable[str]) -> None:
        """Write the only part, as Spark would: each line ends with a newline."""
        with self._raising_target_errors():
            stream = self._fs.create(f"{self._parts}/part-0")
            try:
                for line in lines:
                    stream.write(f"{line}\n".encode())
            finally:
                stream.close()

    def parts(self) -> list[str]:
        """Return the names of the parts that Spark wrote, in order."""
        names = [_name(entry.uri) for entry in self._fs.members(self._parts)]
        return sorted(name for name in names if name.startswith("part-"))

    def last_line(self, part: str, digits: int) -> bytes:
        """Read the last line of a part without the digits at its end, which show its length."""
        path = f"{self._parts}/{part}"
        entry = self._fs.entry(path)
        length = 0 if entry is None else entry.size
        size = int(self._fs.read(path, length - digits - 1))
        return self._fs.read(path, length - digits - 1 - size)[:size]

    @contextmanager
    def file(self, name: str) -> Iterator[TargetFile]:
        """Open a file to write: of a folder the one with this name."""
        growing = f"{self._growing}/{name}" if self.is_folder else self._growing
        with self._raising_target_errors():
            stream = self._fs.create(growing)
        try:
            yield TargetFile(self, stream)
        finally:
            stream.close()

    def publish(self) -> None:
        """Rename the complete target to its final name."""
        with self._raising_target_errors():
            aside = self.is_folder and self._fs.exists(self._path)
            if aside:
                self._rename(self._path, self._earlier, "the earlier export could not be moved aside")
            if not self.is_folder and not self._fs.is_local:  # a rename on a local disk replaces a file in one step
                self._fs.remove(self._path)
            try:
                self._rename(self._growing, self._path, "the file written next to it could not be renamed to it")
            except Exception:
                if aside:
                    message = "neither the export nor the earlier one could be renamed to it; that one is "
                    self._rename(self._earlier, self._path, message + self._earlier)
                raise
            if aside:
                self._fs.remove(self._earlier)

    def copy(self, part: str, offset: int, length: int, into: Any) -> None:
        """Copy bytes of a part; each thread holds one part open, since it goes from part to part."""
        thread = threading.get_ident()
        opened, source = self._streams.get(thread, ("", None))
        if opened != part:
            if source is not None:
                source.close()
            source = self._fs.open(f"{self._parts}/{part}")
            self._streams[thread] = (part, source)
        source.seek(offset)
        with self._raising_target_errors():
            self._fs.copy(source, length, into)

    def _rename(self, source: str, target: str, problem: str) -> None:
        """Rename.

        Raises:
            TargetError: it was not renamed.
        """
        if not self._fs.rename(source, target):
            raise TargetError(self.location, problem)

    def _check_that_only_exports_go(self) -> None:
        """Check that a folder has only files that an export wrote: a wrong name must not delete others."""
        for name in (_name(entry.uri) for entry in self._fs.files_below(self._path)):
            if not name.endswith(self.suffix):
                raise TargetError(self.location, f"the folder holds {name}, which no export wrote. Name another one.")

    @contextmanager
    def _raising_target_errors(self) -> Iterator[None]:
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
        self._stream.write(text)
        self.size += len(text)

    def copy(self, part: str, offset: int, length: int) -> None:
        """Append bytes of a part."""
        self._target.copy(part, offset, length, self._stream)
        self.size += length


def _name(uri: str) -> str:
    return uri.rpartition("/")[2]
