"""The JSON Schema of a kind's payload, decided by its counts alone: the same counts give the same schema.

Objects stay open: members that were not seen are allowed, and values are examples, not enumerations, unless these are wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import orjson

from lakehouse.propose.decided import Observed, Thresholds, is_map, names_below
from lakehouse.propose.discriminators import discriminator_of
from lakehouse.propose.pathcounts import DATA, ITEM, MEMBER, PathCounts, child

FORMAT = "JSONSchema/draft-07"
DRAFT = "http://json-schema.org/draft-07/schema#"
_MOST_EXAMPLES = 3
_COMPOSED = ("object", "array")

Schema = dict[str, Any]


@dataclass
class PayloadSchema:
    """The schema of payloads.

    Attributes:
        schema: as JSON; None: there was no JSON payload.
        outliers: paths and JSON types that were too rare to be declared, and how often they were there.
    """

    schema: Schema | None
    outliers: dict[str, int] = field(default_factory=dict)


def payload_schema(observed: Observed, thresholds: Thresholds) -> PayloadSchema:
    """Decide the schema of a kind's payload."""
    decision = SchemaDecision(observed, thresholds)
    if not observed.types(DATA) or "binary" in observed.types(DATA):
        return PayloadSchema(None)
    schema = decision.at(DATA)
    return PayloadSchema({"$schema": DRAFT, **schema}, dict(sorted(decision.outliers.items())))


def examples_of(counts: PathCounts, thresholds: Thresholds) -> list[str]:
    """Return values that were there often, the most frequent first; none where most events had one that was new."""
    values = counts.values or {}
    if not values or len(values) > thresholds.enum_values or (len(values) > 1 and counts.events < 2 * len(values)):
        return []
    return sorted(values, key=lambda text: (-values[text], text))[:_MOST_EXAMPLES]


class SchemaDecision:
    """The way from a path to its schema, and below it."""

    def __init__(self, observed: Observed, thresholds: Thresholds) -> None:
        self.observed, self.thresholds = observed, thresholds
        self.members = observed.members
        self.outliers: dict[str, int] = {}
        discriminator = discriminator_of(observed.kind)
        counts = observed.counts.get((discriminator.path, "string")) if discriminator else None
        self.fixed = (
            discriminator.path if discriminator and counts is not None and counts.constant == discriminator.value else None
        )

    def at(self, path: str) -> Schema:
        """Return the schema of the values at a path."""
        types = self._declared_types(path)
        if path == self.fixed:
            return {"type": "string", "const": types["string"].constant}
        plain = [kind for kind in types if kind not in _COMPOSED]
        branches = [self.of_type(path, kind) for kind in _COMPOSED if kind in types]
        if plain == ["null"] and len(branches) == 1:
            return branches[0] | {"type": [branches[0]["type"], "null"]}
        if plain:
            branches.append(self._scalar(path, plain, types))
        return branches[0] if len(branches) == 1 else {"anyOf": branches}

    def of_type(self, path: str, kind: str) -> Schema:
        """Return the schema of the values at a path that are of one type; of a scalar, the type alone."""
        items = f"{path}/{ITEM}"
        if kind == "array" and self.observed.types(items):
            return {"type": kind, "items": self.at(items)}
        return self._object(path) if kind == "object" else {"type": kind}

    def _declared_types(self, path: str) -> dict[str, PathCounts]:
        """Return the JSON types without outliers; an integer is a number where there are others."""
        types = dict(self.observed.types(path))
        if "number" in types and "integer" in types:
            both = PathCounts()
            both.add(types["number"])
            both.add(types.pop("integer"))
            types["number"] = both
        total = sum(counts.events for counts in types.values())
        for kind, counts in list(types.items()):
            rare = counts.events < self.thresholds.outlier_share * total
            if rare and kind != "null" and total >= self.thresholds.outlier_events:
                self.outliers[f"{path} {kind}"] = types.pop(kind).events
        return types

    def _scalar(self, path: str, plain: list[str], types: dict[str, PathCounts]) -> Schema:
        schema: Schema = {"type": plain[0] if len(plain) == 1 else plain}
        texts = types.get("string")
        if texts is not None and texts.formats and texts.distinct >= self.thresholds.format_values:
            schema["format"] = min(texts.formats)
        values = [
            text if kind == "string" else orjson.loads(text)
            for kind in plain
            if kind != "null"
            for text in examples_of(types[kind], self.thresholds)
        ]
        if values:
            schema["enum" if self._is_enum(path, plain) else "examples"] = values
        return schema

    def _is_enum(self, path: str, plain: list[str]) -> bool:
        """Return whether values are an enumeration: few texts of many events, none of them new in the later half of the days."""
        counts = self.observed.counts.get((path, "string"))
        if not self.thresholds.enums or plain != ["string"] or counts is None or counts.values is None:
            return False
        days = self.observed.days[path, "string"]
        seen = [set(self.observed.by_day[day][path, "string"].values or ()) for day in days]
        early = set().union(*seen[: (len(days) + 1) // 2])
        few = len(counts.values) <= self.thresholds.enum_values
        return few and counts.events >= self.thresholds.enum_events and early == set(counts.values)

    def _object(self, path: str) -> Schema:
        names = names_below(self.observed, path, self.members)
        keys = f"{path}/{MEMBER}"
        if is_map(self.observed, path, names, self.thresholds):
            below = SchemaDecision(self.observed.folded(path), self.thresholds)
            schema = {"type": "object", "additionalProperties": below.at(keys)}
            self.outliers |= below.outliers
            return schema
        schema = {"type": "object"}
        if names:
            fixed = {name for name in names if child(path, name) == self.fixed}
            schema["properties"] = {name: self.at(child(path, name)) for name in names}
            required = [name for name in names if name in fixed or self.observed.is_required(child(path, name), self.thresholds)]
            if required:
                schema["required"] = required
        if self.observed.types(keys):
            schema["additionalProperties"] = self.at(keys)
        return schema
