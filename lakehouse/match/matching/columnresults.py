"""Results of rows that were matched column by column: what is the same for many of them is written once and repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa

from lakehouse.match.definition.definitions import Definition
from lakehouse.match.definition.valuetypes import media_type
from lakehouse.match.event.landed import Event
from lakehouse.match.matching.columntexts import Held, Rows
from lakehouse.match.matching.landedcolumns import Columns, Payload, StructuredColumns, payload_of
from lakehouse.match.matching.likeness import Choice
from lakehouse.match.matching.matcher import Matcher, remarks_of
from lakehouse.match.matching.results import EVENT_REF, RESULT_SCHEMA
from lakehouse.match.payload.payloads import NOT_CHECKED, VALID, PayloadVerdict
from lakehouse.match.payload.validators import is_json
from lakehouse.text.blanking import REDACTED, looks_secret

_VALID = PayloadVerdict(VALID)
_NOT_ASKED = PayloadVerdict(NOT_CHECKED)
Quick = Callable[[Any], bool]
_NOTHING, _HIDDEN = pa.array([""]), pa.array([REDACTED])


class Found(NamedTuple):
    """Rows whose definitions ask alike.

    Attributes:
        rows: their numbers.
        choices: what rows are of; None, where no row is of it.
        which: for each row the number of its choice.
        variables: what the placeholders of the definition that is shown hold, row by row.
        unchecked: what the landing does not tell.
    """

    rows: Rows
    choices: list[Choice | None]
    which: Rows
    variables: dict[str, Held]
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


def result_batch(matcher: Matcher, columns: Columns, found: list[Found]) -> pa.RecordBatch:
    """Make the results of rows.

    Args:
        matcher: how they are matched, and what validates.
        columns: what they stand in.
        found: what they are of; at least one.

    Returns:
        Columns of `RESULT_SCHEMA`, in the order of the rows.
    """
    rows = np.concatenate([one.rows for one in found])
    order = np.argsort(rows) if (rows[1:] < rows[:-1]).any() else None
    if order is not None:
        rows = rows[order]
    batch, count = columns.batch, len(rows)
    at = None if count == len(columns) else pa.array(rows)  # all of them, in their order: nothing is copied
    part = {name: batch.column(name) if at is None else batch.column(name).take(at) for name in batch.schema.names
            if name in _OWN}  # fmt: skip
    refs = [part[field.name].cast(field.type) for field in EVENT_REF]
    repeated = _same(found) | _payloads(matcher, columns, found)
    taken = None if at is None else rows
    made = {name: part[name] for name in ("ordinal", "place", "landed_at")} | {
        "event_ref": pa.StructArray.from_arrays(refs, fields=list(EVENT_REF)),
        "ce_id": columns.attribute("id").take(taken),
        "ce_source": columns.attribute("source").take(taken),
        "ce_type": columns.attribute("type").take(taken),
        "address": columns.option(columns.binding.address).take(taken),
        "variables": _variables(matcher, found, order),
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


_OWN = frozenset({"ordinal", "place", "landed_at", *(field.name for field in EVENT_REF)})


def _constant(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    """Write one value for all rows."""
    if value is None:
        return pa.nulls(count, kind)
    if value == [] and isinstance(kind, pa.ListType):
        return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1, np.int32)), pa.array([], kind.value_type), type=kind)
    if isinstance(value, str):
        return pa.repeat(pa.scalar(value, kind), count)
    return pa.array([value], kind).take(pa.array(np.zeros(count, np.int64)))


def _same(found: list[Found]) -> dict[str, _Repeated]:
    """Give the columns that are the same for rows of the same definitions."""
    told = [(one, choice) for one in found for choice in one.choices if choice is not None]
    numbers, before = [], 0
    for one in found:
        number = np.cumsum([choice is not None for choice in one.choices]) - 1 + before
        before = int(number[-1]) + 1
        numbers.append(number[one.which])
    which = np.concatenate(numbers)
    values: dict[str, list[Any]] = {
        "registryid": [choice.best[0].registryid for _, choice in told],
        "xid": [choice.best[0].xid for _, choice in told],
        "version_xid": [choice.best[0].version_xid for _, choice in told],
        "unchecked": [one.unchecked for one, _ in told],
        "best": [[_key(definition) for definition in choice.best] for _, choice in told],
        "matches": [[_key(definition) for definition in choice.matches] for _, choice in told],
    }
    return {name: _Repeated(held, which) for name, held in values.items()}


def _payloads(matcher: Matcher, columns: Columns, found: list[Found]) -> dict[str, _Repeated]:
    """Validate payloads: status, errors and remarks."""
    told: list[tuple[PayloadVerdict, Definition]] = []
    which: list[Rows] = []
    for one in found:
        choices = [(at, choice.best[0]) for at, choice in enumerate(one.choices) if choice is not None]
        number = np.zeros(len(one.choices), np.int64)
        number[[at for at, _ in choices]] = np.arange(len(told), len(told) + len(choices))
        asked = matcher.request.payload_share > 0
        told += [(_VALID if asked else _NOT_ASKED, shown) for _, shown in choices]
        numbers = number[one.which]
        for quick, wanted in _validators(matcher, choices).items() if asked else ():
            at = np.arange(len(one.rows)) if len(wanted) == len(choices) else np.nonzero(np.isin(one.which, wanted))[0]
            at = at[np.argsort(one.rows[at])]  # as they stand in memory
            for place, payload in _left(columns, quick, one.rows[at]):
                shown = told[numbers[at[place]]][1]
                numbers[at[place]] = len(told)
                told.append((_verdict(matcher, columns, shown, int(one.rows[at[place]]), payload), shown))
        which.append(numbers)
    values: dict[str, list[Any]] = {
        "payload_status": [verdict.status for verdict, _ in told],
        "payload_errors": [[matcher.told_error(error) for error in verdict.errors] for verdict, _ in told],
        "remarks": [[*verdict.remarks, *remarks_of(definition)] for verdict, definition in told],
    }
    numbers = np.concatenate(which)
    return {name: _Repeated(held, numbers) for name, held in values.items()}


def _validators(matcher: Matcher, choices: list[tuple[int, Definition]]) -> dict[Quick | None, list[int]]:
    """Give what validates at once, or None, and the numbers of the choices that it is for."""
    found: dict[Quick | None, list[int]] = {}
    for at, shown in choices:
        found.setdefault(matcher.payloads.quick(shown), []).append(at)
    return found


def _left(columns: Columns, quick: Quick | None, rows: Rows) -> Iterator[tuple[int, Payload]]:
    """Give the payloads that are not valid at a glance, with their place in `rows`; JSON by JSON Schema goes straight through."""
    if isinstance(columns, StructuredColumns):
        opened = enumerate(columns.opened(rows))
        yield from ((at, payload_of(one)) for at, one in opened if quick is None or not _is_quick(quick, one))
        return
    bodies = columns.bodies(rows)
    left: Iterable[int] = range(len(bodies))
    if quick is not None:
        types = columns.attribute("datacontenttype")
        is_json_text = np.array([kind is None or is_json(media_type(kind)[0]) for kind in types.told])[types.codes[rows]]
        left = np.nonzero(~(_validated(quick, bodies) & is_json_text))[0].tolist()
    yield from ((at, Payload(body=bodies[at])) for at in left)


def _verdict(matcher: Matcher, columns: Columns, shown: Definition, row: int, payload: Payload) -> PayloadVerdict:
    """Validate a payload by the usual way."""
    types, (data, has_data, body) = columns.attribute("datacontenttype"), payload
    event = Event(columns.binding.family, mode=columns.mode, body=body, data=data, has_data=has_data)
    event.content_type = event.ce["datacontenttype"] = types.told[types.codes[row]]
    return matcher.payloads.check(shown, event)


def _validated(quick: Quick, bodies: list[bytes | None]) -> Rows:
    """Tell the texts that are JSON and valid; what the others are, the usual way tells."""
    loads = orjson.loads
    try:
        return np.array([quick(loads(body)) for body in bodies], bool)  # type: ignore[arg-type]
    except (orjson.JSONDecodeError, TypeError):  # one of them is no JSON, or not there: it costs no other
        return np.array([_is_valid_text(quick, body) for body in bodies], bool)


def _is_valid_text(quick: Quick, body: bytes | None) -> bool:
    try:
        return bool(body) and quick(orjson.loads(body or b""))
    except orjson.JSONDecodeError:
        return False


def _is_quick(quick: Quick, envelope: dict[str, Any]) -> bool:
    """Tell that an event holds a JSON value that is valid; a text may hold JSON once more."""
    data = envelope.get("data")
    if data is None or isinstance(data, str) or envelope.get("data_base64") is not None:
        return False
    return quick(data)


def _variables(matcher: Matcher, found: list[Found], order: Rows | None) -> pa.Array:
    """Give the column `variables`: of each row the names, sorted as they were met, with their texts."""
    names: list[str] = []
    starts: dict[int, int] = {}  # of the columns that hold the texts, by identity
    held_in: list[pa.Array] = []
    sizes, at, texts = [], [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for one in found:
        shown = [_shown(matcher, name, held) for name, held in one.variables.items()]
        for values in (held.values for held in shown):
            if id(values) not in starts:
                starts[id(values)] = sum(map(len, held_in))
                held_in.append(values)
        count = len(one.rows)
        sizes.append(np.full(count, len(shown)))
        at.append(np.tile(np.arange(len(names), len(names) + len(shown)), count))
        if shown:
            texts.append(np.stack([held.at + starts[id(held.values)] for held in shown], axis=1).ravel())
        names += one.variables
    size, own_at, own_texts = np.concatenate(sizes), np.concatenate(at), np.concatenate(texts)
    if order is not None:
        begins = (np.cumsum(size) - size)[order]
        size = size[order]
        ends = np.cumsum(size)
        moved = np.arange(int(size.sum())) + np.repeat(begins - (ends - size), size)
        own_at, own_texts = own_at[moved], own_texts[moved]
    offsets = pa.array(np.concatenate([[0], np.cumsum(size)]).astype(np.int32))
    keys = pa.array(names, pa.string()).take(pa.array(own_at))
    values = pa.concat_arrays(held_in) if held_in else pa.array([], pa.string())
    return pa.MapArray.from_arrays(offsets, keys, values.take(pa.array(own_texts)))


def _shown(matcher: Matcher, name: str, held: Held) -> Held:
    if not matcher.request.with_values:
        return Held(_NOTHING, np.zeros(len(held.at), np.int64))
    return Held(_HIDDEN, np.zeros(len(held.at), np.int64)) if looks_secret(name) else held


def _key(definition: Definition) -> dict[str, str]:
    return {"registryid": definition.registryid, "xid": definition.xid}
