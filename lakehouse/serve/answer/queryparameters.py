"""`?filter`, `?sort`, `?inline` and the other flags: read for their level of the catalog, and applied to its entities.

An expression of a filter is `[path.]attribute`, an operator and a value; its path leads through collections, the rest through the
entity's own members (`labels.stage`, `meta.readonly`, `['my.name']`, `[2]`, `.*`, `[*]`). A missing attribute never matches, but
for `=null` and `!=`. Texts are compared without regard to case, `*` means any characters. A path of an inline or a filter is
relative to the request: each level of the catalog knows what it may hold below it (LEVELS).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import quote, unquote_plus

from lakehouse.serve.answer.entityviews import ABSOLUTE, GroupView, ResourceView, SnapshotCatalog
from lakehouse.serve.apierrors import RC4, ProblemFound
from lakehouse.serve.targets import MEMBERS, quote_path
from lakehouse.text.names import Xid
from lakehouse.text.timestamps import microseconds

Step = str | int
ANY = -1  # the step `.*` or `[*]`
_OPERATORS = re.compile(r"!=|<>|<=|>=|=|<|>")
_TOKEN = re.compile(
    r"""
    \.?(?P<name>[^.\[\]=!<>'"]+)
    | \.?\[\s*(?:(?P<index>[0-9]{1,9}) | (?P<all>\*) | '(?P<single>[^']*)' | "(?P<double>[^"]*)")\s*\]
    """,
    re.VERBOSE,
)
_TIMESTAMP = re.compile(r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt]")
_INTEGER = re.compile(r"-?[0-9]{1,400}")
_DECIMAL = re.compile(r"-?[0-9]{1,400}(\.[0-9]{1,400})?([eE][+-]?[0-9]{1,5})?")
MOST_STEPS = 20
_MOST_STARS = 10
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_MOST_FILTERS = 50
_MOST_EXPRESSIONS = 300  # of all filters of a request: each entity is asked all of them
MOST_A_PAGE = 100_000
NAMES = frozenset({"inline", "filter", "sort", "doc", "collections", "binary", "specversion", "limit", "page"})
_FLAGS_WITHOUT_VALUE = ("doc", "collections", "binary")
_CONFIGURATION = ("capabilities", "model", "modelsource")
Inline = dict[str, Any]  # what is inlined at a level: name → what of it; "*": everything


class Expression(NamedTuple):
    """An expression.

    Attributes:
        path: collections on the way to the entity.
        steps: to the attribute in it.
        test: whether the values there (none: the attribute is missing) match.
        text: as written below `path`.
    """

    path: tuple[str, ...]
    steps: tuple[Step, ...]
    test: Callable[[list[Any]], bool]
    text: str


Filter = list[Expression]


def read_filter(written: str, holds: tuple[str, ...], subject: str) -> Filter:
    """Read the value of a `?filter`: expressions of which all must hold.

    Args:
        written: the expressions, with commas between them.
        holds: collections that are at the level of the request.
        subject: the request's path, for errors.

    Raises:
        ProblemFound: it is malformed.
    """
    return [_expression(text, holds, written, subject) for text in split_expressions(written)]


def filters_below(filters: list[Filter], collection: str) -> list[Filter]:
    """Return what filters ask of the members of a collection; a filter that leads elsewhere too admits nothing there."""
    leading = [expressions for expressions in filters if all(expression.path[:1] == (collection,) for expression in expressions)]
    return [[expression._replace(path=expression.path[1:]) for expression in expressions] for expressions in leading]


def admitted_filters(entity: dict[str, Any], filters: list[Filter], as_shown: Callable[[Any], Any]) -> list[Filter]:
    """Return the filters that an entity's own attributes fulfil, with what they require of its members.

    Args:
        entity: its attributes.
        filters: what is asked.
        as_shown: gives a value as clients see it.
    """
    return [
        [expression for expression in expressions if expression.path]
        for expressions in filters
        if all(
            expression.path or expression.test([as_shown(value) for value in values_at(entity, expression.steps)])
            for expression in expressions
        )
    ]


def as_query(filters: list[Filter]) -> list[str]:
    """Write filters as values of `?filter`, as `split_expressions` takes them apart."""
    return [
        ",".join(".".join([*expression.path, expression.text]).replace(",", "\\,") for expression in expressions)
        for expressions in filters
    ]


def values_at(value: Any, steps: tuple[Step, ...]) -> list[Any]:
    """Return the values that steps lead to, but for null; none: they lead nowhere."""
    results = [value]
    for step in steps:
        results = [inner for value in results for inner in _inner(value, step)]
    return [result for result in results if result is not None]


def _inner(value: Any, step: Step) -> Iterator[Any]:
    if step == ANY:
        yield from value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    elif isinstance(step, int):
        if isinstance(value, list) and step < len(value):
            yield value[step]
    elif isinstance(value, dict) and step in value:
        yield value[step]


def read_steps(name: str) -> tuple[Step, ...]:
    """Read the way to an attribute, in dot notation; nothing: it is malformed."""
    return tuple(_steps(name))


def split_expressions(written: str) -> list[str]:
    """Split the value of a `?filter` at its commas, but for those behind a backslash."""
    return [part.replace("\\,", ",") for part in re.split(r"(?<!\\),", written)]


def _expression(text: str, holds: tuple[str, ...], whole: str, subject: str) -> Expression:
    def wrong(message: str) -> ProblemFound:
        return ProblemFound("bad_filter", subject, value=whole[:200], error_detail=message)

    name, operator, value = _operator(text)
    steps = _steps(name)
    if not steps:
        raise wrong("name an attribute, as in labels.stage=prod")
    path: list[str] = []
    while len(steps) and steps[0] in holds:
        path.append(str(steps.pop(0)))
        holds = _holds_below(path[-1])
    if not steps:
        raise wrong("it names a collection, and no attribute of its entities")
    if len(steps) > MOST_STEPS:
        raise wrong(f"it has more than {MOST_STEPS} parts")
    if value.count("*") > _MOST_STARS:
        raise wrong(f"it has more than {_MOST_STARS} wildcards")
    if operator in ("<", "<=", ">", ">="):
        if value == "null":
            raise wrong("null is not allowed with <, <=, >, >= operators")
        if re.search(r"(?<!\\)\*", value):
            raise wrong("wildcards are not allowed with <, <=, >, >= operators")
    shown = name
    for collection in path:
        shown = shown.removeprefix(".").removeprefix(collection)
    return Expression(tuple(path), tuple(steps), _test(operator, value), shown.removeprefix(".") + operator + value)


def _holds_below(collection: str) -> tuple[str, ...]:
    if collection in MEMBERS:
        return (MEMBERS[collection],)
    return ("versions",) if collection in ("messages", "schemas") else ()


def _operator(text: str) -> tuple[str, str, str]:
    """Split an expression at its first operator that is in no quotes."""
    quote = ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif match := _OPERATORS.match(text, at):
            return text[:at], match[0], text[match.end() :]
    return text, "", ""


def _steps(name: str) -> list[Step]:
    steps: list[Step] = []
    at = 0
    while at < len(name):
        match = _TOKEN.match(name, at)
        if match is None:
            return []
        at = match.end()
        if match["name"] is not None:
            steps.append(ANY if match["name"] == "*" else match["name"])
        elif match["index"] is not None:
            steps.append(int(match["index"]))
        elif match["all"] is not None:
            steps.append(ANY)
        else:
            steps.append(match["single"] if match["single"] is not None else match["double"])
    return steps


def _test(operator: str, value: str) -> Callable[[list[Any]], bool]:
    if operator == "" or (operator in ("!=", "<>") and value == "null"):
        return bool
    if operator == "=" and value == "null":
        return lambda values: not values
    if operator in ("<", "<=", ">", ">="):
        return lambda values: any(_compares(attribute, operator, value) for attribute in values)
    if re.search(r"(?<!\\)\*", value):
        is_same = _anything if value == "*" else _likeness(value)
    else:
        is_same = _sameness(value.replace("\\*", "*"))
    if operator == "=":
        return lambda values: any(map(is_same, values))
    return lambda values: not any(map(is_same, values))


def _anything(_: Any) -> bool:
    return True


def _sameness(wanted: str) -> Callable[[Any], bool]:
    folded, number = wanted.casefold(), _number(wanted)

    def is_same(attribute: Any) -> bool:
        if isinstance(attribute, str):
            return attribute.casefold() == folded
        if isinstance(attribute, bool):
            return wanted == ("true" if attribute else "false")
        if isinstance(attribute, (dict, list)):
            return False
        return number is not None and _number(as_text(attribute)) == number

    return is_same


def _compares(attribute: Any, operator: str, value: str) -> bool:
    if isinstance(attribute, (dict, list)):
        return False
    left: Any
    right: Any
    if isinstance(attribute, bool):
        if value not in ("true", "false"):
            return False
        left, right = attribute, value == "true"
    elif isinstance(attribute, str):
        left, right = _moment(attribute), _moment(value)
        if left is None or right is None:
            left, right = attribute.casefold(), value.casefold()
    else:
        left, right = _number(as_text(attribute)), _number(value)
        if left is None or right is None:
            return False
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator])


def _likeness(value: str) -> Callable[[Any], bool]:
    """Compile a value with wildcards; a text is walked through once."""
    first, *middle, last = [part.replace("\\*", "*").casefold() for part in re.split(r"(?<!\\)\*", value)]

    def is_like(attribute: Any) -> bool:
        if isinstance(attribute, (dict, list)):
            return False
        text = as_text(attribute).casefold()
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return False
        for part in middle:
            result = text.find(part, at, end)
            if result < 0:
                return False
            at = result + len(part)
        return True

    return is_like


def as_text(value: Any) -> str:
    """Write a scalar as it is in JSON, a text without its quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.decode()
    return str(value)


def _moment(text: str) -> int | None:
    """Read a timestamp, in microseconds since 1970."""
    if _TIMESTAMP.match(text) is None:
        return None
    try:
        return microseconds(text)[0]
    except ValueError:
        return None


def _number(text: str) -> int | float | None:
    if _INTEGER.fullmatch(text):
        return int(text)
    if not _DECIMAL.fullmatch(text):
        return None
    result = float(text)
    return None if math.isinf(result) else result


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
        parameters: all parameters, as written.
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
    parameters: list[tuple[str, str]] = field(default_factory=list)


def read_parameters(query: bytes) -> list[tuple[str, str]]:
    """Split a query into names and values, decoded.

    Raises:
        ProblemFound: it is no UTF-8, or holds control characters.
    """
    results = []
    for pair_text in query.split(b"&"):
        if not pair_text:
            continue
        name, _, value = pair_text.partition(b"=")
        try:
            pair = unquote_plus(name.decode(), errors="strict"), unquote_plus(value.decode(), errors="strict")
        except UnicodeDecodeError as error:
            raise ProblemFound("bad_request", error_detail="The query is not UTF-8") from error
        if any(map(_CONTROL.search, pair)):
            raise ProblemFound("bad_request", error_detail="The query holds control characters")
        results.append(pair)
    return results


def read_flags(parameters: list[tuple[str, str]], parts: tuple[str, ...], path: str) -> Flags:
    """Read the flags of a request; unknown parameters are ignored.

    Args:
        parameters: as from `read_parameters`.
        parts: of the path, which say the level.
        path: for errors.

    Raises:
        ProblemFound: a flag is malformed, or does not go with this path.
    """
    flags = Flags(parameters=parameters)
    kind = kind_of(parts)
    for name, value in parameters:
        if name == "inline":
            for path_text in (value or "*").split(","):
                _inline(flags.inline, path_text, kind, path)
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
        detail = f"a request has at most {_MOST_EXPRESSIONS} expressions, in all its filters together"
        raise ProblemFound("bad_filter", path, value=value[:200], error_detail=detail)
    flags.excludes_all |= "excludeall" in expressions
    if value != "excludeall":
        flags.filters.append(read_filter(value, _holds(kind), path))
    if flags.excludes_all and flags.filters:
        raise ProblemFound("bad_filter", path, value="excludeall", error_detail="it cannot be combined")
    if len(flags.filters) > _MOST_FILTERS:
        raise ProblemFound("bad_filter", path, value="...", error_detail=f"there are more than {_MOST_FILTERS} of them")


def kind_of(parts: tuple[str, ...]) -> str:
    """Return what a path names, for flags.

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
    """Return whether a path names a collection, and not an entity."""
    return len(parts) in (1, 3, 5) and parts[-1] != "meta"


def _holds(kind: str) -> tuple[str, ...]:
    """Return the collections below a level."""
    if kind == "registry":
        return tuple(MEMBERS)
    if kind in MEMBERS:
        return (MEMBERS[kind],)
    return ("versions",) if kind in ("messages", "schemas") else ()


def _inlineable(kind: str, resources: str = "") -> dict[str, tuple[str, str]]:
    """Return what may be inlined at a level, and the level below it: name → (level, type of the Resources there)."""
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
        inlineable = _inlineable(kind, resources)
        if name not in inlineable:
            names = ", ".join(sorted(inlineable)) or "nothing"
            raise ProblemFound("bad_inline", path, value=written, error_detail=f"what can be inlined here is: {names}")
        kind, resources = inlineable[name]
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


Filters = list[Filter] | None  # None: everything is admitted


class AdmittedEntity(NamedTuple):
    """An entity that filters admit, what they ask of what it holds, and which of that is admitted (None: not asked yet)."""

    entity: Any
    filters: Filters
    members: list[AdmittedEntity] | None = None


class MemberSelection:
    """What the filters of a request admit of a registry.

    Args:
        catalog: the registry at the snapshot.
        flags: of the request.
        base: URL of the registry, which clients see in the URLs of entities.

    Attributes:
        filters: of the request; none of them: nothing is admitted.
    """

    def __init__(self, catalog: SnapshotCatalog, flags: Flags, base: str) -> None:
        self.catalog = catalog
        self.flags = flags
        self.base = base
        self.filters: Filters = [] if flags.excludes_all else flags.filters or None

    def own(self, entity: Any, subject: str) -> Filters:
        """Apply the filters to the entity of the request itself; return what is required of its members.

        Raises:
            ProblemFound: the filters do not admit it.
        """
        is_admitted, left = self._ask(entity, self.filters)
        if not is_admitted:
            raise ProblemFound("not_found", subject)
        return left

    def own_of_registry(self, attributes: dict[str, Any]) -> Filters:
        """Apply the filters to the registry as `own` does; it also has URLs and counts of its collections."""
        if self.filters is not None:
            for name in MEMBERS:
                attributes = attributes | url_and_count("", name, len(self.catalog.ids_of_groups(name)))
        return self.own(attributes, "/")

    def groups(self, collection: str, filters: Filters) -> list[AdmittedEntity]:
        """Return the Groups of a type that filters admit, or of which members are admitted."""
        return self._admitted(
            () if filters == [] else self.catalog.groups(collection),
            filters,
            lambda group, left: self.resources(group, filters_below(left, group.members)),
        )

    def resources(self, group: GroupView, filters: Filters) -> list[AdmittedEntity]:
        """Return the members of a Group that filters admit, or of which Versions are admitted."""
        return self._admitted(
            () if filters == [] else self.catalog.resources(group),
            filters,
            lambda resource, left: self.versions(resource, filters_below(left, "versions")),
        )

    def versions(self, resource: ResourceView, filters: Filters) -> list[AdmittedEntity]:
        """Return the Versions of a Resource that filters admit."""
        if filters == []:
            return []
        return [AdmittedEntity(version, None) for version in resource.versions.values() if self._ask(version, filters)[0]]

    def _admitted(
        self, entities: Iterable[Any], filters: Filters, members_of: Callable[[Any, list[Filter]], list[AdmittedEntity]]
    ) -> list[AdmittedEntity]:
        """Return the entities that filters admit, or of which of their members (`members_of`) some is admitted."""
        results = []
        for entity in entities:
            self.catalog.deadline.tick()
            is_admitted, left = self._ask(entity, filters)
            members = None
            if is_admitted and left is not None:
                members = members_of(entity, left)
                is_admitted = bool(members)
            if is_admitted:
                results.append(AdmittedEntity(entity, left, members))
        return results

    def _ask(self, entity: Any, filters: Filters) -> tuple[bool, Filters]:
        """Return whether an entity passes the filters, and what is required of its members (None: nothing more)."""
        if filters is None:
            return True, None
        steps: set[Step] = set()
        if isinstance(entity, GroupView):
            steps = {expression.steps[0] for expressions in filters for expression in expressions if not expression.path}
        left = admitted_filters(attributes_of(entity, steps, self.catalog), filters, self._as_shown)
        if any(not remaining for remaining in left):
            return True, None
        return bool(left), left

    def _as_shown(self, value: Any) -> Any:
        return value.replace(ABSOLUTE, self.base) if isinstance(value, str) and value.startswith(ABSOLUTE) else value

    def url_of(self, url: str, filters: Filters, key: str, *, is_empty: bool) -> str:
        """Return the URL of a collection with what filters ask of it."""
        if filters is None and not is_empty:
            return url
        if is_empty:
            if filters is None and not self.flags.filters:
                return url
            parameters = ["excludeall" if self.catalog.dialect == RC4 else f"{key}=null"]
        else:
            parameters = as_query(filters or [])
        return url + "?" + "&".join("filter=" + quote(parameter, safe="=,.*:/") for parameter in parameters)


def sorted_by(
    results: Sequence[AdmittedEntity], sort: tuple[str, bool], steps: tuple[Step, ...], catalog: SnapshotCatalog
) -> list[AdmittedEntity]:
    """Sort entities by an attribute, those without it first, then by id; all the other way round where `sort` says so."""

    def key(result: AdmittedEntity) -> tuple[Any, ...]:
        attributes = attributes_of(result.entity, steps[:1], catalog, result.members)
        values = [value for value in values_at(attributes, steps) if not isinstance(value, (dict, list))]
        return (_rank(values[0]) if values else (0, 0), id_of(result.entity))

    return sorted(results, key=key, reverse=sort[1])


def _rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, str):
        return 3, value.casefold()
    return 2, value if isinstance(value, int) else float(value)


def attributes_of(
    entity: Any, steps: Collection[Step], catalog: SnapshotCatalog, admitted_members: Sequence[AdmittedEntity] | None = None
) -> dict[str, Any]:
    """Return the attributes of an entity for filters and sorting.

    Args:
        entity: a Group, a Resource, or the attributes of another entity.
        steps: the attributes that are looked at; only for them the members of a Group are counted.
        catalog: the registry.
        admitted_members: those of a Group that filters admit; None: all.
    """
    if isinstance(entity, ResourceView):
        return entity.shown
    attributes: dict[str, Any] = entity.attributes if isinstance(entity, GroupView) else entity
    if not isinstance(entity, GroupView) or {f"{entity.members}url", f"{entity.members}count", ANY}.isdisjoint(steps):
        return attributes
    count = len(catalog.entries(entity.xid) if admitted_members is None else admitted_members)
    return attributes | url_and_count(entity.xid, entity.members, count)


def url_and_count(parent: str, collection: str, count: int) -> dict[str, Any]:
    """Return URL and count of a collection, as attributes of what holds it."""
    return {f"{collection}url": f"{ABSOLUTE}{quote_path(parent)}/{collection}", f"{collection}count": count}


def id_of(entity: Any) -> str:
    """Return the id of a Group, a Resource or the attributes of a Version."""
    if isinstance(entity, dict):
        return str(entity["versionid"])
    xid: Xid = entity.xid
    return xid.rsplit("/", 1)[1]
