"""What is acknowledged is on the disk first: files and the folders that name them are synced, on local file systems.

A file survives a power cut when its bytes *and* the entry in its folder were synced. Of a Delta table the order is: part files,
the folder of the table, commit files, `_delta_log`. So whatever survives, no commit names a part that does not. An object store
acknowledges what it keeps, and needs nothing.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from lakehouse.settings import Settings
from lakehouse.store.localpaths import local_path

_COMMIT = re.compile(r"\d{20}\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\..*")
_POINTER = "_last_checkpoint"


def sync(path: Path) -> None:
    """Write a file, or the entries of a folder, through to the disk.

    Raises:
        OSError: it cannot be written; nothing may be acknowledged.
    """
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_with_folder(path: Path) -> None:
    """Write a file through to the disk, and then its entry in the folder."""
    sync(path)
    sync(path.parent)


def replace_synced(aside: Path, target: Path) -> None:
    """Replace a file by a complete one: after a power cut, either the old or the new one is there, whole."""
    sync(aside)
    aside.replace(target)
    sync(target.parent)


def sync_tree(folder: Path) -> None:
    """Write all that is below a folder through to the disk, and the folder's own entry; what is deepest comes first."""
    for above, _, names in os.walk(folder, topdown=False):
        for name in names:
            sync(Path(above, name))
        sync(Path(above))
    sync(folder.parent)


def check_storage(location: str) -> None:
    """Check that files can be made in a folder; only a local file system is asked.

    Raises:
        OSError: the folder is gone, this process may not write to it, or the file system is full or read-only.
    """
    folder = local_path(location)
    if folder is None:
        return
    details = os.statvfs(folder)
    if not os.access(folder, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
    if details.f_blocks and not details.f_bavail:  # some file systems count no blocks
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


class Durable:
    """Syncs the commits of a Delta table; those that it has synced it passes over.

    Args:
        table: folder of the table, a path or a URI; nothing is done for one that is elsewhere than on a local file system.
        settings: `sync`; off leaves it to the system.
    """

    def __init__(self, table: str, settings: Settings) -> None:
        self._folder = local_path(table) if settings.sync else None
        self._last: int | None = None

    @property
    def is_wanted(self) -> bool:
        """Return whether commits of this table are synced."""
        return self._folder is not None

    def sync_commits(self) -> None:
        """Sync all commits that came since the last call; on the first call, since the newest checkpoint.

        Those of other processes are among them: the log without one of them would be no log.

        Raises:
            OSError: something cannot be written; nothing may be acknowledged.
        """
        if self._folder is None:
            return
        log = self._folder / "_delta_log"
        is_first = self._last is None
        commits = _since_checkpoint(log) if self._last is None else list(_following(log, self._last))
        if not commits:
            return
        for part in _parts(self._folder, commits):
            _sync_if_there(part)
        sync(self._folder)
        for commit in commits:
            _sync_if_there(commit)
            for beside in (commit.with_suffix(".crc"), commit.with_suffix(".checkpoint.parquet")):
                _sync_if_there(beside)
        _sync_if_there(log / _POINTER)
        sync(log)
        if is_first:  # the table itself may be new
            sync(self._folder.parent)
            sync(self._folder.parent.parent)
        self._last = int(commits[-1].stem)


def _since_checkpoint(log: Path) -> list[Path]:
    """List the commit files from that of the newest checkpoint on, in their order."""
    names = sorted(os.listdir(log))
    newest = max((match[1] for name in names if (match := _CHECKPOINT.fullmatch(name))), default="")
    return [log / name for name in names if _COMMIT.fullmatch(name) and name >= newest]


def _following(log: Path, version: int) -> Iterator[Path]:
    """Yield the commit files after a version, by their numbers: a log has too many files to list."""
    while (commit := log / f"{version + 1:020}.json").exists():
        yield commit
        version += 1


def _parts(folder: Path, commits: list[Path]) -> Iterator[Path]:
    """Yield the Parquet files that commits add, and the folders of their partitions."""
    folders = set()
    for commit in commits:
        for line in commit.read_bytes().splitlines():
            if line.startswith(b'{"add"'):
                part = folder / unquote(json.loads(line)["add"]["path"])
                folders.add(part.parent)
                yield part
    yield from sorted(folders - {folder}, reverse=True)


def _sync_if_there(path: Path) -> None:
    """Sync a file, and the checksum that Hadoop keeps of it; not one that is gone: whatever removed it has replaced it."""
    for file in (path, path.with_name(f".{path.name}.crc")):
        with contextlib.suppress(FileNotFoundError):
            sync(file)
