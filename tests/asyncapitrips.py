"""An AsyncAPI document, or any other, is loaded, exported to AsyncAPI and loaded again: without Spark, for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from builders import stored

from lakehouse.asyncapi.outward import AsyncApi, Perspective, write_asyncapi
from lakehouse.export.run import path_of
from lakehouse.export.writers import whole_registry
from lakehouse.ingest.parse.document import ParseLimits
from lakehouse.ingest.parse.parse import FilesBeside, read_as
from lakehouse.ingest.parse.readings import Reading
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.yamltext import read_text

LIMITS = ParseLimits(bytes=1 << 24, unpacked=1 << 24, depth=100, entities=100_000, stream=1 << 24, strict=False)


class Trip(NamedTuple):
    """A document there and back: bodies by XID of the first and the second load, and what was written between them."""

    first: dict[str, Any]
    second: dict[str, Any]
    written: AsyncApi
    reading: Reading

    @property
    def differing(self) -> set[str]:
        """Return the XIDs of what the two loads do not read alike."""
        return {xid for xid in {*self.first, *self.second} if self.first.get(xid) != self.second.get(xid)}


def load(path: Path) -> Reading:
    """Load a document."""
    value, problems = read_text(path.read_bytes(), path.name, 100)
    beside = FilesBeside(path.as_uri().replace("file:///", "file:/"), LIMITS)
    return read_as(value, problems, path.name, None, open_file=beside)[1]


def bodies(reading: Reading) -> dict[Xid, Any]:
    """Return the bodies of a reading by XID; a message that only extends another has that one's."""
    found = {row.xid: json.loads(row.body) for row in reading.rows}
    for xid, body in found.items():
        if "basemessage" in body:
            base = found.get(f"{body['basemessage']}/versions/1", {})
            found[xid] = base | {name: one for name, one in body.items() if name != "basemessage"}
    return found


def trip(path: Path, perspective: Perspective = "client", *others: Path) -> Trip:
    """Load a document, export it, load what was written; of others in the same catalog what the first does not hold."""
    flat: dict[str, Any] = {}
    rows = []
    for reading in map(load, (path, *others)):
        own = bodies(reading)
        added = [row for row in stored(reading) if row.xid not in flat]
        rows += [row._replace(body=json.dumps(own[row.xid])) if row.kind == "version" else row for row in added]
        flat = own | flat
    written = write_asyncapi(whole_registry(RegistryId("r"), sorted(rows, key=lambda row: path_of(row.xid))), perspective)
    second = read_as(json.loads(json.dumps(written.document)), [], "again.json", None)[1]
    return Trip(flat, bodies(second), written, second)
