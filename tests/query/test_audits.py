"""Audits of one entity: changes as JSON Patch, and who set each attribute."""

from __future__ import annotations

import json

from pyspark.sql import Row

from lakehouse.query.audit import blame, flat_attributes, history

XID = "/messagegroups/g/messages/m/versions/1"
COMMITS = {n: {"committed_at": f"2026-03-0{n}", "committed_by": "u", "command": "ingest"} for n in range(1, 6)}


def row(snapshot_id, op, body=None, uris=("a.json",), epoch=1):
    dates = {"createdat": "2026-03-01T00:00:00", "modifiedat": None}
    text = None if body is None else json.dumps(body)
    entity = {"registryid": "r", "kind": "version", "xid": XID}
    return Row(snapshot_id=snapshot_id, op=op, epoch=epoch, document_uris=list(uris), body=text, **entity, **dates)


ROWS = [
    row(3, "own", {"name": "n", "labels": {"b": "2"}}, uris=("a.json", "b.json"), epoch=2),
    row(1, "insert", {"name": "n", "labels": {"a": "1"}, "extensions": {"house": True}}),
    row(2, "update", {"name": "n", "labels": {"b": "2"}, "extensions": {"house": 1}}, uris=("b.json",), epoch=2),
    row(4, "delete", {"name": "n"}, uris=()),
]


def test_a_change_is_a_patch_from_the_state_before():
    inserted, updated, owned, deleted = history(ROWS, COMMITS)
    assert inserted.patch[0]["path"] == ""
    assert inserted.patch[0]["value"]["house"] is True
    assert sorted((one["op"], one["path"]) for one in updated.patch) == [
        ("add", "/labels/b"),
        ("remove", "/labels/a"),
        ("replace", "/epoch"),
        ("replace", "/house"),
    ]
    assert (updated.committed_at, updated.committed_by, updated.document_uris) == ("2026-03-02", "u", ["b.json"])
    assert [one["path"] for one in owned.patch] == ["/house"]
    assert (deleted.op, deleted.patch, deleted.state) == ("delete", [{"op": "remove", "path": ""}], None)


def test_a_change_is_reported_without_epoch_and_dates_and_with_the_documents():
    described = [list(change.described()) for change in history(ROWS, COMMITS)]
    assert "replace /house 1" in described[1]
    assert not any("/epoch" in line for line in described[1])
    assert described[1][-2:] == ["held by b.json", "no longer held by a.json"]
    assert described[3] == ["remove (all)", "no longer held by a.json", "no longer held by b.json"]


def test_blame_names_the_snapshot_that_set_the_value():
    set_by = {one.pointer: (one.snapshot_id, one.value) for one in blame(history(ROWS[:3], COMMITS))}
    created = (1, "2026-03-01T00:00:00Z")
    assert set_by == {"/name": (1, "n"), "/labels/b": (2, "2"), "/epoch": (2, 2), "/createdat": created}


def test_blame_of_what_was_deleted_is_empty_and_starts_anew_when_it_comes_back():
    assert blame(history(ROWS, COMMITS)) == []
    again = [*ROWS, row(5, "insert", {"name": "n"}, epoch=3)]
    assert {one.snapshot_id for one in blame(history(again, COMMITS))} == {5}


def test_leaves_are_scalars_arrays_and_empty_objects():
    assert dict(flat_attributes({"a": {"b/c": 1, "d": {}}, "e": [{"f": 1}]})) == {"/a/b~1c": 1, "/a/d": {}, "/e": [{"f": 1}]}
