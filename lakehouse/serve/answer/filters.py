"""`?filter`: expressions are read, and asked of entities.

An expression is `[path.]attribute`, an operator and a value; its path leads through collections, the rest through the entity's
own members (`labels.stage`, `meta.readonly`, `['my.name']`, `[2]`, `.*`, `[*]`). An attribute that is not there never matches,
but for `=null` and `!=`. Texts are compared without regard to case, `*` stands for any characters.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from lakehouse.serve.problems import ProblemFound
from lakehouse.serve.requests import MEMBERS
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


class Expression(NamedTuple):
    """An expression.

    Attributes:
        path: collections on the way to the entity.
        steps: to the attribute in it.
        test: tells of the values there (none: it is not there) whether they match.
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
        holds: collections that stand at the level of the request.
        subject: the request's path, for errors.

    Raises:
        ProblemFound: it is malformed.
    """
    return [_expression(text, holds, written, subject) for text in split_expressions(written)]


def below(filters: list[Filter], collection: str) -> list[Filter]:
    """Give what filters ask of the members of a collection; a filter that leads elsewhere too admits nothing there."""
    leading = [one for one in filters if all(expression.path[:1] == (collection,) for expression in one)]
    return [[expression._replace(path=expression.path[1:]) for expression in one] for one in leading]


def admitted(entity: dict[str, Any], filters: list[Filter], as_shown: Callable[[Any], Any]) -> list[Filter]:
    """Ask an entity: which filters hold for its own attributes, and what do they ask of what it holds.

    Args:
        entity: its attributes.
        filters: what is asked.
        as_shown: gives a value as clients see it.
    """
    return [
        [expression for expression in one if expression.path]
        for one in filters
        if all(
            expression.path or expression.test([as_shown(value) for value in values_at(entity, expression.steps)])
            for expression in one
        )
    ]


def as_query(filters: list[Filter]) -> list[str]:
    """Write filters as values of `?filter`."""
    return [",".join(".".join([*expression.path, expression.text]) for expression in one) for one in filters]


def values_at(value: Any, steps: tuple[Step, ...]) -> list[Any]:
    """Give the values that steps lead to, but for null; none: they lead nowhere."""
    found = [value]
    for step in steps:
        found = [inner for one in found for inner in _inner(one, step)]
    return [one for one in found if one is not None]


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
    def wrong(told: str) -> ProblemFound:
        return ProblemFound("bad_filter", subject, value=whole[:200], error_detail=told)

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
    """Split an expression at its first operator that stands in no quotes."""
    quote = ""
    for at, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif found := _OPERATORS.match(text, at):
            return text[:at], found[0], text[found.end() :]
    return text, "", ""


def _steps(name: str) -> list[Step]:
    steps: list[Step] = []
    at = 0
    while at < len(name):
        found = _TOKEN.match(name, at)
        if found is None:
            return []
        at = found.end()
        if found["name"] is not None:
            steps.append(ANY if found["name"] == "*" else found["name"])
        elif found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["all"] is not None:
            steps.append(ANY)
        else:
            steps.append(found["single"] if found["single"] is not None else found["double"])
    return steps


def _test(operator: str, value: str) -> Callable[[list[Any]], bool]:
    if operator == "" or (operator in ("!=", "<>") and value == "null"):
        return bool
    if operator == "=" and value == "null":
        return lambda values: not values
    if operator in ("<", "<=", ">", ">="):
        return lambda values: any(_compares(one, operator, value) for one in values)
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

    def is_same(one: Any) -> bool:
        if isinstance(one, str):
            return one.casefold() == folded
        if isinstance(one, bool):
            return wanted == ("true" if one else "false")
        if isinstance(one, (dict, list)):
            return False
        return number is not None and _number(as_text(one)) == number

    return is_same


def _compares(one: Any, operator: str, value: str) -> bool:
    if isinstance(one, (dict, list)):
        return False
    left: Any
    right: Any
    if isinstance(one, bool):
        if value not in ("true", "false"):
            return False
        left, right = one, value == "true"
    elif isinstance(one, str):
        left, right = _moment(one), _moment(value)
        if left is None or right is None:
            left, right = one.casefold(), value.casefold()
    else:
        left, right = _number(as_text(one)), _number(value)
        if left is None or right is None:
            return False
    return bool({"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator])


def _likeness(value: str) -> Callable[[Any], bool]:
    """Compile a value with wildcards; a text is walked through once."""
    first, *middle, last = [part.replace("\\*", "*").casefold() for part in re.split(r"(?<!\\)\*", value)]

    def is_like(one: Any) -> bool:
        if isinstance(one, (dict, list)):
            return False
        text = as_text(one).casefold()
        at, end = len(first), len(text) - len(last)
        if at > end or not text.startswith(first) or not text.endswith(last):
            return False
        for part in middle:
            found = text.find(part, at, end)
            if found < 0:
                return False
            at = found + len(part)
        return True

    return is_like


def as_text(value: Any) -> str:
    """Write a scalar as it stands in JSON, a text without its quotes."""
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
    found = float(text)
    return None if math.isinf(found) else found
