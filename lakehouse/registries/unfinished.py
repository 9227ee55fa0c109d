"""Answers of a read that was not finished, in a file of the cache folder: the next read asks only for the rest."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import Any

from lakehouse.readmodel.file.place import ModelFiles, location_of
from lakehouse.settings import Settings
from lakehouse.text.jsontext import NotJson, as_read, read_json

_FRESH = 3600.0  # seconds: older answers are asked for again


class UnfinishedRead:
    """Answers by URL, each written as soon as it is there. Threads may share it.

    Args:
        file: opened to read and to write; the answers that it holds are taken, up to where it was cut off. None: none are stored.
        depth: levels of nesting that an answer may have.
    """

    def __init__(self, file: BufferedRandom | None = None, depth: int = 64) -> None:
        self._file = file
        self._answers: dict[str, Any] = {}
        self._guard = threading.Lock()
        if file is not None:
            self._read(file, depth + 1)

    def _read(self, file: BufferedRandom, depth: int) -> None:
        file.seek(0)
        end = 0
        for line in file:
            try:
                url, moment, value = read_json(line, depth)[0]
            except (NotJson, ValueError, TypeError):  # the process was killed while it wrote this line
                break
            end += len(line)
            if 0 <= time.time() - float(moment) < _FRESH:
                self._answers[url] = value
        file.seek(end)
        file.truncate()

    def get(self, url: str, ask: Callable[[], Any]) -> Any:
        """Return the answer to a request: one that is stored, else a new one.

        Args:
            url: of the request.
            ask: sends it, and returns a JSON value; what it raises is not stored.
        """
        if url in self._answers:
            return self._answers[url]
        value = ask()
        if self._file is not None:
            with self._guard:
                self._file.write(as_read([url, time.time(), value]) + b"\n")
                self._file.flush()
        return value

    def forget(self) -> None:
        """Drop all answers: what they describe has changed."""
        self._answers.clear()
        if self._file is not None:
            with self._guard:
                self._file.seek(0)
                self._file.truncate()


@contextmanager
def unfinished_read(settings: Settings, url: str) -> Iterator[UnfinishedRead]:
    """Open the answers of an unfinished read; afterwards they are deleted, unless the registry or this process fell silent.

    While another process reads the same registry, this one stores nothing.

    Args:
        settings: the warehouse, and `readmodel_dir`, the folder of such files.
        url: of the registry.
    """
    from lakehouse.replicate.client import RequestStumbled  # noqa: PLC0415  urllib3 is there with the extra `replicate` only

    place = ModelFiles(location_of(settings.warehouse), settings.readmodel_dir)
    path = place.folder / f"{place.name}-{hashlib.sha256(url.encode()).hexdigest()[:16]}.answers.jsonl"
    file = _locked(place, path)
    if file is None:
        yield UnfinishedRead()
        return
    is_whole = True
    try:
        yield UnfinishedRead(file, settings.max_json_depth)
    except (RequestStumbled, KeyboardInterrupt, SystemExit):
        is_whole = file.tell() == 0  # nothing was answered: there is nothing to go on with
        raise
    finally:
        if is_whole:
            path.unlink(missing_ok=True)
        file.close()


def _locked(place: ModelFiles, path: Path) -> BufferedRandom | None:
    """Open a file for this process alone; None: another one has it."""
    place.make_folder()
    file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b")
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file
    file.close()
    return None
