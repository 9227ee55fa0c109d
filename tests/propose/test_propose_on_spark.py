"""Proposals on Spark: counted once whatever is repeated, decided over days and sources, accepted, and matched afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from lakehouse.ingest.pipeline import ingest
from lakehouse.match.runs import MatchOptions, run_match
from lakehouse.propose.decided import Thresholds
from lakehouse.propose.proposalruns import (
    TABLE,
    ProposeOptions,
    location_of,
    read_observed,
    run_propose,
    watch_proposals,
    write_proposals,
)
from lakehouse.settings import data_folder
from propose.test_proposals import kafka
from propose.test_widenedversions import declared

FEW = Thresholds(required_events=20, required_days=2)
OTHER = "shop.orders.OrderPaid"


@pytest.fixture
def landed(tmp_path):
    folder = tmp_path / "landed"
    folder.mkdir()

    def write(name: str, messages: Any) -> str:
        (folder / name).write_text("".join(json.dumps(message) + "\n" for message in messages))
        return str(folder / name)

    return write


def rows(catalog):
    table = catalog.spark.read.format("delta").load(location_of(catalog.settings))
    columns = [name for name in table.columns if name != "source"]
    return sorted(map(str, table.select(*columns).withColumn("equals", F.map_entries("equals")).collect()))


def documents(summary, folder) -> dict[str, bytes]:
    write_proposals(summary, str(folder), FEW)
    return {path.name: path.read_bytes() for path in sorted(Path(folder).iterdir())}


@pytest.mark.slow
def test_from_a_dump_to_a_matched_stream(catalog, landed, tmp_path):
    source = landed("first.jsonl", [*map(kafka, range(40)), {"protocol": "KAFKA", "captured": 1}])
    summary = run_propose(catalog.spark, catalog.settings, ProposeOptions((source,), thresholds=FEW))
    assert summary.as_json() | {"files": []} == {
        "read": 41, "matched": 0, "invalid": 0, "unmatched": 40, "unreadable": 1, "schemas": [], "files": [],
        "kinds": [{"kind": "shop.orders.OrderPlaced", "group": "shop.orders", "events": 40}],
    }  # fmt: skip
    first = documents(summary, tmp_path / "proposals")
    assert list(first) == ["shop.orders.md", "shop.orders.xreg.json"]

    before = rows(catalog)
    again = run_propose(catalog.spark, catalog.settings, ProposeOptions((source,), thresholds=FEW))
    assert (rows(catalog), documents(again, tmp_path / "proposals")) == (before, first)

    loaded = ingest(
        catalog.spark,
        catalog.settings.model_copy(update={"registry": "proposed"}),
        [str(tmp_path / "proposals" / "shop.orders.xreg.json")],
    )
    assert not loaded.refused
    later = landed("later.jsonl", map(kafka, range(40, 60)))
    matched = run_match(catalog.spark, catalog.settings, MatchOptions((later,)))
    assert (matched.counts["matched"], matched.payloads) == (20, {"valid": 20})
    mixed = landed("mixed.jsonl", [*map(kafka, range(60, 70)), *(kafka(number, OTHER) for number in range(10))])
    more = run_propose(catalog.spark, catalog.settings, ProposeOptions((mixed,), thresholds=FEW))
    assert {name: more.events.get(name, 0) for name in ("matched", "unmatched")} == {"matched": 10, "unmatched": 10}


@pytest.mark.slow
def test_a_second_source_and_a_stream_are_sums(catalog, landed, tmp_path):
    half = landed("one.jsonl", map(kafka, range(20)))
    options = ProposeOptions((half,), thresholds=FEW)
    run_propose(catalog.spark, catalog.settings, options)
    whole = run_propose(
        catalog.spark, catalog.settings, ProposeOptions((landed("two.jsonl", map(kafka, range(20, 40))),), thresholds=FEW)
    )
    assert [one.events for one in whole.kinds] == [40]
    expected = documents(whole, tmp_path / "whole")

    stream = tmp_path / "stream"
    stream.mkdir()
    summaries = []
    for part in (range(40, 50), range(50, 60)):
        (stream / f"{part.start}.jsonl").write_text("".join(json.dumps(kafka(number)) + "\n" for number in part))
        watched = ProposeOptions((str(stream),), thresholds=FEW)
        watch_proposals(catalog.spark, catalog.settings, watched, summaries.append, lambda: False, every=None)
    assert [[one.events for one in summary.kinds] for summary in summaries] == [[50], [60]]
    assert set(documents(summaries[-1], tmp_path / "streamed")) == set(expected)


@pytest.mark.slow
def test_a_schema_that_payloads_break_gets_a_new_version_which_takes_them(catalog, landed, tmp_path):
    document = tmp_path / "shop.xreg.json"
    document.write_text(json.dumps(declared() | {"registryid": "shop"}))
    ingest(catalog.spark, catalog.settings, [str(document)])
    mixed = [*map(kafka, range(40)), *(kafka(number, OTHER) for number in range(10))]
    options = ProposeOptions((landed("one.jsonl", mixed),), thresholds=FEW)
    summary = run_propose(catalog.spark, catalog.settings, options)
    assert {name: summary.events.get(name, 0) for name in ("matched", "invalid", "unmatched")} == {
        "matched": 0, "invalid": 40, "unmatched": 10,
    }  # fmt: skip
    assert [(one.broken.registryid, one.versionid, one.events) for one in summary.widened] == [("shop", "2", 40)]
    assert [one.observed.kind for one in summary.kinds] == [OTHER]
    first = documents(summary, tmp_path / "proposals")
    assert list(first) == ["shop.orders.md", "shop.orders.xreg.json"]
    assert documents(run_propose(catalog.spark, catalog.settings, options), tmp_path / "proposals") == first

    proposed = json.loads(first["shop.orders.xreg.json"])["schemagroups"]
    document.write_text(json.dumps(declared() | {"registryid": "shop", "schemagroups": proposed}))
    ingest(catalog.spark, catalog.settings, [str(document)])
    after = run_propose(catalog.spark, catalog.settings, options)
    assert (after.events["matched"], after.widened) == (40, [])


def test_parents_and_nulls_are_those_that_decide(catalog, landed):
    def sent(number):
        message = kafka(number)
        message["payload"] |= {"note": None} if number % 4 == 0 else {}
        message["payload"] |= {"lines": [{"sku": "a"} | ({"gift": True} if number % 2 else {})] * 2}
        return message

    run_propose(catalog.spark, catalog.settings, ProposeOptions((landed("one.jsonl", map(sent, range(40))),), thresholds=FEW))
    catalog.spark.read.format("delta").load(location_of(catalog.settings)).createOrReplaceTempView(TABLE)
    catalog.spark.sql((data_folder("ddl") / "propose" / "observed_members.sql").read_text().rstrip().removesuffix(";"))
    shown = {row["path"]: row for row in catalog.spark.table("observed_members").collect()}
    (observed,) = read_observed(catalog.spark, catalog.settings)
    assert shown.keys() == {path for path, _ in observed.counts}
    assert shown.pop("")["parents"] is None
    for path, row in shown.items():
        seen = observed.presence(path)
        nulls = observed.types(path)["null"].events if "null" in observed.types(path) else 0
        assert (row["events"], row["parents"] or 0, row["days"] or 0, row["nulls"]) == (*seen, nulls), path
    note, gift = shown["/data/note"], shown["/data/lines/*/gift"]
    assert (note["parents"], note["events"], note["nulls"], note["types"]) == (40, 30, 10, ["null", "string"])
    assert (gift["parents"], gift["events"], gift["first_seen"], gift["last_seen"]) == (80, 40, "2026-03-02", "2026-03-02")


def test_no_value_is_stored_where_none_may_be(catalog, landed):
    options = ProposeOptions((landed("one.jsonl", map(kafka, range(40))),), thresholds=FEW, keeps_values=False)
    run_propose(catalog.spark, catalog.settings, options)
    stored = "".join(rows(catalog))
    assert not [value for value in ("harbour", "2026-00", "/eu/", "example.com") if value in stored]
