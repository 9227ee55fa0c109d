"""A request and its answer: which registry, dialect and snapshot it means; pages of collections; texts as header values."""

from __future__ import annotations

import base64
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import orjson

from lakehouse.errors import SnapshotNotFound
from lakehouse.readmodel import View
from lakehouse.serve.answer.entityviews import SnapshotCatalog
from lakehouse.serve.answer.live import ServedHead, SnapshotWatcher
from lakehouse.serve.answer.queryparameters import NAMES, AdmittedEntity, Flags, as_text, read_parameters, read_steps, sorted_by
from lakehouse.serve.apierrors import RC2, RC4, ProblemFound
from lakehouse.serve.config import Options
from lakehouse.serve.targets import RequestTarget, mount_of
from lakehouse.text.names import RegistryId

JSON = "application/json; charset=utf-8"
PRINTABLE = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # but for blank, quote and percent
_DIGITS_OF_DIGEST = 12
_PATCH_NUMBER = re.compile(r"\A([0-9]+\.[0-9]+)\.[0-9]+(?=-|\Z)")  # of a version: it does not count (core, SpecVersion flag)


@dataclass
class ApiRequest:
    """A request.

    Attributes:
        target: its path.
        query: as it came.
        raw_path: as it came.
        origin: scheme, host and path under which clients know `/`.
        arrived: when it came, by the monotonic clock.
        method: GET also for HEAD.
        body: of a request whose answer depends on it.
    """

    target: RequestTarget
    query: bytes
    raw_path: str
    origin: str
    arrived: float = field(default_factory=time.monotonic)
    method: str = "GET"
    body: bytes = b""

    @property
    def base(self) -> str:
        """Return the URL of the registry."""
        return self.origin + self.target.prefix


@dataclass
class ApiAnswer:
    """What a request is answered with."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    media_type: str = JSON
    snapshot: int | None = None


Part = Callable[["ReadRequest"], ApiAnswer]


@dataclass(kw_only=True)
class ReadRequest:
    """What a part of the API works with."""

    api_request: ApiRequest
    parts: tuple[str, ...]
    flags: Flags
    dialect: str
    catalog: SnapshotCatalog
    view: View | None
    options: Options
    head: ServedHead
    source: str
    max_chain_depth: int


def page_of(request: ReadRequest, answer: ApiAnswer, results: list[Any]) -> list[Any]:
    """Sort the members of a collection, and cut out the page that is asked for; the answer gets the links to the others."""
    flags = request.flags
    if flags.sort is not None and (not results or isinstance(results[0], AdmittedEntity)):
        results = sorted_by(results, flags.sort, read_steps(flags.sort[0]), request.catalog)
    if flags.limit is None:
        return results
    offset = read_page(flags.page, request.api_request.target.path)[2] if flags.page else 0
    number = request.view.snapshot_id if request.view is not None else 0
    started = request.catalog.key[0][:_DIGITS_OF_DIGEST] if number else ""
    limit, count = flags.limit, len(results)
    last = max(0, (count - 1) // limit * limit)
    offsets = {"next": offset + limit, "prev": max(0, offset - limit), "first": 0, "last": last}
    if offset + limit >= count:
        del offsets["next"]
    if not offset:
        del offsets["prev"]
    other_parameters = [(name, value) for name, value in flags.parameters if name in NAMES and name != "page"]
    links = []
    for name, start in offsets.items():
        token = base64.urlsafe_b64encode(orjson.dumps([number, started, start])).decode().rstrip("=")
        url = f"{request.api_request.origin}{request.api_request.raw_path}?{urlencode([*other_parameters, ('page', token)])}"
        links.append(f"<{url}>;rel={name};count={count}")
    answer.headers["Link"] = ", ".join(links)
    return results[offset : offset + limit]


def read_page(token: str, path: str) -> tuple[int, str, int]:
    """Read where a page begins: snapshot, the beginning of its digest, offset.

    Raises:
        ProblemFound: this server wrote no such token.
    """
    try:
        number, digest, offset = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        if not (
            isinstance(number, int) and isinstance(digest, str) and isinstance(offset, int) and number >= 0 <= offset < 2**53
        ):
            raise ValueError("of another shape")
    except (ValueError, TypeError) as error:
        raise ProblemFound("bad_request", path, error_detail='The flag "page" is not from a link of this server') from error
    return number, digest, offset


def header_value(value: Any, keep: str = "") -> str:
    """Write a text as a header's value: percent-encoded but for printable ASCII without blank, quote and percent."""
    return quote(as_text(value), safe=PRINTABLE + keep)


class RequestMeaning(NamedTuple):
    """What a request asks for: its parameters, the dialect, the registry."""

    parameters: list[tuple[str, str]]
    dialect: str
    registryid: RegistryId


class RequestResolver:
    """Finds out what requests mean, at the server as it is.

    Attributes:
        specifications: dialects that are served, the usual one first.
    """

    def __init__(self, live: SnapshotWatcher, options: Options) -> None:
        self.live = live
        self.specifications = (RC4, RC2) if options.specification == RC4 else (RC2,)

    def read(self, api_request: ApiRequest, head: ServedHead) -> RequestMeaning:
        """Return what a request means.

        Raises:
            ProblemFound: there is no such dialect or registry.
        """
        parameters = read_parameters(api_request.query)
        return RequestMeaning(parameters, self.dialect_of(parameters), self.registry_of(api_request, head))

    def dialect_of(self, parameters: list[tuple[str, str]]) -> str:
        """Return the dialect that a request asks for.

        Raises:
            ProblemFound: it is not served here.
        """
        wanted = next((value for name, value in parameters if name == "specversion"), None)
        if wanted is None:
            return self.specifications[0]
        named = _PATCH_NUMBER.sub(r"\1", wanted.lower())
        result = next((specification for specification in self.specifications if specification == named), None)
        if result is None:
            raise ProblemFound("unsupported_specversion", "/", specversion=wanted[:80], list=", ".join(self.specifications))
        return result

    def registry_of(self, api_request: ApiRequest, head: ServedHead) -> RegistryId:
        """Find the registry that is meant.

        Raises:
            ProblemFound: there is none; it names those that are there.
        """
        named = api_request.target.registry
        if named is not None:
            if api_request.target.at is None and named not in head.registries and named != self.live.root:
                raise ProblemFound("not_found", mount_of(named))
            return named
        if self.live.root is None:
            mounts = ", ".join(f"{api_request.origin}{mount_of(registryid)}/" for registryid in head.registries[:100])
            raise ProblemFound(
                "not_found", api_request.target.path, f"The catalog holds several registries, and none is the default: {mounts}"
            )
        return self.live.root

    def snapshot_of(
        self, api_request: ApiRequest, parameters: list[tuple[str, str]], head: ServedHead
    ) -> tuple[int | ApiAnswer, str]:
        """Find the snapshot that is meant: its number and what distinguishes it from others; or a redirection to the number.

        Raises:
            ProblemFound: there is none.
        """
        at = api_request.target.at
        if at is not None:
            if self.live.is_empty or not head.number:
                raise ProblemFound("not_found", f"/at/{at}", "The catalog has no snapshot yet.")
            try:
                number, digest = self.live.model.answer(lambda view: _resolved(view, at))
            except SnapshotNotFound as error:
                raise ProblemFound("not_found", f"/at/{at}", str(error)) from error
            if at != str(number):
                return _redirection(api_request, number), digest
            return number, digest
        page = next((value for name, value in parameters if name == "page"), None)
        if page is not None and head.number:
            number, started, _ = read_page(page, api_request.target.path)
            try:
                result, digest = self.live.model.answer(lambda view: _resolved(view, str(number)))
            except SnapshotNotFound as error:
                raise ProblemFound(
                    "bad_request", api_request.target.path, error_detail="The page is of a lost snapshot"
                ) from error
            if not digest.startswith(started):
                raise ProblemFound("bad_request", api_request.target.path, error_detail="The page is of a lost snapshot")
            return result, digest
        return head.number, head.digest


def _redirection(api_request: ApiRequest, number: int) -> ApiAnswer:
    rest = api_request.raw_path.split("/", 3)[3:]
    query = f"?{api_request.query.decode('ascii', 'replace')}" if api_request.query else ""
    location = f"{api_request.origin}/at/{number}{''.join('/' + part for part in rest)}{query}"
    return ApiAnswer(307, {"Location": quote(location, safe=PRINTABLE + "%"), "Cache-Control": "no-cache"})


def _resolved(view: View, text: str) -> tuple[int, str]:
    number = view.resolve(text)
    return number, str(view.commit_of(number)["digest"])
