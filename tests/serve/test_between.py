"""The rules between entities over HTTP follow the settings that they follow in an ingest."""

from __future__ import annotations

import pytest
from builders import group

from lakehouse.ingest.parse.document import read_document
from lakehouse.serve.write.effects import find_broken
from lakehouse.serve.write.overlay import CatalogOverlay, OverlayRow
from lakehouse.settings import read_settings

EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}
M = "/messagegroups/g/messages"


def broken(document, **changed):
    """Return the rules that a document breaks when it is written over HTTP into an empty catalog."""
    working = CatalogOverlay(None, 0)
    for row in read_document(document, [], "1.0-rc2").rows:
        working.put("r", OverlayRow(row.kind, row.xid, row.content_hash, 1, 0, 0, (), row.body, row.raw, row.attributes))
    settings = read_settings().model_copy(update=changed)
    return {(one.rule_id, one.xid.split("/versions/")[0]) for one in find_broken(working, "r", working.since(0), settings)}


@pytest.mark.parametrize(("severity", "expected"), [("error", {("END-130", "/endpoints/e")}), ("warning", set())])
def test_a_messageid_that_comes_twice_at_an_endpoint(severity, expected):
    groups = {name: group({"m": EVENT}) for name in "gh"}
    endpoint = {"usage": ["producer"], "messagegroups": ["/messagegroups/g", "/messagegroups/h"]}
    document = {"messagegroups": groups, "endpoints": {"e": endpoint}}
    assert broken(document, duplicate_messageids=severity) == expected
    # An alias of nothing shows no message
    groups["h"] = group({"m": {"meta": {"xref": "/messagegroups/g/messages/none"}}})
    assert broken(document, duplicate_messageids=severity) == set()


@pytest.mark.parametrize(("most", "expected"), [(3, {("MSG-161", f"{M}/d")}), (2, set())])
def test_a_chain_that_is_longer_than_chains_are_followed_is_not_judged(most, expected):
    messages = {
        "a": {"name": "a"},
        "b": {"basemessage": f"{M}/a"},
        "c": {"basemessage": f"{M}/b"},
        "d": {"basemessage": f"{M}/c", "envelope": "CloudEvents/1.0"},
    }
    assert broken({"messagegroups": {"g": group(messages)}}, max_chain_depth=most) == expected


@pytest.mark.parametrize(("checks", "expected"), [(True, {("MSG-134", f"{M}/m")}), (False, set())])
def test_relations_are_checked_where_an_ingest_checks_them(checks, expected):
    message = EVENT | {"protocol": "AMQP/1.0", "protocoloptions": {"properties": {}}}
    document = {"messagegroups": {"g": group({"m": message}, protocol="MQTT/5.0")}}
    assert broken(document, check_relations=checks) == expected


def test_a_base_that_an_alias_leads_back_from_is_a_cycle():
    messages = {"m": EVENT | {"basemessage": f"{M}/al/versions/1"}, "al": {"meta": {"xref": f"{M}/m"}}}
    assert ("MSG-146", f"{M}/m") in broken({"messagegroups": {"g": group(messages)}})


def test_a_version_that_is_written_alone_is_compared_with_its_ancestor():
    working = CatalogOverlay(None, 0)
    for versionid, fields in (("1", []), ("2", [{"name": "n", "type": "int"}])):
        version = {"format": "Avro", "schema": {"type": "record", "name": "R", "fields": fields}}
        schema = {"meta": {"compatibility": "backward", "defaultversionid": versionid}, "versions": {versionid: version}}
        for row in read_document({"schemagroups": {"g": {"schemas": {"s": schema}}}}, [], "1.0-rc2").rows:
            body = row.body.replace('"ancestor":"2"', '"ancestor":"1"')
            working.put("r", OverlayRow(row.kind, row.xid, row.content_hash, 1, 0, 0, (), body, row.raw, row.attributes))
    (found,) = find_broken(working, "r", working.since(0), read_settings())
    assert (found.rule_id, found.xid, found.attribute) == ("COMP-001", "/schemagroups/g/schemas/s/versions/2", "schema")
    assert found.message.startswith(
        "`compatibility` is backward, and Version 2 breaks with Version 1: /n: came: int without a default."
    )
