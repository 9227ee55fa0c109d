"""What a comparison of two schemas finds: differences, whom each breaks and why, and the judgement over all of them.

Two questions decide. *Backward*: does a consumer with the new schema read what a producer with the old one writes? If not, the
difference breaks **writers** that stay as they are. *Forward*: does a consumer with the old schema read what a producer with the
new one writes? If not, it breaks **readers** that stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from lakehouse.text.jsontext import pointer_of
from lakehouse.text.names import Pointer

Path = tuple[str, ...]  # to a place in the data: names of fields; `*` is any item or value


class Answer(IntEnum):
    """Whether something breaks somebody; of several answers the highest counts."""

    NO = 0
    UNKNOWN = 1
    YES = 2

    @property
    def word(self) -> str:
        """Return the answer as JSON and people have it."""
        return self.name.lower()


class Breaks(NamedTuple):
    """Whom a difference breaks: those who read with the schema before, those who write with the schema before."""

    readers: Answer = Answer.NO
    writers: Answer = Answer.NO

    @property
    def worst(self) -> Answer:
        """Return the higher one of both answers."""
        return max(self)

    @property
    def worst_word(self) -> str:
        """Return the classification of `lakehouse diff`."""
        return {Answer.NO: "compatible", Answer.YES: "breaking"}.get(self.worst, "unknown")

    def as_json(self) -> dict[str, str]:
        """Return both answers as words."""
        return {"readers": self.readers.word, "writers": self.writers.word}


class SchemaDifference(NamedTuple):
    """A difference between two schemas.

    Attributes:
        pointer: to the place in the data, as JSON Pointer; `*` is any item of a list or any value of a map.
        kind: what sort of difference it is, such as `field-added`.
        what: what was, and what is.
        breaks: whom it breaks.
        reason: why, in sentences; empty where it breaks nobody.
        strictly: whom it breaks where consumers refuse members that they do not know, and producers send such.
    """

    pointer: Pointer
    kind: str
    what: str
    breaks: Breaks
    reason: str
    strictly: Breaks

    def as_json(self) -> dict[str, Any]:
        """Return the contract of `lakehouse compat --json`."""
        shown = {"pointer": self.pointer, "kind": self.kind, "what": self.what, "breaks": self.breaks.as_json()}
        strictly = {} if self.strictly == self.breaks else {"strictly": self.strictly.as_json()}
        return shown | strictly | {"reason": self.reason}

    @property
    def summary(self) -> str:
        """Return where it is, and what was and is."""
        return f"{self.pointer or 'the whole'}: {self.what}."

    @property
    def sentence(self) -> str:
        """Return the difference as a person reads it, with its reason."""
        return f"{self.summary} {self.reason}".rstrip()


class Judgement(NamedTuple):
    """What the differences of two schemas mean together."""

    differences: tuple[SchemaDifference, ...]

    @property
    def breaks(self) -> Breaks:
        """Return whom the change breaks."""
        return _worst_of(difference.breaks for difference in self.differences)

    @property
    def strictly(self) -> Breaks:
        """Return whom it breaks by the strict reading."""
        return _worst_of(difference.strictly for difference in self.differences)

    def reasons(self) -> list[SchemaDifference]:
        """Return the differences that break somebody or cannot be decided, the gravest first."""
        grave = [difference for difference in self.differences if difference.breaks.worst > Answer.NO]
        return sorted(grave, key=lambda difference: (-difference.breaks.worst, difference.pointer, difference.kind))


class DirectionResult(NamedTuple):
    """What one direction finds: `because` says why, about `{writer}` and `{reader}`."""

    path: Path
    kind: str
    what: str
    lenient: Answer
    strict: Answer
    because: str


_OLD, _NEW = "the old schema", "the new schema"


def join_directions(backward: Iterable[DirectionResult], forward: Iterable[DirectionResult]) -> tuple[SchemaDifference, ...]:
    """Join what both directions find: one difference for each place and kind.

    Args:
        backward: found where the old schema writes and the new one reads.
        forward: found where the new schema writes and the old one reads.
    """
    pairs: dict[tuple[Path, str, str], list[DirectionResult | None]] = {}
    for at, side in enumerate((backward, forward)):
        for result in side:
            sides = pairs.setdefault((result.path, result.kind, result.what), [None, None])
            earlier = sides[at]
            if earlier is None or (result.lenient, result.strict) > (earlier.lenient, earlier.strict):
                sides[at] = result
    return tuple(_difference(key, *sides) for key, sides in sorted(pairs.items()))


def unread_values(path: Path, values: Iterable[str], *, is_backward: bool) -> Iterator[DirectionResult]:
    """Yield that values, as people read them, may be written and are not read; `is_backward`: the old schema writes."""
    kind, word = ("value-removed", "went") if is_backward else ("value-added", "came")
    for value in values:
        because = f"{{writer}} may write {value}, which {{reader}} does not take"
        yield DirectionResult(path, kind, f"value {value} {word}", Answer.YES, Answer.YES, because)


def incomparable(why: str) -> tuple[SchemaDifference, ...]:
    """Return the one difference of schemas that cannot be compared."""
    both = Breaks(Answer.UNKNOWN, Answer.UNKNOWN)
    return (SchemaDifference(Pointer(""), "undecided", "cannot be compared", both, f"{why[:1].upper()}{why[1:]}.", both),)


def _difference(
    key: tuple[Path, str, str], backward: DirectionResult | None, forward: DirectionResult | None
) -> SchemaDifference:
    reasons = []
    for result, writer, reader in ((backward, _OLD, _NEW), (forward, _NEW, _OLD)):
        if result is not None and result.strict > Answer.NO and result.because:
            why = result.because.replace("{writer}", f"a producer with {writer}").replace("{reader}", f"a consumer with {reader}")
            sure = "" if result.strict == Answer.YES else "cannot be decided: "
            only = "strictly: " if result.lenient < result.strict else ""
            text = f"{only}{sure}{why}"
            reasons.append(f"{text[:1].upper()}{text[1:]}.")
    lenient = [Answer.NO if result is None else result.lenient for result in (forward, backward)]
    strict = [Answer.NO if result is None else result.strict for result in (forward, backward)]
    path, kind, what = key
    return SchemaDifference(pointer_of(*path), kind, what, Breaks(*lenient), " ".join(reasons), Breaks(*strict))


def _worst_of(all_breaks: Iterable[Breaks]) -> Breaks:
    readers = writers = Answer.NO
    for breaks in all_breaks:
        readers, writers = max(readers, breaks.readers), max(writers, breaks.writers)
    return Breaks(readers, writers)
