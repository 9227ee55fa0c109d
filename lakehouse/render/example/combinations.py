"""Words of JSON Schema that bring in other schemas: `$ref`, `allOf`, `anyOf`, `oneOf`, `if`.

References are followed, what must hold together is merged, and among ways to be right one is chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from lakehouse.match.definition.definitions import tokens_of
from lakehouse.render.example.plausible import DEEPEST, Impossible, Plausible
from lakehouse.text.names import Pointer

_NOTES = frozenset({"$comment", "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$schema",
                    "$id", "id", "definitions", "$defs", "$anchor"})  # fmt: skip


class Combinations:
    """Makes one schema of several that must hold together.

    Args:
        find: gives another schema of the catalog by its `$id`; raises LookupError when there is none.
        made: what choices are drawn from.
    """

    def __init__(self, find: Callable[[str], Any], made: Plausible) -> None:
        self._find, self._made = find, made

    def flat(self, schema: dict[str, Any], root: Any, depth: int) -> tuple[dict[str, Any], Any]:
        """Give a schema with only words about the value itself, as far as an example needs it.

        Args:
            schema: the schema.
            root: the document in which its references lead.
            depth: of the value in the example; deep ones are chosen plain.

        Returns:
            The schema, and the document in which its own references lead.

        Raises:
            Impossible: nothing satisfies it, or a reference leads nowhere or in circles.
        """
        for _ in range(50):
            reference = next(
                (schema[word] for word in ("$ref", "$dynamicRef", "$recursiveRef") if isinstance(schema.get(word), str)), None
            )
            if reference is not None:
                rest = {
                    word: held for word, held in schema.items() if word not in ("$ref", "$dynamicRef", "$recursiveRef", *_NOTES)
                }
                target, root = referred(reference, root, self._find)
                if target is False:
                    raise Impossible(f"{reference} is false")
                schema = _merged(target if isinstance(target, dict) else {}, rest)
            elif isinstance(schema.get("allOf"), list):
                parts, rest = schema["allOf"], {word: held for word, held in schema.items() if word != "allOf"}
                for part in parts:
                    if part is False:
                        raise Impossible("a part of allOf is false")
                    flat, root = self.flat(part if isinstance(part, dict) else {}, root, depth)
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
        able = [one for one in schema[word] if one is not False]
        named = [one for one in able if not (isinstance(one, dict) and one.get("type") == "null")] or able
        if not named:
            raise Impossible(f"nothing satisfies {word}")
        plain = [one for one in able if not (isinstance(one, dict) and ("$ref" in one or one.get("type") in ("object", "array")))]
        chosen = self._made.random.choice(plain if depth >= DEEPEST and plain else named)
        return _merged({key: held for key, held in schema.items() if key != word}, chosen if isinstance(chosen, dict) else {})

    def _conditional(self, schema: dict[str, Any]) -> dict[str, Any]:
        rest = {word: held for word, held in schema.items() if word not in ("if", "then", "else")}
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


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Merge two schemas that must both hold, as far as an example needs it."""
    merged = dict(one)
    for word, held in other.items():
        mine = merged.get(word)
        if mine is None or mine == held or word in _NOTES:
            merged[word] = held
        elif (
            word in ("properties", "patternProperties", "$defs", "definitions")
            and isinstance(mine, dict)
            and isinstance(held, dict)
        ):
            both = {
                name: {"allOf": [mine[name], schema]} for name, schema in held.items() if name in mine and mine[name] != schema
            }
            merged[word] = {**mine, **held, **both}
        elif word == "required" and isinstance(mine, list) and isinstance(held, list):
            merged[word] = list(dict.fromkeys([*mine, *held]))
        elif word in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"):
            merged[word] = max(mine, held)
        elif word in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
            merged[word] = min(mine, held)
        elif word == "enum":
            merged[word] = [value for value in mine if value in held]
        elif word == "type":
            merged[word] = _types(mine, held)
        elif word in ("oneOf", "anyOf", "allOf", "if", "not"):
            merged["allOf"] = [*merged.get("allOf", ()), {word: held}] if word != "allOf" else [*mine, *held]
        elif word == "additionalProperties" and (mine is False or held is False):
            merged[word] = False
        else:
            merged[word] = held
    return merged


def _types(mine: Any, held: Any) -> Any:
    first = mine if isinstance(mine, list) else [mine]
    second = held if isinstance(held, list) else [held]
    both = [one for one in first if one in second] or (["integer"] if "integer" in (*first, *second) else [])
    if not both:
        raise Impossible(f"nothing is both {mine} and {held}")
    return both


def value_at(document: Any, fragment: str) -> Any:
    """Give what a pointer of a URI's fragment leads to.

    Raises:
        Impossible: there is nothing at this place.
    """
    held = document
    for token in tokens_of(Pointer(unquote(fragment))):
        if isinstance(held, dict) and token in held:
            held = held[token]
        elif isinstance(held, list) and token.isdigit() and int(token) < len(held):
            held = held[int(token)]
        else:
            raise Impossible(f"#{fragment}: there is nothing at this place")
    return held


def _by_id(root: Any, uri: str, whole: str) -> Any:
    """Find the schema inside of a document that has an `$id`."""
    found = [one for one in _schemas(root) if one is not root and any(one.get(word) in (uri, whole) for word in ("$id", "id"))]
    return found[0] if found else None


def _by_anchor(document: Any, anchor: str) -> Any:
    for one in _schemas(document):
        if anchor in (one.get("$anchor"), one.get("$dynamicAnchor")) or f"#{anchor}" in (one.get("$id"), one.get("id")):
            return one
    raise Impossible(f"#{anchor}: nothing has this anchor")


def _schemas(document: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    open_ones = [document]
    while open_ones and len(found) < 100_000:
        held = open_ones.pop()
        if isinstance(held, dict):
            found.append(held)
            open_ones += held.values()
        elif isinstance(held, list):
            open_ones += held
    return found
