"""Which protocol family a message is read under: its own, its group's, its base's, or that of its option names (decision 15)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lakehouse.dialects.detection import COLLECTIONS
from lakehouse.dialects.tables import FAMILIES, family_of, family_of_options
from lakehouse.text.names import Xid
from lakehouse.text.xid import as_xid, split_version, xid_of

OLD_NAMES = {"messagegroups": ("definitionGroups",), "messages": ("definitions",)}
FAMILY_MEMBERS = ("protocol", "format", "basemessage", "basemessageuri", "basemessageurl")
_LEADS = ("xref", "basemessage", "basemessageuri", "basemessageurl")
_MAX_BASES = 20
FindMessage = Callable[[Xid], dict[str, Any] | None]


def own_family(written: dict[str, Any]) -> str | None:
    """Return the family that a message names itself."""
    own = family_of(written.get("protocol"))
    return family_of(written.get("format")) if own is None and family_of(written.get("format")) in FAMILIES else own


def key_of_options(written: dict[str, Any]) -> str:
    """Return the name under which a message has its options."""
    return "protocoloptions" if "protocoloptions" in written else "protocolmetadata"


def family_of_message(written: dict[str, Any], group_protocol: Any, find_message: FindMessage) -> str | None:
    """Find the protocol family of a message; None: nothing names it, or there is nothing to read under it.

    Args:
        written: the message as written, or the members that name its protocol.
        group_protocol: protocol of its group.
        find_message: returns the members of a message that name its protocol, by XID; None when there is no such message.
    """
    own, options = own_family(written), written.get(key_of_options(written))
    if own or not options:
        return own
    return family_of(group_protocol) or _base_family(written, find_message, 0) or family_of_options(options)


def protocol_members(document: dict[str, Any]) -> dict[Xid, dict[str, Any]]:
    """Return for each message of a document, by XID, the members that name its protocol; of one that occurs twice the first."""
    members: dict[Xid, dict[str, Any]] = {}
    for key, collection in COLLECTIONS.items():
        for groupid, group in _members(document, (key,)):
            for messageid, message in _members(group, ("messages", *OLD_NAMES["messages"])):
                if isinstance(message, dict):
                    members.setdefault(xid_of(collection, groupid, "messages", messageid), _naming_members(message))
    return members


class Messages:
    """The members that name the protocol of each message of a document, read at the first look-up.

    Args:
    returns the document, or all parts of it, in their order.
    """

    def __init__(self, parts: Callable[[], Iterable[Any]]) -> None:
        self._parts = parts
        self._members: dict[Xid, dict[str, Any]] | None = None

    def find(self, xid: Xid) -> dict[str, Any] | None:
        """Return the members of a message that name its protocol; None when there is no such message."""
        if self._members is None:
            self._members = {}
            for part in self._parts():
                for name, members in protocol_members(part).items():
                    self._members.setdefault(name, members)
        return self._members.get(xid)


def _naming_members(message: dict[str, Any]) -> dict[str, Any]:
    """Return what names the protocol of a message: its members, those of its Versions, and the message that it is an alias of."""
    naming = {name: message[name] for name in FAMILY_MEMBERS if name in message}
    meta, versions = message.get("meta"), message.get("versions")
    alias = meta.get("xref") if isinstance(meta, dict) else message.get("xref")
    if isinstance(alias, str):
        naming["xref"] = alias
    if isinstance(versions, dict):
        members = [version for version in versions.values() if isinstance(version, dict)]
        naming["versions"] = [{name: member[name] for name in FAMILY_MEMBERS if name in member} for member in members]
    return naming


def _members(parent: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    for name in names if isinstance(parent, dict) else ():
        if isinstance(parent.get(name), dict):
            yield from parent[name].items()


def _base_family(written: dict[str, Any], find: FindMessage, depth: int) -> str | None:
    """Follow base references inside this document to a message that names a protocol."""
    reference = next((written[key] for key in _LEADS if isinstance(written.get(key), str)), None)
    xid = as_xid(reference) if reference else None
    if xid is None or depth == _MAX_BASES:
        return None
    base = find(split_version(xid)[0])
    if base is None:
        return None
    candidates = [base, *base.get("versions", ())] if "xref" not in base else []  # decision 20
    families = {family for candidate in candidates if (family := own_family(candidate))}
    if families:
        return families.pop() if len(families) == 1 else None
    further = next((candidate for candidate in candidates if any(isinstance(candidate.get(key), str) for key in _LEADS)), base)
    return _base_family(further, find, depth + 1)
