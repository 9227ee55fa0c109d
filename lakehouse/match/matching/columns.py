"""The quick way: a batch of binary CloudEvents from Kafka, matched column by column.

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

from lakehouse.match.definition.definitions import PROTOCOL, Attribute, Definition, escape
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


class Columns(NamedTuple):
    """The columns of a batch, as attributes: `ce` by name, `options` by name, and what each row is called."""

    batch: pa.RecordBatch
    headers: dict[str, pa.Array]
    topic: pa.Array
    partition: pa.Array
    key: pa.Array
    captured: frozenset[str]


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
    plain = _plain_rows(batch)
    if plain is None:
        return [], batch
    columns = _columns_of(batch.filter(plain))
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


def _plain_rows(batch: pa.RecordBatch) -> pa.Array | None:
    """Tell which rows are records of Kafka with headers; None: too few of them, or they were not captured alike."""
    plain = pc.fill_null(pc.equal(batch.column("protocol"), "KAFKA"), False)
    for name in ("line", "problem", "ce"):
        plain = pc.and_(plain, pc.is_null(batch.column(name)))
    for name in ("headers", "captured", "options"):
        plain = pc.and_(plain, pc.is_valid(batch.column(name)))
    if pc.sum(plain).as_py() is None or pc.sum(plain).as_py() < FEWEST_ROWS:
        return None
    captured = batch.filter(plain).column("captured")
    names = captured.flatten().dictionary_encode()
    alike = len(names.dictionary) == len(captured[0]) and len(names) == len(captured) * len(captured[0])
    return plain if alike else None


def _columns_of(batch: pa.RecordBatch) -> Columns | None:
    """Read headers as columns; None: too many names, or bytes that are not UTF-8, which the row loop tells."""
    headers = batch.column("headers")
    parents = pc.list_parent_indices(headers).to_numpy()
    pairs = headers.flatten()
    names, values = pairs.field("key"), pairs.field("value")
    there = pc.and_(pc.is_valid(values), pc.is_valid(names)).to_numpy(zero_copy_only=False)
    try:
        texts, key = values.cast(pa.string()), batch.column("key").cast(pa.string())
    except pa.ArrowInvalid:
        return None
    encoded = names.dictionary_encode()
    if len(encoded.dictionary) > _MOST_HEADERS:
        return None
    codes = pc.fill_null(encoded.indices, -1).to_numpy()
    found: dict[str, pa.Array] = {}
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        if name.lower() not in SECRET_HEADERS:
            at = np.nonzero((codes == code) & there)[0]
            last = np.full(batch.num_rows, -1)
            last[parents[at]] = at  # in order, so the last of a name stays
            found[name] = texts.take(pa.array(last, mask=last < 0))
    options = batch.column("options")
    topic, partition = (pc.map_lookup(options, name, "first") for name in ("topic", "partition"))
    return Columns(batch, found, topic, partition, key, frozenset(batch.column("captured")[0].as_py()))


def _groups(matcher: Matcher, columns: Columns) -> Iterator[tuple[Rows, list[Definition]]]:
    """Take rows of one type (and topic, where that tells definitions) together, with their candidates."""
    kinds = columns.headers.get("ce_type")
    if kinds is None:
        return
    ready = pc.is_valid(kinds)
    content = columns.headers.get("content-type")
    if content is not None:
        is_structured = pc.starts_with(pc.utf8_lower(pc.utf8_ltrim_whitespace(content)), STRUCTURED)
        ready = pc.and_(ready, pc.invert(pc.fill_null(is_structured, False)))
    if "content-encoding" in columns.headers:
        ready = pc.and_(ready, pc.is_null(columns.headers["content-encoding"]))
    keys = kinds
    if matcher.index.tells_addresses("KAFKA"):
        keys = pc.binary_join_element_wise(kinds, pc.fill_null(columns.topic, ""), "\0")
    at = np.nonzero(ready.to_numpy(zero_copy_only=False))[0]
    codes = keys.take(pa.array(at)).dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.nonzero(np.diff(codes[order]))[0] + 1
    for part in np.split(order, ends):
        if len(part) >= FEWEST_ROWS:
            rows = at[part]
            first = int(rows[0])
            event = Event("KAFKA", ce={"type": kinds[first].as_py()}, captured=columns.captured)
            if columns.topic[first].is_valid:
                event.options["topic"] = columns.topic[first].as_py()
            candidates = [one for one in matcher.index.candidates(event) if not one.is_bare]
            if len(candidates) <= _MOST_CANDIDATES:
                yield rows, candidates


def _match_group(
    matcher: Matcher, columns: Columns, rows: Rows, candidates: list[Definition]
) -> Iterator[tuple[Rows, pa.RecordBatch]]:
    taken: dict[str, pa.Array] = {}
    verdicts = {one: _evaluate(one, columns, rows, taken) for one in candidates if one.family in (None, "KAFKA")}
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
    probe = Event("KAFKA", mode="binary", captured=columns.captured | {"/envelopemetadata"})
    for attribute in definition.attributes:
        values = _values(attribute, columns, rows, taken)
        absent = pc.is_null(values).to_numpy(zero_copy_only=False)
        if absent.any():
            if not is_told(attribute, probe):
                unchecked.append(attribute.pointer)
                odd |= ~absent
            elif attribute.required or attribute.has_value:
                matches &= ~absent
        if attribute.key == "key_base64" or not attribute.decides:
            odd |= ~absent
        elif not absent.all():
            ok, strange = _compare_column(attribute, values, probe, held)
            matches &= ok | absent
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
            own = [columns.headers[one] for one in ("ce_datacontenttype", "content-type") if one in columns.headers]
            column = pc.coalesce(*own) if own else None
        elif attribute.section == "envelope":
            column = columns.headers.get(f"ce_{attribute.key}")
        elif attribute.key.startswith("headers/"):
            column = next((one for header, one in columns.headers.items() if f"headers/{escape(header)}" == attribute.key), None)
        else:
            column = {"topic": columns.topic, "partition": columns.partition, "key": columns.key, "key_base64": columns.key}.get(
                attribute.pointer.removeprefix(PROTOCOL)
            )
        taken[name] = pa.nulls(len(rows), pa.string()) if column is None else column.take(pa.array(rows))
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
