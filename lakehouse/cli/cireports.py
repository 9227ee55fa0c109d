"""Findings in the formats that CI servers read: SARIF 2.1.0 and JUnit XML."""

from __future__ import annotations

import json
from itertools import groupby
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

from lakehouse.cli.printing import printable, shortened
from lakehouse.rules.declared import TOLD
from lakehouse.version import VERSION

_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_URI = "%:/?#[]@!$&'()*+,;=~"  # what a URI may hold besides letters, digits and -._
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"  # the identifier that readers look for; nothing is fetched


def as_sarif(findings: list[dict[str, Any]]) -> str:
    """Return findings as a SARIF log with one run; the JSON Pointer is the fully qualified name of a logical location.

    Args:
        findings: rows, as from `find_violations`.
    """
    rule_ids = list(dict.fromkeys(one["rule_id"] for one in findings))
    driver = {
        "name": "lakehouse",
        "version": VERSION,
        "rules": [_sarif_rule(rule_id, findings) for rule_id in rule_ids],
    }
    places = {rule_id: number for number, rule_id in enumerate(rule_ids)}
    results = [_sarif_result(one, places[one["rule_id"]]) for one in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _sarif_rule(rule_id: str, findings: list[dict[str, Any]]) -> dict[str, Any]:
    first = next(one for one in findings if one["rule_id"] == rule_id)
    if rule_id not in TOLD:  # an expectation of the user's own suites
        return {"id": rule_id, "shortDescription": {"text": rule_id}, "help": {"text": first["hint"] or first["message"]}}
    rule = TOLD[rule_id]
    return {
        "id": rule_id,
        "shortDescription": {"text": rule.text},
        "help": {"text": rule.hint or first["hint"]},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"section": rule.section, "table": rule.table},
    }


def _sarif_result(one: dict[str, Any], index: int) -> dict[str, Any]:
    pointer = one["pointer"] or ""
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(one["document_uri"])}}
    location["logicalLocations"] = [{"fullyQualifiedName": pointer or "/", "name": pointer.rpartition("/")[2] or "/"}]
    return {
        "ruleId": one["rule_id"],
        "ruleIndex": index,
        "level": _LEVELS[one["severity"]],
        "message": {"text": f"{one['message']}. {one['hint']}" if one["hint"] else one["message"]},
        "locations": [location],
        "partialFingerprints": {"violationId": one["violation_id"]},
        "properties": {name: one[name] for name in ("action", "registryid", "xid", "ingest_id")},
    }


def _artifact(uri: str) -> dict[str, str]:
    """Return a file below the working folder relative to it, as a checkout of CI wants it; any other by its URI."""
    path = shortened(uri)
    if path == uri:
        return {"uri": quote(uri, safe=_URI)}  # keys of object stores hold any character
    return {"uri": f"file://{quote(path)}"} if path.startswith("/") else {"uri": quote(path), "uriBaseId": "%SRCROOT%"}


def as_junit(findings: list[dict[str, Any]]) -> str:
    """Return findings as JUnit XML: a suite for each document, a case for each rule that it breaks; errors alone are failures.

    Args:
        findings: rows, as from `find_violations`.
    """
    suites = ET.Element("testsuites", name="lakehouse violations")
    by_document = sorted(findings, key=lambda one: str(one["document_uri"]))  # stable: the order of rules stays
    for uri, ones in groupby(by_document, key=lambda one: str(one["document_uri"])):
        suite = ET.SubElement(suites, "testsuite", name=printable(shortened(uri)))
        cases = groupby(ones, key=lambda one: (one["rule_id"], one["severity"]))
        for (rule_id, severity), group in cases:
            _junit_case(suite, rule_id, severity, list(group))
        _count(suite)
    _count(suites)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode")


def _junit_case(suite: ET.Element, rule_id: str, severity: str, findings: list[dict[str, Any]]) -> None:
    case = ET.SubElement(suite, "testcase", name=rule_id, classname=suite.attrib["name"])
    places = [printable(f"{one['pointer'] or one['xid'] or '/'}: {one['message']}\n  fix: {one['hint']}") for one in findings]
    if severity == "error":
        text = TOLD[rule_id].text if rule_id in TOLD else findings[0]["message"]
        problem = ET.SubElement(case, "failure", type=rule_id, message=printable(text))
    else:
        problem = ET.SubElement(case, "system-out")
        places.insert(0, f"{severity}:")
    problem.text = "\n".join(places)


def _count(element: ET.Element) -> None:
    element.set("tests", str(len(element.findall(".//testcase"))))
    element.set("failures", str(len(element.findall(".//failure"))))
