"""Rows of the log become lines of registry documents: on the executors, in one pass, with one message in memory.

A line holds a group's own attributes, or one message or schema with its Versions. The lines of a part end with a trailer that
shows which bytes belong to which registry and collection, so that whoever joins the parts copies bytes and reads none.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import chain, groupby
from typing import Any

import pyarrow as pa

from lakehouse.dialects.writing import layout_of, loss_of_entity
from lakehouse.export.losses import Losses
from lakehouse.export.view import Stored
from lakehouse.export.writers import GroupWriter, WriteStyle, group_writer
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import xid_of, xid_of_resource

LINES = "line string"
TRAILER_DIGITS = 12
_BATCH_BYTES = 4 << 20


@dataclass
class ByteRun:
    """Consecutive bytes of a part that belong together: groups of one collection, or one group.

    Attributes:
        groupid: the group's id when each is alone, else empty.
        offset: where they begin.
        length: how many bytes, without the last newline.
        groups: how many groups.
        members: how many messages or schemas.
        created: the first createdat of what is in it, in microseconds since 1970.
        modified: the last modifiedat.
    """

    registryid: RegistryId
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
    """What is in a part: its runs in order, the root rows of registries that sort into it.

    Attributes:
        lost: what could not be said (`Losses.by_rule`).
        partly: registries of which whole groups were left out, so that nothing else of them need be here.
    """

    runs: list[ByteRun] = field(default_factory=list)
    roots: list[Stored] = field(default_factory=list)
    lost: dict[str, dict[str, Any]] = field(default_factory=dict)
    partly: list[RegistryId] = field(default_factory=list)

    def text(self) -> bytes:
        """Write it as the last line of a part, whose last digits show its length."""
        line = json.dumps(vars(self) | {"runs": [asdict(run) for run in self.runs]}).encode()
        return line + f"{len(line):0{TRAILER_DIGITS}}".encode()

    @staticmethod
    def parse(line: bytes) -> Trailer:
        """Read what `text` wrote, without the digits."""
        details = json.loads(line)
        runs, roots = [ByteRun(**run) for run in details.pop("runs")], [Stored(*root) for root in details.pop("roots")]
        return Trailer(runs, roots, **details)


def path_of(xid: Xid) -> tuple[str, ...]:
    """Return the key by which rows are sorted: groups before their members."""
    return tuple(xid.split("/"))


def writer(style: WriteStyle) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow`; it reads columns of `Stored` by registry and path, each registry's groups whole."""

    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (Stored(*row) for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True))
        lines: list[bytes] = []
        size = 0
        for line in write_lines(rows, style):
            lines.append(line)
            size += len(line)
            if size >= _BATCH_BYTES:
                yield _batch(lines)
                lines, size = [], 0
        if lines:
            yield _batch(lines)

    return write


def write_lines(rows: Iterable[Stored], style: WriteStyle) -> Iterator[bytes]:
    """Write rows as lines, the trailer last."""
    trailer = Trailer()
    losses = Losses(style.examples)
    collections = layout_of(style.dialect).collections
    run: ByteRun | None = None
    last_line: bytes | None = None  # the last line: a comma follows if there is another group
    offset = 0
    for (registryid, collection, groupid), members in groupby(rows, key=_group_of):
        if not collection:
            trailer.roots.extend(members)
            continue
        xid = xid_of(collection, groupid)
        if collection not in collections:
            _lose_group(registryid, xid, members, style, losses)
            if trailer.partly[-1:] != [registryid]:
                trailer.partly.append(registryid)
            continue
        if run and last_line and not style.by_group and (run.registryid, run.collection) == (registryid, collection):
            last_line += b","
        else:
            offset += 0 if last_line is None else len(last_line) + 1
            if run and last_line:
                run.length = offset - run.offset - 1
                yield last_line
            last_line = None
            run = ByteRun(registryid, collection, groupid if style.by_group else "", offset)
            trailer.runs.append(run)
        for line in _group_lines(xid, members, style, run, losses):
            if last_line is not None:
                yield last_line
                offset += len(last_line) + 1
            last_line = line
    if run and last_line:
        run.length = offset + len(last_line) - run.offset
        yield last_line
    trailer.lost = losses.by_rule
    yield trailer.text()


def _group_lines(xid: Xid, rows: Iterator[Stored], style: WriteStyle, run: ByteRun, losses: Losses) -> Iterator[bytes]:
    """Write a group: its own attributes, each member, and what closes it."""
    first = next(rows)
    own = first if first.xid == xid else None
    group: GroupWriter = group_writer(style)(run.registryid, xid, own, style, losses)
    run.groups += 1
    run.live(first)
    rest = rows if own else chain([first], rows)
    line = b""
    count = 0
    for member_xid, stored in groupby(rest, key=lambda row: xid_of_resource(row.xid)):
        written = list(stored)
        for row in written:
            run.live(row)
        is_own = written[0].xid == member_xid
        text = group.member(member_xid, written[0] if is_own else None, written[1:] if is_own else written)
        if text is not None:
            yield line + b"," if count else group.head()
            line = text
            count += 1
    run.members += count
    if count:
        yield line
        yield group.tail(count)
    else:
        yield group.head() + group.tail(count)


def _lose_group(registryid: RegistryId, xid: Xid, rows: Iterator[Stored], style: WriteStyle, losses: Losses) -> None:
    """Record as a loss a group that a dialect does not have, without its members."""
    loss = loss_of_entity(style.dialect, xid.split("/")[1])
    for lost in dict.fromkeys(xid_of_resource(row.xid) for row in rows):
        losses.add(registryid, lost, [loss])


def _group_of(row: Stored) -> tuple[RegistryId, str, str]:
    tokens = row.xid.split("/", 3)
    return row.registryid, tokens[1], tokens[2] if len(tokens) > 2 else ""


def _batch(lines: list[bytes]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(lines, pa.binary()).cast(pa.string())], names=["line"])
