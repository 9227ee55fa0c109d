"""What `compatibility` of a message or schema promises between its Versions (core, `compatibility`), and what breaks the promise.

*Backward*: who reads by a Version reads what was written by the one before it. *Forward*: who reads by the one before reads what
is written by the Version. *Full* is both; `_transitive` asks it of all Versions before. What cannot be decided breaks no promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from lakehouse.compatibility import Answer, judge
from lakehouse.dialects.schemaformats import family_of_format
from lakehouse.domain.bases import Attributes
from lakehouse.domain.diff import Leaves, differences_of
from lakehouse.domain.leaves import leaves_of
from lakehouse.text.jsontext import canonical_text
from lakehouse.text.names import RegistryId, Xid

PROMISES = ("backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive")
_MOST_TOLD = 3


def earlier_versions(versionid: str, ancestors: Mapping[str, str], *, compatibility: str) -> list[str]:
    """Return the Versions that a Version is compared with, nearest first: its ancestor, of a transitive promise all of them.

    Args:
        versionid: of the Version.
        ancestors: of each Version its ancestor; the first one's is itself.
        compatibility: what is promised.
    """
    found: list[str] = []
    here = ancestors.get(versionid, versionid)
    while here != versionid and here not in found and here in ancestors:
        found.append(here)
        if not compatibility.endswith("_transitive"):
            break
        here = ancestors[here]
    return found


def broken_promise(kind: str, compatibility: str, before: Attributes, after: Attributes) -> list[str]:
    """Return how a Version breaks what is promised, as people read it; nothing: it keeps it, or that cannot be decided.

    Args:
        kind: of the Versions, `version` or `schemaversion`.
        compatibility: what is promised, one of `PROMISES`.
        before: attributes of the earlier Version in normal form.
        after: those of the later one.
    """
    found = _of_schemas if kind == "schemaversion" else _of_messages
    way = compatibility.removesuffix("_transitive")
    told = [text for breaks_writers, breaks_readers, text in found(before, after)
            if (breaks_writers and way != "forward") or (breaks_readers and way != "backward")]  # fmt: skip
    return told[:_MOST_TOLD] + ([f"and {len(told) - _MOST_TOLD} more"] if len(told) > _MOST_TOLD else [])


def why_undecided(kind: str, before: Attributes, after: Attributes) -> str | None:
    """Return why it cannot be said whether a Version keeps what is promised over an earlier one; None: it can."""
    if kind != "schemaversion":
        is_based = before.get("basemessage") is not None or after.get("basemessage") is not None
        return "a Version with a `basemessage` is not compared" if is_based else None
    old, new = before.get("schema"), after.get("schema")
    if old is None or new is None:
        return "the registry does not hold both documents as text"
    formats = [str(one.get("format") or "") for one in (before, after)]
    if family_of_format(formats[0], old) != family_of_format(formats[1], new):
        return f"formats differ: {formats[0]} and {formats[1]}"
    unknown = [one for one in judge(_plain(old), _plain(new), formats[1]).reasons() if one.breaks.worst == Answer.UNKNOWN]
    return unknown[0].sentence if unknown else None


def _of_schemas(before: Attributes, after: Attributes) -> Iterator[tuple[bool, bool, str]]:
    old, new = before.get("schema"), after.get("schema")
    formats = [str(one.get("format") or "") for one in (before, after)]
    if old is None or new is None or family_of_format(formats[0], old) != family_of_format(formats[1], new):
        return
    for one in judge(_plain(old), _plain(new), formats[1]).reasons():
        yield one.breaks.writers == Answer.YES, one.breaks.readers == Answer.YES, one.sentence


def _of_messages(before: Attributes, after: Attributes) -> Iterator[tuple[bool, bool, str]]:
    if before.get("basemessage") is not None or after.get("basemessage") is not None:
        return  # what they inherit is not known here
    sides: list[Leaves] = [dict(leaves_of(dict(one), one.get("extensions", {}))) for one in (before, after)]
    key = (RegistryId(""), "message", Xid(""))
    for one in sorted(differences_of(key, sides[0], sides[1]), key=lambda one: one.pointer):
        yield one.for_producers == "breaking", one.for_consumers == "breaking", f"{one.pointer}: {one.told}."


def _plain(document: Any) -> Any:
    """Return a document with numbers as they are computed with, and not as they are spelled."""
    return document if isinstance(document, str) else orjson.loads(canonical_text(document))
