"""JSON Schema: the limits that one keyword sets, compared; what all comparisons of it share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from lakehouse.compatibility.jsonshapes import JsonDocument, Shape, texts
from lakehouse.compatibility.jsonvalues import as_key, type_of
from lakehouse.compatibility.judgement import Answer, DirectionResult, Path
from lakehouse.compatibility.limits import StepBudget

_CHECKED_FORMATS = frozenset(
    {"date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
     "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer", "relative-json-pointer", "regex"}
)  # fmt: skip
_SIZES = {"array": ("minItems", "maxItems", "items"), "string": ("minLength", "maxLength", "letters"),
          "object": ("minProperties", "maxProperties", "members")}  # fmt: skip
Key = tuple[tuple[int, ...], int]


class KeywordComparison:
    """Compares keywords in one direction.

    Args:
        writer: what is written.
        reader: what is read.
        is_backward: the old schema writes.
        steps: count the work.
    """

    def __init__(self, writer: JsonDocument, reader: JsonDocument, *, is_backward: bool, steps: StepBudget) -> None:
        self._writer, self._reader = writer, reader
        self._is_backward, self._steps = is_backward, steps
        self._open: set[Key] = set()
        self._done: dict[Key, tuple[Path, list[DirectionResult]]] = {}
        self._order: list[Key] = []
        self._is_same_text = writer.text == reader.text
        self._has_references = writer.has_references or reader.has_references
        self._has_values = writer.has_values or reader.has_values

    def _same(self, one: Any, other: Any) -> bool:
        """Return whether two parts are written alike and mean the same."""
        if one != other:
            return False
        if not self._has_values and not self._has_references:
            return True
        text = orjson.dumps(one, option=orjson.OPT_SORT_KEYS)
        if self._has_references and not self._is_same_text and b'ef":' in text:
            return False
        return text == orjson.dumps(other, option=orjson.OPT_SORT_KEYS)  # 1 and true are equal to Python

    def _numbers(self, writer: Shape, reader: Shape, path: Path) -> Iterator[DirectionResult]:
        is_lost = (reader.low is not None and (writer.low is None or writer.low < reader.low)) or (
            reader.high is not None
            and (writer.high is None or (-writer.high[0], writer.high[1]) < (-reader.high[0], reader.high[1]))
        )
        if (writer.low, writer.high) != (reader.low, reader.high):
            old, new = self._in_time(_range(writer), _range(reader))
            because = f"{{writer}} may write {_range(writer)}, and {{reader}} takes {_range(reader)}"
            yield self._found(path, "range-changed", f"was {old}, is {new}", is_lost, because)
        for one in reader.multiples:
            if any(_divides(one, other) for other in writer.multiples) or (one == 1 and "number" not in writer.types):
                continue
            because = f"{{writer}} may write what is no multiple of {one}"
            if writer.multiples:
                yield self._unknown(path, "multiple-changed", "`multipleOf` differs", because)
            else:
                word = "came" if self._is_backward else "went"
                yield self._found(path, "multiple-changed", f"`multipleOf` {one} {word}", True, because)

    def _strings(self, writer: Shape, reader: Shape, path: Path) -> Iterator[DirectionResult]:
        yield from self._sizes("string", writer, reader, path)
        for pattern in sorted(reader.tests - writer.tests):
            because = f"patterns are not compared: whether all that {{writer}} may write matches {pattern[:80]}"
            word = "came" if self._is_backward else "went"
            yield self._unknown(path, "pattern-changed", f"pattern {pattern[:80]} {word}", because)
        for format_ in sorted((reader.formats - writer.formats) & _CHECKED_FORMATS):
            because = f"{{writer}} may write what is no {format_}, and {{reader}} takes nothing else where it checks formats"
            word = "came" if self._is_backward else "went"
            what = f"format {format_} {word}"
            if writer.formats & _CHECKED_FORMATS:
                yield self._unknown(path, "format-changed", what, because)
            else:
                yield self._found(path, "format-changed", what, True, because)

    def _sizes(
        self, kind: str, writer: Shape, reader: Shape, path: Path, *, least: int = 0, most: int | None = None
    ) -> Iterator[DirectionResult]:
        """Compare how long strings, lists and objects may be.

        Args:
            kind: of the value.
            writer: what is written.
            reader: what is read.
            path: of the value.
            least: members that are always written.
            most: members that are declared, where no others are written by the lenient reading.
        """
        low, high, what = _SIZES[kind]
        ours = (writer.lengths.get(low, 0), writer.lengths.get(high))
        theirs = (reader.lengths.get(low, 0), reader.lengths.get(high))
        if ours == theirs:
            return
        answers = []
        for limit in (ours[1] if ours[1] is not None else most, ours[1]):
            is_long = theirs[1] is not None and (limit is None or limit > theirs[1])
            answers.append(Answer.YES if max(ours[0], least) < theirs[0] or is_long else Answer.NO)
        sizes = [_size_text(*one, what) for one in (ours, theirs)]
        old, new = self._in_time(*sizes)
        because = f"{{writer}} may write {sizes[0]}, and {{reader}} takes {sizes[1]}"
        yield DirectionResult(path, "size-changed", f"was {old}, is {new}", answers[0], answers[1], because)

    def _changed(self, path: Path, kind: str, writer: Shape, reader: Shape, answer: Answer, because: str = "") -> DirectionResult:
        old, new = self._in_time(self._value_text(writer, self._writer), self._value_text(reader, self._reader))
        return DirectionResult(path, kind, f"was {old}, is {new}", answer, answer, because)

    def _value_text(self, shape: Shape, document: JsonDocument) -> str:
        """Return what a value is, as people read it."""
        if shape.enum is not None:
            return values_text(shape.enum)
        types = shape.types
        for _, branches in shape.unions:
            types &= frozenset().union(*(document.shape((one,), self._steps).types for one in branches))
        if types == {"array"} and shape.items and shape.items[0] is not False:
            return f"array of {texts(document.shape(shape.items, self._steps).types)}"
        return texts(types)

    def _in_time(self, of_writer: Any, of_reader: Any) -> tuple[Any, Any]:
        return (of_writer, of_reader) if self._is_backward else (of_reader, of_writer)

    def _found(self, path: Path, kind: str, what: str, is_lost: bool, because: str) -> DirectionResult:
        answer = Answer.YES if is_lost else Answer.NO
        return DirectionResult(path, kind, what, answer, answer, because)

    def _strictly(self, path: Path, kind: str, what: str, strict: Answer, because: str) -> DirectionResult:
        return DirectionResult(path, kind, what, Answer.NO, strict, because)

    def _unknown(self, path: Path, kind: str, what: str, because: str) -> DirectionResult:
        return DirectionResult(path, kind, what, Answer.UNKNOWN, Answer.UNKNOWN, because)


def _range(shape: Shape) -> str:
    low = "" if shape.low is None else f"{'more than' if shape.low[1] else 'at least'} {shape.low[0]}"
    high = "" if shape.high is None else f"{'less than' if shape.high[1] else 'at most'} {shape.high[0]}"
    return " and ".join(one for one in (low, high) if one) or "any number"


def _size_text(low: int, high: int | None, what: str) -> str:
    if high is None:
        return f"at least {low} {what}" if low else f"any number of {what}"
    return f"{low} to {high} {what}"


def _divides(one: Any, other: Any) -> bool:
    return isinstance(one, int) and isinstance(other, int) and other % one == 0


def values_text(values: Iterable[Any]) -> str:
    """Return values as people read them, the first six."""
    shown = [orjson.dumps(one).decode() if type_of(one) in ("object", "array") else as_key(one).decode() for one in values]
    return ", ".join(one[:40] for one in shown[:6]) + (f" or one of {len(shown) - 6} more" if len(shown) > 6 else "") or "nothing"
