"""The normal form is written as documents of the CNCF Message and Event Catalog draft, by the table `cncf_catalog.csv`.

The draft knows groups, definitions and versions of one format each, and templates of texts; all else of a registry it cannot
say. What is left out is told.
"""

from __future__ import annotations

import re
from typing import Any

from lakehouse.dialects.draft.attributes import EXPRESSION, ID, URI, formats, rows, schema_format, sections_of
from lakehouse.dialects.respell import Loss
from lakehouse.dialects.tables import family_of
from lakehouse.dialects.versionorder import natural_order
from lakehouse.text.jsontext import pointer_of, same

_RULE = "CAT-011"
_COMPUTED = {"self", "shortself", "xid", "messagegroupid", "messageid", "versionid", "messagesurl", "messagescount", "metaurl"}
_COMPUTED |= {
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
_FIRST_SECTION = {"CloudEvents": "attributes", "AMQP": "applicationdata", "MQTT": "payload", "NATS": "payload"}


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
        losses.extend(loss._replace(pointer=here + loss.pointer) for loss in lost)
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


class DraftGroup:
    """A message group on its way into the draft, message by message.

    Attributes:
        name: the format; None until the group or one of its messages tells it.
        losses: what could not be said, with pointers into the group, or where `definition` is told that the message stands.
    """

    def __init__(self, own: dict[str, Any], groupid: str) -> None:
        self.own = own
        self.groupid = groupid
        self.name = _format_of(own)
        self.losses: list[Loss] = []
        self.protocols: set[str] = set()  # of the Versions that were written

    def attributes(self) -> dict[str, Any]:
        """Write the group without its definitions; after the first of these, which may tell the format."""
        written: dict[str, Any] = {"id": self.groupid}
        if not ID.fullmatch(self.groupid):
            self._lose("", f"{self.groupid!r} is not an id of the draft", "CAT-021")
        if self.name is None:
            self._lose("", "a group of the draft has one format, and nothing tells it", "CAT-024")
        elif _format_of(self.own) is None:
            told = f"a group of the draft has a format, and this one gets that of its first message: {self.name}"
            self._lose(pointer_of(formats()[self.name]["normal"]), told, "CAT-024")
        written["format"] = self.name or "CloudEvents"
        self._attributes("group", self.own, written, "", {"envelope", "protocol"})
        for key in ("envelope", "protocol"):
            if self.name and key in self.own and formats()[self.name]["normal"] != key:
                self._lose(pointer_of(key), f"a group of the format {self.name} has no `{key}`", "CAT-023")
        return written

    def definition(self, messageid: str, message: dict[str, Any], here: str = "") -> dict[str, Any] | None:
        """Write a message as a definition; None when the draft cannot say it.

        Args:
            messageid: its id.
            message: with `versions` and `meta`, or with the attributes of its only Version.
            here: where losses are told to be.
        """
        if self.name is None:
            self.name = next((name for name in map(_format_of, _versions(message).values()) if name), None)
        name = self.name
        meta = message.get("meta") or {}
        if not ID.fullmatch(messageid):
            self._lose(here, f"{messageid!r} is not an id of the draft", "CAT-061")
            return None
        if "xref" in meta or name is None:
            self._lose(
                here, "the draft has no message that stands for another" if "xref" in meta else "it has no format", "CAT-058"
            )
            return None
        for key in sorted(meta.keys() - _COMPUTED - {"authority", "defaultversionid", "createdat", "modifiedat"}):
            self._lose(here + pointer_of("meta", key), f"a definition of the draft has no `{key}`", "CAT-058")
        versions = self._numbered(messageid, message, name, here)
        if not versions:
            self._lose(here, "the draft can say none of its versions, so it is left out", "CAT-034")
            return None
        default = meta.get("defaultversionid")
        if default is not None and default != list(versions)[-1]:
            self._lose(here + "/meta/defaultversionid", "the latest version of the draft is always the default", "CAT-043")
        written: dict[str, Any] = {"id": messageid, "format": name}
        if "authority" in meta:
            written["authority"] = meta["authority"]
        for key, old in (("createdat", "createdtimeutc"), ("modifiedat", "updatedtimeutc")):
            if key in meta:
                written[old] = meta[key]
        return written | {"versions": versions}

    def _numbered(self, messageid: str, message: dict[str, Any], name: str, here: str) -> dict[str, Any]:
        """Write the Versions whose ids are numbers, in their order."""
        versions: dict[str, Any] = {}
        before: str | None = None
        members = _versions(message)
        for versionid in sorted(members, key=natural_order):
            at = here + (pointer_of("versions", versionid) if message.get("versions") else "")
            if not re.fullmatch(r"[1-9][0-9]{0,17}", versionid):
                self._lose(at, f"{versionid!r} is not a number of a version", "CAT-077")
                continue
            found = self._version(messageid, members[versionid], name, at)
            if found is None:
                continue
            if members[versionid].get("ancestor", before or versionid) != (before or versionid):
                self._lose(at + "/ancestor", "the ancestor of a version of the draft is the version before", "CAT-077")
            versions[versionid] = {"id": messageid, "version": int(versionid), "format": name} | found
            before = versionid
        return versions

    def finish(self) -> None:
        """Tell what a reader takes for the group's protocol, when it is another: that of all its definitions."""
        if self.name is None or formats()[self.name]["normal"] != "protocol" or "protocol" not in self.own:
            return
        told = next(iter(self.protocols), formats()[self.name]["type"]) if len(self.protocols) < 2 else None
        if told != self.own["protocol"]:
            self._lose("/protocol", f"a reader of the draft takes the definitions' for that of the group: {told}", "CAT-023")

    def _version(self, messageid: str, version: dict[str, Any], name: str, at: str) -> dict[str, Any] | None:
        if _format_of(version) != name:
            self._lose(at, f"its format is not that of the group ({name})", "CAT-069")
            return None
        if name == "CloudEvents":
            declared = version.get("envelopemetadata", {}).get("type", {})
            if declared.get("value") != messageid:
                self._lose(at, "the `id` of an event of the draft is the declared `type`", "CAT-103")
                return None
        found: dict[str, Any] = {}
        said = {
            "envelopemetadata",
            "protocoloptions",
            "dataschema",
            "dataschemauri",
            "dataschemaformat",
            "ancestor",
            "amqpencoding",
        }
        own = {formats()[name]["normal"]}
        if own == {"protocol"}:
            self._protocol(version, name, at)
        self._attributes("definition", version, found, at, said | own)
        sections: dict[str, Any] = {}
        self._dataschema(version, name, sections, at)
        for place in ("envelopemetadata", "protocoloptions"):
            if place in version:
                self._place(version[place], place, (name, version.get("protocol")), sections, at)
        self._singles(version, name, sections)
        return found | {"definition": sections}

    def _attributes(self, level: str, normal: dict[str, Any], written: dict[str, Any], at: str, said: set[str]) -> None:
        """Write the attributes that the draft has, and those that nobody knows; the others are lost."""
        by_normal = {row["normal"]: row["path"] for row in rows(level) if row["normal"]}
        extra = normal.get("extensions") if isinstance(normal.get("extensions"), dict) else {}
        for key, value in (normal | (extra or {})).items():
            where = at + pointer_of(*(["extensions", key] if key in (extra or {}) else [key]))
            if key in _COMPUTED or key in said or key == "extensions":
                continue
            if key == "labels":
                self._labels(value, written, where)
            elif key == "documentationtext":
                written["documentation"] = value
            elif key == "documentation" and not (isinstance(value, str) and URI.fullmatch(value)):
                self._lose(where, "the draft tells a link by its being a URI", "CAT-029")
            elif key == "modifiedat" and level == "definition":
                if not same(value, normal.get("createdat", value)) or "createdat" not in normal:
                    self._lose(where, "a version of the draft never changes", "CAT-080")
            elif key in by_normal:
                written[by_normal[key]] = value
            elif key in _KNOWN or key in _OWN:
                self._lose(where, f"the draft has no `{key}`", "CAT-057")
            else:
                written[key] = value

    def _labels(self, labels: dict[str, str], written: dict[str, Any], at: str) -> None:
        tags = []
        if not labels:
            self._lose(at, "the draft has no empty set of tags", "CAT-031")
        for key, value in labels.items():
            if value or not key or "," in key or key != key.strip():
                self._lose(at + pointer_of(key), "a tag of the draft is a word without a value", "CAT-031")
            else:
                tags.append(key)
        if tags:
            written["tags"] = ",".join(tags)

    def _dataschema(self, version: dict[str, Any], name: str, sections: dict[str, Any], at: str) -> None:
        kinds = {row["format"]: row for row in rows("schematype")}
        schema = {new: version[old] for new, old in (("value", "dataschemauri"), ("schema", "dataschema")) if old in version}
        told = version.get("dataschemaformat")
        if told is not None:
            fits = [kind for kind in kinds if schema_format(kinds, kind, schema.get("schema")) == told]
            schema["schematype"] = fits[0] if fits else told
        elif schema:
            self._lose(at + "/dataschemaformat", "without `schematype` a reader of the draft may guess one", "CAT-091")
        if schema:
            sections.setdefault(_FIRST_SECTION[name], {})["dataschema"] = schema

    def _place(
        self, members: dict[str, Any], place: str, kind: tuple[str, str | None], sections: dict[str, Any], at: str
    ) -> None:
        """Write declarations into the sections of a format; `kind` is the format, and the protocol with its version."""
        name, protocol = kind
        rows_of_place = [row for row in sections_of(name) if row["normal"].startswith(place + "/")]
        named = {row["normal"]: row for row in rows_of_place if row["only"] in ("", protocol)}
        if not named or not members:
            self._lose(at + pointer_of(place), f"a definition of the format {name} has no `{place}`", "CAT-027")
            return
        for key, value in members.items():
            here = at + pointer_of(place, key)
            inner = named.get(f"{place}/{key}/*") or any(path.startswith(f"{place}/{key}/") for path in named)
            if key == "user_properties" and f"{place}/{key}/*" in named:
                self._user_properties(value, named[f"{place}/{key}/*"], sections, here)
            elif inner and not value:
                self._lose(here, "the draft does not tell an empty section from none", "CAT-081")
            elif inner and isinstance(value, dict):
                for member, declaration in value.items():
                    row = named.get(f"{place}/{key}/{member}") or named.get(f"{place}/{key}/*")
                    self._declaration(row, member, declaration, sections, here + pointer_of(member))
            else:
                self._declaration(named.get(f"{place}/{key}") or named.get(f"{place}/*"), key, value, sections, here)

    def _user_properties(self, items: Any, row: dict[str, str], sections: dict[str, Any], at: str) -> None:
        names = [item.get("name") if isinstance(item, dict) else None for item in items] if isinstance(items, list) else [None]
        if not names or None in names or len(set(names)) < len(names):
            self._lose(at, "names of the draft stand once, and no list is empty", "CAT-148")
            return
        for index, item in enumerate(items):
            rest = {key: value for key, value in item.items() if key != "name"}
            self._declaration(row, item["name"], rest, sections, f"{at}/{index}")

    def _declaration(self, row: dict[str, str] | None, member: str, declaration: Any, sections: dict[str, Any], at: str) -> None:
        if row is None or not isinstance(declaration, dict) or (row["names"] and not re.fullmatch(row["names"], member)):
            self._lose(at, "the draft has no such member", row["rule"] if row else "CAT-027")
            return
        section, path = row["path"].split("/")
        said = dict(declaration)
        value = said.get("value")
        kind = row["type"].split(" ")[0]
        if kind == "dataschema":
            for key in {"value", "schematype", "schema"} & said.keys():
                self._lose(at + pointer_of(key), "the draft says the schema of the message here", "CAT-089")
                del said[key]
            if said:
                holder = sections.setdefault(section, {}).setdefault("dataschema", {})
                holder.update(said)
            return
        text_only = kind == "template"
        if "value" in said and not self._fits(row, kind, value):
            self._lose(at + "/value", "the draft cannot say this value", "CAT-082")
            del said["value"]
            value = None
        is_template = isinstance(value, str) and EXPRESSION.search(value) is not None
        if is_template and said.get("type") != "uritemplate":
            self._lose(at + "/type", "a text with placeholders is a uritemplate in the draft", "CAT-082")
        if said.pop("type", "uritemplate") != "uritemplate" or (declaration.get("type") == "uritemplate" and not is_template):
            self._lose(at + "/type", "a value of the draft has no `type`", "CAT-082")
        if text_only:
            if isinstance(value, int) and not isinstance(value, bool):
                said["value"] = str(value)
            said.setdefault("value", "")
        bare = not text_only and said.keys() == {"value"}
        sections.setdefault(section, {})[member if path == "*" else path] = said["value"] if bare else said

    def _fits(self, row: dict[str, str], kind: str, value: Any) -> bool:
        """Tell whether a reader of the draft takes a value for what it is."""
        if kind == "runtime":
            return value is not None
        if kind == "boolean":
            return isinstance(value, bool)
        argument = row["type"].partition(" ")[2]
        if kind == "integer" or argument == "integer":
            fits = isinstance(value, int) and not isinstance(value, bool) and value >= (0 if kind == "template" else -(2**63))
            return fits and (not argument or argument == "integer" or re.fullmatch(argument, str(value)) is not None)
        if not isinstance(value, str) or not value:
            return False
        rest = EXPRESSION.sub("", value)
        if "{" in rest or "}" in rest or any("-" in found for found in EXPRESSION.findall(value)):
            return False
        return EXPRESSION.search(value) is not None or (not argument and kind != "binary")

    def _protocol(self, version: dict[str, Any], name: str, at: str) -> None:
        """Tell a protocol that a format of the draft does not stand for."""
        said = formats()[name]["type"]
        for row in sections_of(name):  # only MQTT has versions
            number = str(version["protocol"]).partition("/")[2]
            if row["normal"] == "protocol" and re.fullmatch(row["type"].removeprefix("one of "), number):
                said = f"{name}/{number}"
        self.protocols.add(said)
        if said != version["protocol"]:
            self._lose(at + "/protocol", f"a definition of the format {name} is one of {said}", "CAT-023")

    def _singles(self, version: dict[str, Any], name: str, sections: dict[str, Any]) -> None:
        """Write what stands at the message in the normal form, and in a section in the draft."""
        for row in sections_of(name):
            section, member = row["path"].split("/")
            if row["normal"] == "protocol":
                number = str(version["protocol"]).partition("/")[2]
                if number != row["default"] and re.fullmatch(row["type"].removeprefix("one of "), number):
                    sections.setdefault(section, {})[member] = number
            elif "/" not in row["normal"] and row["normal"] in version:
                sections.setdefault(section, {})[member] = version[row["normal"]]

    def _lose(self, pointer: str, message: str, rule: str) -> None:
        self.losses.append(Loss(pointer, rule, message))


_KNOWN = {"name", "deprecated", "basemessage", "envelope", "envelopeoptions", "protocol", "datacontenttype", "dataschemaxid"}


def _format_of(normal: dict[str, Any]) -> str | None:
    """Tell the format of the draft that a group or Version has: its envelope, else its protocol."""
    for name, row in formats().items():
        value = normal.get(row["normal"])
        if value == row["type"] or (row["normal"] == "protocol" and value is not None and family_of(value) == name):
            return name
    return None


def _versions(message: dict[str, Any]) -> dict[str, Any]:
    """Give the Versions of a message; one without is its own."""
    return message.get("versions") or (
        {} if "xref" in (message.get("meta") or {}) else {str(message.get("versionid", "1")): message}
    )
