"""What `compatibility` of a message or schema promises between its Versions (core, `compatibility`), and what breaks the promise.

*Backward*: who reads by a Version reads what was written by the one before it. *Forward*: who reads by the one before reads what
is written by the Version. *Full* is both; `_transitive` asks it of all Versions before. What cannot be decided breaks no promise.
"""

from __future__ import annotations

from collections.abc import Mapping

from lakehouse.compatibility import Answer
from lakehouse.domain.versionchanges import ComparedVersion, judge_versions, why_not_compared

PROMISES = ("backward", "backward_transitive", "forward", "forward_transitive", "full", "full_transitive")
_MOST_SHOWN = 3


def earlier_versions(versionid: str, ancestors: Mapping[str, str], *, compatibility: str) -> list[str]:
    """Return the Versions that a Version is compared with, nearest first: its ancestor, of a transitive promise all of them.

    Args:
        versionid: of the Version.
        ancestors: of each Version its ancestor; the first one's is itself.
        compatibility: what is promised.
    """
    results: list[str] = []
    here = ancestors.get(versionid, versionid)
    while here != versionid and here not in results and here in ancestors:
        results.append(here)
        if not compatibility.endswith("_transitive"):
            break
        here = ancestors[here]
    return results


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
    return texts[:_MOST_SHOWN] + ([f"and {len(texts) - _MOST_SHOWN} more"] if len(texts) > _MOST_SHOWN else [])


def why_undecided(kind: str, before: ComparedVersion, after: ComparedVersion) -> str | None:
    """Return why it cannot be said whether a Version keeps what is promised over an earlier one; None: it can."""
    judgement = judge_versions(kind, before, after)
    if judgement is None:
        return why_not_compared(kind, before, after)
    unknown = [difference for difference in judgement.reasons() if difference.breaks.worst == Answer.UNKNOWN]
    return unknown[0].sentence if unknown else None
