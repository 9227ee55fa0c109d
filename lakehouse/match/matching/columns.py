"""The quick way: a batch of binary CloudEvents from Kafka, MQTT 5 or AMQP, matched column by column.

Rows of one type are taken together. Each distinct value of an attribute is compared once, by the same functions as in the row
loop, and the verdicts are spread over the rows. Rows that match without anything to tell come out here; all others (no match,
deviations, a more specific definition that is missed, other shapes) are left to the row loop. Tests hold the two equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.match.definition.definitions import Attribute, Definition, escape
from lakehouse.match.event.captured import SECRET_HEADERS
from lakehouse.match.event.landed import STRUCTURED, Event
from lakehouse.match.matching.choice import MATCHED, best_of, is_more_specific, status_of
from lakehouse.match.matching.columnresults import result_batch
from lakehouse.match.matching.evaluation import Outcome, Reason, compare, deviates_in_form, is_told
from lakehouse.match.matching.matcher import Matcher

FEWEST_ROWS = 64
_MOST_HEADERS = 200
_MOST_CANDIDATES = 60
# A timestamp that is one at a glance; what is not of this form is looked at by itself.
_PLAIN_TIME = (
    r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$"
)


Rows = np.ndarray[Any, Any]  # numbers of rows, or a verdict for each


class Binding(NamedTuple):
    """How binary CloudEvents stand in the columns of a landing.

    Attributes:
        protocol: as the landing says it.
        family, version: its parts.
        prefixes: before the names of the attributes; of an attribute that stands under several the last counts.
        section: of the protocol's options that the names are of.
        in_pairs: the section stands in the column `headers`; else in `options`.
        content_type, content_encoding: the options that tell them.
        address: the option that tells where an event travelled.
        telling: the option that tells definitions apart, beside the type.
    """

    protocol: str
    family: str
    version: str | None
    prefixes: tuple[str, ...]
    section: str
    in_pairs: bool
    content_type: str
    content_encoding: str
    address: str
    telling: str


BINDINGS = (
    Binding("KAFKA", "KAFKA", None, ("ce_",), "headers", True, "headers/content-type", "headers/content-encoding", "topic",
            "topic"),
    Binding("MQTT/5.0", "MQTT", "5.0", ("",), "user_properties", True, "content_type", "user_properties/content-encoding",
            "topic_name", "topic_name"),
    Binding("AMQP/1.0", "AMQP", "1.0", ("cloudEvents:", "cloudEvents_"), "application-properties", False,
            "properties/content-type", "properties/content-encoding", "properties/to", "properties/subject"),
)  # fmt: skip


class Columns:
    """The columns of a batch, as options of its protocol and attributes of its CloudEvents.

    Args:
        binding: how the events stand in it.
        batch: columns of `LANDED`.
        pairs: what stands in the column `headers`, by name.
    """

    def __init__(self, binding: Binding, batch: pa.RecordBatch, pairs: dict[str, pa.Array]) -> None:
        self.binding, self.batch = binding, batch
        self.captured: frozenset[str] = frozenset(batch.column("captured")[0].as_py())
        self._found: dict[str, pa.Array] = {f"{binding.section}/{escape(name)}": column for name, column in pairs.items()}
        if binding.family == "KAFKA":
            self._found["key"] = self._found["key_base64"] = batch.column("key").cast(pa.string())

    def option(self, name: str) -> pa.Array:
        """Give the column of an option of the protocol; NULL where a row has none."""
        if name not in self._found:
            is_pair = self.binding.in_pairs and name.startswith(f"{self.binding.section}/")
            absent = pa.nulls(self.batch.num_rows, pa.string())
            self._found[name] = absent if is_pair else pc.map_lookup(self.batch.column("options"), name, "first")
        return self._found[name]

    def attribute(self, name: str) -> pa.Array:
        """Give the column of an attribute of the CloudEvents."""
        places = [self.option(f"{self.binding.section}/{prefix}{name}") for prefix in reversed(self.binding.prefixes)]
        return places[0] if len(places) == 1 else pc.coalesce(*places)

    @property
    def content_type(self) -> pa.Array:
        """Give the content type of the payloads."""
        return pc.coalesce(self.attribute("datacontenttype"), self.option(self.binding.content_type))


class Verdict(NamedTuple):
    """What came of a definition and rows: which match, which the row loop must look at, and what the placeholders hold."""

    matches: Rows
    odd: Rows
    variables: dict[str, pa.Array]
    unchecked: list[str]


def match_columns(matcher: Matcher, batch: pa.RecordBatch) -> tuple[list[pa.RecordBatch], pa.RecordBatch]:
    """Match what of a batch can be matched column by column.

    Args:
        matcher: the definitions, and how.
        batch: the columns of `LANDED`.

    Returns:
        Results, and the rows that are left to the row loop.
    """
    asked = matcher.request
    if asked.tolerance.level != "default" or asked.tolerance.native or 0 < asked.payload_share < 1:
        return [], batch
    results, left = [], batch
    for binding in BINDINGS:
        made, left = _match_bound(matcher, binding, left)
        results += made
    return results, left


def _match_bound(matcher: Matcher, binding: Binding, batch: pa.RecordBatch) -> tuple[list[pa.RecordBatch], pa.RecordBatch]:
    """Match the rows of one protocol."""
    plain = _plain_rows(binding, batch)
    if plain is None:
        return [], batch
    columns = _columns_of(binding, batch.filter(plain))
    if columns is None:
        return [], batch
    done = np.zeros(columns.batch.num_rows, bool)
    results = []
    for rows, candidates in _groups(matcher, columns):
        for found, made in _match_group(matcher, columns, rows, candidates):
            done[found] = True
            results.append(made)
    left = pa.concat_batches([batch.filter(pc.invert(plain)), columns.batch.filter(pa.array(~done))])
    return results, left


def _plain_rows(binding: Binding, batch: pa.RecordBatch) -> pa.Array | None:
    """Tell which rows are of a protocol, with what names its attributes; None: too few, or they were not captured alike."""
    plain = pc.fill_null(pc.equal(batch.column("protocol"), binding.protocol), False)
    for name in ("line", "problem", "ce"):
        plain = pc.and_(plain, pc.is_null(batch.column(name)))
    for name in ("captured", "options", *(("headers",) if binding.in_pairs else ())):
        plain = pc.and_(plain, pc.is_valid(batch.column(name)))
    if pc.sum(plain).as_py() is None or pc.sum(plain).as_py() < FEWEST_ROWS:
        return None
    captured = batch.filter(plain).column("captured")
    names = captured.flatten().dictionary_encode()
    alike = len(names.dictionary) == len(captured[0]) and len(names) == len(captured) * len(captured[0])
    return plain if alike else None


def _columns_of(binding: Binding, batch: pa.RecordBatch) -> Columns | None:
    """Read pairs as columns; None: too many names, or bytes that are not UTF-8, which the row loop tells."""
    try:
        pairs = _pairs_of(binding, batch) if binding.in_pairs else {}
        return None if pairs is None else Columns(binding, batch, pairs)
    except pa.ArrowInvalid:
        return None


def _pairs_of(binding: Binding, batch: pa.RecordBatch) -> dict[str, pa.Array] | None:
    headers = batch.column("headers")
    parents = pc.list_parent_indices(headers).to_numpy()
    pairs = headers.flatten()
    names, values = pairs.field("key"), pairs.field("value")
    there = pc.and_(pc.is_valid(values), pc.is_valid(names)).to_numpy(zero_copy_only=False)
    texts = values.cast(pa.string())
    encoded = names.dictionary_encode()
    if len(encoded.dictionary) > _MOST_HEADERS:
        return None
    codes = pc.fill_null(encoded.indices, -1).to_numpy()
    found: dict[str, pa.Array] = {}
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        at = np.nonzero((codes == code) & there)[0]
        last = np.full(batch.num_rows, -1)
        last[parents[at]] = at  # in order, so the last of a name stays
        if binding.family != "KAFKA" and len(at) > len(np.unique(parents[at])):
            return None  # of a name that repeats any value counts there
        if binding.family != "KAFKA" or name.lower() not in SECRET_HEADERS:
            found[name] = texts.take(pa.array(last, mask=last < 0))
    return found


def _groups(matcher: Matcher, columns: Columns) -> Iterator[tuple[Rows, list[Definition]]]:
    """Take rows of one type (and topic or subject, where that tells definitions) together, with their candidates."""
    binding, kinds = columns.binding, columns.attribute("type")
    told = columns.option(binding.telling)
    ready = pc.and_(pc.is_valid(kinds), pc.is_null(columns.option(binding.content_encoding)))
    content = columns.option(binding.content_type)
    is_structured = pc.starts_with(pc.utf8_lower(pc.utf8_ltrim_whitespace(content)), STRUCTURED)
    ready = pc.and_(ready, pc.invert(pc.fill_null(is_structured, False)))
    if binding.family == "MQTT":  # whose attributes have no prefix: without these it is no CloudEvent
        named = pc.and_(pc.is_valid(columns.attribute("source")), pc.is_valid(columns.attribute("id")))
        ready = pc.and_(ready, pc.or_(pc.is_valid(columns.attribute("specversion")), named))
    keys = kinds
    if matcher.index.tells_addresses(binding.family):
        keys = pc.binary_join_element_wise(kinds, pc.fill_null(told, ""), "\0")
    at = np.nonzero(ready.to_numpy(zero_copy_only=False))[0]
    codes = keys.take(pa.array(at)).dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.nonzero(np.diff(codes[order]))[0] + 1
    for part in np.split(order, ends):
        if len(part) >= FEWEST_ROWS:
            rows = at[part]
            first = int(rows[0])
            event = Event(binding.family, binding.version, ce={"type": kinds[first].as_py()}, captured=columns.captured)
            if told[first].is_valid:
                event.options[binding.telling] = told[first].as_py()
            candidates = [one for one in matcher.index.candidates(event) if not one.is_bare]
            if len(candidates) <= _MOST_CANDIDATES:
                yield rows, candidates


def _match_group(
    matcher: Matcher, columns: Columns, rows: Rows, candidates: list[Definition]
) -> Iterator[tuple[Rows, pa.RecordBatch]]:
    taken: dict[str, pa.Array] = {}
    verdicts = {one: _evaluate(one, columns, rows, taken) for one in candidates if one.family in (None, columns.binding.family)}
    pattern, odd = np.zeros(len(rows), np.int64), np.zeros(len(rows), bool)
    for bit, verdict in enumerate(verdicts.values()):
        pattern |= verdict.matches.astype(np.int64) << bit
        odd |= verdict.odd
    for bits in np.unique(pattern[~odd]):
        matches = [one for bit, one in enumerate(verdicts) if bits >> bit & 1]
        best = [outcome.definition for outcome in best_of([Outcome(one) for one in sorted(matches, key=lambda one: one.key)])]
        missed = (one for one in verdicts if one not in matches and one.family)
        if not best or status_of(best) != MATCHED or any(is_more_specific(one, two) for one in missed for two in best):
            continue
        here = np.nonzero((pattern == bits) & ~odd)[0]
        shown = verdicts[best[0]]
        variables = {name: held.take(pa.array(here)) for name, held in shown.variables.items()}
        made = result_batch(
            matcher, columns, rows[here], sorted(matches, key=lambda one: one.key), best, variables, shown.unchecked
        )
        if made is not None:
            yield rows[here], made


def _evaluate(definition: Definition, columns: Columns, rows: Rows, taken: dict[str, pa.Array]) -> Verdict:
    count = len(rows)
    matches, odd = np.ones(count, bool), np.zeros(count, bool)
    held: dict[str, list[pa.Array]] = {}
    unchecked = []
    binding = columns.binding
    probe = Event(binding.family, binding.version, "binary", captured=columns.captured | {"/envelopemetadata"})
    if definition.family == "MQTT" and definition.version not in (None, binding.version):
        odd |= True  # another version deviates
    for attribute in definition.attributes:
        values = _values(attribute, columns, rows, taken)
        absent = pc.is_null(values).to_numpy(zero_copy_only=False)
        if absent.any():
            if not is_told(attribute, probe):
                unchecked.append(attribute.pointer)
                odd |= ~absent
            elif (attribute.required or attribute.has_value) and attribute.decides:
                matches &= ~absent
            elif attribute.required or attribute.has_value:
                odd |= absent
        if attribute.key == "key_base64":
            odd |= ~absent
        elif not absent.all():
            ok, strange = _compare_column(attribute, values, probe, held)
            if attribute.decides:
                matches &= ok | absent
            else:
                odd |= ~(ok | absent)
            odd |= strange & ~absent
    variables = {}
    for name, uses in held.items():
        variables[name] = uses[0]
        for other in uses[1:]:  # texts that differ are the row loop's
            odd |= matches & ~pc.fill_null(pc.equal(uses[0], other), True).to_numpy(zero_copy_only=False)
    return Verdict(matches, odd & matches, variables, unchecked)


def _values(attribute: Attribute, columns: Columns, rows: Rows, taken: dict[str, pa.Array]) -> pa.Array:
    """Give the column of an attribute, for some rows."""
    name = (
        "/" if attribute.section == "message" or attribute.pointer == "/envelopemetadata/datacontenttype" else attribute.pointer
    )
    if name not in taken:
        if name == "/":  # the content type, which the envelope may say itself
            column = columns.content_type
        elif attribute.section == "envelope":
            column = columns.attribute(attribute.key)
        else:
            column = columns.option(attribute.key)
        taken[name] = column.take(pa.array(rows))
    return taken[name]


def _compare_column(attribute: Attribute, values: pa.Array, probe: Event, held: dict[str, list[pa.Array]]) -> tuple[Rows, Rows]:
    """Compare a column: which values hold, and which differ in form only, which the row loop tells."""
    template = attribute.template
    if template is not None and _takes_any(attribute):
        held.setdefault(template.names[0], []).append(values)
        ok = pc.fill_null(pc.not_equal(values, ""), False).to_numpy(zero_copy_only=False)
        return ok, np.zeros(len(values), bool)
    if attribute.kind == "timestamp" and template is None and not attribute.has_value:
        plain = pc.fill_null(pc.match_substring_regex(values, _PLAIN_TIME), False).to_numpy(zero_copy_only=False)
        if plain.all():
            return plain, np.zeros(len(values), bool)
    encoded = values.dictionary_encode()
    distinct = encoded.dictionary.to_pylist()
    captures: list[list[tuple[str, str, str]]] = [[] for _ in distinct]
    failed: list[Reason | None] = [compare(attribute, one, probe, captures[at]) for at, one in enumerate(distinct)]
    ok = _spread(encoded, [reason is None for reason in failed])
    strange = _spread(
        encoded, [reason is None and deviates_in_form(attribute, one) for reason, one in zip(failed, distinct, strict=True)]
    )
    for nth, name in enumerate(template.names if template else ()):
        texts = pa.array([found[nth][2] if found else None for found in captures], pa.string())
        held.setdefault(name, []).append(texts.take(encoded.indices))
    return ok, strange


def _takes_any(attribute: Attribute) -> bool:
    """Tell that an attribute is one placeholder that takes any text, and that nothing is told of its form."""
    template = attribute.template
    if template is None or template.segments != (("", ""),) or template.separator or attribute.kind not in (None, "string"):
        return False
    has_form = (attribute.kind or attribute.inferred_kind) in ("uritemplate", "urireference", "uri", "timestamp")
    return attribute.section == "protocol" or not has_form


def _spread(encoded: pa.DictionaryArray, verdicts: list[bool]) -> Rows:
    spread: Rows = pa.array(verdicts, pa.bool_()).take(encoded.indices).fill_null(False).to_numpy(zero_copy_only=False)
    return spread
