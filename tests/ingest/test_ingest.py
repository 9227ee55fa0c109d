"""Ingest, from documents to tables: what is committed, what is not, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.domain.ownership import Policy
from lakehouse.ingest.pipeline import Request
from lakehouse.query.sql import run_query

KINDS = ("registries", "groups", "endpoints", "messages", "versions", "schemas", "schemaversions")
G = "/messagegroups/g"


def document(messages=None, **more):
    return {"messagegroups": {"g": {"messages": messages or {}}}, **more}


def changed(summary):
    return {table: counts for table, found in summary.entities.items() if (counts := {k: n for k, n in found.items() if n})}


def test_each_kind_of_entity_lands_in_its_table(catalog):
    catalog.write("a.json", {
        "registryid": "shop", "specversion": "1.0-rc2", "dirs": {"d": {"files": {}}},
        "messagegroups": {"g": {"envelope": "CloudEvents/1.0", "messages": {"m": {"name": "M"}}}},
        "endpoints": {"e": {"usage": ["producer"], "protocol": "MQTT/3.1.1", "messages": {"n": {}},
                            "protocoloptions": {"deployed": False, "endpoints": [{"uri": "mqtt://a.example.com", "zone": "x"}]}}},
        "schemagroups": {"s": {"schemas": {"t": {"versions": {"1": {"schema": "text"}, "2": {"schema": {"b": 1.10}}}}}}},
    })  # fmt: skip
    summary = catalog.ingest()
    assert {table: found["inserted"] for table, found in summary.entities.items()} == dict(
        zip(KINDS, (1, 2, 1, 2, 2, 1, 2), strict=True)
    )
    assert catalog.rows("SELECT registryid, extensions FROM registries") == [("shop", '{"dirs":{"d":{"files":{}}}}')]
    assert catalog.rows("SELECT groupid, grouptype, envelope FROM groups ORDER BY 1") == [
        ("g", "messagegroups", "CloudEvents/1.0"),
        ("s", "schemagroups", None),
    ]
    assert catalog.rows(
        "SELECT endpointid, protocol_family, protocol_version, deployed, endpoints[0].uri, endpoints[0].options FROM endpoints"
    ) == [("e", "MQTT", "3.1.1", False, "mqtt://a.example.com", {"zone": "x"})]
    assert catalog.rows("SELECT xid, group_xid, messageid FROM messages ORDER BY 1") == [
        ("/endpoints/e/messages/n", "/endpoints/e", "n"),
        (f"{G}/messages/m", G, "m"),
    ]
    assert catalog.rows("SELECT message_xid, versionid, isdefault, name FROM versions ORDER BY 1") == [
        ("/endpoints/e/messages/n", "1", True, None),
        (f"{G}/messages/m", "1", True, "M"),
    ]
    assert catalog.rows("SELECT schema_xid, versionid, isdefault, ancestor, schema FROM schemaversions ORDER BY versionid") == [
        ("/schemagroups/s/schemas/t", "1", False, "1", '"text"'),
        ("/schemagroups/s/schemas/t", "2", True, "1", '{"b":1.1}'),
    ]


def test_the_same_documents_again_commit_nothing(catalog):
    catalog.write("a.json", document({"m": {"name": "M"}}))
    assert catalog.ingest().snapshot_id == 1
    again = catalog.ingest()
    assert (again.snapshot_id, again.documents["unchanged"]) == (None, 1)
    assert changed(again) == {table: {"unchanged": 1} for table in ("registries", "groups", "messages", "versions")}
    assert catalog.rows("SELECT max(snapshot_id) FROM changes") == [1]


def test_an_edit_of_one_message_adds_exactly_its_version(catalog):
    catalog.write("a.json", document({"m": {"name": "M"}, "n": {"name": "N"}}))
    catalog.ingest()
    catalog.write("a.json", document({"m": {"name": "M"}, "n": {"name": "edited"}}))
    summary = catalog.ingest()
    assert {table: found["updated"] for table, found in summary.entities.items() if found["updated"]} == {"versions": 1}
    assert catalog.rows(
        "SELECT kind, xid, op, epoch FROM changes WHERE snapshot_id = 2 AND kind NOT IN ('document', 'snapshot')"
    ) == [("version", f"{G}/messages/n/versions/1", "update", 2)]
    assert catalog.rows("SELECT name, epoch, snapshot_id, createdat < modifiedat FROM versions ORDER BY 1") == [
        ("M", 1, 1, False),
        ("edited", 2, 2, True),
    ]


@pytest.mark.slow
def test_white_space_changes_facts_of_the_document_and_no_entity(catalog):
    catalog.write("a.json", document({"m": {}}))
    catalog.ingest()
    catalog.write("a.json", json.dumps(document({"m": {}}), indent=4).encode())
    summary = catalog.ingest()
    assert (summary.snapshot_id, changed(summary)["versions"]) == (2, {"unchanged": 1})
    assert catalog.rows("SELECT kind, op FROM changes WHERE snapshot_id = 2 ORDER BY 1") == [
        ("document", "update"),
        ("snapshot", "insert"),
    ]


@pytest.mark.slow
def test_declared_epoch_and_dates_are_stored_as_declared(catalog):
    life = {"epoch": 7, "createdat": "2024-01-02T03:04:05.1234567+01:00", "modifiedat": "2024-01-02T03:04:05"}
    catalog.write("a.json", document({"m": life}))
    catalog.ingest()
    query = "SELECT epoch, cast(createdat AS string), cast(modifiedat AS string) FROM versions"
    assert catalog.rows(query) == [(7, "2024-01-02 02:04:05.123456", "2024-01-02 03:04:05")]
    catalog.write("a.json", document({"m": life | {"epoch": 9}}))
    assert catalog.ingest().entities["versions"]["updated"] == 1
    assert catalog.rows(query)[0][0] == 9


def test_raw_keeps_what_was_written_and_unknown_attributes_can_be_queried(catalog):
    catalog.write(
        "a.json", b'{"messagegroups":{"g":{"messages":{"m":{"x-rate":1.10,"basemessageurl":"#/messagegroups/g/messages/n"}}}}}'
    )
    catalog.ingest()
    assert catalog.rows("SELECT raw FROM changes WHERE kind = 'version'") == [
        '{"x-rate":1.10,"basemessageurl":"#/messagegroups/g/messages/n"}'
    ]
    assert catalog.rows("SELECT basemessage, base_xid, extensions, attributes['/x-rate'] FROM versions") == [
        (f"{G}/messages/n", f"{G}/messages/n", '{"x-rate":1.1}', "1.1")
    ]


def test_what_is_refused_is_told_with_its_raw_and_the_rest_loads(catalog):
    path = catalog.write("a.json", document({"good": {}, "bad": {"envelope": 5, "epoch": 3}}))
    summary = catalog.ingest()
    assert summary.refused
    assert (summary.entities["messages"]["inserted"], summary.entities["messages"]["quarantined"]) == (1, 1)
    found = catalog.rows(
        "SELECT xid, pointer, rule_id, action, raw, document_uri, hint <> '' FROM violations WHERE rule_id = 'MSG-051'"
    )
    assert found == [
        (
            f"{G}/messages/bad/versions/1",
            f"{G}/messages/bad/envelope",
            "MSG-051",
            "quarantined",
            '{"envelope":5,"epoch":3}',
            f"file:{path}",
            True,
        )
    ]


@pytest.mark.slow
def test_a_document_with_refusals_is_read_again_and_doubles_no_finding(catalog):
    catalog.write("a.json", document({"bad": {"envelope": 5}}))
    catalog.ingest()
    findings = catalog.rows("SELECT violation_id FROM violations")
    files = sorted(Path(catalog.settings.warehouse).rglob("*"))
    again = catalog.ingest()
    assert again.refused
    assert (again.snapshot_id, again.documents["unchanged"]) == (None, 0)
    assert catalog.rows("SELECT violation_id FROM violations") == findings
    assert sorted(Path(catalog.settings.warehouse).rglob("*")) == files


@pytest.mark.slow
def test_a_word_for_people_of_a_wrong_type_refuses_nothing(catalog):
    settings = catalog.settings.model_copy(update={"check_relations": True})
    written = document({"m": {"labels": "a, b"}}) | {"documentation": {"description": "prose"}, "name": "shop"}
    catalog.write("a.json", written)
    rejected = catalog.ingest(settings=settings, request=Request(strict=True, dry_run=True))
    assert (rejected.refused, rejected.documents["rejected"]) == (True, 1)
    summary = catalog.ingest(settings=settings)
    assert (summary.refused, summary.snapshot_id, summary.violations["error"]) == (False, 1, 2)
    assert catalog.rows("SELECT name, documentation, labels FROM registries") == [("shop", None, None)]
    assert catalog.rows("SELECT raw FROM changes WHERE kind = 'version'") == ['{"labels":"a, b"}']
    told = "SELECT rule_id, action FROM violations ORDER BY 1"
    assert catalog.rows(told) == [("MSG-009", "kept"), ("MSG-046", "kept")]
    again = catalog.ingest(settings=settings)
    assert (again.snapshot_id, again.documents["unchanged"]) == (None, 1)
    current = current_violations(catalog)
    assert current == ["MSG-009", "MSG-046"]
    del written["documentation"]
    catalog.write("a.json", written)
    catalog.ingest(settings=settings)
    assert current_violations(catalog) == ["MSG-046"]


def current_violations(catalog):
    query = "SELECT rule_id FROM current_violations ORDER BY 1"
    return [row[0] for row in run_query(catalog.spark, catalog.settings, query).frame.collect()]


def test_a_bad_new_version_leaves_the_published_one(catalog):
    catalog.write("a.json", document({"m": {"name": "good"}}))
    catalog.ingest()
    catalog.write("a.json", document({"m": {"envelope": 5}}))
    assert catalog.ingest().entities["versions"]["quarantined"] == 1
    assert catalog.rows("SELECT name, document_uris <> array() FROM versions") == [("good", True)]


@pytest.mark.parametrize("text", [b"{", b"\xff\xfe", b'{"a": NaN}', b'{"messagegroups": {"g": {"x": 1e400}}}'])
def test_a_text_that_cannot_be_trusted_is_rejected_whole_or_in_part(catalog, text):
    catalog.write("a.json", text)
    catalog.write("b.json", document({"m": {}}))
    summary = catalog.ingest()
    assert summary.refused
    assert summary.entities["messages"]["inserted"] == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ({"asyncapi": "3.0.0", "channels": {}}, "AsyncAPI"),
        ({"openapi": "3.1.0", "paths": {}}, "OpenAPI"),
        ({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}, "JSON Schema"),
        ({"groups": {"dirs": {"singular": "dir"}}}, "model file"),
        ({"dirs": {"d": {"files": {}}}}, "another model"),
        ([1, 2], "array"),
    ],
)
def test_what_is_no_registry_document_is_skipped_with_its_reason(catalog, text, reason):
    catalog.write("a.json", text)
    summary = catalog.ingest()
    assert (summary.documents["skipped"], summary.refused) == (1, False)
    assert reason in catalog.rows("SELECT get_json_object(body, '$.reason') FROM changes WHERE kind = 'document'")[0]


@pytest.mark.slow
def test_an_unchanged_document_of_two_registries_counts_in_the_one_that_it_is_read_into(catalog):
    catalog.write("a.json", document(registryid="own"))
    catalog.ingest()
    catalog.ingest(settings=catalog.settings.model_copy(update={"registry": "given"}))
    assert catalog.ingest().entities["groups"]["unchanged"] == 1
    catalog.write("b.json", document(registryid="b"))
    beside = catalog.ingest().entities["groups"]
    assert (beside["inserted"], beside["unchanged"]) == (1, 1)


def test_a_setting_or_the_document_or_default_names_the_registry(catalog):
    catalog.write("a.json", document(registryid="own"))
    catalog.write("b.json", {"messagegroups": {"h": {}}})
    catalog.ingest()
    assert sorted(catalog.rows("SELECT registryid FROM groups")) == ["default", "own"]
    catalog.ingest(settings=catalog.settings.model_copy(update={"registry": "given"}))
    assert sorted(catalog.rows("SELECT registryid || groupid FROM groups")) == ["defaulth", "giveng", "givenh", "owng"]


def test_two_documents_with_equal_content_own_it_both(catalog):
    a, b = catalog.write("a.json", document({"m": {"name": "M"}})), catalog.write("b.json", document({"m": {"name": "M"}}))
    summary = catalog.ingest()
    assert not summary.refused
    assert catalog.rows("SELECT document_uris FROM versions") == [[f"file:{a}", f"file:{b}"]]


def test_of_two_definitions_in_one_ingest_the_first_by_uri_stays(catalog):
    a, b = (
        catalog.write("a.json", document({"m": {"name": "A"}})),
        catalog.write("b.json", document({"m": {"name": "B"}, "n": {}})),
    )
    summary = catalog.ingest()
    assert summary.entities["versions"] == {"inserted": 2, "updated": 0, "deleted": 0, "unchanged": 0, "quarantined": 1}
    assert catalog.rows("SELECT name, document_uris FROM versions WHERE name IS NOT NULL") == [("A", [f"file:{a}"])]
    told = catalog.rows("SELECT document_uri, message, raw FROM violations WHERE severity = 'error'")
    assert [(uri, str(a) in text, str(b) in text, raw) for uri, text, raw in told] == [(f"file:{b}", True, True, '{"name":"B"}')]


@pytest.mark.slow
def test_a_conflict_stays_as_it_is_when_nothing_changed(catalog):
    catalog.write("a.json", document({"m": {"name": "A"}}, name="one"))
    catalog.write("b.json", document({"m": {"name": "B"}}, name="two"))
    catalog.write("c.json", document({"m": {"name": "B"}}, name="one"))
    catalog.ingest()
    before = catalog.rows("SELECT violation_id FROM violations ORDER BY 1")
    again = catalog.ingest()
    assert again.snapshot_id is None
    assert again.refused
    assert catalog.rows("SELECT violation_id FROM violations ORDER BY 1") == before
    assert catalog.rows("SELECT name FROM versions") == ["A"]


def test_a_later_document_takes_an_entity_over_with_a_warning(catalog):
    old = catalog.write("day1/a.json", document({"m": {"name": "old"}}))
    catalog.ingest()
    new = catalog.write("day2/a.json", document({"m": {"name": "new"}}))
    summary = catalog.ingest()
    assert summary.entities["versions"]["updated"] == 1
    assert catalog.rows("SELECT name, document_uris FROM versions") == [("new", [f"file:{new}"])]
    told = catalog.rows("SELECT severity, message FROM violations WHERE rule_id = 'DOC-002'")
    assert [(severity, str(old) in text, str(new) in text) for severity, text in told] == [("warning", True, True)]


def test_on_conflict_refuse_keeps_the_earlier_definition(catalog):
    catalog.write("day1/a.json", document({"m": {"name": "old"}}))
    catalog.ingest()
    catalog.write("day2/a.json", document({"m": {"name": "new"}}))
    summary = catalog.ingest(request=Request(Policy(on_conflict="refuse")))
    assert summary.entities["versions"]["quarantined"] == 1
    assert catalog.rows("SELECT name FROM versions") == ["old"]


def test_the_log_is_chained_and_counts_its_rows(catalog):
    catalog.write("a.json", document({"m": {}}))
    catalog.ingest()
    catalog.write("a.json", document({"m": {"name": "x"}}))
    catalog.ingest()
    first, second = (
        json.loads(body) for body in catalog.rows("SELECT body FROM changes WHERE kind = 'snapshot' ORDER BY snapshot_id")
    )
    assert second["previous_digest"] == first["digest"] != second["digest"]
    assert first["rows"] == catalog.rows("SELECT count(*) - 1 FROM changes WHERE snapshot_id = 1")[0]
    assert second["counts"] == {"versions": {"update": 1}}
    assert first["committed_at"] < second["committed_at"]


def test_a_table_that_lags_behind_is_rolled_forward_by_the_next_command(catalog):
    catalog.write("a.json", document({"m": {"name": "one"}}))
    catalog.ingest()
    catalog.write("a.json", document({"m": {"name": "two"}, "n": {}}))
    catalog.ingest()
    catalog.spark.sql("RESTORE TABLE versions TO VERSION AS OF 1")
    catalog.spark.sql("RESTORE TABLE messages TO VERSION AS OF 1")
    assert catalog.rows("SELECT name FROM versions") == ["one"]
    assert catalog.ingest().snapshot_id is None
    assert catalog.rows("SELECT name FROM versions ORDER BY name NULLS LAST") == ["two", None]
    assert catalog.rows("SELECT count(*) FROM messages") == [2]


def test_the_published_samples_load_whole(catalog, samples):
    summary = catalog.ingest(samples, registry_from="document")
    both = {table: found["inserted"] + found["quarantined"] for table, found in summary.entities.items()}
    assert both == dict(zip(KINDS, (40, 111 + 52, 79, 345, 345, 780, 894), strict=True))
    assert summary.documents == {"read": 42, "unchanged": 0, "skipped": 2, "rejected": 0}
    assert catalog.ingest(samples, registry_from="document").snapshot_id is None
