"""The page of an endpoint: its role, how clients connect, and what each message that it carries is there."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from lakehouse.match.definition.scope import endpoint_row
from lakehouse.readmodel.flattened import endpoint_message_row
from lakehouse.readmodel.snapshotview import Entity
from lakehouse.render.protocolbinding import endpoint_of
from lakehouse.site.addresses import path_of
from lakehouse.site.overview import carried_xids, named_groups
from lakehouse.site.pagecontext import Page, PageContext
from lakehouse.site.pages.entities import facts_of
from lakehouse.site.pages.map import drawing_of
from lakehouse.site.pages.messageroute import Destination, address_of, places_of
from lakehouse.site.pages.past import MOST_ON_PAGE, history_of
from lakehouse.site.pages.sentview import sent_of
from lakehouse.site.templating import Attributes
from lakehouse.text.jsontext import indented
from lakehouse.text.names import Xid
from lakehouse.text.xid import xid_of_group

_ROLES = {
    "producer": "Producers send messages to it.",
    "consumer": "Consumers receive messages from it.",
    "subscriber": "Subscribers ask it to deliver messages to them.",
}
_MOST_SERVERS, _MOST_NAMED, _MOST_FINDINGS = 20, 60, 50


class CarriedMessage(NamedTuple):
    """A message that an endpoint carries.

    Attributes:
        xid: of the message.
        row: of the view `endpoint_messages`; None: its effective definition is not computed yet.
        name: of the message, or its description.
        ce_type: CloudEvents type; None: it declares none.
        place: where it goes; None: nothing says.
        is_deprecated: whether it is.
        is_refused: a newer form was not loaded.
    """

    xid: Xid
    row: dict[str, Any] | None
    name: str
    ce_type: str | None
    place: Destination | None
    is_deprecated: bool
    is_refused: bool


class Connection(NamedTuple):
    """How clients connect to an endpoint.

    Attributes:
        roles: what clients do there, in words.
        servers: addresses.
        security: names and values of `authorization`, one list for each way.
        address: topic, path, subject or node that it names; None: it names none.
        options: its other options, names and values.
    """

    roles: list[str]
    servers: list[str]
    security: list[list[tuple[str, str]]]
    address: str | None
    options: list[tuple[str, str]]


def endpoint_page(page_context: PageContext, endpoint: Entity, number: int) -> Page | None:
    """Make a page of an endpoint; None: it does not carry that many messages."""
    registryid, xid = endpoint.registryid, endpoint.xid
    xids = carried_xids(page_context.overview, endpoint)
    part = page_context.part(xids, path_of(registryid, xid), number, partial(carried_message, page_context, endpoint))
    if part is None:
        return None
    is_first = number == 1
    return page_context.page(
        "endpoint.html",
        part.at(number),
        entity=endpoint,
        attributes=Attributes(endpoint.attributes),
        other_facts=facts_of(endpoint.attributes, "usage", "channel", "messagegroups", "envelopeoptions", "protocoloptions"),
        connection=connection_of(endpoint),
        part=part,
        traffic=page_context.all_sent(),
        sent=sent_of(page_context, registryid, xids) if is_first else None,
        absent=[group_xid for group_xid in named_groups(endpoint) if (registryid, group_xid) not in page_context.overview.groups][
            :_MOST_NAMED
        ],
        ends=other_ends(page_context, endpoint)[:_MOST_NAMED] if is_first else [],
        drawn=drawing_of(page_context, endpoint) if is_first else None,
        refused=page_context.overview.refused.get((registryid, xid), [])[:_MOST_FINDINGS],
        findings=page_context.overview.findings_by_xid.get((registryid, xid), [])[:_MOST_FINDINGS],
        history=history_of(page_context, registryid, xid)[:MOST_ON_PAGE] if is_first else [],
    )


def connection_of(endpoint: Entity) -> Connection:
    """Return how clients connect to an endpoint."""
    row = endpoint_of(endpoint_row(endpoint))
    named = row.options.get("endpoints")
    uris = [address.get("uri") for address in named if isinstance(address, dict)] if isinstance(named, list) else []
    security = row.options.get("authorization")
    security_options = [option for option in (security if isinstance(security, list) else [security]) if isinstance(option, dict)]
    options = [(name, _text(value)) for name, value in sorted(row.options.items()) if name not in ("endpoints", "authorization")]
    return Connection(
        [_ROLES.get(role, role) for role in row.usage] or ["It does not say who uses it: producers or consumers."],
        [uri for uri in uris if isinstance(uri, str)][:_MOST_SERVERS],
        [[(name, _text(value)) for name, value in sorted(option.items())] for option in security_options],
        address_of(row),
        options,
    )


def other_ends(page_context: PageContext, endpoint: Entity) -> list[tuple[Entity, str]]:
    """List the endpoints at the other ends: of the same `channel`, or carrying one of its messages; with what both have."""
    registryid, channel = endpoint.registryid, endpoint.attributes.get("channel")
    results: dict[Xid, tuple[Entity, str]] = {}
    if isinstance(channel, str):
        for other in page_context.overview.groups_of(registryid, "endpoints"):
            if other.attributes.get("channel") == channel:
                results[other.xid] = (other, f"channel {channel}")
    for group in [endpoint.xid, *named_groups(endpoint)][:_MOST_NAMED]:
        for other in page_context.carriers(registryid, group):
            results.setdefault(other.xid, (other, group))
    results.pop(endpoint.xid, None)
    return list(results.values())


def carried_message(page_context: PageContext, endpoint: Entity, xid: Xid) -> CarriedMessage:
    """Return a message as an endpoint carries it."""
    overview, registryid = page_context.overview, endpoint.registryid
    entity, definition = page_context.entity(registryid, xid), page_context.definition(registryid, xid)
    is_deprecated = entity is not None and entity.attributes.get("deprecated") is not None
    is_refused = overview.is_refused(registryid, xid)
    if definition is None:
        return CarriedMessage(xid, None, "", None, None, is_deprecated, is_refused)
    parent = overview.groups.get((registryid, xid_of_group(xid)))
    row = endpoint_message_row(endpoint, definition, parent if parent is not None and parent.kind == "group" else None)
    place = next(iter(places_of(definition, [endpoint])), None)
    name = definition["description"] or definition["name"] or ""
    return CarriedMessage(xid, row, name, definition["ce_type"], place, is_deprecated, is_refused)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else indented(value)
