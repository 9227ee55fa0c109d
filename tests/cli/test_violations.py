"""`lakehouse violations`: what fits a screen, what is left out, and the formats that CI servers read."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest
from called import Called, Caller
from warehouses import CHANGES, Written

from lakehouse.cli.brokenrules import as_sarif

RULES = ["MSG-001", "MSG-002", "MSG-037", "MSG-043", "MSG-044", "MSG-146", "MSG-150", "MSG-208"]
DOCUMENTS = 40


@pytest.fixture(scope="module")
def broken(tmp_path_factory) -> Path:
    """Write a catalog of 40 documents in two folders: each breaks three of eight rules, once as the cause of MSG-115."""
    folder = tmp_path_factory.mktemp("broken")
    written = Written(folder / "warehouse", 1)
    written.head = 1
    rows = []
    for number in range(DOCUMENTS):
        uri = f"file:{folder}/team{number % 2}/orders-{number:02}.xreg.json"
        ids = []
        for nth, rule in enumerate([*(RULES[(number + step) % len(RULES)] for step in range(3)), "MSG-115"]):
            ids.append(f"v{number}-{nth}")
            severity = {"MSG-150": "info", "MSG-146": "warning"}.get(rule, "error")
            xid = f"/messagegroups/orders/messages/m{number}"
            reported = {"document_uri": uri, "registryid": "r", "rule_id": rule, "severity": severity, "xid": xid}
            reported |= {
                "pointer": f"{xid}/name",
                "message": f"no text\x07 {number}",
                "hint": "Write a text.",
                "action": "quarantined",
            }
            written.find(ids[-1], reported)
        rows.append(written.row("document", uri, "insert", {"status": "loaded", "findings": ids}))
    written.append("changes", pa.Table.from_pylist([*rows, written.snapshot()], CHANGES), None)
    return folder


def listed(broken: Path, call: Caller, *options: str) -> Called:
    ran = call(broken, "violations", *options)
    assert (ran.code, ran.err) == (0, "")
    return ran


@pytest.mark.slow
def test_the_findings_of_forty_documents_fit_two_screens(broken, call, monkeypatch):
    monkeypatch.chdir(broken)
    lines = listed(broken, call).out.splitlines()
    assert len(lines) <= 60
    heads = [line.split("  ")[:3] for line in lines if line[:3] == "MSG"]
    assert [(rule, severity) for rule, severity, _ in heads] == [
        *((rule, "error") for rule in RULES if rule not in ("MSG-146", "MSG-150")),
        ("MSG-115", "error"),  # after its causes
        ("MSG-146", "warning"),
        ("MSG-150", "info"),
    ]
    assert {count for _, _, count in heads} == {"15", "40"}
    assert lines[1] == r"  team0/orders-00.xreg.json /messagegroups/orders/messages/m0/name: no text\x07 0"
    assert "  12 more: --rule MSG-001 --all" in lines
    assert "  40 more: --rule MSG-115 --all" in lines
    assert lines[-1].startswith("130 errors, 15 warnings, 15 info: 9 rules broken in 40 documents.")


def test_rule_severity_and_all_choose_what_is_listed(broken, call):
    lines = listed(broken, call, "--rule", "msg-115", "--all").out.splitlines()
    assert len([line for line in lines if "orders-" in line]) == DOCUMENTS
    lines = listed(broken, call, "--severity", "info", "--severity", "warning").out.splitlines()
    assert [line.split()[0] for line in lines if line[:3] == "MSG"] == ["MSG-146", "MSG-150"]
    assert len(json.loads(listed(broken, call, "--json", "--rule", "MSG-043").out)[0]["examples"]) == 5
    assert call(broken, "violations", "--rule", "MSG-999").code == 2


def test_findings_are_counted_by_document_and_by_folder(broken, call):
    by_folder = json.loads(listed(broken, call, "--by", "folder", "--json").out)
    assert [(one["documents"], one["error"] + one["warning"] + one["info"]) for one in by_folder] == [(20, 80), (20, 80)]
    by_document = listed(broken, call, "--by", "document").out.splitlines()
    assert len(by_document) == DOCUMENTS + 1
    assert by_document[1].split()[1:4] == ["4", "0", "0"]  # the worst first


def test_sarif_names_the_rule_the_file_and_the_pointer(broken, call, monkeypatch):
    monkeypatch.chdir(broken)
    log = json.loads(listed(broken, call, "--format", "sarif", "--document", "orders-00.xreg.json").out)
    [run] = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert (log["version"], [rule["id"] for rule in rules]) == ("2.1.0", ["MSG-001", "MSG-002", "MSG-037", "MSG-115"])
    assert all(rule["shortDescription"]["text"] and rule["help"]["text"] for rule in rules)
    first = run["results"][0]
    assert (first["ruleId"], rules[first["ruleIndex"]]["id"], first["level"]) == ("MSG-001", "MSG-001", "error")
    assert first["locations"] == [
        {
            "physicalLocation": {"artifactLocation": {"uri": "team0/orders-00.xreg.json", "uriBaseId": "%SRCROOT%"}},
            "logicalLocations": [{"fullyQualifiedName": "/messagegroups/orders/messages/m0/name", "name": "name"}],
        }
    ]
    assert (
        json.loads(listed(broken, call, "--format", "sarif", "--document", "orders-06.xreg.json").out)["runs"][0]["results"][-1][
            "level"
        ]
        == "note"
    )


@pytest.mark.parametrize(
    ("uri", "written"),
    [
        ("s3a://bucket/team a/größe.json", "s3a://bucket/team%20a/gr%C3%B6%C3%9Fe.json"),
        ("https://h.example/a%20b?x=1#y", "https://h.example/a%20b?x=1#y"),
        ("file:/tmp/a b#1.json", "file:///tmp/a%20b%231.json"),
    ],
)
def test_sarif_writes_uris(uri, written):
    finding = dict.fromkeys(("pointer", "hint", "action", "registryid", "xid", "ingest_id"), "")
    finding |= {"rule_id": "MSG-037", "severity": "error", "message": "m", "violation_id": "v", "document_uri": uri}
    [result] = json.loads(as_sarif([finding]))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"] == {"uri": written}


def test_junit_counts_errors_as_failures(broken, call):
    suites = ET.fromstring(listed(broken, call, "--format", "junit").out)
    assert (suites.get("tests"), suites.get("failures"), len(suites)) == ("160", "130", DOCUMENTS)
    [case] = suites.findall("./testsuite[1]/testcase[@name='MSG-001']")
    assert case[0].tag == "failure"
    assert case[0].text == "/messagegroups/orders/messages/m0/name: no text\\x07 0\n  fix: Write a text."
    assert len(suites.findall(".//system-out")) == 30


def test_options_that_exclude_each_other_are_wrong_usage(broken, call):
    for options in (("--format", "sarif", "--json"), ("--format", "junit", "--by", "folder"), ("--by", "folder", "--all")):
        ran = call(broken, "violations", *options)
        assert (ran.code, "exclude" in ran.err) == (2, True)
