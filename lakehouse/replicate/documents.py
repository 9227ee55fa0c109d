"""Documents out of what was fetched: written to files, a group at a time, so that memory does not grow with a catalog."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from lakehouse.errors import ReplicationError
from lakehouse.replicate.screen import Screen
from lakehouse.text.blanking import blank_text
from lakehouse.text.jsontext import NotJson, as_written, read_json
from lakehouse.text.streams import split_groups

COLLECTIONS = ("endpoints", "messagegroups", "schemagroups")
MEMBERS = {"endpoints": "messages", "messagegroups": "messages", "schemagroups": "schemas"}
_PART_BYTES = 4 << 20
_CHUNK = 1 << 20
# What a server tells of itself, and not of what it holds.
_OF_SERVER = ("capabilities", "model", "modelsource")


class Writer:
    """A registry document that is written group by group: collections first, the registry's own attributes last.

    Attributes:
        groups: how many groups and endpoints were written.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = stream
        self.groups = 0
        self._collection: str | None = None
        self._is_empty = True
        stream.write(b"{")

    def text(self, collection: str, members: bytes) -> None:
        """Write groups as text: members of a JSON object, without its braces."""
        if not members.strip():
            return
        self._enter(collection)
        self.stream.write((b"" if self._is_empty else b",") + members)
        self._is_empty = False

    def group(self, collection: str, groupid: str, text: bytes) -> None:
        """Write a group."""
        self.text(collection, json.dumps(groupid).encode() + b":" + text)
        self.groups += 1

    def file(self, collection: str, groupid: str, file: Path) -> None:
        """Write a group that stands in a file."""
        self.text(collection, json.dumps(groupid).encode() + b":")
        with file.open("rb") as stream:
            while chunk := stream.read(_CHUNK):
                self.stream.write(chunk)
        self.groups += 1

    def finish(self, root: dict[str, Any]) -> None:
        """Write the registry's own attributes."""
        text = as_written(_own_attributes(root)).encode()
        self.stream.write(b"}" if self._collection else b"")
        inner = text[1:-1]
        self.stream.write((b"," if self._collection and inner else b"") + inner + b"}")

    def _enter(self, collection: str) -> None:
        if collection == self._collection:
            return
        self.stream.write(b"}," if self._collection else b"")
        self.stream.write(json.dumps(collection).encode() + b":{")
        self._collection, self._is_empty = collection, True


def _own_attributes(root: dict[str, Any]) -> dict[str, Any]:
    """Give a registry's attributes without what a server computes, and without collections that this catalog does not know."""
    collections = {name.removesuffix("url") for name in root if name.endswith("surl") and name != "url"}
    computed = {"self", "shortself", *_OF_SERVER, *(one + end for one in collections for end in ("", "url", "count"))}
    return {name: value for name, value in root.items() if name not in computed}


def settle(source: Path, target: Path, screen: Screen, url: str, depth: int) -> None:
    """Write what a server answered as the document that is loaded: without what it tells of itself, and screened.

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
            writer = Writer(out)
            for part in split_groups(stream, _PART_BYTES, COLLECTIONS):
                if part.collection is not None:
                    _add_part(writer, part.collection, part.text, screen, depth)
                    continue
                root = read_json(part.text, depth)[0]
                if not isinstance(root, dict) or not isinstance(root.get("specversion"), str):
                    raise ReplicationError(url, "its answer is not a registry: there is no `specversion`.")
                for collection in COLLECTIONS:  # those of which nothing was cut off
                    left = root.pop(collection, None)
                    if isinstance(left, dict) and left:
                        _add_groups(writer, collection, left, screen)
                    elif left is not None and not isinstance(left, dict):
                        raise ReplicationError(url, f"`{collection}` of its answer is not a map.")
                writer.finish(root)
        aside.replace(target)
    except NotJson as error:
        raise ReplicationError(url, f"its answer is not whole, or not JSON: {blank_text(str(error))}") from error
    finally:
        aside.unlink(missing_ok=True)


def _add_part(writer: Writer, collection: str, text: bytes, screen: Screen, depth: int) -> None:
    value = read_json(text, depth)[0][collection]  # strictly: half a body must not pass
    if screen.is_open:
        writer.text(collection, text[text.index(b"{", 1) + 1 : -2])
        writer.groups += len(value)
    else:
        _add_groups(writer, collection, value, screen)


def _add_groups(writer: Writer, collection: str, groups: dict[str, Any], screen: Screen) -> None:
    for groupid, group in groups.items():
        taken = screen.group(group) if isinstance(group, dict) else group
        if taken is not None:
            writer.group(collection, groupid, as_written(taken).encode())


def write_members(stream: BinaryIO, own: dict[str, Any], name: str, pages: Iterable[dict[str, Any]]) -> int:
    """Write a group whose members come page by page; give how many they are."""
    text = as_written(own).encode()
    stream.write(text[:-1] + (b"," if len(text) > 2 else b"") + json.dumps(name).encode() + b":{")
    count = 0
    for page in pages:
        for key, value in page.items():
            stream.write((b"," if count else b"") + json.dumps(key).encode() + b":" + as_written(value).encode())
            count += 1
    stream.write(b"}}")
    return count


def digest_of(file: Path) -> str:
    """Give the sha256 of a file."""
    digest = hashlib.sha256()
    for chunk in _chunks(file):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            yield chunk
