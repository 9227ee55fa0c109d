"""A Version in normal form is written as one of the draft: declarations go into the sections of its format."""

from __future__ import annotations

import re
from typing import Any

from lakehouse.dialects.draft.attributes import EXPRESSION, formats, rows, schema_format, sections_of
from lakehouse.dialects.draft.writeattributes import Losses, format_of
from lakehouse.dialects.respell import Loss
from lakehouse.text.jsontext import below
from lakehouse.text.names import Pointer

_FIRST_SECTION = {"CloudEvents": "attributes", "AMQP": "applicationdata", "MQTT": "payload", "NATS": "payload"}


class DraftVersion(Losses):
    """One Version on its way into the draft.

    Args:
        name: the format of the group.
        losses: what could not be said is added.

    Attributes:
        protocol: that a reader takes for the Version's; None for a format that is no protocol.
    """

    def __init__(self, name: str, losses: list[Loss]) -> None:
        super().__init__(losses)
        self.name = name
        self.protocol: str | None = None
        self.sections: dict[str, Any] = {}

    def write(self, messageid: str, version: dict[str, Any], at: Pointer) -> dict[str, Any] | None:
        """Write a Version; None when the draft cannot say it.

        Args:
            messageid: of its message.
            version: in normal form.
            at: where losses are told to be.
        """
        name = self.name
        if format_of(version) != name:
            self.lose(at, f"its format is not that of the group ({name})", "CAT-069")
            return None
        if name == "CloudEvents":
            declared = version.get("envelopemetadata", {}).get("type", {})
            if declared.get("value") != messageid:
                self.lose(at, "the `id` of an event of the draft is the declared `type`", "CAT-103")
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
            self._protocol(version, at)
        self.write_attributes("definition", version, found, at, said | own)
        self._dataschema(version, at)
        for place in ("envelopemetadata", "protocoloptions"):
            if place in version:
                self._place(version[place], place, version.get("protocol"), at)
        self._singles(version)
        return found | {"definition": self.sections}

    def _dataschema(self, version: dict[str, Any], at: Pointer) -> None:
        kinds = {row["format"]: row for row in rows("schematype")}
        schema = {new: version[old] for new, old in (("value", "dataschemauri"), ("schema", "dataschema")) if old in version}
        told = version.get("dataschemaformat")
        if told is not None:
            fits = [kind for kind in kinds if schema_format(kinds, kind, schema.get("schema")) == told]
            schema["schematype"] = fits[0] if fits else told
        elif schema:
            self.lose(below(at, "dataschemaformat"), "without `schematype` a reader of the draft may guess one", "CAT-091")
        if schema:
            self.sections.setdefault(_FIRST_SECTION[self.name], {})["dataschema"] = schema

    def _place(self, members: dict[str, Any], place: str, protocol: str | None, at: Pointer) -> None:
        """Write declarations into the sections of the format; of some there are others in another version of the protocol."""
        name = self.name
        rows_of_place = [row for row in sections_of(name) if row["normal"].startswith(place + "/")]
        named = {row["normal"]: row for row in rows_of_place if row["only"] in ("", protocol)}
        if not named or not members:
            self.lose(below(at, place), f"a definition of the format {name} has no `{place}`", "CAT-027")
            return
        for key, value in members.items():
            here = below(at, place, key)
            inner = named.get(f"{place}/{key}/*") or any(path.startswith(f"{place}/{key}/") for path in named)
            if key == "user_properties" and f"{place}/{key}/*" in named:
                self._user_properties(value, named[f"{place}/{key}/*"], here)
            elif inner and not value:
                self.lose(here, "the draft does not distinguish an empty section from none", "CAT-081")
            elif inner and isinstance(value, dict):
                for member, declaration in value.items():
                    row = named.get(f"{place}/{key}/{member}") or named.get(f"{place}/{key}/*")
                    self._declaration(row, member, declaration, below(here, member))
            else:
                self._declaration(named.get(f"{place}/{key}") or named.get(f"{place}/*"), key, value, here)

    def _user_properties(self, items: Any, row: dict[str, str], at: Pointer) -> None:
        names = [item.get("name") if isinstance(item, dict) else None for item in items] if isinstance(items, list) else [None]
        if not names or None in names or len(set(names)) < len(names):
            self.lose(at, "names of the draft occur once, and no list is empty", "CAT-148")
            return
        for index, item in enumerate(items):
            rest = {key: value for key, value in item.items() if key != "name"}
            self._declaration(row, item["name"], rest, below(at, str(index)))

    def _declaration(self, row: dict[str, str] | None, member: str, declaration: Any, at: Pointer) -> None:
        if row is None or not isinstance(declaration, dict) or (row["names"] and not re.fullmatch(row["names"], member)):
            self.lose(at, "the draft has no such member", row["rule"] if row else "CAT-027")
            return
        section, path = row["path"].split("/")
        said = dict(declaration)
        value = said.get("value")
        kind = row["type"].split(" ")[0]
        if kind == "dataschema":
            for key in {"value", "schematype", "schema"} & said.keys():
                self.lose(below(at, key), "the draft says the schema of the message here", "CAT-089")
                del said[key]
            if said:
                holder = self.sections.setdefault(section, {}).setdefault("dataschema", {})
                holder.update(said)
            return
        text_only = kind == "template"
        if "value" in said and not self._fits(row, kind, value):
            self.lose(below(at, "value"), "the draft cannot express this value", "CAT-082")
            del said["value"]
            value = None
        is_template = isinstance(value, str) and EXPRESSION.search(value) is not None
        if is_template and said.get("type") != "uritemplate":
            self.lose(below(at, "type"), "a text with placeholders is a uritemplate in the draft", "CAT-082")
        if said.pop("type", "uritemplate") != "uritemplate" or (declaration.get("type") == "uritemplate" and not is_template):
            self.lose(below(at, "type"), "a value of the draft has no `type`", "CAT-082")
        if text_only:
            if isinstance(value, int) and not isinstance(value, bool):
                said["value"] = str(value)
            said.setdefault("value", "")
        bare = not text_only and said.keys() == {"value"}
        self.sections.setdefault(section, {})[member if path == "*" else path] = said["value"] if bare else said

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

    def _protocol(self, version: dict[str, Any], at: Pointer) -> None:
        """Tell a protocol that a format of the draft does not stand for."""
        name = self.name
        said = formats()[name]["type"]
        for row in sections_of(name):  # only MQTT has versions
            number = str(version["protocol"]).partition("/")[2]
            if row["normal"] == "protocol" and re.fullmatch(row["type"].removeprefix("one of "), number):
                said = f"{name}/{number}"
        self.protocol = said
        if said != version["protocol"]:
            self.lose(below(at, "protocol"), f"a definition of the format {name} is one of {said}", "CAT-023")

    def _singles(self, version: dict[str, Any]) -> None:
        """Write what stands at the message in the normal form, and in a section in the draft."""
        for row in sections_of(self.name):
            section, member = row["path"].split("/")
            if row["normal"] == "protocol":
                number = str(version["protocol"]).partition("/")[2]
                if number != row["default"] and re.fullmatch(row["type"].removeprefix("one of "), number):
                    self.sections.setdefault(section, {})[member] = number
            elif "/" not in row["normal"] and row["normal"] in version:
                self.sections.setdefault(section, {})[member] = version[row["normal"]]
