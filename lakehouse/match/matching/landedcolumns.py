"""A batch of landed rows as columns: options of a protocol and attributes of CloudEvents, each distinct text once.

Three kinds of rows are read so: binary CloudEvents, structured ones whose content type says so, and CloudEvents as lines of JSON.
What is in a JSON text is read once, for matching and for the payload. Rows of other shapes are in none of what comes out here.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.match.definition.definitions import unescape
from lakehouse.match.definition.valuetypes import media_type
from lakehouse.match.event.captured import SECRET_HEADERS
from lakehouse.match.event.landed import BATCH, STRUCTURED, Event
from lakehouse.match.matching.columntexts import AlikePairs, Pairs, Rows, Texts, are_alike, as_texts

FEWEST_ROWS = 64
_MOST_BYTES = 2**23  # of JSON texts that are open at a time: as values they take several times as much
_AT_ONCE = 256  # events whose usual attributes are taken while they stand in the processor's cache
_USUAL = ("type", "source", "id", "specversion", "subject", "time", "datacontenttype")
_CORE = ("type", "source", "id", "datacontenttype")
_DISTINCT = ("type", "datacontenttype")  # by which rows are told apart


class Binding(NamedTuple):
    """How CloudEvents stand in the columns of a landing.

    Attributes:
        protocol: as the landing says it; None: it does not.
        family, version: its parts.
        prefixes: before the names of the attributes; of an attribute that stands under several the last counts.
        section: of the protocol's options that the names are of.
        in_pairs: the section stands in the column `headers`; else in `options`.
        content_type, content_encoding: the options that tell them.
        address: the option that tells where an event travelled.
        telling: the option that tells definitions apart, beside the type.
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
    telling: str = ""


BINDINGS = (
    Binding("KAFKA", "KAFKA", None, ("ce_",), "headers", True, "headers/content-type", "headers/content-encoding", "topic",
            "topic"),
    Binding("MQTT/5.0", "MQTT", "5.0", ("",), "user_properties", True, "content_type", "user_properties/content-encoding",
            "topic_name", "topic_name"),
    Binding("AMQP/1.0", "AMQP", "1.0", ("cloudEvents:", "cloudEvents_"), "application-properties", False,
            "properties/content-type", "properties/content-encoding", "properties/to", "properties/subject"),
)  # fmt: skip


class Payload(NamedTuple):
    """A payload: a JSON value, whether there is one, and bytes where there is none."""

    data: Any = None
    has_data: bool = False
    body: bytes | None = None


class Columns:
    """Binary CloudEvents of a batch.

    Args:
        binding: how they stand in it.
        batch: columns of `LANDED`.
        numbers: the rows of the batch that are meant.
        pairs: what stands in the column `headers`; None: nothing is asked there.
    """

    mode = "binary"

    def __init__(self, binding: Binding, batch: pa.RecordBatch, numbers: Rows, pairs: Pairs | AlikePairs | None) -> None:
        self.binding, self.numbers = binding, numbers
        self.batch = batch if len(numbers) == batch.num_rows else batch.take(pa.array(numbers))
        self.captured: frozenset[str] = frozenset(self.batch.column("captured")[0].as_py() or ())
        self._pairs = pairs
        self._raw: dict[str, tuple[pa.Array, Rows | None]] = {}
        self._texts: dict[str, Texts] = {}

    def __len__(self) -> int:
        return len(self.numbers)

    def event(self) -> Event:
        """Give an event with what is the same for all rows."""
        known = self.captured | {"/envelopemetadata"}
        return Event(self.binding.family, self.binding.version, self.mode, captured=known)

    def option(self, name: str) -> Texts:
        """Give an option of the protocol."""
        if name not in self._texts:
            self._texts[name] = Texts.of(*self._option(name), distinct=name in (self.binding.telling, self.binding.content_type))
        return self._texts[name]

    def attribute(self, name: str) -> Texts:
        """Give an attribute of the CloudEvents; of `datacontenttype` what the protocol says, where they do not say it."""
        if f"ce/{name}" not in self._texts:
            self._texts[f"ce/{name}"] = self._attribute(name)
        return self._texts[f"ce/{name}"]

    def content_types(self) -> list[Texts]:
        """Give what a message's content type is compared with: that of the data, and that of an envelope."""
        return [self.attribute("datacontenttype")]

    @cached_property
    def is_ready(self) -> Rows:
        """Tell which rows are CloudEvents that can be taken column by column."""
        kinds = self.attribute("type")
        ready = ~kinds.is_absent & ~self._odd & self.option(self.binding.content_encoding).is_absent
        ready &= ~self.option(self.binding.content_type).where(lambda text: media_type(text)[0].startswith(STRUCTURED))
        if self.binding.family == "MQTT":  # whose attributes have no prefix: without these it is no CloudEvent
            named = ~self.attribute("source").is_absent & ~self.attribute("id").is_absent
            ready &= ~self.attribute("specversion").is_absent | named
        return ready

    @property
    def _odd(self) -> Rows:
        """Tell which rows have values in their first attributes that are not taken column by column."""
        found = [texts.odd for texts in map(self.attribute, _CORE) if texts.odd is not None]
        return np.logical_or.reduce(found) if found else np.zeros(len(self), bool)

    def bodies(self, rows: Rows) -> list[bytes | None]:
        """Give the payloads of rows of binary events."""
        column = self.batch.column("payload")
        found: list[bytes | None] = (column if len(rows) == len(self) else column.take(pa.array(rows))).to_pylist()
        return found

    @cached_property
    def _options(self) -> Pairs | AlikePairs:
        options = self.batch.column("options")
        names, texts = options.flatten().flatten()
        if not texts.null_count and are_alike(options, names):
            return AlikePairs(names.slice(0, len(names) // len(options)).to_pylist(), texts)
        return Pairs(names, texts, pc.list_parent_indices(options).to_numpy(), len(options))

    def _option(self, name: str) -> tuple[pa.Array, Rows | None]:
        """Give the column of an option, and where it is odd: of MQTT's names that repeat any value counts."""
        if name not in self._raw:
            self._raw[name] = self._option_of(name)
        return self._raw[name]

    def _option_of(self, name: str) -> tuple[pa.Array, Rows | None]:
        section, _, own = name.partition("/")
        if name in ("key", "key_base64"):
            return as_texts(self.batch.column("key"))[0], None  # what is no text matches `key_base64` only
        if self._pairs is None or section != self.binding.section:
            return self._options.column(name, np.arange(len(self)))[0], None
        if self.binding.family == "KAFKA" and own.lower() in SECRET_HEADERS:
            return pa.nulls(len(self), pa.string()), None
        column, repeats = self._pairs.column(unescape(own), self.numbers)
        return column, None if self.binding.family == "KAFKA" else repeats

    def _attribute(self, name: str) -> Texts:
        places = [self._option(f"{self.binding.section}/{prefix}{name}") for prefix in reversed(self.binding.prefixes)]
        if name == "datacontenttype":
            places.append(self._option(self.binding.content_type))
        odd = [place[1] for place in places if place[1] is not None]
        texts = places[0][0] if len(places) == 1 else pc.coalesce(*(place[0] for place in places))
        return Texts.of(texts, np.logical_or.reduce(odd) if odd else None, distinct=name in _DISTINCT)


class StructuredColumns(Columns):
    """CloudEvents that stand as JSON in some rows: those of a protocol, or of lines.

    Args:
        outer: the rows, with what the protocol tells of them.
        rows: their numbers there.
        envelopes: what stands in them: JSON objects.
        told: their usual attributes.
    """

    mode = "structured"

    def __init__(self, outer: Columns, rows: Rows, envelopes: list[dict[str, Any]], told: dict[str, list[Any]]) -> None:
        self.binding, self.captured = outer.binding, outer.captured
        self.numbers, self.batch = outer.numbers[rows], outer.batch.drop_columns(["payload", "line"]).take(pa.array(rows))
        self._outer, self._rows, self._envelopes, self._told = outer, rows, envelopes, told
        self._texts = {}

    def event(self) -> Event:
        """Give an event with what is the same for all rows."""
        made = super().event()
        made.content_type = STRUCTURED if self.binding.content_type else None
        return made

    def option(self, name: str) -> Texts:
        """Give an option of the protocol."""
        if name not in self._texts:
            self._texts[name] = self._outer.option(name).at(self._rows)
        return self._texts[name]

    def content_types(self) -> list[Texts]:
        """Give what a message's content type is compared with: that of the data, and that of the envelope."""
        own = [self.attribute("datacontenttype")]
        return [*own, self.option(self.binding.content_type)] if self.binding.content_type else own

    @cached_property
    def is_ready(self) -> Rows:
        """Tell which rows are CloudEvents whose first attributes are texts."""
        return self.option(self.binding.content_encoding).is_absent & ~self.attribute("type").is_absent & ~self._odd

    def opened(self, rows: Rows) -> list[dict[str, Any]]:
        """Give the JSON of the events of rows."""
        return [self._envelopes[row] for row in rows.tolist()]

    def _attribute(self, name: str) -> Texts:
        values = self._told.get(name)
        if values is None:
            is_payload = name in ("data", "data_base64")
            values = [None if is_payload else envelope.get(name) for envelope in self._envelopes]
        odd = None
        try:
            column = pa.array(values, pa.string())
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            odd = np.array([value is not None and not isinstance(value, str) for value in values])
            column = pa.array([value if isinstance(value, str) else None for value in values], pa.string())
        column = pc.fill_null(column, "application/json") if name == "datacontenttype" else column
        return Texts.of(column, odd, distinct=name in _DISTINCT)


def columns_of(batch: pa.RecordBatch) -> Iterator[Columns]:
    """Give what of a batch can be read as columns, each row at most once where it is ready.

    Args:
        batch: the columns of `LANDED`.
    """
    is_free = pc.is_null(batch.column("problem")).to_numpy(zero_copy_only=False)
    is_line = is_free & pc.is_valid(batch.column("line")).to_numpy(zero_copy_only=False)
    for name in ("captured", "options"):  # a mapping, or a format that is named, tells what others are
        is_line &= pc.is_null(batch.column(name)).to_numpy(zero_copy_only=False)
    for binding in BINDINGS:
        outer = _bound(binding, batch, is_free & ~is_line)
        if outer is not None:
            yield outer
            told = outer.option(binding.content_type)
            yield from _opened(outer, np.nonzero(told.where(_is_envelope))[0], "payload")
    for protocol in pc.unique(batch.column("protocol").filter(pa.array(is_line))).to_pylist():
        numbers = np.nonzero(_is_protocol(batch, protocol) & is_line)[0]
        family, _, version = (protocol or "").partition("/")
        if len(numbers) >= FEWEST_ROWS:
            outer = Columns(Binding(protocol, family.upper() or None, version or None), batch, numbers, None)
            yield from _opened(outer, np.arange(len(outer)), "line")


def _is_protocol(batch: pa.RecordBatch, protocol: str | None) -> Rows:
    column = batch.column("protocol")
    found = pc.is_null(column) if protocol is None else pc.fill_null(pc.equal(column, protocol), False)
    rows: Rows = found.to_numpy(zero_copy_only=False)
    return rows


def _bound(binding: Binding, batch: pa.RecordBatch, is_free: Rows) -> Columns | None:
    """Read the rows of one protocol; None: they are too few, or were not captured alike."""
    plain = is_free & _is_protocol(batch, binding.protocol) & pc.is_null(batch.column("ce")).to_numpy(zero_copy_only=False)
    for name in ("captured", "options", *(("headers",) if binding.in_pairs else ())):
        plain &= pc.is_valid(batch.column(name)).to_numpy(zero_copy_only=False)
    pairs: Pairs | AlikePairs | None = None
    if binding.in_pairs and plain.any():
        pairs, is_text = Pairs.of(batch.column("headers"))
        plain &= is_text  # the row loop tells what is not
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
        kept, envelopes, told = _read(texts.slice(int(part[0]), len(part)).to_pylist(), column == "line")
        if len(kept) >= FEWEST_ROWS:
            yield StructuredColumns(outer, rows[part[kept]], envelopes, told)


def _read(texts: list[bytes | None], is_line: bool) -> tuple[list[int], list[dict[str, Any]], dict[str, list[Any]]]:
    """Read CloudEvents in JSON: which of the texts are one that is taken here, the events, and their usual attributes."""
    kept: list[int] = []
    envelopes: list[dict[str, Any]] = []
    told: dict[str, list[Any]] = {name: [] for name in _USUAL}
    for start in range(0, len(texts), _AT_ONCE):
        fresh = []
        for number, text in enumerate(texts[start : start + _AT_ONCE], start):
            envelope = _envelope(text, is_line)
            if envelope is not None:
                kept.append(number)
                fresh.append(envelope)
        for name, values in told.items():
            values += [envelope.get(name) for envelope in fresh]
        envelopes += fresh
    return kept, envelopes, told


def _envelope(text: bytes | None, is_line: bool) -> dict[str, Any] | None:
    """Read a CloudEvent in JSON; None: it is none, or of a form that is left to the row loop."""
    if not text:
        return None
    try:
        value = orjson.loads(text)
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
    """Give the payload of a CloudEvent in JSON."""
    encoded = envelope.get("data_base64")
    if encoded is not None:
        return Payload(body=base64.b64decode(encoded))
    return Payload(envelope.get("data"), "data" in envelope)


def _is_envelope(content_type: str) -> bool:
    name = media_type(content_type)[0]
    return name.startswith(STRUCTURED) and not name.startswith(BATCH) and ("+" not in name or name.endswith("+json"))
