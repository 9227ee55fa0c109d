"""`lakehouse compat`: files and Versions, in words and as JSON."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from deltas import unpack

from lakehouse.cli.console import Context
from lakehouse.cli.main import cli

OLD = {"type": "record", "name": "Order", "fields": [{"name": "price", "type": "int"}]}
NEW = {**OLD, "fields": [*OLD["fields"], {"name": "currency", "type": "string"}]}


@pytest.fixture
def compat(tmp_path):
    def run(*arguments: str):
        for name, schema in (("old.avsc", OLD), ("new.avsc", NEW)):
            (tmp_path / name).write_text(json.dumps(schema))
        reported = [str(tmp_path / one) if one.endswith(".avsc") else one for one in arguments]
        return CliRunner().invoke(cli, ["compat", *reported], obj=Context(), standalone_mode=False)

    return run


def test_a_field_without_a_default_breaks_writers_and_says_why(compat):
    ran = compat("old.avsc", "new.avsc")
    assert ran.return_value == 4
    assert ran.output.splitlines() == [
        "breaking   /currency: came: string without a default. A producer with the old schema does not write it, and a consumer "
        "with the new schema needs it, as it has no default.",
        "Readers that stay with A are not broken.",
        "Writers that stay with A are broken.",
    ]


def test_json_has_both_answers_and_each_difference(compat):
    ran = compat("new.avsc", "old.avsc", "--json")
    reported = json.loads(ran.output)
    assert (ran.return_value, reported["breaks"]) == (4, {"readers": "yes", "writers": "no"})
    assert [(one["pointer"], one["kind"]) for one in reported["differences"]] == [("/currency", "field-removed")]


def test_the_same_schema_breaks_nobody(compat):
    ran = compat("old.avsc", "old.avsc")
    assert (ran.return_value, ran.output.splitlines()[0]) == (0, "No difference that matters.")


def test_a_file_whose_format_does_not_show_needs_its_name(compat, tmp_path):
    for name, kind in (("old.json", "integer"), ("new.json", "string")):
        (tmp_path / name).write_text(f'{{"properties": {{"n": {{"type": "{kind}"}}}}}}', encoding="utf-8")
    ran = compat(str(tmp_path / "old.json"), str(tmp_path / "new.json"))
    assert "new.json is not known. Name it, such as --format JsonSchema." in str(ran.exception)
    ran = compat(str(tmp_path / "old.json"), str(tmp_path / "new.json"), "--format", "JsonSchema")
    assert "breaking   /n: was integer, is string." in ran.output


def test_a_format_that_is_not_compared_is_unknown_and_fails_nothing(compat):
    ran = compat("old.avsc", "new.avsc", "--format", "Thrift")
    assert ran.return_value == 0
    assert "unknown    the whole: cannot be compared. Schemas of format Thrift are not compared." in ran.output


def test_schemas_of_the_catalog_are_named_by_xid(compat, tmp_path, monkeypatch):
    unpack(tmp_path)
    monkeypatch.setenv("LAKEHOUSE_READMODEL_DIR", str(tmp_path / "model"))
    where = ("--warehouse", str(tmp_path / "warehouse"))
    ran = compat("/schemagroups/s/schemas/t", "/schemagroups/s/schemas/t", *where)
    assert (ran.return_value, ran.exception) == (0, None), ran.output
    message = compat("/messagegroups/g/messages/m", "/messagegroups/g/messages/m", *where)
    assert (message.return_value, message.output.splitlines()[0]) == (0, "No difference that matters.")
    several = compat("/messagegroups/g/messages/m", "/messagegroups/base/messages/event", *where, "--json")
    differences = json.loads(several.output)["differences"]
    assert all(one["pointer"].startswith("/") and one["reason"] for one in differences), several.output
    assert differences
    assert "both" in str(compat("/messagegroups/g/messages/m", "/schemagroups/s/schemas/t", *where).exception)
    missing = compat("/schemagroups/s/schemas/t", "/schemagroups/s/schemas/none", *where)
    assert "/schemagroups/s/schemas/none" in str(missing.exception)


def test_diff_says_what_is_in_a_schema_that_changed(tmp_path):
    for name, schema in (("old", OLD), ("new", NEW)):
        held = {"versions": {"1": {"format": "Avro/1.11", "schema": schema}}}
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.json").write_text(json.dumps({"schemagroups": {"g": {"schemas": {"s": held}}}}))
    reported = [str(tmp_path / name) for name in ("old", "new")]
    ran = CliRunner().invoke(cli, ["diff", *reported, "--breaking"], obj=Context(), standalone_mode=False)
    assert ran.return_value == 4, ran.output
    said = "/schemagroups/g/schemas/s/versions/1/schema: /currency: came: string without a default. A producer with"
    assert ran.output.splitlines()[-1].startswith(said)
    ran = CliRunner().invoke(cli, ["diff", *reported, "--markdown"], obj=Context(), standalone_mode=False)
    assert "needs it, as it has no default. (breaks producers) |" in ran.output
