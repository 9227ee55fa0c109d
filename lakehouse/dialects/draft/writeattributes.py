"""What groups, definitions and versions of the draft have alike is written: attributes; and what is lost on the way is told."""

from __future__ import annotations

from typing import Any

from lakehouse.dialects.draft.attributes import URI, formats, rows
from lakehouse.dialects.respell import Loss
from lakehouse.dialects.tables import family_of
from lakehouse.text.jsontext import below, same
from lakehouse.text.names import Pointer

COMPUTED = {"self", "shortself", "xid", "messagegroupid", "messageid", "versionid", "messagesurl", "messagescount", "metaurl"}
COMPUTED |= {
    "versionsurl",
    "versionscount",
    "defaultversionurl",
    "epoch",
    "isdefault",
    "meta",
    "versions",
    "messages",
    "version_uri",
}
_OWN = {row["path"] for level in ("group", "definition", "version") for row in rows(level)}
_KNOWN = {"name", "deprecated", "basemessage", "envelope", "envelopeoptions", "protocol", "datacontenttype", "dataschemaxid"}


class Losses:
    """Writes attributes, and tells what the draft cannot say.

    Attributes:
        losses: what could not be said, with pointers into the group, or where it is told that a message stands.
    """

    def __init__(self, losses: list[Loss]) -> None:
        self.losses = losses

    def lose(self, pointer: Pointer, message: str, rule: str) -> None:
        """Tell a loss."""
        self.losses.append(Loss(pointer, rule, message))

    def write_attributes(self, level: str, normal: dict[str, Any], written: dict[str, Any], at: Pointer, said: set[str]) -> None:
        """Write the attributes that the draft has, and those that nobody knows; the others are lost."""
        by_normal = {row["normal"]: row["path"] for row in rows(level) if row["normal"]}
        extra = normal.get("extensions") if isinstance(normal.get("extensions"), dict) else {}
        for key, value in (normal | (extra or {})).items():
            where = below(at, *(["extensions", key] if key in (extra or {}) else [key]))
            if key in COMPUTED or key in said or key == "extensions":
                continue
            if key == "labels":
                self._labels(value, written, where)
            elif key == "documentationtext":
                written["documentation"] = value
            elif key == "documentation" and not (isinstance(value, str) and URI.fullmatch(value)):
                self.lose(where, "in the draft a link is a URI", "CAT-029")
            elif key == "modifiedat" and level == "definition":
                if not same(value, normal.get("createdat", value)) or "createdat" not in normal:
                    self.lose(where, "a version of the draft never changes", "CAT-080")
            elif key in by_normal:
                written[by_normal[key]] = value
            elif key in _KNOWN or key in _OWN:
                self.lose(where, f"the draft has no `{key}`", "CAT-057")
            else:
                written[key] = value

    def _labels(self, labels: dict[str, str], written: dict[str, Any], at: Pointer) -> None:
        tags = []
        if not labels:
            self.lose(at, "the draft has no empty set of tags", "CAT-031")
        for key, value in labels.items():
            if value or not key or "," in key or key != key.strip():
                self.lose(below(at, key), "a tag of the draft is a word without a value", "CAT-031")
            else:
                tags.append(key)
        if tags:
            written["tags"] = ",".join(tags)


def format_of(normal: dict[str, Any]) -> str | None:
    """Tell the format of the draft that a group or Version has: its envelope, else its protocol."""
    for name, row in formats().items():
        value = normal.get(row["normal"])
        if value == row["type"] or (row["normal"] == "protocol" and value is not None and family_of(value) == name):
            return name
    return None
