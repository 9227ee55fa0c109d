"""Ingest, from documents to tables: what is committed, what is not, what is refused.

Tests whose documents do not meet are registries of one catalog, which is loaded, loaded again, edited and loaded once more.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Catalog
from pyspark.sql import SparkSession
from soak.sessions import forget

from lakehouse.domain.ownership import Policy
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.ingest.summary import Summary
from lakehouse.query.sql import run_query

KINDS = ("registries", "groups", "endpoints", "messages", "versions", "schemas", "schemaversions")
G = "/messagegroups/g"


def document(messages=None, **more):
    return {"messagegroups": {"g": {"messages": messages or {}}}, **more}


def changed(summary):
    return {table: counts for table, found in summary.entities.items() if (counts := {k: n for k, n in found.items() if n})}


EVERY_KIND = {
    "registryid": "shop", "specversion": "1.0-rc2", "dirs": {"d": {"files": {}}},
    "messagegroups": {"g": {"envelope": "CloudEvents/1.0", "messages": {"m": {"name": "M"}}}},
    "endpoints": {"e": {"usage": ["producer"], "protocol": "MQTT/3.1.1", "messages": {"n": {}},
                        "protocoloptions": {"deployed": False, "endpoints": [{"uri": "mqtt://a.example.com", "zone": "x"}]}}},
    "schemagroups": {"s": {"schemas": {"t": {"versions": {"1": {"schema": "text"}, "2": {"schema": {"b": 1.10}}}}}}},
}  # fmt: skip
RAW = b"""{"registryid":"raw",\
"messagegroups":{"g":{"messages":{"m":{"x-rate":1.10,"basemessageurl":"#/messagegroups/g/messages/n"}}}}}"""
NOT_TRUSTED = [b"{", b"\xff\xfe", b'{"a": NaN}', b'{"messagegroups": {"g": {"x": 1e400}}}']
NO_REGISTRY = [
    ({"asyncapi": "1.2.0", "channels": {}}, "AsyncAPI"),
    ({"openapi": "3.1.0", "paths": {}}, "OpenAPI"),
    ({"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}, "JSON Schema"),
    ({"groups": {"dirs": {"singular": "dir"}}}, "model file"),
    ({"dirs": {"d": {"files": {}}}}, "another model"),
    ([1, 2], "array"),
]


class Days:
    """One catalog of many registries, and what its ingests returned."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.paths: dict[str, Path] = {}
        self.first = self.load()
        findings, files = catalog.rows("SELECT violation_id FROM violations ORDER BY 1"), self.files()
        self.again = catalog.ingest()
        self.grew = catalog.rows("SELECT violation_id FROM violations ORDER BY 1") != findings or self.files() != files
        self.second = self.edit()
        self.write("refuse.new", "refuse/day2.json", {"m": {"name": "new"}})
        self.refusing = catalog.ingest(request=IngestRequest(Policy(on_conflict="refuse")))

    def write(self, name: str, path: str, messages: dict[str, Any]) -> None:
        """Write a document of the registry that its name begins with."""
        self.paths[name] = self.catalog.write(path, document(messages, registryid=name.partition(".")[0]))

    def files(self) -> list[Path]:
        return sorted(Path(self.catalog.settings.warehouse).rglob("*"))

    def load(self) -> Summary:
        self.catalog.write("shop.json", EVERY_KIND)
        self.catalog.write("raw.json", RAW.replace(b"\\\n", b""))
        self.write("refused", "refused.json", {"good": {}, "bad": {"envelope": 5, "epoch": 3}})
        for number, text in enumerate(NOT_TRUSTED):
            self.catalog.write(f"not trusted/{number}.json", text)
        for number, (text, _) in enumerate(NO_REGISTRY):
            self.catalog.write(f"no registry/{number}.json", text)
        self.write("equal.a", "equal/a.json", {"m": {"name": "M"}})
        self.write("equal.b", "equal/b.json", {"m": {"name": "M"}})
        self.write("two.a", "two/a.json", {"m": {"name": "A"}})
        self.write("two.b", "two/b.json", {"m": {"name": "B"}, "n": {}})
        self.write("edited", "edited.json", {"m": {"name": "M"}, "n": {"name": "N"}})
        self.write("worse", "worse.json", {"m": {"name": "good"}})
        self.write("taken.old", "taken/day1.json", {"m": {"name": "old"}})
        self.write("refuse.old", "refuse/day1.json", {"m": {"name": "old"}})
        return self.catalog.ingest()

    def edit(self) -> Summary:
        self.write("edited", "edited.json", {"m": {"name": "M"}, "n": {"name": "edited"}})
        self.write("worse", "worse.json", {"m": {"envelope": 5}})
        self.write("taken.new", "taken/day2.json", {"m": {"name": "new"}})
        return self.catalog.ingest()

    def rows(self, query: str) -> list[Any]:
        return self.catalog.rows(query)


@pytest.fixture(scope="module")
def days(spark: SparkSession, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Days]:
    catalog = Catalog(spark, tmp_path_factory.mktemp("days"))
    shutil.copytree(empty_warehouse, catalog.settings.warehouse)
    yield Days(catalog)
    forget(spark, Path(catalog.settings.warehouse))


def test_each_kind_of_entity_lands_in_its_table(days):
    inserted = {
        table: days.rows(f"SELECT count(*) FROM changes WHERE registryid = 'shop' AND kind = '{kind}' AND op = 'insert'")[0]
        for table, kind in zip(
            KINDS, ("registry", "group", "endpoint", "message", "version", "schema", "schemaversion"), strict=True
        )
    }
    assert inserted == dict(zip(KINDS, (1, 2, 1, 2, 2, 1, 2), strict=True))
    assert days.rows("SELECT registryid, extensions FROM registries WHERE registryid = 'shop'") == [
        ("shop", '{"dirs":{"d":{"files":{}}}}')
    ]
    assert days.rows("SELECT groupid, grouptype, envelope FROM groups WHERE registryid = 'shop' ORDER BY 1") == [
        ("g", "messagegroups", "CloudEvents/1.0"),
        ("s", "schemagroups", None),
    ]
    assert days.rows(
        "SELECT endpointid, protocol_family, protocol_version, deployed, endpoints[0].uri, endpoints[0].options FROM endpoints"
    ) == [("e", "MQTT", "3.1.1", False, "mqtt://a.example.com", {"zone": "x"})]
    assert days.rows("SELECT xid, group_xid, messageid FROM messages WHERE registryid = 'shop' ORDER BY 1") == [
        ("/endpoints/e/messages/n", "/endpoints/e", "n"),
        (f"{G}/messages/m", G, "m"),
    ]
    assert days.rows("SELECT message_xid, versionid, isdefault, name FROM versions WHERE registryid = 'shop' ORDER BY 1") == [
        ("/endpoints/e/messages/n", "1", True, None),
        (f"{G}/messages/m", "1", True, "M"),
    ]
    assert days.rows("SELECT schema_xid, versionid, isdefault, ancestor, schema FROM schemaversions ORDER BY versionid") == [
        ("/schemagroups/s/schemas/t", "1", False, "1", '"text"'),
        ("/schemagroups/s/schemas/t", "2", True, "1", '{"b":1.1}'),
    ]


def test_a_summary_counts_what_each_table_got(days):
    held = {table: days.rows(f"SELECT count(*) FROM {table}")[0] for table in KINDS}
    assert {table: found["inserted"] for table, found in days.first.entities.items()} == held


def test_the_same_documents_again_commit_nothing(days):
    assert (days.first.snapshot_id, days.again.snapshot_id, days.second.snapshot_id) == (1, None, 2)
    twice = {"registries": 2, "groups": 2, "messages": 2, "versions": 1}  # of `equal` and `two`: counted by document
    assert changed(days.again) == {
        table: {"unchanged": found["inserted"] + twice.get(table, 0)}
        | ({"quarantined": found["quarantined"]} if found["quarantined"] else {})
        for table, found in days.first.entities.items()
    }
    # Read again are `refused`, `two.b` and the text that is rejected in part; no finding and no file comes twice
    assert days.again.documents["unchanged"] == days.first.documents["read"] - 3
    assert days.again.refused
    assert not days.grew


def test_an_edit_of_one_message_adds_exactly_its_version(days):
    edited = "registryid = 'edited'"
    assert days.rows(
        f"SELECT kind, xid, op, epoch FROM changes WHERE snapshot_id = 2 AND {edited} AND kind NOT IN ('document', 'snapshot')"
    ) == [("version", f"{G}/messages/n/versions/1", "update", 2)]
    assert days.rows(f"SELECT name, epoch, snapshot_id, createdat < modifiedat FROM versions WHERE {edited} ORDER BY 1") == [
        ("M", 1, 1, False),
        ("edited", 2, 2, True),
    ]


def test_raw_keeps_what_was_written_and_unknown_attributes_can_be_queried(days):
    assert days.rows("SELECT raw FROM changes WHERE kind = 'version' AND registryid = 'raw'") == [
        '{"x-rate":1.10,"basemessageurl":"#/messagegroups/g/messages/n"}'
    ]
    query = "SELECT basemessage, base_xid, extensions, attributes['/x-rate'] FROM versions WHERE registryid = 'raw'"
    assert days.rows(query) == [(f"{G}/messages/n", f"{G}/messages/n", '{"x-rate":1.1}', "1.1")]


def test_what_is_refused_is_reported_with_its_raw_and_the_rest_loads(days):
    assert days.first.refused
    assert days.rows("SELECT messageid FROM messages WHERE registryid = 'refused'") == ["good"]
    found = days.rows(
        "SELECT xid, pointer, rule_id, action, raw, document_uri, hint <> '' FROM violations"
        " WHERE rule_id = 'MSG-051' AND registryid = 'refused'"
    )
    assert found == [
        (
            f"{G}/messages/bad/versions/1",
            f"{G}/messages/bad/envelope",
            "MSG-051",
            "quarantined",
            '{"envelope":5,"epoch":3}',
            f"file:{days.paths['refused']}",
            True,
        )
    ]


def test_a_bad_new_version_leaves_the_published_one(days):
    assert days.second.entities["versions"]["quarantined"] == 3  # those of `refused` and `two`, and this one
    assert days.rows("SELECT name, document_uris <> array() FROM versions WHERE registryid = 'worse'") == [("good", True)]


@pytest.mark.parametrize("number", range(len(NOT_TRUSTED)))
def test_a_text_that_cannot_be_trusted_is_rejected_whole_or_in_part(days, number):
    reported = f"SELECT count(*) > 0 FROM violations WHERE severity = 'error' AND document_uri LIKE '%not trusted/{number}.json'"
    assert days.rows(reported) == [True]


@pytest.mark.parametrize(("number", "reason"), [(number, reason) for number, (_, reason) in enumerate(NO_REGISTRY)])
def test_what_is_no_registry_document_is_skipped_with_its_reason(days, number, reason):
    assert days.first.documents["skipped"] == len(NO_REGISTRY)
    named = f"LIKE '%no registry/{number}.json'"
    assert (
        reason in days.rows(f"SELECT get_json_object(body, '$.reason') FROM changes WHERE kind = 'document' AND xid {named}")[0]
    )
    assert days.rows(f"SELECT rule_id FROM violations WHERE severity = 'error' AND document_uri {named}") == []


def test_two_documents_with_equal_content_own_it_both(days):
    both = [f"file:{days.paths[name]}" for name in ("equal.a", "equal.b")]
    assert days.rows("SELECT document_uris FROM versions WHERE registryid = 'equal'") == [both]
    assert days.rows("SELECT rule_id FROM violations WHERE registryid = 'equal'") == []


def test_of_two_definitions_in_one_ingest_the_first_by_uri_stays(days):
    a, b = days.paths["two.a"], days.paths["two.b"]
    assert days.rows("SELECT messageid FROM messages WHERE registryid = 'two' ORDER BY 1") == ["m", "n"]
    owned = "SELECT name, document_uris FROM versions WHERE registryid = 'two' AND name IS NOT NULL"
    assert days.rows(owned) == [("A", [f"file:{a}"])]
    reported = days.rows("SELECT document_uri, message, raw FROM violations WHERE severity = 'error' AND registryid = 'two'")
    assert [(uri, str(a) in text, str(b) in text, raw) for uri, text, raw in reported] == [
        (f"file:{b}", True, True, '{"name":"B"}')
    ]


def test_a_later_document_takes_an_entity_over_with_a_warning(days):
    old, new = days.paths["taken.old"], days.paths["taken.new"]
    assert days.rows("SELECT name, document_uris FROM versions WHERE registryid = 'taken'") == [("new", [f"file:{new}"])]
    reported = days.rows("SELECT severity, message FROM violations WHERE rule_id = 'DOC-002'")
    assert [(severity, str(old) in text, str(new) in text) for severity, text in reported] == [("warning", True, True)]


def test_on_conflict_refuse_keeps_the_earlier_definition(days):
    refused = days.refusing.entities["versions"]["quarantined"] - days.second.entities["versions"]["quarantined"]
    assert refused == 1
    assert days.rows("SELECT name FROM versions WHERE registryid = 'refuse'") == ["old"]


def test_the_log_is_chained_and_counts_its_rows(days):
    first, second = (
        json.loads(body) for body in days.rows("SELECT body FROM changes WHERE kind = 'snapshot' ORDER BY snapshot_id LIMIT 2")
    )
    assert second["previous_digest"] == first["digest"] != second["digest"]
    assert first["rows"] == days.rows("SELECT count(*) - 1 FROM changes WHERE snapshot_id = 1")[0]
    assert second["counts"]["versions"] == {"update": 2}  # of `edited` and `taken`
    assert first["committed_at"] < second["committed_at"]


@pytest.mark.slow
def test_a_table_that_lags_behind_is_rolled_forward_by_the_next_command(days):
    query = "SELECT name FROM versions WHERE registryid = 'edited' ORDER BY 1"
    before = (
        days.rows("SELECT * FROM versions ORDER BY registryid, xid"),
        days.rows("SELECT * FROM messages ORDER BY registryid, xid"),
    )
    assert days.rows(query) == ["M", "edited"]
    for table in ("versions", "messages"):
        days.rows(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    assert days.rows(query) == ["M", "N"]
    assert days.catalog.ingest(days.paths["equal.a"]).snapshot_id is None
    assert days.rows(query) == ["M", "edited"]
    assert before == (
        days.rows("SELECT * FROM versions ORDER BY registryid, xid"),
        days.rows("SELECT * FROM messages ORDER BY registryid, xid"),
    )


# Each in its own catalog


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


@pytest.mark.slow
def test_a_word_for_people_of_a_wrong_type_refuses_nothing(catalog):
    settings = catalog.settings.model_copy(update={"check_relations": True})
    written = document({"m": {"labels": "a, b"}}) | {"documentation": {"description": "prose"}, "name": "shop"}
    catalog.write("a.json", written)
    rejected = catalog.ingest(settings=settings, request=IngestRequest(strict=True, dry_run=True))
    assert (rejected.refused, rejected.documents["rejected"]) == (True, 1)
    summary = catalog.ingest(settings=settings)
    assert (summary.refused, summary.snapshot_id, summary.violations["error"]) == (False, 1, 2)
    assert catalog.rows("SELECT name, documentation, labels FROM registries") == [("shop", None, None)]
    assert catalog.rows("SELECT raw FROM changes WHERE kind = 'version'") == ['{"labels":"a, b"}']
    reported = "SELECT rule_id, action FROM violations ORDER BY 1"
    assert catalog.rows(reported) == [("MSG-009", "kept"), ("MSG-046", "kept")]
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


@pytest.mark.slow
def test_an_unchanged_document_of_two_registries_counts_in_the_one_that_it_is_read_into(catalog):
    catalog.write("a.json", document(registryid="own"))
    catalog.ingest()
    catalog.ingest(settings=catalog.settings.model_copy(update={"registry": "given"}))
    assert catalog.ingest().entities["groups"]["unchanged"] == 1
    catalog.write("b.json", document(registryid="b"))
    beside = catalog.ingest().entities["groups"]
    assert (beside["inserted"], beside["unchanged"]) == (1, 1)


@pytest.mark.slow
def test_a_setting_or_the_document_or_default_names_the_registry(catalog):
    catalog.write("a.json", document(registryid="own"))
    catalog.write("b.json", {"messagegroups": {"h": {}}})
    catalog.ingest()
    assert sorted(catalog.rows("SELECT registryid FROM groups")) == ["default", "own"]
    catalog.ingest(settings=catalog.settings.model_copy(update={"registry": "given"}))
    assert sorted(catalog.rows("SELECT registryid || groupid FROM groups")) == ["defaulth", "giveng", "givenh", "owng"]


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


@pytest.mark.slow
def test_the_published_samples_load_whole(catalog, samples):
    summary = catalog.ingest(samples, registry_from="document")
    both = {table: found["inserted"] + found["quarantined"] for table, found in summary.entities.items()}
    assert both == dict(zip(KINDS, (40, 111 + 52, 79, 345, 345, 780, 894), strict=True))
    assert summary.documents == {"read": 42, "unchanged": 0, "skipped": 2, "rejected": 0}
    assert catalog.ingest(samples, registry_from="document").snapshot_id is None
