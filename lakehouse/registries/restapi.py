"""A schema registry is read over its REST API: versions page by page, levels and modes of each subject.

What is read is whole, or an error: if the registry changes between two pages, reading starts again. The answers of a read that
was cut off are in a file of the cache folder: the next read asks only for the rest.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BufferedRandom
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

from lakehouse.domain.subjects import context_of
from lakehouse.errors import ReplicationError
from lakehouse.readmodel.file.place import ModelFiles, location_of
from lakehouse.registries.subjectdocuments import GLOBAL, RegistryContent, SubjectVersion, version_of
from lakehouse.replicate.client import Client, RequestRefused
from lakehouse.settings import Settings
from lakehouse.text.jsontext import NotJson, as_read, read_json

T = TypeVar("T")
R = TypeVar("R")
_PAGE = 1000  # versions; a registry may give fewer
_AT_ONCE = 8
_READS = 4  # of a registry that changes while it is read
_MISSING = (404, 405, 501)
_EVERY = "subjectPrefix=:*:"  # in all contexts
_FRESH = 3600.0  # seconds: older answers are asked for again


class RestReader:
    """Reads one registry.

    Args:
        client: sends the requests.
        answers: of a read that was not finished.
    """

    def __init__(self, client: Client, answers: UnfinishedRead | None = None) -> None:
        self._client = client
        self._answers = answers or UnfinishedRead()
        self._base = client.address.url

    def read(self, *, with_deleted: bool = False) -> RegistryContent:
        """Read everything.

        Args:
            with_deleted: also what was soft-deleted.

        Raises:
            ReplicationError: it cannot be read as a whole.
        """
        versions = self._versions("")
        if with_deleted:
            living = {(version.subject, version.version) for version in versions}
            every = self._versions("&deleted=true")
            versions = [version._replace(is_deleted=(version.subject, version.version) not in living) for version in every]
        subjects = sorted({version.subject for version in versions})
        contexts = sorted({context for subject in subjects if (context := context_of(subject)[0])})
        named = [*(f":.{context}:" for context in contexts), *subjects]
        levels = self._settings("config", "compatibilityLevel", named)
        return RegistryContent(versions, levels, self._settings("mode", "mode", named))

    def _versions(self, more: str) -> list[SubjectVersion]:
        try:
            versions = next((pages for _ in range(_READS) if (pages := self._pages(more)) is not None), None)
        except RequestRefused as refused:
            if refused.status not in _MISSING:
                raise
            versions = self._by_subject(more)
        if versions is None:
            reason = f"it changed each of the {_READS} times that it was read; try again when it is quieter."
            raise ReplicationError(self._base, reason)
        twice = [key for key, count in Counter((version.subject, version.version) for version in versions).items() if count > 1]
        if twice:
            text = (
                f"its answer has {twice[0][0]} version {twice[0][1]} more than once: the answer may be that of a cache or proxy. "
                "Name the URL of the registry itself, or load its topic (confluent+file:PATH)."
            )
            raise ReplicationError(self._base, text)
        return versions

    def _pages(self, more: str) -> list[SubjectVersion] | None:
        """Read all versions, page by page; None: they changed meanwhile.

        Each page begins with the last version of the page before: another one there shows a change.
        """
        versions: list[SubjectVersion] = []
        while True:
            offset = max(len(versions) - 1, 0)
            url = f"{self._base}schemas?{_EVERY}{more}&offset={offset}&limit={_PAGE}"
            page = [self._version(url, value) for value in self._array(url)]
            if offset and page == versions:  # it knows no pages, and answered with everything again
                return versions
            if offset and page[:1] != versions[-1:]:
                self._answers.forget()
                return None
            versions += page[1:] if offset else page
            if len(page) < 2:
                return versions

    def _by_subject(self, more: str) -> list[SubjectVersion]:
        """Read versions from a registry that has no `GET /schemas`."""
        query = more.removeprefix("&")
        versions: list[SubjectVersion] = []
        for subject in self._array(f"{self._base}subjects?{_EVERY}{more}"):
            base = f"{self._base}subjects/{quote(str(subject), safe='')}/versions"
            urls = [f"{base}/{number}?{query}" for number in self._array(f"{base}?{query}")]
            versions += self._at_once(lambda url: self._version(url, self._answer(url)), urls)
        return versions

    def _settings(self, path: str, member: str, names: list[str]) -> dict[str, str]:
        """Read levels or modes: that of all, and those that contexts and subjects have themselves."""
        urls = {GLOBAL: f"{self._base}{path}"} | {name: f"{self._base}{path}/{quote(name, safe='')}" for name in names}
        values = self._at_once(lambda url: self._setting(url, member, is_global=url == urls[GLOBAL]), urls.values())
        return {name: value for name, value in zip(urls, values, strict=True) if value is not None}

    def _setting(self, url: str, member: str, *, is_global: bool) -> str | None:
        value = self._answers.get(url, lambda: self._existing(url))
        if value is None or (not is_global and isinstance(value, dict) and value.get(member) is None):
            return None  # it sets another member, or nothing
        text = value.get(member) if isinstance(value, dict) else None
        if not isinstance(text, str):
            raise ReplicationError(url, f"its answer has no `{member}`. Is this a schema registry?")
        return text

    def _existing(self, url: str) -> Any:
        """Return an answer; None: there is nothing there."""
        try:
            return self._client.json(url)
        except RequestRefused as refused:
            if refused.status not in _MISSING:
                raise
            return None

    def _answer(self, url: str) -> Any:
        return self._answers.get(url, lambda: self._client.json(url))

    def _at_once(self, function: Callable[[T], R], values: Iterable[T]) -> list[R]:
        with ThreadPoolExecutor(_AT_ONCE, "lakehouse-registry") as threads:
            return list(threads.map(function, values))

    def _array(self, url: str) -> list[Any]:
        value = self._answer(url)
        if not isinstance(value, list):
            raise ReplicationError(url, "its answer is no array. Is this a schema registry?")
        return value

    def _version(self, url: str, value: Any) -> SubjectVersion:
        try:
            return version_of(value)
        except ValueError as error:
            raise ReplicationError(url, f"{error}. Is this a schema registry?") from error


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
