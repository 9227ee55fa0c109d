"""Large documents: opened by the executor itself, and cut into parts of some groups each, so that memory is bounded by a group.

A part is a whole registry document, in which each entity is at the JSON Pointer that it has in the whole. Only the
places to cut are found here, by counting brackets; every byte is then read by the strict reader of `jsontext`.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, NamedTuple, cast

import numpy as np
from pyarrow.fs import FileSystem

from lakehouse.text.jsontext import NotJson

_CHUNK = 1 << 20
_LOCAL = re.compile(r"\Afile:/+")
_LAST_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:\s*\{\Z', re.DOTALL)
_GROUP_DEPTH = 3  # root, collection, group
_KIND_OF_BYTE = np.zeros(256, dtype=np.int8)
_KIND_OF_BYTE[list(b"{[")] = 1
_KIND_OF_BYTE[list(b"}]")] = -1
_KIND_OF_BYTE[ord('"')] = _QUOTE = 2


class TooLong(Exception):
    """More came out of a `.gz` than is allowed."""


class NotReadable(Exception):
    """A document cannot be opened or read where it is; the message shows why."""


class DocumentPart(NamedTuple):
    """A piece of a document: `collection` is None for the root's own attributes, which come last.

    `start` and `end` show where the groups of a part are in the text of the document; `opens`: the member of the root begins
    with it, so one that comes with the same collection again is of a key that occurs twice.
    """

    collection: str | None
    text: bytes
    start: int = 0
    end: int = 0
    opens: bool = False


class Range(NamedTuple):
    """Where groups of a collection are in the text of a document."""

    collection: str
    start: int
    end: int


def open_document(uri: str, content: bytes | None, max_unpacked: int, *, packed: bool = False, at: int = 0) -> BinaryIO:
    """Open a document as a stream of its plain text.

    Args:
        uri: where it is; a name that ends in .gz shows that it is packed.
        content: its bytes as stored, or None to open the URI: any that Arrow's filesystems know.
        max_unpacked: bytes that may come from a `.gz`.
        packed: give the bytes of a `.gz` as stored.
        at: begin after so many bytes, of a document that is not packed.

    Raises:
        NotReadable: it cannot be opened.
    """
    raw: BinaryIO = io.BytesIO(content) if content is not None else _open(uri, at)
    return cast("BinaryIO", _Unpacked(raw, max_unpacked)) if uri.endswith(".gz") and not packed else raw


def read_chunk(stream: BinaryIO, size: int = _CHUNK) -> bytes:
    """Read up to `size` bytes.

    Raises:
        NotReadable: the stream breaks off, or is not a gzip file.
        TooLong: more comes out than is allowed.
    """
    try:
        return stream.read(size)
    except EOFError as error:
        raise NotReadable("the gzip file ends too early") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise NotReadable(f"no gzip file: {error}") from error
    except OSError as error:
        raise NotReadable(f"it cannot be read: {error}") from error


def split_groups(stream: BinaryIO, part_size: int, collections: Collection[str]) -> Iterator[DocumentPart]:
    """Cut a document between its groups.

    Args:
        stream: the document's text.
        part_size: bytes of groups after which a part is complete; a part holds whole groups, and one at least.
        collections: members of the root that may be cut.

    Returns:
        The parts in order of the text, and last the root without the groups that were cut out.

    Raises:
        NotJson: brackets or commas do not fit. What is inside the parts is not checked here.
    """
    cutter = _Cutter(part_size, {json.dumps(name)[1:-1].encode() for name in collections})
    while chunk := read_chunk(stream):
        yield from cutter.feed(chunk)
    yield from cutter.finish()


def read_ranges(stream: BinaryIO, ranges: Iterable[Range], at: int = 0) -> Iterator[tuple[str, bytes]]:
    """Read ranges of a document, in the order of the text: the collection, and a document that holds the groups there.

    Args:
        stream: the document's text.
        ranges: as from `split_groups`.
        at: where the stream is in the text.

    Raises:
        NotReadable: the text is shorter than it was.
    """
    for collection, start, end in ranges:
        for _ in read_start(stream, start - at):  # a comma, blanks
            pass
        groups = b"".join(read_start(stream, end - start))
        if len(groups) < end - start:
            raise NotReadable("it has changed while it was read")
        at = end
        yield collection, part_of(collection.encode(), groups)


def read_start(stream: BinaryIO, count: int) -> Iterator[bytes]:
    """Read the first bytes of a stream, chunk by chunk."""
    while count and (chunk := read_chunk(stream, min(count, _CHUNK))):
        count -= len(chunk)
        yield chunk


@dataclass
class _Cutter:
    """Where the text is: what was not given out yet, the depth of brackets, and whether it is inside a string."""

    part_size: int
    collections: set[bytes]  # as in the text
    pending: bytes = b""  # since the last cut
    root: bytes = b""  # the root's text so far, with empty collections
    depth: int = 0
    in_string: bool = False
    carried: bytes = b""  # backslashes at the end of a chunk
    collection: bytes | None = None  # key of the collection that is being read, as in the text
    cut_before: bool = False  # groups of this collection were given out already
    closed: bool = False
    fed: int = 0  # bytes of the text that were looked at

    def feed(self, chunk: bytes) -> Iterator[DocumentPart]:
        text = self.carried + chunk
        complete = text.rstrip(b"\\")
        self.carried = text[len(complete) :]
        if not complete:
            return
        begin, before_it = 0, self.fed
        self.fed += len(complete)
        before, brackets = self.depth, self._brackets(complete)
        for position, depth in brackets:
            opens = depth > before
            if depth < 0 or (before == 0 and self.closed):
                raise NotJson(f"not JSON: `{chr(complete[position])}` closes or follows what is complete")
            if opens and depth == _GROUP_DEPTH - 1 and complete[position] == ord("{"):
                self._enter(complete[begin : position + 1])
                begin = position + 1
            elif not opens and depth == _GROUP_DEPTH - 1 and self.collection is not None:
                if len(self.pending) + position + 1 - begin >= self.part_size:
                    self.pending += complete[begin : position + 1]
                    begin = position + 1
                    yield self._cut(before_it + begin)
            elif not opens and depth == _GROUP_DEPTH - 2 and self.collection is not None:
                self.pending += complete[begin:position]
                begin = position
                yield from self._leave(before_it + begin)
            self.closed = self.closed or depth == 0
            before = min(depth, _GROUP_DEPTH)
        self.pending += complete[begin:]

    def finish(self) -> Iterator[DocumentPart]:
        if self.depth or self.in_string or self.carried:
            raise NotJson("not JSON: the text ends inside an object, an array or a string")
        yield DocumentPart(None, self.root + self.pending)

    def _brackets(self, text: bytes) -> list[tuple[int, int]]:
        """Return the brackets outside strings, up to the end, at which groups may begin or end: position, and depth after it."""
        plain = text.replace(rb"\\", b"__").replace(rb"\"", b"__") if b"\\" in text else text
        kinds = _KIND_OF_BYTE[np.frombuffer(plain, dtype=np.uint8)]
        places = np.flatnonzero(kinds)
        kinds = kinds[places]
        quotes = kinds == _QUOTE
        inside = (np.cumsum(quotes) + self.in_string) % 2 == 1
        outside = ~inside & ~quotes
        self.in_string = bool((int(quotes.sum()) + self.in_string) % 2)
        places, steps = places[outside], kinds[outside].astype(np.int64)
        depths = self.depth + np.cumsum(steps)
        self.depth = int(depths[-1]) if len(depths) else self.depth
        lowest = np.minimum(depths, depths - steps)
        wanted = lowest < _GROUP_DEPTH
        return list(zip(places[wanted].tolist(), depths[wanted].tolist(), strict=True))

    def _enter(self, text: bytes) -> None:
        """Begin a member of the root that is an object, out of which groups may be cut."""
        before = self.pending + text
        key = _LAST_KEY.search(before)
        self.root += before
        self.pending = b""
        self.collection = key.group(1) if key and key.group(1) in self.collections else None
        self.cut_before = False

    def _cut(self, end: int) -> DocumentPart:
        text = self.pending.lstrip()
        self.pending = b""
        if self.cut_before:
            if not text.startswith(b","):
                raise NotJson(f"not JSON: a comma is missing between two members of `{_collection_name(self.collection)}`")
            text = text[1:]
        opens, self.cut_before = not self.cut_before, True
        assert self.collection is not None
        return DocumentPart(_collection_name(self.collection), part_of(self.collection, text), end - len(text), end, opens)

    def _leave(self, end: int) -> Iterator[DocumentPart]:
        """End a member of the root: what remains of it is a part, or stays with the root if nothing was cut out."""
        if not self.cut_before:
            self.root += self.pending
            self.pending = b""
        elif self.pending.strip():
            if not self.pending.strip().startswith(b",") or not self.pending.strip()[1:].strip():
                raise NotJson(f"not JSON: a comma is missing or too many in `{_collection_name(self.collection)}`")
            yield self._cut(end)
        self.pending = b""
        self.collection = None


def part_of(collection: bytes, groups: bytes) -> bytes:
    """Write groups of a collection as their own document."""
    return b'{"' + collection + b'":{' + groups + b"}}"


def _collection_name(collection: bytes | None) -> str:
    return (collection or b"").decode("utf-8", errors="replace")


class _Unpacked(io.RawIOBase):
    """What comes from a gzip file, up to a limit."""

    def __init__(self, raw: BinaryIO, limit: int) -> None:
        self.raw = raw
        self.unpacked = gzip.GzipFile(fileobj=raw)
        self.left = limit

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        results = self.unpacked.read(size)
        self.left -= len(results)
        if self.left < 0:
            raise TooLong
        return results

    def close(self) -> None:
        self.raw.close()
        super().close()


def _open(uri: str, at: int) -> BinaryIO:
    try:
        if _LOCAL.match(uri):
            opened: BinaryIO = open(_LOCAL.sub("/", uri), "rb")  # noqa: SIM115  who asked closes it
        else:
            filesystem, path = FileSystem.from_uri(re.sub(r"\As3[an]://", "s3://", uri))
            opened = filesystem.open_input_file(path) if at else filesystem.open_input_stream(path)
        if at:
            opened.seek(at)
        return opened
    except Exception as error:
        raise NotReadable(f"the executor cannot open it: {error}") from error
