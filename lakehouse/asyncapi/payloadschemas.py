"""Payload schemas of an AsyncAPI document become schemas of the registry, or those of their messages alone."""

from __future__ import annotations

from typing import Any

from lakehouse.asyncapi.application import Application, MessagePart
from lakehouse.asyncapi.bundling import Bundle
from lakehouse.asyncapi.envelopes import CLOUDEVENTS, from_payload
from lakehouse.asyncapi.following import Spot
from lakehouse.asyncapi.protocoltables import format_of, has_references, id_of_key, is_json_schema
from lakehouse.asyncapi.servedchannels import hint_of
from lakehouse.dialects.draft.reader import Converted
from lakehouse.text.jsontext import below, pointer_of
from lakehouse.text.names import Pointer
from lakehouse.text.xid import xid_of


class PayloadMaker:
    """Adds the schemas of payloads to a registry document."""

    def __init__(self, application: Application, made: Converted) -> None:
        self._application = application
        self._following = application.following
        self._made = made
        self._used: set[tuple[str, Pointer]] = set()  # schemas that messages use

    def payload(self, part: MessagePart, group: str, here: Pointer, hints: dict[str, Any], *, is_event: bool) -> dict[str, Any]:
        """Give the attributes of a message of a group that say what its payload is."""
        written = part.payload
        if hints.get("structured") and written is not None:
            whole = self._following.follow(written)
            properties = self._following.member(whole, "properties")
            is_there = properties is not None and isinstance(properties.value, dict) and "data" in properties.value
            written = self._following.child(properties, "data") if is_there and properties is not None else None
        spot = self._following.follow(written) if written is not None else None
        if written is None or spot is None or spot.value is None:
            return {}
        told = hints.get("format")
        schema_format = told if isinstance(told, str) else format_of(part.schema_format)
        schema = self._schema(spot, schema_format)
        event = None if is_event or not is_json_schema(schema_format) or "structured" in hints else from_payload(schema)
        if event is not None:
            self._used.add(spot.place)
            found: dict[str, Any] = {"envelope": CLOUDEVENTS, "envelopemetadata": event.metadata}
            found |= {"envelopeoptions": {"mode": "structured"}}
            if isinstance(event.rest, dict):
                found |= {"dataschemaformat": schema_format, "dataschema": event.rest}
            return found
        self._made.pointers[below(here, "dataschema")] = written.at
        xid = hints.get("dataschemaxid")
        if isinstance(xid, str):
            tokens = xid.split("/")
            self._put(tokens[2], tokens[4], hints.get("schemaversion"), {"format": schema_format, "schema": schema}, spot)
            return {"dataschemaxid": xid, "dataschemaformat": schema_format}
        is_reference = isinstance(written.value, dict) and isinstance(written.value.get("$ref"), str)
        if is_reference:
            tokens = [name for name in (spot.inside or spot.file.rpartition("/")[2]).split("/") if name != "schema"]
            schemaid = id_of_key(tokens[-1])
            xid = self._put(group, schemaid, None, {"format": schema_format, "schema": schema}, spot)
            return {"dataschemaformat": schema_format, "dataschemaxid": xid}
        if isinstance(schema, dict) and "examples" not in schema and is_json_schema(schema_format):
            examples = [one.value["payload"] for one in self._following.items(part.spot, "examples")
                        if isinstance(one.value, dict) and "payload" in one.value]  # fmt: skip
            schema = schema | ({"examples": examples} if examples else {})
        return {"dataschemaformat": schema_format, "dataschema": schema}

    def add_free_schemas(self, group: str) -> None:
        """Add the schemas of `components` that no message uses."""
        following = self._following
        for name, spot in following.members(self._application.root, "components", "schemas"):
            is_wrapped = {"schemaFormat", "schema"} <= spot.value.keys()
            inner = following.member(spot, "schema") if is_wrapped else spot
            if inner is None or inner.place in self._used:
                continue
            hints = hint_of(spot)
            schema_format = hints.get("format") or format_of(spot.value["schemaFormat"] if is_wrapped else None)
            tokens = str(hints.get("xid", f"/schemagroups/{group}/schemas/{id_of_key(name)}")).split("/")
            schema = {"format": schema_format, "schema": self._schema(inner, schema_format)}
            self._put(tokens[2], tokens[-1], hints.get("version"), schema, spot)

    def _schema(self, spot: Spot, schema_format: str) -> Any:
        """Give a schema that stands alone."""
        self._used.add(spot.place)
        if not has_references(schema_format) or not isinstance(spot.value, dict):
            return spot.value if isinstance(spot.value, str) else self._following.plain(spot)
        bundle = Bundle(self._following, spot)
        self._used |= bundle.places
        return bundle.schema

    def _put(self, group: str, schemaid: str, version: Any, schema: dict[str, Any], spot: Spot) -> str:
        """Add a schema to its group; one that is there already stays, and another of that name gets another id."""
        schemas = self._made.document["schemagroups"].setdefault(group, {"schemas": {}})["schemas"]
        if isinstance(version, str):
            versions = schemas.setdefault(schemaid, {"versions": {}})["versions"]
            versions.setdefault(version, schema)
            return xid_of("schemagroups", group, "schemas", schemaid)
        name, nth = schemaid, 1
        while name in schemas and schemas[name] != schema:
            nth += 1
            name = f"{schemaid}-{nth}"
        schemas[name] = schema
        self._made.pointers.setdefault(pointer_of("schemagroups", group, "schemas", name), spot.at)
        self._made.pointers.setdefault(pointer_of("schemagroups", group), spot.at)
        return xid_of("schemagroups", group, "schemas", name)
