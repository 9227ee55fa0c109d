"""JSON Schema: whether each value of one schema is one of the other, in two readings.

*Lenient*: a producer writes the members that its schema declares, and a consumer passes over those that it does not know: so
optional members may come and go. *Strict*: a producer may write any member that its schema does not forbid, and a consumer
validates. Conditions, `not`, patterns and the like are the same, or it is unknown what their change does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

from lakehouse.compatibility.jsonlimits import values_text
from lakehouse.compatibility.jsonmembers import MemberComparison
from lakehouse.compatibility.jsonshapes import DEPENDENT, Parts, Shape, texts
from lakehouse.compatibility.jsonvalues import satisfies
from lakehouse.compatibility.judgement import Answer, DirectionResult, Path, unread_values

_MOST_ATOMS = 64
_CONDITIONS = frozenset({"not", "if", "dependentSchemas", "dependencies", "extends", "disallow"})
_NUMBERS = frozenset({"integer", "number"})
_ANY: Parts = (True,)
_BY_TYPE = {name: {"type": name} for name in ("null", "boolean", "number", "integer", "string", "array", "object")}


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
            return [one._replace(path=(*path, *one.path[start:])) for one in earlier[1]]
        self._steps.spend(len(path))
        self._open.add(key)
        at = len(self._order)
        differences = self._decided(parts, schema, path)
        self._open.discard(key)
        if any(one.strict for one in differences):  # this pair was taken for granted: it is compared once more
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
        if not writer.choices() or not any(one.strict for one in quick):
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
        is_sure = not writer.unread and not any(name in _CONDITIONS for name, _ in writer.opaque)
        for one in self._plain(writer, reader, path, whole):
            yield one if is_sure or len(one.path) > len(path) else _unsure(one)
        for name, branches in reader.unions if writer.enum is None else ():
            if not any(kind == name and self._same(branches, other) for kind, other in writer.unions):
                yield from self._alternatives(writer, reader, name, branches, path)

    def _plain(self, writer: Shape, reader: Shape, path: Path, whole: Shape) -> Iterator[DirectionResult]:
        """Compare all but alternatives."""
        for what in reader.unread:
            yield self._unknown(path, "undecided", f"{what} is not followed", f"{what} is not followed")
        if reader.is_impossible:
            yield self._changed(path, "type-changed", whole, reader, Answer.YES, "{reader} takes no value here")
            return
        if writer.enum is not None:
            yield from self._values(writer.enum, reader, path, whole)
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
            answers = [satisfies(value, one, self._reader.follow) for one in reader.parts]
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
            yield self._found(path, "size-changed", f"`uniqueItems` {word}", True, because)
        count = max(len(writer.prefix), len(reader.prefix))
        for at in range(count if most is None else min(count, most)):
            ours = writer.prefix[at] if at < len(writer.prefix) else writer.items or _ANY
            for one in reader.prefix[at] if at < len(reader.prefix) else reader.items:
                yield from self._read(ours, one, (*path, str(at)))
        if most is None or most > count:
            for one in reader.items:
                yield from self._read(writer.items or _ANY, one, (*path, "*"))

    def _alternatives(
        self, writer: Shape, reader: Shape, name: str, branches: list[Any], path: Path
    ) -> Iterator[DirectionResult]:
        """Compare with `anyOf` or `oneOf`: each type of what is written on its own."""
        for atom in self._by_type(writer):
            shape = self._writer.shape(atom, self._steps)
            if shape.is_impossible:
                continue
            near = [one for one in branches if not self._is_disjoint(shape, self._reader.shape((one,), self._steps), 0)]
            if not near:
                value = self._value_text(shape, self._writer)
                because = f"{{writer}} may write {value}, which no alternative of {{reader}} takes"
                kind = "alternative-removed" if self._is_backward else "alternative-added"
                word = "is no longer an alternative" if self._is_backward else "is an alternative now"
                yield self._found(path, kind, f"{value} {word}", True, because)
            elif len(near) == 1:
                yield from self._read(atom, near[0], path)
            else:
                yield from self._several(atom, name, near, path)

    def _several(self, atom: Parts, name: str, near: list[Any], path: Path) -> Iterator[DirectionResult]:
        """Compare with alternatives of which several may take what is written."""
        all_found = [self._read(atom, one, path) for one in near]
        lenient = min(max((one.lenient for one in branch), default=Answer.NO) for branch in all_found)
        strict = min(max((one.strict for one in branch), default=Answer.NO) for branch in all_found)
        if name == "oneOf":
            because = "whether exactly one alternative of {reader} takes what {writer} may write"
            yield self._unknown(path, "alternatives-changed", "alternatives differ", because)
        elif strict > Answer.NO:
            answers = [min(one, Answer.UNKNOWN) for one in (lenient, strict)]
            because = "whether the alternatives of {reader} together take all that {writer} may write"
            yield DirectionResult(path, "alternatives-changed", "alternatives differ", answers[0], answers[1], because)

    def _by_type(self, writer: Shape) -> list[Parts]:
        """Split what is written by its types, where there are few of them."""
        types = writer.types - {"integer"} if "number" in writer.types else writer.types
        if len(types) == 1 or writer.enum is not None:
            return [writer.parts]
        return [_with(writer.parts, _BY_TYPE[one]) for one in sorted(types)]

    def _is_disjoint(self, writer: Shape, reader: Shape, depth: int) -> bool:
        """Return whether no value can be of both, as far as types, values and required members show."""
        self._steps.spend()
        if writer.is_impossible or reader.is_impossible or not writer.types & reader.types:
            return True
        if writer.enum is not None:
            return all(_refuses(one, reader, self._reader.follow) for one in writer.enum)
        if reader.enum is not None:
            return all(_refuses(one, writer, self._writer.follow) for one in reader.enum)
        if writer.types & reader.types != {"object"} or depth > 2:
            return False
        for name in writer.required | reader.required:
            ours, theirs = writer.properties.get(name), reader.properties.get(name)
            if ours and theirs:
                one, other = self._writer.shape(ours, self._steps), self._reader.shape(theirs, self._steps)
                if self._is_disjoint(one, other, depth + 1):
                    return True
        return False


def _with(parts: Parts, *more: Any) -> Parts:
    """Return schemas that hold together, each once."""
    ids = set(map(id, parts))
    return (*parts, *(one for one in more if id(one) not in ids))


def _unsure(one: DirectionResult) -> DirectionResult:
    """Return what was found where a condition may have excluded it."""
    return one._replace(lenient=min(one.lenient, Answer.UNKNOWN), strict=min(one.strict, Answer.UNKNOWN))


def _refuses(value: Any, shape: Shape, follow: Callable[[str], Any]) -> bool:
    return any(satisfies(value, one, follow) is False for one in shape.parts)
