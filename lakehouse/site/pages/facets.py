"""What narrows a search: kind, protocol, format, registry, owner and states of each entity, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple

from lakehouse.readmodel.queries import deprecated_in, formats_in, last_changes
from lakehouse.readmodel.wordsearch import Key
from lakehouse.site.overview import NO_PROTOCOL, Overview
from lakehouse.site.overview import Key as Place
from lakehouse.site.pagecontext import PageContext

FACETS = ("kind", "protocol", "format", "registry", "owner", "state")
DEPRECATED, HAS_FINDINGS, CHANGED = "deprecated", "has findings", "changed in the last 7 days"
STATES = (DEPRECATED, HAS_FINDINGS, CHANGED)
_RECENT = timedelta(days=7)
_MOST_VALUES = 12
Values = tuple[tuple[str, ...], ...]


class FacetCount(NamedTuple):
    """A value of a facet, how many hits have it, and whether it is chosen."""

    value: str
    hits: int
    is_chosen: bool


@dataclass
class Traits:
    """What each entity of a snapshot has for each of `FACETS`.

    Attributes:
        overview: of the snapshot.
        changes: the last snapshot that changed an entity or a Version of it.
        since: entities that a later snapshot changed have changed lately.
        formats: of schemas and payloads, without their versions.
        deprecated: entities that say so, of Versions the default one.
    """

    overview: Overview
    changes: Mapping[Place, int]
    since: int
    formats: Mapping[Place, Sequence[str]]
    deprecated: set[Place]
    _cached: dict[Key, Values] = field(default_factory=dict)

    def of(self, key: Key) -> Values:
        """Return the values of an entity, as many as there are for each facet."""
        result = self._cached.get(key)
        if result is None:
            result = self._cached[key] = self._values(key)
        return result

    def _values(self, key: Key) -> Values:
        registryid, kind, xid = key
        place = (registryid, xid)
        is_recent = self.changed(key) > self.since
        if kind == "document":
            return (kind,), (), (), (registryid,), (), (CHANGED,) if is_recent else ()
        family = self.overview.family(registryid, xid) if kind == "message" else NO_PROTOCOL
        states = (place in self.deprecated, place in self.overview.findings_by_xid, is_recent)
        return (
            (kind,),
            () if family == NO_PROTOCOL else (family,),
            tuple(self.formats.get(place, ())),
            (registryid,),
            tuple(filter(None, (self.overview.owner(registryid, xid),))),
            tuple(state for state, has in zip(STATES, states, strict=True) if has),
        )

    def changed(self, key: Key) -> int:
        """Return the number of the last snapshot that changed an entity."""
        registryid, kind, xid = key
        if kind == "document":
            return self.overview.documents.get((registryid, xid), (0, {}))[0]
        return self.changes.get((registryid, xid), 0)


def traits_of(page_context: PageContext) -> Traits:
    """Return what the entities of a snapshot are narrowed by, which is looked up once."""

    def made() -> Traits:
        upto = [snapshot for snapshot in page_context.overview.snapshots if snapshot.snapshot_id <= page_context.view.snapshot_id]
        before = [snapshot.snapshot_id for snapshot in upto if snapshot.committed_at <= upto[-1].committed_at - _RECENT]
        view = page_context.view
        return Traits(page_context.overview, last_changes(view), max(before, default=0), formats_in(view), deprecated_in(view))

    return page_context.remember(("traits",), made)


def narrowed(traits: Traits, chosen: Mapping[str, str], keys: Sequence[Key]) -> tuple[list[Key], dict[str, list[FacetCount]]]:
    """Return the entities that fit all chosen values, and the values of each facet, counted among what fits the others.

    Args:
        traits: of the entities.
        chosen: facet to value; empty: no matter which.
        keys: the entities, in their order.
    """
    wanted = [chosen.get(name, "") for name in FACETS]
    used = [at for at, value in enumerate(wanted) if value]
    left: list[Key] = []
    counts: list[Counter[str]] = [Counter() for _ in FACETS]
    for key in keys:
        values = traits.of(key)
        unlike = [at for at in used if wanted[at] not in values[at]]
        if not unlike:
            left.append(key)
        if len(unlike) < 2:  # of what fits all but one facet, that one counts it
            for at in unlike or range(len(FACETS)):
                counts[at].update(values[at])
    facets: dict[str, list[FacetCount]] = {}
    for name, value, counted in zip(FACETS, wanted, counts, strict=True):
        most = sorted(counted.items(), key=lambda counted_value: (-counted_value[1], counted_value[0]))[:_MOST_VALUES]
        if len(most) > 1 or value or (name == "state" and most):
            facets[name] = [FacetCount(choice, count, choice == value) for choice, count in most]
    return left, facets
