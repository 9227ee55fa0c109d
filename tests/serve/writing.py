"""Servers that may be written to, of warehouses without Spark and Java, and requests to them."""

from __future__ import annotations

import http.client
import json
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakehouse.serve.write.writerequest import WriteRequest
from serve.served import Response, Served, Shops, serving

# Without Java the entity tables do not follow; the log and the read model do.
NO_JAVA = {"JAVA_HOME": "/nowhere", "PATH": "/nowhere"}
EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "made"}}}


def empty_warehouse(folder: Path) -> Shops:
    """Write a warehouse with tables and no rows."""
    return Shops(folder)


class Writable(Served):
    """A running server that may be written to."""

    def send(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str) -> Response:
        """Send a request with a JSON body, or with other bytes."""
        content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.address, timeout=60)
        try:
            connection.putrequest(method, path, skip_host="Host" in headers, skip_accept_encoding=True)
            for name, value in ({"Content-Length": str(len(content))} | headers).items():
                connection.putheader(name.replace("_", "-"), value)
            connection.endheaders(content)
            answer = connection.getresponse()
            return Response(answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    def done(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Send a request that is accepted, and give the JSON of its answer."""
        answer = self.send(method, path, body, **headers)
        assert answer.status in (200, 201, 204), (method, path, answer.status, answer.body[:500])
        return answer.json if answer.body else None

    def refused(self, method: str, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str) -> tuple[int, str]:
        """Send a request that is refused: status, and the name of the error."""
        answer = self.send(method, path, body, raw=raw, **headers)
        assert answer.status >= 400, (method, path, answer.status, answer.body[:500])
        return answer.status, answer.json["type"].rsplit("#", 1)[-1]


@contextmanager
def writing(warehouse: Path, folder: Path, *options: str, **environment: str):
    """Run `lakehouse serve --writable` on a free port until the block ends."""
    with serving(warehouse, folder, "--writable", *options, **(NO_JAVA | environment)) as served:
        yield Writable(served.process, served.url)


def asks(method: str, path: str, body: Any = None, user: str | None = None) -> WriteRequest:
    """Return a request as the process that writes takes it."""
    parts = tuple(path.removesuffix("$details").strip("/").split("/"))
    content = b"" if body is None else json.dumps(body).encode()
    return WriteRequest(method, parts, path.endswith("$details"), "default", "1.0-rc4", [], {}, content, "http://here", user)


def ignore(ingest_id: str, results: list[Any]) -> None:
    """Hear nothing of a commit before it is made."""
