"""Entities and collections of an xRegistry server (1.0-rc2, 1.0-rc4), asked for as far as the server can give them in one piece.

All answers of a walk are of one state of the source: a server of this product tells its snapshot in each, of others the registry
is looked at again at the end.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator

from lakehouse.errors import ReplicationError
from lakehouse.replicate.client import Answer, Client, Refused, is_json
from lakehouse.replicate.screen import Json
from lakehouse.text.names import Xid
from lakehouse.text.twins import members, object_of
from lakehouse.text.xid import xid_of_version

WHOLE = "doc&inline=*"
MISSING = (404, 405, 400, 406, 501)  # what tells that a server has no such thing
_PAGE = 500  # members that are asked for at once


class Changed(Exception):
    """The source changed while it was read."""


class Reader:
    """Asks one xRegistry server.

    Attributes:
        base: its URL.
        at: prefix of a snapshot of its past; empty: now.
        snapshot: that it answered from last; None: it tells none.
        nests: it puts entities into others (`?doc&inline`).
        has_export: it has `/export`.
        has_pages: it cuts collections into pages.
    """

    def __init__(self, client: Client) -> None:
        self.client = client
        self.base = client.address.url
        self.at = ""
        self.snapshot: str | None = None
        self.nests = self.has_export = False
        self.has_pages = True
        self._seen: set[str] = set()

    def begin(self) -> None:
        """Begin a walk."""
        self._seen.clear()

    def look_round(self) -> None:
        """Find out what the server can do; one that does not tell is asked for nothing special."""
        try:
            told = self.client.json(self.client.address.of("capabilities"))
        except Refused as refused:
            if refused.status not in MISSING:
                raise
            return
        if not isinstance(told, dict):
            return
        flags = {one.lstrip("?") for one in told.get("flags") or () if isinstance(one, str)}
        self.nests = {"doc", "inline"} <= flags
        available, apis = told.get("available"), told.get("apis")
        self.has_export = (isinstance(available, dict) and "export" in available) or (
            isinstance(apis, list) and "/export" in apis
        )
        self.has_pages = told.get("pagination") is True

    def resource(self, xid: Xid) -> Json:
        """Give a message or schema with its meta object and its Versions, of a server that puts nothing into another."""
        if self.nests:
            return self.value(self.get(self.url(xid + ("$details" if "/schemas/" in xid else ""), WHOLE)))
        details = "$details" if "/schemas/" in xid else ""
        meta = self.value(self.get(self.url(f"{xid}/meta")))
        ids = ("messageid", "schemaid")
        own = [(key, value) for key, value in members(meta) if key in ids]
        if meta.get("xref") is not None:  # the rest is that of what it stands for
            alias = (*ids, "xref", "epoch", "createdat", "modifiedat")
            return object_of([*own, ("meta", object_of((name, value) for name, value in members(meta) if name in alias))])
        # What the server's own clients may change is its affair; a default that is not sticky is shown where nobody wrote so.
        meta = object_of(
            (name, value)
            for name, value in members(meta)
            if name != "readonly" and (name, value) != ("defaultversionsticky", False)
        )
        versions = []
        for page in self.collection(f"{xid}/versions"):
            for key, version in members(page):
                shown = self.value(self.get(self.url(f"{xid}/versions/{key}{details}"))) if details else version
                document = self._document(xid_of_version(xid, key), shown) if details else {}
                versions.append((key, object_of([*members(shown), *members(document)]) if document else shown))
        return object_of([*own, ("meta", meta), ("versions", object_of(versions))])

    def _document(self, xid: Xid, version: Json) -> Json:
        """Give the document of a Version of a schema where it does not stand elsewhere: as JSON, as text, or else as base64."""
        if any(name in version for name in ("schema", "schemabase64", "schemaurl")):
            return {}
        answer = self.noted(self.client.get(self.url(xid), is_json=False))
        if not answer.body:
            return {}
        try:
            text = answer.body.decode()
        except UnicodeDecodeError:
            return {"schemabase64": base64.b64encode(answer.body).decode()}
        return {"schema": self.client.value(answer) if is_json(answer.headers.get("content-type", "")) else text}

    def listed(self, collection: str) -> Iterator[tuple[str, Json]]:
        """Give the groups of a collection: id and attributes."""
        for page in self.collection(f"/{collection}"):
            yield from members(page)

    def collection(self, path: str, query: str = "") -> Iterator[Json]:
        """Give a collection page by page, as `Link` leads."""
        limit = f"limit={_PAGE}" if self.has_pages else ""
        url: str | None = self.url(path, "&".join(one for one in (query, limit) if one))
        visited: set[str] = set()
        while url is not None:
            if url in visited:
                raise ReplicationError(url, "its pages lead in a circle.")
            visited.add(url)
            answer = self.get(url)
            yield self.value(answer)
            url = answer.next

    def root(self) -> Json:
        """Give the registry itself."""
        root = self.value(self.get(self.url("")))
        if not isinstance(root.get("specversion"), str):
            raise ReplicationError(self.base, "it is not an xRegistry server: there is no `specversion`.")
        return root

    def check_same(self, root: Json) -> None:
        """See that all answers were of one state of the source.

        Raises:
            Changed: they were not.
        """
        if self.snapshot is not None:
            return
        now = self.root()
        if any(now.get(name) != value for name, value in root.items()):
            raise Changed

    def get(self, url: str, etag: str | None = None) -> Answer:
        """Ask for something.

        Raises:
            Changed: the answer is of another snapshot than those before.
        """
        return self.noted(self.client.get(url, etag))

    def noted(self, answer: Answer) -> Answer:
        """Note the snapshot of an answer.

        Raises:
            Changed: it is another than before.
        """
        if answer.snapshot is not None:
            self._seen.add(answer.snapshot)
            self.snapshot = answer.snapshot
            if len(self._seen) > 1:
                raise Changed
        return answer

    def value(self, answer: Answer) -> Json:
        """Give the JSON object of an answer."""
        value = self.client.value(answer)
        if not isinstance(value, dict):
            raise ReplicationError(answer.url, "its answer is not a JSON object.")
        return value

    def url(self, path: str, query: str = "") -> str:
        """Give the URL of a path below the base."""
        address = self.client.address
        if path.startswith("?"):
            return f"{self.base}{self.at}{path}"
        below = address.of(path)
        if self.at:
            below = address.origin + "/" + self.at + below.removeprefix(address.origin + "/")
        return below + (f"?{query}" if query else "")
