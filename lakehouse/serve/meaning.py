"""What a request means: which registry, in which dialect, at which snapshot."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote

from lakehouse.errors import SnapshotNotFound
from lakehouse.readmodel import View
from lakehouse.serve.answer.asking import PRINTABLE, Answer, Asked, read_page
from lakehouse.serve.answer.flags import read_parameters
from lakehouse.serve.answer.live import Head, Live
from lakehouse.serve.options import Options
from lakehouse.serve.problems import RC2, RC4, ProblemFound
from lakehouse.serve.requests import mount_of
from lakehouse.text.names import RegistryId

_PATCH_NUMBER = re.compile(r"\A([0-9]+\.[0-9]+)\.[0-9]+(?=-|\Z)")  # of a version: it does not count (core, SpecVersion flag)


class Meaning(NamedTuple):
    """What a request asks for: its parameters, the dialect, the registry."""

    parameters: list[tuple[str, str]]
    dialect: str
    registryid: RegistryId


class Meanings:
    """Finds out what requests mean, at the server as it is.

    Attributes:
        specifications: dialects that are served, the usual one first.
    """

    def __init__(self, live: Live, options: Options) -> None:
        self.live = live
        self.specifications = (RC4, RC2) if options.specification == RC4 else (RC2,)

    def of(self, asked: Asked, head: Head) -> Meaning:
        """Tell what a request means.

        Raises:
            ProblemFound: there is no such dialect or registry.
        """
        parameters = read_parameters(asked.query)
        return Meaning(parameters, self.dialect_of(parameters), self.registry_of(asked, head))

    def dialect_of(self, parameters: list[tuple[str, str]]) -> str:
        """Give the dialect that a request asks for.

        Raises:
            ProblemFound: it is not served here.
        """
        wanted = next((value for name, value in parameters if name == "specversion"), None)
        if wanted is None:
            return self.specifications[0]
        named = _PATCH_NUMBER.sub(r"\1", wanted.lower())
        found = next((one for one in self.specifications if one == named), None)
        if found is None:
            raise ProblemFound("unsupported_specversion", "/", specversion=wanted[:80], list=", ".join(self.specifications))
        return found

    def registry_of(self, asked: Asked, head: Head) -> RegistryId:
        """Find the registry that is meant.

        Raises:
            ProblemFound: there is none; it names those that are there.
        """
        named = asked.target.registry
        if named is not None:
            if asked.target.at is None and named not in head.registries and named != self.live.root:
                raise ProblemFound("not_found", mount_of(named))
            return named
        if self.live.root is None:
            mounts = ", ".join(f"{asked.origin}{mount_of(one)}/" for one in head.registries[:100])
            raise ProblemFound(
                "not_found", asked.target.path, f"The catalog holds several registries, and none is the default: {mounts}"
            )
        return self.live.root

    def snapshot_of(self, asked: Asked, parameters: list[tuple[str, str]], head: Head) -> tuple[int | Answer, str]:
        """Find the snapshot that is meant: its number and what tells it from others; or a redirection to the number.

        Raises:
            ProblemFound: there is none.
        """
        at = asked.target.at
        if at is not None:
            if self.live.is_empty or not head.number:
                raise ProblemFound("not_found", f"/at/{at}", "The catalog has no snapshot yet.")
            try:
                number, digest = self.live.model.answer(lambda view: _resolved(view, at))
            except SnapshotNotFound as error:
                raise ProblemFound("not_found", f"/at/{at}", str(error)) from error
            if at != str(number):
                return _redirection(asked, number), digest
            return number, digest
        page = next((value for name, value in parameters if name == "page"), None)
        if page is not None and head.number:
            number, started, _ = read_page(page, asked.target.path)
            try:
                found, digest = self.live.model.answer(lambda view: _resolved(view, str(number)))
            except SnapshotNotFound as error:
                raise ProblemFound("bad_request", asked.target.path, error_detail="The page is of a lost snapshot") from error
            if not digest.startswith(started):
                raise ProblemFound("bad_request", asked.target.path, error_detail="The page is of a lost snapshot")
            return found, digest
        return head.number, head.digest


def _redirection(asked: Asked, number: int) -> Answer:
    rest = asked.raw_path.split("/", 3)[3:]
    query = f"?{asked.query.decode('ascii', 'replace')}" if asked.query else ""
    location = f"{asked.origin}/at/{number}{''.join('/' + one for one in rest)}{query}"
    return Answer(307, {"Location": quote(location, safe=PRINTABLE + "%"), "Cache-Control": "no-cache"})


def _resolved(view: View, text: str) -> tuple[int, str]:
    number = view.resolve(text)
    return number, str(view.commit_of(number)["digest"])
