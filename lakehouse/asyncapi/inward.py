"""An AsyncAPI document becomes a registry document in normal form, with the pointers of what it was made of.

A channel becomes a message group for each protocol of its servers, named by protocol and address, so that the channels of several
applications at one broker are one group. An operation becomes an endpoint for each of its servers. The application itself is a
message group that holds what no channel carries, and its `info`.
"""

from __future__ import annotations

from typing import Any

from lakehouse.asyncapi.application import Application, ChannelPart, ServerPart
from lakehouse.asyncapi.contracts import MessageMaker
from lakehouse.asyncapi.endpointmaking import EndpointMaker
from lakehouse.asyncapi.following import Following, OpenFile, no_file
from lakehouse.asyncapi.headerschemas import HINT
from lakehouse.asyncapi.protocoltables import (
    slug,
)
from lakehouse.asyncapi.servedchannels import Meant, ServedChannels, hint_of, with_attributes
from lakehouse.asyncapi.texts import Texts
from lakehouse.dialects.draft.reader import Converted
from lakehouse.text.jsontext import pointer_of
from lakehouse.text.names import NO_XID, Pointer
from lakehouse.text.problems import Problem

OTHER_FILES = "AAPI-007"
_OF_INFO = ("title", "description", "tags", "externalDocs")


def convert(document: dict[str, Any], open_file: OpenFile = no_file) -> Converted:
    """Write an AsyncAPI document as a registry document.

    Args:
        document: its value, of which `version_of` gives a version.
        open_file: as for `Following`.
    """
    return _ApplicationReading(Application(Following(document, open_file))).convert()


class _ApplicationReading:
    """An AsyncAPI document on its way."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.following = application.following
        self.made = Converted({"messagegroups": {}, "endpoints": {}, "schemagroups": {}})
        self.texts = Texts(self.following)
        self.hints = hint_of(application.root)
        info = application.root.value.get("info")
        self.info: dict[str, Any] = info if isinstance(info, dict) else {}
        named = self.hints.get("group") or application.root.value.get("id") or self.info.get("title")
        self.name = slug(named if isinstance(named, str) else "asyncapi")
        self.channels = ServedChannels(self.following, self.texts, self.name)
        self.maker = MessageMaker(application, self.made, self.texts)

    def convert(self) -> Converted:
        for channel in self.application.channels.values():
            for server in self.channels.servers(channel):
                self._messages(channel, server)
        endpoints = EndpointMaker(self.application, self.made, self.channels, self.maker, self.texts)
        for operation in self.application.operations.values():
            for server in self.channels.servers(operation.channel):
                endpoints.add(operation, server)
        self._application_group()
        self._tell()
        return self.made

    def _messages(self, channel: ChannelPart, server: ServerPart | None) -> None:
        """Add a channel's messages to its group."""
        group, meant = self.channels.meant(channel, server)
        parts = list(channel.messages.values())
        if parts and not any(self.maker.xid_of_part(part, meant).startswith(f"/messagegroups/{group}/") for part in parts):
            for part in parts:
                self.maker.add(part, meant)
            return
        holder = self.made.document["messagegroups"].setdefault(group, {"messages": {}})
        self.made.pointers.setdefault(pointer_of("messagegroups", group), channel.spot.at)
        texts: dict[str, Any] = {"name": meant.address or channel.key}
        for name, value in (texts | ({"protocol": meant.protocol} if meant.protocol else {})).items():
            holder.setdefault(name, value)
        hints = hint_of(channel.spot)
        if "attributes" in hints:
            self.made.document["messagegroups"][group] = with_attributes(holder, hints)
        for part in parts:
            self.maker.add(part, meant)

    def _application_group(self) -> None:
        """Add the group of the application: its info, messages that no channel carries, schemas that none of them uses."""
        used = {part.spot.place for channel in self.application.channels.values() for part in channel.messages.values()}
        free = {name: part for name, part in self.application.component_messages().items() if part.spot.place not in used}
        if not self.hints or "group" in self.hints:
            group = self._about()
            holder = self.made.document["messagegroups"].setdefault(self.name, {"messages": {}})
            self.made.pointers.setdefault(pointer_of("messagegroups", self.name), pointer_of("info"))
            for name, value in group.items():
                holder.setdefault(name, value)
        for part in free.values():
            self.maker.add(part, Meant(None, None, self.name))
        self.maker.payloads.add_free_schemas(self.name)
        every = self.made.document["messagegroups"]
        for name in [name for name, one in every.items() if not one["messages"] and name != self.name and len(one) == 1]:
            del every[name]

    def _about(self) -> dict[str, Any]:
        """Give the attributes of the application's group."""
        following, root = self.following, self.application.root
        holder = following.member(root, "info")
        about = self.texts.of(holder) if holder is not None and isinstance(holder.value, dict) else {}
        outside = {name: root.value[name] for name in ("tags", "externalDocs") if name in root.value}  # as 2.x has them
        about = self.texts.of(root._replace(value=outside)) | about
        kept: dict[str, Any] = {"info": {name: value for name, value in self.info.items() if name not in _OF_INFO}}
        kept |= {name: root.value[name] for name in ("id", "defaultContentType") if name in root.value}
        kept |= {name: value for name, value in root.value.items() if name.startswith("x-") and name != HINT}
        idle = {
            server.name: following.plain(server.spot)
            for server in self.application.servers.values()
            if not any(server in operation.channel.servers for operation in self.application.operations.values())
        }
        if idle:
            self.texts.tell_kept("servers that no operation uses", next(iter(self.application.servers.values())).spot)
            kept["servers"] = idle
        return about | {"asyncapi": kept}

    def _tell(self) -> None:
        files = self.following.files
        if files:
            told = f"it refers to {', '.join(files[:5])}{' ...' if len(files) > 5 else ''}: each ingest reads the document again"
            hint = "Nothing to do; a document without references to other files is read again only when it changed."
            self.following.report(Pointer(""), OTHER_FILES, told, hint, "info")
        self.texts.tell_all()
        every: list[Problem] = self.following.problems
        self.made.reported = [(NO_XID, problem) for problem in every]
