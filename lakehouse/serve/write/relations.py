"""The rules between entities, over what one request writes: those of `domain.relations`, of which an error refuses.

An ingest finds neighbours by joins, here they are looked up around the rows; a test holds both equal. Warnings refuse nothing:
`lakehouse validate` reports them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from lakehouse.domain.neighbours import EntityState, Limits, violations_of
from lakehouse.rules.declared import RULES
from lakehouse.serve.problems import ProblemFound, raise_problems
from lakehouse.serve.write.working import Change, Row, Working
from lakehouse.settings import Settings
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import RegistryId, Xid


class Broken(NamedTuple):
    """A rule that an entity breaks: the attribute that breaks it ("": all of the entity), and what is wrong."""

    xid: Xid
    rule_id: str
    attribute: str
    message: str


def check_between(working: Working, registryid: RegistryId, changes: Iterable[Change], settings: Settings) -> None:
    """Check what was written by the rules between entities.

    Args:
        working: the catalog with what was written.
        registryid: of what was written.
        changes: what was written.
        settings: `check_relations`, `max_chain_depth` and `duplicate_messageids`, as for an ingest.

    Raises:
        ProblemFound: some are broken.
    """
    raise_problems(
        ProblemFound(
            "invalid_attribute",
            broken.xid,
            f"{broken.rule_id}: {RULES[broken.rule_id].hint}",
            name=broken.attribute or broken.xid.rsplit("/", 1)[-1],
            error_detail=broken.message,
        )
        for broken in find_broken(working, registryid, changes, settings)
    )


def find_broken(working: Working, registryid: RegistryId, changes: Iterable[Change], settings: Settings) -> Iterator[Broken]:
    """Find what rows that were written break; arguments as for `check_between`."""
    if not settings.check_relations:
        return
    around = _Around(working, registryid)
    limits = Limits(settings.max_chain_depth, settings.duplicate_messageids, with_warnings=False)
    for change in changes:
        row, before = change.after, change.before
        if row is None or (before is not None and before.content_hash == row.content_hash):
            continue
        was = None if before is None else _state_of(before)
        for rule_id, pointer, message, severity in violations_of(_state_of(row), was, around, limits):
            if (severity or RULES[rule_id].severity) == "error":
                yield Broken(row.xid, rule_id, pointer[1:].replace("/", "."), message)


class _Around:
    """What a request leaves of a registry, as the rules look at it."""

    def __init__(self, working: Working, registryid: RegistryId) -> None:
        self._working = working
        self._registryid = registryid
        self._known: dict[Xid, EntityState | None] = {}

    def entity(self, xid: Xid) -> EntityState | None:
        if xid not in self._known:
            row = self._working.row(self._registryid, xid)
            self._known[xid] = None if row is None else _state_of(row)
        return self._known[xid]

    def held(self, xid: Xid) -> Iterator[EntityState]:
        return map(_state_of, self._working.children(self._registryid, xid))

    def alike(self, xid: Xid) -> Xid | None:
        return self._working.child_like(self._registryid, xid)


def _state_of(row: Row) -> EntityState:
    return EntityState(row.kind, row.xid, read_canonical(row.body))
