"""Definitions of the CNCF catalog draft over time: versions that the catalog numbers, and that never change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from conftest import Catalog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from soak.sessions import forget

from lakehouse.dialects.detection import DRAFT
from lakehouse.ingest.numbering import find_latest, with_member, with_numbers
from lakehouse.ingest.parse.batches import StageBatches
from lakehouse.ingest.parse.parse import read_as
from lakehouse.store.schema import CHANGES
from lakehouse.text.jsontext import read_json

GROUP = "com.example.orders"
PLACED, SHIPPED = "com.example.orders.placed", "com.example.orders.shipped"
ODD = {"isdefault": True, "deep": {"isdefault": True}, "text": '"isdefault":true'}


def definition(name: str, description: str, **attributes: Any) -> dict[str, Any]:
    return {"id": name, "format": "CloudEvents", "description": description,
            "definition": {"attributes": {"type": {"value": name}}}} | attributes  # fmt: skip


def group(*definitions: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    return {"id": GROUP, "format": "CloudEvents", "messagedefinitions": list(definitions)} | attributes


SHIPPED_3 = definition(SHIPPED, "shipped", version=3, authority="https://corp.example", createdtimeutc="2020-01-01T00:00:00Z")
SHIPPED_4 = SHIPPED_3 | {"version": 4, "description": "shipped later"}


def staged(spark: SparkSession, documents: dict[str, Any]) -> DataFrame:
    """Return the rows that parse makes of documents."""
    batches = StageBatches()
    for name, document in documents.items():
        value, problems = read_json(json.dumps(document).encode(), 100)
        dialect, reading = read_as(value, problems, name, None, rules=False)
        assert reading.findings == []
        batches.add_entities(name, "r", reading.rows, again=False, draft=dialect == DRAFT)
    return spark.createDataFrame(pa.Table.from_batches(batches.batches()))


class Ledger:
    """A log in memory: what the plan would make of numbered rows, without a warehouse."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self.rows: list[dict[str, Any]] = []
        self.changed: list[set[str]] = []
        self.refused: list[set[tuple[str, str]]] = []
        self.held: list[dict[str, dict[str, Any]]] = []

    def log(self) -> DataFrame:
        return self.spark.createDataFrame([tuple(row[name] for name in CHANGES.names) for row in self.rows], CHANGES)

    def chapter(self, **documents: Any) -> None:
        numbered = with_numbers(staged(self.spark, documents), self.log())
        now = {row["xid"]: row for row in self.rows}
        last = dict(now)
        for row in numbered.stage.filter("row = 'entity'").collect():
            before = now.get(row["xid"], {"content_hash": None, "document_uris": []})
            owners = sorted({*before["document_uris"], row["document_uri"]})
            facts = row.asDict(recursive=True)
            now[row["xid"]] = {name: facts.get(name) for name in CHANGES.names} | {
                "snapshot_id": len(self.held) + 1, "op": "update" if row["xid"] in last else "insert", "document_uris": owners,
            }  # fmt: skip
        changed = {xid for xid, row in now.items() if last.get(xid, {}).get("content_hash") != row["content_hash"]}
        self.rows += [now[xid] for xid in now if now[xid] is not last.get(xid)]
        self.changed.append(changed)
        found = numbered.refused.select("xid", "finding.rule_id").collect()
        self.refused.append({(row["rule_id"], row["xid"]) for row in found})
        self.held.append(now)

    def versions(self, chapter: int, name: str) -> list[tuple[Any, ...]]:
        found = []
        for xid, row in self.held[chapter].items():
            if row["kind"] == "version" and f"/{name}/versions/" in xid:
                body = json.loads(row["body"])
                found.append((xid.rsplit("/", 1)[1], body["description"], body["isdefault"], body["ancestor"]))
        return sorted(found, key=lambda version: int(version[0]))

    def row(self, chapter: int, xid: str) -> dict[str, Any]:
        return self.held[chapter][f"/messagegroups/{xid}"]


@pytest.fixture(scope="module")
def ledger(spark: SparkSession) -> Ledger:
    reported = Ledger(spark)
    first = {"placed": group(definition(PLACED, "first", odd=ODD)), "shipped": SHIPPED_3}
    second = first | {"placed": group(definition(PLACED, "second", odd=ODD))}  # a changed definition
    reported.chapter(**first)  # 0
    reported.chapter(**second, later=SHIPPED_4)  # 1: and another document with a later version
    reported.chapter(**second, later=SHIPPED_4)  # 2: nothing changed
    reported.chapter(placed=first["placed"], shipped=SHIPPED_3 | {"authority": "https://other.example"})  # 3: back, and an error
    return reported


def test_a_definition_without_a_number_is_version_1(ledger):
    assert ledger.versions(0, PLACED) == [("1", "first", True, "1")]


def test_a_number_that_is_free_is_kept(ledger):
    assert ledger.versions(0, SHIPPED) == [("3", "shipped", True, "3")]


def test_the_same_documents_again_change_nothing(ledger):
    assert ledger.changed[2] == set()
    assert ledger.held[2].keys() == ledger.held[1].keys()


def test_a_changed_definition_becomes_a_new_version_and_the_latest_is_the_default(ledger):
    """CAT-038, CAT-041, CAT-043."""
    assert ledger.versions(1, PLACED) == [("1", "first", False, "1"), ("2", "second", True, "1")]


def test_a_definition_that_goes_back_is_a_new_version_too(ledger):
    assert ledger.versions(3, PLACED)[2:] == [("3", "first", True, "2")]


def test_existing_versions_never_change(ledger):
    """CAT-038: only which one is the default."""
    here = f"{GROUP}/messages/{PLACED}/versions/1"
    rows = [ledger.row(chapter, here) for chapter in range(4)]
    assert len({json.dumps(row["attributes"], sort_keys=True) for row in rows}) == 1
    assert [json.loads(row["body"])["isdefault"] for row in rows] == [True, False, False, False]
    assert len({json.dumps(json.loads(row["body"]) | {"isdefault": 0}) for row in rows}) == 1


def test_only_the_member_at_the_top_names_the_default(ledger):
    bodies = [json.loads(ledger.row(3, f"{GROUP}/messages/{PLACED}/versions/{number}")["body"]) for number in (1, 2, 3)]
    assert [body["extensions"]["odd"] for body in bodies] == [ODD] * 3


def test_the_definition_shows_the_latest_version(ledger):
    found = [json.loads(ledger.row(chapter, f"{GROUP}/messages/{PLACED}")["body"]) for chapter in range(4)]
    assert [body["defaultversionid"] for body in found] == ["1", "2", "2", "3"]


def test_a_later_version_may_come_in_another_document(ledger):
    assert ledger.versions(1, SHIPPED) == [("3", "shipped", False, "3"), ("4", "shipped later", True, "3")]
    assert ledger.row(1, f"default/messages/{SHIPPED}")["document_uris"] == ["later", "shipped"]


def test_a_changed_authority_is_refused(ledger):
    """CAT-064."""
    here = f"/messagegroups/default/messages/{SHIPPED}"
    assert ledger.refused == [set(), set(), set(), {("CAT-064", here), ("MSG-115", f"{here}/versions/3")}]
    assert json.loads(ledger.row(3, f"default/messages/{SHIPPED}")["body"])["authority"] == "https://corp.example"


def test_a_lone_definition_stands_in_the_implied_group(ledger):
    body = json.loads(ledger.row(1, f"default/messages/{SHIPPED}/versions/4")["body"])
    assert body["version_uri"] == f"https://corp.example/default/messagedefinitions/{SHIPPED}/versions/4"


def test_the_format_of_a_group_that_holds_definitions_is_immutable(ledger, spark):
    """CAT-024."""
    amqp = definition(PLACED, "amqp") | {"format": "AMQP", "definition": {"properties": {}}}
    stage = staged(spark, {"placed": group(amqp) | {"format": "AMQP"}})
    refused = with_numbers(stage, ledger.log()).refused.select("xid", "finding.rule_id").collect()
    assert ("CAT-024", f"/messagegroups/{GROUP}") in {(row["rule_id"], row["xid"]) for row in refused}


@pytest.mark.parametrize(("prune", "numbers"), [(False, [1, 2, 3]), (True, [2, 3])])
def test_what_is_pruned_is_not_the_latest(spark, prune, numbers):
    xid = "/messagegroups/g/messages/m"
    stored = spark.createDataFrame(
        [("r", xid, "version", f"{xid}/versions/{n}", "insert", n, str(n), owners) for n, owners in ((1, ["a"]), (2, ["b"]))],
        "registryid string, message_xid string, kind string, xid string, op string, number long, declared string, "
        "document_uris array<string>",
    )
    versions = spark.createDataFrame(
        [("r", xid, "a", "3", False, 3)],
        "registryid string, message_xid string, document_uri string, declared string, is_stored boolean, number long",
    )
    stage = spark.createDataFrame([("r", "a")], "registryid string, document_uri string")
    found = find_latest(versions, stored, stage, prune=prune).collect()
    assert [(row["numbers"], row["latest"]) for row in found] == [(numbers, 3)]


def test_a_member_is_replaced_at_the_top_only(spark):
    body = '{"a":{"x":true},"b":"\\"x\\":true {","x":true,"y":[{"x":true}]}'
    frame = spark.createDataFrame([(body,)], "body string")
    found = frame.select(with_member(frame["body"], F.lit('"x":true'), F.lit('"x":false'))).collect()[0][0]
    assert found == '{"a":{"x":true},"b":"\\"x\\":true {","x":false,"y":[{"x":true}]}'


# From documents to tables


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    catalog = Catalog(spark, tmp_path_factory.mktemp("drafts"))
    shutil.copytree(empty_warehouse, catalog.settings.warehouse)
    catalog.write("kept/contoso.cereg.yaml", b"definitionGroups: {Contoso: {definitions: {Contoso.Created: {format: AMQP/1.0}}}}")
    catalog.write("placed.json", group(definition(PLACED, "first", odd=ODD)))
    catalog.write("shipped.json", SHIPPED_3)
    assert catalog.ingest().as_json()["dialects"] == {"cereg": 1, "cncf-catalog": 2}
    catalog.write("placed.json", group(definition(PLACED, "second", odd=ODD)))
    catalog.write("shipped.json", SHIPPED_3 | {"authority": "https://other.example"})
    counts = catalog.ingest().entities
    assert (counts["messages"]["quarantined"], counts["versions"]["quarantined"]) == (1, 1)
    assert (counts["versions"]["inserted"], counts["versions"]["updated"]) == (1, 1)
    yield catalog
    forget(spark, Path(catalog.settings.warehouse))


@pytest.mark.slow
def test_the_tables_hold_all_versions_and_the_latest_is_the_default(loaded):
    """CAT-038, CAT-043: epoch and dates of an existing Version stay, too."""
    query = f"""SELECT versionid, description, isdefault, ancestor, epoch, createdat = modifiedat
        FROM xregistry.versions WHERE message_xid LIKE '%{PLACED}' ORDER BY versionid"""
    assert loaded.rows(query) == [("1", "first", False, "1", 1, True), ("2", "second", True, "1", 1, True)]
    assert loaded.rows(f"SELECT defaultversionid FROM xregistry.messages WHERE messageid = '{PLACED}'") == ["2"]


@pytest.mark.slow
def test_what_changed_against_the_draft_is_a_violation(loaded):
    """CAT-064."""
    found = loaded.rows("SELECT rule_id, action FROM xregistry.violations WHERE severity = 'error' ORDER BY rule_id")
    assert found == [("CAT-064", "quarantined"), ("MSG-115", "quarantined")]


@pytest.mark.slow
def test_the_dialect_of_each_document_is_kept(loaded):
    facts = "from_json(body, 'dialect string').dialect"
    found = loaded.rows(f"SELECT DISTINCT {facts} FROM xregistry.changes WHERE kind = 'document' ORDER BY 1")
    assert found == ["cereg", "cncf-catalog"]


@pytest.mark.slow
def test_yaml_is_listed_and_read(loaded):
    assert loaded.rows("SELECT protocol FROM xregistry.versions WHERE xid LIKE '%Contoso.Created%'") == ["AMQP/1.0"]
