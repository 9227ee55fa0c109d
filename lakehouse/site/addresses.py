"""Where each page is: paths that are file names and URLs alike, made of ids and read back.

    reg-default/messagegroups/shop.orders/shop.orders.OrderPlaced.html

An id keeps letters, digits, `.`, `_` and `-`; each other byte is `~` and two hexadecimal digits, so that a path holds nothing
that a file system, a URL or HTML takes for something else. What is too long for a file name is cut, and ends with a digest of the
whole. Next to the HTML of a page is its Markdown (`.md`). A part of a page (its second hundred of members, its history) has the
page's name, `~` and a lower-case word.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from lakehouse.text.names import RegistryId, Xid

MEMBERS = {"messagegroups": "messages", "endpoints": "messages", "schemagroups": "schemas"}
HOME, LLMS, SEARCH, MAP, FINDINGS, SNAPSHOTS, DOCUMENTS, COMPARE, NAMES = (
    "index.html", "llms.txt", "search.html", "map.html", "findings.html", "snapshots.html", "documents.html", "compare.html",
    "names.html",
)  # fmt: skip
TO, WITH = "~to~", "with"
_LONGEST = 72  # a comparison of two Versions of an entity is one file name of three such ids, and file names have 255 bytes
_DIGITS = 12
_PLAIN = re.compile(r"\A[A-Za-z0-9._-]*\Z")
_ESCAPE = re.compile(r"~([0-9A-F]{2})")
_ENDING = re.compile(r"\.(html|json|md|txt)\Z")
_NAME = re.compile(
    r"\A(?P<name>.+?)(~(?P<part>history|compare|with|raw|p)(?P<of>[0-9A-Za-z~._-]*))?\.(?P<ending>html|json|txt)\Z"
)


class PageAddress(NamedTuple):
    """What a path names.

    Attributes:
        folder: names of the folders, as written.
        name: of the page, as written.
        part: history, compare, with, raw, or p for a page of a list; empty: the page itself.
        of: what follows the part, such as the number of the page.
        ending: html, json or txt.
    """

    folder: tuple[str, ...]
    name: str
    part: str
    of: str
    ending: str

    @property
    def number(self) -> int:
        """Return the number of the page of a list, from 1."""
        return int(self.of) if self.part == "p" and self.of.isdigit() else 1


@lru_cache(maxsize=100_000)
def path_part_of(text: str) -> str:
    """Write an id as a part of a path."""
    made = text if _PLAIN.match(text) else "".join(_character(character) for character in text)
    made = f"~2E{made[1:]}" if made.startswith(".") else made
    made = _ENDING.sub(r"~2E\1", made)
    if len(made) <= _LONGEST:
        return made or "~"
    shortened = ""
    for character in text:
        if len(shortened) + len(_character(character)) > _LONGEST - _DIGITS - 2:
            break
        shortened += _character(character)
    return f"{shortened}~x{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:_DIGITS]}"


def id_of_path_part(name: str, existing: Iterable[str] = ()) -> str | None:
    """Read an id back from a part of a path; None: there is none that would be written so.

    Args:
        name: part of a path.
        existing: ids that are looked through when the name was cut.
    """
    if len(name) > _LONGEST - _DIGITS - 2 and re.search(rf"~x[0-9a-f]{{{_DIGITS}}}\Z", name):
        return next((candidate for candidate in existing if path_part_of(candidate) == name), None)
    if name == "~":
        return ""
    parts = _ESCAPE.split(name)
    try:
        raw = b"".join(bytes([int(part, 16)]) if at % 2 else part.encode() for at, part in enumerate(parts))
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if path_part_of(text) == name else None


def path_of(registryid: RegistryId, xid: Xid, part: str = "", ending: str = "html") -> str:
    """Return the path of the page of a registry (`/`), group, endpoint, message, schema or Version.

    Args:
        registryid: of the registry.
        xid: of the entity.
        part: such as `history` or `p2`.
        ending: html, json or txt.
    """
    names = [f"reg-{path_part_of(registryid)}"]
    if xid != "/":
        ids = xid.split("/")[1:]
        names += [ids[0], *(path_part_of(id_part) for id_part in ids[1::2])]
    return "/".join(names) + (f"~{part}" if part else "") + f".{ending}"


def path_of_rule(rule_id: str, part: str = "") -> str:
    """Return the path of the page of a rule and its findings."""
    return f"findings/{path_part_of(rule_id)}" + (f"~{part}" if part else "") + ".html"


def path_of_snapshot(snapshot_id: int, part: str = "") -> str:
    """Return the path of the page of a snapshot."""
    return f"snapshots/{snapshot_id}" + (f"~{part}" if part else "") + ".html"


def path_of_document(registryid: RegistryId, uri: str) -> str:
    """Return the path of the page of a document: the end of its URI, and a digest of the whole."""
    last = uri.rstrip("/").rpartition("/")[2]
    digest = hashlib.sha256(f"{registryid}\n{uri}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]
    return f"documents/{path_part_of(last[:60])}-{digest}.html"


def path_of_comparison(path: str, before: str, after: str) -> str:
    """Return the path of a comparison of two states of a page's entity, or of two snapshots (path: `compare.html`).

    That of a snapshot with the one before is the page of the snapshot.
    """
    if path == COMPARE and int(after) == int(before) + 1:
        return path_of_snapshot(int(after))
    if path == COMPARE:
        return f"compare/{before}{TO}{after}.html"
    return f"{path.removesuffix('.html')}~compare{before}{TO}{after}.html"


def path_of_differences(before: int, after: int) -> str:
    """Return the path of the differences of two snapshots as JSON."""
    return f"compare/{before}{TO}{after}.json"


def path_beside(registryid: RegistryId, xid: Xid, other: Xid, other_registry: RegistryId | None = None) -> str:
    """Return the path of the page that shows two messages, or two schemas, side by side.

    Args:
        registryid: of the first.
        xid: of the first.
        other: XID of the second.
        other_registry: of the second; None: the same.
    """
    _, collection, group, _, entityid = other.split("/")
    names = [collection, path_part_of(group), path_part_of(entityid)]
    if other_registry not in (None, registryid):
        names.insert(0, f"reg-{path_part_of(str(other_registry))}")
    return path_of(registryid, xid, WITH + TO.join(names))


def page_of_list(path: str, number: int) -> str:
    """Return the path of a page of a list, from 1."""
    return path if number == 1 else f"{path.removesuffix('.html')}~p{number}.html"


def read_path(path: str) -> PageAddress | None:
    """Take a path apart; None: no page has such a path."""
    *folder, last = path.split("/")
    match = _NAME.match(last)
    if match is None:
        return None
    return PageAddress(tuple(folder), match["name"], match["part"] or "", match["of"] or "", match["ending"])


def _character(character: str) -> str:
    if character.isascii() and (character.isalnum() or character in "._-"):
        return character
    return "".join(f"~{byte:02X}" for byte in character.encode("utf-8", "surrogatepass"))
