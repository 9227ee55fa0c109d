"""Definitions of the CNCF catalog draft over time: versions that the catalog numbers, and that never change."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Catalog, _forget

from lakehouse.numbering import with_member
from lakehouse.pipeline import Request
from lakehouse.plans import Policy

pytestmark = pytest.mark.slow

GROUP = "com.example.orders"
PLACED, SHIPPED = "com.example.orders.placed", "com.example.orders.shipped"


def definition(name: str, description: str, **attributes: Any) -> dict[str, Any]:
    return {"id": name, "format": "CloudEvents", "description": description,
            "definition": {"attributes": {"type": {"value": name}}}} | attributes  # fmt: skip


def group(*definitions: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    return {"id": GROUP, "format": "CloudEvents", "messagedefinitions": list(definitions)} | attributes


VERSIONS = """
    SELECT versionid, description, isdefault, ancestor, epoch
    FROM xregistry.versions WHERE message_xid LIKE '%/{0}' ORDER BY CAST(versionid AS INT)"""


class Story:
    """What the catalog held after each chapter."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.summaries: list[Any] = []
        self.versions: list[dict[str, list[Any]]] = []

    def chapter(self, request: Request | None = None, **documents: Any) -> None:
        for name, document in documents.items():
            path = self.catalog.documents / f"{name}.json"
            path.unlink(missing_ok=True) if document is None else self.catalog.write(f"{name}.json", document)
        self.summaries.append(self.catalog.ingest(request=request))
        self.versions.append({name: self.catalog.rows(VERSIONS.format(name)) for name in (PLACED, SHIPPED)})


@pytest.fixture(scope="module")
def story(spark: Any, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    catalog = Catalog(spark, tmp_path_factory.mktemp("drafts"))
    shutil.copytree(empty_warehouse, catalog.settings.warehouse)
    told = Story(catalog)
    force = Request(policy=Policy(force=True))
    shipped = definition(SHIPPED, "shipped", version=3, authority="https://corp.example", createdtimeutc="2020-01-01T00:00:00Z")
    odd = {"isdefault": True, "deep": {"isdefault": True}, "text": '"isdefault":true'}
    catalog.write("kept/contoso.cereg.yaml", b"definitionGroups: {Contoso: {definitions: {Contoso.Created: {format: AMQP/1.0}}}}")
    told.chapter(placed=group(definition(PLACED, "first", odd=odd)), shipped=shipped)  # 0
    told.chapter(
        placed=group(definition(PLACED, "second", odd=odd)),  # 1: a changed definition
        later=shipped | {"version": 4, "description": "shipped later"},  # and another document with a later version
    )
    told.chapter(force)  # 2: nothing changed
    told.chapter(
        placed=group(definition(PLACED, "first", odd=odd)),  # 3: back to the first text
        shipped=shipped | {"authority": "https://other.example"},  # and an authority that is immutable
    )
    yield told
    _forget(spark, Path(catalog.settings.warehouse))


def outline(rows: list[Any]) -> list[Any]:
    return [tuple(row[:4]) for row in rows]


def test_a_definition_without_a_number_is_version_1(story):
    assert outline(story.versions[0][PLACED]) == [("1", "first", True, "1")]


def test_a_number_that_is_free_is_kept(story):
    assert outline(story.versions[0][SHIPPED]) == [("3", "shipped", True, "3")]


def test_the_same_documents_again_change_nothing(story):
    assert story.versions[2] == story.versions[1]
    counts = story.summaries[2].entities
    assert {name: (one["inserted"], one["updated"]) for name, one in counts.items()} == dict.fromkeys(counts, (0, 0))


def test_a_changed_definition_becomes_a_new_version_and_the_latest_is_the_default(story):
    """CAT-038, CAT-041, CAT-043."""
    assert outline(story.versions[1][PLACED]) == [("1", "first", False, "1"), ("2", "second", True, "1")]


def test_a_definition_that_goes_back_is_a_new_version_too(story):
    assert outline(story.versions[3][PLACED])[2:] == [("3", "first", True, "2")]


def test_existing_versions_never_change(story):
    """CAT-038: neither the definition nor epoch and dates; only which one is the default."""
    query = f"""SELECT xid, count(DISTINCT attributes_text), max(epoch), count(DISTINCT createdat), count(DISTINCT modifiedat)
        FROM (SELECT *, to_json(attributes) AS attributes_text FROM xregistry.changes)
        WHERE kind = 'version' AND xid LIKE '%{PLACED}%' GROUP BY xid ORDER BY xid"""
    rows = story.catalog.rows(query)
    assert [tuple(row[1:]) for row in rows] == [(1, 1, 1, 1)] * 3


def test_only_the_member_at_the_top_tells_the_default(story):
    bodies = story.catalog.rows(f"SELECT extensions FROM xregistry.versions WHERE message_xid LIKE '%{PLACED}'")
    assert [json.loads(one)["odd"]["isdefault"] for one in bodies] == [True] * 3


def test_the_definition_shows_the_latest_version(story):
    assert story.catalog.rows(f"SELECT defaultversionid FROM xregistry.messages WHERE messageid = '{PLACED}'") == ["3"]


def test_a_later_version_may_come_in_another_document(story):
    assert outline(story.versions[1][SHIPPED]) == [("3", "shipped", False, "3"), ("4", "shipped later", True, "3")]
    owners = story.catalog.rows(f"SELECT size(document_uris) FROM xregistry.messages WHERE messageid = '{SHIPPED}'")
    assert owners == [2]
    assert story.catalog.rows("SELECT count(*) FROM xregistry.violations WHERE rule_id LIKE 'DOC-%'") == [0]


def test_a_changed_authority_is_refused(story):
    """CAT-064."""
    assert story.summaries[3].entities["messages"]["quarantined"] == 1
    assert story.summaries[3].entities["versions"]["quarantined"] == 1
    assert story.catalog.rows(f"SELECT DISTINCT authority FROM xregistry.messages WHERE messageid = '{SHIPPED}'") == [
        "https://corp.example"
    ]
    found = story.catalog.rows("SELECT rule_id FROM xregistry.violations WHERE severity = 'error' ORDER BY rule_id")
    assert found == ["CAT-064", "MSG-115"]


def test_a_lone_definition_stands_in_the_implied_group(story):
    query = f"SELECT xid, version_uri FROM xregistry.versions WHERE versionid = '4' AND message_xid LIKE '%{SHIPPED}'"
    xid, uri = story.catalog.rows(query)[0]
    assert xid == f"/messagegroups/default/messages/{SHIPPED}/versions/4"
    assert uri == f"https://corp.example/default/messagedefinitions/{SHIPPED}/versions/4"


def test_the_dialect_is_counted(story):
    assert story.summaries[0].as_json()["dialects"] == {"cereg": 1, "cncf-catalog": 2}
    facts = "from_json(body, 'dialect string').dialect"
    found = story.catalog.rows(f"SELECT DISTINCT {facts} FROM xregistry.changes WHERE kind = 'document' ORDER BY 1")
    assert found == ["cereg", "cncf-catalog"]


def test_yaml_is_listed_and_read(story):
    assert story.catalog.rows("SELECT protocol FROM xregistry.versions WHERE xid LIKE '%Contoso.Created%'") == ["AMQP/1.0"]


def test_a_member_is_replaced_at_the_top_only(spark):
    body = '{"a":{"x":true},"b":"\\"x\\":true {","x":true,"y":[{"x":true}]}'
    frame = spark.createDataFrame([(body,)], "body string")
    found = frame.select(with_member(frame["body"], *(_text(one) for one in ('"x":true', '"x":false')))).collect()[0][0]
    assert found == '{"a":{"x":true},"b":"\\"x\\":true {","x":false,"y":[{"x":true}]}'


def _text(value: str) -> Any:
    from pyspark.sql import functions as F

    return F.lit(value)
