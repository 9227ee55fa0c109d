"""What an ingest would publish, validated before the commit: the gate's holes, your own rules, and that nothing changes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from planning import plan_of

from lakehouse.domain.ownership import Policy
from lakehouse.errors import CandidateRefused, SettingsError
from lakehouse.expectations.gates import only_published, validate_candidate
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.log.commits import read_head
from lakehouse.rules.findings import Count, count_findings, record_findings
from lakehouse.store.schema import STAGE

FINDINGS = (
    "row string, document_uri string, registryid string, kind string, xid string, finding "
    + STAGE["finding"].dataType.simpleString()
)


def finding(xid, rule, severity, action, uri="a.json"):
    return ("finding", uri, "r", "message", xid, (f"{xid}{rule}", "", rule, severity, action, "what", "hint", None))


@pytest.fixture(scope="module")
def findings(spark):
    rows = [
        finding("/refused", "MSG-001", "error", "quarantined"),
        finding("/kept", "MSG-002", "error", "kept"),
        finding("/there", "MSG-003", "error", "quarantined"),
        finding("/elsewhere", "MSG-003", "error", "quarantined", uri="b.json"),
        finding("/told", "MSG-004", "warning", "kept"),
    ]
    return spark.createDataFrame(rows, FINDINGS)


@pytest.fixture(scope="module")
def published(spark):
    rows = [("r", "message", xid, "a.json") for xid in ("/there", "/told", "/elsewhere")]
    return spark.createDataFrame(rows, "registryid string, kind string, xid string, document_uri string")


@pytest.mark.slow
def test_only_what_would_be_published_although_it_was_refused_is_reported(findings, published):
    assert count_findings(only_published(findings, published)) == [Count("MSG-003", "error", 1)]


@pytest.mark.slow
def test_findings_are_recorded_once(catalog, findings):
    catalog.write("a.json", {"messagegroups": {"g": {}}})
    catalog.ingest()
    assert record_findings(catalog.spark, findings, "1") == 5
    assert record_findings(catalog.spark, findings, "2") == 0
    assert catalog.rows("SELECT count(*) FROM violations WHERE ingest_id = '1'") == [5]


def house_rule(catalog, **meta):
    folder = catalog.documents.parent / "expectations"
    folder.mkdir(exist_ok=True)
    query = "SELECT * FROM {batch} WHERE isdefault AND labels['owner'] IS NULL"
    one = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query}}
    one["meta"] = {"name": "message_has_owner", "description": "Every message has an owner label."} | meta
    (folder / "versions.json").write_text(json.dumps({"name": "versions", "expectations": [one]}))
    return catalog.settings.model_copy(update={"expectations_dir": str(folder)})


def state(catalog):
    tables = ("changes", "messages", "versions", "violations")
    return [catalog.rows(f"SELECT count(*) FROM {table}") for table in tables]


def message(**labels):
    return {"labels": labels} if labels else {}


@pytest.mark.slow
def test_a_house_rule_stops_the_commit_and_nothing_changes(catalog):
    settings = house_rule(catalog, severity="error")
    group = {"m": message(owner="a"), "n": message(owner="b")}
    catalog.write("a.json", {"messagegroups": {"g": {"messages": group}}})
    assert catalog.ingest(settings=settings).snapshot_id == 1
    before = state(catalog)

    catalog.write("b.json", {"messagegroups": {"h": {"messages": {"o": message(), "p": {"envelope": 5}}}}})
    with pytest.raises(CandidateRefused, match=r"versions: message_has_owner: 1 break it\. Every message") as raised:
        catalog.ingest(settings=settings)
    assert raised.value.exit_code == 1
    with pytest.raises(CandidateRefused):
        catalog.ingest(settings=settings, request=IngestRequest(dry_run=True))
    assert state(catalog) == before
    assert catalog.spark.catalog.getTable("xregistry.versions").isTemporary is False

    # rows of the table count together with new ones: the owner of /m goes in one update, a deletion fixes it
    catalog.write("b.json", {})
    group["m"] = message()
    catalog.write("a.json", {"messagegroups": {"g": {"messages": group}}})
    with pytest.raises(CandidateRefused, match="1 break it"):
        catalog.ingest(settings=settings)
    del group["m"]
    catalog.write("a.json", {"messagegroups": {"g": {"messages": group}}})
    assert catalog.ingest(settings=settings, request=IngestRequest(Policy(prune=True, force=True))).snapshot_id == 2


@pytest.mark.slow
def test_what_breaks_a_house_rule_since_before_stops_no_other_ingest(catalog):
    """As what was written over HTTP: it answers for what it writes, in the same registry and in others."""
    group = {"m": message(), "n": message(owner="b"), "o": message()}
    catalog.write("a.json", {"messagegroups": {"g": {"messages": group}}})
    catalog.ingest()  # before there was a rule
    settings = house_rule(catalog, severity="error")
    query = "SELECT * FROM {batch} WHERE groupid = 'g' AND registryid = 'default'"
    no_g = {"type": "unexpected_rows_expectation", "kwargs": {"unexpected_rows_query": query}}
    suite = {"name": "groups", "expectations": [no_g]}
    (catalog.documents.parent / "expectations" / "groups.json").write_text(json.dumps(suite))
    for snapshot_id, registry in enumerate(("", "other"), 2):
        # Which says the same of the group as the other document: one owner more
        right = catalog.write(f"{registry}right.json", {"messagegroups": {"g": {}, "h": {"messages": {"p": message(owner="c")}}}})
        assert catalog.ingest(right, settings=settings.model_copy(update={"registry": registry})).snapshot_id == snapshot_id
    for changed in (
        group | {"q": message()},  # one more
        group | {"m": message(owner="a"), "n": message()},  # one for one that is healed
        group | {"m": message(owner="a"), "q": message()},
    ):
        catalog.write("a.json", {"messagegroups": {"g": {"messages": changed}}})
        with pytest.raises(CandidateRefused, match="message_has_owner"):
            catalog.ingest(catalog.documents / "a.json", settings=settings)
    # A message that comes counts the epoch of the group, and no more
    healed = group | {"m": message(owner="a"), "r": message(owner="d")}
    catalog.write("a.json", {"messagegroups": {"g": {"messages": healed}}})
    assert catalog.ingest(catalog.documents / "a.json", settings=settings).snapshot_id == 4


@pytest.mark.slow
def test_a_house_rule_that_warns_or_waits_for_validate_stops_nothing(catalog):
    catalog.write("a.json", {"messagegroups": {"g": {"messages": {"m": {}}}}})
    assert (
        catalog.ingest(settings=house_rule(catalog, severity="warning"), request=IngestRequest(dry_run=True)).snapshot_id is None
    )
    assert catalog.ingest(settings=house_rule(catalog, severity="error", when="validate")).snapshot_id == 1


@pytest.mark.slow
def test_a_hole_in_the_gate_stops_the_commit(catalog, spark):
    catalog.write("a.json", {"messagegroups": {"g": {}}})
    catalog.ingest()
    rows = [("entity", "x.json", False, False, "r", "group", "/messagegroups/g", "0" * 64, *[None] * 3, "{}", *[None] * 7)]
    stage = spark.createDataFrame(rows, STAGE)
    plan = plan_of(spark, read_head(spark), stage)
    bad = spark.createDataFrame(
        [("finding", "x.json", "r", "group", "/messagegroups/g", ("1", "", "MSG-999", "error", "quarantined", "", "", None))],
        FINDINGS,
    )
    with pytest.raises(CandidateRefused, match="specification: MSG-999: 1 break it"):
        validate_candidate(spark, replace(plan, findings=bad), stage, [], [])
    validate_candidate(spark, replace(plan, findings=bad.limit(0)), stage, [], [])


def test_a_suite_that_cannot_be_read_is_reported_before_anything_is_read(catalog):
    settings = house_rule(catalog, severity="fatal")
    with pytest.raises(SettingsError, match=r"versions\.json: expectations\.0\.meta\.severity"):
        catalog.ingest(settings=settings)
