"""Versions in a document that break what `compatibility` promises do not load, and the finding has the reasons (COMP-001)."""

from __future__ import annotations

import pytest

from lakehouse.ingest.parse.document import read_document


def findings(schema: dict) -> list[tuple[str, str]]:
    """Return the findings of a document with a schema: rule and XID."""
    document = {"schemagroups": {"g": {"schemas": {"s": schema}}}}
    return [
        (one.rule_id, one.xid.removeprefix("/schemagroups/g/schemas/s"))
        for one in read_document(document, [], "1.0-rc2").findings
    ]


def version(*optional: str, needed: tuple[str, ...] = (), **more: str) -> dict:
    fields = [{"name": one, "type": "int", "default": 0} for one in optional] + [{"name": one, "type": "int"} for one in needed]
    return {"format": "Avro/1.11", "schema": {"type": "record", "name": "R", "fields": fields}, **more}


def schema(compatibility: str, *versions: dict) -> dict:
    numbered = {str(at): one for at, one in enumerate(versions, 1)}
    return {"meta": {"compatibility": compatibility, "defaultversionid": "1"}, "versions": numbered}


@pytest.mark.parametrize(
    ("compatibility", "refused"),
    [("backward", True), ("full", True), ("backward_transitive", True), ("forward", False), ("none", False)],
)
def test_a_version_that_needs_a_new_field_breaks_writers(compatibility, refused):
    found = findings(schema(compatibility, version("a"), version("a", needed=("b",))))
    assert found == ([("COMP-001", "/versions/2")] if refused else [])


def test_the_reason_says_what_and_why():
    document = {"schemagroups": {"g": {"schemas": {"s": schema("backward", version(), version(needed=("b",)))}}}}
    (found,) = read_document(document, [], "1.0-rc2").findings
    assert found.message == (
        "`compatibility` is backward, and Version 2 breaks with Version 1: /b: came: int without a default. A producer with the "
        "old schema does not write it, and a consumer with the new schema needs it, as it has no default."
    )


def test_a_version_is_compared_with_its_ancestor_and_not_with_one_that_is_refused():
    one, broken, later = version("a"), version("a", needed=("b",)), version("a", "c")
    assert findings(schema("backward", one, broken, later)) == [("COMP-001", "/versions/2")]
    assert findings(schema("backward", one, version("a", "b"), version("c", ancestor="1"))) == []


def test_a_transitive_promise_is_about_all_earlier_versions():
    versions = version("a", needed=("b",)), version("a", "b"), version("a")
    assert findings(schema("forward", *versions)) == []
    assert findings(schema("forward_transitive", *versions)) == [("COMP-001", "/versions/3")]


def test_a_message_keeps_its_promise_too():
    def message(required: bool) -> dict:
        return {"envelope": "CloudEvents/1.0", "envelopemetadata": {"subject": {"type": "string", "required": required}}}

    def found(compatibility: str) -> list[str]:
        versions = {"1": message(False), "2": message(True)}
        held = {"meta": {"compatibility": compatibility, "defaultversionid": "1"}, "versions": versions}
        document = {"messagegroups": {"g": {"messages": {"m": held}}}}
        return [one.rule_id for one in read_document(document, [], "1.0-rc2").findings]

    assert "COMP-001" in found("backward")
    assert "COMP-001" not in found("forward")
