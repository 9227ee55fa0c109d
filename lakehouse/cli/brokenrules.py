"""The command `violations`: which rules are broken, how often and where, for a person or for a CI server.

CI servers read SARIF 2.1.0 or JUnit XML.
"""

from __future__ import annotations

import json
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any
from urllib.parse import quote
from xml.etree import ElementTree as ET

import click

from lakehouse.cli.console import Context, at_option, read_model, with_globals
from lakehouse.cli.helping import command, complete_rule
from lakehouse.cli.printing import counted_findings, log_stderr, one_line, printable, shortened, show_table
from lakehouse.rules.declared import FINDING_RULES
from lakehouse.text.timestamps import rfc3339, utc_seconds
from lakehouse.version import VERSION

if TYPE_CHECKING:
    from lakehouse.readmodel.violationlist import RuleFindings


_SEVERITIES = ("error", "warning", "info")
_PLACES, _PLACES_IN_JSON = 3, 5
_RULES_OF_A_ROW = 5


@command(
    "lakehouse violations --severity error --ingest last",
    "lakehouse violations --format sarif > violations.sarif",
    sections={
        "What to list": ("rules", "severities", "document", "ingest", "at"),
        "How to list it": ("by", "examples", "everything", "form"),
    },
)
@click.option("--rule", "rules", multiple=True, metavar="RULE", shell_complete=complete_rule, help="Only this rule (repeatable).")
@click.option("--severity", "severities", multiple=True, type=click.Choice(_SEVERITIES), help="Only this severity (repeatable).")
@click.option("--document", metavar="URI|PATH", help="Only this document: its URI, its path, or the end of either.")
@click.option(
    "--ingest",
    metavar="last|ID",
    help="last: new violations of the most recent ingest that had new ones. ID: those new in that ingest (column ingest_id). "
    "Without it: the current violations of all documents.",
)
@at_option
@click.option("--by", type=click.Choice(["rule", "document", "folder"]), default="rule", help="Group by this (default rule).")
@click.option(
    "--examples",
    type=click.IntRange(1),
    help=f"Violations listed for each rule (default {_PLACES}; {_PLACES_IN_JSON} with --json).",
)
@click.option("--all", "everything", is_flag=True, help="List every violation.")
@click.option(
    "--format", "form", type=click.Choice(["text", "sarif", "junit"]), default="text", help="Format of the output (default text)."
)
@with_globals
@click.pass_obj
def violations(context: Context, /, **options: Any) -> int:
    """List violations of rules, with counts and JSON Pointers.

    Errors are listed first, and causes before violations that follow from them. The exit code is 0 whatever is listed.
    """
    from lakehouse.readmodel.violationlist import violations_by_rule

    if options["form"] != "text" and (context.as_json or options["by"] != "rule"):
        raise click.UsageError("--format sarif and --format junit exclude --json and --by.")
    if options["by"] != "rule" and options["everything"]:
        raise click.UsageError("--all lists the violations of each rule: it excludes --by.")
    findings, rules = _selected(context, options)
    if options["form"] != "text":
        from lakehouse.cli.brokenrules import as_junit, as_sarif

        click.echo(as_sarif(findings) if options["form"] == "sarif" else as_junit(findings))
    elif options["by"] != "rule":
        _show_places(context, findings, options["by"])
    else:
        most = len(findings) if options["everything"] else options["examples"]
        results = violations_by_rule(findings, most or (_PLACES_IN_JSON if context.as_json else _PLACES))
        if context.as_json:
            click.echo(json.dumps([broken._asdict() for broken in results]))
        else:
            show_broken(results, len({finding["document_uri"] for finding in findings}), with_consequences=bool(most or rules))
    return 0


def _selected(context: Context, options: dict[str, Any]) -> tuple[list[dict[str, Any]], set[str]]:
    """Return the findings that the options select, and the rules that they name."""
    from lakehouse.readmodel.violationlist import find_violations

    with read_model(context) as (model, _):
        chosen = {"registryid": context.registry, "ingest": options["ingest"], "document": options["document"]}
        findings = model.answer(lambda view: find_violations(view, **chosen), options["at"])
    if options["ingest"]:
        _name_ingests(findings)
    rules = _existing({rule.strip().upper() for rule in options["rules"]}, findings)
    findings = [
        finding
        for finding in findings
        if (not rules or finding["rule_id"] in rules)
        and (not options["severities"] or finding["severity"] in options["severities"])
    ]
    return findings, rules


def _existing(rules: set[str], findings: list[dict[str, Any]]) -> set[str]:
    """Return the rules; one that neither exists nor has a finding is wrong usage."""
    from lakehouse.rules.declared import explain

    for rule_id in sorted(rules - {finding["rule_id"] for finding in findings}):
        explain(rule_id)
    return rules


def _name_ingests(findings: list[dict[str, Any]]) -> None:
    """Print on standard error which ingest was the first to report the findings, and where the others are listed."""
    for ingest_id, found_at in {finding["ingest_id"]: finding["found_at"] for finding in findings}.items():
        log_stderr(f"first reported by ingest {ingest_id} at {utc_seconds(rfc3339(found_at))}")
    log_stderr("findings that earlier ingests reported are not listed here; `lakehouse violations` lists all of them")


def show_broken(results: list[RuleFindings], documents: int, *, with_consequences: bool) -> None:
    """Print rules with their counts and first places, then the sums.

    Args:
        results: the rules, as from `violations_by_rule`.
        documents: how many documents the findings are of.
        with_consequences: list the places of rules whose findings follow from others too.
    """
    from lakehouse.readmodel.violationlist import CONSEQUENCES

    if not results:
        click.echo("No findings.")
        return
    for broken in results:
        _show_rule(broken, [] if broken.rule_id in CONSEQUENCES and not with_consequences else broken.examples)
    counts: Counter[str] = Counter()
    for broken in results:
        counts[broken.severity] += broken.findings
    rules = len({broken.rule_id for broken in results})
    click.echo(
        f"\n{counted_findings(counts)}: {rules} rule{'s' * (rules > 1)} broken in {documents} document{'s' * (documents > 1)}. "
        "`lakehouse explain RULE` shows an example of a rule and its fix."
    )


def _show_rule(broken: RuleFindings, examples: list[dict[str, Any]]) -> None:
    click.echo(one_line(f"{broken.rule_id}  {broken.severity}  {broken.findings}  {broken.text}"))
    hints = {example["hint"] for example in examples}
    for example in examples:
        click.echo(
            one_line(f"  {shortened(example['document_uri'])} {example['pointer'] or example['xid'] or ''}: {example['message']}")
        )
        if len(hints) > 1:
            click.echo(one_line(f"    fix: {example['hint']}"))
    if broken.findings > len(examples):
        click.echo(f"  {broken.findings - len(examples):,} more: --rule {broken.rule_id} --all")
    if len(hints) == 1:
        click.echo(one_line(f"  fix: {hints.pop()}"))


def _show_places(context: Context, findings: list[dict[str, Any]], by: str) -> None:
    """Print a line for each document or folder: its findings by severity, and the rules that they break most often."""
    places: dict[str, list[dict[str, Any]]] = {}
    for finding in findings:
        uri = finding["document_uri"]
        places.setdefault(uri if by == "document" else uri.rpartition("/")[0], []).append(finding)
    rows: list[dict[str, Any]] = []
    for place, of_place in places.items():
        counts, rules = Counter(finding["severity"] for finding in of_place), Counter(finding["rule_id"] for finding in of_place)
        rows.append(
            {by: place, **{name: counts[name] for name in _SEVERITIES}}
            | ({} if by == "document" else {"documents": len({finding["document_uri"] for finding in of_place})})
            | {"rules": dict(rules.most_common())}
        )
    rows.sort(key=lambda row: (*(-row[name] for name in _SEVERITIES), row[by]))
    if context.as_json:
        click.echo(json.dumps(rows))
    elif not rows:
        click.echo("No findings.")
    else:
        columns = list(rows[0])
        show_table(columns, ([shortened(row[by]), *map(str, list(row.values())[1:-1]), _often(row["rules"])] for row in rows))


def _often(rules: dict[str, int]) -> str:
    listed = ", ".join(f"{rule} {count}" for rule, count in list(rules.items())[:_RULES_OF_A_ROW])
    return listed + (f", {len(rules) - _RULES_OF_A_ROW} more" if len(rules) > _RULES_OF_A_ROW else "")


_LEVELS = {"error": "error", "warning": "warning", "info": "note"}
_URI = "%:/?#[]@!$&'()*+,;=~"  # what a URI may hold besides letters, digits and -._
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"  # the identifier that readers look for; nothing is fetched


def as_sarif(findings: list[dict[str, Any]]) -> str:
    """Return findings as a SARIF log with one run; the JSON Pointer is the fully qualified name of a logical location.

    Args:
        findings: rows, as from `find_violations`.
    """
    rule_ids = list(dict.fromkeys(finding["rule_id"] for finding in findings))
    driver = {
        "name": "lakehouse",
        "version": VERSION,
        "rules": [_sarif_rule(rule_id, findings) for rule_id in rule_ids],
    }
    places = {rule_id: number for number, rule_id in enumerate(rule_ids)}
    results = [_sarif_result(finding, places[finding["rule_id"]]) for finding in findings]
    run = {"tool": {"driver": driver}, "columnKind": "unicodeCodePoints", "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False)


def _sarif_rule(rule_id: str, findings: list[dict[str, Any]]) -> dict[str, Any]:
    first = next(finding for finding in findings if finding["rule_id"] == rule_id)
    if rule_id not in FINDING_RULES:  # an expectation of the user's own suites
        return {"id": rule_id, "shortDescription": {"text": rule_id}, "help": {"text": first["hint"] or first["message"]}}
    rule = FINDING_RULES[rule_id]
    return {
        "id": rule_id,
        "shortDescription": {"text": rule.text},
        "help": {"text": rule.hint or first["hint"]},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"section": rule.section, "table": rule.table},
    }


def _sarif_result(finding: dict[str, Any], index: int) -> dict[str, Any]:
    pointer = finding["pointer"] or ""
    location: dict[str, Any] = {"physicalLocation": {"artifactLocation": _artifact(finding["document_uri"])}}
    location["logicalLocations"] = [{"fullyQualifiedName": pointer or "/", "name": pointer.rpartition("/")[2] or "/"}]
    return {
        "ruleId": finding["rule_id"],
        "ruleIndex": index,
        "level": _LEVELS[finding["severity"]],
        "message": {"text": f"{finding['message']}. {finding['hint']}" if finding["hint"] else finding["message"]},
        "locations": [location],
        "partialFingerprints": {"violationId": finding["violation_id"]},
        "properties": {name: finding[name] for name in ("action", "registryid", "xid", "ingest_id")},
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
    by_document = sorted(findings, key=lambda finding: str(finding["document_uri"]))  # stable: the order of rules stays
    for uri, of_document in groupby(by_document, key=lambda finding: str(finding["document_uri"])):
        suite = ET.SubElement(suites, "testsuite", name=printable(shortened(uri)))
        cases = groupby(of_document, key=lambda finding: (finding["rule_id"], finding["severity"]))
        for (rule_id, severity), group in cases:
            _junit_case(suite, rule_id, severity, list(group))
        _count(suite)
    _count(suites)
    ET.indent(suites)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suites, encoding="unicode")


def _junit_case(suite: ET.Element, rule_id: str, severity: str, findings: list[dict[str, Any]]) -> None:
    case = ET.SubElement(suite, "testcase", name=rule_id, classname=suite.attrib["name"])
    places = [
        printable(f"{finding['pointer'] or finding['xid'] or '/'}: {finding['message']}\n  fix: {finding['hint']}")
        for finding in findings
    ]
    if severity == "error":
        text = FINDING_RULES[rule_id].text if rule_id in FINDING_RULES else findings[0]["message"]
        problem = ET.SubElement(case, "failure", type=rule_id, message=printable(text))
    else:
        problem = ET.SubElement(case, "system-out")
        places.insert(0, f"{severity}:")
    problem.text = "\n".join(places)


def _count(element: ET.Element) -> None:
    element.set("tests", str(len(element.findall(".//testcase"))))
    element.set("failures", str(len(element.findall(".//failure"))))
