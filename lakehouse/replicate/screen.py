"""What of another catalog is taken: all but what is ours (CAT-182), with the authority of those who define it (CAT-068, CAT-183).

Authority is decided message by message (CAT-181): a message whose authority is this catalog was copied from here, and is not
taken back, so that copies which go round in a ring end where they began. An authority that is there is never changed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

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
        messages = group.get("messages")
        if self.is_open or not isinstance(messages, dict) or not messages:
            return group
        taken = self.messages(messages)
        return None if not taken else group | {"messages": taken}

    def messages(self, messages: Json) -> Json:
        """Give messages as they are taken, in their order."""
        taken = {}
        for messageid, message in messages.items():
            if not isinstance(message, dict):  # the ingest tells what is wrong with it
                taken[messageid] = message
                continue
            told = message.get("meta")
            meta: Json = told if isinstance(told, dict) else {}
            authority = meta.get("authority") or message.get("authority")
            if self.is_own(authority):
                continue
            is_filled = not authority and self.filled is not None and meta.get("xref") is None
            taken[messageid] = message | {"meta": meta | {"authority": self.filled}} if is_filled else message
        return taken

    def definition(self, definition: Json) -> Json | None:
        """Give a definition of the draft as it is taken; None: it is ours."""
        authority = definition.get("authority")
        if self.is_own(authority):
            return None
        return definition if authority or self.filled is None else definition | {"authority": self.filled}


# What a server computes of the others, relative to the answer that it stands in.
_COMPUTED = ("self", "shortself", "metaurl", "versionsurl", "versionscount", "defaultversionurl")
_COMPUTED_OF_GROUPS = ("self", "shortself", "messagesurl", "messagescount", "schemasurl", "schemascount")


def bare_group(group: Json) -> Json:
    """Give the attributes of a group without what a server computes."""
    return {name: value for name, value in group.items() if name not in _COMPUTED_OF_GROUPS}


def bare_resource(resource: Json) -> Json:
    """Give a message or schema without what a server computes, in its meta object and its Versions too."""
    own = _without(resource)
    if isinstance(own.get("meta"), dict):
        own["meta"] = _without(own["meta"])
    if isinstance(own.get("versions"), dict):
        own["versions"] = {key: _without(one) if isinstance(one, dict) else one for key, one in own["versions"].items()}
    return own


def _without(entity: Json, names: Iterable[str] = _COMPUTED) -> Json:
    return {name: value for name, value in entity.items() if name not in names}
