"""What a load of an exported document would not find again stands in its `x-xregistry`: found by loading it."""

from __future__ import annotations

from typing import Any

from lakehouse.asyncapi.headerschemas import COMPUTED, HINT
from lakehouse.asyncapi.inward import convert
from lakehouse.asyncapi.messagewriting import MessageWriter
from lakehouse.dialects.entityreader import read_entity
from lakehouse.dialects.tables import family_of
from lakehouse.text.jsontext import same
from lakehouse.text.names import WHOLE


def add_attributes(
    document: dict[str, Any], registry: dict[str, Any], messages: MessageWriter, groups: dict[str, list[str]]
) -> None:
    """Write the attributes that differ when a document is loaded as it is.

    Args:
        document: of AsyncAPI; messages, operations and channels get `attributes` in their `x-xregistry`.
        registry: what the document is of.
        messages: those that were written.
        groups: of channels, by their keys.
    """
    made = convert(document).document
    for xid, component in messages.keys().items():
        collection, group, _, name = xid[1:].split("/")
        wanted, found = registry[collection][group], made[collection].get(group, {})
        family = family_of(wanted.get("protocol"))
        message = found.get("messages", {}).get(name)
        if message is not None and "basemessage" not in message:
            hint = document["components"]["messages"][component][HINT]
            _tell(hint, "message", wanted["messages"][name], message, family)
    for operation in document["operations"].values():
        name = operation[HINT]["endpointid"]
        _tell(operation[HINT], "endpoint", registry["endpoints"][name], made["endpoints"][name], None)
    for channel in document["channels"].values():
        name = channel[HINT].get("group")
        if name is not None:
            found = made["messagegroups"].get(name, {})
            _tell(channel[HINT], "messagegroup", registry["messagegroups"].get(name, {}), found, None)


def _tell(
    hint: dict[str, Any],
    entity: str,
    wanted: dict[str, Any],
    found: dict[str, Any],
    family: str | None,
    but: tuple[str, ...] = (),
) -> None:
    """Note the attributes of an entity that are read otherwise; null: it has none, and one would be read."""
    told, read = _attributes(entity, wanted, family), _attributes(entity, found, family)
    names = sorted({*told, *read})
    differing = {name: told.get(name) for name in names if not (name in told and name in read and same(told[name], read[name]))}
    if differing:
        hint["attributes"] = differing


def _attributes(entity: str, value: dict[str, Any], family: str | None) -> dict[str, Any]:
    """Give the attributes of an entity in normal form."""
    own = {name: one for name, one in value.items() if name not in COMPUTED or (entity, name) == ("endpoint", "messagegroups")}
    found = read_entity(entity, own, WHOLE, family)
    return found.known | found.extensions
