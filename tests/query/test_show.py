"""`lakehouse show`: a message as a person reads it, now and as of a snapshot."""

from __future__ import annotations

import pytest
from deltas import unpack

from lakehouse import Catalog
from lakehouse.cli.printing import show_message
from lakehouse.errors import MessageNotFound, SnapshotNotFound

M = "/messagegroups/g/messages/m"
BASE = "/messagegroups/base/messages/event/versions/1"


@pytest.fixture(scope="module")
def past(tmp_path_factory):
    """The catalog of three releases that `tests/golden.py` packed."""
    folder = tmp_path_factory.mktemp("golden")
    unpack(folder)
    with Catalog(str(folder / "warehouse")) as opened:
        yield opened


def test_a_message_is_shown_with_where_each_attribute_comes_from(past, capsys):
    (shown,) = past.show(M)
    reported = shown.as_json()
    assert (reported["xid"], reported["chain_status"]) == (M, "resolved")
    assert [uri.rsplit("/", 1)[1] for uri in reported["document_uris"]] == ["a.json"]
    assert [(step["depth"], step["base_version_xid"], step["status"]) for step in reported["chain"]] == [(1, BASE, "resolved")]
    origins = {one["pointer"]: (one["value"], one["origin"], one["declared_by"]) for one in reported["attributes"]}
    assert origins["/name"] == ('"three"', "declared", f"{M}/versions/1")
    assert origins["/envelope"] == ('"CloudEvents/1.0"', "inherited", BASE)
    assert origins["/envelopemetadata/tenant/type"] == ('"string"', "inherited", BASE)
    assert origins["/envelopemetadata/specversion/value"] == ('"1.0"', "inferred", None)
    assert [(one["endpoint_xid"], one["via_xid"]) for one in reported["endpoints"]] == [("/endpoints/e", "/messagegroups/g")]
    show_message(shown)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"{M}  (registry default, chain resolved)"
    assert printed[1] == f"  base 1: {BASE}  (resolved)"
    assert any(set(line.split()) == {"/name", '"three"', "declared"} for line in printed)
    inherited = {"/envelopemetadata/tenant", "required=true,", 'type="string"', "base", "1"}
    assert any(set(line.split()) == inherited for line in printed)


def test_a_message_is_shown_as_of_a_snapshot(past):
    (shown,) = past.at("first").show(M)
    pointers = {one["pointer"]: one["value"] for one in shown.attributes}
    assert pointers["/name"] == '"one"'
    assert "/envelopemetadata/tenant/type" not in pointers
    with pytest.raises(SnapshotNotFound):
        past.at("9").show(M)


def test_a_message_that_was_dropped_is_not_found(past):
    with pytest.raises(MessageNotFound):
        past.show("/messagegroups/g/messages/n")
