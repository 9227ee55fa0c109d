"""A request and its answer, as the parts of the API hand them on; pages of collections; texts as header values."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

import orjson

from lakehouse.readmodel import View
from lakehouse.serve.answer.catalog import Catalog
from lakehouse.serve.answer.filters import as_text, read_steps
from lakehouse.serve.answer.flags import NAMES, Flags
from lakehouse.serve.answer.found import Found, sorted_by
from lakehouse.serve.answer.live import Head
from lakehouse.serve.options import Options
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import Target

JSON = "application/json; charset=utf-8"
PRINTABLE = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"  # but for blank, quote and percent
_DIGITS_OF_DIGEST = 12


@dataclass
class Asked:
    """A request.

    Attributes:
        target: its path.
        query: as it came.
        raw_path: as it came.
        origin: scheme, host and path under which clients know `/`.
        arrived: when it came, by the monotonic clock.
    """

    target: Target
    query: bytes
    raw_path: str
    origin: str
    arrived: float = field(default_factory=time.monotonic)

    @property
    def base(self) -> str:
        """Give the URL of the registry."""
        return self.origin + self.target.prefix


@dataclass
class Answer:
    """What a request is answered with."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    media_type: str = JSON
    snapshot: int | None = None


Part = Callable[["Request"], Answer]


@dataclass
class Request:
    """What a part of the API works with."""

    asked: Asked
    parts: tuple[str, ...]
    flags: Flags
    dialect: str
    catalog: Catalog
    view: View | None
    options: Options
    head: Head
    source: str
    max_chain_depth: int


def page_of(request: Request, answer: Answer, found: list[Any]) -> list[Any]:
    """Sort the members of a collection, and cut out the page that is asked for; the answer gets the links to the others."""
    flags = request.flags
    if flags.sort is not None and (not found or isinstance(found[0], Found)):
        found = sorted_by(found, flags.sort, read_steps(flags.sort[0]), request.catalog)
    if flags.limit is None:
        return found
    offset = read_page(flags.page, request.asked.target.path)[2] if flags.page else 0
    number = request.view.snapshot_id if request.view is not None else 0
    started = request.catalog.key[0][:_DIGITS_OF_DIGEST] if number else ""
    limit, count = flags.limit, len(found)
    last = max(0, (count - 1) // limit * limit)
    offsets = {"next": offset + limit, "prev": max(0, offset - limit), "first": 0, "last": last}
    if offset + limit >= count:
        del offsets["next"]
    if not offset:
        del offsets["prev"]
    given = [(name, value) for name, value in flags.given if name in NAMES and name != "page"]
    links = []
    for name, start in offsets.items():
        token = base64.urlsafe_b64encode(orjson.dumps([number, started, start])).decode().rstrip("=")
        url = f"{request.asked.origin}{request.asked.raw_path}?{urlencode([*given, ('page', token)])}"
        links.append(f"<{url}>;rel={name};count={count}")
    answer.headers["Link"] = ", ".join(links)
    return found[offset : offset + limit]


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
