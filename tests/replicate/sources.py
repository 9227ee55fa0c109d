"""Sources that a test replicates from: servers of this product, and stand-ins that behave as a test says."""

from __future__ import annotations

import http.server
import json
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from builders import read
from warehouses import CHANGES, START, Written

from lakehouse.ingest.parse.parse import read_as
from lakehouse.replicate.client import RequestLimits, read_address
from lakehouse.replicate.pull import Fetched, Pull, Puller, read_scope
from lakehouse.replicate.state import open_state
from lakehouse.settings import Settings, read_settings
from lakehouse.text.jsontext import read_json

QUICK = RequestLimits(connect_seconds=2, read_seconds=2, answer_seconds=4, attempts=2, pause=0.01)


class Asked(http.server.BaseHTTPRequestHandler):
    """Answers as the test says; HTTP/1.1, so that connections stay open."""

    protocol_version = "HTTP/1.1"
    answers: Callable[[Asked], None]
    seen: list[tuple[str, str, dict[str, str], bytes]]

    def _any(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        type(self).seen.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body))
        type(self).answers(self)

    do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = do_OPTIONS = _any  # noqa: N815  names of http.server

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def give(self, value: Any, status: int = 200, **headers: str) -> None:
        """Answer with JSON."""
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        reported = {"Content-Type": "application/json", "Content-Length": str(len(body))} | {
            name.replace("_", "-"): text for name, text in headers.items()
        }
        self.send_response(status)
        for name, text in reported.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(body)


class Server(http.server.ThreadingHTTPServer):
    """A server whose clients may go in the middle of an answer: that is what some tests are about, and no error of theirs."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class StandIn:
    """A server of a test."""

    def __init__(self, url: str, seen: list[tuple[str, str, dict[str, str], bytes]]) -> None:
        self.url = url
        self.seen = seen

    def paths(self) -> list[str]:
        return [path for _, path, _, _ in self.seen]


@contextmanager
def answering(answers: Callable[[Asked], None]) -> Iterator[StandIn]:
    """Run a server on a free port of the loopback address."""
    seen: list[Any] = []
    handler = type("Handler", (Asked,), {"answers": staticmethod(answers), "seen": seen})
    server = Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield StandIn(f"http://127.0.0.1:{server.server_port}/", seen)
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def settings_of(folder: Path, **given: Any) -> Settings:
    """Return settings of a warehouse that does not exist yet."""
    return read_settings(warehouse=str(folder / "target")).model_copy(update={"readmodel_dir": str(folder / "model"), **given})


class Catalog(Written):
    """A catalog that is written without Spark, of documents that are read as an ingest reads them."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, 1)
        self.held: dict[str, Any] = {}

    def load(self, document: dict[str, Any], registryid: str = "shop") -> int:
        """Commit a snapshot in which the registry holds this document and nothing else."""
        reading = read(json.dumps(document).encode())
        assert [one for one in reading.findings if one.severity == "error"] == []
        return self.load_rows(reading.rows, registryid)

    def load_rows(self, read_rows: list[Any], registryid: str = "shop") -> int:
        """Commit a snapshot in which the registry holds these entities and nothing else."""
        self.head += 1
        found = {row.xid: row for row in read_rows}
        rows = []
        for xid, row in found.items():
            if xid not in self.held or self.held[xid].content_hash != row.content_hash:
                op = "update" if xid in self.held else "insert"
                rows.append(self._of(row, op, registryid))
        rows += [
            self._of(row, "delete", registryid) | {"body": None, "raw": None}
            for xid, row in self.held.items()
            if xid not in found
        ]
        self.held = found
        if any(row["kind"] in ("message", "version") for row in rows):
            self.last |= {"messages": self.head, "versions": self.head}
        rows.append(self.snapshot())
        reported = json.dumps({"snapshot_id": self.head, "ingest_id": f"i{self.head}", "command": "ingest"})
        self.append("changes", pa.Table.from_pylist(rows, CHANGES), reported)
        return self.head

    def _of(self, row: Any, op: str, registryid: str) -> dict[str, Any]:
        reported = {name: getattr(row, name) for name in ("content_hash", "body", "raw", "epoch", "createdat", "modifiedat")}
        begun = int(START.timestamp()) * 1_000_000
        chosen = {"epoch": 1, "createdat": begun, "modifiedat": begun + self.head * 60_000_000}
        own = {name: value for name, value in chosen.items() if reported[name] is None}
        return self.row(row.kind, row.xid, op, json.loads(row.body)) | reported | own | {"registryid": registryid}

    def facts(self) -> dict[str, tuple[str, str]]:
        """Return kind and content hash of each entity, by XID."""
        return {xid: (row.kind, row.content_hash) for xid, row in self.held.items()}


class Held:
    """What a round fetched, as an ingest would read it."""

    def __init__(self, fetched: Fetched) -> None:
        self.fetched = fetched
        self.documents = {unit.uri: unit.file.read_bytes() for unit in fetched.units if unit.file is not None}

    def read(self) -> list[Any]:
        """Return the entities; no error may be found."""
        found = []
        for uri, text in self.documents.items():
            value, problems = read_json(text, 64)
            _, reading = read_as(value, problems, uri, None)
            assert [one for one in reading.findings if one.severity == "error"] == []
            found += reading.rows
        return found

    def rows(self) -> dict[str, tuple[str, str, Any, Any, Any]]:
        """Return kind, content hash, epoch and dates of each entity by XID."""
        return {row.xid: (row.kind, row.content_hash, row.epoch, row.createdat, row.modifiedat) for row in self.read()}

    def value(self) -> Any:
        """Return the one document."""
        (text,) = self.documents.values()
        return json.loads(text)


def fetch(settings: Settings, url: str, *groups: str, limits: RequestLimits = QUICK, loaded: bool = False, **asked: Any) -> Held:
    """Run the half of a round that asks the source.

    Args:
        settings: the warehouse.
        url: of the source.
        groups: as `--group`.
        limits: of the client.
        loaded: keep for the next round that the catalog has taken this one; it is not looked at.
        asked: more of `Pull`.
    """
    source = read_address(url, "SOURCE", {})
    pull = Pull(source, read_scope(groups), limits=limits, **asked)
    with open_state(settings, source.url, pull.scope, pull.protocol) as state:
        puller = Puller(settings, pull, state)
        try:
            held = Held(puller.fetch())
        finally:
            puller.close()
        if loaded:
            state.loaded = {unit.uri: unit.digest for unit in held.fetched.units}
            state.commit = (0, "taken")
            state.save()
        return held
