"""From whom to whom a message goes, and where: the head of its page."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import orjson

from lakehouse.dialects.tables import PROTOCOLS, family_of, shared_options
from lakehouse.domain.relations import declared_instead
from lakehouse.match.definition.scope import endpoint_row
from lakehouse.readmodel.queries import is_endpoint_of
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.render.protocolbinding import Endpoint, endpoint_of
from lakehouse.site.pagecontext import PageContext
from lakehouse.text.jsontext import as_column_text, decoded
from lakehouse.text.names import Pointer, Xid
from lakehouse.text.xid import xid_of_group

_MOST_VARIANTS = 12  # whose addresses are read


class Stop(NamedTuple):
    """An endpoint on the way of a message; `variants`: it carries not the message, but these, which extend it."""

    xid: Xid
    variants: list[Xid]


class Destination(NamedTuple):
    """Where a message goes.

    Attributes:
        family: of the protocol.
        option: what its address is called there, such as `topic`.
        address: in effect.
        endpoints: XIDs of the endpoints that carry it there; none: the message names the address, and no endpoint carries it.
        contradicted: what these endpoints say instead, which the message overrides (MATCH-004); empty: nothing.
        variants: messages that extend the one of the page and go there; none: it goes there itself.
    """

    family: str
    option: str
    address: str
    endpoints: list[Xid]
    contradicted: str
    variants: tuple[Xid, ...] = ()


class Route(NamedTuple):
    """The way of a message: endpoints that producers send to, those that consumers receive from, and its places.

    The places of a message without any are those of `variants`: messages that extend it, and that endpoints carry.
    """

    senders: list[Stop]
    receivers: list[Stop]
    places: list[Destination]
    variants: list[Xid]


def route_of(
    page_context: PageContext, definition: dict[str, Any], rows: Iterable[dict[str, Any]], through: Iterable[dict[str, Any]]
) -> Route:
    """Return the way of a message.

    Args:
        page_context: of the snapshot.
        definition: of the message.
        rows: of the view `endpoint_messages`, of the endpoints that carry it.
        through: endpoints that carry messages that extend it: endpoint_xid, variants.
    """
    registryid = definition["registryid"]
    stops = [Stop(row["endpoint_xid"], []) for row in rows]
    carrying = {stop.xid for stop in stops}
    stops += [Stop(row["endpoint_xid"], row["variants"]) for row in through if row["endpoint_xid"] not in carrying]
    endpoints = {stop.xid: page_context.overview.groups.get((registryid, stop.xid)) for stop in stops}
    senders, receivers = (
        [stop for stop in stops if (endpoint := endpoints[stop.xid]) is not None and is_endpoint_of(endpoint, side)]
        for side in ("producers", "consumers")
    )
    places = places_of(definition, [carrying_endpoint for xid in carrying if (carrying_endpoint := endpoints[xid]) is not None])
    variants = list(dict.fromkeys(variant for stop in stops for variant in stop.variants))
    of_variants: dict[tuple[str, str], Destination] = {}
    for of_variant in page_context.view.definitions(registryid, xids=variants[:_MOST_VARIANTS]) if not places else ():
        carriers = (endpoints[stop.xid] for stop in stops if of_variant["xid"] in stop.variants)
        for place in places_of(of_variant, [carrier for carrier in carriers if carrier is not None]):
            place_before = of_variants.get((place.family, place.address), place)
            of_variants[place.family, place.address] = place_before._replace(variants=(*place_before.variants, of_variant["xid"]))
    return Route(senders, receivers, places or list(of_variants.values()), variants)


def declared_route(
    page_context: PageContext, entity: Entity, declared: dict[str, str], through: Iterable[dict[str, Any]]
) -> Route:
    """Return the way of a message that has no effective definition; its places are unknown unless it declares an address.

    Args:
        page_context: of the snapshot.
        entity: the message.
        declared: what it declares, by pointer.
        through: as of `route_of`.
    """
    family = family_of(declared.get("/protocol"))
    address = declared.get(f"/protocoloptions/{PROTOCOLS[family].address}") if family in PROTOCOLS else None
    definition = {"registryid": entity.registryid, "address": address, "protocol_family": family}
    rows = [{"endpoint_xid": carrier.xid} for carrier in page_context.carriers(entity.registryid, xid_of_group(entity.xid))]
    route = route_of(page_context, definition, rows, through)
    return route if address else route._replace(places=[])


def places_of(definition: dict[str, Any], endpoints: Iterable[Entity]) -> list[Destination]:
    """Return where a message goes over each of some endpoints, each address once; over none, where it says itself."""
    declared_address, own = definition["address"], definition["protocol_family"]
    results: dict[tuple[str, str, str], Destination] = {}
    for endpoint in sorted(endpoints, key=lambda endpoint: endpoint.xid):
        row = endpoint_of(endpoint_row(endpoint))
        family, address = own or row.family, declared_address or address_of(row, own)
        if address:
            contradicted = _contradicted(row, family, declared_address) if declared_address else ""
            place = results.setdefault(
                (family, address, contradicted), Destination(family, _option(family), address, [], contradicted)
            )
            place.endpoints.append(endpoint.xid)
    if not results and declared_address:
        return [Destination(own or "", _option(own or ""), declared_address, [], "")]
    return list(results.values())


def address_of(endpoint: Endpoint, family: str | None = None) -> str | None:
    """Return where an endpoint sends what names no address itself; None: it does not say.

    Args:
        endpoint: the endpoint.
        family: of the protocol of a message; an endpoint of another one has no address for it.
    """
    protocol = PROTOCOLS.get(endpoint.family)
    if protocol is None or family not in (None, endpoint.family):
        return None
    text = endpoint.flat_attributes().get(_pointer(endpoint.family))
    if text is not None:
        return as_column_text(orjson.loads(text))
    return endpoint.node if protocol.path else None


def _option(family: str) -> str:
    protocol = PROTOCOLS.get(family)
    return protocol.address.rpartition("/")[2] if protocol is not None else ""


def _pointer(family: str) -> Pointer:
    return Pointer(f"/protocoloptions/{PROTOCOLS[family].address}/value")


def _contradicted(endpoint: Endpoint, family: str, declared_address: str) -> str:
    """Return the address of an endpoint that a message contradicts by its own; empty: it contradicts none."""
    if endpoint.family != family or all(option.pointer != _pointer(family) for option in shared_options(family)):
        return ""
    text = endpoint.flat_attributes().get(_pointer(family))
    own_address = "" if text is None else as_column_text(orjson.loads(text)) or ""
    value = decoded(orjson.dumps(declared_address))
    return own_address if own_address and declared_instead(_pointer(family), own_address, {"value": value}) is not None else ""
