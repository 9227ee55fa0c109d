"""JSON Schemas of a document made to stand alone, and put back: `$ref`s out of one become its `definitions`."""

from __future__ import annotations

from typing import Any

from lakehouse.asyncapi.following import Following, Spot
from lakehouse.asyncapi.headerschemas import HINT
from lakehouse.text.jsontext import escaped
from lakehouse.text.names import Pointer

# Members whose values are data: a `$ref` in them refers to nothing.
_DATA = ("const", "enum", "default", "examples", "example")


class Bundle:
    """A schema with all that it refers to.

    Args:
        following: the document.
        root: the schema, followed.

    Attributes:
        schema: the schema, whose references lead to itself or to its `definitions`.
    """

    def __init__(self, following: Following, root: Spot) -> None:
        self._following = following
        self._root = root
        self._names: dict[tuple[str, Pointer], str] = {}
        own = root.value.get("definitions") if isinstance(root.value, dict) else None
        self._taken = set(own) if isinstance(own, dict) else set()
        self._added: dict[str, Any] = {}
        self.schema = self._copied(root)
        if self._added and isinstance(self.schema, dict):
            self.schema["definitions"] = self.schema.get("definitions", {}) | self._added

    @property
    def places(self) -> set[tuple[str, Pointer]]:
        """Return where what it refers to is written."""
        return set(self._names)

    def _copied(self, spot: Spot) -> Any:
        value = spot.value
        if isinstance(value, list):
            return [self._copied(self._following.child(spot, str(index))) for index in range(len(value))]
        if not isinstance(value, dict):
            return value
        if isinstance(value.get("$ref"), str):
            reference = self._reference(spot, value["$ref"])
            return {"$ref": reference} | {name: one for name, one in value.items() if name != "$ref"}
        return {
            name: member if name in _DATA else self._copied(self._following.child(spot, name))
            for name, member in value.items()
            if name != HINT or spot.inside != self._root.inside
        }

    def _reference(self, spot: Spot, reference: str) -> str:
        target = self._following.follow(spot)
        if target is None:
            return reference
        root = self._root
        if target.file == root.file and (target.inside + "/").startswith(root.inside + "/"):
            return "#" + target.inside[len(root.inside) :]
        if target.place not in self._names:
            wanted = target.inside.rpartition("/")[2] or "schema"
            if wanted == "payload" or wanted.isdecimal():
                wanted = "-".join(target.inside.split("/")[-2:])
            name, nth = wanted, 1
            while name in self._taken:
                nth += 1
                name = f"{wanted}-{nth}"
            self._taken.add(name)
            self._names[target.place] = name
            self._added[name] = self._copied(target)
        return f"#/definitions/{escaped(self._names[target.place])}"


def placed(schema: Any, pointer: Pointer) -> Any:
    """Let the references of a schema that stands alone lead to its place in a document: AsyncAPI does not heed `$id`."""
    if isinstance(schema, list):
        return [placed(one, pointer) for one in schema]
    if not isinstance(schema, dict):
        return schema
    moved = {name: one if name in _DATA else placed(one, pointer) for name, one in schema.items()}
    reference = schema.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        moved["$ref"] = f"#{pointer}{reference[1:]}"
    return moved
