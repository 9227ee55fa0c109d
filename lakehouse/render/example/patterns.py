"""A text that a regular expression matches, made up within a budget and the same for the same seed.

RE2 reads the expression first: it bounds repetitions, and what it refuses has no text here either. Libraries that do the same
draw from sets, whose order changes from process to process, and know no budget.
"""

from __future__ import annotations

import string
import sys
from random import Random
from typing import Any

import re2

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
    try:
        wanted = re2.compile(pattern)
        tree = parser.parse(pattern)
    except Exception as error:  # RE2 and the parser each have their own errors, also RecursionError
        raise NoText(f"{pattern[:100]}: {error}") from error
    for _ in range(40):
        drawn = _Drawn(random)
        try:
            text = drawn.of(tree)
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

    def of(self, tree: Any) -> str:
        return "".join(self._one(operator, value) for operator, value in tree)

    def _one(self, operator: Any, value: Any) -> str:
        self.left -= 1
        if self.left < 0:
            raise _TooLong
        if operator is constants.LITERAL:
            return chr(value)
        if operator in (constants.NOT_LITERAL, constants.IN, constants.ANY):
            return self.random.choice(_characters(operator, value))
        if operator is constants.BRANCH:
            return self.of(self.random.choice(value[1]))
        if operator is constants.SUBPATTERN:
            text = self.of(value[-1])
            if value[0] is not None:
                self.groups[value[0]] = text
            return text
        if operator in (constants.MAX_REPEAT, constants.MIN_REPEAT):
            fewest, most, inner = value
            times = self.random.randint(fewest, max(fewest, min(most, fewest + _MOST_REPEATED)))
            return "".join(self.of(inner) for _ in range(times))
        if operator is constants.GROUPREF:
            return self.groups.get(value, "")
        return ""  # anchors and look-arounds: whether they hold is seen when the text is matched


def _characters(operator: Any, value: Any) -> str:
    """Return the characters of a class, in a fixed order."""
    if operator is constants.ANY:
        return string.ascii_lowercase
    if operator is constants.NOT_LITERAL:
        return "".join(one for one in _PRINTABLE if ord(one) != value)
    negated = bool(value) and value[0][0] is constants.NEGATE
    found = ""
    for kind, held in value[1:] if negated else value:
        if kind is constants.LITERAL:
            found += chr(held)
        elif kind is constants.RANGE:
            found += "".join(chr(code) for code in range(held[0], min(held[1], held[0] + 255) + 1))
        elif kind is constants.CATEGORY:
            found += _CATEGORIES.get(str(held), "")
    if negated:
        found = "".join(one for one in _PRINTABLE if one not in found)
    if not found:
        raise _TooLong
    return found
