"""JSON Schema: the members of objects, those that are declared and all others."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

from lakehouse.compatibility.jsonlimits import KeywordComparison
from lakehouse.compatibility.jsonshapes import Parts, Shape
from lakehouse.compatibility.judgement import Answer, DirectionResult, Path

_ANY: Parts = (True,)


class MemberComparison(KeywordComparison):
    """Compares the members of objects in one direction."""

    @abstractmethod
    def _read(self, parts: Parts, schema: Any, path: Path) -> list[DirectionResult]:
        """Compare what is written by all of some schemas with the one that reads."""

    def _compare_members(self, writer: Shape, reader: Shape, path: Path) -> Iterator[DirectionResult]:
        countable = not writer.patterns and not writer.unions and not any(one is not False for one in writer.rest())
        most = len(writer.properties) if countable else None
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
        yield from self._others(writer, reader, path)

    def _required(self, name: str, writer: Shape, reader: Shape, path: Path) -> DirectionResult:
        """Describe a member that the reader requires and the writer does not."""
        if name in writer.properties:
            kind = "became-required" if self._is_backward else "became-optional"
            what = kind.replace("-", " ")
            because = "{writer} may leave it out, and {reader} requires it"
        else:
            kind, what = self._came_or_went(name, reader, is_reader=True)
            because = "{writer} does not know it, and {reader} requires it"
        return self._found((*path, name), kind, what, True, because)

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
            for one in wanted:
                if one is False:
                    yield self._strictly(here, "content-changed", "other members are refused", Answer.YES, "{reader} refuses it")
                else:
                    yield from self._read(parts, one, here)
            return
        kind, what = self._came_or_went(name, reader, is_reader=True)
        is_closed = writer.closed or False in parts
        strict = Answer.NO if is_closed else max((self._worst(_ANY, one, here) for one in wanted), default=Answer.NO)
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
        for one in wanted:
            if one is not False:
                yield from self._read(parts, one, here)
        strict = Answer.YES if is_refused else Answer.NO
        if reader.closed and not is_refused:
            strict = Answer.UNKNOWN if reader.unions or reader.opaque else Answer.YES
        yield self._strictly(
            here, kind, what, strict, "{writer} may write it, and {reader} refuses members that it does not know"
        )

    def _others(self, writer: Shape, reader: Shape, path: Path) -> Iterator[DirectionResult]:
        """Compare members that neither side names: those of a map, or those that match a pattern."""
        ours = writer.rest()
        is_closed = False in ours or (writer.closed and not ours)
        for one in reader.rest():
            if one is False:
                if not is_closed:
                    because = "{writer} may write members that it does not declare, and {reader} refuses these"
                    what = "members that are not declared are " + ("refused now" if self._is_backward else "taken now")
                    yield self._strictly(path, "content-changed", what, Answer.YES, because)
                elif writer.patterns.keys() - reader.patterns.keys():
                    because = "{writer} may write members that match a pattern, and {reader} refuses these"
                    yield self._strictly(path, "content-changed", "patterns of names differ", Answer.YES, because)
                continue
            yield from self._free(writer, one, path, is_closed=is_closed)
            for pattern in writer.patterns.keys() - reader.patterns.keys():
                yield from self._read(writer.patterns[pattern], one, (*path, "*"))
        for pattern, parts in reader.patterns.items():
            other = writer.patterns.get(pattern)
            for one in parts:
                if other is not None:
                    yield from self._read(other, one, (*path, "*"))
                else:
                    yield from self._free(writer, one, path, is_closed=is_closed)
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
        return Answer.YES if schema is False else max((one.strict for one in self._read(parts, schema, path)), default=Answer.NO)
