"""A request's path becomes a target: at which snapshot, of which registry, which part of it.

The raw path is read, so that an id may hold `/` as `%2F`: `/at/SNAPSHOT/reg-ID/messagegroups/...`.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from lakehouse.serve.apierrors import ProblemFound
from lakehouse.text.names import RegistryId

MEMBERS = {"endpoints": "messages", "messagegroups": "messages", "schemagroups": "schemas"}
SINGULAR = {
    "endpoints": "endpoint",
    "messagegroups": "messagegroup",
    "schemagroups": "schemagroup",
    "messages": "message",
    "schemas": "schema",
    "versions": "version",
}
DETAILS = "$details"
SUBJECTS = "ccompat"  # first part of the paths of the API of schema registries
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_MOST_CHARACTERS = 2048  # of an id


class RequestTarget(NamedTuple):
    """What a path names.

    Attributes:
        at: the snapshot as written; None: the newest.
        registry: of a mount `/reg-ID`; None: what `/` is.
        parts: the rest, decoded.
        prefix: the mount as written: `/at/5/reg-shop`.
        details: `$details` stood at the end.
    """

    at: str | None
    registry: RegistryId | None
    parts: tuple[str, ...]
    prefix: str
    details: bool

    @property
    def path(self) -> str:
        """Return the path below the mount, decoded: the XID where the path names an entity."""
        return "/" + "/".join(self.parts)

    @property
    def is_of_subjects(self) -> bool:
        """Return whether it is of the API of schema registries, which has its own parameters, methods and errors."""
        return self.parts[:1] == (SUBJECTS,)


def read_target(raw_path: bytes) -> RequestTarget:
    """Read a request's path.

    Raises:
        ProblemFound: it is no UTF-8, holds control characters or an endless id, or mounts a registry without an id.
    """
    segments = raw_path.split(b"/")[1:]
    while segments and not segments[-1]:
        segments.pop()
    raw, parts = [segment.decode("ascii", "replace") for segment in segments], [_decoded(segment) for segment in segments]
    at: str | None = None
    registry: RegistryId | None = None
    used = 0
    if parts[:1] == ["at"] and len(parts) > 1:
        at, used = parts[1], 2
    if len(parts) > used and parts[used].startswith("reg-"):
        registry = RegistryId(parts[used].removeprefix("reg-"))
        if not registry:  # no table accepts a row of it
            raise ProblemFound("not_found", mount_of(registry), "A registry has an id: /reg-ID/.")
        used += 1
    prefix = "".join(f"/{segment}" for segment in raw[:used])
    rest = parts[used:]
    details = bool(rest) and rest[-1].endswith(DETAILS) and rest[-1] != DETAILS
    if details:
        rest[-1] = rest[-1].removesuffix(DETAILS)
    return RequestTarget(at, registry, tuple(rest), prefix, details)


def is_catalog_path(parts: tuple[str, ...]) -> bool:
    """Return whether a path below `/` names a collection or an entity."""
    if not parts:
        return True
    if parts[0] not in MEMBERS or len(parts) > 6:
        return False
    if len(parts) > 2 and parts[2] != MEMBERS[parts[0]]:
        return False
    if len(parts) > 4:
        return parts[4] == "versions" or (parts[4] == "meta" and len(parts) == 5)
    return True


def mount_of(registryid: RegistryId) -> str:
    """Return the path of a registry's mount."""
    return "/reg-" + quote(registryid, safe="")


def quote_path(path: str) -> str:
    """Return an XID or another path as it is in a URL."""
    return quote(path, safe="/:@~$!&'()*+,;=-._")


def _decoded(segment: bytes) -> str:
    try:
        text = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError as error:
        raise ProblemFound("bad_request", error_detail="The path is not UTF-8") from error
    if _CONTROL.search(text):
        shortened = _CONTROL.sub("?", text)[:80]
        raise ProblemFound("malformed_id", id=shortened, error_detail="it holds control characters")
    if len(text) > _MOST_CHARACTERS:
        raise ProblemFound("malformed_id", id=text[:80] + "...", error_detail=f"it has more than {_MOST_CHARACTERS} characters")
    return text
