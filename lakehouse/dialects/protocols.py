"""Which protocol a message is read under: its own, its group's, its base's, or that of its option names (decision 15)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lakehouse.dialects.detection import COLLECTIONS
from lakehouse.dialects.tables import FAMILIES, family_of, family_of_options
from lakehouse.text.names import Xid
from lakehouse.text.xid import as_xid, split_version, xid_of

OLD_NAMES = {"messagegroups": ("definitionGroups",), "messages": ("definitions",)}
TELLS_FAMILY = ("protocol", "format", "basemessage", "basemessageuri", "basemessageurl")
_LEADS = ("xref", "basemessage", "basemessageuri", "basemessageurl")
_MAX_BASES = 20
FindMessage = Callable[[Xid], dict[str, Any] | None]


def own_family(written: dict[str, Any]) -> str | None:
    """Give the family that a message names itself."""
    own = family_of(written.get("protocol"))
    return family_of(written.get("format")) if own is None and family_of(written.get("format")) in FAMILIES else own


def key_of_options(written: dict[str, Any]) -> str:
    """Tell how the options of a message are called."""
    return "protocoloptions" if "protocoloptions" in written else "protocolmetadata"


def family_of_message(written: dict[str, Any], group_protocol: Any, find_message: FindMessage) -> str | None:
    """Find the protocol family of a message; None: nothing tells it, or there is nothing to read under it.

    Args:
        written: the message as written, or what tells its protocol.
        group_protocol: protocol of its group.
        find_message: gives the members of a message that tell its protocol, by XID; None when there is no such message.
    """
    own, options = own_family(written), written.get(key_of_options(written))
    if own or not options:
        return own
    return family_of(group_protocol) or _base_family(written, find_message, 0) or family_of_options(options)


def tell_protocols(document: dict[str, Any]) -> dict[Xid, dict[str, Any]]:
    """Give for each message of a document, by XID, the members that tell its protocol; of one that stands twice the first."""
    told: dict[Xid, dict[str, Any]] = {}
    for key, collection in COLLECTIONS.items():
        for groupid, group in _members(document, (key,)):
            for messageid, message in _members(group, ("messages", *OLD_NAMES["messages"])):
                if isinstance(message, dict):
                    told.setdefault(xid_of(collection, groupid, "messages", messageid), _what_tells(message))
    return told


class Messages:
    """What tells the protocol of each message of a document; looked at when it is asked for first.

    Args:
        parts: gives the document, or all parts of it, in their order.
    """

    def __init__(self, parts: Callable[[], Iterable[Any]]) -> None:
        self._parts = parts
        self._known: dict[Xid, dict[str, Any]] | None = None

    def find(self, xid: Xid) -> dict[str, Any] | None:
        """Give the members of a message that tell its protocol; None when there is no such message."""
        if self._known is None:
            self._known = {}
            for part in self._parts():
                for name, told in tell_protocols(part).items():
                    self._known.setdefault(name, told)
        return self._known.get(xid)


def _what_tells(message: dict[str, Any]) -> dict[str, Any]:
    """Keep of a message what tells its protocol: its own members, those of its Versions, the message that it stands for."""
    told = {name: message[name] for name in TELLS_FAMILY if name in message}
    meta, versions = message.get("meta"), message.get("versions")
    alias = meta.get("xref") if isinstance(meta, dict) else message.get("xref")
    if isinstance(alias, str):
        told["xref"] = alias
    if isinstance(versions, dict):
        members = [one for one in versions.values() if isinstance(one, dict)]
        told["versions"] = [{name: one[name] for name in TELLS_FAMILY if name in one} for one in members]
    return told


def _members(holder: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name in names if isinstance(holder, dict) else ():
        if isinstance(holder.get(name), dict):
            yield from holder[name].items()


def _base_family(written: dict[str, Any], find: FindMessage, depth: int) -> str | None:
    """Follow base references inside this document to a message that names a protocol."""
    reference = next((written[key] for key in _LEADS if isinstance(written.get(key), str)), None)
    xid = as_xid(reference) if reference else None
    if xid is None or depth == _MAX_BASES:
        return None
    base = find(split_version(xid)[0])
    if base is None:
        return None
    told = [base, *base.get("versions", ())] if "xref" not in base else []  # decision 20
    families = {family for one in told if (family := own_family(one))}
    if families:
        return families.pop() if len(families) == 1 else None
    further = next((one for one in told if any(isinstance(one.get(key), str) for key in _LEADS)), base)
    return _base_family(further, find, depth + 1)
