"""Random JSON Schemas, schemas that are a few edits away, instances of them, and what a lenient consumer makes of a schema."""

from __future__ import annotations

import copy
from random import Random

NAMES = ("a", "b", "c", "d", "x-e")
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
VALUES = (None, True, False, 0, 1, 2, 3, -1, 5, 10, 0.5, 1.5, "", "A", "B", "ab", "abc", "abcdef", [], {}, [1], ["A"], {"a": 1})


class JsonSchemas:
    """Makes schemas up."""

    def __init__(self, random: Random, *, has_definitions: bool = True) -> None:
        self.random, self._has_definitions = random, has_definitions

    def document(self):
        made = self.schema(0, "object")
        if self._has_definitions:
            made["$defs"] = {
                "D": self.schema(2),
                "T": {"type": "object", "properties": {"a": {"$ref": "#/$defs/T"}, "b": self.schema(3)}},
            }
        return made

    def schema(self, depth: int, kind: str | None = None):  # noqa: PLR0912 - one branch for each kind of schema
        random = self.random
        if kind is None:
            roll = random.random()
            if roll < 0.05:
                return random.choice([True, {}, True, {"description": "any"}])
            if roll < 0.12 and self._has_definitions:
                return {"$ref": random.choice(["#/$defs/D", "#/$defs/T"])}
            if roll < 0.2:
                return {"enum": random.sample([None, True, 1, 2, "A", "B", "abc"], random.randint(1, 4))}
            if roll < 0.24:
                return {"const": random.choice(["A", "B", 1, True])}
            if roll < 0.36 and depth < 3:
                name = random.choice(["anyOf", "oneOf", "allOf"])
                if random.random() < 0.5 and name != "allOf":
                    return {name: [self.tagged(one, depth) for one in random.sample("ABC", random.randint(1, 3))]}
                return {name: [self.schema(depth + 1) for _ in range(random.randint(1, 3))]}
            if roll < 0.4 and depth < 3:
                return {"not": self.schema(depth + 2)}
            if roll < 0.5:
                return {"type": random.sample(TYPES, 2)}
            kind = random.choice(TYPES if depth < 3 else TYPES[:5])
        made = {"type": kind}
        if kind in ("integer", "number"):
            self._some(made, minimum=(-1, 3), maximum=(3, 10), exclusiveMinimum=(-1, 3), multipleOf=(1, 3))
        elif kind == "string":
            self._some(made, minLength=(0, 2), maxLength=(2, 6))
            if random.random() < 0.15:
                made["pattern"] = random.choice(["^a", "^[A-Z]$", "b"])
        elif kind == "array":
            self._some(made, minItems=(0, 2), maxItems=(1, 4))
            if random.random() < 0.7:
                made["items"] = self.schema(depth + 1)
            if random.random() < 0.2:
                made["prefixItems"] = [self.schema(depth + 2) for _ in range(random.randint(1, 2))]
            if random.random() < 0.2:
                made["uniqueItems"] = True
        elif kind == "object":
            self._object(made, depth)
        return made

    def tagged(self, tag: str, depth: int):
        made = self._object({"type": "object"}, depth + 1)
        made.setdefault("properties", {})["kind"] = {"const": tag}
        made["required"] = [*made.get("required", ()), "kind"]
        return made

    def _object(self, made, depth: int):
        random = self.random
        names = random.sample(NAMES, random.randint(0, 4))
        made["properties"] = {name: self.schema(depth + 1) for name in names}
        required = [name for name in NAMES if random.random() < (0.4 if name in names else 0.05)]
        if required:
            made["required"] = required
        if random.random() < 0.3:
            made["additionalProperties"] = False if random.random() < 0.6 else self.schema(depth + 2)
        elif random.random() < 0.05:
            made["unevaluatedProperties"] = False
        if random.random() < 0.1:
            made["patternProperties"] = {random.choice(["^x-", "^a", ".*", "b"]): self.schema(depth + 2)}
        self._some(made, chance=0.05, minProperties=(0, 2), maxProperties=(1, 4))
        if random.random() < 0.05:
            made["dependentRequired"] = {random.choice(NAMES): [random.choice(NAMES)]}
        if random.random() < 0.05:
            made["propertyNames"] = {"maxLength": random.randint(1, 3)}
        if random.random() < 0.05:
            made |= {"if": self.schema(depth + 2), "then": self.schema(depth + 2)}
        return made

    def _some(self, made, chance: float = 0.25, **ranges):
        for name, (low, high) in ranges.items():
            if self.random.random() < chance:
                made[name] = self.random.randint(low, high)

    def edited(self, document):
        """Return a schema a few edits away."""
        made = copy.deepcopy(document)
        for _ in range(self.random.randint(1, 8)):
            places = [one for one in parts_of(made) if isinstance(one, dict)]
            self._edit(self.random.choice(places))
        return made

    def _edit(self, part) -> None:  # noqa: PLR0912 - one branch for each edit
        random = self.random
        what = random.choice(["property", "required", "drop", "keyword", "type", "branch", "close", "values"])
        if what == "property" and "properties" in part:
            name = random.choice(NAMES)
            if name in part["properties"] and random.random() < 0.5:
                del part["properties"][name]
            else:
                part["properties"][name] = self.schema(3)
        elif what == "required" and part.get("properties"):
            held = set(part.get("required", ()))
            part["required"] = sorted(held ^ {random.choice(NAMES)})
        elif what == "drop":
            names = [name for name in part if name not in ("$defs", "$ref", "type")]
            if names:
                del part[random.choice(names)]
        elif what == "keyword":
            numbers = [name for name, value in part.items() if isinstance(value, int) and not isinstance(value, bool)]
            if numbers:
                name = random.choice(numbers)
                part[name] = max(1 if name == "multipleOf" else 0, part[name] + random.choice([-1, 1]))
        elif what == "type" and isinstance(part.get("type"), str) and "$defs" not in part:
            part["type"] = random.choice(TYPES) if random.random() < 0.5 else [part["type"], random.choice(["null", "number"])]
            if isinstance(part["type"], list) and len(set(part["type"])) == 1:
                part["type"] = part["type"][0]
        elif what == "branch":
            for name in ("anyOf", "oneOf"):
                if name in part and len(part[name]) > 1 and random.random() < 0.5:
                    part[name].pop()
                elif name in part:
                    part[name].append(self.schema(3))
        elif what == "close" and "properties" in part:
            if part.pop("additionalProperties", None) is None:
                part["additionalProperties"] = False
        elif what == "values" and "enum" in part:
            part["enum"] = random.sample([None, True, 1, 2, "A", "B", "abc"], random.randint(1, 4))


def parts_of(schema):
    """Return all schemas in a schema."""
    yield schema
    if isinstance(schema, dict):
        for name in ("properties", "$defs", "patternProperties"):
            for one in schema.get(name, {}).values():
                yield from parts_of(one)
        for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
            for one in schema.get(name, ()):
                yield from parts_of(one)
        for name in ("items", "additionalProperties", "not", "if", "then"):
            if name in schema:
                yield from parts_of(schema[name])


class Instances:
    """Makes instances up, which mostly are of a schema.

    Args:
        document: the schema.
        random: what is drawn from.
        is_open: members that are not declared come, too.
    """

    def __init__(self, document, random: Random, *, is_open: bool) -> None:
        self._root, self.random, self._is_open = document, random, is_open

    def make(self):
        return self._value([self._root], 0)

    def _flat(self, schemas):
        left, found = list(schemas), []
        while left and len(found) < 12:
            one = left.pop()
            if not isinstance(one, dict):
                continue
            found.append(one)
            if "$ref" in one:
                left.append(self._root["$defs"][one["$ref"].rpartition("/")[2]])
            left += one.get("allOf", ())
            left += [self.random.choice(one[name]) for name in ("anyOf", "oneOf") if one.get(name)]
            left += [one[name] for name in ("then",) if name in one and self.random.random() < 0.5]
        return found

    def _value(self, schemas, depth: int):
        random, parts = self.random, self._flat(schemas)
        for part in parts:
            if "const" in part:
                return part["const"]
            if "enum" in part and random.random() < 0.9:
                return random.choice(part["enum"])
        types = [part["type"] for part in parts if "type" in part]
        kind = random.choice(types) if types and random.random() < 0.95 else None
        kind = random.choice(kind) if isinstance(kind, list) else kind
        if kind is None and not any("properties" in part for part in parts):
            return random.choice([one for one in VALUES if self._is_open or one != {"a": 1}])
        if kind == "array" and depth < 6:
            places = [one for part in parts for one in part.get("prefixItems", ())]
            items = [part["items"] for part in parts if "items" in part]
            count = random.choice([0, 1, 1, 2, 3, 4])
            return [self._value([places[at]] if at < len(places) else items, depth + 1) for at in range(count)]
        if kind in ("object", None) and depth < 6:
            return self._object(parts, depth)
        low = random.choice([-1, 0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 12])
        texts = ["", "A", "B", "ab", "abc", "abcdef", "a", "aaaa", "bbbbbb", "Bb"]
        return {"null": None, "boolean": random.random() < 0.5, "integer": low, "number": low + random.choice([0, 0.5]),
                "string": random.choice(texts), "array": [], "object": {}}[kind or "null"]  # fmt: skip

    def _object(self, parts, depth: int):
        random, made = self.random, {}
        declared = {}
        for part in parts:
            for name, one in part.get("properties", {}).items():
                declared.setdefault(name, []).append(one)
        required = {name for part in parts for name in part.get("required", ())}
        chance = random.choice([0, 0.5, 1])
        for name, schemas in declared.items():
            if name in required or random.random() < chance:
                made[name] = self._value(schemas, depth + 1)
        for part in parts:
            extra = part.get("additionalProperties")
            if isinstance(extra, dict) and extra and random.random() < 0.6:
                name = random.choice(NAMES)
                if name not in declared:
                    made[name] = self._value([extra], depth + 1)
            for pattern, one in part.get("patternProperties", {}).items():
                if random.random() < 0.6:
                    made[{"^x-": "x-e", "^a": "aa", ".*": "zz", "b": "b"}[pattern]] = self._value([one], depth + 1)
        if self._is_open:
            for name in NAMES:
                if name not in declared and random.random() < 0.4:
                    made[name] = random.choice(VALUES)
        return made


def opened(schema):
    """Return what a consumer validates that passes over members that it does not know."""
    if not isinstance(schema, dict):
        return schema
    made = dict(schema)
    for name in ("additionalProperties", "unevaluatedProperties"):
        if made.get(name) is False:
            del made[name]
        elif name in made:
            made[name] = opened(made[name])
    if "oneOf" in made:
        made["allOf"] = [*made.get("allOf", ()), {"anyOf": made.pop("oneOf")}]
    for name in ("properties", "$defs", "patternProperties"):
        if name in made:
            made[name] = {key: opened(one) for key, one in made[name].items()}
    for name in ("anyOf", "allOf", "prefixItems"):
        if name in made:
            made[name] = [opened(one) for one in made[name]]
    for name in ("items",):
        if name in made:
            made[name] = opened(made[name])
    return made
