"""Examples of JSON Schema: every draft, recursion, bounds, formats, patterns; references and combinations of schemas."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from lakehouse.match.definition.compiled import tokens_of
from lakehouse.render.example.plausible import DEEPEST, Impossible, Plausible
from lakehouse.text.names import Pointer

_NOTES = frozenset({"$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$schema",
                    "$id", "id", "definitions", "$defs", "$anchor"})  # fmt: skip
_OBJECT = ("properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties",
           "propertyNames", "dependentRequired", "dependencies")  # fmt: skip
_ARRAY = ("items", "prefixItems", "minItems", "maxItems", "contains", "uniqueItems", "additionalItems")
_NUMBER = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRING = ("minLength", "maxLength", "pattern", "format", "contentEncoding")
_MOST_ITEMS = 50
_MOST_STEPS = 100


class Combinations:
    """Makes one schema of several that must hold together.

    Args:
        find: gives another schema of the catalog by its `$id`; raises LookupError when there is none.
        made: what choices are drawn from.
    """

    def __init__(self, find: Callable[[str], Any], made: Plausible) -> None:
        self._find, self._made = find, made

    def flat(self, schema: dict[str, Any], root: Any, depth: int, most: int = _MOST_STEPS) -> tuple[dict[str, Any], Any]:
        """Return a schema with only words about the value itself, as far as an example needs it.

        Args:
            schema: the schema.
            root: the document in which its references lead.
            depth: of the value in the example; deep ones are chosen plain.
            most: how many references and combinations are followed, one inside of another.

        Returns:
            The schema, and the document in which its own references lead.

        Raises:
            Impossible: nothing satisfies it, or a reference leads nowhere or in circles.
        """
        for left in range(most, 0, -1):
            reference = next(
                (schema[word] for word in ("$ref", "$dynamicRef", "$recursiveRef") if isinstance(schema.get(word), str)), None
            )
            if reference is not None:
                rest = {
                    word: value for word, value in schema.items() if word not in ("$ref", "$dynamicRef", "$recursiveRef", *_NOTES)
                }
                target, root = referred(reference, root, self._find)
                if target is False:
                    raise Impossible(f"{reference} is false")
                schema = _merged(target if isinstance(target, dict) else {}, rest)
            elif isinstance(schema.get("allOf"), list):
                parts, rest = schema["allOf"], {word: value for word, value in schema.items() if word != "allOf"}
                for part in parts:
                    if part is False:
                        raise Impossible("a part of allOf is false")
                    self._made.spend(depth)  # parts that lead to each other several times may be very many
                    flat, root = self.flat(part if isinstance(part, dict) else {}, root, depth, left - 1)
                    rest = _merged(rest, flat)
                schema = rest
            elif branches := [word for word in ("oneOf", "anyOf") if isinstance(schema.get(word), list) and schema[word]]:
                schema = self._branch(schema, branches[0], depth)
            elif isinstance(schema.get("if"), dict | bool):
                schema = self._conditional(schema)
            else:
                return schema, root
        raise Impossible("references in circles")

    def _branch(self, schema: dict[str, Any], word: str, depth: int) -> dict[str, Any]:
        able = [branch for branch in schema[word] if branch is not False]
        named = [branch for branch in able if not (isinstance(branch, dict) and branch.get("type") == "null")] or able
        if not named:
            raise Impossible(f"nothing satisfies {word}")
        plain = [
            branch
            for branch in able
            if not (isinstance(branch, dict) and ("$ref" in branch or branch.get("type") in ("object", "array")))
        ]
        chosen = self._made.random.choice(plain if depth >= DEEPEST and plain else named)
        return _merged({key: value for key, value in schema.items() if key != word}, chosen if isinstance(chosen, dict) else {})

    def _conditional(self, schema: dict[str, Any]) -> dict[str, Any]:
        rest = {word: value for word, value in schema.items() if word not in ("if", "then", "else")}
        if schema["if"] is not False and schema.get("then", True) is not False and self._made.random.random() < 0.7:
            for part in (schema["if"], schema.get("then")):
                rest = _merged(rest, part if isinstance(part, dict) else {})
            return rest
        other = schema.get("else")
        return _merged(rest, other if isinstance(other, dict) else {})


def referred(reference: str, root: Any, find: Callable[[str], Any]) -> tuple[Any, Any]:
    """Follow a reference.

    Args:
        reference: as it is written.
        root: the document in which it is.
        find: gives another document by its `$id`; raises LookupError when there is none.

    Returns:
        What it leads to, and the document in which that is.

    Raises:
        Impossible: it leads nowhere.
    """
    base = next((root[word] for word in ("$id", "id") if isinstance(root, dict) and isinstance(root.get(word), str)), "")
    document = root
    try:
        uri, fragment = urldefrag(reference)
        whole = urljoin(base, uri)
        if uri and whole != urldefrag(base)[0]:
            document = _by_id(root, uri, whole)
            if document is None:
                document = find(whole)
    except (LookupError, ValueError) as error:  # none has this `$id`, or it is no URI
        raise Impossible(str(error)) from error
    if fragment.startswith("/"):
        return value_at(document, fragment), document
    return (_by_anchor(document, fragment) if fragment else document), document


def _merged(schema: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Merge two schemas that must both hold, as far as an example needs it."""
    merged = dict(schema)
    for word, added in other.items():
        present = merged.get(word)
        if present is None or present == added or word in _NOTES:
            merged[word] = added
        elif word == "allOf":
            merged[word] = [*present, *added]
        elif word in ("oneOf", "anyOf", "if", "not"):
            merged["allOf"] = [*merged.get("allOf", ()), {word: added}]
        elif word == "additionalProperties" and (present is False or added is False):
            merged[word] = False
        else:
            merged[word] = _MERGED_BY[word](present, added) if word in _MERGED_BY else added
    return merged


def _properties(present: Any, added: Any) -> Any:
    if not (isinstance(present, dict) and isinstance(added, dict)):
        return added
    both = {
        name: {"allOf": [present[name], schema]} for name, schema in added.items() if name in present and present[name] != schema
    }
    return {**present, **added, **both}


def _required(present: Any, added: Any) -> Any:
    return list(dict.fromkeys([*present, *added])) if isinstance(present, list) and isinstance(added, list) else added


def _both_values(present: Any, added: Any) -> list[Any]:
    return [value for value in present if value in added]


def _types(present: Any, added: Any) -> Any:
    first = present if isinstance(present, list) else [present]
    second = added if isinstance(added, list) else [added]
    both = [kind for kind in first if kind in second] or (["integer"] if "integer" in (*first, *second) else [])
    if not both:
        raise Impossible(f"nothing is both {present} and {added}")
    return both


_MERGED_BY: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), _properties),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"), min),
    "required": _required,
    "enum": _both_values,
    "type": _types,
}


def value_at(document: Any, fragment: str) -> Any:
    """Return what a pointer of a URI's fragment leads to.

    Raises:
        Impossible: there is nothing at this place.
    """
    value = document
    for token in tokens_of(Pointer(unquote(fragment))):
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            raise Impossible(f"#{fragment}: there is nothing at this place")
    return value


def _by_id(root: Any, uri: str, whole: str) -> Any:
    """Find the schema inside of a document that has an `$id`."""
    results = [
        schema
        for schema in _schemas(root)
        if schema is not root and any(schema.get(word) in (uri, whole) for word in ("$id", "id"))
    ]
    return results[0] if results else None


def _by_anchor(document: Any, anchor: str) -> Any:
    for schema in _schemas(document):
        if anchor in (schema.get("$anchor"), schema.get("$dynamicAnchor")) or f"#{anchor}" in (
            schema.get("$id"),
            schema.get("id"),
        ):
            return schema
    raise Impossible(f"#{anchor}: nothing has this anchor")


def _schemas(document: Any) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = []
    left = [document]
    while left and len(results) < 100_000:
        part = left.pop()
        if isinstance(part, dict):
            results.append(part)
            left += part.values()
        elif isinstance(part, list):
            left += part
    return results


class JsonExample:
    """Makes up a value of a JSON Schema.

    Args:
        document: the schema, whole.
        find: gives another schema of the catalog by its `$id`; raises LookupError when there is none.
        made: what values are drawn from.
    """

    def __init__(self, document: Any, find: Callable[[str], Any], made: Plausible) -> None:
        self._document, self._made = document, made
        self._combinations = Combinations(find, made)

    def make(self, fragment: str | None = None) -> Any:
        """Make up a value of the schema, or of a place in it.

        Raises:
            Impossible: none was found.
        """
        schema, root = self._document, self._document
        if fragment:
            schema = value_at(root, fragment if fragment.startswith("/") else f"/{fragment}")
        return self._value(schema, root, "", 0)

    def _value(self, schema: Any, root: Any, name: str, depth: int) -> Any:
        self._made.spend(depth)
        if schema is False:
            raise Impossible("the schema is false")
        if not isinstance(schema, dict):
            return self._made.any(name)
        schema, root = self._combinations.flat(schema, root, depth)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            named = [value for value in schema["enum"] if value is not None]
            return self._made.random.choice(named or schema["enum"])
        if self._made.level == 0:
            for word in ("examples", "example", "default"):
                value = schema.get(word)
                value = value[0] if word == "examples" and isinstance(value, list) and value else value
                if value not in (None, [], {}, ""):
                    return value
        return self._of_type(self._type(schema), schema, root, name, depth)

    def _of_type(self, kind: str, schema: dict[str, Any], root: Any, name: str, depth: int) -> Any:
        if kind == "object":
            return self._object(schema, root, depth)
        if kind == "array":
            return self._array(schema, root, name, depth)
        if kind == "string":
            return self._text(schema, name)
        if kind in ("integer", "number"):
            return self._number(kind, schema, name)
        return None if kind == "null" else self._made.random.random() < 0.5

    def _type(self, schema: dict[str, Any]) -> str:
        written = schema.get("type")
        if isinstance(written, list) and written:
            return str(self._made.random.choice([kind for kind in written if kind != "null"] or written))
        if isinstance(written, str):
            return written
        for words, kind in ((_OBJECT, "object"), (_ARRAY, "array"), (_NUMBER, "number"), (_STRING, "string")):
            if any(word in schema for word in words):
                return kind
        return "string"

    def _object(self, schema: dict[str, Any], root: Any, depth: int) -> dict[str, Any]:
        declared = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
        required = (
            [name for name in schema.get("required", ()) if isinstance(name, str)]
            if isinstance(schema.get("required"), list)
            else []
        )
        fewest, most = schema.get("minProperties", 0), schema.get("maxProperties", 10**6)
        results: dict[str, Any] = {}
        for name in dict.fromkeys([*(declared or {}), *required]):
            if name in required:
                results[name] = self._value(self._member(schema, name), root, name, depth + 1)
            elif len(results) + len(set(required) - set(results)) < most and self._made.wants(depth):
                with suppress(Impossible):
                    results[name] = self._value(self._member(schema, name), root, name, depth + 1)
        for name, dependents in {**_dict(schema, "dependencies"), **_dict(schema, "dependentRequired")}.items():
            if name in results and isinstance(dependents, list):
                for other in dependents:
                    results.setdefault(other, self._value(self._member(schema, other), root, other, depth + 1))
        number = 0
        while len(results) < fewest and number < _MOST_ITEMS:
            number += 1
            name = self._free_name(schema, number)
            if name not in results:
                results[name] = self._value(self._member(schema, name), root, name, depth + 1)
        return results

    def _member(self, schema: dict[str, Any], name: str) -> Any:
        import re2

        declared = _dict(schema, "properties")
        if name in declared:
            return declared[name]
        for pattern, subschema in _dict(schema, "patternProperties").items():
            if re2.search(pattern, name):
                return subschema
        return schema.get("additionalProperties", {})

    def _free_name(self, schema: dict[str, Any], number: int) -> str:
        for pattern in _dict(schema, "patternProperties"):
            return self._made.text(pattern=pattern)
        names = schema.get("propertyNames")
        return str(self._text(names, f"name{number}")) if isinstance(names, dict) else f"name{number}"

    def _array(self, schema: dict[str, Any], root: Any, name: str, depth: int) -> list[Any]:
        first = schema.get("prefixItems")
        rest = schema.get("items", {})
        if isinstance(rest, list):
            first, rest = rest, schema.get("additionalItems", {})
        heads = list(first) if isinstance(first, list) else []
        fewest, most = int(schema.get("minItems", 0)), int(schema.get("maxItems", _MOST_ITEMS))
        if isinstance(schema.get("contains"), dict | bool):
            heads, fewest = [*heads, schema["contains"]], max(fewest, len(heads) + 1, int(schema.get("minContains", 1)))
        usual = max(len(heads), 1 + (self._made.level == 0)) if self._made.wants(depth) and rest is not False else 0
        wanted = max(fewest, min(most, usual))
        if wanted > _MOST_ITEMS * 10:
            raise Impossible(f"an array of {wanted} items")
        results: list[Any] = []
        for _ in range(wanted * (20 if schema.get("uniqueItems") else 1)):
            if len(results) == wanted:
                break
            try:
                item = self._value(heads[len(results)] if len(results) < len(heads) else rest, root, name, depth + 1)
            except Impossible:
                if len(results) < fewest:
                    raise
                break
            if not (schema.get("uniqueItems") and item in results):
                results.append(item)
        return results

    def _text(self, schema: dict[str, Any], name: str) -> Any:
        if isinstance(schema.get("enum"), list):
            return self._made.random.choice(schema["enum"])
        shortest, longest = int(schema.get("minLength", 0)), schema.get("maxLength")
        most = None if longest is None else int(longest)
        form = schema.get("format")
        if isinstance(schema.get("pattern"), str):
            return self._made.text(name, shortest, most, schema["pattern"])
        written = self._made.formatted(form, name) if isinstance(form, str) else None
        if written is None and schema.get("contentEncoding") == "base64":
            written = self._made.base64()
        return written if written is not None else self._made.text(name, shortest, most)

    def _number(self, kind: str, schema: dict[str, Any], name: str) -> int | float:
        low, high, is_open = _bounds(schema)
        step = schema.get("multipleOf")
        if kind == "integer" or (step is not None and float(step).is_integer()):
            eps = 1 if is_open[0] and low is not None and float(low).is_integer() else 0
            top = 1 if is_open[1] and high is not None and float(high).is_integer() else 0
            return self._made.integer(None if low is None else low + eps, None if high is None else high - top, step)
        if step:
            lowest = None if low is None else low / step + is_open[0] * 0.5
            result = self._made.integer(lowest, None if high is None else high / step - is_open[1] * 0.5)
            return float(round(result * step, 10))
        return self._made.number(name, low, high, open_ends=any(is_open))


def _bounds(schema: dict[str, Any]) -> tuple[float | None, float | None, tuple[bool, bool]]:
    """Return the bounds of a number, and whether they are out of it: a boolean in draft 4, a number since draft 6."""
    results: list[float | None] = []
    is_open = []
    for plain, exclusive, sign in (("minimum", "exclusiveMinimum", 1), ("maximum", "exclusiveMaximum", -1)):
        bound, other = schema.get(plain), schema.get(exclusive)
        if isinstance(other, bool) or other is None:
            results.append(bound)
            is_open.append(other is True)
        elif bound is None or (other - bound) * sign >= 0:
            results.append(other)
            is_open.append(True)
        else:
            results.append(bound)
            is_open.append(False)
    return results[0], results[1], (is_open[0], is_open[1])


def _dict(schema: dict[str, Any], word: str) -> dict[str, Any]:
    value = schema.get(word)
    return value if isinstance(value, dict) else {}
