"""Binary CloudEvents of Kafka, counted column by column as `EventCounter.add` counts events.

Records whose headers have the same names in the same order are alike: one of them says what the others are. Records of one kind
and day are counted together, their payloads as JSON objects in columns; the first of them, whose texts are compared, and whatever
is odd are left to Python.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.dialects.tables import PROTOCOLS, address_separator
from lakehouse.match.definition.compiled import escape
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.match.event.canonical import ELSEWHERE, KEY_SCHEMA_ID, SCHEMA_ID, STRUCTURED, Event, events_of
from lakehouse.match.vectorized.batch import landed_of_row
from lakehouse.match.vectorized.columns import AlikePairs, are_alike, as_texts
from lakehouse.propose.kinds import MODE, PROTOCOL, SAMPLE, EventCounter, count_segments, may_be_template, options_of
from lakehouse.propose.pathcounts import (
    CONTENT_TYPE,
    DATA,
    ENVELOPE,
    ITEM,
    MOST_DEPTH,
    MOST_VALUES,
    OPTIONS,
    KindCounts,
    add_lengths,
    child,
    may_be_stored,
)
from lakehouse.text.objectcolumns import FEWEST, Flags, ReadObjects, Rows
from lakehouse.text.values import media_type

_JSON_TYPES = {"struct": "object", "list": "array", "string": "string", "bool": "boolean", "int64": "integer", "double": "number",
               "null": "null"}  # fmt: skip
FAMILY = "KAFKA"
_START, _TYPE = PROTOCOLS[FAMILY].ce_attributes, PROTOCOLS[FAMILY].content_type
_MOST_SHAPES = 50
_UNUSUAL = frozenset({SCHEMA_ID, KEY_SCHEMA_ID, ELSEWHERE})
Texts = dict[str, pa.Array]


def count_objects(counts: KindCounts, path: str, objects: pa.StructArray, has_nulls: Flags) -> None:
    """Count objects at a path, and what they hold below it; none is null.

    Args:
        counts: of their kind and day.
        path: where they are.
        objects: in columns.
        has_nulls: of which objects the empty cells are nulls.
    """
    own, cells = counts.at(path, "object"), objects.flatten()
    own.events += len(objects)
    are_present = [cell.is_valid().to_numpy(zero_copy_only=False) | has_nulls for cell in cells]
    widths = np.sum(are_present, axis=0) if are_present else np.zeros(1, np.int64)
    add_lengths(own, [int(widths.min()), int(widths.max())])
    if path.count("/") < MOST_DEPTH:
        for field, cell, is_there in zip(objects.type, cells, are_present, strict=True):
            if is_there.any():
                count_cells(counts, counts.place(path, field.name), cell, has_nulls)


def count_cells(counts: KindCounts, path: str, cells: pa.Array, has_nulls: Flags) -> None:
    """Count the cells of a column at a path: of empty ones those that are nulls."""
    if cells.null_count:
        is_there = cells.is_valid().to_numpy(zero_copy_only=False)
        nulls = int((has_nulls & ~is_there).sum())
        if nulls:
            counts.add_events(path, "null", nulls)
        cells, has_nulls = cells.drop_null(), has_nulls[is_there]
    if not len(cells):
        return
    if pa.types.is_struct(cells.type):
        count_objects(counts, path, cells, has_nulls)
    elif pa.types.is_list(cells.type):
        _count_lists(counts, path, cells, has_nulls)
    elif pa.types.is_string(cells.type):
        counts.count_text_column(path, cells)
    elif pa.types.is_boolean(cells.type):
        own = counts.at(path, "boolean")
        own.events += len(cells)
        counts.keep(path, own, {as_text(value): times for value, times in times_of(cells).items()})
    else:
        _count_numbers(counts, path, cells)


def _count_lists(counts: KindCounts, path: str, lists: pa.ListArray, has_nulls: Flags) -> None:
    own, lengths = counts.at(path, "array"), lists.value_lengths().to_numpy()
    own.events += len(lists)
    add_lengths(own, [int(lengths.min()), int(lengths.max())])
    items = lists.flatten()
    if not len(items) or path.count("/") >= MOST_DEPTH:
        return
    has_nulls = has_nulls[pc.list_parent_indices(lists).to_numpy()]
    if items.null_count:
        counts.add_events(f"{path}/{ITEM}", "null", items.null_count)
        items, has_nulls = items.drop_null(), has_nulls[items.is_valid().to_numpy(zero_copy_only=False)]
    count_cells(counts, f"{path}/{ITEM}", items, has_nulls)


def times_of(column: pa.Array) -> dict[Any, int]:
    """Return how often each value of a column was there; none is null."""
    counted = column.value_counts()
    return dict(zip(counted.field(0).to_pylist(), counted.field(1).to_pylist(), strict=True))


def _count_numbers(counts: KindCounts, path: str, column: pa.Array) -> None:
    own = counts.at(path, json_type(column.type))
    own.events += len(column)
    is_few = own.values is not None and pc.count_distinct(column).as_py() <= MOST_VALUES
    counts.keep_numbers(path, own, column.to_numpy().astype(np.float64), times_of(column) if is_few else None)


def json_type(kind: pa.DataType) -> str:
    """Return the JSON type of the values of a column."""
    return _JSON_TYPES[str(kind).partition("<")[0]]


@dataclass(frozen=True)
class AlikeRecords:
    """Records that are alike.

    Attributes:
        rows: their numbers in the batch.
        probe: the first as an event.
        options: the texts of each option.
        attributes: the texts of each attribute of the envelope.
    """

    rows: Rows
    probe: Event
    options: Texts
    attributes: Texts

    def at(self, places: Rows) -> AlikeRecords:
        """Return some of the records."""
        at = pa.array(places)
        options, attributes = (
            {name: texts.take(at) for name, texts in columns.items()} for columns in (self.options, self.attributes)
        )
        return AlikeRecords(self.rows[places], self.probe, options, attributes)


def count_records(batch: pa.RecordBatch, counter_of: Callable[[int], EventCounter]) -> Flags:
    """Count events that are counted column by column; return which rows of the batch were."""
    done = np.zeros(batch.num_rows, bool)
    days = pc.fill_null(pc.strftime(batch.column("landed_at"), "%Y-%m-%d"), "")
    ordinals, bodies = pc.fill_null(batch.column("ordinal"), 0), batch.column("payload")
    for records in _alike(batch):
        at = pa.array(records.rows)
        kinds, day = records.attributes["type"], days.take(at)
        if "time" in records.attributes:
            day = pc.if_else(pc.equal(day, ""), pc.utf8_slice_codeunits(records.attributes["time"], 0, 10), day)
        for ordinal, kind, on, places in _together(ordinals.take(at), kinds, day):
            if len(places) >= FEWEST and not kind.startswith(FAMILY):
                counter = counter_of(ordinal)
                counts = counter.kinds.setdefault((kind, on), KindCounts(counter.keeps_values))
                later = places[max(0, SAMPLE - counts.sampled) :]
                for part in counter.readers[kind].read(bodies.take(pa.array(records.rows[later]))):
                    same = records.at(later[part.rows])
                    _count(counts, same, part)
                    done[same.rows] = True
    return done


def _together(ordinals: pa.Array, kinds: pa.Array, days: pa.Array) -> Iterator[tuple[int, str, str, Rows]]:
    """Yield the numbers of the records of each source, kind and day, in their order."""
    table = pa.table({"ordinal": ordinals, "kind": kinds, "day": days, "row": np.arange(len(kinds))})
    for row in table.group_by(["ordinal", "kind", "day"], use_threads=False).aggregate([("row", "list")]).to_pylist():
        yield row["ordinal"], row["kind"], row["day"], np.array(row["row_list"])


def _alike(batch: pa.RecordBatch) -> Iterator[AlikeRecords]:
    """Yield records that are alike, each at most once."""
    is_plain = pc.fill_null(pc.equal(batch.column("protocol"), FAMILY), False)
    for name, is_there in (("problem", False), ("line", False), ("ce", False), ("headers", True), ("payload", True)):
        column = batch.column(name)
        is_plain = pc.and_(is_plain, pc.is_valid(column) if is_there else pc.is_null(column))
    options, captured = batch.column("options"), batch.column("captured")
    names, values = options.flatten().flatten()
    if values.null_count or not (are_alike(options, names) and are_alike(captured, captured.flatten())):
        return
    option_names = names.slice(0, len(names) // len(options)).to_pylist()
    pairs = AlikePairs(option_names, values)
    headers, key = batch.column("headers"), as_texts(batch.column("key"))[0]
    named, texts = headers.flatten().flatten()
    texts = as_texts(texts)[0]
    starts, widths = headers.offsets.to_numpy() - headers.offsets[0].as_py(), pc.fill_null(headers.value_lengths(), 0).to_numpy()
    parents = np.repeat(np.arange(len(headers)), widths)
    plain = is_plain.to_numpy(zero_copy_only=False).copy()
    plain[parents[~pc.and_(texts.is_valid(), named.is_valid()).to_numpy(zero_copy_only=False)]] = False
    plain &= (key.is_valid().to_numpy(zero_copy_only=False)) | pc.is_null(batch.column("key")).to_numpy(zero_copy_only=False)
    encoded = named.dictionary_encode()
    codes, words = pc.fill_null(encoded.indices, 0).to_numpy(), encoded.dictionary.to_pylist()
    has_key = key.is_valid().to_numpy(zero_copy_only=False)
    for width in np.unique(widths[plain]).tolist():
        rows = np.nonzero(plain & (widths == width))[0]
        shapes = np.column_stack([codes[starts[rows, None] + np.arange(width)], has_key[rows]])
        for _ in range(_MOST_SHAPES):
            if len(rows) < FEWEST:
                break
            shape, is_same = shapes[0], (shapes == shapes[0]).all(axis=1)
            of_shape, rows, shapes = rows[is_same], rows[~is_same], shapes[~is_same]
            at = pa.array(of_shape)
            columns = {f"headers/{escape(words[code])}": texts.take(pa.array(starts[of_shape] + place))
                    for place, code in enumerate(shape[:-1])}  # fmt: skip
            columns |= {name: pairs.column(name, of_shape)[0] for name in option_names}
            if shape[-1]:
                encoded = [b64encode(value).decode() for value in batch.column("key").take(at).to_pylist()]
                columns |= {"key": key.take(at), "key_base64": pa.array(encoded, pa.string())}
            yield from _records(batch, of_shape, columns)


def _records(batch: pa.RecordBatch, rows: Rows, columns: Texts) -> Iterator[AlikeRecords]:
    """Yield records, as the first of them is read, if it is a binary CloudEvent; those that are structured are left."""
    (row,) = batch.slice(int(rows[0]), 1).to_pylist()
    probe = next(event for landed in landed_of_row(row) for event in events_of(landed))
    is_usual = probe.mode == "binary" and not probe.repeated and _UNUSUAL.isdisjoint(probe.options)
    if not is_usual or not probe.options.keys() <= columns.keys():
        return
    options = {name: columns[name] for name in probe.options}
    attributes = {name[len(_START) :]: texts for name, texts in options.items() if name.startswith(_START)}
    if _TYPE in options:
        attributes.setdefault("datacontenttype", options[_TYPE])
    if "type" not in attributes:
        return
    usual = pc.not_equal(attributes["type"], "")
    if _TYPE in options:
        words = options[_TYPE].unique().to_pylist()
        envelopes = [word for word in words if media_type(word)[0].startswith(STRUCTURED)]
        usual = pc.and_(usual, pc.invert(pc.is_in(options[_TYPE], pa.array(envelopes, pa.string()))))
    records = AlikeRecords(rows, probe, options, attributes)
    yield records.at(np.nonzero(usual.to_numpy(zero_copy_only=False))[0])


def _count(counts: KindCounts, records: AlikeRecords, part: ReadObjects) -> None:
    """Count records of one kind and day, whose payloads are in columns."""
    own, size, separator = counts.at("", "object"), len(records.rows), address_separator(FAMILY)
    own.events += size
    add_lengths(own, [0])
    options = {name: records.options[name] for name in options_of(records.probe)}
    for path, columns in ((ENVELOPE, records.attributes), (child(OPTIONS, FAMILY), options)):
        own = counts.at(path, "object")
        own.events += size
        add_lengths(own, [len(columns)])
        for name, texts in columns.items():
            counts.count_text_column(counts.place(path, name), texts)
            if may_be_template(path, name):
                parted = texts.filter(pc.match_substring(texts, separator))
                count_segments(counts, child(path, name), times_of(parted), separator)
    if "datacontenttype" in records.attributes:
        present = {text: times for text, times in times_of(records.attributes["datacontenttype"]).items() if text}
        if present:
            counts.count_texts(CONTENT_TYPE, present)
    counts.count_texts(MODE, {"binary": size})
    counts.count_texts(PROTOCOL, {FAMILY: size})
    count_objects(counts, DATA, part.objects, part.has_nulls)
    _count_producers(counts, records, part)


def _count_producers(counts: KindCounts, records: AlikeRecords, part: ReadObjects) -> None:
    """Count which sources sent the events, their attributes, and the members of their payloads."""
    sources = records.attributes.get("source", pa.repeat("", len(records.rows))).dictionary_encode()
    words, codes = sources.dictionary.to_pylist(), sources.indices.to_numpy()
    if not counts.keeps_values or len(words) > MOST_VALUES or not all(map(may_be_stored, words)):
        counts.drop_producers()
        return
    for path, kind in (("", "object"), *((child(ENVELOPE, name), "string") for name in records.attributes)):
        counts.add_producer(path, kind, words)
    for field, cells in zip(part.objects.type, part.objects.flatten(), strict=True):
        is_there = cells.is_valid().to_numpy(zero_copy_only=False)
        for kind, which in ((json_type(field.type), is_there), ("null", part.has_nulls & ~is_there)):
            counts.add_producer(child(DATA, field.name), kind, [words[code] for code in np.unique(codes[which]).tolist()])
