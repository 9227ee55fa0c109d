"""Entities by their bodies alone: what is compared of each is computed, with the chain of bases and what is inferred."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any

from lakehouse.domain.bases import Chain, chain_of, merged, shown_version
from lakehouse.domain.diff import (
    Difference,
    FlatAttributes,
    Key,
    differences_of,
    flat_attributes_of_entity,
    flat_attributes_of_message,
    in_order,
    with_other_schema,
)
from lakehouse.domain.effective import columns_of, xid_parts
from lakehouse.domain.flatattributes import flat_attributes_of_body
from lakehouse.domain.inferred import inferred_attributes
from lakehouse.text.jsontext import read_canonical
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import xid_of_resource

FindBody = Callable[[RegistryId, Xid], JsonText | None]
_MOST_CACHED = 10_000  # bodies that were read, since many messages have one base


class EntityBodies:
    """The entities of a state.

    Args:
        find: gives the body of an entity; None: it is not there.
        max_depth: how many bases of a message are followed.
    """

    def __init__(self, find: FindBody, max_depth: int) -> None:
        self._find = find
        self._max_depth = max_depth
        self._attributes = lru_cache(_MOST_CACHED)(self._read)

    def bodies_of(self, key: Key) -> list[JsonText] | None:
        """Return the bodies that an entity's flat attributes follow from: its own, of a message those that are merged too."""
        registryid, kind, xid = key
        own = self._find(registryid, xid)
        if own is None or kind != "message":
            return None if own is None else [own]
        return [
            own,
            *(body for version in self._merged_from(registryid, xid) if (body := self._find(registryid, version)) is not None),
        ]

    def flat_attributes_of(self, key: Key) -> FlatAttributes | None:
        """Return the flat attributes by which an entity is compared; None: it is not there."""
        return _flat_attributes_of(key[1], self.bodies_of(key))

    def effective(self, registryid: RegistryId, message: Xid) -> dict[str, Any]:
        """Return the row of `effective_messages` of a message that is there, but for its documents and snapshot."""
        find = partial(self._attributes, registryid)
        chain, xref = self._chain(registryid, message), (find(message) or {}).get("xref")
        bodies = self.bodies_of((registryid, "message", message)) or []
        bases = [base for version in chain.versions if (base := (find(version) or {}).get("basemessage")) is not None]
        sought = [*chain.versions, *(base for base in bases if base.startswith("/"))] if bases else []
        depends_on = [message, *([] if xref is None else [xref]), *map(xid_of_resource, sought)]
        return {
            "registryid": registryid,
            "xid": message,
            **xid_parts(message),
            "version_xid": next(iter(chain.versions), None),
            "chain_status": chain.status,
            "chain_depth": max(0, len(bodies) - 2),
            "depends_on": list(dict.fromkeys(depends_on)),
            **columns_of(merged(dict(flat_attributes_of_body(body)) for body in bodies[1:])),
        }

    def _merged_from(self, registryid: RegistryId, message: Xid) -> tuple[Xid, ...]:
        """Return the Versions that a message is merged from, nearest first."""
        chain = self._chain(registryid, message)
        return chain.versions[:1] if chain.status == "cycle" else chain.versions

    def _chain(self, registryid: RegistryId, message: Xid) -> Chain:
        """Return the chain of the Version that a message shows; an empty one that is dangling: there is none."""
        find = partial(self._attributes, registryid)
        version = shown_version(message, find)
        return Chain((), "dangling") if version is None or find(version) is None else chain_of(version, find, self._max_depth)

    def _read(self, registryid: RegistryId, xid: Xid) -> dict[str, Any] | None:
        body = self._find(registryid, xid)
        result: dict[str, Any] | None = None if body is None else read_canonical(body)
        return result


def compare_bodies(before: EntityBodies, after: EntityBodies, keys: Iterable[Key]) -> list[Difference]:
    """Compare entities of two states: the gravest differences first. Flat attributes are computed only where bodies differ."""
    results: list[Difference] = []
    for key in keys:
        own_before, own_after = before.bodies_of(key), after.bodies_of(key)
        if own_before != own_after:
            differing = differences_of(key, _flat_attributes_of(key[1], own_before), _flat_attributes_of(key[1], own_after))
            results += (with_other_schema(each, before.flat_attributes_of, after.flat_attributes_of) for each in differing)
    return in_order(results)


def _flat_attributes_of(kind: str, bodies: list[JsonText] | None) -> FlatAttributes | None:
    if bodies is None:
        return None
    if kind != "message":
        return flat_attributes_of_entity(kind, bodies[0])
    attributes = merged(dict(flat_attributes_of_body(body)) for body in bodies[1:])
    return flat_attributes_of_message(inferred_attributes(attributes), attributes, read_canonical(bodies[0]).get("deprecated"))
