"""`Catalog` without Spark: what the command answers in milliseconds, and results that print, and that pandas and Arrow read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from deltas import unpack
from serve.served import Shops, shop

from lakehouse import Catalog
from lakehouse.errors import (
    DocumentNotFound,
    EntityNotFound,
    LabelTaken,
    MessageNotFound,
    PruneRefused,
    SnapshotNotFound,
    WarehouseError,
)
from lakehouse.query.records import Records, for_python

PLACED = "/messagegroups/orders/messages/placed"


@pytest.fixture
def catalog(tmp_path, monkeypatch) -> Any:
    """A catalog of two snapshots, opened where no session of Spark can be."""

    def no_session(*_: object, **__: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("lakehouse.catalog.open_session", no_session)
    made = Shops(tmp_path / "warehouse")
    made.load({"default": shop("one")}, label="first")
    made.load({"default": shop("two")})
    with Catalog(str(tmp_path / "warehouse")) as opened:
        yield opened


def test_every_kind_is_shown_by_xid_or_by_id(catalog):
    (group,) = catalog.show("/messagegroups/orders")
    assert group.as_json()["kind"] == "group"
    assert catalog.show("/endpoints/e")[0].as_json()["kind"] == "endpoint"
    assert catalog.show("e") == catalog.show("/endpoints/e")
    rows = catalog.show("/messagegroups/orders").to_pandas()
    assert dict(zip(rows["pointer"], rows["value"], strict=True))["/envelope"] == '"CloudEvents/1.0"'
    with pytest.raises(MessageNotFound):
        catalog.show("/messagegroups/orders/messages/none")


@pytest.mark.parametrize(("out", "to_folder"), [("there", True), ("new/", True), ("new", False), ("new.json", False)])
def test_an_export_goes_into_a_folder_that_is_there_or_named_as_one(catalog, tmp_path, monkeypatch, out, to_folder):
    (tmp_path / "there").mkdir()
    asked = []
    monkeypatch.setattr("lakehouse.catalog.open_session", lambda *_: None)
    monkeypatch.setattr("lakehouse.catalog.run_export", lambda *args: asked.append(args[2]))
    for place in (f"{tmp_path}/{out}", f"file:{tmp_path}/{out}"):
        catalog.export(place)
    assert [request.to_folder for request in asked] == [to_folder, to_folder]


def test_words_are_found(catalog):
    found = catalog.search("shipped", kinds=["message"])
    assert [one.xid for one in found] == ["/messagegroups/orders/messages/shipped"]
    assert repr(found).splitlines()[0].split() == ["kind", "xid", "registryid", "name", "where"]


def test_a_history_is_read(catalog):
    changed = catalog.log("/")
    assert [(one.snapshot_id, one.op) for one in changed] == [(1, "insert"), (2, "update")]
    assert [one.snapshot_id for one in catalog.at("first").log("/")] == [1]
    assert {one.pointer: one.snapshot_id for one in catalog.blame("/")}["/name"] == 2
    assert len(catalog.log("/messagegroups/orders", below=True)) > len(catalog.log("/messagegroups/orders"))
    with pytest.raises(EntityNotFound):
        catalog.log("/messagegroups/never")


def test_changes_are_events(catalog):
    every, last = catalog.changes(), catalog.changes(since=1)
    assert len(every) > len(last) > 0
    assert last[0]["specversion"] == "1.0"
    assert catalog.changes(since="first") == last
    assert catalog.at(1).changes() + last == every
    assert all("updated" in one["type"] for one in last)
    with pytest.raises(SnapshotNotFound):
        catalog.changes(since="never")


def test_snapshots_and_differences(catalog, tmp_path):
    assert [one.labels for one in catalog.snapshots()] == [{"first": None}, {}]
    unpack(tmp_path / "golden")
    with Catalog(str(tmp_path / "golden" / "warehouse")) as golden:
        assert ("/messagegroups/g/messages/m", "/name") in [(one.xid, one.pointer) for one in golden.diff("first", "head")]
        assert golden.diff(1, 1) == []


def test_findings_are_listed(catalog):
    assert catalog.violations() == []
    assert repr(catalog.violations()) == "(no rows)"
    with pytest.raises(DocumentNotFound):
        catalog.violations(document="never.json")


def test_pages_are_written(catalog, tmp_path):
    written = catalog.site(str(tmp_path / "pages"))
    assert (written.snapshot_id, (tmp_path / "pages" / "index.html").is_file()) == (2, True)


def test_a_snapshot_that_is_unknown_is_an_error_at_once(catalog):
    with pytest.raises(SnapshotNotFound, match="'nolabel' names no snapshot"):
        catalog.at("nolabel")
    assert repr(catalog.at("first")).endswith(".at(1)")
    with pytest.raises(ValueError, match="as it is now"):
        catalog.at(1).backup("backup")


def test_an_error_names_methods_and_arguments(catalog):
    with pytest.raises(SnapshotNotFound, match=r"`catalog\.snapshots\(\)` lists all"):
        catalog.at(9)
    label = for_python(str(LabelTaken("x", 3)), Catalog)
    assert "--" not in label
    assert "`catalog.label(move=True)`" in label
    assert "--" not in for_python(str(PruneRefused("shop", 3, 4)), Catalog)
    assert for_python("`lakehouse show /a/b --at 3` shows it.", Catalog) == "`catalog.at(3).show('/a/b')` shows it."
    assert for_python("`lakehouse explain MSG-1` or --registry ID", Catalog) == "`lakehouse explain MSG-1` or registry="


def test_results_print_and_convert():
    found = Records([{"a": "x", "b": [1, {"c": None}], "n": 1}, {"a": None, "b": "<b>", "n": 2**70}], ("a", "b"))
    assert repr(found).splitlines() == ["a  b", 'x  [1, {"c": null}]', "   <b>"]
    assert "<td>&lt;b&gt;</td>" in found._repr_html_()
    assert found.to_pandas()["b"].tolist() == [[1, {"c": None}], "<b>"]
    assert found.to_arrow().column("b").to_pylist() == ['[1, {"c": null}]', '"<b>"']
    assert json.loads(found.to_arrow().column("n").to_pylist()[1]) == 2**70
    assert isinstance(found[:1], Records)
    assert Records([], ("a",)).to_arrow().column_names == ["a"]
    assert repr(Records({"n": n} for n in range(30))).splitlines()[-1] == "... and 10 more rows"


def test_spark_reads_what_the_read_model_cannot(monkeypatch, tmp_path):
    """A store that only Spark knows, such as HDFS; a folder that does not exist is an error without Spark."""
    asked: list[str] = []
    monkeypatch.setattr("lakehouse.catalog.open_session", lambda _: asked.append("session") or object())
    monkeypatch.setattr("lakehouse.catalog.attach_tables", lambda *_: asked.append("tables"))
    monkeypatch.setattr("lakehouse.catalog.resolve_snapshot", lambda _, text: 7 if text == "release" else 0)
    monkeypatch.setattr("lakehouse.catalog.read_snapshots", lambda _: [])
    catalog = Catalog("hdfs://name-node/warehouse")
    assert repr(catalog.at("release")).endswith(".at(7)")
    assert catalog.snapshots() == []
    with pytest.raises(WarehouseError, match=r"`catalog\.ingest\(SOURCE\)` makes it"):
        Catalog(str(tmp_path / "none")).at(1)
    assert asked == ["session", "tables", "tables"]
