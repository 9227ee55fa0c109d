"""Random Avro schemas, and schemas that are a few edits away from them."""

from __future__ import annotations

import copy
from random import Random

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NAMES = ("a", "b", "c", "d", "e")


class AvroSchemas:
    """Makes schemas up."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._count = 0
        self._open: list[str] = []

    def schema(self, depth: int = 0):
        random = self.random
        kind = random.choice(["primitive"] * (2 + depth) + ["record", "record", "enum", "fixed", "array", "map", "union"])
        if depth == 0:
            kind = "record"
        if depth > 3 or kind == "primitive":
            return random.choice(self._open) if self._open and random.random() < 0.15 else random.choice(PRIMITIVES)
        if kind == "record":
            name = self._name("R")
            self._open.append(name)
            fields = [self.field(one, depth) for one in random.sample(_NAMES, random.randint(1, 4))]
            self._open.pop()
            return {"type": "record", "name": name, "fields": fields}
        if kind == "enum":
            symbols = random.sample("ABCDE", random.randint(1, 4))
            default = {"default": random.choice(symbols)} if random.random() < 0.4 else {}
            return {"type": "enum", "name": self._name("E"), "symbols": symbols, **default}
        if kind == "fixed":
            return {"type": "fixed", "name": self._name("F"), "size": random.randint(1, 3)}
        if kind in ("array", "map"):
            return {"type": kind, "items" if kind == "array" else "values": self.schema(depth + 1)}
        branches = random.sample(PRIMITIVES, random.randint(1, 3))
        if random.random() < 0.4:
            branches.append({"type": "record", "name": self._name("R"), "fields": [self.field(random.choice(_NAMES), depth + 1)]})
        random.shuffle(branches)
        return branches

    def field(self, name: str, depth: int):
        type_ = self.schema(depth + 1)
        if self.random.random() < 0.2 and isinstance(type_, str) and type_ in PRIMITIVES and type_ != "null":
            return {"name": name, "type": ["null", type_], "default": None}
        values = {"null": None, "boolean": True, "int": 1, "long": 1, "float": 1.5, "double": 1.5, "bytes": "x", "string": "x"}
        if self.random.random() < 0.3 and type_ in PRIMITIVES:
            return {"name": name, "type": type_, "default": values[type_]}
        return {"name": name, "type": type_}

    def _name(self, start: str) -> str:
        self._count += 1
        return f"{start}{self._count}"

    def edited(self, schema):
        """Return a schema a few edits away."""
        made = copy.deepcopy(schema)
        for _ in range(self.random.randint(0, 3)):
            self._edit(self.random.choice(list(_dicts(made))))
        return made

    def _edit(self, part) -> None:  # noqa: PLR0912 - one branch for each edit
        random = self.random
        kind = part.get("type")
        if kind == "record":
            what = random.choice(["add", "remove", "type", "default", "alias", "order", "name"])
            fields = part["fields"]
            if what == "add":
                free = [one for one in _NAMES if one not in {field["name"] for field in fields}]
                if free:
                    field = {"name": random.choice(free), "type": random.choice(PRIMITIVES[1:])}
                    if random.random() < 0.5:
                        field |= {"type": ["null", field["type"]], "default": None}
                    fields.append(field)
            elif what == "remove" and len(fields) > 1 and all(isinstance(one["type"], str) for one in fields):
                fields.pop(random.randrange(len(fields)))
            elif what == "type":
                field = random.choice(fields)
                if isinstance(field["type"], str):
                    field["type"] = random.choice(PRIMITIVES)
                    field.pop("default", None)
            elif what == "default":
                random.choice(fields).pop("default", None)
            elif what == "alias":
                field = random.choice(fields)
                free = [one for one in _NAMES if one not in {field["name"] for field in fields}]
                if free:
                    field["aliases"], field["name"] = [field["name"]], random.choice(free)
            elif what == "order":
                if not any(isinstance(one["type"], (dict, list)) for one in fields):
                    random.shuffle(fields)
            elif random.random() < 0.3 and part["name"] not in str(part["fields"]):
                part["name"] += "x"
        elif kind == "enum":
            part["symbols"] = random.sample("ABCDE", random.randint(1, 4))
            part.pop("default", None)
            if random.random() < 0.4:
                part["default"] = random.choice(part["symbols"])
        elif kind == "fixed":
            part["size"] = random.randint(1, 3)
        elif kind in ("array", "map"):
            place = "items" if kind == "array" else "values"
            if isinstance(part[place], str):
                part[place] = random.choice(PRIMITIVES)


def _dicts(part):
    if isinstance(part, list):
        for one in part:
            yield from _dicts(one)
    elif isinstance(part, dict):
        if isinstance(part.get("type"), str):
            yield part
        for place in ("items", "values", "type"):
            yield from _dicts(part.get(place))
        for field in part.get("fields", ()):
            yield from _dicts(field["type"])
