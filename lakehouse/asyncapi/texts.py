"""Texts for people; and what has no attribute in xRegistry, which is kept as written and reported once for each kind."""

from __future__ import annotations

from typing import Any

from lakehouse.asyncapi.following import Following, Spot
from lakehouse.asyncapi.headerschemas import fixed_value
from lakehouse.asyncapi.protocoltables import FAMILY_NAMES, bindings_of

KEPT = "AAPI-005"
LOST = "AAPI-006"


class Texts:
    """Reads titles, descriptions, documentation and tags of a document."""

    def __init__(self, following: Following) -> None:
        self._following = following
        self._kept: dict[str, Spot] = {}
        self._lost: dict[str, Spot] = {}

    def of(self, spot: Spot) -> dict[str, Any]:
        """Give `name`, `description`, `documentation` and `labels`."""
        value = spot.value
        found: dict[str, Any] = {}
        name = value.get("title") or value.get("name")
        description = value.get("description") or value.get("summary")
        found |= {"name": name} if isinstance(name, str) and name else {}
        found |= {"description": description} if isinstance(description, str) and description else {}
        documentation = self._following.member(spot, "externalDocs", "url")
        if documentation is not None and isinstance(documentation.value, str):
            found["documentation"] = documentation.value
        labels = {}
        for tag in self._following.items(spot, "tags"):
            if isinstance(tag.value, dict) and isinstance(tag.value.get("name"), str):
                about = tag.value.get("description")
                labels[tag.value["name"]] = about if isinstance(about, str) else ""
                if "externalDocs" in tag.value:
                    self._lost.setdefault("`externalDocs` of a tag", tag)
        return found | ({"labels": labels} if labels else {})

    def unsaid(self, spot: Spot) -> dict[str, Any]:
        """Give the texts that `of` leaves out: a name beside a title, a summary beside a description."""
        value = spot.value
        found = {"name": value["name"]} if value.get("title") and isinstance(value.get("name"), str) else {}
        found |= {"summary": value["summary"]} if value.get("description") and isinstance(value.get("summary"), str) else {}
        docs = self._following.member(spot, "externalDocs")
        if docs is not None and isinstance(docs.value, dict) and docs.value.get("description"):
            found["externalDocs"] = docs.value
        return found

    def rest(self, spot: Spot, without: tuple[str, ...]) -> dict[str, Any]:
        """Give the other members of an object, each with all that it refers to."""
        others = [name for name in spot.value if name not in without]
        found = {name: self._following.plain(self._following.child(spot, name)) for name in others}
        return {name: value for name, value in found.items() if value is not None} | self.unsaid(spot)

    def bindings(self, spot: Spot, family: str, level: str) -> dict[str, Any]:
        """Give the bindings without the members that have an option: `{"bindings": ...}`, or nothing."""
        holder = self._following.member(spot, "bindings")
        if holder is None:
            return {}
        known = {(row.binding, row.member): row.how for row in bindings_of(family, level)}
        own = FAMILY_NAMES[family].binding if family in FAMILY_NAMES else ""
        found: dict[str, Any] = {}
        for name, binding in self._following.members(spot, "bindings"):
            plain = self._following.plain(binding)
            left = {one: value for one, value in plain.items() if not _is_said(known.get((name, one)), value)}
            if name != own and left:
                self.note_kept(f"bindings of {name} that are not those of the protocol of the {level}", binding)
            elif set(left) - {"bindingVersion"}:
                self.note_kept(f"members of bindings of {name} that xRegistry has no option for", binding)
            found[name] = left
        return {"bindings": found} if any(found.values()) else {}

    def note_kept(self, what: str, spot: Spot) -> None:
        """Note something that is kept and not interpreted."""
        self._kept.setdefault(what, spot)

    def note_lost(self, what: str, spot: Spot) -> None:
        """Note something that is not loaded."""
        self._lost.setdefault(what, spot)

    def report_all(self) -> None:
        """Report what was noted, once for each kind."""
        for what, spot in self._kept.items():
            message = f"xRegistry has no attribute for {what}; it is kept as written"
            self._following.report(spot.at, KEPT, message, "Nothing to do: an export to AsyncAPI writes it again.", "info")
        for what, spot in self._lost.items():
            message = f"xRegistry has no attribute for {what}; it is not loaded"
            self._following.report(spot.at, LOST, message, "Nothing to do, unless you need it in the catalog.", "info")


def _is_said(how: str | None, value: Any) -> bool:
    """Return whether a member of a binding has become an option."""
    if how is None or value is None:
        return False
    if how == "plain":
        return not isinstance(value, dict | list)
    return how != "fixed" or fixed_value(value) is not None


def texts_of(entity: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    """Write the texts for people of an entity as AsyncAPI does."""
    written: dict[str, Any] = {}
    written |= {"title": entity["name"]} if entity.get("name") else {}
    written |= {"description": entity["description"]} if entity.get("description") else {}
    if entity.get("documentation"):
        docs = kept.get("externalDocs")
        written["externalDocs"] = (
            docs if isinstance(docs, dict) and docs.get("url") == entity["documentation"] else {"url": entity["documentation"]}
        )
    labels = entity.get("labels")
    if isinstance(labels, dict) and labels:
        written["tags"] = [{"name": name} | ({"description": about} if about else {}) for name, about in labels.items()]
    return written
