"""An AsyncAPI document becomes a registry document in normal form, with the pointers of what it was made of.

A channel becomes a message group for each protocol of its servers, named by protocol and address, so that the channels of several
applications at one broker are one group. An operation becomes an endpoint for each of its servers. The application itself is a
message group that holds what no channel carries, and its `info`. Messages and their payload schemas are made by `MessageMaker`.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from lakehouse.asyncapi.application import (
    Application,
    ChannelPart,
    Meant,
    MessagePart,
    OperationPart,
    ServedChannels,
    ServerPart,
    hint_of,
    with_attributes,
)
from lakehouse.asyncapi.following import Bundle, Following, OpenFile, Spot, no_file, with_placed_references
from lakehouse.asyncapi.headerschemas import (
    CLOUDEVENTS,
    HINT,
    STRUCTURED,
    declared_headers,
    from_headers,
    from_payload,
    headers_schema,
    is_declared,
    option_of,
    says_more,
)
from lakehouse.asyncapi.identifiers import apart, fitted, id_of_key, slug, with_symbols
from lakehouse.asyncapi.protocoltables import (
    FAMILY_NAMES,
    Wire,
    bindings_of,
    format_of,
    has_references,
    id_word_of,
    is_json_schema,
    media_type_of,
)
from lakehouse.asyncapi.servers import authorization_of, schemes_of
from lakehouse.asyncapi.texts import CORRELATION, EXAMPLES, HEADERS, IDLE_CHANNELS, IDLE_SERVERS, PAYLOADS, REPLIES, Texts
from lakehouse.dialects.draft.reader import Converted
from lakehouse.dialects.tables import family_of
from lakehouse.text.jsontext import array_at, below, object_at, pointer_of, text_at, texts_in
from lakehouse.text.names import NO_XID, Pointer, Xid
from lakehouse.text.problems import Problem
from lakehouse.text.xid import xid_of

_OF_MESSAGE = (
    "messageId", "title", "name", "summary", "description", "tags", "externalDocs", "contentType", "schemaFormat", "payload",
    "headers", "bindings", "traits", HINT,
)  # fmt: skip
_KINDS = {"correlationId": CORRELATION, "examples": EXAMPLES, "headers": HEADERS, "payload": PAYLOADS}
OTHER_FILES = "AAPI-007"
_OF_INFO = ("title", "description", "tags", "externalDocs")
_SCHEMA_XID = re.compile(r"/schemagroups/([^/]+)/schemas/([^/]+)")
_MESSAGE_XID = re.compile(r"/(messagegroups|endpoints)/[^/]+/messages/[^/]+")
_LOGGED_IN = ("userPassword", "plain", "scramSha256", "scramSha512", "gssapi", "oauth2", "apiKey")
_OF_TRAIT = ("title", "summary", "description", "tags", "externalDocs", "security", "traits", "bindings", "operationId", HINT)
_OF_OPERATION = (*_OF_TRAIT, "action", "channel", "messages", "message", "reply")
_OF_CHANNEL = ("address", "messages", "servers", "publish", "subscribe", HINT)
_OF_SERVER = ("host", "url", "pathname", "protocol", "protocolVersion", "security", HINT)


class PayloadMaker:
    """Adds the schemas of payloads to a registry document."""

    def __init__(self, application: Application, made: Converted) -> None:
        self._application = application
        self._following = application.following
        self._made = made
        self._used: set[tuple[str, Pointer]] = set()  # schemas that messages use
        self._taken: dict[str, dict[str, str]] = {}  # by group the ids of schemas by their case-folded forms

    def payload(self, part: MessagePart, group: str, here: Pointer, hints: dict[str, Any], *, is_event: bool) -> dict[str, Any]:
        """Return the attributes of a message of a group that say what its payload is; in `asyncapi` what no other one says."""
        whole = self._following.follow(part.payload) if part.payload is not None else None
        attributes = self._attributes(part, whole, group, here, hints, is_event=is_event)
        is_structured = bool(hints.get("structured")) or "envelope" in attributes
        return attributes | (self._kept_event(whole, format_of(part.schema_format)) if is_structured and whole else {})

    def _kept_event(self, whole: Spot, schema_format: str) -> dict[str, Any]:
        """Return the payload of a structured event in `asyncapi`, if it says more than the attributes that are made of it."""
        schema = self._schema(whole, schema_format)
        if from_payload(schema) is None or not says_more(schema):
            return {}
        media_type = media_type_of(schema_format)
        return {"asyncapi": {"payload": schema if media_type is None else {"schemaFormat": media_type, "schema": schema}}}

    def _attributes(
        self, part: MessagePart, whole: Spot | None, group: str, here: Pointer, hints: dict[str, Any], *, is_event: bool
    ) -> dict[str, Any]:
        """Return the attributes of a message of a group that say what its payload, `whole`, is."""
        written, written_format = part.payload, part.schema_format
        if hints.get("structured") and written is not None:
            properties = self._following.member(whole, "properties")
            is_there = properties is not None and isinstance(properties.value, dict)
            written, data_format = self._application.with_format(properties, "data") if is_there and properties else (None, None)
            written_format = text_at({"format": data_format}, "format") or written_format
        spot = self._following.follow(written) if written is not None else None
        if written is None or spot is None or spot.value is None:
            return {}
        schema_format = text_at(hints, "format") or format_of(written_format)
        schema = self._schema(spot, schema_format)
        named = _SCHEMA_XID.fullmatch(text_at(hints, "dataschemaxid") or "")
        may_be_event = is_json_schema(schema_format) and not is_event and "structured" not in hints and named is None
        event = from_payload(schema) if may_be_event else None
        if event is not None:
            self._used.add(spot.place)
            results: dict[str, Any] = {"envelope": CLOUDEVENTS, "envelopemetadata": event.metadata}
            results |= {"envelopeoptions": {"mode": "structured"}}
            if isinstance(event.rest, dict):
                results |= {"dataschemaformat": schema_format, "dataschema": event.rest}
            return results
        self._made.pointers[below(here, "dataschema")] = written.at
        if named is not None:
            above = spot.inside.removesuffix(text_at(hints, "part") or "")
            if above != spot.inside:  # the payload is a part of the schema
                spot = self._following.target(spot, f"#{quote(above)}") or spot
                schema = self._schema(spot, schema_format)
            self._put(named[1], named[2], hints.get("schemaversion"), {"format": schema_format, "schema": schema}, spot)
            return {"dataschemaxid": named[0], "dataschemaformat": schema_format}
        is_reference = isinstance(written.value, dict) and isinstance(written.value.get("$ref"), str)
        if is_reference:
            xid = self._put(group, id_of_key(self._name(spot)), None, {"format": schema_format, "schema": schema}, spot)
            return {"dataschemaformat": schema_format, "dataschemaxid": xid}
        if isinstance(schema, dict) and "examples" not in schema and is_json_schema(schema_format):
            examples = [example.value["payload"] for example in self._following.items(part.spot, "examples")
                        if isinstance(example.value, dict) and "payload" in example.value]  # fmt: skip
            schema = schema | ({"examples": examples} if examples else {})
        return {"dataschemaformat": schema_format, "dataschema": schema}

    def _name(self, spot: Spot) -> str:
        """Return the name of a schema: that of the object that says its format, too, or of its file."""
        above, _, name = spot.inside.rpartition("/")
        parent = self._following.target(spot, f"#{quote(above)}") if name == "schema" else None
        is_wrapped = parent is not None and isinstance(parent.value, dict) and "schemaFormat" in parent.value
        return ((above if is_wrapped else spot.inside) or spot.file).rpartition("/")[2]

    def add_free_schemas(self, group: str) -> None:
        """Add the schemas of `components` that no message uses."""
        following = self._following
        for name, spot in following.members(self._application.root, "components", "schemas"):
            is_wrapped = {"schemaFormat", "schema"} <= spot.value.keys()
            inner = following.member(spot, "schema") if is_wrapped else spot
            if inner is None or inner.place in self._used:
                continue
            hints = hint_of(spot)
            schema_format = text_at(hints, "format") or format_of(text_at(spot.value, "schemaFormat") if is_wrapped else None)
            named = _SCHEMA_XID.fullmatch(text_at(hints, "xid") or "")
            own = (named[1], named[2]) if named is not None else (group, id_of_key(name))
            schema = {"format": schema_format, "schema": self._schema(inner, schema_format)}
            self._put(*own, hints.get("version"), schema, spot)

    def _schema(self, spot: Spot, schema_format: str) -> Any:
        """Return a schema that needs no other."""
        self._used.add(spot.place)
        text = text_at(hint_of(spot), "text")
        if text is not None:
            return text
        if not has_references(schema_format) or not isinstance(spot.value, dict):
            return spot.value if isinstance(spot.value, str) else self._following.plain(spot)
        bundle = Bundle(self._following, spot, id_word_of(schema_format))
        self._used |= bundle.places
        return bundle.schema

    def _put(self, group: str, schemaid: str, version: Any, schema: dict[str, Any], spot: Spot) -> str:
        """Add a schema to its group; one that is there already stays, and another of that name gets another id."""
        schemas = self._made.document["schemagroups"].setdefault(group, {"schemas": {}})["schemas"]
        if isinstance(version, str):
            versions = schemas.setdefault(schemaid, {"versions": {}}).setdefault("versions", {})
            versions.setdefault(version, schema)
            return xid_of("schemagroups", group, "schemas", schemaid)
        schemaid = apart(schemaid, self._taken.setdefault(group, {}))
        name, nth = schemaid, 1
        while name in schemas and schemas[name] != schema:
            nth += 1
            name = f"{schemaid}-{nth}"
        schemas[name] = schema
        self._made.pointers.setdefault(pointer_of("schemagroups", group, "schemas", name), spot.at)
        self._made.pointers.setdefault(pointer_of("schemagroups", group), spot.at)
        return xid_of("schemagroups", group, "schemas", name)


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
        self._taken: dict[str, set[str]] = {}  # case-folded XIDs by group

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
        xid = text_at(hint_of(part.spot), "xid") or ""
        if _MESSAGE_XID.fullmatch(xid):
            return Xid(xid)
        key = (part.spot.at, part.key, meant.group)
        if key not in self._ids:
            wanted = id_of_key(part.key)
            taken = self._taken.setdefault(meant.group, set())
            xid, nth = xid_of("messagegroups", meant.group, "messages", wanted), 1
            while xid.casefold() in taken:
                nth += 1
                xid = xid_of("messagegroups", meant.group, "messages", f"{wanted}-{nth}")
            taken.add(xid.casefold())
            self._ids[key] = xid
        return self._ids[key]

    def _message(self, part: MessagePart, meant: Meant, here: Pointer) -> dict[str, Any]:
        value, family = part.spot.value, family_of(meant.protocol)
        hints = hint_of(part.spot)
        message = self._texts.read(part.spot)
        content_type = value.get("contentType") or self._content_type
        message |= {"datacontenttype": content_type} if isinstance(content_type, str) else {}
        uninterpreted = self._texts.other_members(part.spot, _OF_MESSAGE) | self._texts.bindings(
            part.spot, meant.protocol, "message", but=("headers",) if family == "HTTP" else ()
        )
        options, envelope, unsaid = self._headers(part, family, meant)
        uninterpreted |= unsaid
        self._point(part, options, envelope, here)
        options |= self._bound(part, meant.protocol)
        payload = self.payloads.payload(part, meant.group, here, hints, is_event=envelope is not None)
        uninterpreted |= object_at(payload, "asyncapi")
        for name, kind in _KINDS.items():
            if name in uninterpreted:
                self._texts.note_uninterpreted(kind, part.spot)
        message |= payload
        message |= envelope or {}
        is_structured = "envelopeoptions" in payload and not str(message.get("datacontenttype")).startswith(STRUCTURED[:-5])
        message |= {"datacontenttype": STRUCTURED} if is_structured else {}
        if meant.protocol is not None and not options and family not in FAMILY_NAMES and meant.address:
            options = {"address": {"value": meant.address}}
        if options and meant.protocol:  # without options a message has the protocol of its group
            message |= {"protocol": meant.protocol, "protocoloptions": options}
        versionid = text_at(hints, "versionid")
        message |= {"versionid": versionid} if versionid else {}
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
        is_plain = schema is None or is_declared(schema)
        uninterpreted = {} if is_plain and (has_place or not rest) else {"headers": schema or headers_schema(rest)}
        return options, envelope, uninterpreted

    def _point(self, part: MessagePart, options: dict[str, Any], envelope: dict[str, Any] | None, here: Pointer) -> None:
        """Note where what was read of the headers is written."""
        if part.headers is None:
            return
        at = part.headers.at
        for name in (envelope or {}).get("envelopemetadata", {}):
            written = next((header for header in self._header_names(part) if header.lower().endswith(name)), None)
            place = at if written is None else below(at, "properties", written)  # of `allOf` the whole schema
            self._made.pointers[below(here, "envelopemetadata", name)] = place
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
        if len(schemas) > 1:  # the references of each lead to its place in both
            schemas = [with_placed_references(schema, pointer_of("allOf", str(nth))) for nth, schema in enumerate(schemas)]
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


def convert(document: dict[str, Any], open_file: OpenFile = no_file, uri: str = "") -> Converted:
    """Write an AsyncAPI document as a registry document.

    Args:
        document: its value, for which `asyncapi_of` gives a dialect.
        open_file: as for `Following`.
        uri: as for `Following`.
    """
    return _ApplicationReading(Application(Following(document, open_file, uri))).convert()


class _ApplicationReading:
    """An AsyncAPI document on its way."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.following = application.following
        self.made = Converted({"messagegroups": {}, "endpoints": {}, "schemagroups": {}})
        self.texts = Texts(self.following)
        self.hints = hint_of(application.root)
        self.info = object_at(application.root.value, "info")
        named = self.hints.get("group") or application.root.value.get("id") or self.info.get("title")
        self.name = slug(named if isinstance(named, str) else "asyncapi")
        self.channels = ServedChannels(self.following, self.texts, self.name)
        self.maker = MessageMaker(application, self.made, self.texts)
        self.endpoints = EndpointMaker(application, self.made, self.channels, self.maker, self.texts)

    def convert(self) -> Converted:
        for channel in self.application.channels.values():
            for server in self.channels.servers(channel):
                self._messages(channel, server)
        for operation in self.application.operations.values():
            for server in self.channels.servers(operation.channel):
                self.endpoints.add(operation, server)
        self._application_group()
        self._report()
        return self.made

    def _messages(self, channel: ChannelPart, server: ServerPart | None) -> None:
        """Add a channel's messages to its group."""
        group, meant = self.channels.meant(channel, server)
        parts = list(channel.messages.values())
        if parts and not any(self.maker.xid_of_part(part, meant).startswith(f"/messagegroups/{group}/") for part in parts):
            for part in parts:
                self.maker.add(part, meant)
            return
        group_document = self.made.document["messagegroups"].setdefault(group, {"messages": {}})
        self.made.pointers.setdefault(pointer_of("messagegroups", group), channel.spot.at)
        texts: dict[str, Any] = {"name": meant.address or channel.key}
        for name, value in (texts | ({"protocol": meant.protocol} if meant.protocol else {})).items():
            group_document.setdefault(name, value)
        hints = hint_of(channel.spot)
        if "attributes" in hints:
            self.made.document["messagegroups"][group] = with_attributes(group_document, hints)
        for part in parts:
            self.maker.add(part, meant)

    def _application_group(self) -> None:
        """Add the group of the application: its info, messages that no channel carries, schemas that none of them uses."""
        used = {part.spot.place for channel in self.application.channels.values() for part in channel.messages.values()}
        free = {name: part for name, part in self.application.component_messages().items() if part.spot.place not in used}
        if not self.hints or "group" in self.hints:
            group = with_attributes(self._about(), self.hints)
            group_document = self.made.document["messagegroups"].setdefault(self.name, {"messages": {}})
            self.made.pointers.setdefault(pointer_of("messagegroups", self.name), pointer_of("info"))
            for name, value in group.items():
                group_document.setdefault(name, value)
        for part in free.values():
            self.maker.add(part, Meant(None, None, self.name))
        self.maker.payloads.add_free_schemas(self.name)
        every = self.made.document["messagegroups"]
        for name in [
            name
            for name, group_of_name in every.items()
            if not group_of_name["messages"] and name != self.name and len(group_of_name) == 1
        ]:
            del every[name]

    def _about(self) -> dict[str, Any]:
        """Return the attributes of the application's group."""
        following, root = self.following, self.application.root
        info = following.member(root, "info")
        about = self.texts.read(info) if info is not None and isinstance(info.value, dict) else {}
        outside = {name: root.value[name] for name in ("tags", "externalDocs") if name in root.value}  # as 2.x has them
        about = self.texts.read(root._replace(value=outside)) | about
        uninterpreted: dict[str, Any] = {"info": {name: value for name, value in self.info.items() if name not in _OF_INFO}}
        uninterpreted |= {name: root.value[name] for name in ("id", "defaultContentType") if name in root.value}
        uninterpreted |= {name: value for name, value in root.value.items() if name.startswith("x-") and name != HINT}
        used = [operation.channel for operation in self.application.operations.values()]
        for server in self.application.servers.values():
            if not any(server in channel.servers for channel in used):
                self.texts.note_uninterpreted(IDLE_SERVERS, server.spot)
                uninterpreted.setdefault("servers", {})[server.name] = self._idle_server(server)
        for channel in self.application.channels.values():
            for at in self.channels.servers(channel) if channel not in used else ():
                group, meant = self.channels.meant(channel, at)
                described = self.endpoints.described(channel, meant)
                if len(described) > 1:
                    self.texts.note_uninterpreted(IDLE_CHANNELS, channel.spot)
                    uninterpreted.setdefault("channels", {})[group] = described
        return about | {"asyncapi": uninterpreted}

    def _idle_server(self, server: ServerPart) -> dict[str, Any]:
        """Return a server as 3.x writes it."""
        members: dict[str, Any] = {"host": server.host, "pathname": server.pathname, "protocol": server.protocol}
        members |= {"protocolVersion": server.version, "security": list(schemes_of(self.application, server.spot))}
        rest = self.texts.other_members(server.spot, (*_OF_SERVER, "bindings")) | self.texts.bindings(server.spot, None, "server")
        return {name: member for name, member in members.items() if member} | rest

    def _report(self) -> None:
        files = self.following.files
        if files:
            message = (
                f"it refers to {', '.join(files[:5])}{' ...' if len(files) > 5 else ''}: each ingest reads the document again"
            )
            hint = "Nothing to do; a document without references to other files is read again only when it changed."
            self.following.report(Pointer(""), OTHER_FILES, message, hint, "info")
        self.texts.report_all()
        every: list[Problem] = self.following.problems
        self.made.reported = [(NO_XID, problem) for problem in every]


class EndpointMaker:
    """Adds endpoints to a registry document."""

    def __init__(
        self, application: Application, made: Converted, channels: ServedChannels, maker: MessageMaker, texts: Texts
    ) -> None:
        self.application = application
        self.following = application.following
        self.made = made
        self.channels = channels
        self.maker = maker
        self.texts = texts
        self.perspective = hint_of(application.root).get("perspective")
        self._taken: dict[str, str] = {}  # ids by their case-folded forms

    def add(self, operation: OperationPart, server: ServerPart | None) -> None:
        """Add the endpoint of an operation at a server."""
        channel, hints = operation.channel, hint_of(operation.spot)
        group, meant = self.channels.meant(channel, server)
        wire, _ = self.channels.wire(server)
        protocol = meant.protocol
        own_schemes = list(schemes_of(self.application, operation.spot))
        schemes = list(schemes_of(self.application, server.spot)) if server else []
        options = self._options(operation, server, wire, meant)
        options |= {} if wire is None or server is None else self._addresses(server, wire, own_schemes + schemes)
        login = authorization_of(own_schemes + schemes)
        options |= {"authorization": login} if login else {}
        several = len(channel.servers) > 1 and server is not None
        own = f"{self.channels.name}.{id_of_key(operation.key)}" + (f".{id_of_key(server.name)}" if several and server else "")
        endpointid = text_at(hints, "endpointid") or apart(fitted(own), self._taken)
        endpoint: dict[str, Any] = {"usage": [self._usage(operation, wire)], "channel": meant.address or channel.key}
        endpoint |= {"protocol": protocol} if protocol else {}
        endpoint |= {"protocoloptions": options} if options or protocol else {}
        endpoint |= self._carried(operation, group, meant, hints)
        texts = self.texts.read(operation.spot)
        if not any(name in texts for name in ("name", "description")) and "endpointid" not in hints:
            about = self.texts.read(channel.spot)
            texts = {name: about[name] for name in ("name", "description") if name in about} | texts
        endpoint |= texts
        endpoint["asyncapi"] = self._uninterpreted(operation, server, meant, own_schemes, schemes)
        self._add_endpoint(endpointid, endpoint, hints, operation.spot.at)

    def _add_endpoint(self, endpointid: str, endpoint: dict[str, Any], hints: dict[str, Any], at: Pointer) -> None:
        """Add an endpoint; parts of one, as an export writes them, are put together."""
        every = self.made.document["endpoints"]
        self.made.pointers.setdefault(pointer_of("endpoints", endpointid), at)
        before = every.get(endpointid, {})
        merged = endpoint | before
        merged["usage"] = list(dict.fromkeys([*texts_in(before, "usage"), *endpoint["usage"]]))
        addresses = [
            *array_at(object_at(before, "protocoloptions"), "endpoints"),
            *array_at(object_at(endpoint, "protocoloptions"), "endpoints"),
        ]
        if addresses:
            distinct = [address for index, address in enumerate(addresses) if address not in addresses[:index]]
            merged["protocoloptions"] = object_at(merged, "protocoloptions") | {"endpoints": distinct}
        groups = [*texts_in(before, "messagegroups"), *texts_in(endpoint, "messagegroups")]
        messages = object_at(before, "messages") | object_at(endpoint, "messages")
        merged |= {"messagegroups": list(dict.fromkeys(groups))} if groups else {}
        every[endpointid] = with_attributes(merged | ({"messages": messages} if messages else {}), hints)

    def _options(self, operation: OperationPart, server: ServerPart | None, wire: Wire | None, meant: Meant) -> dict[str, Any]:
        """Return the options of an endpoint that address and bindings say."""
        options: dict[str, Any] = {}
        if wire is not None and wire.address and meant.address:
            options[wire.address] = meant.address
        if meant.address is None:
            options["deployed"] = False
        for level, spot in (("server", server.spot if server else None), ("operation", operation.spot)):
            for row in bindings_of(meant.protocol, level):
                member = self.following.member(spot, "bindings", row.binding, row.member)
                option = None if member is None else option_of(row.how, self.following.plain(member))
                options |= {} if option is None else {row.option: option}
        return options

    def _addresses(self, server: ServerPart, wire: Wire, schemes: list[dict[str, Any]]) -> dict[str, Any]:
        uri = text_at(hint_of(server.spot), "uri")
        if uri is not None:
            return {"endpoints": [{"uri": uri}]}
        scheme = wire.scheme
        if wire.normal == "KAFKA" and any(scheme_.get("type") in _LOGGED_IN for scheme_ in schemes):
            scheme = f"sasl_{scheme}"
        values = self.following.member(server.spot, "variables")
        defaults = {}
        for name in values.value if values is not None and isinstance(values.value, dict) else ():
            default = self.following.member(values, name, "default")
            defaults[name] = default.value if default is not None else None
        text = re.sub(r"\{(\w+)\}", lambda result: str(defaults.get(result[1]) or result[0]), server.host)
        path = re.sub(r"\{(\w+)\}", lambda result: str(defaults.get(result[1]) or result[0]), server.pathname)
        return {"endpoints": [{"uri": f"{scheme}://{host.strip()}{path}"} for host in text.split(",") if host.strip()]}

    def _usage(self, operation: OperationPart, wire: Wire | None) -> str:
        """Name the role of an endpoint: at a broker that of the application, at the application itself that of its peers."""
        is_exported = self.perspective in ("client", "server")
        is_own = self.perspective == "server" if is_exported else wire is not None and bool(wire.own)
        if (operation.action == "send") != is_own:
            return "producer"
        return "consumer"

    def _carried(self, operation: OperationPart, group: str, meant: Meant, hints: dict[str, Any]) -> dict[str, Any]:
        """Return the groups, or the messages, that an endpoint carries."""
        bases = hints.get("messages")
        if isinstance(bases, list):
            return {"messages": {base.rpartition("/")[2]: {"basemessage": base} for base in bases}}
        if "endpointid" in hints:
            return {"messagegroups": [f"/messagegroups/{group}"]}
        xids = [self.maker.xid_of_part(operation.channel.messages[key], meant) for key in operation.messages]
        messages = object_at(self.made.document["messagegroups"].get(group), "messages")  # of every channel with this address
        if set(xids) == {xid_of("messagegroups", group, "messages", messageid) for messageid in messages}:
            return {"messagegroups": [f"/messagegroups/{group}"]}
        return {"messages": {xid.rpartition("/")[2]: {"basemessage": xid} for xid in xids}}

    def described(self, channel: ChannelPart, meant: Meant) -> dict[str, Any]:
        """Return the key of a channel, and what is said of it that no attribute holds."""
        key = channel.key if not self.application.is_old else re.sub(r"[^\w.\-]+", ".", channel.key).strip(".")
        uninterpreted = self.texts.other_members(channel.spot, (*_OF_CHANNEL, "bindings"))
        uninterpreted |= self.texts.bindings(channel.spot, meant.protocol, "channel")
        if channel.address is not None and with_symbols(channel.address) != meant.address:
            uninterpreted["address"] = channel.address  # another than that of the binding, which is used
        if isinstance(uninterpreted.get("parameters"), dict):
            uninterpreted["parameters"] = {
                with_symbols(f"{{{name}}}")[1:-1]: _parameter(parameter)
                for name, parameter in uninterpreted["parameters"].items()
            }
            if not any(uninterpreted["parameters"].values()):
                del uninterpreted["parameters"]
        return {"key": key} | uninterpreted

    def _uninterpreted(
        self, operation: OperationPart, server: ServerPart | None, meant: Meant, own_schemes: list[Any], schemes: list[Any]
    ) -> dict[str, Any]:
        """Return what an endpoint has no attribute for, as it is written."""
        own: dict[str, Any] = {"key": re.sub(r"[^\w.\-]+", ".", operation.key).strip(".")}
        own |= self.texts.other_members(operation.spot, _OF_OPERATION) | self.texts.bindings(
            operation.spot, meant.protocol, "operation"
        )
        own |= {"security": own_schemes} if own_schemes else {}
        reply = self.following.member(operation.spot, "reply")
        if reply is not None and isinstance(reply.value, dict):
            own["reply"] = self._reply(reply, server)
        uninterpreted: dict[str, Any] = {"operation": own, "channel": self.described(operation.channel, meant)}
        if server is not None:
            at = self.texts.other_members(server.spot, (*_OF_SERVER, "bindings"))
            at |= self.texts.bindings(server.spot, meant.protocol, "server")
            is_usual = server.host and "{" not in server.host + server.pathname and "," not in server.host
            at |= {} if is_usual else {"host": server.host}
            at |= {} if is_usual or not server.pathname else {"pathname": server.pathname}
            uninterpreted["server"] = {"key": server.name} | at
        if schemes:
            uninterpreted["security"] = schemes
        return uninterpreted

    def _reply(self, reply: Spot, server: ServerPart | None) -> dict[str, Any]:
        """Return a reply, whose channel is named by its group, at the same server if it is there."""
        self.texts.note_uninterpreted(REPLIES, reply)
        uninterpreted = self.texts.other_members(reply, ("channel", "messages"))
        channel = self.application.channel_of(reply)
        if channel is None:
            return uninterpreted
        servers = self.channels.servers(channel)
        group, meant = self.channels.meant(channel, server if server in servers else servers[0])
        uninterpreted["messagegroup"] = f"/messagegroups/{group}"
        if "messages" in reply.value:
            keys = self.application.message_keys(channel, reply)
            uninterpreted["messages"] = [self.maker.xid_of_part(channel.messages[key], meant) for key in keys]
        return uninterpreted


def _parameter(value: Any) -> Any:
    """Write a parameter as 3.x does, which has no schema but the texts that are allowed."""
    if not isinstance(value, dict) or not isinstance(value.get("schema"), dict):
        return value
    schema = value["schema"]
    lists = {name: [str(item) for item in schema[name]] for name in ("enum", "examples") if isinstance(schema.get(name), list)}
    default = {"default": str(schema["default"])} if "default" in schema else {}
    return {name: member for name, member in value.items() if name != "schema"} | lists | default
