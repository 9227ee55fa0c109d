"""Values and templates of a kind's attributes, by what their texts held.

A text that was always the same is a value. Else its segments are aligned: those that were always the same are literal, the
others are placeholders. A placeholder is named after the member of the payload or the attribute that held the same text; two have
one name only if they always held the same text, since a definition requires that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.pathcounts import DATA, SEGMENT, PathCounts, looks_like_id, name_in, segment

_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")
_NUMBERED = re.compile(r"[-_:]\d+\Z")
_MOST_SEGMENTS = 16
_ALIKE = 0.5  # of the compared events, for a name


class AlignedText(NamedTuple):
    """A text as literals and holes.

    Attributes:
        parts: of each segment its text, and the path of its counts; a hole has no text.
        separator: between them.
    """

    parts: tuple[tuple[str | None, str], ...]
    separator: str

    @property
    def holes(self) -> list[str]:
        """Return the paths of the placeholders."""
        return [path for text, path in self.parts if text is None]


def aligned(observed: Observed, path: str, separator: str, thresholds: Thresholds) -> AlignedText | None:
    """Align the texts of an attribute; None: it did not hold texts alone."""
    types = observed.types(path)
    whole = types.get("string")
    if set(types) != {"string"} or whole is None:
        return None
    literal = _literal(whole, thresholds)
    if literal is not None and separator not in literal:
        return AlignedText(((literal, path),), separator)
    lengths = [count for count in range(2, _MOST_SEGMENTS + 1) if observed.types(segment(path, count, 0))]
    if len(lengths) != 1 or observed.events(segment(path, lengths[0], 0)) != whole.events:
        return AlignedText(((literal, path),), separator)
    places = [segment(path, lengths[0], index) for index in range(lengths[0])]
    parts = [(_literal(observed.counts[place, "string"], thresholds), place) for place in places]
    if literal is not None and all(text is not None for text, _ in parts):
        return AlignedText(((literal, path),), separator)
    is_uri = parts[1][0] == "" and (parts[0][0] is None or parts[0][0].endswith(":"))
    if is_uri and not any(text for text, _ in parts[1:]):  # nothing but the scheme is the same
        return AlignedText(((None, path),), separator)
    return AlignedText(tuple(parts), separator)


def _literal(counts: PathCounts, thresholds: Thresholds) -> str | None:
    """Return the text that was always there; None: it varied, or too few events were seen to say that an id does not."""
    text = counts.constant
    if text is None or "{" in text or "}" in text:
        return None
    if counts.events >= thresholds.sure_events:
        return text
    is_payload = any(path.startswith(DATA) and times == counts.compared for path, times in counts.equals.items())
    is_one_of_many = looks_like_id(text) or _NUMBERED.search(text) is not None or (text != "" and is_payload)
    return None if counts.events < thresholds.constant_events or is_one_of_many else text


def written(texts: Mapping[str, AlignedText], observed: Observed, thresholds: Thresholds) -> dict[str, str]:
    """Write the texts of a kind's attributes as values and templates, with names for their placeholders.

    Args:
        texts: by path.
        observed: the kind.
        thresholds: how many events say that a text does not vary.
    """
    texts = _opened(texts, observed, thresholds)
    names: dict[str, str] = {}
    holes = [hole for path in sorted(texts) for hole in texts[path].holes]
    used: set[str] = set()
    for hole in holes:
        same = next((names[other] for other in names if _always_equal(observed, hole, other)), None)
        names[hole] = same or _free(_name(observed, hole), used)
        used.add(names[hole])
    return {
        path: aligned.separator.join(f"{{{names[place]}}}" if text is None else text for text, place in aligned.parts)
        for path, aligned in texts.items()
    }


def _opened(texts: Mapping[str, AlignedText], observed: Observed, thresholds: Thresholds) -> dict[str, AlignedText]:
    """Make holes of texts that were the same in few events, and always equal to one that varies."""
    holes = {hole for aligned in texts.values() for hole in aligned.holes}
    while True:
        more = {
            place
            for aligned in texts.values()
            for text, place in aligned.parts
            if text and place not in holes and observed.counts[place, "string"].events < thresholds.sure_events
            and any(_always_equal(observed, place, hole) for hole in holes if hole in observed.counts[place, "string"].equals)
        }  # fmt: skip
        if not more:
            break
        holes |= more
    return {
        path: AlignedText(tuple((None if place in holes else text, place) for text, place in aligned.parts), aligned.separator)
        for path, aligned in texts.items()
    }


def _always_equal(observed: Observed, path: str, other: str) -> bool:
    counts, others = observed.counts[path, "string"], observed.counts[other, "string"]
    events = min(counts.compared, others.compared)
    return events > 0 and counts.equals.get(other, 0) == events


def _name(observed: Observed, hole: str) -> str:
    """Return the name of the member or attribute that held the same text, else that of the attribute."""
    counts = observed.counts[hole, "string"]
    alike = [(-times, not path.startswith(DATA), path.count("/"), path) for path, times in counts.equals.items()]
    best = next((path for times, _, _, path in sorted(alike) if -times >= _ALIKE * counts.compared), None)
    if best is not None and SEGMENT not in best:
        return _plain(name_in(best))
    attribute, _, place = hole.partition(SEGMENT)
    return _plain(name_in(attribute)) + (f"_{int(place.partition('/')[2]) + 1}" if place else "")


def _plain(name: str) -> str:
    return _NO_NAME.sub("_", name.rpartition("/")[2]).strip("_") or "value"


def _free(name: str, used: set[str]) -> str:
    number = 2
    free = name
    while free in used:
        free, number = f"{name}_{number}", number + 1
    return free
