"""Documents made of what was fetched, written a group at a time, so that memory does not grow with a catalog.

All of another catalog is taken but what is ours (CAT-182), with the authority of those who define it (CAT-068, CAT-183).
Authority is decided message by message (CAT-181): a message whose authority is this catalog was copied from here, and is not
taken back, so that copies which go round in a ring end where they began. An authority that exists is never changed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from lakehouse.errors import ReplicationError
from lakehouse.store.durable import replace_synced
from lakehouse.text.blanking import blank_text
from lakehouse.text.jsontext import BOM, NotJson, as_read, members, object_of, read_json, values_of, with_member, without
from lakehouse.text.streams import DocumentPart, split_groups

Json = dict[str, Any]
# What a server computes of the others, relative to the answer that it is in.
_COMPUTED = ("self", "shortself", "metaurl", "versionsurl", "versionscount", "defaultversionurl")
_COMPUTED_OF_GROUPS = ("self", "shortself", "messagesurl", "messagescount", "schemasurl", "schemascount")
COLLECTIONS = ("endpoints", "messagegroups", "schemagroups")
MEMBERS = {"endpoints": "messages", "messagegroups": "messages", "schemagroups": "schemas"}
_PART_BYTES = 4 << 20
_CHUNK = 1 << 20
# What a server says of itself, and not of what it holds.
_OF_SERVER = ("capabilities", "model", "modelsource")


class Screen(NamedTuple):
    """What is taken.

    Attributes:
        own: authority of this catalog, setting `authority`; empty: it has none, and everything is taken.
        filled: authority that a message without one gets; None: it stays without.
    """

    own: str = ""
    filled: str | None = None

    @property
    def is_open(self) -> bool:
        """Return whether everything is taken as it is."""
        return not self.own and self.filled is None

    def is_own(self, authority: Any) -> bool:
        """Return whether an authority is this catalog."""
        return bool(self.own) and isinstance(authority, str) and authority.rstrip("/") == self.own.rstrip("/")

    def group(self, group: Json) -> Json | None:
        """Return a group or endpoint as it is taken; None: all of its messages are ours, so it is ours too."""
        if self.is_open or not any(isinstance(message, dict) and message for message in values_of(group, "messages")):
            return group
        screened = object_of(
            (name, self.messages(value) if name == "messages" and isinstance(value, dict) else value)
            for name, value in members(group)
        )
        return screened if any(values_of(screened, "messages")) else None

    def messages(self, messages: Json) -> Json:
        """Return messages as they are taken, in their order."""
        return object_of(
            (messageid, self._message(message) if isinstance(message, dict) else message)  # the ingest reports what is no object
            for messageid, message in members(messages)
            if not (isinstance(message, dict) and self._is_ours(message))
        )

    def _is_ours(self, message: Json) -> bool:
        """Return whether a message is this catalog's; where its authority occurs twice, each of them has to be."""
        authorities = _authorities(message)
        return bool(authorities) and all(self.is_own(authority) for authority in authorities)

    def _message(self, message: Json) -> Json:
        """Return a message with the authority that it gets."""
        metas = [meta for meta in values_of(message, "meta") if isinstance(meta, dict)]
        if self.filled is None or _authorities(message) or any(meta.get("xref") is not None for meta in metas):
            return message
        if not metas:
            return with_member(message, "meta", {"authority": self.filled})
        return object_of(
            (name, with_member(value, "authority", self.filled) if name == "meta" and isinstance(value, dict) else value)
            for name, value in members(message)
        )

    def definition(self, definition: Json) -> Json | None:
        """Return a definition of the draft as it is taken; None: it is ours."""
        authorities = [authority for authority in values_of(definition, "authority") if authority]
        if authorities and all(self.is_own(authority) for authority in authorities):
            return None
        return definition if authorities or self.filled is None else with_member(definition, "authority", self.filled)


def _authorities(message: Json) -> list[Any]:
    """Return what a message says of its authority: in its meta object, else itself."""
    metas = [meta for meta in values_of(message, "meta") if isinstance(meta, dict)]
    inside = [authority for meta in metas for authority in values_of(meta, "authority") if authority]
    return inside or [authority for authority in values_of(message, "authority") if authority]


def bare_group(group: Json) -> Json:
    """Return the attributes of a group without what a server computes."""
    return without(group, _COMPUTED_OF_GROUPS)


def bare_resource(resource: Json) -> Json:
    """Return a message or schema without what a server computes, in its meta object and its Versions too."""
    return object_of((name, _bare_member(name, value)) for name, value in members(without(resource, _COMPUTED)))


def _bare_member(name: str, value: Any) -> Any:
    if not isinstance(value, dict) or name not in ("meta", "versions"):
        return value
    if name == "meta":
        return without(value, _COMPUTED)
    return object_of((key, without(member, _COMPUTED) if isinstance(member, dict) else member) for key, member in members(value))


class DocumentWriter:
    """A registry document that is written group by group: collections first, the registry's own attributes last.

    Attributes:
        groups: how many groups and endpoints were written.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.groups = 0
        self._collection: str | None = None
        self._is_empty = self._is_bare = True
        stream.write(b"{")

    def close(self) -> None:
        """End a collection: one of the same name that comes next is another member, as a key that occurs twice has it."""
        self.stream.write(b"}" if self._collection else b"")
        self._collection = None

    def text(self, collection: str, groups: bytes) -> None:
        """Write groups as text: members of a JSON object, without its braces."""
        if not groups.strip():
            return
        self._enter(collection)
        self.stream.write((b"" if self._is_empty else b",") + groups)
        self._is_empty = False

    def group(self, collection: str, groupid: str, text: bytes) -> None:
        """Write a group."""
        self.text(collection, json.dumps(groupid).encode() + b":" + text)
        self.groups += 1

    def file(self, collection: str, groupid: str, file: Path) -> None:
        """Write a group that is in a file."""
        self.text(collection, json.dumps(groupid).encode() + b":")
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                self.stream.write(chunk)
        self.groups += 1

    def finish(self, root: dict[str, Any]) -> None:
        """Write the registry's own attributes."""
        inner = as_read(_own_attributes(root))[1:-1]
        self.close()
        self.stream.write((b"," if inner and not self._is_bare else b"") + inner + b"}")

    def _enter(self, collection: str) -> None:
        if collection == self._collection:
            return
        self.close()
        self.stream.write((b"" if self._is_bare else b",") + json.dumps(collection).encode() + b":{")
        self._collection, self._is_empty, self._is_bare = collection, True, False


def _own_attributes(root: dict[str, Any]) -> dict[str, Any]:
    """Return a registry's attributes without what a server computes, and without collections that this catalog does not know."""
    collections = {name.removesuffix("url") for name in root if name.endswith("surl") and name != "url"}
    computed = {
        "self",
        "shortself",
        *_OF_SERVER,
        *(collection + end for collection in collections for end in ("", "url", "count")),
    }
    return without(root, computed)


def write_document(source: Path, target: Path, screen: Screen, url: str, depth: int) -> None:
    """Write what a server answered as the document that is loaded: without what it says of itself, and screened.

    Args:
        source: what `/export` or `/?doc&inline=*` answered.
        target: the document.
        screen: what is taken.
        url: of the source, for errors.
        depth: levels of nesting.

    Raises:
        ReplicationError: it is no whole registry document.
    """
    aside = target.with_suffix(".writing")
    try:
        with source.open("rb") as stream, aside.open("wb") as out:
            out.write(stream.peek(3)[:3] if stream.peek(3).startswith(BOM) else b"")  # the ingest reports it
            _ScreenedDocument(out, screen, url, depth).read(stream)
        replace_synced(aside, target)
    except NotJson as error:
        raise ReplicationError(url, f"its answer is not whole, or not JSON: {blank_text(str(error))}") from error
    finally:
        aside.unlink(missing_ok=True)


class _ScreenedDocument:
    """An answer that becomes a document, part by part; keys that occur twice stay twice, so that the ingest reports them."""

    def __init__(self, out: BinaryIO, screen: Screen, url: str, depth: int) -> None:
        self.screen = screen
        self.url = url
        self.depth = depth
        self.writer = DocumentWriter(out)

    def read(self, stream: BinaryIO) -> None:
        for part in split_groups(stream, _PART_BYTES, COLLECTIONS):
            if part.collection is not None:
                self._add_part(part, part.collection)
            else:
                self._add_root(read_json(part.text, self.depth)[0])

    def _add_part(self, part: DocumentPart, collection: str) -> None:
        value = read_json(part.text, self.depth)[0][collection]  # strictly: half a body must not pass
        if part.opens:
            self.writer.close()
        if not self.screen.is_open:
            self._add_groups(collection, value)
            return
        for groupid, group in members(value):
            check_count(self.url, collection, groupid, group)
            self.writer.groups += 1
        self.writer.text(collection, part.text[part.text.index(b"{", 1) + 1 : -2])

    def _add_root(self, root: Any) -> None:
        if not isinstance(root, dict) or not isinstance(root.get("specversion"), str):
            raise ReplicationError(self.url, "its answer is not a registry: there is no `specversion`.")
        for collection in COLLECTIONS:  # those of which nothing was cut off
            for left in values_of(root, collection):
                if left is not None and not isinstance(left, dict):
                    raise ReplicationError(self.url, f"`{collection}` of its answer is not a map.")
                self.writer.close()
                self._add_groups(collection, left or {})
        self.writer.finish(without(root, COLLECTIONS))

    def _add_groups(self, collection: str, groups: dict[str, Any]) -> None:
        for groupid, group in members(groups):
            check_count(self.url, collection, groupid, group)
            taken = self.screen.group(group) if isinstance(group, dict) else group
            if taken is not None:
                self.writer.group(collection, groupid, as_read(taken))


def check_count(url: str, collection: str, groupid: str, group: Any) -> None:
    """Compare how many messages or schemas an answer holds of a group with how many it says there are.

    An answer with fewer is not whole: what is missing in it would be deleted here.

    Raises:
        ReplicationError: they differ.
    """
    name = MEMBERS[collection]
    count, resources = (group.get(f"{name}count"), group.get(name)) if isinstance(group, dict) else (None, None)
    if not isinstance(resources, dict) or type(count) is not int:
        return
    if count not in (len(resources), every := sum(1 for _ in members(resources))):
        detail = f"/{collection}/{groupid} has `{name}count` {count}, and {every} {name}"
        raise ReplicationError(url, f"its answer is not whole: {detail}. Report it to whoever runs that server.")


def write_members(stream: BinaryIO, own: dict[str, Any], name: str, pages: Iterable[dict[str, Any]]) -> int:
    """Write a group whose members come page by page; give how many they are."""
    text = as_read(own)
    stream.write(text[:-1] + (b"," if len(text) > 2 else b"") + json.dumps(name).encode() + b":{")
    count = 0
    for page in pages:
        for key, value in members(page):
            stream.write((b"," if count else b"") + json.dumps(key).encode() + b":" + as_read(value))
            count += 1
    stream.write(b"}}")
    return count


def digest_of(file: Path) -> str:
    """Return the sha256 of a file."""
    digest = hashlib.sha256()
    for chunk in _chunks(file):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
