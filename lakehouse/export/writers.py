"""How a group and what it holds become text: in normal form, as they came in, or in another dialect.

A writer is made for one group, gets its members one after the other, and gives the text of each, and the texts before and
behind them. It records what it cannot express in a dialect: counted by rule, with the first examples of each. Each task counts
its own and puts the examples into the trailer of its part, so that the driver holds a few for each rule, however much was lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import orjson

from lakehouse.dialects.draft.writer import DraftGroup
from lakehouse.dialects.tables import NORMAL, Loss, family_of
from lakehouse.dialects.writing import ENTITIES_OF, layout_of, to_dialect
from lakehouse.export.view import (
    MEMBERS,
    Stored,
    Urls,
    as_bytes,
    group_view,
    registry_view,
    resource_view,
    source_of_group,
    source_of_resource,
    with_member,
)
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.xid import last_id, xid_of_resource

EXAMPLES = 5


@dataclass
class Losses:
    """What was lost.

    Attributes:
        limit: how many examples of a rule are kept.
        by_rule: rule → how often, and examples: registryid, xid, pointer (into the entity in normal form), message.
    """

    limit: int = EXAMPLES
    by_rule: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of losses."""
        return sum(int(loss["count"]) for loss in self.by_rule.values())

    def add(self, registryid: RegistryId, xid: Xid, losses: Iterable[Loss]) -> None:
        """Take what was lost of an entity into account."""
        for pointer, rule_id, message in losses:
            example = {"registryid": registryid, "xid": xid, "pointer": pointer, "message": message}
            self._add(rule_id, 1, [example])

    def merge(self, details: dict[str, dict[str, Any]]) -> None:
        """Take what was counted elsewhere into account: the `by_rule` of that."""
        for rule_id, loss in details.items():
            self._add(rule_id, loss["count"], loss["examples"])

    def as_json(self) -> list[dict[str, Any]]:
        """Return a JSON value: a count and examples by rule."""
        return [{"rule_id": rule_id} | loss for rule_id, loss in sorted(self.by_rule.items())]

    def _add(self, rule_id: str, count: int, examples: list[dict[str, str]]) -> None:
        loss = self.by_rule.setdefault(rule_id, {"count": 0, "examples": []})
        loss["count"] += count
        loss["examples"] += examples[: max(0, self.limit - len(loss["examples"]))]


def losses_as_text(losses: list[dict[str, Any]]) -> list[str]:
    """Return the losses as text, a line each, in the order of `Losses.as_json`."""
    lines = []
    several = len({example["registryid"] for loss in losses for example in loss["examples"]}) > 1
    for loss in losses:
        for example in loss["examples"]:
            where = example["xid"] + (f" {example['pointer']}" if example["pointer"] else "")
            registry = f"  (registry {example['registryid']})" if several else ""
            lines.append(f"{loss['rule_id']}  {where}: {example['message']}{registry}")
        if loss["count"] > len(loss["examples"]):
            lines.append(f"{loss['rule_id']}  ... and {loss['count'] - len(loss['examples'])} more")
    return lines


@dataclass(frozen=True)
class WriteStyle:
    """How entities are written.

    Attributes:
        base_url: URLs are absolute ones below it; None: references into the document.
        source: write entities as they came in, without what a registry computes.
        by_group: each group becomes its own document.
        dialect: one of `tables.WRITABLE` or `tables.WHOLE_DIALECTS`.
        perspective: of AsyncAPI, `client` or `server`: whose sending and receiving is described.
        examples: how many examples to report of what the dialect cannot express, for each rule.
    """

    base_url: str | None = None
    source: bool = False
    by_group: bool = False
    dialect: str = NORMAL
    examples: int = EXAMPLES
    perspective: str = "client"


class GroupWriter:
    """Writes a group in normal form."""

    def __init__(self, registryid: RegistryId, xid: Xid, own: Stored | None, style: WriteStyle, losses: Losses) -> None:
        self.registryid = registryid
        self.xid = xid
        self.own = own
        self.collection, self.groupid = xid[1:].split("/")
        self.members = MEMBERS[self.collection]
        self.style = style
        self.losses = losses
        self.urls = Urls(style.base_url)
        self.view = {} if style.source else group_view(xid, own, self.urls)

    def member(self, xid: Xid, own: Stored | None, versions: list[Stored]) -> bytes | None:
        """Write a message or schema behind its key; None: it cannot be said."""
        view = resource_view(xid, own, versions, self.view.get("protocol"), self.urls)
        return orjson.dumps(last_id(xid)) + b":" + as_bytes(view)

    def head(self) -> bytes:
        """Write what is before the members, of which the first one has been written."""
        url = self.urls.url_of(self.collection, self.groupid, self.members)
        return self._keyed(with_member(as_bytes(self._attributes()), f"{self.members}url", orjson.dumps(url)))

    def tail(self, count: int) -> bytes:
        """Write what is behind so many members."""
        return b'},"%scount":%d}' % (self.members.encode(), count)

    def _attributes(self) -> dict[str, Any]:
        return self.view

    def _keyed(self, attributes: bytes) -> bytes:
        """Open the map of members behind a group's own attributes."""
        return orjson.dumps(self.groupid) + b":" + with_member(attributes, self.members, b"{}")[:-2]

    def _lose(self, xid: Xid, losses: list[Loss]) -> None:
        self.losses.add(self.registryid, xid, losses)


class _Source(GroupWriter):
    """Writes a group as it came in."""

    def member(self, xid: Xid, own: Stored | None, versions: list[Stored]) -> bytes | None:
        return orjson.dumps(last_id(xid)) + b":" + source_of_resource(own, versions)

    def head(self) -> bytes:
        return self._keyed(source_of_group(self.own))

    def tail(self, count: int) -> bytes:
        return b"}}"


class _Respelled(GroupWriter):
    """Writes a group in a dialect that lays things out as the normal form does."""

    def member(self, xid: Xid, own: Stored | None, versions: list[Stored]) -> bytes | None:
        view = resource_view(xid, own, versions, None, self.urls, bare=False)
        family = family_of(self.view.get("protocol"))
        written, losses = to_dialect(view, self.style.dialect, ENTITIES_OF[self.members], family)
        # A message shows what its default Version says: what is lost of that is reported once.
        default = f"/versions/{view.get('versionid')}"
        details = {loss.pointer for loss in losses}
        self._lose(xid, [loss for loss in losses if default + loss.pointer not in details])
        return orjson.dumps(last_id(xid)) + b":" + as_bytes(written)

    def _attributes(self) -> dict[str, Any]:
        written, losses = to_dialect(self.view, self.style.dialect, ENTITIES_OF[self.collection])
        self._lose(self.xid, losses)
        return dict(written)


class _InDraft(GroupWriter):
    """Writes a message group as one of the CNCF catalog draft, an item of an array."""

    def __init__(self, registryid: RegistryId, xid: Xid, own: Stored | None, style: WriteStyle, losses: Losses) -> None:
        super().__init__(registryid, xid, own, style, losses)
        self.draft = DraftGroup(self.view, self.groupid)

    def member(self, xid: Xid, own: Stored | None, versions: list[Stored]) -> bytes | None:
        view = resource_view(xid, own, versions, None, self.urls, bare=False)
        for version in versions:
            if version.raw is None or '"modifiedat"' not in version.raw:  # when its row changed, as when another is the default
                view["versions"][last_id(version.xid)].pop("modifiedat", None)
        written = self.draft.definition(last_id(xid), view)
        self._lose_in_draft(xid)
        return None if written is None else orjson.dumps(last_id(xid)) + b":" + as_bytes(written)

    def head(self) -> bytes:
        written = self.draft.attributes()
        self._lose_in_draft(self.xid)
        return with_member(as_bytes(written), "messagedefinitions", b"{}")[:-2]

    def tail(self, count: int) -> bytes:
        self.draft.finish()
        self._lose_in_draft(self.xid)
        return b"}}"

    def _lose_in_draft(self, xid: Xid) -> None:
        self._lose(xid, self.draft.losses)
        self.draft.losses.clear()


def group_writer(style: WriteStyle) -> type[GroupWriter]:
    """Choose how groups are written."""
    if style.source:
        return _Source
    if layout_of(style.dialect).is_array:
        return _InDraft
    return GroupWriter if style.dialect == NORMAL else _Respelled


def whole_registry(registryid: RegistryId, rows: Iterable[Stored]) -> dict[str, Any]:
    """Return a registry with all its entities, in normal form, with declarations as objects.

    Args:
        registryid: the registry.
        rows: of it, groups before what they hold.
    """
    urls = Urls()
    stored = list(rows)
    root = next((row for row in stored if row.kind == "registry"), None)
    document = registry_view(registryid, root, (0, 0), urls)
    entities = (row for row in stored if row.kind != "registry")
    for xid, rows_of_resource in groupby(entities, key=lambda row: xid_of_resource(row.xid)):
        versions = list(rows_of_resource)
        tokens = xid[1:].split("/")
        collection, groupid = tokens[0], tokens[1]
        groups = document.setdefault(collection, {})
        if len(tokens) == 2:
            groups[groupid] = group_view(xid, versions[0], urls)
            continue
        group = groups.setdefault(groupid, group_view(Xid(f"/{collection}/{groupid}"), None, urls))
        own = versions[0] if versions[0].xid == xid else None
        view = resource_view(xid, own, versions[1:] if own else versions, None, urls, bare=False)
        group.setdefault(MEMBERS[collection], {})[last_id(xid)] = view
    return document


def stored_row(row: Any, names: Iterable[str]) -> Stored:
    """Return a row that Spark collected as a row of the log; `names`: the columns that it may have."""
    values = {name: row[name] for name in Stored._fields if name in names and name in row}
    flat_attributes = values.get("flat_attributes")
    return Stored(**values | ({"flat_attributes": list(flat_attributes.items())} if isinstance(flat_attributes, dict) else {}))
