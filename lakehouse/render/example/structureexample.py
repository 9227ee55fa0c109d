"""Examples of JSON Structure: all types of the core, references, `$extends`, unions, choices, bounds.

Integers of 64 bits and more, and decimals, are texts there.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from lakehouse.match.definition.compiled import tokens_of
from lakehouse.render.example.plausible import Impossible, Plausible
from lakehouse.text.names import Pointer

_BITS = {"int8": 7, "int16": 15, "int32": 31, "integer": 31, "int64": 63, "int128": 127}
_UNSIGNED = {"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64, "uint128": 128}
_AS_TEXT = frozenset({"int64", "int128", "uint64", "uint128"})
_REALS = frozenset({"number", "float", "double", "float8"})
_TEXTS = frozenset({"date", "datetime", "time", "duration", "uuid", "uri", "binary", "jsonpointer"})
_USUAL = 1_000
_MOST_STEPS = 100
_EPOCH_NAMES = ("timestamp", "_ms", "time_us")


class StructureExample:
    """Makes up a value of a JSON Structure document.

    Args:
        document: the schema, whole.
        made: what values are drawn from.
    """

    def __init__(self, document: dict[str, Any], made: Plausible) -> None:
        self._document, self._made = document, made

    def make(self, fragment: str | None = None) -> Any:
        """Make up a value of the root type, or of a place in the document.

        Raises:
            Impossible: none was found, or a word has a value that it cannot have, such as `minItems: "x"`.
        """
        try:
            return self._root(fragment)
        except (
            ValueError,
            TypeError,
            AttributeError,
            OverflowError,
        ) as error:  # whoever checked the schema does not look at these
            raise Impossible(f"a word of the schema has a value that it cannot have: {error}") from error

    def _root(self, fragment: str | None) -> Any:
        root = fragment or self._document.get("$root")
        schema = self._document
        if isinstance(root, str):
            place = root.lstrip("#")
            schema = self._resolve(f"#{place}" if place.startswith("/") else f"#/{place}")
        return self._value(schema, "", 0)

    def _value(self, schema: Any, name: str, depth: int) -> Any:
        self._made.spend(depth)
        if isinstance(schema, str):
            schema = {"type": schema}
        if not isinstance(schema, dict):
            raise Impossible(f"{name}: no schema of JSON Structure")
        schema = self._flat(schema)
        if "const" in schema:
            return schema["const"]
        if isinstance(schema.get("enum"), list) and schema["enum"]:
            return self._made.random.choice([value for value in schema["enum"] if value is not None] or schema["enum"])
        examples = schema.get("examples")
        if self._made.level == 0 and isinstance(examples, list) and examples:
            return examples[0]
        kind = schema.get("type")
        if isinstance(kind, list):
            able = [branch for branch in kind if branch != "null"] or kind
            chosen = self._made.random.choice(able)
            rest = {word: value for word, value in schema.items() if word != "type"}
            return self._value({**rest, "type": chosen} if isinstance(chosen, str) else {"type": chosen}, name, depth + 1)
        if isinstance(kind, dict):
            return self._value({**self._resolve(str(kind.get("$ref")))}, name, depth + 1)
        return self._of_type(str(kind), schema, name, depth)

    def _of_type(self, kind: str, schema: dict[str, Any], name: str, depth: int) -> Any:
        if kind == "object":
            return self._object(schema, depth)
        if kind in ("array", "set"):
            return self._array(schema, name, depth)
        if kind == "map":
            return {
                f"key{number}": self._value(schema.get("values", "any"), name, depth + 1)
                for number in self._numbers(schema, depth, "Entries")
            }
        if kind == "tuple":
            members = schema.get("properties", {})
            return [self._value(members.get(member, "any"), member, depth + 1) for member in schema.get("tuple", ())]
        if kind == "choice":
            return self._choice(schema, depth)
        return self._plain(kind, schema, name)

    def _plain(self, kind: str, schema: dict[str, Any], name: str) -> Any:
        if kind in _BITS or kind in _UNSIGNED:
            result = self._integer(kind, schema, name)
            return str(result) if kind in _AS_TEXT else result
        if kind in _REALS or kind == "decimal":
            number = self._real(schema, name)
            return f"{number:.2f}" if kind == "decimal" else number
        if kind in _TEXTS:
            text = self._made.formatted(kind, name)
            return text.rstrip("Z") if text and kind == "time" else text
        if kind == "boolean":
            return self._made.random.random() < 0.5
        if kind == "null":
            return None
        if kind in ("string", "any"):
            longest, form = schema.get("maxLength"), schema.get("format")
            if isinstance(form, str) and "pattern" not in schema and (formatted := self._made.formatted(form, name)) is not None:
                return formatted
            return self._made.text(
                name, int(schema.get("minLength", 0)), None if longest is None else int(longest), schema.get("pattern")
            )
        raise Impossible(f"{name}: type {kind} is not known")

    def _integer(self, kind: str, schema: dict[str, Any], name: str) -> int:
        lowest = -(2 ** _BITS[kind]) if kind in _BITS else 0
        highest = 2 ** _BITS[kind] - 1 if kind in _BITS else 2 ** _UNSIGNED[kind] - 1
        low, high = _bounds(schema, 1)
        if low is None and high is None and kind in _AS_TEXT and name.lower().endswith(_EPOCH_NAMES):
            return int(self._made.moment().timestamp() * 1000)
        low = max(lowest, 0 if low is None and (high is None or high >= 0) else lowest if low is None else low)
        high = min(highest, low + _USUAL if high is None else high)
        return self._made.integer(low, high, schema.get("multipleOf"))

    def _real(self, schema: dict[str, Any], name: str) -> float:
        low, high = _bounds(schema, 0)
        if schema.get("multipleOf"):
            return self._made.integer(low, high, schema["multipleOf"])
        return self._made.number(name, low, high, open_ends="exclusiveMinimum" in schema or "exclusiveMaximum" in schema)

    def _object(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        declared = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
        required = schema.get("required", [])
        sets = required and all(isinstance(names, list) for names in required)
        must = list(required[0] if sets else required)
        results: dict[str, Any] = {}
        for name in dict.fromkeys([*(declared or {}), *must]):
            if name in must:
                results[name] = self._value((declared or {}).get(name, "any"), name, depth + 1)
            elif self._made.wants(depth):
                with suppress(Impossible):
                    results[name] = self._value((declared or {})[name], name, depth + 1)
        return results

    def _array(self, schema: dict[str, Any], name: str, depth: int) -> list[Any]:
        results: list[Any] = []
        for _ in self._numbers(schema, depth, "Items"):
            item = self._value(schema.get("items", "any"), name, depth + 1)
            if item not in results or schema.get("type") == "array":
                results.append(item)
        return results

    def _numbers(self, schema: dict[str, Any], depth: int, word: str) -> range:
        fewest, most = int(schema.get(f"min{word}", 0)), int(schema.get(f"max{word}", _USUAL))
        usual = 1 + (self._made.level == 0) if self._made.wants(depth) else 0
        wanted = max(fewest, min(most, usual))
        if wanted > _USUAL:
            raise Impossible(f"{wanted} items")
        return range(wanted)

    def _choice(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """Return a tagged union, or with `$extends` and `selector` an inline one."""
        name = self._made.random.choice(sorted(schema.get("choices") or {"": None}))
        value = self._value((schema.get("choices") or {}).get(name), name, depth + 1)
        if "$extends" not in schema:
            return {name: value}
        return {str(schema.get("selector")): name, **(value if isinstance(value, dict) else {})}

    def _flat(self, schema: dict[str, Any], most: int = _MOST_STEPS) -> dict[str, Any]:
        """Follow references, and merge bases and combinations.

        Raises:
            Impossible: one leads nowhere, or there are more than `most`, one inside of another: they lead in circles.
        """
        for left in range(most, 0, -1):
            if isinstance(schema.get("$ref"), str):
                schema = self._resolve(schema["$ref"])
            elif schema.get("$extends") and schema.get("type") != "choice":
                bases = schema["$extends"] if isinstance(schema["$extends"], list) else [schema["$extends"]]
                own = {word: value for word, value in schema.items() if word not in ("$extends", "abstract")}
                for base in bases:
                    own = _joined(self._part({**self._resolve(str(base))}, left), own)
                return own
            elif isinstance(schema.get("allOf"), list):
                rest = {word: value for word, value in schema.items() if word != "allOf"}
                for part in schema["allOf"]:
                    rest = _joined(rest, self._part(part, left))
                schema = rest
            elif word := next(
                (keyword for keyword in ("oneOf", "anyOf") if isinstance(schema.get(keyword), list) and schema[keyword]), None
            ):
                chosen = self._made.random.choice(schema[word])
                schema = _joined({name: value for name, value in schema.items() if name != word}, self._part(chosen, left))
            else:
                return schema
        raise Impossible("references in circles")

    def _part(self, part: Any, left: int) -> dict[str, Any]:
        """Return a base or a part of a combination, flat."""
        if not isinstance(part, dict):
            raise Impossible(f"{part}: no schema")
        self._made.spend(0)  # parts that lead to each other several times may be very many
        return self._flat(part, left - 1)

    def _resolve(self, reference: str) -> dict[str, Any]:
        part: Any = self._document
        for token in tokens_of(Pointer(reference.lstrip("#"))):
            if not isinstance(part, dict) or token not in part:
                raise Impossible(f"{reference}: there is nothing at this place")
            part = part[token]
        if not isinstance(part, dict):
            raise Impossible(f"{reference}: no schema")
        return part


def _bounds(schema: dict[str, Any], step: int) -> tuple[Any, Any]:
    """Return the bounds; those out of which the value must stay are moved by a step. Of large integers they are texts."""

    def read(word: str) -> Any:
        bound = schema.get(word)
        return int(bound) if isinstance(bound, str) and bound.lstrip("-").isdigit() else bound

    low, high = read("minimum"), read("maximum")
    above, below = read("exclusiveMinimum"), read("exclusiveMaximum")
    low = above + step if above is not None and (low is None or above >= low) else low
    return low, (below - step if below is not None and (high is None or below <= high) else high)


def _joined(base: dict[str, Any], own: dict[str, Any]) -> dict[str, Any]:
    joined = {**{word: value for word, value in base.items() if word not in ("abstract", "name")}, **own}
    for word in ("properties",):
        if isinstance(base.get(word), dict) and isinstance(own.get(word), dict):
            joined[word] = {**base[word], **own[word]}
    if isinstance(base.get("required"), list) and isinstance(own.get("required"), list):
        joined["required"] = [*base["required"], *own["required"]]
    return joined
