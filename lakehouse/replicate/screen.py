"""What of another catalog is taken: all but what is ours (CAT-182), with the authority of those who define it (CAT-068, CAT-183).

Authority is decided message by message (CAT-181): a message whose authority is this catalog was copied from here, and is not
taken back, so that copies which go round in a ring end where they began. An authority that is there is never changed.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from lakehouse.text.twins import members, object_of, values_of, with_member, without

Json = dict[str, Any]


class Screen(NamedTuple):
    """What is taken.

    Attributes:
        own: authority of this catalog, setting `authority`; empty: it has none, and everything is taken.
        filled: authority that a message without one gets; None: it stays without.
    """

    own: str = ""
    filled: str | None = None

    @property
    def is_open(self) -> bool:
        """Tell that everything is taken as it is."""
        return not self.own and self.filled is None

    def is_own(self, authority: Any) -> bool:
        """Tell that an authority is this catalog."""
        return bool(self.own) and isinstance(authority, str) and authority.rstrip("/") == self.own.rstrip("/")

    def group(self, group: Json) -> Json | None:
        """Give a group or endpoint as it is taken; None: all of its messages are ours, so it is ours too."""
        if self.is_open or not any(isinstance(one, dict) and one for one in values_of(group, "messages")):
            return group
        screened = object_of(
            (name, self.messages(value) if name == "messages" and isinstance(value, dict) else value)
            for name, value in members(group)
        )
        return screened if any(values_of(screened, "messages")) else None

    def messages(self, messages: Json) -> Json:
        """Give messages as they are taken, in their order."""
        return object_of(
            (messageid, self._message(message) if isinstance(message, dict) else message)  # the ingest reports what is no object
            for messageid, message in members(messages)
            if not (isinstance(message, dict) and self._is_ours(message))
        )

    def _is_ours(self, message: Json) -> bool:
        """Tell that a message is this catalog's; where its authority occurs twice, each of them has to be."""
        told = _authorities(message)
        return bool(told) and all(self.is_own(one) for one in told)

    def _message(self, message: Json) -> Json:
        """Give a message with the authority that it gets."""
        metas = [one for one in values_of(message, "meta") if isinstance(one, dict)]
        if self.filled is None or _authorities(message) or any(meta.get("xref") is not None for meta in metas):
            return message
        if not metas:
            return with_member(message, "meta", {"authority": self.filled})
        return object_of(
            (name, with_member(value, "authority", self.filled) if name == "meta" and isinstance(value, dict) else value)
            for name, value in members(message)
        )

    def definition(self, definition: Json) -> Json | None:
        """Give a definition of the draft as it is taken; None: it is ours."""
        told = [one for one in values_of(definition, "authority") if one]
        if told and all(self.is_own(one) for one in told):
            return None
        return definition if told or self.filled is None else with_member(definition, "authority", self.filled)


def _authorities(message: Json) -> list[Any]:
    """Give what a message says of its authority: in its meta object, else itself."""
    metas = [one for one in values_of(message, "meta") if isinstance(one, dict)]
    inside = [authority for meta in metas for authority in values_of(meta, "authority") if authority]
    return inside or [one for one in values_of(message, "authority") if one]


# What a server computes of the others, relative to the answer that it stands in.
_COMPUTED = ("self", "shortself", "metaurl", "versionsurl", "versionscount", "defaultversionurl")
_COMPUTED_OF_GROUPS = ("self", "shortself", "messagesurl", "messagescount", "schemasurl", "schemascount")


def bare_group(group: Json) -> Json:
    """Give the attributes of a group without what a server computes."""
    return without(group, _COMPUTED_OF_GROUPS)


def bare_resource(resource: Json) -> Json:
    """Give a message or schema without what a server computes, in its meta object and its Versions too."""
    return object_of((name, _bare_member(name, value)) for name, value in members(without(resource, _COMPUTED)))


def _bare_member(name: str, value: Any) -> Any:
    if not isinstance(value, dict) or name not in ("meta", "versions"):
        return value
    if name == "meta":
        return without(value, _COMPUTED)
    return object_of((key, without(one, _COMPUTED) if isinstance(one, dict) else one) for key, one in members(value))
