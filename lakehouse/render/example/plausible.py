"""What examples hold: texts, numbers, times that look like what names and types say, from one seed, or match a pattern."""

from __future__ import annotations

import base64
import math
import string
import sys
import uuid
from datetime import datetime, timedelta, timezone
from random import Random
from typing import Any

_MOST_VALUES = 5_000
DEEPEST = 6  # from here on only what must be there is made up
_TOO_DEEP = 24
_BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
_YEAR = 365 * 24 * 3600


class Impossible(Exception):
    """No value was found: too deep, too many, or a schema that nothing satisfies."""


class Plausible:
    """Makes up values.

    Args:
        random: what they are drawn from.
        level: 0: everything a schema knows, with its own examples; 1: without them; from 2 on what must be there, and some of the
            rest; 9: only what must be there.
    """

    def __init__(self, random: Random, level: int = 0) -> None:
        self.random, self.level = random, level
        self._left = _MOST_VALUES

    def spend(self, depth: int) -> None:
        """Count a value.

        Raises:
            Impossible: there are too many, or it is too deep.
        """
        self._left -= 1
        if self._left < 0 or depth > _TOO_DEEP:
            raise Impossible("the schema asks for too much")

    def wants(self, depth: int) -> bool:
        """Return whether something that may be left out is made up."""
        if depth >= DEEPEST or self.level >= 9:
            return False
        return self.level < 2 or self.random.random() < 0.5

    def moment(self) -> datetime:
        """Return a time of 2026."""
        return _BEGIN + timedelta(seconds=self.random.randrange(_YEAR))

    def text(self, name: str = "", shortest: int = 0, longest: int | None = None, pattern: str | None = None) -> str:
        """Return a text that its name suggests.

        Raises:
            Impossible: no text has the pattern.
        """
        if pattern is not None:
            from lakehouse.render.example.plausible import NoText, text_of

            try:
                return text_of(pattern, self.random, shortest, longest)
            except NoText as error:
                raise Impossible(str(error)) from error
        if shortest > _MOST_VALUES * 20:
            raise Impossible(f"a text of {shortest} characters")
        results = f"{name or 'text'}-{self.random.randrange(1, 100)}"
        if len(results) < shortest:
            results = results.ljust(shortest, "x")
        return results if longest is None else results[:longest]

    def formatted(self, form: str, name: str = "") -> str | None:
        """Return a text of a format of JSON Schema, or of a type of JSON Structure; None: the format is not known."""
        moment, number = self.moment(), self.random.randrange(1, 250)
        formats = {
            "date-time": f"{moment:%Y-%m-%dT%H:%M:%SZ}", "datetime": f"{moment:%Y-%m-%dT%H:%M:%SZ}",
            "date": f"{moment:%Y-%m-%d}", "time": f"{moment:%H:%M:%SZ}", "duration": f"PT{number}M",
            "email": f"user{number}@example.com", "idn-email": f"user{number}@example.com",
            "hostname": f"host{number}.example.com", "idn-hostname": f"host{number}.example.com",
            "ipv4": f"192.0.2.{number}", "ipv6": f"2001:db8::{number:x}",
            "uri": f"https://example.com/{name or 'item'}/{number}", "url": f"https://example.com/{name or 'item'}/{number}",
            "iri": f"https://example.com/item/{number}", "uri-reference": f"/item/{number}", "iri-reference": f"/item/{number}",
            "uri-template": "/item/{id}", "uuid": self.uuid(), "json-pointer": f"/item/{number}",
            "jsonpointer": f"#/item/{number}", "relative-json-pointer": "0/item", "regex": "^[a-z]+$",
            "byte": self.base64(), "base64": self.base64(), "binary": self.base64(),
        }  # fmt: skip
        return formats.get(form)

    def uuid(self) -> str:
        """Return a UUID."""
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def bytes(self, length: int = 8) -> bytes:
        """Return bytes."""
        return self.random.randbytes(min(length, _MOST_VALUES))

    def base64(self) -> str:
        """Return bytes in base64."""
        return base64.b64encode(self.bytes()).decode()

    def integer(self, lowest: float | None = None, highest: float | None = None, step: float | None = None) -> int:
        """Return an integer in bounds, which count in.

        Raises:
            Impossible: there is none.
        """
        low = math.ceil(lowest) if lowest is not None else min(0, math.floor(highest) - 1000 if highest is not None else 0)
        high = math.floor(highest) if highest is not None else max(low, 0) + 1000
        if step:
            whole = int(step) if float(step).is_integer() else 1
            low, high = -(-low // whole), high // whole
            if low > high:
                raise Impossible(f"no multiple of {step} between {lowest} and {highest}")
            return self.random.randint(low, high) * whole
        if low > high:
            raise Impossible(f"no integer between {lowest} and {highest}")
        return self.random.randint(low, min(high, low + 10**6))

    def number(
        self, name: str = "", lowest: float | None = None, highest: float | None = None, *, open_ends: bool = False
    ) -> float:
        """Return a number in bounds, with two decimals where these do.

        Raises:
            Impossible: there is none.
        """
        latitude, longitude = name.lower().startswith("lat"), name.lower().startswith(("lon", "lng"))
        limit = 90.0 if latitude else 180.0 if longitude else 1000.0
        low = lowest if lowest is not None else (-limit if latitude or longitude else min(0.0, (highest or 0.0) - limit))
        high = highest if highest is not None else max(low, 0.0) + limit if low > -limit else limit
        if low > high:
            raise Impossible(f"no number between {lowest} and {highest}")
        result = low + (high - low) * (0.05 + 0.9 * self.random.random())
        rounded = round(result, 2)
        return rounded if low < rounded < high or (not open_ends and low <= rounded <= high) else result

    def any(self, name: str = "") -> Any:
        """Return a value of which nothing is known."""
        return self.text(name)


if sys.version_info >= (3, 11):
    import re._constants as constants
    import re._parser as parser
else:
    import sre_constants as constants
    import sre_parse as parser

_LONGEST = 2_000
_MOST_REPEATED = 8  # of `*`, `+` and `{n,}`
_PRINTABLE = string.ascii_letters + string.digits + "-_.~ !#$%&()*+,/:;<=>?@[]^{|}'\"\\"
_CATEGORIES = {
    "CATEGORY_DIGIT": string.digits,
    "CATEGORY_NOT_DIGIT": string.ascii_letters,
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_SPACE": string.ascii_letters + string.digits,
    "CATEGORY_WORD": string.ascii_letters + string.digits + "_",
    "CATEGORY_NOT_WORD": "-. ",
}


class NoText(Exception):
    """No text was found that the expression matches."""


def text_of(pattern: str, random: Random, shortest: int = 0, longest: int | None = None) -> str:
    """Make up a text in which the expression is found.

    Args:
        pattern: as schemas have it (ECMA 262), as far as RE2 and Python read it alike.
        random: what it is drawn from.
        shortest: fewest characters of the text.
        longest: most characters of it.

    Raises:
        NoText: the expression is not understood, or asks for more than the budget.
    """
    import re2

    try:
        wanted = re2.compile(pattern)
        tree = parser.parse(pattern)
    except Exception as error:  # RE2 and the parser each have their own errors, also RecursionError
        raise NoText(f"{pattern[:100]}: {error}") from error
    for _ in range(40):
        drawn = _Drawn(random)
        try:
            text = drawn.draw(tree)
        except _TooLong:
            continue
        if len(text) < shortest and not pattern.endswith("$"):
            text = text.ljust(shortest, "a")
        if shortest <= len(text) <= (longest or _LONGEST) and wanted.search(text):
            return text
    raise NoText(f"{pattern[:100]}: no text of {shortest} to {longest or _LONGEST} characters was found")


class _TooLong(Exception):
    pass


class _Drawn:
    """One draw: a walk over the parsed expression."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.left = _LONGEST
        self.groups: dict[int, str] = {}

    def draw(self, tree: Any) -> str:
        return "".join(self._part(operator, value) for operator, value in tree)

    def _part(self, operator: Any, value: Any) -> str:
        self.left -= 1
        if self.left < 0:
            raise _TooLong
        if operator is constants.LITERAL:
            return chr(value)
        if operator in (constants.NOT_LITERAL, constants.IN, constants.ANY):
            return self.random.choice(_characters(operator, value))
        if operator is constants.BRANCH:
            return self.draw(self.random.choice(value[1]))
        if operator is constants.SUBPATTERN:
            text = self.draw(value[-1])
            if value[0] is not None:
                self.groups[value[0]] = text
            return text
        if operator in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            fewest, most, inner = value
            times = self.random.randint(fewest, max(fewest, min(most, fewest + _MOST_REPEATED)))
            return "".join(self.draw(inner) for _ in range(times))
        if operator is constants.GROUPREF:
            return self.groups.get(value, "")
        return ""  # anchors and look-arounds: whether they hold is seen when the text is matched


def _characters(operator: Any, value: Any) -> str:
    """Return the characters of a class, in a fixed order."""
    if operator is constants.ANY:
        return string.ascii_lowercase
    if operator is constants.NOT_LITERAL:
        return "".join(character for character in _PRINTABLE if ord(character) != value)
    negated = bool(value) and value[0][0] is constants.NEGATE
    result = ""
    for kind, member in value[1:] if negated else value:
        if kind is constants.LITERAL:
            result += chr(member)
        elif kind is constants.RANGE:
            result += "".join(chr(code) for code in range(member[0], min(member[1], member[0] + 255) + 1))
        elif kind is constants.CATEGORY:
            result += _CATEGORIES.get(str(member), "")
    if negated:
        result = "".join(character for character in _PRINTABLE if character not in result)
    if not result:
        raise _TooLong
    return result
