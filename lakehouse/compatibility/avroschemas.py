"""Avro: whether data of one schema can be read with another, by the rules of schema resolution of its specification.

Logical types are compared in addition: the same number as another unit, or with another scale, is another value. Reading data
does not need all rules of the specification; `check_avro` checks the others: names, symbols, unions, sizes and defaults.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from lakehouse.compatibility.limits import Malformed, StepBudget, Unreadable
from lakehouse.compatibility.schemadifferences import Answer, DirectionResult, Path
from lakehouse.text.jsontext import read_exactly

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_READ_AS = {
    "int": frozenset({"long", "float", "double"}),
    "long": frozenset({"float", "double"}),
    "float": frozenset({"double"}),
    "string": frozenset({"bytes"}),
    "bytes": frozenset({"string"}),
}
_NAMED = frozenset({"record", "enum", "fixed"})
# Logical types, and what may have them.
_LOGICAL: dict[str, tuple[str, ...]] = {
    "decimal": ("bytes", "fixed"), "big-decimal": ("bytes",), "uuid": ("string", "fixed"), "duration": ("fixed",),
    "date": ("int",), "time-millis": ("int",), "time-micros": ("long",),
} | {
    f"{local}timestamp-{unit}": ("long",) for local in ("", "local-") for unit in ("millis", "micros", "nanos")
}  # fmt: skip
_SIZES = {"uuid": 16, "duration": 12}  # of `fixed`
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")
_NUMBERS = ("float", "double")
_JSON_TYPES: dict[str, type] = {
    "null": type(None), "boolean": bool, "int": int, "long": int, "bytes": str, "string": str, "enum": str, "fixed": str,
    "array": list, "map": dict, "record": dict, "error": dict,
}  # fmt: skip


class AvroField(NamedTuple):
    """A field of a record."""

    name: str
    type: AvroType
    aliases: tuple[str, ...]
    has_default: bool


class AvroType:
    """A type as it was read; a named one is read once, and its fields are set when its name is known."""

    __slots__ = ("aliases", "branches", "default", "fields", "item", "kind", "logical", "name", "size", "symbols", "text")

    def __init__(self, kind: str, name: str = "") -> None:
        self.kind, self.name = kind, name
        self.aliases: tuple[str, ...] = ()
        self.fields: dict[str, AvroField] = {}
        self.branches: tuple[AvroType, ...] = ()
        self.item: AvroType | None = None
        self.symbols: tuple[str, ...] = ()
        self.default: str | None = None
        self.size = 0
        self.logical: tuple[Any, ...] = ()
        self.text = name.rpartition(".")[2] if name else kind


_SIMPLE = {kind: AvroType(kind) for kind in PRIMITIVES}
_PLAIN = frozenset(_SIMPLE.values())
_UNIONS: dict[tuple[AvroType, ...], AvroType] = {}  # of at most three plain types, so that there are few


def read_avro(document: Any) -> AvroType:
    """Read a schema: JSON, or its text; of a list of types all, as a union.

    Raises:
        Malformed: it is no Avro schema.
        Unreadable: it names types that it does not declare, or is too deep.
    """
    if isinstance(document, str) and document not in PRIMITIVES:
        try:
            document = read_exactly(document.encode())
        except orjson.JSONDecodeError as error:
            raise Malformed(f"the schema is not JSON: {error}") from error
    return _TypeReader().read(document, "", 0)


def full_name(name: str, namespace: str) -> str:
    """Return the full name of a type; a name with a dot is one already."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


class _TypeReader:
    def __init__(self) -> None:
        self._named: dict[str, AvroType] = {}

    def read(self, part: Any, space: str, depth: int) -> AvroType:
        if depth > 100:
            raise Unreadable("the schema is deeper than 100 levels")
        if isinstance(part, str):
            return _SIMPLE.get(part) or self._by_name(part, space)
        if isinstance(part, list):
            return self._union(tuple([self.read(branch, space, depth + 1) for branch in part]))
        if not isinstance(part, dict):
            raise Malformed(f"no Avro type: {str(part)[:60]}")
        kind = part.get("type")
        if isinstance(kind, dict):
            return self.read(kind, space, depth + 1)
        if not isinstance(kind, str):
            raise Malformed("`type` of a type is a name or a type")
        if kind == "error":
            kind = "record"
        if kind in _NAMED:
            return self._declared(kind, part, space, depth)
        if kind in ("array", "map"):
            made = AvroType(kind)
            made.item = self.read(part.get("items" if kind == "array" else "values"), space, depth + 1)
            made.text = f"{kind} of {made.item.text}"
            return made
        if kind not in PRIMITIVES:
            return self.read(kind, space, depth + 1)
        logical = _logical(part, kind)
        if not logical:
            return _SIMPLE[kind]
        made = AvroType(kind)
        made.logical, made.text = logical, f"{kind} ({logical[0]})"
        return made

    def _union(self, branches: tuple[AvroType, ...]) -> AvroType:
        """Return the same object for the same union of plain types, so that two of them are compared by identity."""
        made = _UNIONS.get(branches)
        if made is None:
            made = AvroType("union")
            made.branches = branches
            made.text = " or ".join(branch.text for branch in branches) or "nothing"
            if len(branches) <= 3 and _PLAIN.issuperset(branches):
                _UNIONS[branches] = made
        return made

    def _by_name(self, name: str, space: str) -> AvroType:
        named = self._named.get(full_name(name, space)) or self._named.get(name)
        if named is None:
            raise Unreadable(f"the type {name} is not declared")
        return named

    def _declared(self, kind: str, part: dict[str, Any], space: str, depth: int) -> AvroType:
        name = part.get("name")
        if not isinstance(name, str):
            raise Malformed(f"a {kind} without a name")
        own = part.get("namespace") if "." not in name else name.rpartition(".")[0]
        space = own if isinstance(own, str) else space
        made = AvroType(kind, full_name(name, space))
        made.aliases = tuple(full_name(alias, space) for alias in part.get("aliases") or () if isinstance(alias, str))
        if made.name in self._named:
            raise Malformed(f"the type {made.name} is declared twice")
        self._named[made.name] = made
        made.logical = _logical(part, kind)
        if kind == "record":
            for field in _list_of(part, "fields"):
                self._add_field(made, field, space, depth)
        elif kind == "enum":
            made.symbols = tuple(str(symbol) for symbol in _list_of(part, "symbols"))
            made.default = part.get("default")
        else:
            made.size = part.get("size", 0)
        return made

    def _add_field(self, record: AvroType, field: Any, space: str, depth: int) -> None:
        if not isinstance(field, dict) or not isinstance(field.get("name"), str) or "type" not in field:
            raise Malformed(f"a field of {record.name} without a name or type")
        aliases = tuple([alias for alias in field.get("aliases") or () if isinstance(alias, str)])
        type_ = self.read(field["type"], space, depth + 1)
        record.fields[field["name"]] = AvroField(field["name"], type_, aliases, "default" in field)


def _list_of(part: dict[str, Any], name: str) -> list[Any]:
    value = part.get(name)
    if not isinstance(value, list):
        raise Malformed(f"{part.get('name')} without `{name}`")
    return value


def _logical(part: dict[str, Any], kind: str) -> tuple[Any, ...]:
    """Return the logical type; nothing for one that is not valid, which readers ignore (Avro, Logical Types)."""
    name = part.get("logicalType")
    if not isinstance(name, str) or kind not in _LOGICAL.get(name, ()):
        return ()
    if kind == "fixed" and part.get("size") != _SIZES.get(name, part.get("size")):
        return ()
    if name != "decimal":
        return (name,)
    precision, scale = part.get("precision"), part.get("scale") or 0
    is_valid = isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0
    return (name, precision, scale) if is_valid else ()


class AvroComparison:
    """Compares in one direction.

    Args:
        is_backward: the old schema writes.
        steps: count the work.
    """

    def __init__(self, *, is_backward: bool, steps: StepBudget) -> None:
        self._is_backward, self._steps = is_backward, steps
        self._readable: dict[tuple[AvroType, AvroType], bool] = {}
        self._order: list[tuple[AvroType, AvroType]] = []
        self._seen: set[tuple[AvroType, AvroType]] = set()

    def compare(self, writer: AvroType, reader: AvroType, path: Path = ()) -> Iterator[DirectionResult]:
        """Find what differs where one type writes and the other reads."""
        if writer is reader:
            return
        self._steps.spend(len(path))
        if writer.kind == "union":
            yield from self._each(writer, reader, path)
        elif reader.kind == "union":
            yield from self._among(writer, reader, path)
        elif not _is_alike(writer, reader):
            yield self._other_type(writer, reader, path)
        elif (writer, reader) not in self._seen:
            self._seen.add((writer, reader))
            yield from self._alike(writer, reader, path)

    def _each(self, writer: AvroType, reader: AvroType, path: Path) -> Iterator[DirectionResult]:
        """Compare each branch that may be written."""
        lost = [branch for branch in writer.branches if not self._reads(branch, reader)]
        for branch in writer.branches:
            into = reader if reader.kind != "union" else self._branch(branch, reader)
            if into is not None and (_is_alike(branch, into)):
                yield from self.compare(branch, into, path)
            elif branch in lost and (reader.kind == "union" or branch.kind == "null"):
                yield self._other_type(
                    writer, reader, path, f"{{writer}} may write {branch.text}, which {{reader}} does not take"
                )
            elif branch in lost:
                yield self._other_type(writer, reader, path)
        if not lost and writer.text != reader.text:
            yield self._result(path, "type-changed", _was_is(*self._old_and_new(writer.text, reader.text)), Answer.NO)

    def _among(self, writer: AvroType, reader: AvroType, path: Path) -> Iterator[DirectionResult]:
        """Compare with the branches of a union: the first that reads it decides."""
        into = self._branch(writer, reader)
        if into is not None and _is_alike(writer, into):
            yield from self.compare(writer, into, path)
        if into is None or not self._reads(writer, reader):
            if into is None:
                yield self._other_type(writer, reader, path)
        else:
            yield self._result(path, "type-changed", _was_is(*self._old_and_new(writer.text, reader.text)), Answer.NO)

    def _branch(self, writer: AvroType, reader: AvroType) -> AvroType | None:
        """Return the branch of a union that reads a type; else the one that is meant, as it has the same kind and name."""
        for branch in reader.branches:
            if branch is writer or self._reads(writer, branch):
                return branch
        return next((branch for branch in reader.branches if _is_alike(writer, branch)), None)

    def _alike(self, writer: AvroType, reader: AvroType, path: Path) -> Iterator[DirectionResult]:
        """Compare two types of the same kind and name, or one that is promoted to the other."""
        if writer.logical != reader.logical:
            yield self._logical(writer, reader, path)
        if writer.kind == "record":
            yield from self._fields(writer, reader, path)
        elif writer.kind == "enum":
            yield from self._symbols(writer, reader, path)
        elif writer.kind == "fixed" and writer.size != reader.size:
            because = "{writer} writes another number of bytes than {reader} takes"
            what = _was_is(*self._old_and_new(f"{writer.size} bytes", f"{reader.size} bytes"))
            yield self._result(path, "size-changed", what, Answer.YES, because)
        elif writer.item is not None and reader.item is not None:
            yield from self.compare(writer.item, reader.item, (*path, "*"))
        elif writer.kind != reader.kind:
            yield self._result(path, "type-changed", _was_is(*self._old_and_new(writer.text, reader.text)), Answer.NO)

    def _fields(self, writer: AvroType, reader: AvroType, path: Path) -> Iterator[DirectionResult]:
        renamed = set()
        for field in reader.fields.values():
            written = writer.fields.get(field.name)
            if written is not None and written.type is field.type:
                continue
            if written is None:
                alias = next((alias for alias in field.aliases if alias in writer.fields), None)
                if alias is None:
                    yield self._one_sided(field, path, is_read=True)
                    continue
                written = writer.fields[alias]
                renamed.add(alias)
                old, new = self._old_and_new(alias, field.name)
                yield self._result((*path, new), "field-renamed", f"was called {old}", Answer.NO)
            yield from self.compare(written.type, field.type, (*path, self._old_and_new(written.name, field.name)[1]))
        for name, field in writer.fields.items():
            if name not in reader.fields and name not in renamed:
                yield self._one_sided(field, path, is_read=False)

    def _one_sided(self, field: AvroField, path: Path, *, is_read: bool) -> DirectionResult:
        """Describe a field that one side alone has: who reads it needs a default."""
        kind = "field-added" if is_read == self._is_backward else "field-removed"
        what = f"{'came' if kind == 'field-added' else 'went'}: {field.type.text}"
        what += " with a default" if field.has_default else " without a default"
        because = "{writer} does not write it, and {reader} needs it, as it has no default"
        return self._result(
            (*path, field.name), kind, what, Answer.YES if is_read and not field.has_default else Answer.NO, because
        )

    def _symbols(self, writer: AvroType, reader: AvroType, path: Path) -> Iterator[DirectionResult]:
        symbols = set(reader.symbols)
        missing = [symbol for symbol in writer.symbols if symbol not in symbols]
        kind = "value-removed" if self._is_backward else "value-added"
        word = "went" if self._is_backward else "came"
        is_lost = reader.default is None or reader.default not in symbols
        for symbol in missing:
            because = f"{{writer}} may write {symbol}, which {{reader}} does not know, and its enum has no default"
            yield self._result(path, kind, f"value {symbol} {word}", Answer.YES if is_lost else Answer.NO, because)

    def _logical(self, writer: AvroType, reader: AvroType, path: Path) -> DirectionResult:
        texts = [" ".join(str(part) for part in side.logical if part is not None) or side.kind for side in (writer, reader)]
        answer = _meaning_answer(writer.logical, reader.logical)
        because = "what {writer} writes means another value to {reader}"
        if answer == Answer.UNKNOWN:
            because = "{writer} may write more digits than {reader} declares"
        what = _was_is(*self._old_and_new(*texts))
        return self._result(path, "meaning-changed", what, answer, because)

    def _other_type(self, writer: AvroType, reader: AvroType, path: Path, because: str = "") -> DirectionResult:
        old, new = self._old_and_new(writer, reader)
        texts = (old.name, new.name) if old.text == new.text else (old.text, new.text)
        why = because or f"{{writer}} writes {writer.text}, which {{reader}} cannot read as {reader.text}"
        return self._result(path, "type-changed", _was_is(*texts), Answer.YES, why)

    def _old_and_new(self, of_writer: Any, of_reader: Any) -> tuple[Any, Any]:
        return (of_writer, of_reader) if self._is_backward else (of_reader, of_writer)

    def _result(self, path: Path, kind: str, what: str, answer: Answer, because: str = "") -> DirectionResult:
        return DirectionResult(path, kind, what, answer, answer, because)

    def _reads(self, writer: AvroType, reader: AvroType) -> bool:
        """Return whether one type can be read as the other; what leads back to a pair that is asked for is taken as readable."""
        if writer is reader:
            return True
        earlier = self._readable.get((writer, reader))
        if earlier is not None:
            return earlier
        self._steps.spend()
        self._readable[writer, reader] = True
        start = len(self._order)
        self._order.append((writer, reader))
        answer = self._decide(writer, reader)
        if not answer:  # what was taken as readable because of this pair is asked for once more
            for pair in self._order[start:]:
                if self._readable.get(pair):
                    del self._readable[pair]
            del self._order[start:]
            self._readable[writer, reader] = False
        return answer

    def _decide(self, writer: AvroType, reader: AvroType) -> bool:
        if writer.kind == "union":
            return all(self._reads(branch, reader) for branch in writer.branches)
        if reader.kind == "union":
            return any(self._reads(writer, branch) for branch in reader.branches)
        if not _is_alike(writer, reader) or _meaning_answer(writer.logical, reader.logical) == Answer.YES:
            return False
        if writer.kind == "record":
            return all(self._reads_field(writer, field) for field in reader.fields.values())
        if writer.kind == "enum":
            symbols = set(reader.symbols)
            return symbols.issuperset(writer.symbols) or (reader.default is not None and reader.default in symbols)
        if writer.kind == "fixed":
            return writer.size == reader.size
        return writer.item is None or reader.item is None or self._reads(writer.item, reader.item)

    def _reads_field(self, writer: AvroType, field: AvroField) -> bool:
        name = next((name_or_alias for name_or_alias in (field.name, *field.aliases) if name_or_alias in writer.fields), None)
        return field.has_default if name is None else self._reads(writer.fields[name].type, field.type)


def _is_alike(writer: AvroType, reader: AvroType) -> bool:
    """Return whether two types have the same kind and, where they have one, name; or one is promoted to the other."""
    if writer.kind != reader.kind:
        return reader.kind in _READ_AS.get(writer.kind, ())
    if writer.kind not in _NAMED:
        return True
    return _short(writer.name) == _short(reader.name) or writer.name in reader.aliases


def _meaning_answer(writer: tuple[Any, ...], reader: tuple[Any, ...]) -> Answer:
    """Return whether a value of one logical type means another one: in decimals of the same scale an integer means the same."""
    if not writer or not reader or writer == reader:
        return Answer.NO
    if writer[0] != "decimal" or reader[0] != "decimal" or writer[2] != reader[2]:
        return Answer.YES
    return Answer.NO if writer[1] <= reader[1] else Answer.UNKNOWN


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _was_is(old: Any, new: Any) -> str:
    return f"was {old}, is {new}"


def check_avro(part: Any) -> None:
    """Check a schema that `read_avro` reads.

    Args:
        part: a type as a JSON value.

    Raises:
        Malformed: it breaks a rule of the specification.
    """
    if isinstance(part, list):
        _check_union(part)
    elif isinstance(part, dict):
        kind = part.get("type")
        if isinstance(kind, str) and (kind in _NAMED or kind == "error"):
            _check_named(kind, part)
        elif kind in ("array", "map"):
            check_avro(part["items" if kind == "array" else "values"])
        elif isinstance(kind, dict):
            check_avro(kind)


def _check_union(branches: list[Any]) -> None:
    kinds = [kind_of(branch) for branch in branches]
    if any(isinstance(branch, list) for branch in branches):
        raise Malformed("a union holds another union")
    plain = [kind for kind in kinds if kind in PRIMITIVES or kind in ("array", "map")]
    if len(set(plain)) < len(plain):
        raise Malformed(f"a union holds a type twice: {', '.join(sorted(plain))}")
    for branch in branches:
        check_avro(branch)


def _check_named(kind: str, part: dict[str, Any]) -> None:
    name = part["name"]
    if not _FULL_NAME.fullmatch(name) or name in PRIMITIVES:
        raise Malformed(f"{name!r} is no name")
    if kind == "fixed":
        size = part.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise Malformed(f"{name} needs a `size`, a number of bytes")
    elif kind == "enum":
        _check_enum(name, part)
    else:
        names = [field["name"] for field in part["fields"]]
        if len(set(names)) < len(names):
            raise Malformed(f"{name} has two fields of the same name")
        for field in part["fields"]:
            _check_field(name, field)


def _check_enum(name: str, part: dict[str, Any]) -> None:
    symbols = part["symbols"]
    wrong = [symbol for symbol in symbols if not isinstance(symbol, str) or not _NAME.fullmatch(symbol)]
    if wrong:
        raise Malformed(f"{name}: {wrong[0]!r} is no symbol")
    if len(set(symbols)) < len(symbols):
        raise Malformed(f"{name} has a symbol twice")
    if "default" in part and part["default"] not in symbols:
        raise Malformed(f"{name}: the default {part['default']!r} is none of its symbols")


def _check_field(record: str, field: dict[str, Any]) -> None:
    if not _NAME.fullmatch(field["name"]):
        raise Malformed(f"{record}: {field['name']!r} is no name of a field")
    check_avro(field["type"])
    if "default" in field and not any(_is_default(branch, field["default"]) for branch in _branches(field["type"])):
        raise Malformed(f"{record}.{field['name']}: the default {field['default']!r} is of another type")


def _branches(part: Any) -> list[Any]:
    return part if isinstance(part, list) else [part]


def kind_of(part: Any) -> Any:
    """Return the name of a type, of one in parentheses that within; None: a union."""
    while isinstance(part, dict):
        part = part.get("type")
    return part if isinstance(part, str) else None


def _is_default(part: Any, value: Any) -> bool:
    """Return whether a default is of the JSON type of a type; that of a type that is named elsewhere is not looked at."""
    kind = kind_of(part)
    if isinstance(value, bool):
        return kind == "boolean" or kind not in (*_JSON_TYPES, *_NUMBERS)
    if kind in _NUMBERS:
        return isinstance(value, int | float)
    return kind not in _JSON_TYPES or isinstance(value, _JSON_TYPES[kind])
