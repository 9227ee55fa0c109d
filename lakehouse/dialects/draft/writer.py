"""The normal form written as documents of the CNCF Message and Event Catalog draft, by the table `cncf_catalog.csv`.

The draft knows groups, definitions and versions of one format each, and templates of texts; all else of a registry it cannot
express. What is left out is reported as a `Loss`.
"""

from __future__ import annotations

import re
from typing import Any

from lakehouse.dialects.draft.conversions import EXPRESSION, ID, URI, formats, is_draft_value, rows, schema_format, sections_of
from lakehouse.dialects.tables import Loss, family_of
from lakehouse.dialects.versionorder import natural_order
from lakehouse.text.jsontext import below, pointer_of, same
from lakehouse.text.names import ROOT, Pointer

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
_NOT_IN_DRAFT = {
    "name",
    "deprecated",
    "basemessage",
    "envelope",
    "envelopeoptions",
    "protocol",
    "datacontenttype",
    "dataschemaxid",
}


class AttributeWriter:
    """Writes attributes, and collects what the draft cannot express.

    Attributes:
        losses: what could not be expressed, with pointers into the group, or below the pointer that is given for a message.
    """

    def __init__(self, losses: list[Loss]) -> None:
        self.losses = losses

    def lose(self, pointer: Pointer, message: str, rule: str) -> None:
        """Add a loss."""
        self.losses.append(Loss(pointer, rule, message))

    def write_attributes(
        self, level: str, normal: dict[str, Any], written: dict[str, Any], pointer: Pointer, declared: set[str]
    ) -> None:
        """Write the attributes that the draft has, and those that nobody knows; the others are lost."""
        by_normal = {row["normal"]: row["path"] for row in rows(level) if row["normal"]}
        extra = normal.get("extensions") if isinstance(normal.get("extensions"), dict) else {}
        for key, value in (normal | (extra or {})).items():
            where = below(pointer, *(["extensions", key] if key in (extra or {}) else [key]))
            if key in COMPUTED or key in declared or key == "extensions":
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
            elif key in _NOT_IN_DRAFT or key in _OWN:
                self.lose(where, f"the draft has no `{key}`", "CAT-057")
            else:
                written[key] = value

    def _labels(self, labels: dict[str, str], written: dict[str, Any], pointer: Pointer) -> None:
        tags = []
        if not labels:
            self.lose(pointer, "the draft has no empty set of tags", "CAT-031")
        for key, value in labels.items():
            if value or not key or "," in key or key != key.strip():
                self.lose(below(pointer, key), "a tag of the draft is a word without a value", "CAT-031")
            else:
                tags.append(key)
        if tags:
            written["tags"] = ",".join(tags)


def is_number_of_version(versionid: str) -> bool:
    """Return whether the draft can say the id of a Version: its versions are counted (CAT-077)."""
    return re.fullmatch(r"[1-9][0-9]{0,17}", versionid) is not None


def format_of(normal: dict[str, Any]) -> str | None:
    """Return the format of the draft that a group or Version has: its envelope, else its protocol."""
    for name, row in formats().items():
        value = normal.get(row["normal"])
        if value == row["type"] or (row["normal"] == "protocol" and value is not None and family_of(value) == name):
            return name
    return None


_FIRST_SECTION = {"CloudEvents": "attributes", "AMQP": "applicationdata", "MQTT": "payload", "NATS": "payload"}


class DraftVersion(AttributeWriter):
    """One Version on its way into the draft.

    Args:
        name: the format of the group.
        losses: what cannot be expressed is added.

    Attributes:
        protocol: that a reader takes for the Version's; None for a format that is no protocol.
    """

    def __init__(self, name: str, losses: list[Loss]) -> None:
        super().__init__(losses)
        self.name = name
        self.protocol: str | None = None
        self.sections: dict[str, Any] = {}

    def write(self, messageid: str, version: dict[str, Any], pointer: Pointer) -> dict[str, Any] | None:
        """Write a Version; None when the draft cannot express it.

        Args:
            messageid: of its message.
            version: in normal form.
            pointer: pointer of losses.
        """
        name = self.name
        if format_of(version) != name:
            self.lose(pointer, f"its format is not that of the group ({name})", "CAT-069")
            return None
        if name == "CloudEvents":
            declared = version.get("envelopemetadata", {}).get("type", {})
            if declared.get("value") != messageid:
                self.lose(pointer, "the `id` of an event of the draft is the declared `type`", "CAT-103")
                return None
        result: dict[str, Any] = {}
        written = {
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
            self._protocol(version, pointer)
        self.write_attributes("definition", version, result, pointer, written | own)
        self._dataschema(version, pointer)
        for place in ("envelopemetadata", "protocoloptions"):
            if place in version:
                self._place(version[place], place, version.get("protocol"), pointer)
        self._singles(version)
        return result | {"definition": self.sections}

    def _dataschema(self, version: dict[str, Any], pointer: Pointer) -> None:
        kinds = {row["format"]: row for row in rows("schematype")}
        schema = {new: version[old] for new, old in (("value", "dataschemauri"), ("schema", "dataschema")) if old in version}
        declared = version.get("dataschemaformat")
        if declared is not None:
            fits = [kind for kind in kinds if schema_format(kinds, kind, schema.get("schema")) == declared]
            schema["schematype"] = fits[0] if fits else declared
        elif schema:
            self.lose(below(pointer, "dataschemaformat"), "without `schematype` a reader of the draft may guess one", "CAT-091")
        if schema:
            self.sections.setdefault(_FIRST_SECTION[self.name], {})["dataschema"] = schema

    def _place(self, members: dict[str, Any], place: str, protocol: str | None, pointer: Pointer) -> None:
        """Write declarations into the sections of the format; of some there are others in another version of the protocol."""
        name = self.name
        rows_of_place = [row for row in sections_of(name) if row["normal"].startswith(place + "/")]
        named = {row["normal"]: row for row in rows_of_place if row["only"] in ("", protocol)}
        if not named or not members:
            self.lose(below(pointer, place), f"a definition of the format {name} has no `{place}`", "CAT-027")
            return
        for key, value in members.items():
            inner_pointer = below(pointer, place, key)
            inner = named.get(f"{place}/{key}/*") or any(path.startswith(f"{place}/{key}/") for path in named)
            if key == "user_properties" and f"{place}/{key}/*" in named:
                self._user_properties(value, named[f"{place}/{key}/*"], inner_pointer)
            elif inner and not value:
                self.lose(inner_pointer, "the draft does not distinguish an empty section from none", "CAT-081")
            elif inner and isinstance(value, dict):
                for member, declaration in value.items():
                    row = named.get(f"{place}/{key}/{member}") or named.get(f"{place}/{key}/*")
                    self._declaration(row, member, declaration, below(inner_pointer, member))
            else:
                self._declaration(named.get(f"{place}/{key}") or named.get(f"{place}/*"), key, value, inner_pointer)

    def _user_properties(self, items: Any, row: dict[str, str], pointer: Pointer) -> None:
        names = [item.get("name") if isinstance(item, dict) else None for item in items] if isinstance(items, list) else [None]
        if not names or None in names or len(set(names)) < len(names):
            self.lose(pointer, "names of the draft occur once, and no list is empty", "CAT-148")
            return
        for index, item in enumerate(items):
            rest = {key: value for key, value in item.items() if key != "name"}
            self._declaration(row, item["name"], rest, below(pointer, str(index)))

    def _declaration(self, row: dict[str, str] | None, member: str, declaration: Any, pointer: Pointer) -> None:
        if row is None or not isinstance(declaration, dict) or (row["names"] and not re.fullmatch(row["names"], member)):
            self.lose(pointer, "the draft has no such member", row["rule"] if row else "CAT-027")
            return
        section, path = row["path"].split("/")
        declared = dict(declaration)
        value = declared.get("value")
        kind = row["type"].split(" ")[0]
        if kind == "dataschema":
            for key in {"value", "schematype", "schema"} & declared.keys():
                self.lose(below(pointer, key), "the draft says the schema of the message here", "CAT-089")
                del declared[key]
            if declared:
                parent = self.sections.setdefault(section, {}).setdefault("dataschema", {})
                parent.update(declared)
            return
        text_only = kind == "template"
        if "value" in declared and not self._fits(row, kind, value):
            self.lose(below(pointer, "value"), "the draft cannot express this value", "CAT-082")
            del declared["value"]
            value = None
        is_template = isinstance(value, str) and EXPRESSION.search(value) is not None
        if is_template and declared.get("type") != "uritemplate":
            self.lose(below(pointer, "type"), "a text with placeholders is a uritemplate in the draft", "CAT-082")
        if declared.pop("type", "uritemplate") != "uritemplate" or (declaration.get("type") == "uritemplate" and not is_template):
            self.lose(below(pointer, "type"), "a value of the draft has no `type`", "CAT-082")
        if text_only:
            if isinstance(value, int) and not isinstance(value, bool):
                declared["value"] = str(value)
            declared.setdefault("value", "")
        bare = not text_only and declared.keys() == {"value"}
        self.sections.setdefault(section, {})[member if path == "*" else path] = declared["value"] if bare else declared

    def _fits(self, row: dict[str, str], kind: str, value: Any) -> bool:
        """Return whether a reader of the draft reads a value as what it is."""
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
        if "{" in rest or "}" in rest or any("-" in item for item in EXPRESSION.findall(value)):
            return False
        needed = "binary" if kind == "binary" else argument
        return EXPRESSION.search(value) is not None or not needed or is_draft_value(needed, value)

    def _protocol(self, version: dict[str, Any], pointer: Pointer) -> None:
        """Report a protocol that the format of the draft does not mean."""
        name = self.name
        declared = formats()[name]["type"]
        for row in sections_of(name):  # only MQTT has versions
            number = str(version["protocol"]).partition("/")[2]
            if row["normal"] == "protocol" and re.fullmatch(row["type"].removeprefix("one of "), number):
                declared = f"{name}/{number}"
        self.protocol = declared
        if declared != version["protocol"]:
            self.lose(below(pointer, "protocol"), f"a definition of the format {name} is one of {declared}", "CAT-023")

    def _singles(self, version: dict[str, Any]) -> None:
        """Write attributes that the message has in the normal form, and a section in the draft."""
        for row in sections_of(self.name):
            section, member = row["path"].split("/")
            if row["normal"] == "protocol":
                number = str(version["protocol"]).partition("/")[2]
                if number != row["default"] and re.fullmatch(row["type"].removeprefix("one of "), number):
                    self.sections.setdefault(section, {})[member] = number
            elif "/" not in row["normal"] and row["normal"] in version:
                self.sections.setdefault(section, {})[member] = version[row["normal"]]


_RULE = "CAT-011"


def write_drafts(document: dict[str, Any]) -> tuple[list[dict[str, Any]], list[Loss]]:
    """Write a registry in normal form as an array of groups of the draft."""
    losses: list[Loss] = []
    expressed = {"messagegroups", "specversion", "registryid", "self", "shortself", "xid", "epoch", "createdat", "modifiedat"}
    own = [name for name in document if name not in expressed and not name.endswith(("url", "count"))]
    losses.extend(Loss(pointer_of(name), _RULE, f"a catalog of the draft has no `{name}`") for name in own)
    groups = []
    for groupid, group in document.get("messagegroups", {}).items():
        written, lost = write_draft(group, groupid)
        groups.append(written)
        pointer = pointer_of("messagegroups", groupid)
        losses.extend(loss._replace(pointer=Pointer(pointer + loss.pointer)) for loss in lost)
    return groups, losses


def write_draft(group: dict[str, Any], groupid: str | None = None) -> tuple[dict[str, Any], list[Loss]]:
    """Write a message group in normal form as a group of the draft.

    Args:
        group: the group with its messages, each with `versions` and `meta`, or with the attributes of its only Version.
        groupid: its id; None when the group has it.

    Returns:
        The group of the draft, and what it cannot express: pointers into `group`.
    """
    writing = DraftGroup(
        {key: value for key, value in group.items() if key != "messages"}, groupid or str(group.get("messagegroupid", ""))
    )
    definitions = {}
    for messageid, message in (group.get("messages") or {}).items():
        result = writing.definition(messageid, message, pointer_of("messages", messageid))
        if result is not None:
            definitions[messageid] = result
    written = writing.attributes()
    writing.finish()
    return written | {"messagedefinitions": definitions}, writing.losses


class DraftGroup(AttributeWriter):
    """A message group on its way into the draft, message by message.

    Attributes:
        name: the format; None until the group or one of its messages has one.
        losses: what could not be expressed, with pointers into the group, or below the pointer that `definition` gets.
    """

    def __init__(self, own: dict[str, Any], groupid: str) -> None:
        super().__init__([])
        self.own = own
        self.groupid = groupid
        self.name = format_of(own)
        self.protocols: set[str] = set()  # of the Versions that were written

    def attributes(self) -> dict[str, Any]:
        """Write the group without its definitions; after the first of these, which may have the format."""
        written: dict[str, Any] = {"id": self.groupid}
        if not ID.fullmatch(self.groupid):
            self.lose(ROOT, f"{self.groupid!r} is not an id of the draft", "CAT-021")
        if self.name is None:
            self.lose(ROOT, "a group of the draft has one format, and none is known", "CAT-024")
        elif format_of(self.own) is None:
            message = f"a group of the draft has a format, and this one gets that of its first message: {self.name}"
            self.lose(pointer_of(formats()[self.name]["normal"]), message, "CAT-024")
        written["format"] = self.name or "CloudEvents"
        self.write_attributes("group", self.own, written, ROOT, {"envelope", "protocol"})
        for key in ("envelope", "protocol"):
            if self.name and key in self.own and formats()[self.name]["normal"] != key:
                self.lose(pointer_of(key), f"a group of the format {self.name} has no `{key}`", "CAT-023")
        return written

    def definition(self, messageid: str, message: dict[str, Any], pointer: Pointer = ROOT) -> dict[str, Any] | None:
        """Write a message as a definition; None when the draft cannot express it.

        Args:
            messageid: its id.
            message: with `versions` and `meta`, or with the attributes of its only Version.
            pointer: pointer of losses.
        """
        if self.name is None:
            self.name = next((name for name in map(format_of, _versions(message).values()) if name), None)
        name = self.name
        meta = message.get("meta") or {}
        if not ID.fullmatch(messageid):
            self.lose(pointer, f"{messageid!r} is not an id of the draft", "CAT-061")
            return None
        if "xref" in meta or name is None:
            self.lose(
                pointer,
                "the draft has no message that is an alias of another" if "xref" in meta else "it has no format",
                "CAT-058",
            )
            return None
        for key in sorted(meta.keys() - COMPUTED - {"authority", "defaultversionid", "createdat", "modifiedat"}):
            self.lose(below(pointer, "meta", key), f"a definition of the draft has no `{key}`", "CAT-058")
        versions = self._numbered(messageid, message, name, pointer)
        if not versions:
            self.lose(pointer, "the draft can say none of its versions, so it is left out", "CAT-034")
            return None
        default = meta.get("defaultversionid")
        if default is not None and default != list(versions)[-1]:
            self.lose(
                below(pointer, "meta", "defaultversionid"), "the latest version of the draft is always the default", "CAT-043"
            )
        written: dict[str, Any] = {"id": messageid, "format": name}
        if "authority" in meta:
            written["authority"] = meta["authority"]
        for key, old in (("createdat", "createdtimeutc"), ("modifiedat", "updatedtimeutc")):
            if key in meta:
                written[old] = meta[key]
        return written | {"versions": versions}

    def _numbered(self, messageid: str, message: dict[str, Any], name: str, inner_pointer: Pointer) -> dict[str, Any]:
        """Write the Versions whose ids are numbers, in their order."""
        versions: dict[str, Any] = {}
        before: str | None = None
        members = _versions(message)
        for versionid in sorted(members, key=natural_order):
            pointer = below(inner_pointer, "versions", versionid) if message.get("versions") else inner_pointer
            if not is_number_of_version(versionid):
                self.lose(pointer, f"{versionid!r} is not a number of a version", "CAT-077")
                continue
            writing = DraftVersion(name, self.losses)
            result = writing.write(messageid, members[versionid], pointer)
            self.protocols |= {writing.protocol} if writing.protocol else set()
            if result is None:
                continue
            if members[versionid].get("ancestor", before or versionid) != (before or versionid):
                self.lose(below(pointer, "ancestor"), "the ancestor of a version of the draft is the version before", "CAT-077")
            versions[versionid] = {"id": messageid, "version": int(versionid), "format": name} | result
            before = versionid
        return versions

    def finish(self) -> None:
        """Report what a reader takes for the group's protocol, when it is another: that of all its definitions."""
        if self.name is None or formats()[self.name]["normal"] != "protocol" or "protocol" not in self.own:
            return
        protocol = next(iter(self.protocols), formats()[self.name]["type"]) if len(self.protocols) < 2 else None
        if protocol != self.own["protocol"]:
            self.lose(
                pointer_of("protocol"),
                f"a reader of the draft takes the definitions' for that of the group: {protocol}",
                "CAT-023",
            )


def _versions(message: dict[str, Any]) -> dict[str, Any]:
    """Return the Versions of a message; one without is its own."""
    return message.get("versions") or (
        {} if "xref" in (message.get("meta") or {}) else {str(message.get("versionid", "1")): message}
    )
