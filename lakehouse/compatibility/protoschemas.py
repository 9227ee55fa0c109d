"""Protobuf: messages compared by the numbers of their fields, as bytes and, in the strict reading, as JSON.

*Lenient* is what bytes on the wire allow: a field may come and go, may be renamed, and change among types that are written alike.
*Strict* is JSON, too, where names count and an unknown name is an error.

A `.proto` file is read here, and not by the compiler: judgements must not depend on what is installed, nor start a process for
each schema. What is not known is refused, so that nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from string import ascii_letters, digits
from typing import NamedTuple, TypeVar

from lakehouse.compatibility.limits import MOST_DEPTH, Malformed, StepBudget, Unreadable
from lakehouse.compatibility.schemadifferences import Answer, DirectionResult, Path

SCALARS = frozenset(
    {"double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64",
     "bool", "string", "bytes"}
)  # fmt: skip
_TOKEN = re.compile(
    r"""(?:\s|//[^\n]*|/\*.*?\*/)+|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[A-Za-z_.][\w.]*|[0-9][\w.+-]*|[{}\[\]()<>;=,:\-+/]|.)""",
    re.DOTALL,
)
_LETTERS = frozenset(f"{ascii_letters}{digits}_.{{}}[]()<>;=,:-+/")
_LABELS = ("optional", "required", "repeated")
_LAST_NUMBER = 2**29 - 1
# Types that are written alike, as bytes; a value that does not fit is cut off.
_ALIKE = (
    frozenset({"int32", "uint32", "int64", "uint64", "bool"}),
    frozenset({"sint32", "sint64"}),
    frozenset({"fixed32", "sfixed32"}),
    frozenset({"fixed64", "sfixed64"}),
)
_TEXTS = ("string", "bytes")
_WIDER = frozenset(
    {("int32", "int64"), ("uint32", "uint64"), ("sint32", "sint64"), ("uint32", "int64"), ("bool", "int32"), ("bool", "int64"),
     ("bool", "uint32"), ("bool", "uint64"), ("string", "bytes"), ("enum", "int32"), ("enum", "int64")}
)  # fmt: skip
# As JSON: numbers of 32 bits are numbers, those of 64 bits are strings, which both are read as either.
_ALIKE_IN_JSON = (
    frozenset({"int32", "sint32", "sfixed32", "int64", "sint64", "sfixed64"}),
    frozenset({"uint32", "fixed32", "uint64", "fixed64"}),
    frozenset({"float", "double"}),
)
_Side = TypeVar("_Side")


class ProtoField(NamedTuple):
    """A field of a message; `label` is empty where none is written, `oneof` where it is in none."""

    number: int
    name: str
    type: str
    label: str = ""
    oneof: str = ""
    key: str = ""  # of a map
    json_name: str = ""


class ProtoMessage(NamedTuple):
    """A message."""

    name: str
    fields: dict[int, ProtoField]
    reserved: list[tuple[int, int]]
    reserved_names: set[str]

    def reserves(self, field: ProtoField) -> bool:
        """Return whether the number or the name of a field is reserved."""
        return field.name in self.reserved_names or any(first <= field.number <= last for first, last in self.reserved)


class ProtoEnum(NamedTuple):
    """An enumeration: the names of each number."""

    name: str
    values: dict[int, list[str]]
    is_closed: bool


class ProtoFile:
    """A `.proto` file.

    Args:
        text: of the file.

    Raises:
        Malformed: it is no Protobuf.
        Unreadable: it has editions or groups.
    """

    def __init__(self, text: str) -> None:
        self.messages: dict[str, ProtoMessage] = {}
        self.enums: dict[str, ProtoEnum] = {}
        self.package, self.syntax = "", "proto2"
        self.first = ""  # the message that a payload is, where none is named
        _Parser(text, self).read()

    def resolve(self, name: str, scope: str) -> str:
        """Return the full name of a type that is named within a message; one of another file stays as it is written."""
        if name in SCALARS:
            return name
        if name.startswith("."):
            return name[1:]
        while True:
            full = f"{scope}.{name}" if scope else name
            if full in self.messages or full in self.enums:
                return full
            if not scope:
                return name
            scope = scope.rpartition(".")[0]


def proto_tokens(text: str) -> list[str]:
    """Return the tokens of a `.proto` file, without blanks and comments.

    Raises:
        Malformed: it has a letter that no such file has.
    """
    tokens = [token for token in _TOKEN.findall(text) if token]
    wrong = {token for token in set(tokens) if len(token) == 1} - _LETTERS
    if wrong:
        at = next(match.start() for match in _TOKEN.finditer(text) if match[1] in wrong)
        raise Malformed(f"no Protobuf: {text[at : at + 20]!r}")
    return tokens


class _Parser:
    def __init__(self, text: str, file: ProtoFile) -> None:
        self._tokens = proto_tokens(text)
        self._at = 0
        self._file = file

    def read(self) -> None:
        while self._at < len(self._tokens):
            word = self._next()
            if word == "syntax":
                self._expect("=")
                self._file.syntax = self._next().strip("'\"")
                self._expect(";")
            elif word == "edition":
                raise Unreadable("editions of Protobuf are not read")
            elif word == "package":
                self._file.package = self._next()
                self._expect(";")
            elif word == "message":
                self._message(self._file.package, 0)
            elif word == "enum":
                self._enum(self._file.package)
            elif word in ("service", "extend"):
                self._skip_block()
            elif word in ("import", "option"):
                self._skip_to_end()
            elif word != ";":
                raise Malformed(f"no Protobuf: {word[:40]!r} is not expected")

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise Malformed("no Protobuf: the text ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _peek(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at] if at < len(self._tokens) else ""

    def _expect(self, sign: str) -> None:
        token = self._next()
        if token != sign:
            raise Malformed(f"no Protobuf: {sign!r} is expected where {token[:40]!r} is")

    def _skip_to_end(self) -> None:
        """Skip to the end of a statement, over what is in brackets."""
        depth = 0
        while (sign := self._next()) != ";" or depth:
            depth += (sign in "{[") - (sign in "}]")

    def _skip_block(self) -> None:
        while self._next() != "{":
            pass
        depth = 1
        while depth:
            sign = self._next()
            depth += (sign == "{") - (sign == "}")

    def _message(self, scope: str, depth: int) -> None:
        if depth > MOST_DEPTH:
            raise Unreadable("the messages are too deep")
        name = self._next()
        full = f"{scope}.{name}" if scope else name
        made = ProtoMessage(full, {}, [], set())
        self._file.messages[full] = made
        self._file.first = self._file.first or full
        self._expect("{")
        while self._peek() != "}":
            word = self._next()
            if word == "message" and self._peek() not in ("=",) and self._peek(1) == "{":
                self._message(full, depth + 1)
            elif word == "enum" and self._peek(1) == "{":
                self._enum(full)
            elif word == "oneof" and self._peek(1) == "{":
                self._oneof(made)
            elif word == "reserved":
                self._reserved(made)
            elif word in ("option", "extensions"):
                self._skip_to_end()
            elif word == "extend":
                self._skip_block()
            elif word != ";":
                self._field(made, word)
        self._expect("}")

    def _oneof(self, message: ProtoMessage) -> None:
        name = self._next()
        self._expect("{")
        while self._peek() != "}":
            word = self._next()
            if word == "option":
                self._skip_to_end()
            elif word != ";":
                self._field(message, word, oneof=name)
        self._expect("}")

    def _field(self, message: ProtoMessage, word: str, oneof: str = "") -> None:
        label = ""
        if word in _LABELS and self._peek(1) != "=":
            label, word = word, self._next()
        key = ""
        if word == "group":
            raise Unreadable("groups of proto2 are not read")
        if word == "map" and self._peek() == "<":
            self._expect("<")
            key = self._next()
            self._expect(",")
            word = self._next()
            self._expect(">")
        name = self._next()
        self._expect("=")
        number = self._number()
        json_name = self._options() if self._peek() == "[" else ""
        self._expect(";")
        if number in message.fields:
            raise Malformed(f"{message.name} has the number {number} twice")
        made = ProtoField(number, name, word, label, oneof, key, json_name or json_name_of(name))
        message.fields[number] = made

    def _options(self) -> str:
        """Skip the options of a field, and return its `json_name`."""
        value, depth = "", 0
        while True:
            word = self._next()
            depth += (word in ("[", "{")) - (word in ("]", "}"))
            if not depth:
                return value
            if word == "json_name" and self._peek() == "=":
                self._next()
                value = self._next().strip("'\"")

    def _number(self) -> int:
        sign = -1 if self._peek() == "-" else 1
        if sign < 0:
            self._next()
        word = self._next()
        if word.isdecimal() and word[0] != "0":
            return sign * int(word)
        if word == "max":
            return _LAST_NUMBER
        try:
            return sign * (int(word, 8) if re.fullmatch("0[0-7]+", word) else int(word, 0))
        except ValueError as error:
            raise Malformed(f"no Protobuf: {word[:40]!r} is no number") from error

    def _reserved(self, message: ProtoMessage) -> None:
        while True:
            token = self._peek()
            if token[:1] in "'\"":
                message.reserved_names.add(self._next().strip("'\""))
            else:
                first = last = self._number()
                if self._peek() == "to":
                    self._next()
                    last = self._number()
                message.reserved.append((first, last))
            if self._next() == ";":
                return

    def _enum(self, scope: str) -> None:
        name = self._next()
        full = f"{scope}.{name}" if scope else name
        values: dict[int, list[str]] = {}
        self._expect("{")
        while self._peek() != "}":
            word = self._next()
            if word in ("option", "reserved") and self._peek() != "=":
                self._skip_to_end()
            elif word != ";":
                self._expect("=")
                values.setdefault(self._number(), []).append(word)
                self._skip_to_end()
        self._expect("}")
        self._file.enums[full] = ProtoEnum(full, values, self._file.syntax != "proto3")


def json_name_of(name: str) -> str:
    """Return the name in JSON of a field that does not name one itself."""
    first, *reader_names = name.split("_")
    return first + "".join([word[:1].upper() + word[1:] for word in reader_names])


class ProtoComparison:
    """Compares in one direction.

    Args:
        writer: what is written.
        reader: what is read.
        is_backward: the old schema writes.
        steps: count the work.
    """

    def __init__(self, writer: ProtoFile, reader: ProtoFile, *, is_backward: bool, steps: StepBudget) -> None:
        self._writer, self._reader = writer, reader
        self._is_backward, self._steps = is_backward, steps
        self._seen: set[tuple[str, str]] = set()

    def compare(self) -> Iterator[DirectionResult]:
        """Compare all messages and enumerations that both declare, by name; one that is gone breaks who sends it."""
        if self._writer.package != self._reader.package:
            old, new = self._old_and_new(self._writer.package, self._reader.package)
            what = f"was {old or 'none'}, is {new or 'none'}"
            yield DirectionResult((), "package-changed", what, Answer.NO, Answer.NO, "")
        # A message that came is the payload only if the one that was first before is gone: helpers may come above it.
        is_payload = self._is_backward or self._reader.first not in map(self._moved, self._writer.messages)
        for name, message in self._writer.messages.items():
            other = self._reader.messages.get(self._moved(name))
            if other is not None:
                yield from self._messages(message, other, _path_of(name, self._writer.package))
            else:
                kind = "type-removed" if self._is_backward else "type-added"
                what = f"message {name} {'went' if self._is_backward else 'came'}"
                answer = Answer.YES if is_payload and name == self._writer.first else Answer.NO
                because = "{writer} writes this message, which {reader} does not know"
                yield DirectionResult(_path_of(name, self._writer.package), kind, what, answer, answer, because)
        for name, enum in self._writer.enums.items():
            same = self._reader.enums.get(self._moved(name))
            if same is not None:
                yield from self._enums(enum.values, same.values, same.is_closed, _path_of(name, self._writer.package))

    def _moved(self, name: str) -> str:
        """Return the name that a type of the writer has in the package of the reader."""
        start = f"{self._writer.package}." if self._writer.package else ""
        return f"{self._reader.package}.{name.removeprefix(start)}" if self._reader.package else name.removeprefix(start)

    def _messages(self, writer: ProtoMessage, reader: ProtoMessage, path: Path) -> Iterator[DirectionResult]:
        if (writer.name, reader.name) in self._seen:
            return
        self._seen.add((writer.name, reader.name))
        self._steps.spend(len(path), 1 + len(writer.fields))
        for number, field in writer.fields.items():
            other = reader.fields.get(number)
            if other is None:
                yield self._written(field, writer, reader, path)
            elif field != other or field.type not in SCALARS:
                yield from self._fields(field, other, writer, reader, path)
        for number, field in reader.fields.items():
            if number not in writer.fields:
                yield self._read(field, writer, reader, path)

    def _written(self, field: ProtoField, writer: ProtoMessage, reader: ProtoMessage, path: Path) -> DirectionResult:
        """Describe a field that only the writer has: as bytes it is passed over, as JSON it is an error."""
        because = "{writer} writes it, and as JSON {reader} refuses a name that it does not know"
        kind, what = self._gone(field, reader) if self._is_backward else self._new(field, reader)
        return DirectionResult((*path, field.name), kind, what, Answer.NO, Answer.YES, because)

    def _read(self, field: ProtoField, writer: ProtoMessage, reader: ProtoMessage, path: Path) -> DirectionResult:
        """Describe a field that only the reader has: it is missing, unless its number was reserved: earlier writers had one."""
        is_reused = self._is_backward and writer.reserves(field)
        kind, what = self._new(field, writer) if self._is_backward else self._gone(field, writer)
        if is_reused and field.label != "required":
            because = "{writer} reserves the number or the name, so what was written earlier may hold another field there"
            return DirectionResult((*path, field.name), kind, what, Answer.UNKNOWN, Answer.UNKNOWN, because)
        answer = Answer.YES if field.label == "required" else Answer.NO
        because = "{writer} does not write it, and {reader} requires it"
        return DirectionResult((*path, field.name), kind, what, answer, answer, because)

    def _gone(self, field: ProtoField, new: ProtoMessage) -> tuple[str, str]:
        """Return the kind of a field that went, and what is said of it; another field may get a number that is free."""
        is_free = not any(first <= field.number <= last for first, last in new.reserved)
        note = ", and the number is not reserved" if is_free else ""
        return "field-removed", f"went: {_field_text(field)}, no. {field.number}{note}"

    def _new(self, field: ProtoField, old: ProtoMessage) -> tuple[str, str]:
        note = ", which was reserved" if old.reserves(field) else ""
        return "field-added", f"came: {_field_text(field)}, no. {field.number}{note}"

    def _fields(
        self, field: ProtoField, other: ProtoField, writer: ProtoMessage, reader: ProtoMessage, path: Path
    ) -> Iterator[DirectionResult]:
        old, new = self._old_and_new(field, other)
        here = (*path, new.name)
        if field.json_name != other.json_name:
            because = "as JSON {writer} writes another name, which {reader} does not know"
            yield DirectionResult(
                here, "field-renamed", f"no. {field.number} was called {old.name}", Answer.NO, Answer.YES, because
            )
        if (field.key, field.label == "repeated") != (other.key, other.label == "repeated"):
            what = f"was {_field_text(old)}, is {_field_text(new)}"
            answer = Answer.YES if field.label == "repeated" or field.key or other.key else Answer.NO
            because = "{writer} writes several values, or other ones, where {reader} takes one"
            yield DirectionResult(here, "type-changed", what, answer, Answer.YES, because)
            if field.key != other.key:
                return
        if "required" in (field.label, other.label) and field.label != other.label:
            kind = "became-required" if new.label == "required" else "became-optional"
            answer = Answer.YES if other.label == "required" else Answer.NO
            because = "{writer} may leave it out, and {reader} requires it"
            yield DirectionResult(here, kind, kind.replace("-", " "), answer, answer, because)
        if field.oneof != other.oneof:
            what = f"was in {f'oneof {old.oneof}' if old.oneof else 'no oneof'}, is in {new.oneof or 'none'}"
            of_oneof = [each.oneof for number, each in writer.fields.items()
                        if number in reader.fields and reader.fields[number].oneof == other.oneof]  # fmt: skip
            may_be_several = len(of_oneof) > 1 and ("" in of_oneof or len({*of_oneof}) > 1)
            answer = Answer.YES if other.oneof and may_be_several else Answer.NO
            because = "{writer} may write several fields, of which {reader} keeps the last"
            yield DirectionResult(here, "oneof-changed", what, answer, answer, because)
        yield from self._types(field, other, writer, reader, here)

    def _types(
        self, field: ProtoField, other: ProtoField, writer: ProtoMessage, reader: ProtoMessage, here: Path
    ) -> Iterator[DirectionResult]:
        names = (self._writer.resolve(field.type, writer.name), self._reader.resolve(other.type, reader.name))
        messages = (self._writer.messages.get(names[0]), self._reader.messages.get(names[1]))
        if messages[0] is not None and messages[1] is not None:
            if self._moved(names[0]) != names[1]:  # of the same name it is compared on its own
                yield from self._messages(messages[0], messages[1], here)
            return
        enums = (self._writer.enums.get(names[0]), self._reader.enums.get(names[1]))
        if enums[0] is not None and enums[1] is not None:
            if self._moved(names[0]) != names[1]:
                yield from self._enums(enums[0].values, enums[1].values, enums[1].is_closed, here)
            return
        kinds = tuple(
            "enum" if enum is not None else "message" if message is not None else name
            for enum, message, name in zip(enums, messages, names, strict=True)
        )
        if kinds[0] == kinds[1]:
            return
        wire, json = _wire_answer(*kinds)
        if not all(kind in SCALARS or kind in ("enum", "message") for kind in kinds):  # of a file that is imported
            wire = json = Answer.UNKNOWN
        old, new = self._old_and_new(field.type, other.type)
        because = f"{{writer}} writes {field.type}, which {{reader}} cannot read as {other.type} without loss"
        yield DirectionResult(here, "type-changed", f"was {old}, is {new}", wire, max(wire, json), because)

    def _enums(
        self, writer: dict[int, list[str]], reader: dict[int, list[str]], is_closed: bool, path: Path
    ) -> Iterator[DirectionResult]:
        """Compare numbers: an open enum keeps one that it does not know, a closed one puts it among unknown fields."""
        for number, names in writer.items():
            self._steps.spend()
            reader_names = reader.get(number)
            if reader_names is None:
                kind, word = ("value-removed", "went") if self._is_backward else ("value-added", "came")
                because = f"{{writer}} may write {names[0]}, which {{reader}} does not know"
                lenient = Answer.YES if is_closed else Answer.NO
                yield DirectionResult(path, kind, f"value {names[0]} = {number} {word}", lenient, Answer.YES, because)
            elif not set(names) <= set(reader_names):
                old, new = self._old_and_new(names[0], reader_names[0])
                because = "as JSON {writer} writes the name, which {reader} does not know"
                yield DirectionResult(path, "value-renamed", f"{number} was {old}, is {new}", Answer.NO, Answer.YES, because)

    def _old_and_new(self, of_writer: _Side, of_reader: _Side) -> tuple[_Side, _Side]:
        return (of_writer, of_reader) if self._is_backward else (of_reader, of_writer)


@lru_cache
def _wire_answer(writer: str, reader: str) -> tuple[Answer, Answer]:
    """Return whether a scalar is lost when it is read as another one: as bytes, and as JSON."""
    pair = frozenset({"int32" if scalar == "enum" else scalar for scalar in (writer, reader)})
    is_alike = any(pair <= group for group in _ALIKE)
    wire = Answer.YES
    if (writer, reader) in _WIDER:
        wire = Answer.NO
    elif is_alike or pair == frozenset(_TEXTS):
        wire = Answer.UNKNOWN  # depends on the values: one that does not fit is cut off, bytes need not be text
    json = Answer.NO if any(pair <= group for group in _ALIKE_IN_JSON) and "enum" not in (writer, reader) else Answer.YES
    return wire, json


def _field_text(field: ProtoField) -> str:
    kind = f"map of {field.key} to {field.type}" if field.key else field.type
    return f"{field.label} {kind}" if field.label in ("repeated", "required") else kind


def _path_of(name: str, package: str) -> Path:
    return tuple(name.removeprefix(f"{package}." if package else "").split("."))
