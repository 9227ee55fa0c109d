"""An operation of an AsyncAPI document becomes an endpoint for each server of its channel."""

from __future__ import annotations

import re
from typing import Any

from lakehouse.asyncapi.application import Application, OperationPart, ServerPart
from lakehouse.asyncapi.contracts import MessageMaker
from lakehouse.asyncapi.following import Spot
from lakehouse.asyncapi.headerschemas import HINT, fixed_value
from lakehouse.asyncapi.logins import authorization_of, schemes_of
from lakehouse.asyncapi.protocoltables import Wire, bindings_of, fitted, id_of_key, with_symbols
from lakehouse.asyncapi.servedchannels import Meant, ServedChannels, hint_of, with_attributes
from lakehouse.asyncapi.texts import Texts
from lakehouse.dialects.draft.reader import Converted
from lakehouse.dialects.tables import family_of
from lakehouse.text.jsontext import pointer_of
from lakehouse.text.names import Pointer

_LOGGED_IN = ("userPassword", "plain", "scramSha256", "scramSha512", "gssapi", "oauth2", "apiKey")
_USED = ("title", "summary", "description", "tags", "externalDocs", "security", "traits", "bindings", "operationId", HINT)
_OF_OPERATION = (*_USED, "action", "channel", "messages", "message", "reply")
_OF_CHANNEL = ("address", "messages", "servers", "publish", "subscribe", HINT)
_OF_SERVER = ("host", "url", "pathname", "protocol", "protocolVersion", "security", HINT)


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

    def add(self, operation: OperationPart, server: ServerPart | None) -> None:
        """Add the endpoint of an operation at a server."""
        channel, hints = operation.channel, hint_of(operation.spot)
        group, meant = self.channels.meant(channel, server)
        wire, _ = self.channels.wire(server)
        protocol = meant.protocol
        schemes = schemes_of(self.application, server, operation)
        options = self._options(operation, server, wire, meant)
        options |= {} if wire is None or server is None else self._addresses(server, wire, schemes)
        login = authorization_of(schemes)
        options |= {"authorization": login} if login else {}
        several = len(channel.servers) > 1 and server is not None
        own = f"{self.channels.name}.{id_of_key(operation.key)}" + (f".{id_of_key(server.name)}" if several and server else "")
        told = hints.get("endpointid")
        endpointid = told if isinstance(told, str) else fitted(own)
        endpoint: dict[str, Any] = {"usage": [self._usage(operation, wire)], "channel": meant.address or channel.key}
        endpoint |= {"protocol": protocol} if protocol else {}
        endpoint |= {"protocoloptions": options} if options or protocol else {}
        endpoint |= self._carried(operation, group, meant, hints)
        texts = self.texts.of(operation.spot)
        if not any(name in texts for name in ("name", "description")) and "endpointid" not in hints:
            about = self.texts.of(channel.spot)
            texts = {name: about[name] for name in ("name", "description") if name in about} | texts
        endpoint |= texts
        kept = self._kept(operation, server, schemes, wire)
        endpoint |= {"asyncapi": kept} if kept else {}
        self._add_endpoint(endpointid, endpoint, hints, operation.spot.at)

    def _add_endpoint(self, endpointid: str, endpoint: dict[str, Any], hints: dict[str, Any], at: Pointer) -> None:
        """Add an endpoint; parts of one, as an export writes them, are put together."""
        every = self.made.document["endpoints"]
        self.made.pointers.setdefault(pointer_of("endpoints", endpointid), at)
        before = every.get(endpointid, {})
        merged = endpoint | before
        merged["usage"] = list(dict.fromkeys([*before.get("usage", []), *endpoint["usage"]]))
        addresses = [
            *_object(before, "protocoloptions").get("endpoints", []),
            *_object(endpoint, "protocoloptions").get("endpoints", []),
        ]
        if addresses:
            distinct = [one for index, one in enumerate(addresses) if one not in addresses[:index]]
            merged["protocoloptions"] = _object(merged, "protocoloptions") | {"endpoints": distinct}
        groups = [*before.get("messagegroups", []), *endpoint.get("messagegroups", [])]
        messages = _object(before, "messages") | _object(endpoint, "messages")
        merged |= {"messagegroups": list(dict.fromkeys(groups))} if groups else {}
        every[endpointid] = with_attributes(merged | ({"messages": messages} if messages else {}), hints)

    def _options(self, operation: OperationPart, server: ServerPart | None, wire: Wire | None, meant: Meant) -> dict[str, Any]:
        """Give the options of an endpoint that address and bindings say."""
        options: dict[str, Any] = {}
        if wire is not None and wire.address and meant.address:
            options[wire.address] = meant.address
        if meant.address is None:
            options["deployed"] = False
        family = family_of(meant.protocol)
        for level, holder in (("server", server.spot if server else None), ("operation", operation.spot)):
            for row in bindings_of(family or "", level):
                found = self.following.member(holder, "bindings", row.binding, row.member)
                value = None if found is None else fixed_value(found.value) if row.how == "fixed" else found.value
                if value is not None and not isinstance(value, dict | list):
                    options[row.option] = value
        return options

    def _addresses(self, server: ServerPart, wire: Wire, schemes: list[dict[str, Any]]) -> dict[str, Any]:
        told = hint_of(server.spot).get("uri")
        if isinstance(told, str):
            return {"endpoints": [{"uri": told}]}
        scheme = wire.scheme
        if wire.normal == "KAFKA" and any(one.get("type") in _LOGGED_IN for one in schemes):
            scheme = f"sasl_{scheme}"
        values = self.following.member(server.spot, "variables")
        defaults = {}
        for name in values.value if values is not None and isinstance(values.value, dict) else ():
            default = self.following.member(values, name, "default")
            defaults[name] = default.value if default is not None else None
        text = re.sub(r"\{(\w+)\}", lambda found: str(defaults.get(found[1]) or found[0]), server.host)
        path = re.sub(r"\{(\w+)\}", lambda found: str(defaults.get(found[1]) or found[0]), server.pathname)
        return {"endpoints": [{"uri": f"{scheme}://{host.strip()}{path}"} for host in text.split(",") if host.strip()]}

    def _usage(self, operation: OperationPart, wire: Wire | None) -> str:
        """Name the role of an endpoint: at a broker that of the application, at the application itself that of its peers."""
        told = self.perspective
        is_own = told == "server" if told in ("client", "server") else wire is not None and bool(wire.own)
        if (operation.action == "send") != is_own:
            return "producer"
        return "consumer"

    def _carried(self, operation: OperationPart, group: str, meant: Meant, hints: dict[str, Any]) -> dict[str, Any]:
        """Give the groups, or the messages, that an endpoint carries."""
        bases = hints.get("messages")
        if isinstance(bases, list):
            return {"messages": {one.rpartition("/")[2]: {"basemessage": one} for one in bases}}
        if "endpointid" in hints:
            return {"messagegroups": [f"/messagegroups/{group}"]}
        parts = operation.channel.messages
        if set(operation.messages) == set(parts):
            return {"messagegroups": [f"/messagegroups/{group}"]}
        xids = [self.maker.xid_of_part(parts[key], meant) for key in operation.messages]
        return {"messages": {xid.rpartition("/")[2]: {"basemessage": xid} for xid in xids}}

    def _kept(
        self, operation: OperationPart, server: ServerPart | None, schemes: list[dict[str, Any]], wire: Wire | None
    ) -> dict[str, Any]:
        """Give what an endpoint has no attribute for, as it is written."""
        family = wire.normal if wire else ""
        channel = operation.channel
        key = channel.key if not self.application.is_old else re.sub(r"[^\w.\-]+", ".", channel.key).strip(".")
        own: dict[str, Any] = {"key": re.sub(r"[^\w.\-]+", ".", operation.key).strip(".")}
        own |= self.texts.rest(operation.spot, _OF_OPERATION) | self.texts.bindings(operation.spot, family, "operation")
        reply = self.following.member(operation.spot, "reply")
        if reply is not None:
            own["reply"] = self._reply(reply)
        around = self.texts.rest(channel.spot, (*_OF_CHANNEL, "bindings")) | self.texts.bindings(channel.spot, family, "channel")
        if isinstance(around.get("parameters"), dict):
            around["parameters"] = {
                with_symbols(f"{{{name}}}")[1:-1]: _parameter(one) for name, one in around["parameters"].items()
            }
            if not any(around["parameters"].values()):
                del around["parameters"]
        kept: dict[str, Any] = {"operation": own, "channel": {"key": key} | around}
        if server is not None:
            at = self.texts.rest(server.spot, (*_OF_SERVER, "bindings")) | self.texts.bindings(server.spot, family, "server")
            is_usual = server.host and "{" not in server.host + server.pathname and "," not in server.host
            at |= {} if is_usual else {"host": server.host}
            at |= {} if is_usual or not server.pathname else {"pathname": server.pathname}
            kept["server"] = {"key": server.name} | at
        if schemes:
            kept["security"] = schemes
        return kept

    def _reply(self, reply: Spot) -> dict[str, Any]:
        self.texts.tell_kept("replies of operations", reply)
        told = self.texts.rest(reply, ("channel", "messages"))
        found = self.following.member(reply, "channel")
        keys = [key for key, one in self.application.channels.items() if found is not None and one.spot.place == found.place]
        return told | ({"channel": keys[0]} if keys else {})


def _parameter(value: Any) -> Any:
    """Write a parameter as 3.x does, which has no schema but the texts that are allowed."""
    if not isinstance(value, dict) or not isinstance(value.get("schema"), dict):
        return value
    schema = value["schema"]
    lists = {name: [str(one) for one in schema[name]] for name in ("enum", "examples") if isinstance(schema.get(name), list)}
    default = {"default": str(schema["default"])} if "default" in schema else {}
    return {name: one for name, one in value.items() if name != "schema"} | lists | default


def _object(value: dict[str, Any], name: str) -> dict[str, Any]:
    found = value.get(name)
    return found if isinstance(found, dict) else {}
