"""Results of rows that were matched column by column: what is the same for all of them is written once and repeated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.match.definition.definitions import Definition
from lakehouse.match.definition.valuetypes import media_type
from lakehouse.match.event.landed import Event
from lakehouse.match.matching.matcher import LONGEST_VALUE, Matcher, remarks_of
from lakehouse.match.matching.results import EVENT_REF, RESULT_SCHEMA
from lakehouse.match.payload.payloads import NOT_CHECKED, VALID, PayloadVerdict
from lakehouse.match.payload.validators import is_json
from lakehouse.text.blanking import REDACTED, looks_secret

if TYPE_CHECKING:
    from lakehouse.match.matching.columns import Columns, Rows

_VALID = PayloadVerdict(VALID)
_NOT_ASKED = PayloadVerdict(NOT_CHECKED)


def result_batch(
    matcher: Matcher,
    columns: Columns,
    rows: Rows,
    matches: list[Definition],
    best: list[Definition],
    variables: dict[str, pa.Array],
    unchecked: list[str],
) -> pa.RecordBatch | None:
    """Make the results of rows that are of the same definitions.

    Args:
        matcher: how they are matched, and what validates.
        columns: of the batch.
        rows: their numbers in it.
        matches: the definitions that they are of, sorted.
        best: the most specific of them.
        variables: what the placeholders of the first of the best hold.
        unchecked: what the landing does not tell.

    Returns:
        Columns of `RESULT_SCHEMA`; None: a text is so long that it is cut, which is left to the row loop.
    """
    count, shown = len(rows), best[0]
    if any((pc.max(pc.utf8_length(texts)).as_py() or 0) > LONGEST_VALUE for texts in variables.values()):
        return None
    batch = columns.batch.take(pa.array(rows))
    verdicts = _verdicts(matcher, columns, batch, rows, shown)
    own = remarks_of(shown)
    same: dict[str, Any] = {
        "protocol": columns.binding.protocol, "mode": "binary", "status": "matched",
        "registryid": shown.registryid, "xid": shown.xid, "version_xid": shown.version_xid,
        "best": [_key(one) for one in best], "matches": [_key(one) for one in matches],
        "reasons": [], "deviations": [], "unchecked": unchecked,
    }  # fmt: skip
    refs = [batch.column(field.name).cast(field.type) for field in EVENT_REF]
    each: dict[str, pa.Array] = {
        "ordinal": batch.column("ordinal"),
        "place": batch.column("place"),
        "event_ref": pa.StructArray.from_arrays(refs, fields=list(EVENT_REF)),
        "landed_at": batch.column("landed_at"),
        "ce_id": columns.attribute("id").take(pa.array(rows)),
        "ce_source": columns.attribute("source").take(pa.array(rows)),
        "ce_type": columns.attribute("type").take(pa.array(rows)),
        "address": columns.option(columns.binding.address).take(pa.array(rows)),
        "variables": _map(matcher, variables, count),
    }
    if len(set(map(id, verdicts))) == 1:
        same |= {"payload_status": verdicts[0].status, "payload_errors": [], "remarks": [*verdicts[0].remarks, *own]}
        same["payload_errors"] = [matcher.told_error(error) for error in verdicts[0].errors]
    else:
        kinds = {name: RESULT_SCHEMA.field(name).type for name in ("payload_errors", "remarks")}
        each["payload_status"] = pa.array([one.status for one in verdicts], pa.string())
        errors = [[matcher.told_error(error) for error in one.errors] for one in verdicts]
        each["payload_errors"] = pa.array(errors, kinds["payload_errors"])
        each["remarks"] = pa.array([[*one.remarks, *own] for one in verdicts], kinds["remarks"])
    return pa.RecordBatch.from_arrays([_column(field, same, each, count) for field in RESULT_SCHEMA], schema=RESULT_SCHEMA)


def _verdicts(matcher: Matcher, columns: Columns, batch: pa.RecordBatch, rows: Rows, shown: Definition) -> list[PayloadVerdict]:
    """Validate the payloads of rows; JSON by JSON Schema goes straight through, and what fails is told by the usual way."""
    if matcher.request.payload_share == 0:
        return [_NOT_ASKED] * len(rows)
    told = columns.content_type.take(pa.array(rows)).to_pylist()
    quick = matcher.payloads.quick(shown)
    found = []
    for body, kind in zip(batch.column("payload").to_pylist(), told, strict=True):
        if quick is not None and body and (kind is None or is_json(media_type(kind)[0])):
            try:
                if quick(orjson.loads(body)):
                    found.append(_VALID)
                    continue
            except orjson.JSONDecodeError:
                pass  # what it is instead, the usual way tells
        event = Event(columns.binding.family, mode="binary", body=body, content_type=kind)
        found.append(matcher.payloads.check(shown, event))
    return found


def _map(matcher: Matcher, variables: dict[str, pa.Array], count: int) -> pa.Array:
    names = list(variables)
    offsets = pa.array(
        np.arange(0, (count + 1) * len(names), len(names), dtype=np.int32) if names else np.zeros(count + 1, np.int32)
    )
    if not names:
        return pa.MapArray.from_arrays(offsets, pa.array([], pa.string()), pa.array([], pa.string()))
    columns = [_shown(matcher, name, texts) for name, texts in variables.items()]
    interleaved = np.arange(count * len(names)).reshape(len(names), count).T.ravel()
    keys = pa.array(names, pa.string()).take(pa.array(np.tile(np.arange(len(names)), count)))
    return pa.MapArray.from_arrays(offsets, keys, pa.concat_arrays(columns).take(pa.array(interleaved)))


def _shown(matcher: Matcher, name: str, texts: pa.Array) -> pa.Array:
    if not matcher.request.with_values:
        return pa.repeat(pa.scalar(""), len(texts))
    return pa.repeat(pa.scalar(REDACTED), len(texts)) if looks_secret(name) else texts


def _column(field: pa.Field, same: dict[str, Any], each: dict[str, pa.Array], count: int) -> pa.Array:
    if field.name in each:  # Spark's own types may differ in time zone and nullability
        column = each[field.name]
        return column if column.type == field.type else column.cast(field.type)
    value = pa.array([same.get(field.name)], field.type)
    return value.take(pa.array(np.zeros(count, np.int64)))


def _key(definition: Definition) -> dict[str, str]:
    return {"registryid": definition.registryid, "xid": definition.xid}
