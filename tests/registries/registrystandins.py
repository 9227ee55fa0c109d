"""A schema registry that a test fills: its API as its public description has it, and the topic in which it keeps its content."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from replicate.sources import Asked

ORDER = {"type": "record", "name": "Order", "namespace": "shop", "fields": [{"name": "id", "type": "string"}]}
ORDER_2 = ORDER | {"fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}
PROTO = 'syntax = "proto3";\npackage shop;\nmessage Paid { string id = 1; }\n'


class RegistryStandIn:
    """A registry.

    Attributes:
        log: key and value of each record of its topic.
        most: versions in an answer.
        has_schemas: it has `GET /schemas`.
        before: is called before each answer, and may answer itself: it returns True then.
    """

    def __init__(self) -> None:
        self.log: list[tuple[dict[str, Any], dict[str, Any] | None]] = []
        self.most = 1000
        self.has_schemas = True
        self.before: Any = lambda asked: False
        self._versions: dict[tuple[str, int], dict[str, Any]] = {}
        self._settings: dict[str, dict[str, str]] = {"config": {"": "BACKWARD"}, "mode": {"": "READWRITE"}}
        self._next = 1
        self._last: Counter[str] = Counter()

    def register(self, subject: str, schema: Any, kind: str = "AVRO", **more: Any) -> int:
        """Add a version; a schema that is no text is written as JSON."""
        text = schema if isinstance(schema, str) else json.dumps(schema, separators=(",", ":"))
        self._last[subject] += 1
        number = self._last[subject]
        version = {"subject": subject, "version": number, "id": self._next, "guid": f"00000000-0000-0000-0000-{self._next:012d}"}
        version |= {"schema": text, **({} if kind == "AVRO" else {"schemaType": kind}), **more}
        self._next += 1
        self._put(version, deleted=False)
        return number

    def delete(self, subject: str, number: int, *, for_good: bool = False) -> None:
        """Delete a version."""
        version = self._versions[subject, number]
        self._put(version, deleted=True)
        if for_good:
            del self._versions[subject, number]
            self.log.append((self._key("SCHEMA", subject) | {"version": number}, None))

    def delete_subject(self, subject: str) -> None:
        """Delete a subject, and not for good."""
        numbers = [number for name, number in self._versions if name == subject]
        for number in numbers:
            self._versions[subject, number]["deleted"] = True
        self.log.append((self._key("DELETE_SUBJECT", subject), {"subject": subject, "version": max(numbers)}))

    def set(self, kind: str, subject: str, value: str) -> None:
        """Set a level (`config`) or a mode (`mode`) of a subject or a context; an empty subject is all."""
        self._settings[kind][subject] = value
        member = {"config": "compatibilityLevel", "mode": "mode"}[kind]
        self.log.append((self._key(kind.upper(), subject or None), {member: value}))

    def lines(self) -> bytes:
        """Return the topic as lines."""
        landed = [
            {"topic": "_schemas", "offset": at, "key": json.dumps(key), "value": None if value is None else json.dumps(value)}
            for at, (key, value) in enumerate(self.log)
        ]
        return b"".join(json.dumps(one).encode() + b"\n" for one in landed)

    def answer(self, asked: Asked) -> None:
        """Answer a request."""
        if self.before(asked):
            return
        parts = urlsplit(asked.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        path = [unquote(part) for part in parts.path.strip("/").split("/")]
        found = self._found(path, query)
        if found is None:
            asked.give({"error_code": 404, "message": "HTTP 404 Not Found"}, 404)
        else:
            asked.give(found, Content_Type="application/vnd.schemaregistry.v1+json")

    def _found(self, path: list[str], query: dict[str, str]) -> Any:
        if path[0] in self._settings:
            value = self._settings[path[0]].get("/".join(path[1:]))
            if path == ["config", "orders-key"]:  # a subject with another setting, but without its own level
                return {"normalize": True}
            return None if value is None else {"compatibilityLevel" if path[0] == "config" else "mode": value}
        shown = [
            {name: value for name, value in one.items() if name != "deleted"}
            for _, one in sorted(self._versions.items())
            if query.get("deleted") == "true" or not one["deleted"]
        ]
        if path == ["schemas"] and self.has_schemas:
            begin = int(query.get("offset", 0))
            return shown[begin : begin + min(self.most, int(query.get("limit", self.most)))]
        if path == ["subjects"]:
            return sorted({one["subject"] for one in shown})
        if path[0] == "subjects" and path[2:] == ["versions"]:
            return [one["version"] for one in shown if one["subject"] == path[1]]
        if path[0] == "subjects" and path[2:3] == ["versions"]:
            return next((one for one in shown if [one["subject"], str(one["version"])] == [path[1], path[3]]), None)
        return None

    def _put(self, version: dict[str, Any], *, deleted: bool) -> None:
        self._versions[version["subject"], version["version"]] = version | {"deleted": deleted}
        key = self._key("SCHEMA", version["subject"]) | {"version": version["version"]}
        self.log.append((key, version | {"deleted": deleted}))

    def _key(self, kind: str, subject: str | None) -> dict[str, Any]:
        return {"keytype": kind, "subject": subject, "magic": 1}


def shop() -> RegistryStandIn:
    """Return a registry with all that is mapped: formats, contexts, references, levels, modes, what was deleted."""
    registry = RegistryStandIn()
    registry.register("orders-value", ORDER, metadata={"properties": {"owner": "shop", "pin": "1"}, "sensitive": ["pin"]})
    registry.register("orders-value", ORDER_2)
    registry.register("orders-key", '"string"')
    registry.register(":.eu:paid-shop.Paid", PROTO, "PROTOBUF")
    registry.register(":.eu:carts/value", {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Cart"}, "JSON")
    registry.register("lines-value", {"type": "array", "items": "shop.Order"},
                      references=[{"name": "shop.Order", "subject": "orders-value", "version": 2}])  # fmt: skip
    registry.register("orders-value", ORDER)
    registry.delete("orders-value", 3)
    registry.register("gone-value", ORDER)
    registry.delete_subject("gone-value")
    registry.register("erased-value", ORDER)
    registry.delete("erased-value", 1, for_good=True)
    registry.set("config", "", "FULL")
    registry.set("config", "orders-value", "BACKWARD_TRANSITIVE")
    registry.set("config", ":.eu:", "NONE")
    registry.set("mode", "orders-key", "READONLY")
    return registry
