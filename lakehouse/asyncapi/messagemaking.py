"""Messages and payload schemas of an AsyncAPI document become messages and schemas in normal form."""

from __future__ import annotations

from typing import Any

from lakehouse.asyncapi.application import Application, Meant, MessagePart, hint_of, with_attributes
from lakehouse.asyncapi.following import Bundle, Spot
from lakehouse.asyncapi.headerschemas import (
    CLOUDEVENTS,
    HINT,
    STRUCTURED,
    declaration_of,
    declared_headers,
    from_headers,
    from_payload,
    headers_schema,
    option_of,
    property_of,
    says_the_same,
)
from lakehouse.asyncapi.protocoltables import FAMILY_NAMES, bindings_of, format_of, has_references, id_of_key, is_json_schema
from lakehouse.asyncapi.texts import CORRELATION, EXAMPLES, HEADERS, Texts
from lakehouse.dialects.draft.reader import Converted
from lakehouse.dialects.tables import family_of
from lakehouse.text.jsontext import below, object_at, pointer_of, text_at
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.xid import xid_of


class PayloadMaker:
    """Adds the schemas of payloads to a registry document."""

    def __init__(self, application: Application, made: Converted) -> None:
        self._application = application
        self._following = application.following
        self._made = made
        self._used: set[tuple[str, Pointer]] = set()  # schemas that messages use

    def payload(self, part: MessagePart, group: str, here: Pointer, hints: dict[str, Any], *, is_event: bool) -> dict[str, Any]:
        """Return the attributes of a message of a group that say what its payload is."""
        written = part.payload
        if hints.get("structured") and written is not None:
            whole = self._following.follow(written)
            properties = self._following.member(whole, "properties")
            is_there = properties is not None and isinstance(properties.value, dict) and "data" in properties.value
            written = self._following.child(properties, "data") if is_there and properties is not None else None
        spot = self._following.follow(written) if written is not None else None
        if written is None or spot is None or spot.value is None:
            return {}
        schema_format = text_at(hints, "format") or format_of(part.schema_format)
        schema = self._schema(spot, schema_format)
        event = None if is_event or not is_json_schema(schema_format) or "structured" in hints else from_payload(schema)
        if event is not None:
            self._used.add(spot.place)
            results: dict[str, Any] = {"envelope": CLOUDEVENTS, "envelopemetadata": event.metadata}
            results |= {"envelopeoptions": {"mode": "structured"}}
            if isinstance(event.rest, dict):
                results |= {"dataschemaformat": schema_format, "dataschema": event.rest}
            return results
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
            examples = [example.value["payload"] for example in self._following.items(part.spot, "examples")
                        if isinstance(example.value, dict) and "payload" in example.value]  # fmt: skip
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
        """Return a schema that needs no other."""
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


_INTERPRETED = (
    "messageId", "title", "name", "summary", "description", "tags", "externalDocs", "contentType", "schemaFormat", "payload",
    "headers", "bindings", "traits", HINT,
)  # fmt: skip


class MessageMaker:
    """Adds messages and their schemas to a registry document."""

    def __init__(self, application: Application, made: Converted, texts: Texts) -> None:
        self._application = application
        self._following = application.following
        self._made = made
        self._texts = texts
        self.payloads = PayloadMaker(application, made)
        self._content_type = text_at(application.root.value, "defaultContentType")
        self._ids: dict[tuple[Pointer, str, str], Xid] = {}

    def add(self, part: MessagePart, meant: Meant) -> Xid:
        """Add a message to its group; one that is there already stays."""
        xid = self.xid_of_part(part, meant)
        collection, group, _, messageid = xid[1:].split("/")
        parent = self._made.document[collection].setdefault(group, {})
        messages = parent.setdefault("messages", {})
        if messageid not in messages:
            here = pointer_of(collection, group, "messages", messageid)
            self._made.pointers[here] = part.spot.at
            messages[messageid] = self._message(part, meant, here)
        return xid

    def xid_of_part(self, part: MessagePart, meant: Meant) -> Xid:
        """Return the XID of a message at a channel; of two messages of a group with one key the second gets another."""
        xid = hint_of(part.spot).get("xid")
        if isinstance(xid, str) and xid.count("/") == 4:
            return Xid(xid)
        key = (part.spot.at, part.key, meant.group)
        if key not in self._ids:
            wanted = id_of_key(part.key)
            taken = {xid for (_, _, group), xid in self._ids.items() if group == meant.group}
            xid, nth = xid_of("messagegroups", meant.group, "messages", wanted), 1
            while xid in taken:
                nth += 1
                xid = xid_of("messagegroups", meant.group, "messages", f"{wanted}-{nth}")
            self._ids[key] = xid
        return self._ids[key]

    def _message(self, part: MessagePart, meant: Meant, here: Pointer) -> dict[str, Any]:
        value, family = part.spot.value, family_of(meant.protocol)
        hints = hint_of(part.spot)
        message = self._texts.of(part.spot)
        content_type = value.get("contentType") or self._content_type
        message |= {"datacontenttype": content_type} if isinstance(content_type, str) else {}
        uninterpreted = self._texts.rest(part.spot, _INTERPRETED) | self._texts.bindings(
            part.spot, meant.protocol, "message", but=("headers",) if family == "HTTP" else ()
        )
        options, envelope, unsaid = self._headers(part, family, meant)
        uninterpreted |= unsaid
        self._point(part, options, envelope, here)
        options |= self._bound(part, meant.protocol)
        for name, kind in (("correlationId", CORRELATION), ("examples", EXAMPLES), ("headers", HEADERS)):
            if name in uninterpreted:
                self._texts.note_uninterpreted(kind, part.spot)
        payload = self.payloads.payload(part, meant.group, here, hints, is_event=envelope is not None)
        message |= payload
        message |= envelope or {}
        is_structured = "envelopeoptions" in payload and not str(message.get("datacontenttype")).startswith(STRUCTURED[:-5])
        message |= {"datacontenttype": STRUCTURED} if is_structured else {}
        if meant.protocol is not None and not options and family not in FAMILY_NAMES and meant.address:
            options = {"address": {"value": meant.address}}
        if options and meant.protocol:  # without options a message has the protocol of its group
            message |= {"protocol": meant.protocol, "protocoloptions": options}
        return with_attributes(message | ({"asyncapi": uninterpreted} if uninterpreted else {}), hints)

    def _headers(
        self, part: MessagePart, family: str | None, meant: Meant
    ) -> tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any]]:
        """Read the headers: options, the envelope if they are those of a CloudEvent, and what is kept as written."""
        names = FAMILY_NAMES.get(family or "")
        options: dict[str, Any] = {}
        if names is not None and names.declared_address and meant.address:
            options[names.declared_address] = {"value": meant.address}
        declared, schema = self._all_headers(part, family)
        if schema is None and not declared:
            return options, None, {}
        result = from_headers(declared, family)
        envelope = None if result is None else {"envelope": CLOUDEVENTS, "envelopemetadata": result.metadata}
        rest = declared if result is None else result.rest
        has_place = names is not None and meant.protocol != "MQTT/3.1.1"
        if has_place and names is not None and rest:
            options[names.headers] = rest
        is_declared = schema is None or _is_declared(schema)
        uninterpreted = {} if is_declared and (has_place or not rest) else {"headers": schema or headers_schema(rest)}
        return options, envelope, uninterpreted

    def _point(self, part: MessagePart, options: dict[str, Any], envelope: dict[str, Any] | None, here: Pointer) -> None:
        """Note where what was read of the headers is written."""
        if part.headers is None:
            return
        at = part.headers.at
        for name in (envelope or {}).get("envelopemetadata", {}):
            written = next((header for header in self._header_names(part) if header.lower().endswith(name)), name)
            self._made.pointers[below(here, "envelopemetadata", name)] = below(at, "properties", written)
        for option in options:
            self._made.pointers[below(here, "protocoloptions", option)] = part.spot.at
        names = {family_names.headers for family_names in FAMILY_NAMES.values()}
        for option in names & options.keys():
            self._made.pointers[below(here, "protocoloptions", option)] = below(at, "properties")

    def _header_names(self, part: MessagePart) -> list[str]:
        properties = self._following.member(part.spot, "headers", "properties")
        return list(properties.value) if properties is not None and isinstance(properties.value, dict) else []

    def _all_headers(self, part: MessagePart, family: str | None) -> tuple[dict[str, dict[str, Any]], Any]:
        """Return the headers of a message, with those of the binding of HTTP; and their schema, if it is one alone."""
        schemas = []
        if part.headers is not None:
            followed = self._following.follow(part.headers)
            if followed is not None and isinstance(followed.value, dict):
                schemas.append(Bundle(self._following, followed).schema)
        bound = self._following.member(part.spot, "bindings", "http", "headers") if family == "HTTP" else None
        if bound is not None and isinstance(bound.value, dict):
            schemas.append(Bundle(self._following, bound).schema)
        schema = {"allOf": schemas} if len(schemas) > 1 else schemas[0] if schemas else None
        return declared_headers(schema), schema

    def _bound(self, part: MessagePart, protocol: str | None) -> dict[str, Any]:
        """Return the options that a binding of the message says."""
        options: dict[str, Any] = {}
        for row in bindings_of(protocol, "message"):
            member = self._following.member(part.spot, "bindings", row.binding, row.member)
            option = None if member is None else option_of(row.how, self._following.plain(member))
            options |= {} if option is None else {row.option: option}
        return options


def _is_declared(schema: Any) -> bool:
    """Return whether declarations say all that a schema of headers does."""
    properties = object_at(schema, "properties")
    is_plain = isinstance(schema, dict) and set(schema) <= {"type", "properties", "required"}
    return is_plain and all(
        HINT in property_schema or says_the_same(property_schema, property_of(declaration_of(property_schema)))
        for property_schema in properties.values()
    )
