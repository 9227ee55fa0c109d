"""Fields of JSON Schema and JSON Structure: what references, `allOf` and `$extends` bring in, alternatives, names, items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from lakehouse.render.example.jsonschema import referred
from lakehouse.render.example.plausible import Impossible
from lakehouse.site.fields.listing import FieldNode, Listing, PartCounter, joined, listed, text_of, words_of

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_HOLDING = ("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "dependentSchemas",
            "dependencies", "required", "choices", "oneOf", "anyOf", "then", "else", "prefixItems", "contains")  # fmt: skip
_PLAIN = ("type", "enum", "const", "$ref", "oneOf", "anyOf", "allOf", "format", "pattern")
_UNNAMED = ("additionalProperties", "unevaluatedProperties")
_MOST_BRANCHES, _MOST_CONDITION, _MOST_PARTS = 6, 100, 200
_FOR_ANCHOR = 400  # steps: the whole document is searched for one


def json_fields(document: Any) -> Listing:
    """List the fields of a value of the schema; of a schema that only defines types, those of the types."""
    if not isinstance(document, dict):
        return Listing([])
    reader = _JsonReader(document)
    parts = reader.parts(document)
    nodes: Sequence[FieldNode] = reader.members(parts)
    is_object = any("properties" in part or part.get("type") in ("object", "tuple", "choice") for part in parts)
    if not is_object and any(word in part for part in parts for word in (*_PLAIN, "items", "values")):
        alternatives = nodes if any("oneOf" in part or "anyOf" in part for part in parts) else ()
        nodes = alternatives or [reader.node("(value)", document, None)]
    if not nodes:
        nodes = [
            reader.node(name, subschema, None)
            for word in ("$defs", "definitions")
            for name, subschema in _definitions(document.get(word))
        ]
    keys = reader.keys(parts) if len(nodes) != 1 or nodes[0].name != "(value)" else frozenset()
    result = listed(nodes, keys)
    unlisted = [keyword for keyword in ("$offers", "$import", "$importdefs") if keyword in document]
    notes = [f"What it {'offers' if keyword == '$offers' else 'imports'} ({keyword}) is not listed." for keyword in unlisted]
    return result._replace(notes=(*result.notes, *notes))


class _JsonReader:
    """Reads a document; each part of it is known by its place in memory."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._steps = PartCounter()
        self._targets: dict[str, Any] = {}
        self._members: dict[tuple[int, ...], list[FieldNode]] = {}
        self._made: list[Any] = []  # kept, so that no other part takes its place in memory

    def parts(self, schema: Any) -> list[dict[str, Any]]:
        """Return all that must hold for a value: the schema, what it refers to, extends and combines; and a sole alternative."""
        results: list[dict[str, Any]] = []
        seen: set[int] = set()
        left = [schema]
        while left:
            part = left.pop(0)
            self._steps.spend()
            if not isinstance(part, dict) or id(part) in seen or len(results) == _MOST_PARTS:
                continue
            seen.add(id(part))
            results.append(part)
            left += [self._target(reference) for reference in self._references(part)]
            left += _list(part.get("allOf"))
            for word in ("oneOf", "anyOf"):
                named = _not_null(_list(part.get(word)))
                left += named if len(named) == 1 else []
        return results

    def members(self, parts: list[dict[str, Any]], through: frozenset[int] = frozenset()) -> list[FieldNode]:
        """Return what a value holds; through: containers that were gone through on the way."""
        key = tuple(map(id, parts))
        if key not in self._members:
            self._members[key] = []  # what is met again while it is made
            self._members[key] = [*self._named(parts), *(node for part in parts for node in self._unnamed(part, through))]
        return self._members[key]

    def node(self, name: str, schema: Any, required: bool | None) -> FieldNode:
        """Return a field."""
        parts = self.parts(schema)
        self._made.append(parts)
        description = next((text_of(part["description"]) for part in parts if isinstance(part.get("description"), str)), "")
        limits = [words_of(part) for part in parts]
        inner = self._inner(parts)
        if inner is not parts:
            limits += [f"each: {details}" for details in dict.fromkeys(map(words_of, inner)) if details]
        lost = [reference for part in parts for reference in self._references(part) if self._target(reference) is None]
        note = f"{', '.join(map(text_of, lost))} is not in this document" if lost else ""
        kind = self.type(schema)
        return FieldNode(
            name, kind, required, description, joined(dict.fromkeys(limits)), note, lambda: self.members(parts), self.keys(parts)
        )

    def keys(self, parts: list[dict[str, Any]]) -> frozenset[Any]:
        """Name the parts that say what a value, or each of its items, holds."""
        return frozenset(id(part) for part in self._inner(parts) if any(word in part for word in _HOLDING))

    def type(self, schema: Any, level: int = 0) -> str:
        """Write the type of a value."""
        self._steps.spend()
        if not isinstance(schema, dict):
            return {True: "any", False: "nothing"}.get(schema, "any") if isinstance(schema, bool) else text_of(schema) or "any"
        if level > 20:
            return "…"
        references = list(self._references(schema))
        kind = schema.get("type")
        if references and not isinstance(kind, str | list):
            return self._type_of_reference(references[0], level)
        if isinstance(kind, list):
            return self._either(kind, level)
        if kind in ("array", "set", "map") or (kind is None and "items" in schema):
            element = schema.get("values" if kind == "map" else "items")
            return (
                f"{kind or 'array'} of {self.type(element, level + 1)}"
                if isinstance(element, dict | str)
                else str(kind or "array")
            )
        return text_of(kind) if kind is not None else self._untyped(schema, level)

    def _type_of_reference(self, reference: str, level: int) -> str:
        name = text_of(reference).rpartition("/")[2].lstrip("#") or "the whole schema"
        target = self._target(reference)
        plain = target.get("type") if isinstance(target, dict) else None
        if plain in ("array", "set", "map"):
            return f"{name} ({self.type(target, level + 1)})"
        return f"{name} ({plain})" if isinstance(plain, str) and plain not in ("object", "tuple", "choice", name) else name

    def _untyped(self, schema: dict[str, Any], level: int) -> str:
        for word in ("oneOf", "anyOf"):
            if _list(schema.get(word)):
                return self._either(schema[word], level)
        every = _list(schema.get("allOf"))
        named = [branch for branch in every if isinstance(branch, dict) and ("$ref" in branch or "type" in branch)]
        if "properties" in schema:
            return "object"
        if named:
            return self.type(named[0], level + 1)
        return next((word for word in ("enum", "const") if word in schema), "any")

    def _either(self, kinds: Sequence[Any], level: int) -> str:
        shown = dict.fromkeys(self._title(branch) or self.type(branch, level + 1) for branch in kinds[:_MOST_BRANCHES])
        more = len(kinds) - _MOST_BRANCHES
        return " or ".join(shown) + (f" or {more} more" if more > 0 else "")

    @staticmethod
    def _title(schema: Any) -> str:
        return text_of(schema["title"]) if isinstance(schema, dict) and isinstance(schema.get("title"), str) else ""

    def _references(self, schema: dict[str, Any]) -> Iterator[str]:
        written = [schema.get(word) for word in _REFERENCES]
        kind, bases = schema.get("type"), schema.get("$extends")
        written += [kind.get("$ref")] if isinstance(kind, dict) else []
        written += bases if isinstance(bases, list) else [bases]
        if schema is self._document and "properties" not in schema:
            written.append(schema.get("$root"))
        for reference in written:
            if isinstance(reference, str):
                yield f"#{reference}" if reference.startswith("/") else reference

    def _target(self, reference: str) -> Any:
        """Follow a reference; None: it leads nowhere in this document."""
        if reference not in self._targets:
            self._steps.spend(1 if reference.startswith("#/") else _FOR_ANCHOR)
            try:
                result, _ = referred(reference, self._document, _none)
            except Impossible:
                result = None
            self._targets[reference] = result
        return self._targets[reference]

    def _named(self, parts: list[dict[str, Any]]) -> Iterator[FieldNode]:
        """Return properties: one that several parts declare must be as all of them say."""
        must = {name for part in parts for name in _required(part.get("required"))}
        names: dict[str, list[Any]] = {}
        for part in parts:
            for name, subschema in _dict(part.get("properties")).items():
                names.setdefault(name, []).append(subschema)
        for name in dict.fromkeys([*names, *sorted(must)]):
            self._steps.spend()
            declarations = names.get(name, [{}])
            schema = declarations[0] if len(declarations) == 1 else {"allOf": declarations}
            self._made.append(schema)
            yield self.node(name, schema, name in must)

    def _unnamed(self, part: dict[str, Any], through: frozenset[int]) -> Iterator[FieldNode]:
        """Return what a value holds besides its properties."""
        for pattern, subschema in _dict(part.get("patternProperties")).items():
            yield self.node(f"(names like {pattern})", subschema, None)
        for word in _UNNAMED:
            if isinstance(part.get(word), dict) and part[word]:
                yield self.node("(other names)", part[word], None)
        for name, subschema in _dict(part.get("choices")).items():
            yield self.node(name, subschema, None)
        for word in ("dependentSchemas", "dependencies"):
            for name, subschema in _dict(part.get(word)).items():
                if isinstance(subschema, dict):
                    yield self.node(f"(if {name} is there)", subschema, None)
        yield from self._alternatives(part)
        yield from self._items(part, through)

    def _alternatives(self, part: dict[str, Any]) -> Iterator[FieldNode]:
        for word, details in (("oneOf", "one of"), ("anyOf", "any of"), ("type", "one of")):
            branches = _not_null(_list(part.get(word)))
            nodes = [self._branch(details, branch) for branch in branches] if len(branches) > 1 else []
            if any(node.limits or node.keys for node in nodes):
                yield from nodes
        condition = text_of(part.get("if"))[:_MOST_CONDITION]
        for word in ("then", "else"):
            if isinstance(part.get(word), dict):
                yield self.node(f"({word}: if {condition})", part[word], None)

    def _branch(self, message: str, schema: Any) -> FieldNode:
        node = self.node(f"({message})", schema, None)
        return replace(node, type=self._title(schema) or node.type)

    def _items(self, part: dict[str, Any], through: frozenset[int]) -> Iterator[FieldNode]:
        rest = part.get("items")
        heads = _list(rest) or _list(part.get("prefixItems"))
        if isinstance(rest, list):
            rest = part.get("additionalItems")
        for at, subschema in enumerate(heads):
            yield self.node(f"[{at}]", subschema, None)
        if heads and isinstance(rest, dict):
            yield self.node("[others]", rest, None)
        if isinstance(part.get("contains"), dict):
            yield self.node("[at least one]", part["contains"], None)
        for subschema in (None if heads else rest, part.get("values")):
            if isinstance(subschema, dict) and id(subschema) not in through:
                yield from self.members(self.parts(subschema), through | {id(subschema)})

    def _inner(self, parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Go to what arrays, sets and maps hold, and what these hold."""
        for _ in range(20):
            subschema = next(
                (part[word] for part in parts for word in ("items", "values") if isinstance(part.get(word), dict)), None
            )
            if subschema is None or any("properties" in part or "prefixItems" in part for part in parts):
                break
            parts = self.parts(subschema)
        return parts


def _none(uri: str) -> Any:
    raise LookupError(uri)


def _definitions(definitions: Any, before: str = "", level: int = 0) -> Iterator[tuple[str, Any]]:
    """Return the types that a document defines; of JSON Structure they may be in namespaces."""
    for name, definition in _dict(definitions).items():
        if not isinstance(definition, dict):
            continue
        if level < 5 and definition and not any(word in definition for word in (*_PLAIN, "properties", "items", "$extends")):
            yield from _definitions(definition, f"{before}{name}/", level + 1)
        else:
            yield f"{before}{name}", definition


def _required(written: Any) -> Sequence[str]:
    """Return the names that must be there; of sets of names in JSON Structure those that are in each."""
    names = _list(written)
    if names and all(isinstance(names_of_set, list) for names_of_set in names):
        return [name for name in names[0] if isinstance(name, str) and all(name in other for other in names)]
    return [name for name in names if isinstance(name, str)]


def _not_null(branches: Sequence[Any]) -> list[Any]:
    return [branch for branch in branches if branch != "null" and not (isinstance(branch, dict) and branch.get("type") == "null")]


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
