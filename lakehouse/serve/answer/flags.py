"""The flags of a request, `?inline`, `?filter`, `?sort` and the others, read for where they stand.

A path of an inline or a filter is relative to the request: each level of the catalog knows what it may hold below it (LEVELS).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus

from lakehouse.serve.answer.filters import MOST_STEPS, Filter, read_filter, read_steps, split_expressions
from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import MEMBERS

_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_MOST_FILTERS = 50
_MOST_EXPRESSIONS = 300  # of all filters of a request: each entity is asked all of them
MOST_A_PAGE = 100_000
NAMES = frozenset({"inline", "filter", "sort", "doc", "collections", "binary", "specversion", "limit", "page"})
_FLAGS_WITHOUT_VALUE = ("doc", "collections", "binary")
_CONFIGURATION = ("capabilities", "model", "modelsource")

Inline = dict[str, Any]  # what is inlined at a level: name → what of it; "*": everything


@dataclass
class Flags:
    """What the query said.

    Attributes:
        inline: a tree of what is inlined.
        filters: any of them must hold; each is a list of expressions of which all must hold.
        sort: attribute and whether descending.
        doc, collections, binary: whether the flag was given.
        specversion: as given.
        limit: entities on a page.
        page: where a page begins, as a link of this server said.
        given: all parameters, as written.
    """

    inline: Inline = field(default_factory=dict)
    filters: list[Filter] = field(default_factory=list)
    sort: tuple[str, bool] | None = None
    doc: bool = False
    collections: bool = False
    binary: bool = False
    specversion: str | None = None
    limit: int | None = None
    page: str | None = None
    excludes_all: bool = False
    given: list[tuple[str, str]] = field(default_factory=list)


def read_parameters(query: bytes) -> list[tuple[str, str]]:
    """Split a query into names and values, decoded.

    Raises:
        ProblemFound: it is no UTF-8, or holds control characters.
    """
    found = []
    for one in query.split(b"&"):
        if not one:
            continue
        name, _, value = one.partition(b"=")
        try:
            pair = unquote_plus(name.decode(), errors="strict"), unquote_plus(value.decode(), errors="strict")
        except UnicodeDecodeError as error:
            raise ProblemFound("bad_request", error_detail="The query is not UTF-8") from error
        if any(map(_CONTROL.search, pair)):
            raise ProblemFound("bad_request", error_detail="The query holds control characters")
        found.append(pair)
    return found


def read_flags(parameters: list[tuple[str, str]], parts: tuple[str, ...], path: str) -> Flags:
    """Read the flags of a request; unknown parameters are ignored.

    Args:
        parameters: as from `read_parameters`.
        parts: of the path, which tell the level.
        path: for errors.

    Raises:
        ProblemFound: a flag is malformed, or does not go with this path.
    """
    flags = Flags(given=parameters)
    kind = kind_of(parts)
    for name, value in parameters:
        if name == "inline":
            for one in (value or "*").split(","):
                _inline(flags.inline, one, kind, path)
        elif name == "filter":
            _filter(flags, value, kind, path)
        elif name in _FLAGS_WITHOUT_VALUE:
            setattr(flags, name, value.lower() != "false")
        elif name in ("specversion", "page"):
            setattr(flags, name, value)
        elif name == "sort":
            flags.sort = _sort(value, parts, path)
        elif name == "limit":
            flags.limit = _limit(value, path)
    if flags.collections:
        if kind not in ("registry", *MEMBERS) or is_collection(parts):
            raise ProblemFound("bad_flag", path, flag="collections")
        flags.inline = {"*": {}} | flags.inline
    return flags


def _filter(flags: Flags, value: str, kind: str, path: str) -> None:
    """Read a filter; `excludeall` with any other expression is an error (1.0-rc4, core/spec.md, "Filter Flag")."""
    expressions = split_expressions(value)
    if len(expressions) + sum(map(len, flags.filters)) > _MOST_EXPRESSIONS:
        told = f"a request has at most {_MOST_EXPRESSIONS} expressions, in all its filters together"
        raise ProblemFound("bad_filter", path, value=value[:200], error_detail=told)
    flags.excludes_all |= "excludeall" in expressions
    if value != "excludeall":
        flags.filters.append(read_filter(value, _holds(kind), path))
    if flags.excludes_all and flags.filters:
        raise ProblemFound("bad_filter", path, value="excludeall", error_detail="it cannot be combined")
    if len(flags.filters) > _MOST_FILTERS:
        raise ProblemFound("bad_filter", path, value="...", error_detail=f"there are more than {_MOST_FILTERS} of them")


def kind_of(parts: tuple[str, ...]) -> str:
    """Tell what a path names, for flags.

    Returns:
        `registry`, a Group type (a Group of it, or the collection), `messages`, `schemas` (a Resource, or the collection),
        `versions` (a Version, or the collection), or `meta`.
    """
    if not parts:
        return "registry"
    if len(parts) <= 2:
        return parts[0]
    if len(parts) <= 4:
        return parts[2]
    return parts[4]


def is_collection(parts: tuple[str, ...]) -> bool:
    """Tell whether a path names a collection, and not an entity."""
    return len(parts) in (1, 3, 5) and parts[-1] != "meta"


def _holds(kind: str) -> tuple[str, ...]:
    """Give the collections below a level."""
    if kind == "registry":
        return tuple(MEMBERS)
    if kind in MEMBERS:
        return (MEMBERS[kind],)
    return ("versions",) if kind in ("messages", "schemas") else ()


def _inlineable(kind: str, resources: str = "") -> dict[str, tuple[str, str]]:
    """Give what may be inlined at a level, and the level below it: name → (level, type of the Resources there)."""
    below: dict[str, tuple[str, str]] = {name: (name, resources) for name in _holds(kind)}
    if kind == "registry":
        below |= dict.fromkeys(_CONFIGURATION, ("", ""))
    elif kind in ("messages", "schemas"):
        below = {"versions": ("versions", kind), "meta": ("", "")}
        if kind == "schemas":
            below["schema"] = ("", "")
    elif kind == "versions" and resources == "schemas":
        below["schema"] = ("", "")
    return below


def _inline(tree: Inline, written: str, kind: str, path: str) -> None:
    resources = path.split("/")[3] if kind == "versions" else ""
    tokens = written.split(".")
    here = tree
    for position, name in enumerate(tokens):
        if name == "*":
            if position + 1 < len(tokens):
                raise ProblemFound("bad_inline", path, value=written, error_detail='"*" is the last part of a path only')
            if not _inlineable(kind, resources) and position:
                raise ProblemFound("bad_inline", path, value=written, error_detail="there is nothing below it")
            here["*"] = {}
            return
        known = _inlineable(kind, resources)
        if name not in known:
            told = ", ".join(sorted(known)) or "nothing"
            raise ProblemFound("bad_inline", path, value=written, error_detail=f"what can be inlined here is: {told}")
        kind, resources = known[name]
        here = here.setdefault(name, {})


def _sort(value: str, parts: tuple[str, ...], path: str) -> tuple[str, bool]:
    if not is_collection(parts):
        raise ProblemFound("sort_noncollection", path)
    attribute, _, order = value.partition("=")
    if order.lower() not in ("", "asc", "desc"):
        raise ProblemFound("bad_sort", path, value=value[:200], error_detail='the order is "asc" or "desc"')
    steps = read_steps(attribute)
    if not steps or steps[0] in _holds(kind_of(parts)):
        raise ProblemFound("bad_sort", path, value=value[:200], error_detail="name an attribute of the collection's entities")
    if len(steps) > MOST_STEPS:
        raise ProblemFound("bad_sort", path, value=value[:200], error_detail=f"it has more than {MOST_STEPS} parts")
    return attribute, order.lower() == "desc"


def _limit(value: str, path: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", value) or not 1 <= int(value) <= MOST_A_PAGE:
        raise ProblemFound("bad_request", path, error_detail=f'The flag "limit" is a number from 1 to {MOST_A_PAGE}')
    return int(value)
