"""What was read of a document: its entities as rows, findings, counts; and what its parts must know of the whole."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakehouse.dialects.entityreader import NormalEntity
from lakehouse.dialects.messagefamilies import FindMessage
from lakehouse.domain.flatattributes import FlatAttribute, flat_attributes_of
from lakehouse.domain.versions import with_isdefault
from lakehouse.store.keys import VERSION_KIND
from lakehouse.text.jsontext import as_written, below, canonical_body, decoded
from lakehouse.text.names import JsonText, Pointer, RegistryId, Xid
from lakehouse.text.problems import Finding, Problem
from lakehouse.text.timestamps import microseconds

TABLE_NAMES = {  # by kind; without the tables themselves, which need Spark
    "registry": "registries",
    "group": "groups",
    "endpoint": "endpoints",
    "message": "messages",
    "version": "versions",
    "schema": "schemas",
    "schemaversion": "schemaversions",
}


@dataclass
class Reading:
    """The result of a read document: rows, findings, counts by table, spellings, and of a part names that hint at a dialect."""

    rows: list[NormalRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    entities: Counter[str] = field(default_factory=Counter)
    quarantined: Counter[str] = field(default_factory=Counter)
    refused: set[tuple[str, Xid]] = field(default_factory=set)
    spellings: Counter[str] = field(default_factory=Counter)
    marks: set[str] = field(default_factory=set)
    registryid: RegistryId | None = None
    root: str = "{}"

    def refuse(self, kind: str, xid: Xid) -> None:
        """Count an entity as refused; what a document holds twice, also in two of its parts, once."""
        if (kind, xid) not in self.refused:
            self.refused.add((kind, xid))
            self.quarantined[TABLE_NAMES[kind]] += 1

    def add_counts(self, part: Reading) -> None:
        """Add what was counted in a part of the same document."""
        self.entities.update(part.entities)
        for kind, xid in part.refused:
            self.refuse(kind, xid)
        self.spellings.update(part.spellings)
        self.marks |= part.marks


@dataclass
class Whole:
    """What the parts of a document share when it is read part by part.

    Attributes:
        find_message: gives the members of a message that determine its protocol, by XID; None when there is no such message.
        groups: ids met so far by collection, in lower case and as written.
    """

    find_message: FindMessage
    groups: dict[str, dict[str, str]] = field(default_factory=dict)


class Collection(NamedTuple):
    """A collection of groups: the entity and kind of its members, and of what they hold; rules of their shape."""

    entity: str
    kind: str
    idattribute: str
    members: str
    member: str
    id_rule: str
    map_rule: str
    members_rule: str


# Identity, which the XID has, and what has its own rows.
_NOT_IN_BODY = frozenset(("registryid", "versionid", "messageid", "schemaid", "meta"))
_VERSION_KINDS = frozenset(VERSION_KIND.values())


class NormalRow(NamedTuple):
    """An entity in normal form; epoch and dates as declared, the dates in microseconds since 1970 (UTC).

    twin_hash is what content_hash of a Version were if its `isdefault` were the other way round: which Version is the default
    is a fact of the message, so Versions that differ in it alone are the same definition.
    """

    kind: str
    xid: Xid
    content_hash: str
    epoch: int | None
    createdat: int | None
    modifiedat: int | None
    body: JsonText
    raw: JsonText | None
    attributes: list[FlatAttribute] | None
    isdefault: bool | None = None
    twin_hash: str | None = None
    defaultversionid: str | None = None


Life = tuple[int | None, int | None, int | None]


def take_life(attributes: dict[str, Any], here: Pointer) -> tuple[Life, list[Problem]]:
    """Take epoch and dates out of the known attributes; the problems are of dates that are none."""
    problems: list[Problem] = []
    moments: list[int | None] = []
    if "createdat" not in attributes and "modifiedat" not in attributes:
        return (attributes.pop("epoch", None), None, None), problems
    for name in ("createdat", "modifiedat"):
        text = attributes.pop(name, None)
        moment = None
        if text is not None:
            try:
                moment, has_zone = microseconds(text)
            except ValueError as error:
                problems.append(
                    Problem(below(here, name), "MSG-047", "error", f"`{name}`: {error}", "Write it as 2024-12-31T23:59:59Z.")
                )
            else:
                if not has_zone:
                    message = f"`{name}` {text!r} has no time zone and is taken as UTC"
                    problems.append(Problem(below(here, name), "MSG-047", "warning", message, "Add Z."))
        moments.append(moment)
    return (attributes.pop("epoch", None), moments[0], moments[1]), problems


def make_row(kind: str, xid: Xid, life: Life, read: NormalEntity, written: dict[str, Any] | None) -> NormalRow:
    """Make the row of an entity.

    Args:
        kind: of the log.
        xid: of the entity.
        life: epoch and dates, which are not in the body.
        read: the entity.
        written: it as written; None: that is in another row.

    Raises:
        OverflowError: a number is outside the doubles.
    """
    members = {key: value for key, value in read.attributes.items() if key not in _NOT_IN_BODY}
    if read.extensions:
        members["extensions"] = read.extensions
    body = canonical_body(members)
    text = decoded(body)
    raw = as_written(written) if written is not None else None
    is_version = kind in _VERSION_KINDS
    flat = flat_attributes_of(members, read.extensions) if is_version else None
    isdefault = members.get("isdefault") if is_version else None
    # As if `isdefault` were the other way round.
    twin = None if isdefault is None else hashlib.sha256(with_isdefault(text, not isdefault).encode()).hexdigest()
    default = members.get("defaultversionid") if kind in VERSION_KIND else None
    content_hash = hashlib.sha256(body).hexdigest()
    return NormalRow(kind, xid, content_hash, *life, text, None if raw == text else raw, flat, isdefault, twin, default)
