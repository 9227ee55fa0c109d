"""Where the read model of a warehouse is: files in the cache folder that may be deleted at any time.

A file is made whole under its own name, and then a small pointer is put in its place, in one step. So whoever reads has a
whole file, and a process that dies while it builds leaves only a file that the next one sweeps away. One process at a time
builds or brings a file forward: it holds a lock that the system releases when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from platformdirs import user_cache_path

_REMOTE = re.compile(r"\A[A-Za-z][A-Za-z0-9+.\-]*:")
_SWEEP_AFTER = 600.0  # seconds: nobody who has read the pointer is still about to open the file


def location_of(warehouse: str) -> str:
    """Return a warehouse's folder as an absolute path, a URI as it is; `file:` URIs are paths."""
    if warehouse.startswith("file:"):
        return str(Path(re.sub(r"\Afile:/*", "/", warehouse)).absolute())
    return warehouse.rstrip("/") if _REMOTE.match(warehouse) else str(Path(warehouse).absolute())


def is_remote(location: str) -> bool:
    """Return whether a location is a URI, and no path."""
    return _REMOTE.match(location) is not None


class ModelFiles:
    """The files of one warehouse's read model.

    Args:
        location: of the warehouse, as from `location_of`.
        folder: where read models are, setting `readmodel_dir`; empty: the user's cache folder.
    """

    def __init__(self, location: str, folder: str = "") -> None:
        self.folder = Path(folder).absolute() if folder else user_cache_path("xregistry-lakehouse") / "readmodel"
        self.name = hashlib.sha256(location.encode()).hexdigest()[:24]
        self.pointer = self.folder / f"{self.name}.current"

    def current(self) -> Path | None:
        """Return the file to read; None: there is none."""
        try:
            named = self.pointer.read_text(encoding="utf-8").strip()
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        file = self.folder / named
        is_model_file = named.startswith(self.name) and named.endswith(".sqlite") and "/" not in named
        return file if is_model_file and file.is_file() else None

    def fresh(self) -> Path:
        """Return a name for a file to be built."""
        self.make_folder()
        return self.folder / f"{self.name}-{time.time_ns():x}-{os.getpid()}.sqlite"

    def publish(self, file: Path) -> None:
        """Replace the file that is read by a complete one."""
        aside = self.pointer.with_suffix(f".{os.getpid()}.next")
        aside.write_text(file.name, encoding="utf-8")
        aside.chmod(0o600)
        os.replace(aside, self.pointer)

    def discard(self, file: Path) -> None:
        """Remove a damaged file, unless another process has replaced it."""
        if self.current() == file:
            self.pointer.unlink(missing_ok=True)

    def sweep(self) -> None:
        """Delete files that nobody reads any more; the caller holds the lock."""
        current = self.current()
        current_stem = current.name if current else ""
        for file in self.folder.glob(f"{self.name}-*.sqlite*"):
            try:
                if (
                    not (current_stem and file.name.startswith(current_stem))
                    and time.time() - file.stat().st_mtime > _SWEEP_AFTER
                ):
                    file.unlink()
            except FileNotFoundError:
                continue

    @contextmanager
    def lock(self, of: str = "") -> Iterator[None]:
        """Wait until no other process builds or follows, and keep others from it.

        Args:
            of: which file, where it is not the read model.
        """
        self.make_folder()
        descriptor = os.open(self.folder / f"{self.name}{of}.lock", os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def make_folder(self) -> None:
        """Make the folder, for its owner only."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
