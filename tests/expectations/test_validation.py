"""`lakehouse validate`: what it runs, what it records, what it writes and reports."""

from __future__ import annotations

import json
from functools import partial
from typing import NamedTuple

import pytest
from pyspark.sql import functions as F

from lakehouse.cli.printing import show_validation
from lakehouse.errors import SettingsError
from lakehouse.expectations.suites import read_suites
from lakehouse.expectations.validation import validate
from lakehouse.match.catalogrules import check_all
from lakehouse.rules.declared import RULES as ALL_RULES
from lakehouse.rules.published import check_catalog
from lakehouse.settings import read_settings
from lakehouse.store.schema import STAGE

FINDINGS = (
    "row string, document_uri string, registryid string, kind string, xid string, finding "
    + STAGE["finding"].dataType.simpleString()
)


class Rule(NamedTuple):
    id: str
    severity: str
    table: str = "versions"
    text: str = "A text."
    hint: str = "A hint."
    section: str = "3.1"


RULES = {id_: Rule(id_, severity) for id_, severity in [("MSG-001", "error"), ("MSG-002", "warning"), ("MSG-003", "info")]}


def check(spark, snapshot_id):
    """Find that the name of each Version is missing: reads the current schema by bare names, as rules do."""
    finding = F.struct(
        F.concat("xid", F.lit("!")).alias("violation_id"),
        F.lit("").alias("pointer"),
        F.lit("MSG-002").alias("rule_id"),
        F.lit("warning").alias("severity"),
        F.lit("kept").alias("action"),
        F.concat(F.lit("no name: <b>"), "xid").alias("message"),
        F.lit("Give it one.").alias("hint"),
        F.lit(None).cast("string").alias("raw"),
    )
    rows = spark.table("versions").filter("name IS NULL")
    return rows.select(
        F.lit("finding").alias("row"),
        F.col("document_uris")[0].alias("document_uri"),
        "registryid",
        F.lit("version").alias("kind"),
        "xid",
        finding.alias("finding"),
    )


def test_the_catalog_is_validated(catalog, capsys):
    messages = {f"m{n}": {"description": "<script>SECRET</script>"} for n in range(5)} | {"named": {"name": "n"}}
    catalog.write("a.json", {"messagegroups": {"g": {"messages": messages}}})
    catalog.ingest()
    folder = catalog.documents.parent / "expectations"
    folder.mkdir()
    query = "SELECT * FROM {batch} WHERE isdefault AND labels['owner'] IS NULL"
    one = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query}}
    one["meta"] = {"name": "message_has_owner", "severity": "warning", "description": "Every message has an owner label."}
    (folder / "versions.json").write_text(json.dumps({"name": "versions", "expectations": [one]}))
    settings = catalog.settings.model_copy(update={"expectations_dir": str(folder)})

    validation = validate(catalog.spark, settings, check, RULES)
    reported = validation.as_json()
    assert validation.has_findings
    there = {name for name, suite in read_suites(settings).items() if not suite.optional}
    assert {result.suite.name for result in validation.results} == there | {"specification"}
    # the shipped suites hold, so that only the rule and your own rule are reported
    assert [(one["suite"], one["name"], one["severity"], one["unexpected"]) for one in reported["failed"]] == [
        ("specification", "MSG-002", "warning", 5), ("versions", "message_has_owner", "warning", 6)]  # fmt: skip
    assert reported["suites"]["specification"] == {"expectations": 3, "failed": {"error": 0, "warning": 1, "info": 0}}
    (rule,) = reported["rules"]
    assert (rule["rule_id"], rule["n"], len(rule["examples"])) == ("MSG-002", 5, 3)
    assert rule["examples"][0]["xid"] == "/messagegroups/g/messages/m0/versions/1"
    assert (reported["recorded"], reported["skipped"], reported["snapshot_id"]) == (5, [], 1)
    assert catalog.rows("SELECT count(*) FROM violations WHERE rule_id = 'MSG-002'") == [5]

    pages = list((catalog.documents.parent / "warehouse" / "_data_docs").rglob("*.html"))
    assert len(pages) == len(validation.results) + 1
    assert not any("SECRET" in page.read_text() or "<b>" in page.read_text() for page in pages)

    show_validation(reported)
    shown = capsys.readouterr().out
    assert "/messagegroups/g/messages/m0/versions/1  no name: <b>/messagegroups" in shown
    assert "6 rows" in shown
    assert "5 new findings" in shown

    # the same again records nothing, and one suite runs alone
    catalog.spark.catalog.setCurrentDatabase("xregistry")
    again = validate(catalog.spark, settings, check, RULES, suites=["specification"])
    assert (again.recorded, [result.suite.name for result in again.results]) == (0, ["specification"])


@pytest.mark.slow
def test_what_an_ingest_reported_is_not_recorded_again(catalog):
    # Given a warning that an ingest reports at the message, and a validation at its Version
    metadata = {"time": {"type": "datetime"}}
    message = {"envelope": "CloudEvents/1.0", "envelopemetadata": metadata}
    catalog.write("a.json", {"messagegroups": {"g": {"envelope": "CloudEvents/1.0", "messages": {"m": message}}}})
    catalog.ingest()
    reported = "SELECT rule_id FROM violations"
    before = catalog.rows(reported)
    assert before == ["MSG-208"]
    # When
    validation = validate(
        catalog.spark, catalog.settings, partial(check_all, settings=catalog.settings), ALL_RULES, suites=["specification"]
    )
    # Then it is found, but not recorded again
    assert [one.found.rule_id for one in validation.broken] == ["MSG-208"]
    assert validation.recorded == 0
    assert catalog.rows(reported) == before


@pytest.mark.slow
def test_what_a_base_supplies_no_more_is_found(catalog):
    """MSG-156, MSG-161, MSG-166, MSG-175: the message itself did not change."""
    settings = catalog.settings.model_copy(update={"check_relations": True})
    base = {
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {"id": {}},
        "protocoloptions": {"topic": "t"},
        "dataschemaformat": "JSONSchema/draft-07",
    }
    more = {"basemessage": "/messagegroups/base/messages/b"}
    messages = {
        "fine": more | {"envelope": "CloudEvents/1.0", "envelopemetadata": {"id": {}}},
        "bare": more,
        "lacks": more | {"envelope": "CloudEvents/1.0", "protocol": "KAFKA", "dataschema": {}},
        "far": {"basemessage": "/messagegroups/base/messages/not-there", "envelope": "CloudEvents/1.0"},
    }
    catalog.write("a.json", {"messagegroups": {"base": {"messages": {"b": base}}}})
    catalog.write("b.json", {"messagegroups": {"g": {"envelope": "CloudEvents/1.0", "messages": messages}}})
    assert catalog.ingest(settings=settings).violations["error"] == 0
    assert check_catalog(catalog.spark, settings).filter("finding.severity = 'error'").count() == 0
    catalog.write("a.json", {"messagegroups": {"base": {"messages": {"b": {"name": "bare"}}}}})
    assert catalog.ingest(settings=settings).violations["error"] == 0
    # When
    found = check_catalog(catalog.spark, settings).filter("finding.severity = 'error'")
    reported = found.select("finding.rule_id", F.regexp_extract("xid", "messages/([^/]+)", 1), "finding.action", "document_uri")
    # Then
    uri = (catalog.documents / "b.json").as_uri().replace("file:///", "file:/")
    broken = [("MSG-156", "bare"), *((rule, "lacks") for rule in ("MSG-161", "MSG-166", "MSG-175"))]
    assert sorted(map(tuple, reported.collect())) == [(*one, "kept", uri) for one in broken]


def test_a_suite_that_is_not_there_is_wrong_usage(spark):
    with pytest.raises(SettingsError, match="no suite is called mesages"):
        validate(spark, read_settings(), check, RULES, suites=["mesages"])


@pytest.mark.slow
def test_a_past_state_is_validated_and_its_findings_are_not_recorded(past):
    then = validate(past.spark, past.settings, check, RULES, suites=["specification", "messages"], at="first")
    assert (then.snapshot_id, then.recorded, then.schema) == (1, 0, "xregistry_at_1")
    assert [result.suite.name for result in then.results] == ["specification", "messages"]
    assert [(one.found.rule_id, one.found.n) for one in then.broken] == [("MSG-002", 1)]  # the base has no name
