"""What is compared of entities follows from their bodies alone, as Spark computed and stored it."""

from __future__ import annotations

import pytest
from deltas import unpack

from lakehouse.domain.diff import differences, flat_attributes_of_message
from lakehouse.domain.effective import compare_bodies
from lakehouse.readmodel import open_model
from lakehouse.readmodel.queries import definitions_of, snapshot_differences
from lakehouse.settings import read_settings


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    folder = tmp_path_factory.mktemp("golden")
    with open_model(read_settings(warehouse=str(unpack(folder)), readmodel_dir=str(folder / "model"))) as model:
        yield model


def test_leaves_of_messages_are_those_that_spark_stored(golden):
    with golden.at() as view:
        stored = list(view.definitions())
        for one in stored:
            own = view.entity(one["registryid"], one["xid"]).attributes
            leaves = flat_attributes_of_message(one["inferred"], one["attributes"], own.get("deprecated"))
            assert view.bodies.flat_attributes_of((one["registryid"], "message", one["xid"])) == leaves
        assert {one["chain_status"] for one in stored} >= {"none", "resolved"}
        assert view.bodies.flat_attributes_of(("default", "message", "/messagegroups/none/messages/none")) is None


def test_rows_of_effective_messages_are_those_that_spark_stored(golden):
    with golden.at() as view:
        for stored in view.definitions():
            rest = {name: stored[name] for name in ("document_uris", "snapshot_id")}
            assert view.bodies.effective(stored["registryid"], stored["xid"]) | rest == stored


def test_only_what_differs_is_compared(golden):
    head = golden.answer(lambda view: view.head)
    whole = [golden.answer(definitions_of, at) for at in (1, head)]
    assert snapshot_differences(golden, 1, head) == differences(*whole) != []
    assert snapshot_differences(golden, head, head) == []
    with golden.at(1) as view:
        assert compare_bodies(view.bodies, view.bodies, whole[0]) == []


def test_definitions_of_a_past_that_delta_keeps_no_more_are_computed(golden):
    with golden.at(1) as view:
        assert not view.is_stored()
        every = list(view.definitions())
        xids = [one["xid"] for one in every]
        assert [one | {"snapshot_id": 1} for one in every] == list(view.definitions("default", xids=xids))
        assert {one["snapshot_id"] for one in every} >= {1}
        assert xids == [one.xid for one in view.below("default", "/") if one.kind == "message"] != []
        some = next(view.definitions("default", xids=xids[1:2]))
        assert some == view.definition("default", xids[1])
        assert some["snapshot_id"] == 1
        group = some["group_xid"]
        assert {one.xid for one in view.discriminators("default", group_xid=group)} == {
            one["xid"] for one in view.definitions("default", group_xid=group)
        }
        assert next(view.definitions("none"), None) is None
