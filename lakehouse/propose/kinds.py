"""Which kind an event is of, and the counts of many events by kind and day.

A CloudEvent is of the kind that its `type` names. Another event is of the kind of its address, with ids cut out, and, where
records of several shapes share the address, of the value of the header or member that distinguishes them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import orjson

from lakehouse.dialects.tables import PROTOCOLS, address_separator
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.canonical import ELSEWHERE, PLACES, Event, unpacked
from lakehouse.propose.discriminators import Discriminators, SharedAddresses, distinguishing, kind_at
from lakehouse.propose.pathcounts import (
    CONTENT_TYPE,
    DATA,
    ENVELOPE,
    MOST_VALUES,
    OPTIONS,
    Counts,
    KindCounts,
    Sent,
    child,
    columns_of_shapes,
    is_secret,
    looks_like_id,
    may_be_stored,
    segment,
)
from lakehouse.text.jsontext import read_exactly
from lakehouse.text.objectcolumns import ObjectReader

MODE, PROTOCOL = "/mode", "/protocol"
SAMPLE = 200  # events of a kind whose texts are compared, in each part of the input
_MOST_SEGMENTS = 16
SentEvent = tuple[Event, Any]  # with its payload
_NOT_TEMPLATES = ("id", "time", "type", "specversion")


@dataclass
class EventCounter:
    """Counts of events, by kind and day.

    Attributes:
        keeps_values: whether values may be kept.
        discriminators: for addresses that several kinds share.
        kinds: the counts; the day is empty where nobody knows it.
        shared: shapes of events that only their address gives a kind.
        readers: what is known of the payloads of each kind.
    """

    keeps_values: bool = True
    discriminators: Discriminators = field(default_factory=dict)
    kinds: dict[tuple[str, str], KindCounts] = field(default_factory=dict)
    shared: SharedAddresses = field(default_factory=SharedAddresses)
    readers: defaultdict[str, ObjectReader] = field(default_factory=lambda: defaultdict(ObjectReader))

    def add(self, events: Iterable[tuple[Event, str]]) -> None:
        """Count events, each with its day; one without a day has that of its `time`."""
        by_kind: defaultdict[tuple[str, str], list[SentEvent]] = defaultdict(list)
        for event, day in events:
            payload = payload_of(event)
            by_kind[kind_of(event, payload, self.discriminators), day or as_text(event.ce.get("time", ""))[:10]].append(
                (event, payload)
            )
        for key, same in by_kind.items():
            if self.keeps_values and key[0] == address_of(same[0][0]) and key[0] not in self.discriminators:
                self.shared.count(key[0], same)
            counts = self.kinds.setdefault(key, KindCounts(self.keeps_values))
            _count(counts, same)
            _count_producers(counts, same)

    @property
    def by_kind(self) -> dict[str, dict[str, Counts]]:
        """Return the counts of each kind, by day."""
        found: dict[str, dict[str, Counts]] = {}
        for kind, day in sorted(self.kinds):
            found.setdefault(kind, {})[day] = self.kinds[kind, day].counts
        return found


def kind_of(event: Event, payload: Any, discriminators: Discriminators) -> str:
    """Return the kind of an event: its CloudEvents type, else its address without ids, and what distinguishes kinds there."""
    kind = event.ce.get("type")
    if isinstance(kind, str) and kind:
        return kind
    address = address_of(event)
    path = discriminators.get(address)
    if path is None:
        return address
    value = distinguishing(event, payload).get(path)
    return address if value is None else kind_at(address, path, value)


def address_of(event: Event) -> str:
    """Return the protocol and address of an event; a segment that looks like an id is `{}`."""
    separator = address_separator(event.family)
    cut = ("{}" if looks_like_id(part) else part for part in (event.address or "").split(separator))
    return f"{event.family or 'unknown'} {separator.join(cut)}"


def payload_of(event: Event) -> Any:
    """Return the payload as a JSON value; bytes where it is no JSON, None where there is none."""
    if event.has_data:
        is_text = isinstance(event.data, str) and event.data[:1] in ("{", "[")
        return _json(event.data.encode()) if is_text else event.data
    if not event.body:
        return None
    encoding = event.options.get(PLACES.get(event.family or "", ELSEWHERE))
    try:
        return _json(event.body if encoding is None else unpacked(event.body, as_text(encoding)))
    except ValueError:  # bytes of an unknown encoding
        return event.body


def options_of(event: Event) -> dict[str, Any]:
    """Return the protocol options of an event that do not carry its CloudEvents attributes."""
    options = event.options
    return {name: options[name] for name in _own_options(event.family, tuple(options), tuple(event.ce))}


@lru_cache(10_000)
def _own_options(family: str | None, names: tuple[str, ...], attributes: tuple[str, ...]) -> tuple[str, ...]:
    """Return which options do not carry CloudEvents attributes: events of a sender are alike, so it is decided once."""
    starts = PROTOCOLS[family].ce_attributes.split() if family in PROTOCOLS else []
    content = PROTOCOLS[family].content_type if family in PROTOCOLS else ""

    def carries(name: str, start: str) -> bool:  # MQTT has no prefix for attributes
        return name.lower().startswith(start.lower()) and (not start.endswith("/") or name[len(start) :] in attributes)

    return tuple(name for name in names if name != content and not any(carries(name, start) for start in starts))


def _json(body: bytes) -> Any:
    try:
        return read_exactly(body)
    except orjson.JSONDecodeError:
        return body


def _count(counts: KindCounts, same: list[SentEvent]) -> None:
    """Count events of one kind and day."""
    counts.count("", [{}] * len(same))
    by_family: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for event, _ in same:
        if event.family:
            by_family[event.family].append(options_of(event))
    objects = {ENVELOPE: [event.ce for event, _ in same if event.ce]}
    objects |= {child(OPTIONS, family): options for family, options in by_family.items()}
    separators = {child(OPTIONS, family): address_separator(family) for family in by_family}
    separators[ENVELOPE] = address_separator(same[-1][0].family)
    for path, members in objects.items():
        if members:
            counts.count(path, members)
            _count_segments(counts, path, members, separators[path])
    _count_whole(counts, same)
    payloads = [payload for _, payload in same if payload is not None]
    texts = [payload for payload in payloads if not isinstance(payload, bytes)]
    if texts:
        counts.count(DATA, texts)
    if len(texts) < len(payloads):
        counts.add_events(DATA, "binary", len(payloads) - len(texts))
    for event, payload in same[: max(0, SAMPLE - counts.sampled)]:
        _compare(counts, event, payload)


def _count_producers(counts: KindCounts, same: list[SentEvent]) -> None:
    """Count which sources sent the events, their attributes, and the members of their payloads."""
    sources = {as_text(event.ce.get("source", "")) for event, _ in same}
    if not counts.keeps_values or len(sources) > MOST_VALUES or not all(map(may_be_stored, sources)):
        counts.drop_producers()
        return
    envelopes, payloads = set[Sent](), set[Sent]()
    for event, payload in same:
        source = as_text(event.ce.get("source", ""))
        envelopes.add((source, tuple(event.ce), tuple(map(type, event.ce.values()))))
        if isinstance(payload, dict):
            payloads.add((source, tuple(payload), tuple(map(type, payload.values()))))
    counts.counts["", "object"].add_producers(frozenset(sources))
    counts.add_producers(ENVELOPE, envelopes)
    counts.add_producers(DATA, payloads)


def _count_whole(counts: KindCounts, same: list[SentEvent]) -> None:
    """Count what an event has as a whole: content type, mode, protocol with its version."""
    for path, texts in (
        (CONTENT_TYPE, [event.data_content_type() for event, _ in same]),
        (MODE, [event.mode for event, _ in same]),
        (PROTOCOL, [f"{event.family}/{event.version}" if event.version else event.family for event, _ in same]),
    ):
        present = Counter(text for text in texts if text)
        if present:
            counts.count_texts(path, present)


def _count_segments(counts: KindCounts, path: str, members: Iterable[dict[str, Any]], separator: str) -> None:
    """Count the segments of attributes or options that may be templates."""
    columns: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for names, column in columns_of_shapes(members):
        for name, values in zip(names, column, strict=True):
            if may_be_template(path, name):
                columns[name].update(text for text in values if isinstance(text, str) and separator in text)
    for name, texts in columns.items():
        count_segments(counts, child(path, name), texts, separator)


def count_segments(counts: KindCounts, path: str, texts: Mapping[str, int], separator: str) -> None:
    """Count the segments of the texts at a path."""
    for place, parts in _segments(texts, path, separator):
        counts.count_texts(place, parts)


@lru_cache(10_000)
def may_be_template(path: str, name: str) -> bool:
    """Return whether an attribute or an option may hold parts of other texts, and is no secret."""
    return name not in (_NOT_TEMPLATES if path == ENVELOPE else ("key_base64",)) and not is_secret(child(path, name))


def _texts(event: Event) -> Iterator[tuple[str, str]]:
    """Yield the attributes of the envelope and the options that may be templates, by path."""
    places = [(ENVELOPE, event.ce)]
    if event.family:
        places.append((child(OPTIONS, event.family), options_of(event)))
    for path, members in places:
        for name, text in members.items():
            if isinstance(text, str) and text and may_be_template(path, name):
                yield child(path, name), text


def _segments(texts: Mapping[str, int], path: str, separator: str) -> Iterator[tuple[str, Counter[str]]]:
    """Yield the segments of texts, by path: those of texts with as many segments together."""
    by_place: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text, times in texts.items():
        parts = text.split(separator)
        if 1 < len(parts) <= _MOST_SEGMENTS:
            for index, part in enumerate(parts):
                by_place[segment(path, len(parts), index)][part] += times
    yield from by_place.items()


def _compare(counts: KindCounts, event: Event, payload: Any) -> None:
    """Count which attributes, segments and members of the payload hold the same text."""
    counts.sampled += 1
    separator = address_separator(event.family)
    texts = list(_texts(event))
    texts += [(place, part) for path, text in texts for place, parts in _segments({text: 1}, path, separator) for part in parts]
    holders: defaultdict[str, list[str]] = defaultdict(list)
    for path, text in texts:
        holders[text].append(path)
    for path, text in _scalars(payload, DATA):
        holders[text].append(path)
    for path, text in texts:
        if text:
            counts.add_equals(path, [other for other in holders[text] if other != path])


def _scalars(value: Any, path: str, depth: int = 3) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and depth:
        for name, member in value.items():
            yield from _scalars(member, child(path, name), depth - 1)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield path, as_text(value)
