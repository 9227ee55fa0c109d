"""What `compatibility` of a message or schema promises between its Versions (core, `compatibility`), and what breaks the promise.

*Backward*: who reads by a Version reads what was written by the one before it. *Forward*: who reads by the one before reads what
is written by the Version. *Full* is both; `_transitive` asks it of all Versions before. What cannot be decided breaks no promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypedDict

import orjson

from lakehouse.compatibility import Answer, Judgement, judge
from lakehouse.dialects.schemadocuments import family_of_format
from lakehouse.domain.bases import Attributes
from lakehouse.domain.diff import Leaves, differences_of
from lakehouse.domain.leaves import leaves_of
from lakehouse.text.jsontext import canonical_text
from lakehouse.text.names import JsonText, RegistryId, Xid

PROMISES = ("backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive")
NO_TEXT = "the registry does not hold the document as text"
_MOST_SHOWN = 3


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


class ComparedVersion(TypedDict, total=False):
    """What is compared of a Version.

    Attributes:
        format: of a schema.
        schema: its document as JSON text, one that is text in quotes.
        basemessage: of a message.
        leaves: of a message, as the column `attributes`.
    """

    format: str
    schema: JsonText
    basemessage: str
    leaves: Leaves


def compared_version(kind: str, known: Attributes) -> ComparedVersion:
    """Return what is compared of a Version; `known` are its attributes in normal form, `kind` is `version` or `schemaversion`."""
    if kind == "schemaversion":
        schema = known.get("schema")
        document = ComparedVersion() if schema is None else ComparedVersion(schema=canonical_text(schema))
        return document | ComparedVersion(format=str(known.get("format") or ""))
    leaves = ComparedVersion(leaves=dict(leaves_of(dict(known), known.get("extensions", {}))))
    return leaves if known.get("basemessage") is None else leaves | ComparedVersion(basemessage=str(known["basemessage"]))


def compared_pairs(ancestors: Mapping[str, str], compatibility: str) -> list[tuple[str, str]]:
    """Return the ids of Versions that are compared, the later one and an earlier one; arguments as for `earlier_versions`."""
    return [
        (versionid, earlier)
        for versionid in ancestors
        for earlier in earlier_versions(versionid, ancestors, compatibility=compatibility)
    ]


def broken_promise(kind: str, compatibility: str, before: ComparedVersion, after: ComparedVersion) -> list[str]:
    """Return how a Version breaks what is promised, as people read it; nothing: it keeps it, or that cannot be decided.

    Args:
        kind: of the Versions, `version` or `schemaversion`.
        compatibility: what is promised, one of `PROMISES`.
        before: the earlier Version.
        after: the later one.
    """
    find = _of_schemas if kind == "schemaversion" else _of_messages
    way = compatibility.removesuffix("_transitive")
    texts = [text for breaks_writers, breaks_readers, text in find(before, after)
             if (breaks_writers and way != "forward") or (breaks_readers and way != "backward")]  # fmt: skip
    return texts[:_MOST_SHOWN] + ([f"and {len(texts) - _MOST_SHOWN} more"] if len(texts) > _MOST_SHOWN else [])


def why_undecided(kind: str, before: ComparedVersion, after: ComparedVersion) -> str | None:
    """Return why it cannot be said whether a Version keeps what is promised over an earlier one; None: it can."""
    if kind != "schemaversion":
        is_based = "basemessage" in before or "basemessage" in after
        return "a Version with a `basemessage` is not compared" if is_based else None
    if "schema" not in before or "schema" not in after:
        return NO_TEXT
    judgement = _judgement(before, after)
    if judgement is None:
        return f"formats differ: {before.get('format', '')} and {after.get('format', '')}"
    unknown = [one for one in judgement.reasons() if one.breaks.worst == Answer.UNKNOWN]
    return unknown[0].sentence if unknown else None


def _of_schemas(before: ComparedVersion, after: ComparedVersion) -> Iterator[tuple[bool, bool, str]]:
    judgement = _judgement(before, after) if "schema" in before and "schema" in after else None
    for one in judgement.reasons() if judgement is not None else ():
        yield one.breaks.writers == Answer.YES, one.breaks.readers == Answer.YES, one.sentence


def _judgement(before: ComparedVersion, after: ComparedVersion) -> Judgement | None:
    """Compare two schemas of one format; None: the formats differ."""
    formats = [one.get("format", "") for one in (before, after)]
    old, new = (orjson.loads(one["schema"]) for one in (before, after))
    return judge(old, new, formats[1]) if family_of_format(formats[0], old) == family_of_format(formats[1], new) else None


def _of_messages(before: ComparedVersion, after: ComparedVersion) -> Iterator[tuple[bool, bool, str]]:
    if "basemessage" in before or "basemessage" in after:
        return  # what they inherit is not known here
    key = (RegistryId(""), "message", Xid(""))
    for one in sorted(differences_of(key, before.get("leaves", {}), after.get("leaves", {})), key=lambda one: one.pointer):
        yield one.for_producers == "breaking", one.for_consumers == "breaking", f"{one.pointer}: {one.told}."
