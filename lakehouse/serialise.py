"""Rows of the log become lines of registry documents: on the executors, in one pass, with one message in memory.

A line holds a group's own attributes, or one message or schema with its Versions. The lines of a part end with a trailer that
tells which bytes belong to which registry and collection, so that whoever joins the parts copies bytes and reads none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain, groupby

import orjson
import pyarrow as pa

from lakehouse.documentview import (
    MEMBERS,
    Stored,
    Urls,
    as_bytes,
    group_view,
    resource_view,
    source_of_group,
    source_of_resource,
    with_member,
)

LINES = "line string"
TRAILER_DIGITS = 12
_BATCH_BYTES = 4 << 20


@dataclass(frozen=True)
class Style:
    """How entities are written.

    Attributes:
        base_url: URLs are absolute ones below it; None: references into the document.
        source: write entities as they came in, without what a registry computes.
        by_group: each group becomes a document of its own.
    """

    base_url: str | None = None
    source: bool = False
    by_group: bool = False


@dataclass
class Run:
    """Consecutive bytes of a part that belong together: groups of one collection, or one group.

    Attributes:
        groupid: the group's id when each stands alone, else empty.
        offset: where they begin.
        length: how many bytes, without the last newline.
        groups: how many groups.
        members: how many messages or schemas.
        created: the first createdat of what is in it, in microseconds since 1970.
        modified: the last modifiedat.
    """

    registryid: str
    collection: str
    groupid: str
    offset: int
    length: int = 0
    groups: int = 0
    members: int = 0
    created: int = 2**62
    modified: int = -(2**62)

    def live(self, row: Stored) -> None:
        """Take the dates of a row into account."""
        self.created = min(self.created, self.created if row.createdat is None else row.createdat)
        self.modified = max(self.modified, self.modified if row.modifiedat is None else row.modifiedat)


@dataclass
class Trailer:
    """What stands in a part: its runs in order, and the root rows of registries that sort into it."""

    runs: list[Run] = field(default_factory=list)
    roots: list[Stored] = field(default_factory=list)

    def text(self) -> bytes:
        """Write it as the last line of a part, whose last digits tell its length."""
        line = json.dumps({"runs": [asdict(run) for run in self.runs], "roots": self.roots}).encode()
        return line + f"{len(line):0{TRAILER_DIGITS}}".encode()

    @staticmethod
    def parse(line: bytes) -> Trailer:
        """Read what `text` wrote, without the digits."""
        told = json.loads(line)
        return Trailer([Run(**run) for run in told["runs"]], [Stored(*root) for root in told["roots"]])


def path_of(xid: str) -> tuple[str, ...]:
    """Give the key that rows are sorted by: groups before what they hold."""
    return tuple(xid.split("/"))


def writer(style: Style) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Give the function for `mapInArrow`: columns of `Stored`, sorted by registry and path, each registry's groups whole."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (Stored(*row) for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        held: list[bytes] = []
        size = 0
        for line in write_lines(rows, style):
            held.append(line)
            size += len(line)
            if size >= _BATCH_BYTES:
                yield _batch(held)
                held, size = [], 0
        if held:
            yield _batch(held)

    return write


def write_lines(rows: Iterable[Stored], style: Style) -> Iterator[bytes]:
    """Write rows as lines, the trailer last."""
    trailer = Trailer()
    run: Run | None = None
    held: bytes | None = None  # the last line: whether a comma follows it tells the next group
    offset = 0
    for (registryid, collection, groupid), members in groupby(rows, key=_group_of):
        if not collection:
            trailer.roots.extend(members)
            continue
        if run and held and not style.by_group and (run.registryid, run.collection) == (registryid, collection):
            held += b","
        else:
            offset += 0 if held is None else len(held) + 1
            if run and held:
                run.length = offset - run.offset - 1
                yield held
            held = None
            run = Run(registryid, collection, groupid if style.by_group else "", offset)
            trailer.runs.append(run)
        for line in _group_lines(f"/{collection}/{groupid}", members, style, run):
            if held is not None:
                yield held
                offset += len(held) + 1
            held = line
    if run and held:
        run.length = offset + len(held) - run.offset
        yield held
    yield trailer.text()


def _group_lines(xid: str, rows: Iterator[Stored], style: Style, run: Run) -> Iterator[bytes]:
    """Write a group: its own attributes, each member, and what closes it."""
    first = next(rows)
    own = first if first.xid == xid else None
    collection, groupid = xid[1:].split("/")
    members = MEMBERS[collection]
    if style.source:
        head, url, protocol = source_of_group(own), None, None
    else:
        urls = Urls(style.base_url)
        view = group_view(xid, own, urls)
        head, url, protocol = as_bytes(view), urls.of(collection, groupid, members), view.get("protocol")
    run.groups += 1
    run.live(first)
    rest = rows if own else chain([first], rows)
    line = orjson.dumps(groupid) + b":" + _open(head, members, url)
    count = 0
    for member_xid, stored in groupby(rest, key=_member_of):
        written = list(stored)
        for row in written:
            run.live(row)
        yield line + (b"," if count else b"")
        line = orjson.dumps(member_xid.rsplit("/", 1)[1]) + b":" + _member(member_xid, written, protocol, style)
        count += 1
    run.members += count
    closing = b"}}" if style.source else b'},"%scount":%d}' % (members.encode(), count)
    if count:
        yield line
        yield closing
    else:
        yield line + closing


def _open(head: bytes, members: str, url: str | None) -> bytes:
    """Open the map of members behind a group's own attributes."""
    if url is not None:
        head = with_member(head, f"{members}url", orjson.dumps(url))
    return with_member(head, members, b"{}")[:-2]


def _member(xid: str, rows: list[Stored], group_protocol: str | None, style: Style) -> bytes:
    own = rows[0] if rows[0].xid == xid else None
    versions = rows[1:] if own else rows
    if style.source:
        return source_of_resource(own, versions)
    return as_bytes(resource_view(xid, own, versions, group_protocol, Urls(style.base_url)))


def _member_of(row: Stored) -> str:
    return "/".join(row.xid.split("/", 5)[:5])


def _group_of(row: Stored) -> tuple[str, str, str]:
    tokens = row.xid.split("/", 3)
    return row.registryid, tokens[1], tokens[2] if len(tokens) > 2 else ""


def _batch(lines: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(lines, pa.binary()).cast(pa.string())], names=["line"])
