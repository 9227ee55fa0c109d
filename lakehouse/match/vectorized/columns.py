"""A batch of captured events as columns: options of a protocol and attributes of CloudEvents, each distinct text once.

Three kinds of rows are read so: binary CloudEvents, structured ones whose content type says so, and CloudEvents as lines of JSON.
What is in a JSON text is read once, for matching and for the payload. Rows of other shapes are in none of these columns.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.dialects.tables import PROTOCOLS, Protocol
from lakehouse.match.definition.compiled import unescape
from lakehouse.match.event.canonical import BATCH, ELSEWHERE, KEY_SCHEMA_ID, PLACES, SCHEMA_ID, STRUCTURED, Event
from lakehouse.match.event.captured import AMQP_SECTIONS, SECRET_HEADERS
from lakehouse.match.index import DISCRIMINATORS
from lakehouse.text.jsontext import read_exactly
from lakehouse.text.values import media_type

Rows = np.ndarray[Any, Any]  # numbers of rows, or a verdict for each
_LOOKED_AT = 512  # texts that show whether a column repeats itself
FEWEST_ROWS = 64
_MOST_BYTES = 2**23  # of JSON texts that are open at a time: as values they take several times as much
_AT_ONCE = 256  # events whose usual attributes are taken while they are in the processor's cache
_USUAL = ("type", "source", "id", "specversion", "subject", "time", "datacontenttype")
_CORE = ("type", "source", "id", "datacontenttype")
_DISTINCT = ("type", "datacontenttype")  # which distinguish rows


class Captures(NamedTuple):
    """Texts of rows that are in a column.

    Attributes:
        values: the column.
        at: for each row the number of its text there; below 0: it has none.
    """

    values: pa.Array
    at: Rows

    def take(self, rows: Rows) -> Captures:
        """Return the texts of some of the rows."""
        return Captures(self.values, self.at[rows])

    def differs(self, other: Captures) -> Rows:
        """Return which rows have another text there; rows that have none do not count."""
        if self.values is other.values:
            result: Rows = self.at != other.at
            return result & _not_equal(self, other) if result.any() else result
        return _not_equal(self, other)


def _not_equal(first: Captures, other: Captures) -> Rows:
    texts = (captures.values.take(pa.array(captures.at, mask=captures.at < 0)) for captures in (first, other))
    result: Rows = pc.fill_null(pc.not_equal(*texts), False).to_numpy(zero_copy_only=False)
    return result


class TextColumn:
    """The texts of one option or attribute over rows.

    Attributes:
        words: the texts; each is there once, where the column repeats itself.
        codes: for each row the number of its text; `len(words)`: it has none.
        odd: the rows whose value is JSON, but no text; they have no text here. None: there are none.
    """

    def __init__(self, words: pa.Array, codes: Rows, odd: Rows | None = None, column: pa.Array | None = None) -> None:
        self.words, self.codes, self.odd, self._column = words, codes, odd, column

    @classmethod
    def of(cls, values: pa.Array, odd: Rows | None = None, *, distinct: bool = False) -> TextColumn:
        """Take each text of a column once; where few repeat themselves as they are, but when all are to be `distinct`."""
        seen = values.slice(0, _LOOKED_AT)
        if distinct or len(seen) < _LOOKED_AT or len(seen.unique()) <= _LOOKED_AT // 2:
            encoded = values.dictionary_encode()
            codes = encoded.indices
            codes = pc.fill_null(codes, len(encoded.dictionary)) if codes.null_count else codes
            return cls(encoded.dictionary, codes.to_numpy(), odd, values)
        if not values.null_count:
            return cls(values, np.arange(len(values)), odd, values)
        is_there, words = values.is_valid().to_numpy(zero_copy_only=False), values.drop_null()
        return cls(words, np.where(is_there, np.cumsum(is_there) - 1, len(words)), odd, values)

    @cached_property
    def distinct(self) -> list[str | None]:
        """Return the texts, and None behind them for the rows that have none."""
        return [*self.words.to_pylist(), None]

    @property
    def is_absent(self) -> Rows:
        """Return which rows have no text."""
        absent: Rows = self.codes == len(self.words)
        return absent

    def at(self, rows: Rows) -> TextColumn:
        """Return the texts of some rows."""
        return TextColumn(self.words, self.codes[rows], None if self.odd is None else self.odd[rows])

    def take(self, rows: Rows | None) -> pa.Array:
        """Return the texts of some rows as a column, of all when `rows` is None; NULL where there is none."""
        if self._column is not None:
            return self._column if rows is None else self._column.take(pa.array(rows))
        codes = self.codes if rows is None else self.codes[rows]
        return self.words.take(pa.array(codes, mask=codes == len(self.words)))

    def where(self, fits: Callable[[str], bool]) -> Rows:
        """Return which rows have a text that something holds of."""
        result: Rows = np.array([text is not None and fits(text) for text in self.distinct], bool)[self.codes]
        return result


class Pairs:
    """Headers or user properties of rows, or options, of which a column is made when it is asked for.

    Attributes:
        texts: the values of all pairs.
    """

    def __init__(self, names: pa.Array, texts: pa.Array, parents: Rows, count: int) -> None:
        valid = np.nonzero(pc.and_(pc.is_valid(texts), pc.is_valid(names)).to_numpy(zero_copy_only=False))[0]
        encoded = names.take(pa.array(valid)).dictionary_encode()
        codes = encoded.indices.to_numpy()
        order = np.argsort(codes.astype(np.uint16) if len(encoded.dictionary) < 2**16 else codes, kind="stable")
        self.texts, self._parents, self._count = texts, parents, count
        self._names = {name: code for code, name in enumerate(encoded.dictionary.to_pylist())}
        self._order, self._starts = valid[order], np.searchsorted(codes[order], np.arange(len(encoded.dictionary) + 1))

    @classmethod
    def of(cls, headers: pa.Array) -> tuple[Pairs | AlikePairs, Rows]:
        """Read the column `headers`.

        Returns:
            The pairs, and which rows hold nothing but UTF-8.
        """
        (names, values), is_text = headers.flatten().flatten(), np.ones(len(headers), bool)
        texts, bad = as_texts(values)
        if bad is None and not texts.null_count and are_alike(headers, names):
            return AlikePairs(names.slice(0, len(names) // len(headers)).to_pylist(), texts), is_text
        parents = pc.list_parent_indices(headers).to_numpy()
        if bad is not None:
            is_text[parents[bad]] = False
        return cls(names, texts, parents, len(headers)), is_text

    def column(self, name: str, rows: Rows) -> tuple[pa.Array, Rows | None]:
        """Return the last value of a name for some rows, and which rows have several; None: no row has."""
        code = self._names.get(name)
        if code is None:
            return pa.nulls(len(rows), pa.string()), None
        at = self._order[self._starts[code] : self._starts[code + 1]]
        parents = self._parents[at]
        last = np.full(self._count, -1)
        last[parents] = at  # in order, so the last of a name stays
        repeats = None
        if len(at) > 1 and (parents[1:] == parents[:-1]).any():
            repeats = (np.bincount(parents, minlength=self._count) > 1)[rows]
        result = last[rows]
        return self.texts.take(pa.array(result, mask=result < 0)), repeats


class AlikePairs:
    """Pairs of rows that all have the same names in the same order."""

    def __init__(self, names: list[str], texts: pa.Array) -> None:
        self._names, self.texts = names, texts

    def column(self, name: str, rows: Rows) -> tuple[pa.Array, Rows | None]:
        """Return the last value of a name for some rows, and which rows have several, as `Pairs.column` does."""
        places = [at for at, other in enumerate(self._names) if other == name]
        if not places:
            return pa.nulls(len(rows), pa.string()), None
        return self.texts.take(pa.array(rows * len(self._names) + places[-1])), np.ones(len(rows), bool) if places[1:] else None


def are_alike(lists: pa.Array, texts: pa.Array) -> bool:
    """Return whether all lists of a column hold the same texts in the same order.

    Args:
        lists: the column.
        texts: what is in the lists, or a part of it, flattened.
    """
    if not len(lists) or lists.null_count or texts.null_count or len(texts) % len(lists):
        return False
    width = len(texts) // len(lists)
    if not bool(np.all(lists.value_lengths().to_numpy() == width)):
        return False
    if width == 0:
        return True
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    step, first, size = int(ends[width] - ends[0]), int(ends[0]), int(ends[-1] - ends[0])
    if data is None or not bool(np.all(ends[width:] - ends[:-width] == step)):
        return size == 0
    written = data.slice(first, size)  # moved by the texts of one list, it is the same again
    return bool(written.slice(step).equals(written.slice(0, size - step)))


def as_texts(values: pa.Array) -> tuple[pa.Array, Rows | None]:
    """Read bytes as UTF-8.

    Returns:
        The texts, NULL for what is not UTF-8; and which are not, None when all are.
    """
    try:
        return values.cast(pa.string()), None
    except pa.ArrowInvalid:
        read = [_decoded(value) for value in values.to_pylist()]
        bad = np.array([text is None for text in read]) & pc.is_valid(values).to_numpy(zero_copy_only=False)
        return pa.array(read, pa.string()), bad


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


class Binding(NamedTuple):
    """How the columns of a landing hold CloudEvents.

    Attributes:
        protocol: as the landing says it; None: it does not.
        family, version: its parts.
        prefixes: before the names of the attributes; of an attribute that is under several the last counts.
        section: of the protocol's options that the names are of.
        in_pairs: the section is in the column `headers`; else in `options`.
        content_type, content_encoding: the options that hold them.
        address: the option that says where an event travelled.
        discriminator: the option that distinguishes definitions, in addition to the type.
    """

    protocol: str | None
    family: str | None
    version: str | None
    prefixes: tuple[str, ...] = ()
    section: str = ""
    in_pairs: bool = False
    content_type: str = ""
    content_encoding: str = ""
    address: str = ""
    discriminator: str = ""


def _binding(protocol: Protocol) -> Binding:
    """Return how CloudEvents are in the columns of a protocol: a row of `protocols.csv`."""
    family, version = protocol.family, protocol.shorthand or None
    sections, prefixes = zip(*(start.split("/", 1) for start in protocol.ce_attributes.split()), strict=True)
    return Binding(
        protocol=f"{family}/{version}" if version else family,
        family=family,
        version=version,
        prefixes=prefixes,
        section=sections[0],
        in_pairs=sections[0] not in AMQP_SECTIONS,
        content_type=protocol.content_type,
        content_encoding=PLACES.get(family, ELSEWHERE),
        address=protocol.address,
        discriminator=DISCRIMINATORS[family],
    )


# Values that are percent-encoded are left to the row loop.
BINDINGS = tuple(_binding(protocol) for protocol in PROTOCOLS.values() if protocol.ce_attributes and not protocol.ce_encoding)


class Payload(NamedTuple):
    """A payload: a JSON value, whether there is one, and bytes where there is none."""

    data: Any = None
    has_data: bool = False
    body: bytes | None = None


class Columns:
    """Binary CloudEvents of a batch.

    Args:
        binding: how the columns hold them.
        batch: columns of `LANDED`.
        numbers: the rows of the batch that are meant.
        pairs: what is in the column `headers`; None: nothing is asked there.
    """

    mode = "binary"

    def __init__(self, binding: Binding, batch: pa.RecordBatch, numbers: Rows, pairs: Pairs | AlikePairs | None) -> None:
        self.binding, self.numbers = binding, numbers
        self.batch = batch if len(numbers) == batch.num_rows else batch.take(pa.array(numbers))
        self.captured: frozenset[str] = frozenset(self.batch.column("captured")[0].as_py() or ())
        self._pairs = pairs
        self._raw: dict[str, tuple[pa.Array, Rows | None]] = {}
        self._texts: dict[str, TextColumn] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def event(self) -> Event:
        """Return an event with what is the same for all rows."""
        captured = self.captured | {"/envelopemetadata"}
        return Event(self.binding.family, self.binding.version, self.mode, captured=captured)

    def option(self, name: str) -> TextColumn:
        """Return an option of the protocol."""
        if name not in self._texts:
            self._texts[name] = TextColumn.of(
                *self._option(name), distinct=name in (self.binding.discriminator, self.binding.content_type)
            )
        return self._texts[name]

    def attribute(self, name: str) -> TextColumn:
        """Return an attribute of the CloudEvents; of `datacontenttype` what the protocol says, where they do not say it."""
        if f"ce/{name}" not in self._texts:
            self._texts[f"ce/{name}"] = self._attribute(name)
        return self._texts[f"ce/{name}"]

    def content_types(self) -> list[TextColumn]:
        """Return what a message's content type is compared with: that of the data, and that of an envelope."""
        return [self.attribute("datacontenttype")]

    @cached_property
    def is_ready(self) -> Rows:
        """Return which rows are CloudEvents that can be taken column by column."""
        kinds = self.attribute("type")
        ready = ~kinds.is_absent & ~self._odd & self._is_plain
        ready &= ~self.option(self.binding.content_type).where(lambda text: media_type(text)[0].startswith(STRUCTURED))
        if self.binding.family == "MQTT":  # whose attributes have no prefix: without these it is no CloudEvent
            named = ~self.attribute("source").is_absent & ~self.attribute("id").is_absent
            ready &= ~self.attribute("specversion").is_absent | named
        return ready

    @property
    def _is_plain(self) -> Rows:
        """Return which rows have no option that says how their payload is read, and no header of bytes."""
        result: Rows = np.logical_and.reduce(
            [self.option(name).is_absent for name in (self.binding.content_encoding, SCHEMA_ID, KEY_SCHEMA_ID)]
        )
        return result

    @property
    def _odd(self) -> Rows:
        """Return which rows have values in their first attributes that are not taken column by column."""
        results = [texts.odd for texts in map(self.attribute, _CORE) if texts.odd is not None]
        return np.logical_or.reduce(results) if results else np.zeros(len(self), bool)

    def bodies(self, rows: Rows) -> list[bytes | None]:
        """Return the payloads of rows of binary events."""
        column = self.batch.column("payload")
        result: list[bytes | None] = (column if len(rows) == len(self) else column.take(pa.array(rows))).to_pylist()
        return result

    @cached_property
    def _options(self) -> Pairs | AlikePairs:
        options = self.batch.column("options")
        names, texts = options.flatten().flatten()
        if not texts.null_count and are_alike(options, names):
            return AlikePairs(names.slice(0, len(names) // len(options)).to_pylist(), texts)
        return Pairs(names, texts, pc.list_parent_indices(options).to_numpy(), len(options))

    def _option(self, name: str) -> tuple[pa.Array, Rows | None]:
        """Return the column of an option, and where it is odd: of MQTT's names that repeat any value counts."""
        if name not in self._raw:
            self._raw[name] = self._option_of(name)
        return self._raw[name]

    def _option_of(self, name: str) -> tuple[pa.Array, Rows | None]:
        section, _, own = name.partition("/")
        if name == "key":
            return as_texts(self.batch.column("key"))[0], None  # what is no text matches `key_base64` only
        if name == "key_base64":
            keys = self.batch.column("key").to_pylist()
            return pa.array([None if key is None else base64.b64encode(key).decode() for key in keys], pa.string()), None
        if self._pairs is None or section != self.binding.section:
            return self._options.column(name, np.arange(len(self)))[0], None
        if self.binding.family == "KAFKA" and own.lower() in SECRET_HEADERS:
            return pa.nulls(len(self), pa.string()), None
        column, repeats = self._pairs.column(unescape(own), self.numbers)
        return column, None if self.binding.family == "KAFKA" else repeats

    def _attribute(self, name: str) -> TextColumn:
        places = [self._option(f"{self.binding.section}/{prefix}{name}") for prefix in reversed(self.binding.prefixes)]
        if name == "datacontenttype":
            places.append(self._option(self.binding.content_type))
        odd = [place[1] for place in places if place[1] is not None]
        texts = places[0][0] if len(places) == 1 else pc.coalesce(*(place[0] for place in places))
        return TextColumn.of(texts, np.logical_or.reduce(odd) if odd else None, distinct=name in _DISTINCT)


class StructuredColumns(Columns):
    """CloudEvents as JSON in some rows: those of a protocol, or of lines.

    Args:
        outer: the rows, with what the protocol says of them.
        rows: their numbers there.
        envelopes: what is in them: JSON objects.
        values: their usual attributes.
    """

    mode = "structured"

    def __init__(self, outer: Columns, rows: Rows, envelopes: list[dict[str, Any]], values: dict[str, list[Any]]) -> None:
        self.binding, self.captured = outer.binding, outer.captured
        self.numbers, self.batch = outer.numbers[rows], outer.batch.drop_columns(["payload", "line"]).take(pa.array(rows))
        self._outer, self._rows, self._envelopes, self._texts_by_name = outer, rows, envelopes, values
        self._texts = {}

    def event(self) -> Event:
        """Return an event with what is the same for all rows."""
        made = super().event()
        made.content_type = STRUCTURED if self.binding.content_type else None
        return made

    def option(self, name: str) -> TextColumn:
        """Return an option of the protocol."""
        if name not in self._texts:
            self._texts[name] = self._outer.option(name).at(self._rows)
        return self._texts[name]

    def content_types(self) -> list[TextColumn]:
        """Return what a message's content type is compared with: that of the data, and that of the envelope."""
        own = [self.attribute("datacontenttype")]
        return [*own, self.option(self.binding.content_type)] if self.binding.content_type else own

    @cached_property
    def is_ready(self) -> Rows:
        """Return which rows are CloudEvents whose first attributes are texts."""
        return self._is_plain & ~self.attribute("type").is_absent & ~self._odd

    def opened(self, rows: Rows) -> list[dict[str, Any]]:
        """Return the JSON of the events of rows."""
        return [self._envelopes[row] for row in rows.tolist()]

    def _attribute(self, name: str) -> TextColumn:
        values = self._texts_by_name.get(name)
        if values is None:
            is_payload = name in ("data", "data_base64")
            values = [None if is_payload else envelope.get(name) for envelope in self._envelopes]
        odd = None
        try:
            column = pa.array(values, pa.string())
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            odd = np.array([value is not None and not isinstance(value, str) for value in values])
            column = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
        if name == "datacontenttype" and column.null_count:  # as `Event.data_content_type`
            is_encoded = pa.array([envelope.get("data_base64") is not None for envelope in self._envelopes])
            column = pc.if_else(is_encoded, column, pc.fill_null(column, "application/json"))
        return TextColumn.of(column, odd, distinct=name in _DISTINCT)


def columns_of(batch: pa.RecordBatch) -> Iterator[Columns]:
    """Return what of a batch can be read as columns, each row at most once where it is ready.

    Args:
        batch: the columns of `LANDED`.
    """
    is_free = pc.is_null(batch.column("problem")).to_numpy(zero_copy_only=False)
    is_line = is_free & pc.is_valid(batch.column("line")).to_numpy(zero_copy_only=False)
    for name in ("captured", "options"):  # a mapping, or a format that is named, says what others are
        is_line &= pc.is_null(batch.column(name)).to_numpy(zero_copy_only=False)
    for binding in BINDINGS:
        outer = _bound(binding, batch, is_free & ~is_line)
        if outer is not None:
            yield outer
            content_types = outer.option(binding.content_type)
            yield from _opened(outer, np.nonzero(content_types.where(_is_envelope))[0], "payload")
    for protocol in pc.unique(batch.column("protocol").filter(pa.array(is_line))).to_pylist():
        numbers = np.nonzero(_is_protocol(batch, protocol) & is_line)[0]
        family, _, version = (protocol or "").partition("/")
        if len(numbers) >= FEWEST_ROWS:
            outer = Columns(Binding(protocol, family.upper() or None, version or None), batch, numbers, None)
            yield from _opened(outer, np.arange(len(outer)), "line")


def _is_protocol(batch: pa.RecordBatch, protocol: str | None) -> Rows:
    column = batch.column("protocol")
    result = pc.is_null(column) if protocol is None else pc.fill_null(pc.equal(column, protocol), False)
    rows: Rows = result.to_numpy(zero_copy_only=False)
    return rows


def _bound(binding: Binding, batch: pa.RecordBatch, is_free: Rows) -> Columns | None:
    """Read the rows of one protocol; None: they are too few, or were not captured alike."""
    plain = is_free & _is_protocol(batch, binding.protocol) & pc.is_null(batch.column("ce")).to_numpy(zero_copy_only=False)
    for name in ("captured", "options", *(("headers",) if binding.in_pairs else ())):
        plain &= pc.is_valid(batch.column(name)).to_numpy(zero_copy_only=False)
    pairs: Pairs | AlikePairs | None = None
    if binding.in_pairs and plain.any():
        pairs, is_text = Pairs.of(batch.column("headers"))
        plain &= is_text  # the row loop reports what is not
    numbers = np.nonzero(plain)[0]
    if len(numbers) < FEWEST_ROWS:
        return None
    captured = batch.column("captured")
    if len(numbers) < batch.num_rows:
        captured = captured.take(pa.array(numbers))
    return Columns(binding, batch, numbers, pairs) if are_alike(captured, captured.flatten()) else None


def _opened(outer: Columns, rows: Rows, column: str) -> Iterator[Columns]:
    """Open the JSON texts of rows, some millions of bytes at a time."""
    texts = outer.batch.column(column).take(pa.array(rows))
    ends = np.cumsum(pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False).astype(np.int64))
    breaks = np.nonzero(np.diff(ends // _MOST_BYTES))[0] + 1
    for part in np.split(np.arange(len(rows)), breaks):
        if len(part) < FEWEST_ROWS:
            continue
        taken, envelopes, opened = _read(texts.slice(int(part[0]), len(part)).to_pylist(), column == "line")
        if len(taken) >= FEWEST_ROWS:
            yield StructuredColumns(outer, rows[part[taken]], envelopes, opened)


def _read(texts: list[bytes | None], is_line: bool) -> tuple[list[int], list[dict[str, Any]], dict[str, list[Any]]]:
    """Read CloudEvents in JSON: which of the texts are one that is taken here, the events, and their usual attributes."""
    taken: list[int] = []
    envelopes: list[dict[str, Any]] = []
    columns: dict[str, list[Any]] = {name: [] for name in _USUAL}
    for start in range(0, len(texts), _AT_ONCE):
        fresh = []
        for number, text in enumerate(texts[start : start + _AT_ONCE], start):
            envelope = _envelope(text, is_line)
            if envelope is not None:
                taken.append(number)
                fresh.append(envelope)
        for name, values in columns.items():
            values += [envelope.get(name) for envelope in fresh]
        envelopes += fresh
    return taken, envelopes, columns


def _envelope(text: bytes | None, is_line: bool) -> dict[str, Any] | None:
    """Read a CloudEvent in JSON; None: it is none, or of a form that is left to the row loop."""
    if not text:
        return None
    try:
        value = read_exactly(text)
        if not isinstance(value, dict):
            return None
        encoded = value.get("data_base64")
        if encoded is not None:
            base64.b64decode(encoded, validate=True)
    except (orjson.JSONDecodeError, binascii.Error, ValueError, TypeError):
        return None
    is_other = is_line and ("specversion" not in value or isinstance(value.get("captured"), dict) or "log" in value)
    return None if is_other or "type" not in value else value


def payload_of(envelope: dict[str, Any]) -> Payload:
    """Return the payload of a CloudEvent in JSON."""
    encoded = envelope.get("data_base64")
    if encoded is not None:
        return Payload(body=base64.b64decode(encoded))
    return Payload(envelope.get("data"), "data" in envelope)


def _is_envelope(content_type: str) -> bool:
    name = media_type(content_type)[0]
    return name.startswith(STRUCTURED) and not name.startswith(BATCH) and ("+" not in name or name.endswith("+json"))
