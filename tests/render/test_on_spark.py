"""A table of values becomes a table of messages on Spark: the same as without it, and one row never costs another."""

from __future__ import annotations

import json

import pytest

from lakehouse.errors import SettingsError
from lakehouse.match import Schemas
from lakehouse.render import Renderer, RenderInput, RenderStyle, bindings_of
from lakehouse.render.onspark import render_table
from lakehouse.render.selected import Selected
from render.definitions import NOW, cloudevent, row

ORDER = cloudevent("KAFKA", {"topic": {"value": "orders"}, "key": {"value": "{id}"}}, subject={"value": "{region}/{id}"})


def test_a_table_of_values_is_rendered_a_message_a_row(spark):
    values = spark.createDataFrame(
        [("eu", "7", '{"a":1}'), ("e/u", "8", None), ("us", None, None)], "region STRING, id STRING, data STRING"
    )
    selected = Selected([row(ORDER)])
    rows = render_table(values, selected, RenderStyle("structured", now=NOW)).orderBy("line").collect()
    failed, written = [one for one in rows if one.error], [one for one in rows if one.line]
    assert (len(failed), len(written)) == (2, 1)
    assert any("values are missing" in one.error for one in failed)
    assert any("/envelopemetadata/subject" in one.error for one in failed)
    [way] = bindings_of(selected.messages[0])
    plain = Renderer(Schemas([]), RenderStyle("structured", now=NOW)).render(
        way, RenderInput({"region": "eu", "id": "7"}, b'{"a":1}')
    )
    ours, theirs = (json.loads(line)["captured"] for line in (plain.line(), written[0].line))
    assert ours == theirs
    with pytest.raises(SettingsError, match="regoin"):
        render_table(values.withColumnRenamed("region", "regoin"), selected)
