"""Findings have one name in every run, whoever makes them."""

from __future__ import annotations

from pathlib import Path

import pytest
from builders import document, group, message
from pyspark.sql import functions as F

from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.rules.published import check_catalog
from lakehouse.text.problems import violation_id, violation_id_column

IDENTITY = ["registryid", "document_uri", "rule_id", "xid", "pointer", "message", "action"]
PACKAGE = Path(__file__).parents[2] / "lakehouse"
DEFINITION = {"format": "CloudEvents", "definition": {"attributes": {"type": {"value": "o"}}}}


def named(row):
    return violation_id(*(row[name] or "" for name in IDENTITY))


def test_a_row_and_a_column_give_the_same_name(spark):
    texts = ["", None, "a", "a\0b", "ü😀", "\n\t", "/messagegroups/g~1h", "it's `x`", "%\\_", " "]
    rows = [tuple(texts[(first + step * place) % 10] for place in range(7)) for first in range(10) for step in range(10)]
    frame = spark.createDataFrame(rows, ", ".join(f"{name} string" for name in IDENTITY))
    reported = frame.withColumn("violation_id", violation_id_column(*IDENTITY)).collect()
    assert [row["violation_id"] for row in reported] == [named(row) for row in reported]
    assert len({row["violation_id"] for row in reported}) > 50


def test_findings_that_differ_in_their_place_only_are_two(spark):
    rows = spark.createDataFrame([("/a",), ("/b",)], "pointer string")
    names = rows.select(violation_id_column(*(F.lit("x") if name != "pointer" else "pointer" for name in IDENTITY)))
    assert names.distinct().count() == 2


@pytest.mark.slow
def test_all_that_make_findings_name_them_so(catalog):
    """While parsing, between documents, between entities, by numbers, under --strict, and of what is published."""
    catalog.settings = catalog.settings.model_copy(update={"check_relations": True})
    definition = DEFINITION | {"id": "o", "authority": "https://a.example"}
    based = {"basemessage": "/messagegroups/g/messages/x"}
    catalog.write("a.json", document({"g": group({"m": {"name": "one"}})}))
    catalog.write("b.json", document({"g": group({"m": {"name": "two"}, "n": {"name": 5}, "o": based})}))
    catalog.write("c.json", {"id": "d", "format": "CloudEvents", "messagedefinitions": [definition]})
    catalog.ingest()
    definition["authority"] = "https://b.example"
    catalog.write("c.json", {"id": "d", "format": "CloudEvents", "messagedefinitions": [definition]})
    catalog.write("d.json", document({"e": group({"m": message()}, envelope="other/1")}, registryid="r"))
    catalog.ingest(request=IngestRequest(strict=True))
    stored = catalog.spark.table("violations").collect()
    assert {"MSG-043", "DOC-001", "DOC-004", "MSG-150", "CAT-064"} <= {row["rule_id"] for row in stored}
    found = check_catalog(catalog.spark).select("*", "finding.*").collect()
    assert found
    assert [row["violation_id"] for row in [*stored, *found]] == [named(row) for row in [*stored, *found]]


def test_there_is_one_place_that_names_findings():
    hashing = [path.stem for path in PACKAGE.rglob("*.py") if '"\\0"' in path.read_text() and "sha2" in path.read_text()]
    assert hashing == ["problems"]
