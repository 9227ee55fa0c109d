"""JSON Schema: whether each value of one schema is one of the other, in two readings.

*Lenient*: a producer writes the members that its schema declares, and a consumer passes over those that it does not know: so
optional members may come and go. *Strict*: a producer may write any member that its schema does not forbid, and a consumer
validates. Conditions, `not`, patterns and the like are the same, or it is unknown what their change does.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import chain, product
from typing import Any

from lakehouse.compatibility.jsonshapes import (
    DEPENDENT,
    Bound,
    JsonDocument,
    Parts,
    Shape,
    as_key,
    satisfies,
    texts,
    type_of,
    words_in,
)
from lakehouse.compatibility.limits import StepBudget
from lakehouse.compatibility.schemadifferences import Answer, DirectionResult, Path, unread_values
from lakehouse.text.jsontext import canonical, decoded, in_order

_CHECKED_FORMATS = frozenset(
    {"date-time", "date", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
     "uri-reference", "iri", "iri-reference", "uuid", "uri-template", "json-pointer", "relative-json-pointer", "regex"}
)  # fmt: skip
_SIZES = {"array": ("minItems", "maxItems", "items"), "string": ("minLength", "maxLength", "letters"),
          "object": ("minProperties", "maxProperties", "members")}  # fmt: skip
Key = tuple[tuple[int, ...], int]
_ANY: Parts = (True,)
_MOST_ATOMS = 64
_DYNAMIC = frozenset({"$dynamicRef", "$recursiveRef"})
_CONDITIONS = _DYNAMIC | {"not", "if", "dependentSchemas", "dependencies", "extends", "disallow"}
# With these a condition may limit members and items that it does not name.
_OF_ANY_NAME = _DYNAMIC | {
    "$ref", "patternProperties", "additionalProperties", "unevaluatedProperties", "minProperties", "maxProperties",
    "propertyNames", "items", "prefixItems", "additionalItems", "unevaluatedItems", "contains",
}  # fmt: skip
_NUMBERS = frozenset({"integer", "number"})
_FEW_VALUES: dict[str, list[Any]] = {"null": [None], "boolean": [True, False]}  # all values of a type
_BY_TYPE = {name: {"type": name} for name in ("null", "boolean", "number", "integer", "string", "array", "object")}


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
        self._words: dict[int, frozenset[str]] = {}  # of the conditions of a shape
        self._is_same_text = writer.text == reader.text
        self._has_references = writer.has_references or reader.has_references
        self._has_values = writer.has_values or reader.has_values

    def _same(self, part: Any, other_part: Any) -> bool:
        """Return whether two parts are written alike and mean the same."""
        if part != other_part:
            return False
        if not self._has_values and not self._has_references:
            return True
        text = canonical(part)
        if self._has_references and not self._is_same_text and b'ef":' in text:
            return False
        return text == canonical(other_part)  # 1 and true are equal to Python

    def _numbers(self, writer: Shape, reader: Shape, path: Path) -> Iterator[DirectionResult]:
        written, read = ((side.low, side.high) for side in (writer, reader))
        if "number" not in writer.types:
            written, read = _of_integers(*written), _of_integers(*read)
        (writer_low, writer_high), (low, high) = written, read
        is_lost = (low is not None and (writer_low is None or writer_low < low)) or (
            high is not None and (writer_high is None or (-writer_high[0], writer_high[1]) < (-high[0], high[1]))
        )
        if written != read:
            old, new = self._old_and_new(_range(writer), _range(reader))
            because = f"{{writer}} may write {_range(writer)}, and {{reader}} takes {_range(reader)}"
            yield self._result(path, "range-changed", f"was {old}, is {new}", is_lost, because)
        multiples = writer.multiples if "number" in writer.types else (1, *writer.multiples)
        for multiple in reader.multiples:
            if multiple in multiples or any(_divides(multiple, written_multiple) for written_multiple in multiples):
                continue
            because = f"{{writer}} may write what is no multiple of {multiple}"
            if writer.multiples:
                yield self._unknown(path, "multiple-changed", "`multipleOf` differs", because)
            else:
                word = "came" if self._is_backward else "went"
                yield self._result(path, "multiple-changed", f"`multipleOf` {multiple} {word}", True, because)

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
                yield self._result(path, "format-changed", what, True, because)

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
        writer_lengths = (writer.lengths.get(low, 0), writer.lengths.get(high))
        reader_lengths = (reader.lengths.get(low, 0), reader.lengths.get(high))
        if writer_lengths == reader_lengths:
            return
        answers = []
        declared = min((limit for limit in (writer_lengths[1], most) if limit is not None), default=None)
        for limit in (declared, writer_lengths[1]):
            is_long = reader_lengths[1] is not None and (limit is None or limit > reader_lengths[1])
            answers.append(Answer.YES if max(writer_lengths[0], least) < reader_lengths[0] or is_long else Answer.NO)
        sizes = [_size_text(*lengths, what) for lengths in (writer_lengths, reader_lengths)]
        old, new = self._old_and_new(*sizes)
        because = f"{{writer}} may write {sizes[0]}, and {{reader}} takes {sizes[1]}"
        yield DirectionResult(path, "size-changed", f"was {old}, is {new}", answers[0], answers[1], because)

    def _changed(self, path: Path, kind: str, writer: Shape, reader: Shape, answer: Answer, because: str = "") -> DirectionResult:
        old, new = self._old_and_new(self._value_text(writer, self._writer), self._value_text(reader, self._reader))
        return DirectionResult(path, kind, f"was {old}, is {new}", answer, answer, because)

    def _value_text(self, shape: Shape, document: JsonDocument) -> str:
        """Return what a value is, as people read it."""
        if shape.enum is not None:
            return values_text(shape.enum)
        types = shape.types
        for _, branches in shape.unions:
            types &= frozenset().union(*(document.shape((branch,), self._steps).types for branch in branches))
        if types == {"array"} and shape.items and shape.items[0] is not False:
            return f"array of {texts(document.shape(shape.items, self._steps).types)}"
        return texts(types)

    def _old_and_new(self, of_writer: Any, of_reader: Any) -> tuple[Any, Any]:
        return (of_writer, of_reader) if self._is_backward else (of_reader, of_writer)

    def _result(self, path: Path, kind: str, what: str, is_lost: bool, because: str) -> DirectionResult:
        answer = Answer.YES if is_lost else Answer.NO
        return DirectionResult(path, kind, what, answer, answer, because)

    def _strictly(self, path: Path, kind: str, what: str, strict: Answer, because: str) -> DirectionResult:
        return DirectionResult(path, kind, what, Answer.NO, strict, because)

    def _unknown(self, path: Path, kind: str, what: str, because: str) -> DirectionResult:
        return DirectionResult(path, kind, what, Answer.UNKNOWN, Answer.UNKNOWN, because)


def _only_values(shape: Shape) -> list[Any] | None:
    """Return all values of a shape; None: there are too many."""
    if shape.enum is not None or not shape.types <= _FEW_VALUES.keys():
        return shape.enum
    return [value for type_name in sorted(shape.types) for value in _FEW_VALUES[type_name]]


def _of_integers(low: Bound | None, high: Bound | None) -> tuple[Bound | None, Bound | None]:
    """Return the bounds of the integers between two bounds: none is excluded."""
    least, most = low, high
    if low is not None and _is_finite(low[0]):
        least = math.floor(low[0]) + 1 if low[1] else math.ceil(low[0]), False
    if high is not None and _is_finite(high[0]):
        most = math.ceil(high[0]) - 1 if high[1] else math.floor(high[0]), False
    return least, most


def _is_finite(number: float) -> bool:
    return isinstance(number, int) or math.isfinite(number)  # not every integer is a double


def _range(shape: Shape) -> str:
    low = "" if shape.low is None else f"{'more than' if shape.low[1] else 'at least'} {shape.low[0]}"
    high = "" if shape.high is None else f"{'less than' if shape.high[1] else 'at most'} {shape.high[0]}"
    return " and ".join(bound for bound in (low, high) if bound) or "any number"


def _size_text(low: int, high: int | None, what: str) -> str:
    if high is None:
        return f"at least {low} {what}" if low else f"any number of {what}"
    return f"{low} to {high} {what}"


def _divides(divisor: Any, number: Any) -> bool:
    """Return whether a number is a multiple of another one, as both are written: 1 of 0.01."""
    if not isinstance(divisor, int | float) or not isinstance(number, int | float) or divisor == 0:
        return False
    exact = [Fraction(repr(value)) if isinstance(value, float) else Fraction(value) for value in (number, divisor)]
    return (exact[0] / exact[1]).denominator == 1


def values_text(values: Iterable[Any]) -> str:
    """Return values as people read them, the first six."""
    shown = [decoded(in_order(value)) if type_of(value) in ("object", "array") else as_key(value).decode() for value in values]
    return (
        ", ".join(text[:40] for text in shown[:6]) + (f" or one of {len(shown) - 6} more" if len(shown) > 6 else "") or "nothing"
    )


class MemberComparison(KeywordComparison):
    """Compares the members of objects in one direction."""

    @abstractmethod
    def _read(self, parts: Parts, schema: Any, path: Path) -> list[DirectionResult]:
        """Compare what is written by all of some schemas with the one that reads."""

    def _compare_members(self, writer: Shape, reader: Shape, path: Path) -> Iterator[DirectionResult]:
        countable = not writer.patterns and not writer.unions and not any(schema is not False for schema in writer.rest())
        most = len(writer.properties.keys() | writer.required) if countable else None
        yield from self._sizes("object", writer, reader, path, least=len(writer.required), most=most)
        for name in sorted(reader.required - writer.required):
            yield self._required(name, writer, reader, path)
        is_simple = not reader.patterns and len(reader.extra) < 2
        is_exact = not self._has_values and not self._has_references  # what is equal to Python means the same
        properties_of = writer.properties.get
        for name, declared in reader.properties.items():
            parts = properties_of(name)
            if is_simple and parts is not None:
                if is_exact and parts == declared:
                    continue
                if len(parts) == len(declared) == 1 and self._same(parts[0], declared[0]):
                    continue
            yield from self._declared(name, writer, reader, path)
        for name in writer.properties:
            if name not in reader.properties:
                yield from self._undeclared(name, writer, reader, path)
        yield from self._undeclared_members(writer, reader, path)

    def _is_limited(self, writer: Shape, place: Path) -> bool:
        """Return whether more limits what is written at a place in the value: a condition, or a schema that is not followed."""
        if writer.unread:
            return True
        if not place:
            return any(name in _CONDITIONS for name, _ in writer.opaque)
        if not writer.opaque:
            return False
        words = self._words.get(id(writer))
        if words is None:
            words = self._words[id(writer)] = words_in(writer.opaque)
        return place[0] in words or not words.isdisjoint(_OF_ANY_NAME)

    def _required(self, name: str, writer: Shape, reader: Shape, path: Path) -> DirectionResult:
        """Describe a member that the reader requires and the writer does not."""
        if name in writer.properties:
            kind = "became-required" if self._is_backward else "became-optional"
            what = kind.replace("-", " ")
            because = "{writer} may leave it out, and {reader} requires it"
        else:
            kind, what = self._came_or_went(name, reader, is_reader=True)
            because = "{writer} does not know it, and {reader} requires it"
        return self._result((*path, name), kind, what, True, because)

    def _came_or_went(self, name: str, side: Shape, *, is_reader: bool) -> tuple[str, str]:
        """Return kind and text of a member that one side alone declares."""
        document = self._reader if is_reader else self._writer
        parts = side.properties.get(name, _ANY)
        value = self._value_text(document.shape(parts, self._steps), document)
        came = is_reader == self._is_backward
        needed = "required" if name in side.required else "optional"
        return ("field-added", f"came: {value}, {needed}") if came else ("field-removed", f"went: {value}, was {needed}")

    def _declared(self, name: str, writer: Shape, reader: Shape, path: Path) -> Iterator[DirectionResult]:
        """Compare a member that the reader declares."""
        here = (*path, name)
        parts, is_declared, is_matched = writer.member(name)
        wanted, _, is_wanted_matched = reader.member(name)
        if is_wanted_matched:
            yield self._unknown(here, "content-changed", "patterns of names differ", "whether a pattern of names is about it")
        if is_declared:
            for schema in wanted:
                if schema is False:
                    yield self._strictly(here, "content-changed", "other members are refused", Answer.YES, "{reader} refuses it")
                else:
                    yield from self._read(parts, schema, here)
            return
        kind, what = self._came_or_went(name, reader, is_reader=True)
        is_closed = writer.closed or False in parts
        strict = Answer.NO if is_closed else max((self._worst(_ANY, schema, here) for schema in wanted), default=Answer.NO)
        because = "{writer} may write any value under this name, and {reader} takes only some"
        if is_matched:
            yield self._unknown(here, kind, what, "whether a pattern of names is about it")
        else:
            is_written = name in writer.required or writer.opaque
            lenient = min(strict, Answer.UNKNOWN) if is_written else Answer.NO
            yield DirectionResult(here, kind, what, lenient, strict, because)

    def _undeclared(self, name: str, writer: Shape, reader: Shape, path: Path) -> Iterator[DirectionResult]:
        """Compare a member that only the writer declares."""
        here = (*path, name)
        wanted, _, is_matched = reader.member(name)
        kind, what = self._came_or_went(name, writer, is_reader=False)
        is_refused = False in wanted
        if is_matched:
            yield self._unknown(here, kind, what, "whether a pattern of names is about it")
        parts = writer.member(name)[0]
        for schema in wanted:
            if schema is not False:
                yield from self._read(parts, schema, here)
        strict = Answer.YES if is_refused else Answer.NO
        if reader.closed and not is_refused:
            strict = Answer.UNKNOWN if reader.unions or reader.opaque else Answer.YES
        yield self._strictly(
            here, kind, what, strict, "{writer} may write it, and {reader} refuses members that it does not know"
        )

    def _undeclared_members(self, writer: Shape, reader: Shape, path: Path) -> Iterator[DirectionResult]:
        """Compare members that neither side names: those of a map, or those that match a pattern."""
        writer_rest = writer.rest()
        is_closed = False in writer_rest or (writer.closed and not writer_rest)
        for schema in reader.rest():
            if schema is False:
                if not is_closed:
                    because = "{writer} may write members that it does not declare, and {reader} refuses these"
                    what = "members that are not declared are " + ("refused now" if self._is_backward else "taken now")
                    yield self._strictly(path, "content-changed", what, Answer.YES, because)
                elif writer.patterns.keys() - reader.patterns.keys():
                    because = "{writer} may write members that match a pattern, and {reader} refuses these"
                    yield self._strictly(path, "content-changed", "patterns of names differ", Answer.YES, because)
                continue
            yield from self._free(writer, schema, path, is_closed=is_closed)
            for pattern in writer.patterns.keys() - reader.patterns.keys():
                yield from self._read(writer.patterns[pattern], schema, (*path, "*"))
        for pattern, parts in reader.patterns.items():
            other = writer.patterns.get(pattern)
            for schema in parts:
                if other is not None:
                    yield from self._read(other, schema, (*path, "*"))
                else:
                    yield from self._free(writer, schema, path, is_closed=is_closed)
            if writer.patterns and other is None:
                what = f"members that match {pattern[:80]} differ"
                yield self._unknown(path, "content-changed", what, "patterns of names are not compared")
        if reader.closed and (not is_closed or writer.patterns.keys() - reader.patterns.keys()):
            because = "{writer} may write members that it does not declare, and {reader} refuses these"
            yield self._strictly(path, "content-changed", "`unevaluatedProperties` differs", Answer.YES, because)

    def _free(self, writer: Shape, schema: Any, path: Path, *, is_closed: bool) -> Iterator[DirectionResult]:
        """Compare members of any name with the schema that the reader has for them."""
        if is_closed:
            return
        here = (*path, "*")
        if writer.rest():
            yield from self._read(writer.rest(), schema, here)
            return
        because = "{writer} may write any member, and {reader} takes only some"
        strict = self._worst(_ANY, schema, here)
        # Conditions declare members, and what is required is written although it is not declared.
        is_written = bool(writer.opaque or writer.required - writer.properties.keys())
        lenient = min(strict, Answer.UNKNOWN) if is_written else Answer.NO
        yield DirectionResult(here, "content-changed", "other members are limited", lenient, strict, because)

    def _worst(self, parts: Parts, schema: Any, path: Path) -> Answer:
        return (
            Answer.YES
            if schema is False
            else max((difference.strict for difference in self._read(parts, schema, path)), default=Answer.NO)
        )


class JsonComparison(MemberComparison):
    """Compares in one direction."""

    def compare(self) -> list[DirectionResult]:
        """Find what differs."""
        return [] if self._is_same_text else self._read((self._writer.root,), self._reader.root, ())

    def _read(self, parts: Parts, schema: Any, path: Path) -> list[DirectionResult]:
        """Compare what is written by all of some schemas with the one that reads."""
        if schema is True or (len(parts) == 1 and self._same(parts[0], schema)):
            return []
        key = (tuple(map(id, parts)), id(schema))
        if key in self._open:
            return []
        earlier = self._done.get(key)
        if earlier is not None:
            start = len(earlier[0])
            self._steps.spend(count=len(earlier[1]))
            return [difference._replace(path=(*path, *difference.path[start:])) for difference in earlier[1]]
        self._steps.spend(len(path))
        self._open.add(key)
        at = len(self._order)
        differences = self._decided(parts, schema, path)
        self._open.discard(key)
        if any(difference.strict for difference in differences):  # this pair was taken for granted: it is compared once more
            for other in self._order[at:]:
                self._done.pop(other, None)
            del self._order[at:]
        self._done[key] = (path, differences)
        self._order.append(key)
        return differences

    def _decided(self, parts: Parts, schema: Any, path: Path) -> list[DirectionResult]:
        writer = self._writer.shape(parts, self._steps)
        reader = self._reader.shape((schema,), self._steps)
        quick = list(self._atom(writer, reader, path, writer))
        if not writer.choices() or not any(difference.strict for difference in quick):
            return quick
        atoms = self._atoms(writer)
        if atoms is None:
            because = "{writer} has more combinations of alternatives than are tried"
            return [self._unknown(path, "alternatives-changed", "alternatives differ", because)]
        differences: list[DirectionResult] = []
        for atom in atoms:
            differences += self._atom(self._writer.shape(atom, self._steps), reader, path, writer)
        return differences

    def _atoms(self, writer: Shape) -> list[Parts] | None:
        """Return the combinations of alternatives that may be written; None: too many."""
        count = 1
        choices = writer.choices()
        for branches in choices:
            count *= len(branches)
        if count > _MOST_ATOMS:
            return None
        return [_with(writer.parts, *chosen) for chosen in product(*choices)]

    def _atom(self, writer: Shape, reader: Shape, path: Path, whole: Shape) -> Iterator[DirectionResult]:
        """Compare without splitting what is written any further; `whole` is what people are shown."""
        if writer.is_impossible:
            return
        found = [self._plain(writer, reader, path, whole)]
        for name, branches in reader.unions if writer.enum is None else ():
            if not any(kind == name and self._same(branches, other) for kind, other in writer.unions):
                found.append(self._alternatives(writer, reader, name, branches, path))
        for difference in chain.from_iterable(found):
            yield _unsure(difference) if self._is_limited(writer, difference.path[len(path) :]) else difference

    def _plain(self, writer: Shape, reader: Shape, path: Path, whole: Shape) -> Iterator[DirectionResult]:
        """Compare all but alternatives."""
        for what in reader.unread:
            yield self._unknown(path, "undecided", f"{what} is not followed", f"{what} is not followed")
        if reader.is_impossible:
            yield self._changed(path, "type-changed", whole, reader, Answer.YES, "{reader} takes no value here")
            return
        values = _only_values(writer) if reader.enum is not None else writer.enum
        if values is not None:
            yield from self._values(values, reader, path, whole)
            return
        if reader.enum is not None:
            because = f"{{writer}} may write {texts(writer.types)}, and {{reader}} takes {values_text(reader.enum)} only"
            yield self._changed(path, "values-changed", whole, reader, Answer.YES, because)
            return
        lost = writer.types - reader.types
        if lost:
            because = f"{{writer}} may write {texts(lost)}, and {{reader}} takes {texts(reader.types)}"
            yield self._changed(path, "type-changed", whole, reader, Answer.YES, because)
        elif not whole.unions and reader.types - writer.types and not reader.unions:
            yield self._changed(path, "type-changed", whole, reader, Answer.NO)
        common = writer.types & reader.types
        if common & _NUMBERS:
            yield from self._numbers(writer, reader, path)
        if "string" in common:
            yield from self._strings(writer, reader, path)
        if "array" in common:
            yield from self._items(writer, reader, path)
        if "object" in common:
            yield from self._compare_members(writer, reader, path)
        for name, value in reader.opaque:
            if name in DEPENDENT or not any(kind == name and self._same(value, other) for kind, other in writer.opaque):
                yield self._unknown(path, "condition-changed", f"`{name}` differs", f"what `{name}` asks for is not compared")

    def _values(self, values: list[Any], reader: Shape, path: Path, whole: Shape) -> Iterator[DirectionResult]:
        """Compare the only values that are written, one by one."""
        for value in values:
            self._steps.spend()
            answers = [satisfies(value, schema, self._reader) for schema in reader.parts]
            if False in answers:
                text = values_text([value])
                if reader.enum is not None:
                    yield from unread_values(path, [text], is_backward=self._is_backward)
                else:
                    because = f"{{writer}} may write {text}, which {{reader}} does not take"
                    yield self._changed(path, "values-changed", whole, reader, Answer.YES, because)
            elif None in answers:
                yield self._unknown(path, "values-changed", "values differ", f"whether {values_text([value])} is taken")
        if reader.enum is None:
            yield self._changed(path, "values-changed", whole, reader, Answer.NO)

    def _items(self, writer: Shape, reader: Shape, path: Path) -> Iterator[DirectionResult]:
        yield from self._sizes("array", writer, reader, path)
        most = writer.lengths.get("maxItems")
        if "uniqueItems" in reader.lengths and "uniqueItems" not in writer.lengths and (most is None or most > 1):
            because = "{writer} may write an item twice, and {reader} takes each once"
            word = "came" if self._is_backward else "went"
            yield self._result(path, "size-changed", f"`uniqueItems` {word}", True, because)
        count = max(len(writer.prefix), len(reader.prefix))
        for at in range(count if most is None else min(count, most)):
            writer_schema = writer.prefix[at] if at < len(writer.prefix) else writer.items or _ANY
            for schema in reader.prefix[at] if at < len(reader.prefix) else reader.items:
                yield from self._read(writer_schema, schema, (*path, str(at)))
        if most is None or most > count:
            for schema in reader.items:
                yield from self._read(writer.items or _ANY, schema, (*path, "*"))

    def _alternatives(
        self, writer: Shape, reader: Shape, name: str, branches: list[Any], path: Path
    ) -> Iterator[DirectionResult]:
        """Compare with `anyOf` or `oneOf`: each type of what is written on its own."""
        for atom in self._by_type(writer):
            shape = self._writer.shape(atom, self._steps)
            if shape.is_impossible:
                continue
            near = [branch for branch in branches if not self._is_disjoint(shape, self._reader.shape((branch,), self._steps), 0)]
            if not near:
                value = self._value_text(shape, self._writer)
                because = f"{{writer}} may write {value}, which no alternative of {{reader}} takes"
                kind = "alternative-removed" if self._is_backward else "alternative-added"
                word = "is no longer an alternative" if self._is_backward else "is an alternative now"
                yield self._result(path, kind, f"{value} {word}", True, because)
            elif len(near) == 1:
                yield from self._read(atom, near[0], path)
            else:
                yield from self._several(atom, name, near, path)

    def _several(self, atom: Parts, name: str, near: list[Any], path: Path) -> Iterator[DirectionResult]:
        """Compare with alternatives of which several may take what is written."""
        all_found = [self._read(atom, branch, path) for branch in near]
        lenient = min(max((difference.lenient for difference in branch), default=Answer.NO) for branch in all_found)
        strict = min(max((difference.strict for difference in branch), default=Answer.NO) for branch in all_found)
        if name == "oneOf":
            because = "whether exactly one alternative of {reader} takes what {writer} may write"
            yield self._unknown(path, "alternatives-changed", "alternatives differ", because)
        elif strict > Answer.NO:
            answers = [min(answer, Answer.UNKNOWN) for answer in (lenient, strict)]
            because = "whether the alternatives of {reader} together take all that {writer} may write"
            yield DirectionResult(path, "alternatives-changed", "alternatives differ", answers[0], answers[1], because)

    def _by_type(self, writer: Shape) -> list[Parts]:
        """Split what is written by its types, where there are few of them."""
        types = writer.types - {"integer"} if "number" in writer.types else writer.types
        if len(types) == 1 or writer.enum is not None:
            return [writer.parts]
        return [_with(writer.parts, _BY_TYPE[type_name]) for type_name in sorted(types)]

    def _is_disjoint(self, writer: Shape, reader: Shape, depth: int) -> bool:
        """Return whether no value can be of both, as far as types, values and required members show."""
        self._steps.spend()
        if writer.is_impossible or reader.is_impossible or not writer.types & reader.types:
            return True
        if writer.enum is not None:
            return all(_refuses(value, reader, self._reader) for value in writer.enum)
        if reader.enum is not None:
            return all(_refuses(value, writer, self._writer) for value in reader.enum)
        if writer.types & reader.types != {"object"} or depth > 2:
            return False
        for name in writer.required | reader.required:
            writer_schema, reader_schema = writer.properties.get(name), reader.properties.get(name)
            if writer_schema and reader_schema:
                writer_shape, reader_shape = (
                    self._writer.shape(writer_schema, self._steps),
                    self._reader.shape(reader_schema, self._steps),
                )
                if self._is_disjoint(writer_shape, reader_shape, depth + 1):
                    return True
        return False


def _with(parts: Parts, *more: Any) -> Parts:
    """Return schemas that hold together, each once."""
    ids = set(map(id, parts))
    return (*parts, *(schema for schema in more if id(schema) not in ids))


def _unsure(difference: DirectionResult) -> DirectionResult:
    """Return what was found where something that is not compared may exclude it."""
    return difference._replace(lenient=min(difference.lenient, Answer.UNKNOWN), strict=min(difference.strict, Answer.UNKNOWN))


def _refuses(value: Any, shape: Shape, document: JsonDocument) -> bool:
    return any(satisfies(value, schema, document) is False for schema in shape.parts)
