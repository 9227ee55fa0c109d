"""A page of evidence for the proposals of one group, in Markdown: for each attribute how often it was there, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lakehouse.match.definition.valuetypes import is_attribute_name
from lakehouse.propose.decided import Observed, Thresholds, share
from lakehouse.propose.pathcounts import DATA, ENVELOPE, ITEM, MEMBER, OPTIONS, SEGMENT, name_in
from lakehouse.propose.payloadschema import examples_of
from lakehouse.propose.proposals import ProposedGroup, ProposedKind
from lakehouse.propose.widening import WidenedVersion

_LONGEST = 80
_MOST_SOURCES = 3
_MARKS = re.compile(r"[\\`*_{}\[\]<>()#+!|~]")
_BLANKS = re.compile(r"\s+")


def evidence_page(name: str, group: ProposedGroup, thresholds: Thresholds) -> str:
    """Return the page of a group."""
    lines = [
        f"# Proposed: {_plain(name)}",
        "",
        "Proposed from events; review before you publish. An attribute is required if all of at least "
        f"{thresholds.required_events:,} objects on at least {thresholds.required_days} days had it.",
    ]
    for kind in group.kinds:
        lines += ["", f"## {_plain(kind.observed.kind)}", "", _summary(kind), ""]
        lines += ["| attribute | type | seen | required | value or examples |", "|---|---|---|---|---|"]
        lines += _rows(kind, thresholds)
        lines += [f"\nNot declared, too rare: {outlier}." for outlier in _outliers(kind)]
        names = map(name_in, kind.observed.members.get(ENVELOPE, ()))
        lines += [
            f"\nNot declared, since names of CloudEvents attributes are of lower-case letters and digits: {_plain(name)}."
            for name in names
            if not is_attribute_name(name)
        ]
    for version in group.widened:
        lines += ["", *_widened(version)]
    return "\n".join(lines) + "\n"


def _widened(version: WidenedVersion) -> Iterator[str]:
    """Yield the lines about a schema that events break: each difference, and whom it breaks."""
    yield f"## Schema {_plain(version.broken.schema_xid)}, Version {_plain(version.versionid)}\n"
    kinds = ", ".join(_plain(observed.kind) for observed in version.observed)
    yield f"{version.events:,} events break {_plain(version.broken.xid)} of {_plain(version.broken.registryid)}: {kinds}.\n"
    if version.is_changed:
        yield "| member | difference | judgement | why |"
        yield "|---|---|---|---|"
    else:
        yield "No new Version is proposed."
    for difference in version.judgement.differences:
        cells = (difference.pointer or "the whole", difference.what, difference.breaks.worst_word, difference.reason)
        yield f"| {' | '.join(map(_text, cells))} |"
    for left in version.widened.undecided:
        yield f"\nCounts do not show whether events break this: {_plain(left)}."


def _summary(kind: ProposedKind) -> str:
    days = kind.observed.seen_on("")
    when = f" on {len(days)} days, {days[0]} to {days[-1]}" if len(days) > 1 else f" on {days[0]}" if days else ""
    sources = kind.observed.types(f"{ENVELOPE}/source").get("string")
    producers = f", of {sources.distinct:,} sources" if sources else ""
    return f"{kind.events:,} events{when}{producers}."


def _rows(kind: ProposedKind, thresholds: Thresholds) -> Iterator[str]:
    observed = kind.observed
    paths = sorted({path for path, _ in observed.counts if path.startswith((ENVELOPE, OPTIONS, DATA)) and SEGMENT not in path})
    for path in paths:
        if name_in(path) in (MEMBER, ITEM) or path in (ENVELOPE, DATA) or (path.startswith(OPTIONS) and path.count("/") < 3):
            continue
        seen = observed.presence(path)
        types = observed.types(path)
        cells = (
            _plain(path), ", ".join(f"{kind} {share(path_counts.events, seen.events)}" if len(types) > 1 else kind
                                    for kind, path_counts in types.items()),
            f"{share(seen.events, seen.parents)} of {seen.parents:,}{_sources(observed, observed.producers(path))}",
            _required(observed, path, thresholds), _values(kind, path, thresholds),
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"


def _outliers(kind: ProposedKind) -> Iterator[str]:
    for place, times in kind.payload.outliers.items():
        path, _, of_type = place.rpartition(" ")
        counts = kind.observed.counts.get((path, of_type))
        yield f"{_plain(place)} ({times:,}{_sources(kind.observed, counts.producers) if counts else ''})"


def _sources(observed: Observed, producers: frozenset[str] | None) -> str:
    """Return from which sources something came, where others did not send it; empty: all did, or it is not known."""
    of_kind = observed.producers("")
    if not producers or not of_kind or producers == of_kind:
        return ""
    shown = ", ".join(map(_plain, sorted(producers)[:_MOST_SOURCES]))
    return f", from {len(producers)} of {len(of_kind)} sources: {shown}{', …' if len(producers) > _MOST_SOURCES else ''}"


def _required(observed: Observed, path: str, thresholds: Thresholds) -> str:
    if observed.is_required(path, thresholds):
        return "yes"
    seen = observed.presence(path)
    if seen.events < seen.parents:
        return f"no: absent from {seen.parents - seen.events:,}"
    if seen.parents < thresholds.required_events:
        return f"no: only {seen.parents:,} objects"
    return f"no: only {seen.days} days"


def _values(kind: ProposedKind, path: str, thresholds: Thresholds) -> str:
    text = kind.texts.get(path)
    if text is not None:
        return _plain(text)
    values = [text for counts in kind.observed.types(path).values() for text in examples_of(counts, thresholds)]
    distinct = sum(counts.distinct for kind_of, counts in kind.observed.types(path).items() if kind_of not in ("object", "array"))
    return ", ".join(map(_plain, values)) if values else f"{distinct:,} distinct" if distinct else ""


def _plain(text: str) -> str:
    """Return a text of events as Markdown that shows it, and is nothing else: one line, cut, marks escaped."""
    return _text(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def _text(text: str) -> str:
    """Return a text as one line of Markdown that shows it."""
    short = _BLANKS.sub(" ", text)
    return _MARKS.sub(lambda mark: f"\\{mark[0]}", short).replace("&", "&amp;").replace("\\<", "&lt;")
