"""What the views add to a message: its chain of bases, where each attribute comes from, the endpoints that carry it.

Computed for the few messages that are asked for, as `ddl/views/message_chains.sql`, `flat_attributes.sql` and
`endpoint_messages.sql` do it for all; a test holds both equal. The merged definition itself is not computed here.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import orjson

from lakehouse.dialects.tables import FAMILIES, family_of, shared_options, table
from lakehouse.domain.bases import base_of
from lakehouse.domain.flatattributes import flat_attributes_of_body
from lakehouse.domain.protocols import is_as_precise, is_other_protocol
from lakehouse.readmodel.snapshotview import Entity, EntityReferences, View
from lakehouse.rules.entity.constraints import constraints
from lakehouse.text.jsontext import as_column_text, unquoted
from lakehouse.text.names import JsonText, Pointer, RegistryId, Xid

Record = dict[str, Any]
_TYPES = {'"': "string", "{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null"}


class Step(NamedTuple):
    """A definition of a chain: the Version, the base that it names."""

    version_xid: Xid
    basemessage: str | None
    body: JsonText


def steps_of(view: View, definition: Record, max_depth: int = 128) -> list[Step]:
    """Return the definitions that a message is merged from, nearest first: its own, those of its bases that were found.

    Args:
        view: the snapshot.
        definition: of the message, as from `View.definition`.
        max_depth: how many bases are followed; a cycle is followed once around.
    """
    registryid, xid = definition["registryid"], definition["version_xid"]
    results: list[Step] = []
    while xid is not None and all(xid != step.version_xid for step in results[1:]):
        came_back = bool(results) and xid == results[0].version_xid
        row = view.entity(registryid, xid)
        if row is None or (len(results) > max_depth and definition["chain_status"] != "cycle"):
            break
        results.append(Step(xid, orjson.loads(row.body).get("basemessage"), row.body))
        if came_back:
            break
        xid = base_of(results[-1].basemessage, partial(_attributes, view, registryid))
    return results


def chain_of(view: View, definition: Record, max_depth: int = 128, steps: list[Step] | None = None) -> list[Record]:
    """Return a message's rows of the view `message_chains`, by depth; steps: of `steps_of`, where they are at hand."""
    steps, status = steps_of(view, definition, max_depth) if steps is None else steps, definition["chain_status"]
    key = {name: definition[name] for name in ("registryid", "xid", "version_xid")}
    if not steps:
        return [key | {"depth": 0, "basemessage": None, "base_xid": None, "base_version_xid": None, "status": status}]
    rows = []
    for position, step in enumerate(steps):
        base, is_last = step.basemessage, position + 1 == len(steps)
        is_again = any(step.version_xid == earlier.version_xid for earlier in steps[:position])
        if position and (base is None or is_again):
            continue
        leads_to = None if is_last else steps[position + 1].version_xid
        rows.append(
            key
            | {
                "depth": 0 if base is None else position + 1,
                "basemessage": base,
                "base_xid": base if base is not None and base.startswith("/") else None,
                "base_version_xid": leads_to,
                "status": status if base is None or status == "cycle" or leads_to is None else "resolved",
            }
        )
    return rows


def attributes_of(view: View, definition: Record, max_depth: int = 128, steps: list[Step] | None = None) -> list[Record]:
    """Return a message's rows of `flat_attributes`, by pointer; steps: of `steps_of`, where they are at hand."""
    steps = steps_of(view, definition, max_depth) if steps is None else steps
    declared = [(step.version_xid, {pointer for pointer, _ in flat_attributes_of_body(step.body)}) for step in steps]
    key = {name: definition[name] for name in ("registryid", "xid")}
    rows = []
    for pointer, value in definition["attributes"].items():
        depth = next((at for at, (_, pointers) in enumerate(declared) if pointer in pointers), None)
        if depth is None:
            # The definitions are of another snapshot than the entities: where this one came from is not there any more.
            rows.append(key | _flat_attribute(pointer, value, "inherited", None, None))
        else:
            rows.append(key | _flat_attribute(pointer, value, "inherited" if depth else "declared", declared[depth][0], depth))
    rows += [key | _flat_attribute(pointer, value, "inferred", None, None) for pointer, value in definition["inferred"].items()]
    return sorted(rows, key=lambda row: (row["pointer"], row["origin"]))


def endpoints_of(view: View, definition: Record, carriers: list[Entity] | None = None) -> list[Record]:
    """Return a message's rows of `endpoint_messages`, by endpoint and way; carriers: of `endpoints_carrying`, where known."""
    registryid, group_xid = definition["registryid"], definition["group_xid"]
    own = view.entity(registryid, group_xid)
    group = own if own is not None and own.kind == "group" else None
    endpoints = endpoints_carrying(view, registryid, group_xid) if carriers is None else carriers
    rows = [endpoint_message_row(endpoint, definition, group) for endpoint in endpoints]
    return sorted(rows, key=lambda row: (row["endpoint_xid"], row["via_xid"]))


def endpoints_carrying(view: EntityReferences, registryid: RegistryId, group_xid: Xid) -> list[Entity]:
    """Return the endpoints that carry the messages of a group: those that name it, and the one that it is."""
    own = view.entity(registryid, group_xid)
    carriers = [own] if own is not None and own.kind == "endpoint" else []
    naming = (reference for reference in view.referring_to(registryid, group_xid) if reference.relation == "messagegroups")
    for source in dict.fromkeys(reference.source_xid for reference in naming if reference.target == group_xid):
        endpoint = view.entity(registryid, source)
        if endpoint is not None and endpoint not in carriers:
            carriers.append(endpoint)
    return carriers


def messages_of(view: View, endpoint: Entity) -> list[Record]:
    """Return an endpoint's rows of the view `endpoint_messages`, by way and message."""
    rows = []
    named = endpoint.attributes.get("messagegroups") or []
    for via in dict.fromkeys([endpoint.xid, *named]):
        parent = view.entity(endpoint.registryid, via)
        group = parent if parent is not None and parent.kind == "group" else None
        rows += [
            endpoint_message_row(endpoint, definition, group)
            for definition in view.definitions(endpoint.registryid, group_xid=via)
        ]
    return sorted(rows, key=lambda row: (row["via_xid"], row["message_xid"]))


def endpoint_message_row(endpoint: Entity, definition: Record, group: Entity | None) -> Record:
    """Return the row of the view `endpoint_messages` for a message that an endpoint carries.

    Args:
        endpoint: the endpoint.
        definition: of the message.
        group: the group that holds the message; None: the endpoint itself does.
    """
    attributes, group_attributes = endpoint.attributes, {} if group is None else group.attributes
    says = (
        ("message", definition["protocol"]),
        ("group", group_attributes.get("protocol")),
        ("endpoint", attributes.get("protocol")),
    )
    source, protocol = next(((name, text) for name, text in says if text is not None), (None, None))
    envelope = next(
        (e for e in (definition["envelope"], group_attributes.get("envelope"), attributes.get("envelope")) if e is not None), None
    )
    options = attributes.get("envelopeoptions") or {}
    mode = as_column_text(options.get("mode"))
    family, own_family = family_of(protocol), family_of(attributes.get("protocol"))
    return {
        "registryid": endpoint.registryid,
        "endpoint_xid": endpoint.xid,
        "message_xid": definition["xid"],
        "via_xid": definition["group_xid"],
        "messageid": definition["messageid"],
        "usage": None if attributes.get("usage") is None else list(dict.fromkeys(attributes["usage"])),
        "channel": attributes.get("channel"),
        "envelope": envelope,
        "mode": (mode or "both") if (envelope or "").upper().startswith("CLOUDEVENTS") else mode,
        "format": as_column_text(options.get("format")),
        "protocol": protocol,
        "protocol_family": family,
        "protocol_source": source,
        "options": _options(attributes, own_family, family, definition["attributes"]),
        "matches": not is_other_protocol(protocol, attributes.get("protocol"))
        and is_as_precise(envelope, attributes.get("envelope")),
        "chain_status": definition["chain_status"],
    }


def _attributes(view: View, registryid: RegistryId, xid: Xid) -> Record | None:
    row = view.entity(registryid, xid)
    return None if row is None else row.attributes


def _flat_attribute(pointer: Pointer, value: JsonText, origin: str, declared_by: str | None, depth: int | None) -> Record:
    value_type = _TYPES.get(value[:1], "number")
    row = {"pointer": pointer, "value": value, "value_type": value_type}
    return row | {"origin": origin, "declared_by": declared_by, "depth": depth}


def _options(
    attributes: Record, own_family: str | None, family: str | None, flat_attributes: dict[Pointer, JsonText]
) -> dict[str, str]:
    """Return the protocol's options as text: after defaults, without those for other roles; what the message declares wins."""
    options = attributes.get("protocoloptions")
    usage = attributes.get("usage")
    defaults = (_defaults().get(own_family, {}) if own_family else {}) | ({} if options is None else _defaults()[""])
    merged = {name: text for name, text in defaults.items() if options is None or name not in options}
    merged |= {name: as_column_text(value) for name, value in (options or {}).items()}
    useless = {"endpoints", "authorization"}
    for role in ("producer", "consumer"):
        if usage is not None and role not in usage:
            useless |= _options_of(role).get(own_family or "", frozenset())
    declared: dict[str, str] = {}
    for option in shared_options(family if own_family in (None, family) else None):
        if option.instead in flat_attributes:
            useless.add(option.name)
        if option.pointer in flat_attributes:
            declared[option.name] = unquoted(flat_attributes[option.pointer])
    return {name: text for name, text in merged.items() if name not in useless} | declared


@cache
def _defaults() -> dict[str, dict[str, str]]:
    """Return the defaults of an endpoint's options as text, by protocol family; those of every protocol have none."""
    results: dict[str, dict[str, str]] = {}
    for row in table("option_defaults"):
        results.setdefault(row["protocol_family"], {})[row["option"]] = str(as_column_text(orjson.loads(row["default"])))
    return results


@cache
def _options_of(role: str) -> dict[str, frozenset[str]]:
    """Return the options that an endpoint without a role has no use for, by protocol family."""
    rows = [row for row in constraints() if (row.test, row.argument) == ("role", role)]
    return {family: frozenset(row.name for row in rows if row.family == family) for family in FAMILIES}
