"""dbt builds and tests models on the catalog, by the sources that `lakehouse export --dbt` writes."""

from __future__ import annotations

import json

import pytest
from dbt.cli.main import dbtRunner


@pytest.fixture(scope="module")
def dbt(project, spark):
    def invoke(*arguments: str):
        places = ("--project-dir", str(project), "--profiles-dir", str(project), "--no-send-anonymous-usage-stats")
        done = dbtRunner().invoke([*arguments, *places])
        assert done.success, (done.exception, [(result.node.name, result.message) for result in done.result or ()])
        return {result.node.name: str(result.status) for result in done.result}

    return invoke


def test_models_are_built_from_sources_and_tested(dbt, spark):
    assert dbt("run") == {"messages_by_protocol": "success", "dangling_references": "success"}
    tested = dbt("test")
    assert len(tested) == 3
    assert set(tested.values()) == {"pass"}
    built = {row.protocol_family: row.messages for row in spark.table("usage.messages_by_protocol").collect()}
    wanted = "SELECT coalesce(protocol_family, 'any') AS family, count(*) AS messages FROM xregistry.flat_messages "
    wanted += "WHERE chain_status IN ('none', 'resolved') GROUP BY ALL"
    assert built == {row.family: row.messages for row in spark.sql(wanted).collect()}
    assert sum(built.values()) > 10


def test_every_table_and_view_is_a_source_with_its_columns(dbt, project, spark):
    dbt("compile")
    sources = json.loads((project / "target" / "manifest.json").read_text())["sources"].values()
    relations = {row.tableName for row in spark.sql("SHOW TABLES IN xregistry").collect()}
    assert {source["name"] for source in sources} == relations
    for source in sources:
        found = spark.table(f"xregistry.{source['name']}").schema
        assert list(source["columns"]) == found.names, source["name"]
        described = {name: column["description"] for name, column in source["columns"].items()}
        assert described == {field.name: field.metadata["comment"] for field in found}, source["name"]


def test_a_catalog_may_be_registered_as_another_schema(dbt, project):
    dbt("compile", "--vars", "xregistry_schema: catalog")
    sources = json.loads((project / "target" / "manifest.json").read_text())["sources"].values()
    assert {source["schema"] for source in sources} == {"catalog"}
