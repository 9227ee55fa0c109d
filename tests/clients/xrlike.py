"""A plain client that does over HTTP what the command `xr` does, which comes with the server of the specification's authors.

It reads the model and the capabilities first, looks whether an entity is there, and then creates, updates, deletes, imports or
downloads. It takes no answer that has what it does not know.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

CAPABILITIES = {
    *("available", "compatibilities", "flags", "formats", "ignores", "pagination", "shortself", "specversions", "versionmodes")
}
MODEL = {"attributes", "description", "documentation", "groups", "labels"}
GROUP = {"attributes", "constraints", "plural", "resources", "singular", "ximportresources"}
RESOURCE = {
    *("attributes", "hasdocument", "maxversions", "metaattributes", "plural", "resourceattributes", "setversionid"),
    *("singleversionroot", "singular", "strictvalidation", "validatecompatibility", "validateformat", "versionmode"),
}
ATTRIBUTE = {
    *("attributes", "default", "enum", "immutable", "item", "name", "namecharset", "readonly", "required", "strict", "type"),
}
ITEM = {"attributes", "item", "namecharset", "type"}


class Failed(Exception):
    """A request was refused: its status, and the name of the error."""

    def __init__(self, status: int, name: str, detail: str) -> None:
        super().__init__(f"{status} {name}: {detail}")
        self.status, self.name = status, name


@dataclass
class Answer:
    """What came back; header names in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Xr:
    """A client of a server."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self.model: dict[str, Any] = {}
        self.capabilities: dict[str, Any] = {}
        self.begin()

    def begin(self) -> None:
        """Read what the server says of itself, strictly."""
        self.capabilities = self.request("GET", "/capabilities").json
        only(self.capabilities, CAPABILITIES, "/capabilities")
        self.model = self.request("GET", "/model").json
        check_model(self.model)

    def request(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request; a body that is no text of bytes goes as JSON.

        Raises:
            Failed: it is refused, with an error of the specification.
        """
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        connection = http.client.HTTPConnection(self.url.split("://")[1].split("/")[0], timeout=120)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, content, sent)
            came = connection.getresponse()
            answer = Answer(came.status, {name.lower(): value for name, value in came.getheaders()}, came.read())
        finally:
            connection.close()
        if answer.status >= 400:
            error = answer.json
            assert {"type", "title", "subject"} <= set(error), error
            assert error["type"].startswith("https://github.com/xregistry/spec/blob/main/core/"), error
            raise Failed(answer.status, error["type"].rsplit("#", 1)[1], f"{error['title']} {error.get('detail', '')}")
        return answer

    def get(self, xid: str) -> Any:
        """Read an entity, a collection or the registry."""
        return self.request("GET", xid).json

    def is_there(self, xid: str) -> bool:
        """Return whether an entity exists."""
        try:
            self.request("GET", xid)
        except Failed as failed:
            if (failed.status, failed.name) != (404, "not_found"):
                raise
            return False
        return True

    def create(self, xid: str, reported: Any, query: str = "") -> Any:
        """Create an entity that is not there."""
        assert not self.is_there(xid), xid
        answer = self.request("PATCH", xid + query, reported)
        assert answer.status == 201, answer.status
        assert answer.headers["location"] == answer.json["self"]
        return answer.json

    def update(self, xid: str, reported: Any, query: str = "") -> Any:
        """Change what is named of an entity that is there."""
        assert self.is_there(xid), xid
        return self.request("PATCH", xid + query, reported).json

    def replace(self, xid: str, reported: Any, query: str = "") -> Any:
        """Write an entity whole, whether or not it is there."""
        return self.request("PUT", xid + query, reported).json

    def add(self, xid: str, reported: Any, query: str = "") -> Any:
        """Import a map of entities, or a Version of a Resource."""
        return self.request("POST", xid + query, reported).json

    def delete(self, *xids: str, query: str = "") -> None:
        """Delete entities that are there."""
        for xid in xids:
            assert self.is_there(xid), xid
            assert self.request("DELETE", xid + query).status == 204

    def download(self) -> dict[str, bytes]:
        """Read everything, entity by entity: bodies by path."""
        found: dict[str, bytes] = {}

        def read(path: str) -> Any:
            found[path] = self.request("GET", path).body
            return json.loads(found[path])

        root = read("/")
        for collection, group_model in self.model["groups"].items():
            assert isinstance(root[f"{collection}count"], int)
            for groupid in read(f"/{collection}"):
                read(f"/{collection}/{groupid}")
                for members, resource_model in group_model["resources"].items():
                    details = "$details" if resource_model["hasdocument"] else ""
                    for memberid in read(f"/{collection}/{groupid}/{members}"):
                        here = f"/{collection}/{groupid}/{members}/{memberid}"
                        read(here + details)
                        read(here + "/meta")
                        if details:
                            found[here] = self.request("GET", here).body
                        for versionid in read(here + "/versions"):
                            read(f"{here}/versions/{versionid}{details}")
        for path in ("/export", "/model", "/modelsource", "/capabilities", "/capabilitiesoffered"):
            read(path)
        return found


def only(value: dict[str, Any], known: set[str], here: str) -> None:
    """See that a map has no key that the client does not know."""
    assert set(value) <= known, f"{here}: unknown {sorted(set(value) - known)}"


def check_model(model: dict[str, Any]) -> None:
    """See that a model, or a source of one, is of aspects that the specification has."""
    only(model, MODEL, "model")
    _check_attributes(model.get("attributes", {}), "model", "strict")
    for name, group in model["groups"].items():
        only(group, GROUP, name)
        _check_attributes(group["attributes"], name, "strict")
        for members, resource in group["resources"].items():
            only(resource, RESOURCE, members)
            for kind in ("attributes", "resourceattributes", "metaattributes"):
                _check_attributes(resource.get(kind, {}), f"{name}.{members}.{kind}", "strict")


def _check_attributes(attributes: dict[str, Any], here: str, charset: str) -> None:
    for name, reported in attributes.items():
        only(reported, ATTRIBUTE, f"{here}.{name}")
        assert reported["name"] == name, f"{here}.{name}"
        assert charset == "extended" or name == "*" or name.replace("_", "").isalnum(), f"{here}.{name}"
        assert "default" not in reported or reported.get("required"), f"{here}.{name}: has a default and may be absent"
        assert ("item" in reported) == (reported["type"] in ("map", "array")), f"{here}.{name}"
        _check_attributes(reported.get("attributes", {}), f"{here}.{name}", reported.get("namecharset", "strict"))
        item = reported.get("item", {})
        only(item, ITEM, f"{here}.{name}.item")
        _check_attributes(item.get("attributes", {}), f"{here}.{name}.item", item.get("namecharset", "strict"))
