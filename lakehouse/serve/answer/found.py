"""Which entities of a registry a request's filters admit, and in which order they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote

from lakehouse.serve.answer.catalog import Catalog
from lakehouse.serve.answer.entities import Group, Resource
from lakehouse.serve.answer.filters import Filter, admitted, as_query, below, values_at
from lakehouse.serve.answer.flags import Flags
from lakehouse.serve.problems import RC4, ProblemFound
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

    Attributes:
        filters: of the request; none of them: nothing is admitted.
    """

    def __init__(self, catalog: Catalog, flags: Flags) -> None:
        self.catalog = catalog
        self.flags = flags
        self.filters: Filters = [] if flags.excludes_all else flags.filters or None

    def own(self, attributes: dict[str, Any], subject: str) -> Filters:
        """Ask the entity of the request itself; give what is asked of what it holds.

        Raises:
            ProblemFound: the filters do not admit it.
        """
        is_admitted, left = _ask(attributes, self.filters)
        if not is_admitted:
            raise ProblemFound("not_found", subject)
        return left

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
        return [Found(version, None) for version in resource.versions.values() if _ask(version, filters)[0]]

    def _found(self, entities: Iterable[Any], filters: Filters, held: Callable[[Any, list[Filter]], list[Found]]) -> list[Found]:
        """Give the entities that filters admit, or of which something that they hold (`held`) is admitted."""
        found = []
        for entity in entities:
            self.catalog.deadline.tick()
            is_admitted, left = _ask(_attributes(entity), filters)
            members = None
            if is_admitted and left is not None:
                members = held(entity, left)
                is_admitted = bool(members)
            if is_admitted:
                found.append(Found(entity, left, members))
        return found

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


def sorted_by(found: Sequence[Found], sort: tuple[str, bool], steps: tuple[Any, ...]) -> list[Found]:
    """Sort entities by an attribute, those without it first, then by id; all the other way round where `sort` says so."""

    def key(one: Found) -> tuple[Any, ...]:
        attributes = _attributes(one.entity)
        values = [value for value in values_at(attributes, steps) if not isinstance(value, (dict, list))]
        return (_rank(values[0]) if values else (0, 0), id_of(one.entity))

    return sorted(found, key=key, reverse=sort[1])


def _rank(value: Any) -> tuple[int, Any]:
    if isinstance(value, bool):
        return 1, value
    if isinstance(value, str):
        return 3, value.casefold()
    return 2, float(value)


def _ask(entity: dict[str, Any], filters: Filters) -> tuple[bool, Filters]:
    """Ask an entity: is it admitted, and what is asked of what it holds (None: nothing more)."""
    if filters is None:
        return True, None
    left = admitted(entity, filters)
    if any(not one for one in left):
        return True, None
    return bool(left), left


def _attributes(entity: Any) -> dict[str, Any]:
    if isinstance(entity, Resource):
        return entity.shown
    attributes: dict[str, Any] = entity.attributes if isinstance(entity, Group) else entity
    return attributes


def id_of(entity: Any) -> str:
    """Give the id of a Group, a Resource or the attributes of a Version."""
    if isinstance(entity, dict):
        return str(entity["versionid"])
    xid: Xid = entity.xid
    return xid.rsplit("/", 1)[1]
