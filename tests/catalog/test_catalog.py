"""`Catalog`, in which a program has what the command has, and the examples of docs/python.md."""

from __future__ import annotations

import contextlib
import io
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from builders import document, group
from pyspark.sql import SparkSession
from soak.sessions import forget

from lakehouse import Catalog
from lakehouse.errors import LakehouseError, MessageNotFound, QueryError, SnapshotNotFound

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
MESSAGE = "/messagegroups/g/messages/m"


def shop(description: str) -> dict[str, Any]:
    return document({"g": group({"m": {"description": description}, "child": {"basemessage": MESSAGE}})})


@pytest.fixture
def folder(tmp_path: Path, spark: SparkSession, empty_warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A folder to work in, with a warehouse that has tables, and a document."""
    shutil.copytree(empty_warehouse, tmp_path / "warehouse")
    (tmp_path / "documents").mkdir()
    (tmp_path / "documents" / "shop.json").write_text(json.dumps(shop("as it was")))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    forget(spark, tmp_path / "warehouse")


@pytest.mark.slow
def test_what_the_page_shows_works(folder, spark):
    examples = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert len(examples) == 4
    names: dict[str, Any] = {"spark": spark}
    printed = []
    for example in examples:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(example, str(PAGE), "exec"), names)
        printed.append(out.getvalue())
        (folder / "documents" / "shop.json").write_text(json.dumps(shop("as it is")))
    assert "False" in printed[0]
    assert "/description" in printed[1]
    assert "as it was" in printed[2]
    assert "as it is" in printed[2]
    assert "messages=2" in printed[3]


@pytest.mark.slow
def test_a_session_that_is_there_is_left_as_it_was(folder, spark):
    before = dict(spark.conf.getAll), spark.catalog.currentDatabase()
    spark.createDataFrame([(1,)], "mine int").createOrReplaceTempView("flat_messages")
    try:
        with Catalog("warehouse", spark=spark) as catalog:
            catalog.ingest("documents")
            assert catalog.sql("SELECT xid FROM flat_messages").count() == 2
        assert spark.sql("SELECT mine FROM flat_messages").collect()[0][0] == 1
    finally:
        spark.catalog.dropTempView("flat_messages")
    assert (dict(spark.conf.getAll), spark.catalog.currentDatabase()) == before


@pytest.mark.slow
def test_each_method_reports_what_its_command_reports(folder, spark):
    catalog = Catalog("warehouse", spark=spark)
    summary = catalog.ingest("documents", label="first")
    assert (summary.snapshot_id, summary.refused) == (1, False)
    assert [one.snapshot_id for one in catalog.snapshots()] == [1]
    assert catalog.label("first", "again") == 1
    (shown,) = catalog.show(f"{MESSAGE[:-1]}child")
    assert [one["basemessage"] for one in shown.chain] == [MESSAGE]
    exported = catalog.at(1).export(str(folder / "out.json"))
    assert exported.files == 1
    assert (folder / "out.json").read_text().startswith("{")
    assert catalog.violations() == []
    assert catalog.validate().has_findings is False


def test_messages_are_rendered_and_what_is_rendered_matches(folder, spark):
    reported = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}, "source": {"value": "/{shop}/x"}}}
    (folder / "documents" / "shop.json").write_text(json.dumps(document({"g": group({"m": reported})})))
    catalog = Catalog("warehouse", spark=spark)
    catalog.ingest("documents")
    rendered = catalog.render(spark.createDataFrame([("eu",), ("e/u",)], "shop STRING"), "m", over="http")
    assert [("/envelopemetadata/source" in row["error"], row["line"]) for row in rendered.collect() if row["error"]] == [
        (True, None)
    ]
    (found,) = catalog.match(rendered.filter("line IS NOT NULL").select("line")).collect()
    assert (found["status"], found["protocol"], found["variables"]) == ("matched", "HTTP", {"shop": "eu"})


@pytest.mark.slow
def test_what_cannot_be_done_is_an_error_with_a_reason(folder, spark):
    catalog = Catalog("warehouse", spark=spark)
    catalog.ingest("documents")
    with pytest.raises(QueryError):
        catalog.sql("SELECT nothing FROM nowhere")
    with pytest.raises(SnapshotNotFound):
        catalog.at(99).sql("SELECT 1 FROM messages")
    with pytest.raises(MessageNotFound):
        catalog.show("/messagegroups/g/messages/none")
    with pytest.raises(ValueError, match="as it is now"):
        catalog.at(1).ingest("documents")


def test_a_session_without_delta_is_refused():
    class Bare:
        class conf:  # noqa: N801
            @staticmethod
            def get(_key: str, default: str) -> str:
                return default

    with pytest.raises(LakehouseError, match="no Delta Lake"):
        Catalog("warehouse", spark=Bare())
