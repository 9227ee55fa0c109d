"""A Version compared with an earlier one of its schema or message: what differs, whom that breaks, and whether a promise is kept.

Schemas are compared by what is in them (`lakehouse.compatibility`), messages by the rules of `domain.diff`: there producers are
writers, and consumers are readers. Events, `/effective` and `lakehouse compat` use this, too.

`compatibility` of a message or schema promises (core, `compatibility`): *backward*: who reads by a Version reads what was written
by the one before it. *Forward*: who reads by the one before reads what is written by the Version. *Full* is both; `_transitive`
asks it of all Versions before. What cannot be decided breaks no promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

import orjson

from lakehouse.compatibility import Answer, Breaks, Judgement, SchemaDifference, judge
from lakehouse.dialects.schemadocuments import family_of_format
from lakehouse.domain.bases import Attributes, FlatAttributes
from lakehouse.domain.diff import Difference, differences_of
from lakehouse.domain.flatattributes import flat_attributes_of
from lakehouse.text.jsontext import canonical_text, read_canonical, read_exactly
from lakehouse.text.names import JsonText, RegistryId, Xid
from lakehouse.text.xid import split_version, xid_of_version

VERSION_KINDS = ("version", "schemaversion")
NO_TEXT = "the registry does not hold the document as text"
_MOST_SHOWN = 20  # differences of a change
_ANSWERS = {"breaking": Answer.YES, "unknown": Answer.UNKNOWN}
PROMISES = ("backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive")
_MOST_OF_PROMISE = 3  # sentences of a broken promise
MOST_EARLIER = 100  # ancestors that a Version is compared with


class ComparableVersion(TypedDict, total=False):
    """What is compared of a Version.

    Attributes:
        format: of a schema.
        schema: its document as JSON text, one that is text in quotes.
        basemessage: of a message.
        attributes: of a message, as the column `attributes`.
    """

    format: str
    schema: JsonText
    basemessage: str
    attributes: FlatAttributes


class VersionChange(NamedTuple):
    """What a Version changes for those that use an earlier one, or used it as it was.

    Attributes:
        earlier_xid: XID of the Version that it is compared with; its own: as it was before.
        judgement: what differs, and whom that breaks.
    """

    earlier_xid: Xid
    judgement: Judgement

    @property
    def broken(self) -> list[str]:
        """Return who breaks, `producers` and `consumers`."""
        breaks = self.judgement.breaks
        sides = (("producers", breaks.writers), ("consumers", breaks.readers))
        return [side for side, answer in sides if answer == Answer.YES]

    def as_json(self) -> dict[str, Any]:
        """Return the contract of change events and of `/effective`: the gravest differences first, `_MOST_SHOWN` at most."""
        breaks, differences = self.judgement.breaks, self.judgement.differences
        grave = self.judgement.reasons()
        shown = [*grave, *(difference for difference in differences if difference.breaks.worst == Answer.NO)][:_MOST_SHOWN]
        more = {"more": len(differences) - len(shown)} if len(differences) > len(shown) else {}
        members = {"comparedwith": self.earlier_xid, "breaks": breaks.as_json()}
        return members | {"differences": [difference.as_json() for difference in shown]} | more


def ancestor_of(version: Xid, body: JsonText) -> Xid | None:
    """Return the XID of the Version that a Version was made from; None: it is the first."""
    ancestor = orjson.loads(body).get("ancestor")
    resource, versionid = split_version(version)
    return None if ancestor in (None, versionid) else xid_of_version(resource, ancestor)


def version_change(kind: str, earlier_xid: Xid, before: JsonText, after: JsonText) -> VersionChange | None:
    """Compare two bodies of Versions.

    Args:
        kind: of both.
        earlier_xid: XID of the earlier one.
        before: normal form of the earlier one.
        after: that of the later one.

    Returns:
        None: they are alike, or cannot be compared.
    """
    sides = [comparable_version(kind, read_canonical(body)) for body in (before, after)]
    if sides[0] == sides[1]:
        return None
    judgement = judge_versions(kind, *sides)
    return None if judgement is None else VersionChange(earlier_xid, judgement)


def comparable_version(kind: str, attributes: Attributes) -> ComparableVersion:
    """Return what is compared of a Version; `attributes` are in normal form, `kind` is `version` or `schemaversion`."""
    if kind == "schemaversion":
        schema = attributes.get("schema")
        document = ComparableVersion() if schema is None else ComparableVersion(schema=canonical_text(schema))
        return document | ComparableVersion(format=str(attributes.get("format") or ""))
    definition = ComparableVersion(attributes=dict(flat_attributes_of(dict(attributes), attributes.get("extensions", {}))))
    return (
        definition
        if attributes.get("basemessage") is None
        else definition | ComparableVersion(basemessage=str(attributes["basemessage"]))
    )


def judge_versions(kind: str, before: ComparableVersion, after: ComparableVersion) -> Judgement | None:
    """Judge a Version against an earlier one; None: they cannot be compared, and `why_incomparable` says why.

    Args:
        kind: of both, `version` or `schemaversion`.
        before: the earlier one.
        after: the later one.
    """
    if why_incomparable(kind, before, after) is not None:
        return None
    if kind == "version":
        return judge_definitions(before.get("attributes", {}), after.get("attributes", {}))
    old, new = (read_exactly(version["schema"].encode()) for version in (before, after))
    return judge(old, new, after.get("format", ""))


def why_incomparable(kind: str, before: ComparableVersion, after: ComparableVersion) -> str | None:
    """Return why two Versions cannot be compared; None: they can."""
    if kind == "version":
        is_based = "basemessage" in before or "basemessage" in after  # what they inherit is not known here
        return "a Version with a `basemessage` is not compared" if is_based else None
    if "schema" not in before or "schema" not in after:
        return NO_TEXT
    formats = [version.get("format", "") for version in (before, after)]
    families = [
        family_of_format(name, read_exactly(version["schema"].encode()))
        for name, version in zip(formats, (before, after), strict=True)
    ]
    return None if families[0] == families[1] else f"formats differ: {formats[0]} and {formats[1]}"


def judge_definitions(before: FlatAttributes, after: FlatAttributes) -> Judgement:
    """Judge two definitions of a message by their flat attributes: the gravest differences first."""
    results = map(_as_schema_difference, differences_of((RegistryId(""), "message", Xid("")), before, after))
    return Judgement(tuple(sorted(results, key=lambda difference: (-difference.breaks.worst, difference.pointer))))


def _as_schema_difference(difference: Difference) -> SchemaDifference:
    breaks = Breaks(*(_ANSWERS.get(side, Answer.NO) for side in (difference.for_consumers, difference.for_producers)))
    if difference.is_about_schema:
        what = "the schema differs"
    else:
        what = (
            f"was {difference.before}, is {difference.after}"
            if difference.change == "changed"
            else f"{difference.change}: {difference.after or difference.before}"
        )
    return SchemaDifference(difference.pointer, difference.rule, what, breaks, f"{difference.meaning.rstrip('.')}.", breaks)


def earlier_versions(versionid: str, ancestors: Mapping[str, str], *, compatibility: str) -> list[str]:
    """Return the Versions that a Version is compared with, nearest first: its ancestor, of a transitive promise all of them.

    At most `MOST_EARLIER`, so that the work of a promise grows with the Versions, and not with their square.

    Args:
        versionid: of the Version.
        ancestors: of each Version its ancestor; the first one's is itself.
        compatibility: what is promised.
    """
    results: dict[str, None] = {}
    most = MOST_EARLIER if compatibility.endswith("_transitive") else 1
    here = ancestors.get(versionid, versionid)
    while here != versionid and here not in results and here in ancestors and len(results) < most:
        results[here] = None
        here = ancestors[here]
    return list(results)


def pairs_to_compare(ancestors: Mapping[str, str], compatibility: str) -> list[tuple[str, str]]:
    """Return the ids of Versions that are compared, the later one and an earlier one; arguments as for `earlier_versions`."""
    return [
        (versionid, earlier)
        for versionid in ancestors
        for earlier in earlier_versions(versionid, ancestors, compatibility=compatibility)
    ]


def broken_promise(kind: str, compatibility: str, before: ComparableVersion, after: ComparableVersion) -> list[str]:
    """Return how a Version breaks what is promised, as people read it; nothing: it keeps it, or that cannot be decided.

    Args:
        kind: of the Versions, `version` or `schemaversion`.
        compatibility: what is promised, one of `PROMISES`.
        before: the earlier Version.
        after: the later one.
    """
    judgement = judge_versions(kind, before, after)
    if judgement is None:
        return []
    direction = compatibility.removesuffix("_transitive")
    texts = [
        difference.sentence
        for difference in judgement.reasons()
        if (direction != "forward" and difference.breaks.writers == Answer.YES)
        or (direction != "backward" and difference.breaks.readers == Answer.YES)
    ]
    return texts[:_MOST_OF_PROMISE] + ([f"and {len(texts) - _MOST_OF_PROMISE} more"] if len(texts) > _MOST_OF_PROMISE else [])


def why_undecided(kind: str, before: ComparableVersion, after: ComparableVersion) -> str | None:
    """Return why it cannot be said whether a Version keeps what is promised over an earlier one; None: it can."""
    judgement = judge_versions(kind, before, after)
    if judgement is None:
        return why_incomparable(kind, before, after)
    unknown = [difference for difference in judgement.reasons() if difference.breaks.worst == Answer.UNKNOWN]
    return unknown[0].sentence if unknown else None
