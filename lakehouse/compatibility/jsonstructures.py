"""JSON Structure: properties, whether they are required, and types; what else differs is unknown.

An object is open where nothing else is said, as in JSON Schema: members may come and go by the lenient reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from lakehouse.compatibility.limits import Malformed, StepBudget, Unreadable
from lakehouse.compatibility.schemadifferences import Answer, DirectionResult, Path, unread_values
from lakehouse.text.jsontext import canonical, read_exactly

# Integers of 64 bits and more, and decimals, are written as text, others as numbers: neither reads the other.
_WIDER = {
    "int8": ("int16", "int32", "integer", "float", "double", "number"),
    "int16": ("int32", "integer", "float", "double", "number"),
    "int32": ("integer", "double", "number"),
    "integer": ("int32", "double", "number"),
    "uint8": ("uint16", "uint32", "int16", "int32", "integer", "float", "double", "number"),
    "uint16": ("uint32", "int32", "integer", "float", "double", "number"),
    "uint32": ("double", "number"),
    "int64": ("int128",),
    "uint64": ("uint128", "int128"),
    "float": ("double", "number"),
    "double": ("number",),
    "uuid": ("string",), "uri": ("string",), "date": ("string",), "datetime": ("string",), "time": ("string",),
    "duration": ("string",), "binary": ("string",), "jsonpointer": ("string",),
}  # fmt: skip
_TEXTS = frozenset({"name", "description", "title", "examples", "default", "altnames", "$id", "$schema", "$comment", "deprecated",
                    "unit", "symbol", "currency"})  # fmt: skip
_TYPES = frozenset(
    {*_WIDER, "any", "array", "boolean", "choice", "decimal", "float8", "int128", "map", "null", "number", "object", "set",
     "string", "tuple", "uint128"}
)  # fmt: skip
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")
_SORTS = frozenset({"type", "$ref", "$extends", "enum", "const", "allOf", "anyOf", "oneOf", "not", "if"})  # say what a type is
_NEEDS = {"array": "items", "set": "items", "map": "values", "choice": "choices", "tuple": "tuple"}
_OF_OBJECTS = frozenset({"properties", "required", "additionalProperties"})
_READ = frozenset({"type", "items", "values", "enum", "const", "definitions"})


class StructureComparison:
    """Compares in one direction.

    Args:
        writer: what is written.
        reader: what is read.
        is_backward: the old schema writes.
        steps: count the work.
    """

    def __init__(self, writer: Any, reader: Any, *, is_backward: bool, steps: StepBudget) -> None:
        self._roots = (writer, reader)
        self._is_backward, self._steps = is_backward, steps
        self._seen: set[tuple[int, int]] = set()

    def compare(self) -> Iterator[DirectionResult]:
        """Compare both from their root type."""
        yield from self._read(_root_of(self._roots[0]), _root_of(self._roots[1]), ())

    def _read(self, writer: Any, reader: Any, path: Path) -> Iterator[DirectionResult]:
        writer, reader = (_followed(schema, root) for schema, root in zip((writer, reader), self._roots, strict=True))
        key = (id(writer), id(reader))
        if key in self._seen:
            return
        self._seen.add(key)
        self._steps.spend(len(path))
        writer_types, reader_types = _types(writer), _types(reader)
        yield from self._unions(writer, reader, path)
        common = writer_types & reader_types
        if "object" in common:
            yield from self._members(writer, reader, path)
        for kind, name in (("array", "items"), ("set", "items"), ("map", "values")):
            if kind in common and name in writer and name in reader:
                yield from self._read(writer[name], reader[name], (*path, "*"))
        yield from self._values(writer, reader, path)
        keywords_read = _READ | _OF_OBJECTS if "object" in common else _READ
        for name in sorted((writer.keys() | reader.keys()) - _TEXTS - keywords_read):
            if not self._is_same({name: writer.get(name)}, {name: reader.get(name)}):
                yield self._result(
                    path, "condition-changed", f"`{name}` differs", Answer.UNKNOWN, f"what `{name}` asks for is not compared"
                )

    def _unions(self, writer: dict[str, Any], reader: dict[str, Any], path: Path) -> Iterator[DirectionResult]:
        """Compare types by name, and references that are one of several types by what they lead to."""
        writer_types, reader_types = _types(writer), _types(reader)
        references, taking = _references(writer), _references(reader)
        # Of all types that may be written or read, the names: those that references lead to, too.
        written, read = (self._names(schema, root) for schema, root in zip((writer, reader), self._roots, strict=True))
        lost = {kind for kind in writer_types if not self._takes(kind, reader_types)}
        if len(references) == len(taking) == 1 and not any(
            self._takes(kind, reader_types) for kind in _types(_followed(references[0], self._roots[0]))
        ):
            lost.discard(_value_text(references[0]))
            yield from self._read(references[0], taking[0], path)
        elif any(_value_text(kind) in reader_types and not self._is_same(kind, kind) for kind in references):
            because = "what a type refers to differs, and which of several types takes it is not compared"
            yield self._result(path, "condition-changed", "what a type refers to differs", Answer.UNKNOWN, because)
        if writer_types != reader_types:
            old, new = self._old_and_new(" or ".join(sorted(writer_types)), " or ".join(sorted(reader_types)))
            is_lost = any(not self._takes(kind, read) for kind in written)
            answer = Answer.YES if is_lost else Answer.UNKNOWN if lost else Answer.NO
            because = f"{{writer}} may write {' or '.join(sorted(lost))}, which {{reader}} does not take"
            yield self._result(path, "type-changed", f"was {old}, is {new}", answer, because)

    def _names(self, schema: dict[str, Any], root: dict[str, Any]) -> frozenset[str]:
        """Return the names of the types of a schema, with those of what it refers to."""
        texts = {_value_text(reference) for reference in _references(schema)}
        return (_types(schema) - texts).union(*(_types(_followed(reference, root)) for reference in _references(schema)))

    def _is_same(self, writer: Any, reader: Any) -> bool:
        """Return whether two parts are written alike, and so is all that they refer to."""
        if writer != reader:
            return False
        left, seen = [writer], set[str]()
        while left:
            self._steps.spend()
            part = left.pop()
            left += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
            for reference in _referred_to(part) - seen:
                seen.add(reference)
                targets = [_target(reference, root) for root in self._roots]
                if targets[0] != targets[1]:
                    return False
                left.append(targets[0])
        return True

    def _takes(self, kind: str, types: frozenset[str]) -> bool:
        return kind in types or "any" in types or any(wider in types for wider in _WIDER.get(kind, ()))

    def _members(self, writer: dict[str, Any], reader: dict[str, Any], path: Path) -> Iterator[DirectionResult]:
        writer_properties, reader_properties = writer.get("properties") or {}, reader.get("properties") or {}
        wanted, always = _required(reader), _required(writer)
        unwritten = Answer.UNKNOWN if "$extends" in writer else Answer.YES  # what a base requires is not compared
        if wanted is None or always is None:
            if writer.get("required") != reader.get("required"):
                because = "alternative sets of required members are not compared"
                yield self._result(path, "condition-changed", "`required` differs", Answer.UNKNOWN, because)
            wanted = always = frozenset()
        for name in sorted(wanted - always):
            if name in writer_properties and name in reader_properties:
                kind = "became-required" if self._is_backward else "became-optional"
                because = "{writer} may leave it out, and {reader} requires it"
                yield self._result((*path, name), kind, kind.replace("-", " "), unwritten, because)
        for name, member in reader_properties.items():
            if name in writer_properties:
                yield from self._read(writer_properties[name], member, (*path, name))
            else:
                because = "{writer} does not know it, and {reader} requires it"
                answer = unwritten if name in wanted else Answer.NO
                yield self._one_sided((*path, name), member, answer, answer, because, is_reader=True, is_needed=name in wanted)
        is_closed = reader.get("additionalProperties") is False
        for name, member in writer_properties.items():
            if name not in reader_properties:
                because = "{writer} may write it, and {reader} refuses members that it does not know"
                strict = Answer.YES if is_closed else Answer.NO
                yield self._one_sided(
                    (*path, name), member, Answer.NO, strict, because, is_reader=False, is_needed=name in always
                )
        extra = writer.get("additionalProperties"), reader.get("additionalProperties")
        if isinstance(extra[0], dict) and isinstance(extra[1], dict):
            yield from self._read(*extra, (*path, "*"))
        elif extra[0] != extra[1]:
            answer = Answer.UNKNOWN if isinstance(extra[1], dict) else Answer.NO
            strict = Answer.YES if is_closed else answer
            because = "{writer} may write members that it does not declare, and {reader} refuses some"
            yield DirectionResult(path, "content-changed", "`additionalProperties` differs", answer, strict, because)

    def _one_sided(
        self, path: Path, member: Any, lenient: Answer, strict: Answer, because: str, *, is_reader: bool, is_needed: bool
    ) -> DirectionResult:
        came = is_reader == self._is_backward
        value = " or ".join(sorted(_types(_followed(member, self._roots[is_reader]))))
        needed = "required" if is_needed else "optional"
        what = f"came: {value}, {needed}" if came else f"went: {value}, was {needed}"
        return DirectionResult(path, "field-added" if came else "field-removed", what, lenient, strict, because)

    def _values(self, writer: dict[str, Any], reader: dict[str, Any], path: Path) -> Iterator[DirectionResult]:
        writer_values, reader_values = (
            [schema["const"]] if "const" in schema else schema.get("enum") if isinstance(schema.get("enum"), list) else None
            for schema in (writer, reader)
        )
        if reader_values is None:
            return
        if writer_values is None:
            yield self._result(
                path, "values-changed", "values are limited", Answer.YES, "{writer} may write values that {reader} does not take"
            )
            return
        read = set(map(_value_text, reader_values))
        unread = (text[:40] for text in map(_value_text, writer_values) if text not in read)
        yield from unread_values(path, unread, is_backward=self._is_backward)

    def _old_and_new(self, of_writer: Any, of_reader: Any) -> tuple[Any, Any]:
        return (of_writer, of_reader) if self._is_backward else (of_reader, of_writer)

    def _result(self, path: Path, kind: str, what: str, answer: Answer, because: str) -> DirectionResult:
        return DirectionResult(path, kind, what, answer, answer, because)


def read_structure(document: Any) -> dict[str, Any]:
    """Read a schema: JSON, or its text.

    Raises:
        Malformed: it is no JSON object.
    """
    if isinstance(document, str):
        try:
            document = read_exactly(document.encode())
        except orjson.JSONDecodeError as error:
            raise Malformed(f"the schema is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Malformed("a JSON Structure document is an object")
    return document


def check_structure(document: dict[str, Any]) -> None:
    """Check a schema: types, what refers to them, members.

    Raises:
        Malformed: a part of it is not of JSON Structure.
        Unreadable: it imports another document.
    """
    left: list[tuple[str, Any]] = [("", document)]
    while left:
        pointer, schema = left.pop()
        if not isinstance(schema, dict):
            raise Malformed(f"{pointer or '/'}: {str(schema)[:40]} is no type")
        left += _types_within(pointer, schema, document)
    if isinstance(document.get("$root"), str):
        _followed({"$ref": document["$root"]}, document)


def _types_within(pointer: str, schema: dict[str, Any], root: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    _check_keywords(pointer, schema, root)
    kinds = schema.get("type", "any")
    if kinds == []:
        raise Malformed(f"{pointer}/type is an empty list")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if isinstance(kind, dict) and "$ref" in kind:
            _followed(kind, root)
        elif isinstance(kind, dict):
            yield f"{pointer}/type", kind
        elif kind not in _TYPES:
            raise Malformed(f"{pointer}/type: {str(kind)[:40]} is no type")
    for name in ("properties", "choices"):
        members = schema.get(name, {})
        if not isinstance(members, dict):
            raise Malformed(f"{pointer}/{name} is no object")
        wrong = next((member for member in members if not _IDENTIFIER.fullmatch(member)), None)
        if wrong is not None:
            raise Malformed(f"{pointer}/{name}: {wrong[:40]!r} is no identifier")
        yield from ((f"{pointer}/{name}/{member}", member_type) for member, member_type in members.items())
    yield from ((f"{pointer}/{name}", schema[name]) for name in ("items", "values") if name in schema)
    yield from _definitions(f"{pointer}/definitions", schema.get("definitions", {}))


def _check_keywords(pointer: str, schema: dict[str, Any], root: dict[str, Any]) -> None:
    """Check what a type needs, and the values of its keywords."""
    imported = next((keyword for keyword in ("$import", "$importdefs") if keyword in schema), None)
    if imported is not None:
        raise Unreadable(f"`{imported}` is not followed")
    if pointer and _SORTS.isdisjoint(schema):
        raise Malformed(f"{pointer} has no `type`")
    kind = schema.get("type")
    needed = _NEEDS.get(kind) if isinstance(kind, str) else None
    if needed is not None and needed not in schema:
        raise Malformed(f"{pointer or '/'}: the type {kind} needs `{needed}`")
    for keyword, (is_allowed, what) in _KEYWORDS.items():
        if keyword in schema and not is_allowed(schema[keyword]):
            raise Malformed(f"{pointer}/{keyword}: {str(schema[keyword])[:40]} is not {what}")
    for keyword in ("required", "tuple"):
        if keyword in schema:
            _check_members_named(pointer, keyword, schema)
    extended = schema.get("$extends", [])
    for reference in extended if isinstance(extended, list) else [extended]:
        _followed({"$ref": reference}, root)


def _check_members_named(pointer: str, keyword: str, schema: dict[str, Any]) -> None:
    """Check that members that `required` or `tuple` names are declared, unless a base may declare them."""
    required, properties = schema[keyword], schema.get("properties", {})
    members = required if isinstance(required, list) else [required]
    names: list[Any] = [
        name for name_or_names in members for name in (name_or_names if isinstance(name_or_names, list) else [name_or_names])
    ]
    if members is not required or not all(isinstance(name, str) for name in names):
        raise Malformed(f"{pointer}/{keyword}: these are no names of members")
    missing = [name for name in names if "$extends" not in schema and isinstance(properties, dict) and name not in properties]
    if missing:
        raise Malformed(f"{pointer}/{keyword}: {missing[0][:40]} is none of the `properties`")


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _are_values(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and len(set(map(_value_text, value))) == len(value)


_COUNT = (_is_count, "a number from 0 on")
_FLAG = (lambda value: isinstance(value, bool), "true or false")
_TEXT = (lambda value: isinstance(value, str), "text")
# What the values of keywords are; of others, such as the limits of a number, which depend on the type, nothing is checked.
_KEYWORDS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "name": (lambda value: isinstance(value, str) and _IDENTIFIER.fullmatch(value) is not None, "an identifier"),
    "enum": (_are_values, "a list of values, each once"),
    "additionalProperties": (lambda value: isinstance(value, bool | dict), "true, false or a type"),
    "abstract": _FLAG,
    "uniqueItems": _FLAG,
    "pattern": _TEXT,
    "description": _TEXT,
} | dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"), _COUNT)


def _definitions(pointer: str, namespace: Any) -> Iterator[tuple[str, Any]]:
    """Yield the types of a namespace, which may hold other namespaces."""
    if not isinstance(namespace, dict):
        raise Malformed(f"{pointer} is no object")
    for name, member in namespace.items():
        if isinstance(member, dict) and not {"type", "$ref", "enum", "const", "$extends"} & member.keys():
            yield from _definitions(f"{pointer}/{name}", member)
        else:
            yield f"{pointer}/{name}", member


def _root_of(document: dict[str, Any]) -> Any:
    named = document.get("$root")
    return {"type": {"$ref": named}} if isinstance(named, str) else document


def _followed(schema: Any, root: dict[str, Any]) -> dict[str, Any]:
    """Return the type that a schema refers to, without what is next to the reference."""
    for _ in range(20):
        if not isinstance(schema, dict):
            raise Malformed("a type that is no object, or a reference that leads to none")
        kind = schema.get("type")
        reference = kind.get("$ref") if isinstance(kind, dict) else schema.get("$ref")
        if reference is None:
            return schema
        schema = _target(reference, root)
    raise Malformed("references lead round in a circle")


def _target(reference: Any, root: dict[str, Any]) -> Any:
    """Return what a reference leads to; None: nothing."""
    here: Any = root
    for token in str(reference).removeprefix("#").strip("/").split("/"):
        here = here.get(token) if isinstance(here, dict) else None
    return here


def _referred_to(part: Any) -> set[str]:
    """Return the references that a part itself makes."""
    named = [part.get("$ref"), part.get("$extends")] if isinstance(part, dict) else []
    references = [reference for names in named for reference in (names if isinstance(names, list) else [names])]
    return {reference for reference in references if isinstance(reference, str)}


def _references(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the types of a schema that are no names: references, or types within."""
    kind = schema.get("type")
    return [member for member in kind if isinstance(member, dict)] if isinstance(kind, list) else []


def _value_text(value: Any) -> str:
    return canonical(value).decode()


def _types(schema: dict[str, Any]) -> frozenset[str]:
    kind = schema.get("type", "any")
    kinds = kind if isinstance(kind, list) else [kind]
    return frozenset(kind_name if isinstance(kind_name, str) else canonical(kind_name).decode() for kind_name in kinds)


def _required(schema: dict[str, Any]) -> frozenset[str] | None:
    """Return the members that are required; None: there are alternative sets of them."""
    members = schema.get("required") or []
    return frozenset(members) if all(isinstance(name, str) for name in members) else None
