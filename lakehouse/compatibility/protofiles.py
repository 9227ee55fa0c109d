"""Protobuf as text: the messages and enumerations that a `.proto` file declares, by full name.

Read here, and not by the compiler: judgements must not depend on what is installed, nor start a process for each schema.
What it does not know it refuses, so that nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from lakehouse.compatibility.limits import MOST_DEPTH, Malformed, Unreadable

SCALARS = frozenset(
    {"double", "float", "int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64",
     "bool", "string", "bytes"}
)  # fmt: skip
_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*.*?\*/|(?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')"""
    r"""|(?P<word>[A-Za-z_.][\w.]*|[0-9][\w.+-]*)|(?P<sign>[{}\[\]()<>;=,:\-+/])""",
    re.DOTALL,
)
_LABELS = ("optional", "required", "repeated")
_LAST_NUMBER = 2**29 - 1


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


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise Malformed(f"no Protobuf: {text[at : at + 20]!r}")
        at = token.end()
        if token.lastgroup is not None:
            yield token.group()


class _Parser:
    def __init__(self, text: str, file: ProtoFile) -> None:
        self._tokens = list(_tokens(text))
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

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

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
            if word == "message" and self._peek() not in ("=",) and self._tokens[self._at + 1] == "{":
                self._message(full, depth + 1)
            elif word == "enum" and self._tokens[self._at + 1] == "{":
                self._enum(full)
            elif word == "oneof" and self._tokens[self._at + 1] == "{":
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
        if word in _LABELS and self._tokens[self._at + 1] != "=":
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
        made = ProtoField(number, name, word, label, oneof, key, json_name or _camel(name))
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


def _camel(name: str) -> str:
    return re.sub(r"_+(\w?)", lambda match: match.group(1).upper(), name)
