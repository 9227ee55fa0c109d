"""Which entities of a registry a request's filters admit, and in which order they come."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from lakehouse.serve.answer.catalog import Catalog
from lakehouse.serve.answer.entities import ABSOLUTE, Group, Resource
from lakehouse.serve.answer.filters import ANY, Filter, Step, admitted, as_query, below, values_at
from lakehouse.serve.answer.flags import Flags
from lakehouse.serve.problems import RC4, ProblemFound
from lakehouse.serve.requests import MEMBERS, quoted
from lakehouse.text.names import Xid

Filters = list[Filter] | None  # None: everything is admitted


class Found(NamedTuple):
    """An entity that filters admit, what they ask of what it holds, and which of that is admitted (None: not asked yet)."""

    entity: Any
    filters: Filters
    members: list[Found] | None = None


class Selection:
    """What the filters of a request admit of a registry.

    Args:
        catalog: the registry at the snapshot.
        flags: of the request.
        base: URL of the registry, which clients see in the URLs of entities.

    Attributes:
        filters: of the request; none of them: nothing is admitted.
    """

    def __init__(self, catalog: Catalog, flags: Flags, base: str) -> None:
        self.catalog = catalog
        self.flags = flags
        self.base = base
        self.filters: Filters = [] if flags.excludes_all else flags.filters or None

    def own(self, entity: Any, subject: str) -> Filters:
        """Ask the entity of the request itself; give what is asked of what it holds.

        Raises:
            ProblemFound: the filters do not admit it.
        """
        is_admitted, left = self._ask(entity, self.filters)
        if not is_admitted:
            raise ProblemFound("not_found", subject)
        return left

    def own_of_registry(self, attributes: dict[str, Any]) -> Filters:
        """Ask the registry as `own` does, which has URLs and counts of its collections besides its attributes."""
        if self.filters is not None:
            for name in MEMBERS:
                attributes = attributes | counted("", name, len(self.catalog.ids_of_groups(name)))
        return self.own(attributes, "/")

    def groups(self, collection: str, filters: Filters) -> list[Found]:
        """Give the Groups of a type that filters admit, or of which members are admitted."""
        return self._found(
            () if filters == [] else self.catalog.groups(collection),
            filters,
            lambda group, left: self.resources(group, below(left, group.members)),
        )

    def resources(self, group: Group, filters: Filters) -> list[Found]:
        """Give the members of a Group that filters admit, or of which Versions are admitted."""
        return self._found(
            () if filters == [] else self.catalog.resources(group),
            filters,
            lambda resource, left: self.versions(resource, below(left, "versions")),
        )

    def versions(self, resource: Resource, filters: Filters) -> list[Found]:
        """Give the Versions of a Resource that filters admit."""
        if filters == []:
            return []
        return [Found(version, None) for version in resource.versions.values() if self._ask(version, filters)[0]]

    def _found(self, entities: Iterable[Any], filters: Filters, held: Callable[[Any, list[Filter]], list[Found]]) -> list[Found]:
        """Give the entities that filters admit, or of which something that they hold (`held`) is admitted."""
        found = []
        for entity in entities:
            self.catalog.deadline.tick()
            is_admitted, left = self._ask(entity, filters)
            members = None
            if is_admitted and left is not None:
                members = held(entity, left)
                is_admitted = bool(members)
            if is_admitted:
                found.append(Found(entity, left, members))
        return found

    def _ask(self, entity: Any, filters: Filters) -> tuple[bool, Filters]:
        """Ask an entity: is it admitted, and what is asked of what it holds (None: nothing more)."""
        if filters is None:
            return True, None
        asked: set[Step] = set()
        if isinstance(entity, Group):
            asked = {expression.steps[0] for one in filters for expression in one if not expression.path}
        left = admitted(attributes_of(entity, asked, self.catalog), filters, self._as_shown)
        if any(not one for one in left):
            return True, None
        return bool(left), left

    def _as_shown(self, value: Any) -> Any:
        return value.replace(ABSOLUTE, self.base) if isinstance(value, str) and value.startswith(ABSOLUTE) else value

    def url_of(self, url: str, filters: Filters, key: str, *, is_empty: bool) -> str:
        """Give the URL of a collection with what filters ask of it."""
        if filters is None and not is_empty:
            return url
        if is_empty:
            if filters is None and not self.flags.filters:
                return url
            asked = ["excludeall" if self.catalog.dialect == RC4 else f"{key}=null"]
        else:
            asked = as_query(filters or [])
        return url + "?" + "&".join("filter=" + quote(one, safe="=,.*:/") for one in asked)


def sorted_by(found: Sequence[Found], sort: tuple[str, bool], steps: tuple[Step, ...], catalog: Catalog) -> list[Found]:
    """Sort entities by an attribute, those without it first, then by id; all the other way round where `sort` says so."""

    def key(one: Found) -> tuple[Any, ...]:
        attributes = attributes_of(one.entity, steps[:1], catalog, one.members)
        values = [value for value in values_at(attributes, steps) if not isinstance(value, (dict, list))]
        return (_rank(values[0]) if values else (0, 0), id_of(one.entity))

    return sorted(found, key=key, reverse=sort[1])


def _rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, str):
        return 3, value.casefold()
    return 2, float(value)


def attributes_of(
    entity: Any, asked: Collection[Step], catalog: Catalog, admitted_members: Sequence[Found] | None = None
) -> dict[str, Any]:
    """Give the attributes of an entity for filters and sorting.

    Args:
        entity: a Group, a Resource, or the attributes of another entity.
        asked: the attributes that are looked at; only for them the members of a Group are counted.
        catalog: the registry.
        admitted_members: those of a Group that filters admit; None: all.
    """
    if isinstance(entity, Resource):
        return entity.shown
    attributes: dict[str, Any] = entity.attributes if isinstance(entity, Group) else entity
    if not isinstance(entity, Group) or {f"{entity.members}url", f"{entity.members}count", ANY}.isdisjoint(asked):
        return attributes
    count = len(catalog.entries(entity.xid) if admitted_members is None else admitted_members)
    return attributes | counted(entity.xid, entity.members, count)


def counted(holder: str, collection: str, count: int) -> dict[str, Any]:
    """Give URL and count of a collection, as attributes of what holds it."""
    return {f"{collection}url": f"{ABSOLUTE}{quoted(holder)}/{collection}", f"{collection}count": count}


def id_of(entity: Any) -> str:
    """Give the id of a Group, a Resource or the attributes of a Version."""
    if isinstance(entity, dict):
        return str(entity["versionid"])
    xid: Xid = entity.xid
    return xid.rsplit("/", 1)[1]
