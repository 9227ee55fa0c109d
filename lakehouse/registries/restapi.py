"""A schema registry is read over its REST API: versions page by page, levels and modes of each subject.

What is read is whole, or an error: if the registry changes between two pages, reading starts again. A read that was cut off goes
on with the answers that it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar
from urllib.parse import quote

from lakehouse.domain.subjects import context_of
from lakehouse.errors import ReplicationError
from lakehouse.registries.subjectdocuments import GLOBAL, RegistryContent, SubjectVersion, version_of
from lakehouse.registries.unfinished import UnfinishedRead
from lakehouse.replicate.client import Client, RequestRefused

T = TypeVar("T")
R = TypeVar("R")
_PAGE = 1000  # versions; a registry may give fewer
_AT_ONCE = 8
_READS = 4  # of a registry that changes while it is read
_MISSING = (404, 405, 501)
_EVERY = "subjectPrefix=:*:"  # in all contexts


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
        values = self._at_once(lambda url: self._setting(url, member), urls.values())
        return {name: value for name, value in zip(urls, values, strict=True) if value is not None}

    def _setting(self, url: str, member: str) -> str | None:
        value = self._answers.get(url, lambda: self._existing(url))
        if value is None:
            return None
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
