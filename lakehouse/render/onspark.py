"""Rendering on Spark: a table of values becomes a table of messages, in one `mapInArrow` pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.errors import LakehouseError
from lakehouse.match.payload.schemas import Schemas
from lakehouse.render.filling import PAYLOAD, RenderInput, check_names, input_of
from lakehouse.render.protocolbinding import bindings_of
from lakehouse.render.rendering import Renderer, RenderStyle
from lakehouse.render.selected import Selected

RENDERED_COLUMNS = "registryid STRING, xid STRING, protocol STRING, mode STRING, line STRING, payload_status STRING, error STRING"
_SCHEMA = pa.schema([(column.split()[0], pa.string()) for column in RENDERED_COLUMNS.split(", ")])
_NUMBER = "__number"


def render_table(
    values: DataFrame,
    selected: Selected,
    style: RenderStyle | None = None,
    requested: tuple[str, ...] = (),
    common: RenderInput | None = None,
) -> DataFrame:
    """Render a message for each row of values, each definition and each binding.

    Args:
        values: a column for each name that has values, as `--set` takes them; a column `data` holds the payload.
        selected: the definitions, of `read_selected`.
        style: how.
        requested: families, `CLOUDEVENTS` or `ALL`; nothing: what each definition or its endpoints say.
        common: what is given for all rows.

    Returns:
        The columns of `RENDERED_COLUMNS`; `line` is what `match` reads; where `error` says why there is none, it is null.

    Raises:
        SettingsError: a column has a name that nothing asks for.
        RenderRefused: a definition does not go over what is asked.
    """
    render_input = common or RenderInput()
    bindings = [binding for row in selected.messages for binding in bindings_of(row, selected.endpoints, requested)]
    check_names(bindings, [*(name for name in values.columns if name != PAYLOAD), *render_input.values])
    numbered = values.withColumn(_NUMBER, F.monotonically_increasing_id())
    return numbered.mapInArrow(_pass(selected, style or RenderStyle(), requested, render_input), RENDERED_COLUMNS)


def _pass(
    selected: Selected, style: RenderStyle, requested: tuple[str, ...], common: RenderInput
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        renderer = Renderer(Schemas(selected.schemas), style)
        bindings = [binding for row in selected.messages for binding in bindings_of(row, selected.endpoints, requested)]
        for batch in batches:
            made = []
            for row in batch.to_pylist():
                number = row.pop(_NUMBER)
                render_input = input_of(row, common)
                made += [_row(renderer, binding, render_input, number) for binding in bindings]
            if made:
                yield pa.RecordBatch.from_pylist(made, schema=_SCHEMA)

    return run


def _row(renderer: Renderer, binding: Any, render_input: RenderInput, number: int) -> dict[str, Any]:
    fields = {"registryid": binding.definition.registryid, "xid": binding.definition.xid, "protocol": binding.protocol}
    try:
        message = renderer.render(binding, render_input, number)
    except LakehouseError as error:
        return fields | {"error": str(error)}
    return fields | {"mode": message.mode, "line": message.line().decode(), "payload_status": message.payload_status}
