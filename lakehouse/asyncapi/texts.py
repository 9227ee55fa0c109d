"""Texts for people; and what has no attribute in xRegistry, which is kept as written and reported once for each kind."""

from __future__ import annotations

from typing import Any

from lakehouse.asyncapi.following import Following, Spot
from lakehouse.asyncapi.headerschemas import HINT, member_of, option_of, says_the_same
from lakehouse.asyncapi.protocoltables import bindings_of
from lakehouse.dialects.detection import asyncapi_of

UNINTERPRETED = "AAPI-005"
LOST = "AAPI-006"
# What is reported once for each document. Texts, extensions, security, parameters and variables are kept without a report.
BINDINGS = "members of bindings without an option"
CORRELATION = "`correlationId` of messages"
EXAMPLES = "`examples` of messages"
HEADERS = "headers that are more than declarations"
PAYLOADS = "payloads of structured CloudEvents that say more than attributes and `data`"
REPLIES = "replies of operations"
NAMES = "parameter names that are no symbols, in which other characters become `_`"
IDLE_SERVERS = "servers that no operation uses"
IDLE_CHANNELS = "channels that no operation uses"
TAG_DOCS = "`externalDocs` of a tag"
UNINTERPRETED_KINDS = (BINDINGS, CORRELATION, EXAMPLES, HEADERS, PAYLOADS, REPLIES, NAMES, IDLE_SERVERS, IDLE_CHANNELS)
OLD_MEMBERS = "members of bindings in 2.x that 3.x does not have, `bindingVersion` among them"
LOST_KINDS = (TAG_DOCS, OLD_MEMBERS)
_MEMBERS_OF_NOW = {
    ("http", "operation"): ("method", "query"),
    ("http", "message"): ("headers", "statusCode"),
    ("amqp", "message"): ("contentEncoding", "messageType"),
}


# What members of an object of AsyncAPI must be; an extension attribute `asyncapi` of a registry document may say anything.
_TYPES: dict[str, type] = {
    **dict.fromkeys(("address", "host", "pathname", "title", "name", "summary", "description"), str),
    **dict.fromkeys(("bindings", "correlationId", "externalDocs", "parameters", "reply", "variables"), dict),
    **dict.fromkeys(("examples", "security", "tags"), list),
}


class Texts:
    """Reads titles, descriptions, documentation and tags of a document."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._uninterpreted: dict[str, Spot] = {}
        self._lost: dict[str, Spot] = {}

    def read(self, spot: Spot) -> dict[str, Any]:
        """Return `name`, `description`, `documentation` and `labels`."""
        value = spot.value
        results: dict[str, Any] = {}
        name = value.get("title") or value.get("name")
        description = value.get("description") or value.get("summary")
        results |= {"name": name} if isinstance(name, str) and name else {}
        results |= {"description": description} if isinstance(description, str) and description else {}
        documentation = self._following.member(spot, "externalDocs", "url")
        if documentation is not None and isinstance(documentation.value, str):
            results["documentation"] = documentation.value
        labels = {}
        for tag in self._following.items(spot, "tags"):
            if isinstance(tag.value, dict) and isinstance(tag.value.get("name"), str):
                about = tag.value.get("description")
                labels[tag.value["name"]] = about if isinstance(about, str) else ""
                if "externalDocs" in tag.value:
                    self._lost.setdefault(TAG_DOCS, tag)
        return results | ({"labels": labels} if labels else {})

    def unread(self, spot: Spot) -> dict[str, Any]:
        """Return the texts that `read` leaves out, or calls otherwise: a name next to a title, a summary."""
        value = spot.value
        result = {"name": value["name"]} if value.get("title") and isinstance(value.get("name"), str) else {}
        result |= {"summary": value["summary"]} if isinstance(value.get("summary"), str) else {}
        docs = self._following.member(spot, "externalDocs")
        if docs is not None and isinstance(docs.value, dict) and docs.value.get("description"):
            result["externalDocs"] = docs.value
        return result

    def other_members(self, spot: Spot, without: tuple[str, ...]) -> dict[str, Any]:
        """Return the other members of an object, each with all that it refers to."""
        names = [name for name in spot.value if name not in without]
        results = {name: self._following.plain(self._following.child(spot, name)) for name in names}
        return {name: value for name, value in results.items() if value is not None} | self.unread(spot)

    def bindings(self, spot: Spot, protocol: str | None, level: str, but: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the bindings without the members that have an option, or are in `but`: `{"bindings": ...}`, or nothing."""
        if self._following.member(spot, "bindings") is None:
            return {}
        rows = {(row.binding, row.member): row.how for row in bindings_of(protocol, level)}
        results: dict[str, Any] = {}
        for name, binding in self._following.members(spot, "bindings"):
            plain = self._of_now(name, level, binding)
            left = {
                member: value
                for member, value in plain.items()
                if member not in but and not _is_in_option(rows.get((name, member)), value)
            }
            if set(left) - {"bindingVersion"}:
                self.note_uninterpreted(BINDINGS, binding)
            results[name] = left
        return {"bindings": results} if any(results.values()) else {}

    def _of_now(self, name: str, level: str, binding: Spot) -> dict[str, Any]:
        """Return a binding; of 2.x without what those of 3.x do not have."""
        members: dict[str, Any] = self._following.plain(binding)
        if asyncapi_of(self._following.root.value) != "asyncapi-2":
            return members
        allowed = _MEMBERS_OF_NOW.get((name, level), tuple(members))
        left = {member: value for member, value in members.items() if member.startswith("x-") or member in allowed}
        left.pop("bindingVersion", None)
        if left != members:
            self._lost.setdefault(OLD_MEMBERS, binding)
        return left

    def note_uninterpreted(self, what: str, spot: Spot) -> None:
        """Note something that is kept and not interpreted."""
        self._uninterpreted.setdefault(what, spot)

    def report_all(self) -> None:
        """Report what was noted, once for each kind."""
        for what, spot in self._uninterpreted.items():
            message = f"xRegistry has no attribute for {what}; it is kept as written"
            self._following.report(
                spot.at, UNINTERPRETED, message, "Nothing to do: an export to AsyncAPI writes it again.", "info"
            )
        for what, spot in self._lost.items():
            message = f"xRegistry has no attribute for {what}; it is not loaded"
            self._following.report(spot.at, LOST, message, "Nothing to do, unless you need it in the catalog.", "info")


def _is_in_option(how: str | None, member: Any) -> bool:
    """Return whether an option says all that a member of a binding does."""
    option = None if how is None else option_of(how, member)
    return how is not None and option is not None and says_the_same(member, member_of(how, option))


def kept_members(uninterpreted: dict[str, Any], *without: str) -> dict[str, Any]:
    """Return what an entity keeps of an object of AsyncAPI, without some members, and without those that break the object."""
    return {
        name: value
        for name, value in uninterpreted.items()
        if name not in ("$ref", HINT, *without) and isinstance(value, _TYPES.get(name, object))
    }


def texts_of(entity: dict[str, Any], uninterpreted: dict[str, Any]) -> dict[str, Any]:
    """Write the texts for people of an entity as AsyncAPI does."""
    written: dict[str, Any] = {}
    written |= {"title": entity["name"]} if entity.get("name") else {}
    description = entity.get("description")
    written |= {"description": description} if description and description != uninterpreted.get("summary") else {}
    if entity.get("documentation"):
        docs = uninterpreted.get("externalDocs")
        written["externalDocs"] = (
            docs if isinstance(docs, dict) and docs.get("url") == entity["documentation"] else {"url": entity["documentation"]}
        )
    labels = entity.get("labels")
    if isinstance(labels, dict) and labels:
        written["tags"] = [{"name": name} | ({"description": about} if about else {}) for name, about in labels.items()]
    return written
