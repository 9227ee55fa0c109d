"""What is known of documents: facts of two loads that say the same are the same."""

from __future__ import annotations

import json

from pyspark.sql import functions as F

from lakehouse.log.baseline import with_document_op
from lakehouse.store.schema import DOCUMENT_BODY


def facts(spark, **reported):
    rows = spark.createDataFrame(
        [("r", "file:/a.json", json.dumps({"status": "loaded"} | reported))], "registryid string, xid string, body string"
    )
    return rows.select("registryid", "xid", F.from_json("body", DOCUMENT_BODY).alias("facts"))


def test_the_order_in_which_spark_holds_a_map_changes_nothing(spark):
    before = facts(spark, entities={"versions": 1, "groups": 2}, spellings={"b": 1, "a": 2})
    same = facts(spark, entities={"groups": 2, "versions": 1}, spellings={"a": 2, "b": 1})
    other = facts(spark, entities={"versions": 1, "groups": 3}, spellings={"b": 1, "a": 2})
    nothing = before.select("registryid", "xid").limit(0)
    assert with_document_op(same, before, nothing, None).collect() == []
    written = with_document_op(other, before, nothing, None).collect()
    assert [row["op"] for row in written] == ["update"]
    assert written[0]["body"] == '{"status":"loaded","entities":{"groups":3,"versions":1},"spellings":{"a":2,"b":1}}'
    assert [row["op"] for row in with_document_op(other, before.limit(0), nothing, None).collect()] == ["insert"]
