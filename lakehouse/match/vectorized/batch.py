"""`match_batch`: a batch matched by columns where that is possible, the other rows one by one; results as columns of Arrow.

What is the same for many results is written once and repeated.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import orjson
import pyarrow as pa

from lakehouse.match.definition.compiled import DeclaredAttribute, Definition
from lakehouse.match.evaluation import hides_envelope_type, is_captured, is_version
from lakehouse.match.event.canonical import CapturedEvent, Event
from lakehouse.match.event.captured import FORM, landed_of_columns, landed_of_text
from lakehouse.match.matcher import EVENT_REF, RESULT_SCHEMA, Matcher, remarks_of, secret_variables, why_of
from lakehouse.match.payload.payloads import NOT_CHECKED, PayloadVerdict
from lakehouse.match.payload.validators import is_json
from lakehouse.match.vectorized.answers import Candidates, Choice, ColumnAnswer, FastPathCache, Likeness, RowGroup, is_index_key
from lakehouse.match.vectorized.columns import (
    FEWEST_ROWS,
    Captures,
    Columns,
    Payload,
    Rows,
    StructuredColumns,
    columns_of,
    payload_of,
)
from lakehouse.text.blanking import REDACTED
from lakehouse.text.jsontext import read_exactly
from lakehouse.text.values import media_type

_LIKENESS: WeakKeyDictionary[Matcher, Likeness] = WeakKeyDictionary()  # what definitions ask is numbered once for a matcher
_NOT_VALIDATED = PayloadVerdict(NOT_CHECKED)
_ROWS_OF_LOOP = 5_000  # whose results are Python's at a time
Quick = Callable[[Any], bool]
_NOTHING, _HIDDEN = pa.array([""]), pa.array([REDACTED])

logger = logging.getLogger(__name__)
_OWN = frozenset({"ordinal", "place", "landed_at", *(field.name for field in EVENT_REF)})
_MOST_CANDIDATES = 60
_FEWEST_OF_A_TYPE = 4  # fewer are as quick in the row loop


class MatchedRows(NamedTuple):
    """Rows whose definitions ask alike.

    Attributes:
        rows: their numbers.
        choices: what rows are of; None, where no row is of it.
        which: for each row the number of its choice.
        variables: what the placeholders of the definition that is shown hold, row by row.
        secret: those of them that may hold a secret.
        unchecked: what the landing does not say.
    """

    rows: Rows
    choices: list[Choice | None]
    which: Rows
    variables: dict[str, Captures]
    secret: frozenset[str]
    unchecked: list[str]


class _Repeated(NamedTuple):
    """A column of few values: the values, and for each row the number of its value."""

    values: list[Any]
    numbers: Rows

    def column(self, kind: pa.DataType, order: Rows | None) -> pa.Array:
        """Write it, rows in another order."""
        first = self.values[0]
        if all(value == first for value in self.values):
            return _constant(first, kind, len(self.numbers))
        numbers = self.numbers if order is None else self.numbers[order]
        return pa.array(self.values, kind).take(pa.array(numbers))


def result_batch(matcher: Matcher, columns: Columns, results: list[MatchedRows]) -> pa.RecordBatch:
    """Make the results of rows.

    Args:
        matcher: how they are matched, and what validates.
        columns: what they are in.
        results: what they are of; at least one.

    Returns:
        Columns of `RESULT_SCHEMA`, in the order of the rows.
    """
    rows = np.concatenate([matched.rows for matched in results])
    order = np.argsort(rows) if (rows[1:] < rows[:-1]).any() else None
    if order is not None:
        rows = rows[order]
    batch, count = columns.batch, len(rows)
    at = None if count == len(columns) else pa.array(rows)  # all of them, in their order: nothing is copied
    part = {name: batch.column(name) if at is None else batch.column(name).take(at) for name in batch.schema.names
            if name in _OWN}  # fmt: skip
    refs = [part[field.name].cast(field.type) for field in EVENT_REF]
    repeated = _same(results) | _payloads(matcher, columns, results)
    taken = None if at is None else rows
    made = {name: part[name] for name in ("ordinal", "place", "landed_at")} | {
        "event_ref": pa.StructArray.from_arrays(refs, fields=list(EVENT_REF)),
        "ce_id": columns.attribute("id").take(taken),
        "ce_source": columns.attribute("source").take(taken),
        "ce_type": columns.attribute("type").take(taken),
        "address": columns.option(columns.binding.address).take(taken),
        "variables": _variables(matcher, results, order),
    }
    family, version = columns.binding.family, columns.binding.version
    protocol = f"{family}/{version}" if version else family
    always: dict[str, Any] = {"protocol": protocol, "mode": columns.mode, "status": "matched", "reasons": [], "deviations": []}
    arrays = []
    for field in RESULT_SCHEMA:
        if field.name in made:  # Spark's own types may differ in time zone and nullability
            column = made[field.name]
        elif field.name in repeated:
            column = repeated[field.name].column(field.type, order)
        else:
            column = _constant(always.get(field.name), field.type, count)
        arrays.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=RESULT_SCHEMA)


def _constant(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """Write one value for all rows."""
    if value is None:
        return pa.nulls(count, kind)
    if value == [] and isinstance(kind, pa.ListType):
        return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], kind.value_type), type=kind)
    if isinstance(value, str):
        return pa.repeat(pa.scalar(value, kind), count)
    return pa.array([value], kind).take(pa.array(np.zeros(count, np.int64)))


def _same(results: list[MatchedRows]) -> dict[str, _Repeated]:
    """Return the columns that are the same for rows of the same definitions."""
    pairs = [(matched, choice) for matched in results for choice in matched.choices if choice is not None]
    numbers, before = [], 0
    for matched in results:
        number = np.cumsum([choice is not None for choice in matched.choices]) - 1 + before
        before = int(number[-1]) + 1
        numbers.append(number[matched.which])
    which = np.concatenate(numbers)
    values: dict[str, list[Any]] = {
        "registryid": [choice.best[0].registryid for _, choice in pairs],
        "xid": [choice.best[0].xid for _, choice in pairs],
        "version_xid": [choice.best[0].version_xid for _, choice in pairs],
        "unchecked": [matched.unchecked for matched, _ in pairs],
        "best": [[_key(definition) for definition in choice.best] for _, choice in pairs],
        "matches": [[_key(definition) for definition in choice.matches] for _, choice in pairs],
    }
    return {name: _Repeated(column, which) for name, column in values.items()}


def _payloads(matcher: Matcher, columns: Columns, results: list[MatchedRows]) -> dict[str, _Repeated]:
    """Validate payloads: status, errors, the Version that wrote them, and remarks."""
    verdicts: list[tuple[PayloadVerdict, Definition]] = []
    which: list[Rows] = []
    for matched in results:
        choices = [(at, choice.best[0]) for at, choice in enumerate(matched.choices) if choice is not None]
        number = np.zeros(len(matched.choices), np.int64)
        number[[at for at, _ in choices]] = np.arange(len(verdicts), len(verdicts) + len(choices))
        is_validated = matcher.request.payload_share > 0
        verdicts += [(matcher.payloads.valid(shown) if is_validated else _NOT_VALIDATED, shown) for _, shown in choices]
        numbers = number[matched.which]
        for quick, wanted in _validators(matcher, choices).items() if is_validated else ():
            at = np.arange(len(matched.rows)) if len(wanted) == len(choices) else np.nonzero(np.isin(matched.which, wanted))[0]
            at = at[np.argsort(matched.rows[at])]  # as they are in memory
            for place, payload in _left(columns, quick, matched.rows[at]):
                shown = verdicts[numbers[at[place]]][1]
                numbers[at[place]] = len(verdicts)
                verdicts.append((_verdict(matcher, columns, shown, int(matched.rows[at[place]]), payload), shown))
        which.append(numbers)
    values: dict[str, list[Any]] = {
        "payload_status": [verdict.status for verdict, _ in verdicts],
        "payload_errors": [[matcher.reported_error(error) for error in verdict.errors] for verdict, _ in verdicts],
        "written_with": [verdict.written_with for verdict, _ in verdicts],
        "remarks": [[*verdict.remarks, *remarks_of(definition)] for verdict, definition in verdicts],
    }
    numbers = np.concatenate(which)
    return {name: _Repeated(column, numbers) for name, column in values.items()}


def _validators(matcher: Matcher, choices: list[tuple[int, Definition]]) -> dict[Quick | None, list[int]]:
    """Return what validates at once, or None, and the numbers of the choices that it is for."""
    results: dict[Quick | None, list[int]] = {}
    for at, shown in choices:
        results.setdefault(matcher.payloads.quick(shown), []).append(at)
    return results


def _left(columns: Columns, quick: Quick | None, rows: Rows) -> Iterator[tuple[int, Payload]]:
    """Yield the payloads that are not valid at a glance, with their index in `rows`; JSON by JSON Schema is validated at once."""
    if isinstance(columns, StructuredColumns):
        opened = enumerate(columns.opened(rows))
        yield from ((at, payload_of(payload)) for at, payload in opened if quick is None or not _is_quick(quick, payload))
        return
    bodies = columns.bodies(rows)
    left: Iterable[int] = range(len(bodies))
    if quick is not None:
        types = columns.attribute("datacontenttype")
        is_json_text = np.array([kind is None or is_json(media_type(kind)[0]) for kind in types.distinct])[types.codes[rows]]
        left = np.nonzero(~(_validated(quick, bodies) & is_json_text))[0].tolist()
    yield from ((at, Payload(body=bodies[at])) for at in left)


def _verdict(matcher: Matcher, columns: Columns, shown: Definition, row: int, payload: Payload) -> PayloadVerdict:
    """Validate a payload by the usual way."""
    types, (data, has_data, body) = columns.attribute("datacontenttype"), payload
    event = Event(columns.binding.family, mode=columns.mode, body=body, data=data, has_data=has_data)
    event.content_type = event.ce["datacontenttype"] = types.distinct[types.codes[row]]
    return matcher.payloads.check(shown, event)


def _validated(quick: Quick, bodies: list[bytes | None]) -> Rows:
    """Return the texts that are JSON and valid; others are left to the usual way."""
    try:
        return np.array([quick(read_exactly(body or b"")) for body in bodies], bool)
    except orjson.JSONDecodeError:  # one of them is no JSON, or not there: it costs no other
        return np.array([_is_valid_text(quick, body) for body in bodies], bool)


def _is_valid_text(quick: Quick, body: bytes | None) -> bool:
    try:
        return bool(body) and quick(read_exactly(body or b""))
    except orjson.JSONDecodeError:
        return False


def _is_quick(quick: Quick, envelope: dict[str, Any]) -> bool:
    """Return whether an event holds a JSON value that is valid; a text may hold JSON once more."""
    data = envelope.get("data")
    if data is None or isinstance(data, str) or envelope.get("data_base64") is not None:
        return False
    return quick(data)


def _variables(matcher: Matcher, results: list[MatchedRows], order: Rows | None) -> pa.Array:
    """Return the column `variables`: of each row the names, sorted as they were met, with their texts."""
    names: list[str] = []
    starts: dict[int, int] = {}  # of the columns that hold the texts, by identity
    distinct: list[pa.Array] = []
    sizes, at, texts = [], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for matched in results:
        shown = [_shown(matcher, capture, name in matched.secret) for name, capture in matched.variables.items()]
        for values in (capture.values for capture in shown):
            if id(values) not in starts:
                starts[id(values)] = sum(map(len, distinct))
                distinct.append(values)
        count = len(matched.rows)
        sizes.append(np.full(count, len(shown)))
        at.append(np.tile(np.arange(len(names), len(names) + len(shown)), count))
        if shown:
            texts.append(np.stack([capture.at + starts[id(capture.values)] for capture in shown], axis=1).ravel())
        names += matched.variables
    size, own_at, own_texts = np.concatenate(sizes), np.concatenate(at), np.concatenate(texts)
    if order is not None:
        begins = (np.cumsum(size) - size)[order]
        size = size[order]
        ends = np.cumsum(size)
        moved = np.arange(int(size.sum())) + np.repeat(begins - (ends - size), size)
        own_at, own_texts = own_at[moved], own_texts[moved]
    offsets = pa.array(np.concatenate([[0], np.cumsum(size)]).astype(np.int32))
    keys = pa.array(names, pa.string()).take(pa.array(own_at))
    values = pa.concat_arrays(distinct) if distinct else pa.array([], pa.string())
    return pa.MapArray.from_arrays(offsets, keys, values.take(pa.array(own_texts)))


def _shown(matcher: Matcher, capture: Captures, is_secret: bool) -> Captures:
    if not matcher.request.with_values:
        return Captures(_NOTHING, np.zeros(len(capture.at), np.int64))
    return Captures(_HIDDEN, np.zeros(len(capture.at), np.int64)) if is_secret else capture


def _key(definition: Definition) -> dict[str, str]:
    return {"registryid": definition.registryid, "xid": definition.xid}


class ColumnVerdict(NamedTuple):
    """What came of a definition and rows: which match, which the row loop must look at, and what the placeholders hold."""

    matches: Rows
    odd: Rows
    variables: dict[str, Captures]
    unchecked: list[str]


def match_columns(matcher: Matcher, batch: pa.RecordBatch) -> tuple[list[pa.RecordBatch], pa.RecordBatch]:
    """Match what of a batch can be matched column by column.

    Args:
        matcher: the definitions, and how.
        batch: the columns of `LANDED`.

    Returns:
        Results, and the rows that are left to the row loop.
    """
    request = matcher.request
    if request.tolerance.level != "default" or request.tolerance.native or 0 < request.payload_share < 1:
        return [], batch
    results, done = [], np.zeros(batch.num_rows, bool)
    with not_collecting():
        for columns in columns_of(batch):
            glances = FastPathCache()
            groups = ((RowGroup(columns, rows, glances), members, which) for rows, members, which in _groups(matcher, columns))
            matches = [matched for group, members, which in groups for matched in _match_group(group, members, which)]
            if matches:
                results.append(result_batch(matcher, columns, matches))
                for matched in matches:
                    done[columns.numbers[matched.rows]] = True
    if not done.any():
        return results, batch
    return results, batch.slice(batch.num_rows) if done.all() else batch.filter(pa.array(~done))


@contextmanager
def not_collecting() -> Iterator[None]:
    """Keep Python from searching for cycles: thousands of JSON values are open here, none in a cycle; each search walks them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _groups(matcher: Matcher, columns: Columns) -> Iterator[tuple[Rows, list[Candidates], Rows]]:
    """Take rows together whose candidates ask alike: the rows, the candidates of their types, and which of these each row has."""
    alike: dict[tuple[object, ...], tuple[list[Rows], list[Candidates]]] = {}
    for rows, candidates in _types(matcher, columns):
        parts, members = alike.setdefault(candidates.likeness, ([], []))
        parts.append(rows)
        members.append(candidates)
    for parts, members in alike.values():
        rows = np.concatenate(parts)
        if len(rows) >= FEWEST_ROWS:
            yield rows, members, np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def _types(matcher: Matcher, columns: Columns) -> Iterator[tuple[Rows, Candidates]]:
    """Take rows of one type (and topic or subject, where that distinguishes definitions) together, with their candidates."""
    likeness = _LIKENESS.setdefault(matcher, Likeness())
    binding, kinds = columns.binding, columns.attribute("type")
    addresses = columns.option(binding.discriminator)
    at = np.nonzero(columns.is_ready)[0]
    codes = kinds.codes[at].astype(np.int64)
    has_addresses = bool(binding.family) and matcher.index.tells_addresses(binding.family or "")
    if has_addresses:
        codes = codes * (len(addresses.words) + 1) + addresses.codes[at]
    order = np.argsort(codes.astype(np.uint16) if codes.max(initial=0) < 2**16 else codes, kind="stable")
    ends = np.nonzero(np.diff(codes[order]))[0] + 1
    for part in np.split(order, ends):
        if len(part) >= _FEWEST_OF_A_TYPE:
            rows = at[part]
            event = columns.event()
            event.ce["type"] = kinds.distinct[kinds.codes[rows[0]]]
            address = addresses.distinct[addresses.codes[rows[0]]] if has_addresses else None
            if address is not None:
                event.options[binding.discriminator] = address
            results = likeness.candidates(tuple(matcher.candidates(event)), event.family)
            if len(results) <= _MOST_CANDIDATES:
                yield rows, results


def _match_group(group: RowGroup, members: list[Candidates], which: Rows) -> Iterator[MatchedRows]:
    """Match rows whose candidates ask alike; rows with anything to report are left out."""
    rows = group.rows
    verdicts = [_evaluate(definition, group) for definition in members[0].definitions]
    pattern, odd = np.zeros(len(rows), np.int64), np.zeros(len(rows), bool)
    for bit, verdict in enumerate(verdicts):
        pattern |= verdict.matches.astype(np.int64) << bit
        odd |= verdict.odd
    for bits in np.unique(pattern[~odd]).tolist():
        here = np.nonzero((pattern == bits) & ~odd)[0]
        choices = [candidates.choice(bits) for candidates in members]
        shown = np.array([-1 if choice is None else choice.shown for choice in choices])[which[here]]
        for slot in np.unique(shown).tolist():
            if slot >= 0:
                chosen = here if (shown == slot).all() else here[shown == slot]
                verdict = verdicts[slot]
                variables = {name: capture.take(chosen) for name, capture in verdict.variables.items()}
                secret = secret_variables(members[0].definitions[slot])  # those of other members are the same
                yield MatchedRows(rows[chosen], choices, which[chosen], variables, secret, verdict.unchecked)


def _evaluate(definition: Definition, group: RowGroup) -> ColumnVerdict:
    """Check all that a definition asks of rows."""
    columns, count = group.columns, len(group.rows)
    probe = columns.event()
    matches, odd = np.ones(count, bool), np.zeros(count, bool)
    captures: dict[str, list[Captures]] = {}
    unchecked = ["/protocol"] if definition.family and not columns.binding.family else []
    if definition.family == "MQTT" and not is_version(columns.binding.version, definition.version):
        odd |= True  # another version deviates
    for attribute in definition.attributes:
        if is_index_key(attribute):
            continue
        if attribute.section == "message" and hides_envelope_type(attribute, probe):
            unchecked.append(attribute.pointer)
            continue
        answer, absent = _ask(attribute, group, probe)
        if absent.any() and not is_captured(attribute, probe):
            unchecked += [attribute.pointer] if absent.all() else []
            odd |= absent & (not absent.all())  # known of some rows, and not of these
        elif attribute.required or attribute.has_value:
            matches &= ~(absent & attribute.decides)
            odd |= absent & (not attribute.decides)
        if absent.all():
            continue
        if attribute.decides:
            matches &= answer.holds | absent
        else:
            odd |= ~(answer.holds | absent)
        odd |= answer.is_odd & ~absent
        for name, texts in zip(attribute.template.names if attribute.template else (), answer.captures, strict=False):
            captures.setdefault(name, []).append(texts)
    variables = {name: uses[0] for name, uses in captures.items()}
    for name, uses in captures.items():
        for other in uses[1:]:  # texts that differ are the row loop's
            odd |= matches & variables[name].differs(other)
    return ColumnVerdict(matches, odd & matches, variables, unchecked)


def _ask(attribute: DeclaredAttribute, group: RowGroup, probe: Event) -> tuple[ColumnAnswer, Rows]:
    """Return what rows answer, and which of them have no value; what the row loop must look at is odd."""
    columns = group.columns
    if attribute.section == "message":  # one of the content types must hold
        answers = [group.answer(attribute, texts, probe) for texts in columns.content_types()]
        holds, odd = (np.logical_or.reduce([answer[part] for answer in answers]) for part in (0, 1))
        return ColumnAnswer(holds, odd, ()), np.logical_and.reduce(
            [group.is_absent(content_type) for content_type in columns.content_types()]
        )
    texts = columns.attribute(attribute.key) if attribute.section == "envelope" else columns.option(attribute.key)
    absent, odd = group.is_absent(texts), group.is_odd(texts)
    answer = group.answer(attribute, texts, probe)
    if odd is None:
        return answer, absent
    return answer._replace(holds=answer.holds | odd, is_odd=answer.is_odd | odd), absent & ~odd


def landed_of_row(row: dict[str, Any]) -> Iterable[CapturedEvent]:
    """Return what a row of the canonical table holds: one event, or those of a text."""
    if row["problem"]:
        return [CapturedEvent(row["protocol"], problem=row["problem"])]
    if row["line"] is not None and row["captured"] is None:  # with a mapping, the columns say what the line is
        form = next((option["value"] for option in row["options"] or () if option["key"] == FORM), None)
        return landed_of_text(row["line"], row["protocol"], form)
    return [landed_of_columns(row)]


def match_batch(matcher: Matcher, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Match landed rows: column by column what can be, the others row by row.

    Args:
        matcher: the definitions, and how.
        batch: the columns of `LANDED`; lines are numbered.

    Returns:
        Columns of `RESULT_SCHEMA`, in any order.
    """
    try:
        quick, left = match_columns(matcher, batch)
    except Exception as error:  # the row loop finds the row that it was, and costs no other
        logger.warning("a batch is matched row by row, as %s was raised", type(error).__name__)
        quick, left = [], batch
    yield from quick
    for start in range(0, left.num_rows, _ROWS_OF_LOOP):
        made = [result for row in left.slice(start, _ROWS_OF_LOOP).to_pylist() for result in match_row(matcher, row)]
        yield pa.RecordBatch.from_pylist(made, schema=RESULT_SCHEMA)


def match_row(matcher: Matcher, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Match the events of a row; an error is reported in its own result, and costs no other."""
    own = {name: row[name] for name in ("ordinal", "place", "landed_at")}
    own["event_ref"] = {name: row[name] for name in ("source", "partition", "offset", "row")}
    try:
        results = [result for landed in landed_of_row(row) for result in matcher.rows(landed)]
    except Exception as error:  # reported in the row's own result, without the error's text, which may hold values
        problem = f"row: it cannot be matched ({type(error).__name__})"
        results = list(matcher.rows(CapturedEvent(row["protocol"], problem=problem)))
    return (result | own | {"why": why_of(result)} for result in results)
