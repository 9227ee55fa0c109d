"""Rules and requirements: every requirement is held somehow, and every rule reports its bad example from its repair."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from pathlib import Path

import pytest
from builders import read
from click.testing import CliRunner
from exampled import BY_ONE_ENTITY, WITHOUT_EXAMPLE

from lakehouse.cli.main import cli
from lakehouse.dialects.draft.conversions import draft_table
from lakehouse.dialects.tables import table
from lakehouse.errors import UnknownRule
from lakehouse.rules.declared import FINDING_RULES, HOWS, RULES, enforcement, examples, places_of, registry_of

ROOT = Path(__file__).parents[2]
SEVERITIES = ("info", "warning", "error")


# Rules that need the catalog, or a text that is not a document: `test_checks.py`, `test_ingest.py`, `test_safety.py` break them.
def requirements() -> list[dict[str, str]]:
    with (ROOT / "docs" / "requirements.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def findings(at: str, fragment: object) -> list[tuple[str, str, str]]:
    written = fragment if isinstance(fragment, str) else registry_of(at, fragment)
    reading = read(written, rules=True)
    return [(finding.rule_id, finding.severity, finding.message) for finding in reading.findings]


def at_least_as_bad(rule_id: str, found: list[tuple[str, str, str]]) -> set[str]:
    """Return the rules that were found to be broken; without milder ones, and without what falls with its cause."""
    limit = SEVERITIES.index(RULES[rule_id].severity)
    return {
        one
        for one, severity, message in found
        if one == rule_id or (SEVERITIES.index(severity) >= limit and not message.startswith("it cannot be loaded"))
    }


def test_every_checkable_requirement_is_held(capsys):
    asked = [row["id"] for row in requirements() if row["check"].startswith("expectation")]
    reported = enforcement()
    assert [one for one in asked if one not in reported] == []
    counts = Counter(reported[one].how for one in asked)
    with capsys.disabled():
        print("\nrequirements with the check `expectation`:", ", ".join(f"{counts[how]} {how}" for how in HOWS))
    assert set(counts) <= set(HOWS)
    assert sum(counts.values()) == len(asked) == 372


def test_what_covers_a_requirement_is_a_rule():
    for rule_id, one in enforcement().items():
        assert (one.how == "covered") == bool(one.by), rule_id
        assert [by for by in one.by if by not in RULES] == [], rule_id


def test_a_permissive_requirement_permits():
    levels = {row["id"]: (row["level"], row["bad_input_example"]) for row in requirements()}
    for rule_id, one in enforcement().items():
        if one.how == "permissive" and rule_id in levels:
            level, bad = levels[rule_id]
            # What is not a MAY describes a rule set that the other rules are, or a spelling that is normalised.
            assert level == "MAY" or rule_id in {"MSG-209", "MSG-280", "MSG-303", "END-014", "END-076", "END-077"}, rule_id
            assert not bad or rule_id == "MSG-303", rule_id


PERMITTED = [
    ("MSG-152 MSG-163 MSG-168 MSG-173 MSG-178 MSG-184 MSG-187", "message", {}),
    ("MSG-086", "message", {"dataschema": {"type": "object"}, "dataschemaformat": "JSONSchema/draft-07"}),
    ("MSG-198 MSG-201 MSG-204 MSG-206", "message", {"envelope": "CloudEvents/1.0", "envelopemetadata": {"subject": {}}}),
    ("MSG-209", "message", {"envelope": "CloudEvents/1.0", "envelopemetadata": {"own": {"type": "any", "value": None}}}),
    ("MSG-112 MSG-280", "message", {"protocol": "HTTP/2", "protocoloptions": {"method": "POST"}}),
    ("MSG-300 MSG-303", "message", {"protocol": "AMQP/1.0", "protocoloptions": {"properties": {"subject": "Bare"}}}),
    *(
        (
            rule_id,
            "message",
            {"protocol": "AMQP/1.0", "protocoloptions": {section: {"own": {"type": "duration", "value": "PT1H"}}}},
        )
        for rule_id, section in (
            ("MSG-323", "application-properties"),
            ("MSG-327", "message-annotations"),
            ("MSG-331", "delivery-annotations"),
            ("MSG-335", "footer"),
        )
    ),
    ("MSG-130 MSG-138", "messagegroup", {}),
    ("END-014 END-067 END-076 END-079 END-133", "endpoint", {"protocol": "NATS", "protocoloptions": {}}),
    ("END-015", "endpoint", {"envelope": "CloudEvents/1.0", "envelopeoptions": {"mode": "binary"}}),
    (
        "END-075",
        "endpoint",
        {"envelope": "own", "messages": {"m": {"envelope": "own", "envelopemetadata": {"own": {}}}}},
    ),
    (
        "END-075 END-077",
        "endpoint",
        {"envelope": "own/v1-beta", "messages": {"m": {"envelope": "own/v1-beta-2", "envelopemetadata": {"own": {}}}}},
    ),
    ("END-102 END-106 END-121", "endpoint", {"protocol": "AMQP/1.0", "protocoloptions": {"node": "queue"}}),
    ("END-157", "endpoint", {"protocol": "MQTT/5.0", "protocoloptions": {"endpoints": [{"uri": "wss://example.com"}]}}),
    ("CAT-046", "message", {"meta": {"authority": "http://nobody.example/answers"}}),
]


@pytest.mark.parametrize(("rule_ids", "at", "fragment"), PERMITTED, ids=[one[0] for one in PERMITTED])
def test_what_the_specification_permits_is_loaded(rule_ids, at, fragment):
    assert [one for one in findings(at, fragment) if one[1] != "info"] == []


def structured(header: str) -> dict[str, object]:
    return {
        "envelopeoptions": {"mode": "structured", "format": "application/cloudevents+json"},
        "protocol": "HTTP/1.1",
        "protocoloptions": {"headers": [{"name": "Content-Type", "value": header}]},
    }


def address(uri: str) -> dict[str, object]:
    return {"protocol": "HTTP", "protocoloptions": {"endpoints": [{"uri": uri}]}}


def content_types(declared: str, of_envelope: str) -> dict[str, object]:
    metadata = {"datacontenttype": {"value": of_envelope}}
    return {"datacontenttype": declared, "envelope": "CloudEvents/1.0", "envelopemetadata": metadata}


NOT_BROKEN = {
    "END-080 of another envelope": ("endpoint", {"envelope": "Own/1.0", "envelopeoptions": {"mode": "Binary", "format": "x"}}),
    "END-081 null": ("endpoint", {"envelope": "CloudEvents/1.0", "envelopeoptions": {"mode": None}}),
    "END-083 letter case": ("endpoint", structured("Application/CloudEvents+JSON")),
    "END-083 placeholder": ("endpoint", structured("{ct}")),
    "END-103 placeholder for a host": ("endpoint", address("https://{host}/a")),
    "END-103 placeholder for all": ("endpoint", address("{base}/a")),
    "MSG-082 options": ("message", {"envelope": "CloudEvents/1.0", "envelopemetadata": {}, "envelopeoptions": {"a": {"b": 1}}}),
    "MSG-141 of another envelope": ("message", {"envelope": "Own/1", "envelopemetadata": {"type": {"value": "other"}}}),
    "MSG-161 empty": ("message", {"envelope": "Own/1", "envelopemetadata": {}}),
    "MSG-166 empty": ("message", {"protocol": "HTTP", "protocoloptions": {}}),
    "MSG-189 quotes": ("message", content_types("application/json; charset=utf-8", 'application/json;charset="UTF-8"')),
    "MSG-189 order": ("message", content_types("a/b;x=1;y=2", "a/b; y=2; x=1")),
}


@pytest.mark.parametrize("named", NOT_BROKEN)
def test_what_only_looks_like_a_breach_is_loaded(named):
    assert [one for one in findings(*NOT_BROKEN[named]) if one[1] == "error" or one[0] == named.split()[0]] == []


BROKEN = {
    "MSG-189 another parameter": content_types("a/b;x=1", "a/b;x=2"),
    "MSG-153 empty": {"basemessage": ""},
    "MSG-182 empty": {"dataschemaxid": ""},
    "MSG-369 names without headers": {"protocol": "KAFKA", "protocoloptions": {"headers": ["a"]}},
    "MSG-284 a value without a name": {"protocol": "HTTP/1.1", "protocoloptions": {"query": [{"value": "n"}]}},
}


@pytest.mark.parametrize("named", BROKEN)
def test_what_nearly_fits_is_reported(named):
    assert named.split()[0] in {one[0] for one in findings("message", BROKEN[named])}


def test_a_relative_address_with_a_placeholder_is_reported():
    assert "END-103" in {one[0] for one in findings("endpoint", address("/relative/{id}"))}


def test_a_role_that_is_named_twice_is_a_warning():
    assert [one[:2] for one in findings("endpoint", {"usage": ["producer", "producer"]})] == [("END-057", "warning")]


def test_only_messages_of_endpoints_leave_out_the_version_of_an_envelope():
    """END-075 against MSG-155, which is of message groups."""
    written = {"envelope": "own", "envelopemetadata": {"own": {}}}
    assert "MSG-155" in {one[0] for one in findings("message", written)}
    assert "MSG-155" in {one[0] for one in findings("endpoint", {"messages": {"m": written | {"envelope": ""}}})}


NOT_FOR_OTHERS = [
    ("MSG-179", "message", {"dataschemauri": "file:///home/me/order.avsc", "dataschemaformat": "Avro/1.9"}),
    ("MSG-179", "message", {"dataschemauri": "FILE:order.avsc", "dataschemaformat": "Avro/1.9"}),
    ("MSG-153", "message", {"basemessage": "file:///home/me/a.json#/messagegroups/g/messages/m"}),
    ("MSG-177", "schema", {"format": "Avro/1.9", "schemauri": "file:///home/me/order.avsc"}),
    ("MSG-009", "registry", {"documentation": "file:///home/me/README.md"}),
    ("MSG-027", "messagegroup", {"documentation": "C:/docs/README.md"}),
    ("MSG-045", "message", {"documentation": "file:README.md"}),
    ("MSG-045", "schema", {"documentation": "file:README.md"}),
    ("END-046", "endpoint", {"documentation": "file:README.md"}),
]


@pytest.mark.parametrize(("rule_id", "at", "fragment"), NOT_FOR_OTHERS, ids=[f"{one[1]} {one[0]}" for one in NOT_FOR_OTHERS])
def test_a_uri_of_a_file_of_one_machine_is_a_warning(rule_id, at, fragment):
    reported = [one for one in findings(at, fragment) if "which nobody else can open" in one[2]]
    assert [one[:2] for one in reported] == [(rule_id, "warning")]
    assert [one for one in findings(at, fragment) if one[1] == "error"] == []


def test_every_permissive_requirement_has_its_proof():
    proved = {rule_id for rule_ids, _, _ in PERMITTED for rule_id in rule_ids.split()}
    assert {rule_id for rule_id, one in enforcement().items() if one.how == "permissive"} == proved


def test_every_rule_has_examples_that_documents_alone_can_break():
    assert set(RULES) - set(examples()) == WITHOUT_EXAMPLE


@pytest.mark.parametrize("rule_id", BY_ONE_ENTITY)
def test_the_bad_example_breaks_the_rule_and_no_other(rule_id):
    example = examples()[rule_id]
    found = findings(example.at, example.bad)
    assert at_least_as_bad(rule_id, found) == {rule_id}
    limit = SEVERITIES.index(RULES[rule_id].severity)
    severities = {SEVERITIES.index(severity) for one, severity, _ in found if one == rule_id}
    # A requirement of the oldest dialect is broken by its own published documents: there it warns.
    assert max(severities) == limit or rule_id == "CAT-024"


@pytest.mark.parametrize("rule_id", BY_ONE_ENTITY)
def test_the_repair_breaks_nothing(rule_id):
    example = examples()[rule_id]
    assert at_least_as_bad(rule_id, findings(example.at, example.good)) == set()


def test_what_falls_with_its_cause_is_reported_under_its_own_rule():
    example = examples()["MSG-115"]
    reported = [message for one, _, message in findings(example.at, example.bad) if one == "MSG-115"]
    assert reported == ["it cannot be loaded: its default Version 1 was refused"]


OF_WORDS = {
    "MSG-007", "MSG-008", "MSG-009", "MSG-010", "MSG-025", "MSG-026", "MSG-027", "MSG-028", "MSG-043", "MSG-044", "MSG-045",
    "MSG-046", "CAT-028", "CAT-029", "CAT-031", "CAT-072", "CAT-073", "TEXT-001",
}  # fmt: skip


@pytest.mark.parametrize("rule", FINDING_RULES.values(), ids=FINDING_RULES)
def test_a_rule_shows_what_a_person_needs(rule):
    assert rule.severity in SEVERITIES
    assert rule.action == ("quarantined" if rule.severity == "error" and rule.id not in OF_WORDS else "kept")
    assert re.fullmatch(r"[A-Z]+-\d{3}", rule.id)
    assert all((rule.table, rule.text, rule.hint, rule.section))
    reported_of_specification = (
        r"the form (?:shows|lacks|says|would)|example (?:wrongly|with)|later documents|text says|attribute section"
    )
    assert re.search(reported_of_specification, rule.text) is None


def named_in_the_package() -> dict[str, set[str]]:
    """Return each id that modules, tables or views of the package name, and where: `code` for modules, else the file."""
    found: dict[str, set[str]] = {}
    for path in [*(ROOT / "lakehouse").rglob("*"), *(ROOT / "ddl").rglob("*.sql")]:
        if path.suffix not in (".py", ".csv", ".sql") or path.name in ("rules.csv", "examples.csv", "__init__.py"):
            continue
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".py":
            ids = re.findall(r"\"([A-Z]{3,4}-\d{3})\"", text)
        elif path.suffix == ".csv":
            ids = re.findall(r"(?:MSG|END|CAT|WIP|JSON|DOC)-\d{3}", text)
        else:
            ids = re.findall(r"'([A-Z]{3,4}-\d{3})'", text)
        for one in ids:
            found.setdefault(one, set()).add("code" if path.suffix == ".py" else path.stem)
    return found


def test_every_rule_that_a_finding_can_name_is_one():
    # An export reports what a dialect cannot say by requirements that nothing checks.
    of_export = {one for one, how in enforcement().items() if how.how == "export"}
    reported = {one for one, where in named_in_the_package().items() if where & {"code", "dialect_rules", "constraints"}}
    assert reported - set(FINDING_RULES) - of_export == set()
    assert {row["rule"] for row in table("dialect_lacks") if row["how"] == "lost"} <= of_export
    # Of the tables of names those rules are reported that their types can break.
    unbroken = ("computed", "any", "plain")
    typed = {row["rule"] for row in table() if row["type"] not in unbroken} | {row["rule"] for row in table("dialect_types")}
    typed |= {row["rule"] for row in draft_table() if row["level"] != "format"}
    assert typed - set(FINDING_RULES) == set()


def test_every_rule_that_the_package_names_can_be_explained():
    named = named_in_the_package()
    assert len(named) > 350
    assert [one for one in sorted(named) if one not in enforcement()] == []
    assert all(enforcement()[one].text for one in named)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)
    assert result.exit_code == 0
    return result.output


def test_rules_are_listed():
    assert "MSG-250" in run("rules")
    listed = json.loads(run("rules", "--json"))
    assert [one["id"] for one in listed] == list(FINDING_RULES)
    assert {"CAT-078", "WIP-032"} <= set(FINDING_RULES) - set(RULES)
    assert set(listed[0]) == {"id", "severity", "action", "table", "text", "hint", "section"}


def test_a_rule_is_explained_with_examples():
    reported = run("explain", "msg-250")
    assert "`type` is never declared with `required` = false." in reported
    assert (
        reported.index("failing example (message)")
        < reported.index('"required": false')
        < reported.index("corrected example")
        < len(reported)
    )
    assert json.loads(run("explain", "--json", "MSG-250"))["severity"] == "error"


def test_it_is_reported_where_a_rule_is_checked():
    """The lines are read from the package: each names the rule, or the function that does; none is a comment or a docstring."""
    for rule_id, file, function in (
        ("MSG-250", "lakehouse/rules/data/constraints.csv", None),
        ("MSG-183", "lakehouse/domain/relations.py", "check_absent_target"),
        ("MSG-146", "lakehouse/domain/relations.py", "check_cycle"),
    ):
        places = json.loads(run("explain", "--json", rule_id))["checked_in"].split(", ")
        assert any(place.startswith(f"{file}:") for place in places), places
        for path, number in (place.rsplit(":", 1) for place in places):
            line = (ROOT / path).read_text(encoding="utf-8").splitlines()[int(number) - 1]
            assert rule_id in line or (function and function in line)
            assert "lakehouse explain" not in line  # an example of the command
    assert "checked_in" not in json.loads(run("explain", "--json", "MSG-152"))  # nothing to check


@pytest.mark.parametrize(
    ("rule_id", "callers"),
    [
        ("MSG-146", ["lakehouse/domain/neighbours.py", "lakehouse/rules/relational/joins.py"]),
        ("MATCH-004", ["lakehouse/domain/neighbours.py", "lakehouse/rules/relational/options.py"]),
        ("MSG-020", ["lakehouse/domain/neighbours.py", "lakehouse/rules/relational/joins.py"]),  # named in a table
    ],
)
def test_a_rule_between_entities_is_checked_where_its_function_is_called(rule_id, callers):
    files = {place.rsplit(":", 1)[0] for place in places_of(rule_id)}
    assert {"lakehouse/domain/relations.py", *callers} <= files


def test_a_rule_that_a_constant_means_is_checked_where_that_is_used():
    places = json.loads(run("explain", "--json", "DOC-003"))["checked_in"].split(", ")
    assert any(place.startswith("lakehouse/domain/ownership.py:") for place in places), places
    for path, number in (place.rsplit(":", 1) for place in places):
        assert "STALE" in (ROOT / path).read_text(encoding="utf-8").splitlines()[int(number) - 1]


def test_every_rule_is_held_somewhere():
    nowhere = [rule_id for rule_id in FINDING_RULES if not places_of(rule_id)]
    assert nowhere == []


def test_what_is_no_rule_of_its_own_is_explained_too():
    assert "covered by MSG-174" in run("explain", "MSG-180")
    assert "the specification allows it" in run("explain", "MSG-152")


def test_what_only_an_older_dialect_asks_is_explained_too():
    reported = run("explain", "WIP-032")
    assert "checked while a document of that dialect is read" in reported
    assert "Write `protocoloptions`." in reported
    assert "reported by it as lost" in run("explain", "wip-021")
    assert "done while a document is read" in run("explain", "WIP-037")


def test_an_unknown_rule_is_reported_with_others():
    with pytest.raises(UnknownRule, match=r"there is no rule MSG-999\. Ids with that prefix: MSG-001"):
        run("explain", "MSG-999")


FITTING = [
    ("CAT-024", "`format` is missing", "Write the format of the group's messages"),
    ("END-053", '`retain` is "no" and must be true or false', "true or false"),
    ("MSG-306", "has the type 'integer'; allowed", "declare a type that is allowed"),
    ("MSG-343", "not of its type `integer`", "Write a value of that type"),
    ("MSG-177", "not a URI-reference", "a relative reference"),
]


def test_the_text_of_a_rule_fits_what_it_reports_of_two_places():
    value = {"versionid": "1", "name": "one", "versions": {"1": {"name": "another"}}}
    reported = {message for rule_id, _, message in findings("message", value) if rule_id == "MSG-038"}
    assert reported == {"`name` of the message differs from its default Version's, which is taken"}
    assert "both have the same values" in RULES["MSG-038"].text


@pytest.mark.parametrize(("rule_id", "message", "hint"), FITTING, ids=[one[0] for one in FITTING])
def test_the_hint_of_a_rule_fits_its_message(rule_id, message, hint):
    at, bad, _ = examples()[rule_id]
    written = bad if isinstance(bad, str) else registry_of(at, bad)
    [reported] = {(one.message, one.hint) for one in read(written, rules=True).findings if one.rule_id == rule_id}
    assert (message in reported[0], hint in reported[1]) == (True, True), reported
