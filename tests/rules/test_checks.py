"""Rules between entities: one stage of many small documents, each its own registry, proves them all in one pass."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import document, group
from exampled import RELATIONAL
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from records import records_of
from relational import OWN, WRITTEN

from lakehouse.ingest.parse.parse import limits_of, parse_documents
from lakehouse.rules.declared import RULES
from lakehouse.rules.findings import without_doubles
from lakehouse.rules.relational.candidaterows import candidate, look_at
from lakehouse.rules.relational.joins import check_changes, check_cycles, check_entities, check_variants
from lakehouse.rules.relational.pairs import judged, pairs_of
from lakehouse.settings import read_settings


def staged(spark: SparkSession, documents: dict[str, Any]) -> DataFrame:
    """Parse documents, each into the registry that it is named by."""
    columns = (
        "document_uri string, size long, sha256 string, registry string, unchanged boolean, again boolean, content binary, "
        "last_sha256 string, last_clean boolean, named boolean, last_registry string"
    )
    rows = []
    for registry, written in documents.items():
        text = (written if isinstance(written, str) else json.dumps(written)).encode()
        rows.append(
            (f"file:///{registry}.json", len(text), "0", registry, False, False, bytearray(text), None, False, False, None)
        )
    return parse_documents(spark.createDataFrame(rows, columns), limits_of(read_settings())).localCheckpoint()


FLATTENED = {"MSG-161", "MSG-166", "MSG-175", "MSG-181"}  # Spark looks for what they are about by itself


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> dict[str, list[tuple[str, str, str, str, str, str]]]:
    """All findings between entities, by registry: rule, severity, action, xid, pointer, message."""
    things = candidate(spark, staged(spark, WRITTEN), set()).entities
    rows = without_doubles(judged(check_entities(things.localCheckpoint()))).select("registryid", "xid", "finding.*").collect()
    reported: dict[str, list[tuple[str, str, str, str, str, str]]] = {registry: [] for registry in WRITTEN}
    for row in sorted(rows, key=lambda row: (row["registryid"], row["rule_id"], row["xid"])):
        reported[row["registryid"]].append(
            tuple(row[name] for name in ("rule_id", "severity", "action", "xid", "pointer", "message"))
        )
    return reported


@pytest.mark.parametrize("rule_id", sorted(RELATIONAL))
def test_the_bad_example_breaks_the_rule_between_entities(found, rule_id):
    reported = [one for one in found[f"{rule_id}.bad"] if one[1] != "info" or one[0] == rule_id]
    assert {one[0] for one in reported} == {rule_id}
    assert {one[1] for one in reported} == {RULES[rule_id].severity}
    assert {one[2] for one in reported} == {RULES[rule_id].action}


def test_nothing_else_is_reported_about_the_examples(found):
    reported = {
        registry: {one[0] for one in rows if one[1] != "info"}
        for registry, rows in found.items()
        if registry not in OWN and registry.removesuffix(".bad") not in RELATIONAL
    }
    assert {registry: rules for registry, rules in reported.items() if rules} == {}


def test_all_members_of_a_cycle_are_reported_and_nothing_that_hangs_off_it(found):
    assert [one[3] for one in found["cycle"]] == [f"/messagegroups/g/messages/{name}/versions/1" for name in "abc"]
    assert found["cycle"][0][4:] == (
        "/messagegroups/g/messages/a/basemessage",
        "`basemessage` leads over /messagegroups/g/messages/b back to this message",
    )
    assert [one[0] for one in found["itself"]] == ["MSG-146"]


def test_a_chain_that_comes_back_to_another_version_is_no_cycle(found):
    assert [found["older Version"], found["older Version of a base"]] == [[], []]


def test_versions_that_extend_each_other_are_a_cycle(found):
    on_it = [f"/messagegroups/g/messages/{name}/versions/1" for name in "ab"]
    assert [(one[0], one[3]) for one in found["cycle of Versions"]] == [("MSG-146", xid) for xid in on_it]
    assert "leads over /messagegroups/g/messages/b/versions/1 back" in found["cycle of Versions"][0][5]
    assert [one[0] for one in found["cycle over an alias"]] == ["MSG-146"]


def test_a_long_chain_is_no_cycle(found):
    assert found["chain"] == []


@pytest.mark.slow
@pytest.mark.parametrize("length", [2, 3, 4, 5])
def test_a_short_chain_is_no_cycle(spark: SparkSession, length):
    chain = {f"m{n}": {"basemessage": f"/messagegroups/g/messages/m{n + 1}"} for n in range(1, length)} | {f"m{length}": {}}
    things = candidate(spark, staged(spark, {"short": document({"g": group(chain)})}), set()).entities
    assert check_cycles(things, look_at(things)).count() == 0


def test_a_borrowed_message_has_the_envelope_of_its_new_group(found):
    assert [one[0:2] + one[3:4] for one in found["borrowed"]] == [("MSG-157", "error", "/messagegroups/h/messages/m")]


def test_protocols_are_compared_by_family_and_mqtt_by_version(found):
    assert [one[3] for one in found["mqtt"]] == ["/messagegroups/g/messages/old/versions/1"]


def test_a_message_that_an_endpoint_only_names_is_a_warning(found):
    assert [one[0:3] for one in found["referenced"]] == [("END-096", "warning", "kept")]
    assert found["referenced"][0][5] == "1 messages have another protocol, such as /messagegroups/g/messages/m"


def test_a_group_that_an_endpoint_names_and_is_not_there_is_reported(found):
    assert found["END-125.bad"] == [
        (
            "END-125",
            "info",
            "kept",
            "/endpoints/e",
            "/endpoints/e/messagegroups",
            "`messagegroups`: `/messagegroups/gone` does not exist",
        )
    ]


def test_a_schema_of_the_own_registry_that_is_not_there_is_a_warning(found):
    assert {one[:3] for one in found["schemas"]} == {("MSG-179", "warning", "kept")}
    assert sorted(one[3].split("/")[4] for one in found["schemas"]) == [
        "absolute-none",
        "no-group",
        "no-schema",
        "no-slash",
        "no-version",
        "only-a-group",
    ]
    reported = {one[3].split("/")[4]: one[4:] for one in found["schemas"]}
    assert reported["no-version"] == (
        "/messagegroups/g/messages/no-version/dataschemauri",
        "`dataschemauri`: schema `/schemagroups/s/schemas/a/versions/2:Order` does not exist",
    )


def test_an_alias_that_shows_nothing_is_a_warning(found):
    reported = [(one[1], one[3].rsplit("/", 1)[1], one[5]) for one in found["aliases"] if one[3].startswith("/messagegroups")]
    at = "/messagegroups/g/messages"
    assert reported == [
        ("warning", "a", f"`xref` leads to {at}/b, which is an alias of this one: neither has a definition"),
        ("warning", "b", f"`xref` leads to {at}/a, which is an alias of this one: neither has a definition"),
        ("warning", "c", f"`xref` leads to {at}/d, which is an alias itself: it shows nothing"),
        ("info", "gone", f"`xref`: `{at}/nobody` does not exist"),
        ("warning", "self", "`xref` leads to this entity itself, so it has no definition"),
    ]
    schemas = [one[3] for one in found["aliases"] if one[3].startswith("/schemagroups")]
    assert schemas == ["/schemagroups/s/schemas/a", "/schemagroups/s/schemas/b"]
    assert {one[0] for one in found["aliases"]} == {"MSG-096"}
    assert {one[2] for one in found["aliases"]} == {"kept"}
    assert found["aliases"][0][4] == f"{at}/a/meta/xref"
    assert [one[4] for one in found["older alias"] if one[0] == "MSG-096"] == [f"{at}/a/xref"]


def test_look_ups_find_what_joins_find(found):
    for name, document_of in WRITTEN.items():
        joined = {(rule_id, xid, message) for rule_id, _, _, xid, _, message in found[name]}
        broken = records_of(document_of).broken() if isinstance(document_of, dict) else set()
        looked_up = {(one.rule_id, xid, one.message) for xid, one in broken if one.rule_id not in FLATTENED}
        assert (name, looked_up) == (name, joined)


def test_a_pointer_leads_into_the_document_as_written(found):
    assert [one[4] for one in found["oldest"]] == ["/definitionGroups/g/definitions/a/format"]


@pytest.mark.slow
def test_findings_have_one_name_in_every_run(spark: SparkSession):
    documents = {"itself": OWN["itself"]}
    things = [candidate(spark, staged(spark, documents), set()).entities for _ in range(2)]
    runs = [without_doubles(judged(check_cycles(one, look_at(one)))).select("finding.violation_id") for one in things]
    assert runs[0].intersect(runs[1]).filter(F.length("violation_id") == 32).count() == 1


def oldest(text: str, envelope: str, authority: str) -> dict[str, Any]:
    """Build a document of the oldest dialect: a definition with a declared Version, and one without."""
    kinds = {"declared": {"versions": {"1": {"description": text}}}, "plain": {"description": text}}
    definitions = {name: written | {"meta": {"authority": authority}} for name, written in kinds.items()}
    return {"definitionGroups": {"g": {"format": envelope, "definitions": definitions}}}


@pytest.mark.slow
def test_the_oldest_dialect_forbids_changes(spark: SparkSession):
    # Given what is published, and the same document changed
    before, after = (
        candidate(spark, staged(spark, {"r": written}), set()).entities
        for written in (oldest("a", "CloudEvents/1.0", "urn:a"), oldest("b", "own/1", "urn:b"))
    )
    published = before.withColumns({"kind": F.concat(F.lit("earlier "), "kind"), "staged": F.lit(False)})
    # When
    things = after.unionByName(published)
    found = (
        without_doubles(judged(check_changes(things, look_at(things))))
        .select("finding.rule_id", "xid", "finding.message")
        .collect()
    )
    # Then a declared Version, the group's format and the authorities must not change; the Version that is only implied may
    at = "/messagegroups/g/messages"
    assert sorted((row["rule_id"], row["xid"]) for row in found) == [
        ("CAT-024", "/messagegroups/g"),
        ("CAT-038", f"{at}/declared/versions/1"),
        ("CAT-064", f"{at}/declared"),
        ("CAT-064", f"{at}/plain"),
    ]
    reported = {row["rule_id"]: row["message"] for row in found}
    assert reported["CAT-024"] == "`format` was CloudEvents/1.0 and is own/1"


@pytest.mark.slow
def test_what_is_published_under_another_spelling_keeps_its_id(spark: SparkSession):
    stage = staged(spark, {"r": document({"G": group({"m": {}}), "h": group({"M": {}})})})
    things = candidate(spark, stage, set()).entities
    published = things.filter("xid IN ('/messagegroups/G', '/messagegroups/h/messages/M')")
    published = published.withColumns({"staged": F.lit(False), "xid": F.replace("xid", F.lit("/G"), F.lit("/g"))})
    published = published.withColumn("xid", F.replace("xid", F.lit("/M"), F.lit("/m")))
    things = things.unionByName(published)
    found = (
        without_doubles(judged(check_variants(things, look_at(things))))
        .select("finding.rule_id", "xid", "finding.action")
        .collect()
    )
    assert sorted(tuple(row) for row in found) == [
        ("MSG-020", "/messagegroups/G", "quarantined"),
        ("MSG-037", "/messagegroups/h/messages/M", "quarantined"),
    ]


@pytest.mark.slow
def test_one_messageid_twice_is_an_error_where_a_setting_says_so(spark: SparkSession):
    """END-132."""
    twice = document(
        {"g": group({"m": {}}), "h": group({"m": {}})},
        {"e": {"usage": ["producer"], "messagegroups": ["/messagegroups/g", "/messagegroups/h"]}},
    )
    things = candidate(spark, staged(spark, {"r": twice}), set()).entities.localCheckpoint()
    reported = [
        without_doubles(judged(check_entities(things, severity)))
        .select("finding.rule_id", "finding.severity", "finding.action")
        .collect()
        for severity in ("warning", "error")  # without a setting: see END-130 among the examples
    ]
    assert [[tuple(row) for row in rows] for rows in reported] == [
        [("END-130", "warning", "kept")],
        [("END-130", "error", "quarantined")],
    ]


def test_what_judges_a_pair_must_be_known(spark: SparkSession):
    with pytest.raises(ValueError, match="of_nothing"):
        pairs_of(spark.range(1), "of_nothing")
