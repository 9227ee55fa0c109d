"""What was read of a document: rows, findings, counts; and what its parts must know of the whole."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from lakehouse.dialects.messagefamilies import FindMessage
from lakehouse.ingest.parse.rows import NormalRow
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.problems import Finding

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
