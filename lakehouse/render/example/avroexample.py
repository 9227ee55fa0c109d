"""Examples of Avro: records, unions, logical types; recursion ends in the null of a union, or in an empty array or map."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from lakehouse.render.example.plausible import DEEPEST, Impossible, Plausible

_EMPTY_ENDS = ("array", "map")


class AvroExample:
    """Makes up a datum of a schema that fastavro parsed.

    Args:
        schema: the parsed schema.
        made: what values are drawn from.
        as_json: the datum goes into JSON, which has no bytes.
    """

    def __init__(self, schema: Any, made: Plausible, *, as_json: bool) -> None:
        self._schema, self._made, self._as_json = schema, made, as_json
        self._named: dict[str, Any] = {}
        self._collect(schema)

    def make(self) -> Any:
        """Make up a datum.

        Raises:
            Impossible: none was found.
        """
        return self._value(self._schema, "", 0)

    def _collect(self, schema: Any) -> None:
        """Find the named types."""
        if isinstance(schema, list):
            for branch in schema:
                self._collect(branch)
        elif isinstance(schema, dict):
            self._named |= {
                name: named_schema
                for name, named_schema in schema.get("__named_schemas", {}).items()
                if isinstance(named_schema, dict)
            }
            if isinstance(schema.get("name"), str):
                self._named[schema["name"]] = schema
            for part in (schema.get("items"), schema.get("values"), schema.get("type")):
                if isinstance(part, dict | list):
                    self._collect(part)
            for field in schema.get("fields", ()):
                self._collect(field["type"])

    def _value(self, schema: Any, name: str, depth: int) -> Any:
        self._made.spend(depth)
        if isinstance(schema, list):
            return self._union(schema, name, depth)
        if isinstance(schema, str):
            return self._value(self._named[schema], name, depth) if schema in self._named else self._plain(schema, {}, name)
        kind = schema["type"]
        if kind in ("record", "error"):
            return {field["name"]: self._value(field["type"], field["name"], depth + 1) for field in schema["fields"]}
        if kind == "enum":
            return self._made.random.choice(schema["symbols"])
        if kind in _EMPTY_ENDS:
            wanted = range(1 + (self._made.level == 0)) if self._made.wants(depth) else range(0)
            if kind == "array":
                return [self._value(schema["items"], name, depth + 1) for _ in wanted]
            return {f"key{number}": self._value(schema["values"], name, depth + 1) for number in wanted}
        if isinstance(kind, dict | list):
            return self._value(kind, name, depth)
        return self._value(self._named[kind], name, depth) if kind in self._named else self._plain(kind, schema, name)

    def _union(self, branches: list[Any], name: str, depth: int) -> Any:
        """Choose a branch: null where it is too deep, and none that fails while another does not."""
        named = [branch for branch in branches if branch != "null"]
        order = self._made.random.sample(named, len(named))
        if "null" in branches:
            order = ["null", *order] if depth >= DEEPEST or self._made.level >= 9 else [*order, "null"]
        for branch in order:
            with suppress(Impossible):
                return self._value(branch, name, depth + 1)
        raise Impossible(f"{name}: no branch of the union")

    def _plain(self, kind: str, schema: dict[str, Any], name: str) -> Any:
        logical, moment = schema.get("logicalType", ""), self._made.moment()
        if kind in ("int", "long"):
            seconds = int(moment.timestamp())
            values = {"date": seconds // 86_400, "time-millis": seconds % 86_400 * 1_000, "time-micros": seconds % 86_400 * 10**6}
            scale = {"millis": 1_000, "micros": 10**6, "nanos": 10**9}.get(logical.rpartition("-")[2])
            if logical in values:
                return values[logical]
            return seconds * scale if scale and "timestamp" in logical else self._made.integer()
        if kind in ("float", "double"):
            return self._made.number(name)
        if kind in ("bytes", "fixed"):
            if self._as_json:
                raise Impossible(f"{name}: JSON has no bytes")
            return self._made.bytes(schema.get("size", 2 if logical == "decimal" else 8))
        if kind == "boolean":
            return self._made.random.random() < 0.5
        if kind == "null":
            return None
        return self._made.uuid() if logical == "uuid" else self._made.text(name)
