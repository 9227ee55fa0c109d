"""The normal form is written as documents of the CNCF Message and Event Catalog draft, by the table `cncf_catalog.csv`.

The draft knows groups, definitions and versions of one format each, and templates of texts; all else of a registry it cannot
say. What is left out is told.
"""

from __future__ import annotations

import re
from typing import Any

from lakehouse.dialects.draft.attributes import ID, formats
from lakehouse.dialects.draft.writeattributes import COMPUTED, Losses, format_of
from lakehouse.dialects.draft.writeversion import DraftVersion
from lakehouse.dialects.respell import Loss
from lakehouse.dialects.versionorder import natural_order
from lakehouse.text.jsontext import below, pointer_of
from lakehouse.text.names import WHOLE, Pointer

_RULE = "CAT-011"


def write_drafts(document: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Loss]]:
    """Write a registry in normal form as an array of groups of the draft."""
    losses: list[Loss] = []
    kept = {"messagegroups", "specversion", "registryid", "self", "shortself", "xid", "epoch", "createdat", "modifiedat"}
    own = [name for name in document if name not in kept and not name.endswith(("url", "count"))]
    losses.extend(Loss(pointer_of(name), _RULE, f"a catalog of the draft has no `{name}`") for name in own)
    groups = []
    for groupid, group in document.get("messagegroups", {}).items():
        written, lost = write_draft(group, groupid)
        groups.append(written)
        here = pointer_of("messagegroups", groupid)
        losses.extend(loss._replace(pointer=Pointer(here + loss.pointer)) for loss in lost)
    return groups, losses


def write_draft(group: dict[str, Any], groupid: str | None = None) -> tuple[dict[str, Any], list[Loss]]:
    """Write a message group in normal form as a group of the draft.

    Args:
        group: the group with its messages, each with `versions` and `meta`, or with the attributes of its only Version.
        groupid: its id; None when it stands in the group.

    Returns:
        The group of the draft, and what it cannot say: pointers into `group`.
    """
    writing = DraftGroup(
        {key: value for key, value in group.items() if key != "messages"}, groupid or str(group.get("messagegroupid", ""))
    )
    definitions = {}
    for messageid, message in (group.get("messages") or {}).items():
        found = writing.definition(messageid, message, pointer_of("messages", messageid))
        if found is not None:
            definitions[messageid] = found
    written = writing.attributes()
    writing.finish()
    return written | {"messagedefinitions": definitions}, writing.losses


class DraftGroup(Losses):
    """A message group on its way into the draft, message by message.

    Attributes:
        name: the format; None until the group or one of its messages tells it.
        losses: what could not be said, with pointers into the group, or where `definition` is told that the message stands.
    """

    def __init__(self, own: dict[str, Any], groupid: str) -> None:
        super().__init__([])
        self.own = own
        self.groupid = groupid
        self.name = format_of(own)
        self.protocols: set[str] = set()  # of the Versions that were written

    def attributes(self) -> dict[str, Any]:
        """Write the group without its definitions; after the first of these, which may tell the format."""
        written: dict[str, Any] = {"id": self.groupid}
        if not ID.fullmatch(self.groupid):
            self.lose(WHOLE, f"{self.groupid!r} is not an id of the draft", "CAT-021")
        if self.name is None:
            self.lose(WHOLE, "a group of the draft has one format, and none is known", "CAT-024")
        elif format_of(self.own) is None:
            told = f"a group of the draft has a format, and this one gets that of its first message: {self.name}"
            self.lose(pointer_of(formats()[self.name]["normal"]), told, "CAT-024")
        written["format"] = self.name or "CloudEvents"
        self.write_attributes("group", self.own, written, WHOLE, {"envelope", "protocol"})
        for key in ("envelope", "protocol"):
            if self.name and key in self.own and formats()[self.name]["normal"] != key:
                self.lose(pointer_of(key), f"a group of the format {self.name} has no `{key}`", "CAT-023")
        return written

    def definition(self, messageid: str, message: dict[str, Any], here: Pointer = WHOLE) -> dict[str, Any] | None:
        """Write a message as a definition; None when the draft cannot say it.

        Args:
            messageid: its id.
            message: with `versions` and `meta`, or with the attributes of its only Version.
            here: where losses are told to be.
        """
        if self.name is None:
            self.name = next((name for name in map(format_of, _versions(message).values()) if name), None)
        name = self.name
        meta = message.get("meta") or {}
        if not ID.fullmatch(messageid):
            self.lose(here, f"{messageid!r} is not an id of the draft", "CAT-061")
            return None
        if "xref" in meta or name is None:
            self.lose(
                here, "the draft has no message that is an alias of another" if "xref" in meta else "it has no format", "CAT-058"
            )
            return None
        for key in sorted(meta.keys() - COMPUTED - {"authority", "defaultversionid", "createdat", "modifiedat"}):
            self.lose(below(here, "meta", key), f"a definition of the draft has no `{key}`", "CAT-058")
        versions = self._numbered(messageid, message, name, here)
        if not versions:
            self.lose(here, "the draft can say none of its versions, so it is left out", "CAT-034")
            return None
        default = meta.get("defaultversionid")
        if default is not None and default != list(versions)[-1]:
            self.lose(below(here, "meta", "defaultversionid"), "the latest version of the draft is always the default", "CAT-043")
        written: dict[str, Any] = {"id": messageid, "format": name}
        if "authority" in meta:
            written["authority"] = meta["authority"]
        for key, old in (("createdat", "createdtimeutc"), ("modifiedat", "updatedtimeutc")):
            if key in meta:
                written[old] = meta[key]
        return written | {"versions": versions}

    def _numbered(self, messageid: str, message: dict[str, Any], name: str, here: Pointer) -> dict[str, Any]:
        """Write the Versions whose ids are numbers, in their order."""
        versions: dict[str, Any] = {}
        before: str | None = None
        members = _versions(message)
        for versionid in sorted(members, key=natural_order):
            at = below(here, "versions", versionid) if message.get("versions") else here
            if not re.fullmatch(r"[1-9][0-9]{0,17}", versionid):
                self.lose(at, f"{versionid!r} is not a number of a version", "CAT-077")
                continue
            writing = DraftVersion(name, self.losses)
            found = writing.write(messageid, members[versionid], at)
            self.protocols |= {writing.protocol} if writing.protocol else set()
            if found is None:
                continue
            if members[versionid].get("ancestor", before or versionid) != (before or versionid):
                self.lose(below(at, "ancestor"), "the ancestor of a version of the draft is the version before", "CAT-077")
            versions[versionid] = {"id": messageid, "version": int(versionid), "format": name} | found
            before = versionid
        return versions

    def finish(self) -> None:
        """Tell what a reader takes for the group's protocol, when it is another: that of all its definitions."""
        if self.name is None or formats()[self.name]["normal"] != "protocol" or "protocol" not in self.own:
            return
        told = next(iter(self.protocols), formats()[self.name]["type"]) if len(self.protocols) < 2 else None
        if told != self.own["protocol"]:
            self.lose(
                pointer_of("protocol"), f"a reader of the draft takes the definitions' for that of the group: {told}", "CAT-023"
            )


def _versions(message: dict[str, Any]) -> dict[str, Any]:
    """Give the Versions of a message; one without is its own."""
    return message.get("versions") or (
        {} if "xref" in (message.get("meta") or {}) else {str(message.get("versionid", "1")): message}
    )
