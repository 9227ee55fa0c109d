"""XIDs and ids: their syntax, and the spellings of references that become XIDs (requirements MSG-143, MSG-153, WIP-029)."""

from __future__ import annotations

import re
from urllib.parse import unquote

from lakehouse.text.names import Xid

ID = re.compile(r"\A[A-Za-z0-9_][A-Za-z0-9_.\-~:@]{0,127}\Z")
_ID_RULE = "1 to 128 letters, digits and _ . - ~ : @, the first a letter, a digit or _"
XID = re.compile(r"\A(?:/[^/#?\s]+)+\Z")

# Collections of the older dialects, as they are in references.
_COLLECTIONS = {"definitionGroups": "messagegroups", "definitions": "messages", "schemaGroups": "schemagroups"}


def id_problem(text: str) -> str | None:
    """Return the reason why a text is not an id, else None."""
    return None if ID.match(text) else f"{text!r} is not an id: an id has {_ID_RULE}"


def as_xid(reference: str) -> Xid | None:
    """Turn a reference within a registry into an XID.

    Args:
        reference: an XID, or a JSON Pointer in URI fragment form (`#/messagegroups/g/messages/m`).

    Returns:
        The XID, with percent-escapes and `~1`, `~0` of a pointer resolved and old collection names replaced; None when the
        reference leads elsewhere (another host) or is not a reference at all.
    """
    text = reference.strip()
    if text.startswith("#/"):
        tokens = [unquote(token).replace("~1", "/").replace("~0", "~") for token in text[2:].split("/")]
    elif text.startswith("/"):
        tokens = text[1:].split("/")
    else:
        return None
    if any("/" in token for token in tokens):
        return None
    tokens[::2] = [_COLLECTIONS.get(token, token) for token in tokens[::2]]
    xid = "/" + "/".join(tokens)
    return Xid(xid) if XID.match(xid) else None


def xid_of(*tokens: str) -> Xid:
    """Join collection names and ids to an XID; without any it is the registry's."""
    return Xid("/" + "/".join(tokens))


def xid_of_version(xid: Xid, versionid: str | None) -> Xid:
    """Return the XID of a Version of a message or schema; for None one that no Version has."""
    return Xid(f"{xid}/versions/{versionid}")


def xid_of_resource(xid: Xid) -> Xid:
    """Return the XID of the message or schema that a Version belongs to; another XID is returned as it is."""
    return Xid("/".join(xid.split("/")[:5]))


def parent_xid(xid: Xid) -> Xid:
    """Return the XID of what holds an entity; of a group and of the registry itself `/`."""
    return xid_of(*xid[1:].split("/")[:-2])


def last_id(xid: str) -> str:
    """Return the id of an entity: the last one in its XID."""
    return xid.rpartition("/")[2]


def split_version(xid: str) -> tuple[Xid, str | None]:
    """Split the XID of a Version into that of its message or schema and the Version's id; another XID is given as it is."""
    parts = xid.split("/")
    if len(parts) == 7 and not parts[0] and parts[5] == "versions":
        return Xid("/".join(parts[:5])), parts[6]
    return Xid(xid), None


def is_message(xid: Xid) -> bool:
    """Return whether an XID is that of a message, or of a Version of one."""
    return xid.split("/")[3:4] == ["messages"]


def xid_of_group(xid: Xid) -> Xid:
    """Return the XID of the group of an entity; that of a group is returned as it is."""
    return Xid("/".join(xid.split("/")[:3]))
