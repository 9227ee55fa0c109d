"""The command without Spark: one event, usage, exit codes. The warehouse is written with deltalake."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

import pytest
from builders import document, group
from click.testing import CliRunner

from lakehouse.cli.main import cli
from lakehouse.cli.match import _added
from lakehouse.match.definition.scope import Scope, read_catalog
from lakehouse.match.runs import MatchOptions, checkpoint
from lakehouse.settings import read_settings
from match.stored import model_of, write_catalog

MESSAGE = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "T"}, "source": {"value": "/s/{shop}"}},
    "dataschemaformat": "JSONSchema/draft-07",
    "dataschema": {"properties": {"n": {"type": "integer"}}},
}
ON_KAFKA = {
    "basemessage": "/messagegroups/g/messages/m",
    "protocol": "KAFKA",
    "protocoloptions": {"headers": {"h": {"value": "{shop}"}}},
}
ENDPOINT = {
    "usage": ["producer"], "protocol": "KAFKA", "protocoloptions": {"topic": "orders", "key": "{shop}"},
    "messagegroups": ["/messagegroups/g"],
}  # fmt: skip


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory) -> str:
    reported = document({"g": group({"m": MESSAGE}), "k": group({"m": ON_KAFKA})}, endpoints={"e": ENDPOINT})
    return write_catalog(tmp_path_factory.mktemp("warehouse"), {"r": reported})


def run(warehouse: str, tmp_path: Any, *arguments: str, topic: str = "orders", **headers: str) -> Any:
    named = {"ce_specversion": "1.0", "ce_id": "1", "ce_type": "T", "ce_source": "/s/eu", "h": "eu"} | headers
    captured = {"topic": topic, "key": "eu", "headers": [{"name": n, "value": v} for n, v in named.items()]}
    body = base64.b64encode(b'{"n": 1}').decode()
    (tmp_path / "event.json").write_text(json.dumps({"protocol": "KAFKA", "captured": captured, "payload_base64": body}))
    return CliRunner().invoke(
        cli, ["match", "--one", str(tmp_path / "event.json"), "--warehouse", warehouse, *arguments], standalone_mode=False
    )


def test_a_definition_that_declares_nothing_is_reported_last_and_as_no_match(tmp_path):
    reported = document({"g": group({"m": MESSAGE}), "a": group({"empty": {"description": "nothing else"}})})
    explained = run(write_catalog(tmp_path / "w", {"r": reported}), tmp_path, "--explain", ce_source="/other")
    nearer, _, empty = explained.stdout.partition("/messagegroups/a/messages/empty  (registry r): ")
    assert "/messagegroups/g/messages/m  (registry r): does not match" in nearer
    assert empty.startswith("does not match\n  declares nothing to compare with")


def code(reported: Any) -> int:
    """Return the exit code, as `main` makes it."""
    return (reported.return_value or 0) if reported.exception is None else reported.exception.exit_code


def test_one_event(warehouse, tmp_path):
    reported = run(warehouse, tmp_path, "--json")
    assert code(reported) == 0, reported.output
    [row] = json.loads(reported.stdout)
    assert (row["status"], row["payload_status"], row["catalog_snapshot"]) == ("matched", "valid", 1)
    assert row["best"] == [{"registryid": "r", "xid": "/messagegroups/k/messages/m"}]
    explained = run(warehouse, tmp_path, "--explain", h="us")
    assert "/protocoloptions/headers/h  {shop}" in " ".join(explained.stdout.split()).replace(" {shop}", "  {shop}")
    assert "fail: variable shop" in explained.stdout
    empty = CliRunner().invoke(cli, ["match", "--one", "-", "--warehouse", warehouse], input="", standalone_mode=False)
    assert "reason line: unreadable: actual not JSON" in empty.stdout
    other = run(warehouse, tmp_path, ce_type="U").stdout
    assert "reason /envelopemetadata/type: value: expected T, actual U" in other
    assert "None" not in empty.stdout + other


def test_exit_codes(warehouse, tmp_path):
    assert code(run(warehouse, tmp_path, "--fail-on", "unmatched,invalid", "--format", "json")) == 0
    assert code(run(warehouse, tmp_path, "--fail-on", "unmatched", ce_type="U")) == 3
    assert code(run(warehouse, tmp_path, ce_type="U")) == 0
    for wrong in (["--fail-on", "rain"], ["--payload", "5"], ["--placeholders", "all"], ["--into", "x"], ["--versions", "all"],
                  ["--map", "m.toml"], ["--since", "2026-01-01"], ["--watch"], ["--format", "parquet"]):  # fmt: skip
        assert code(run(warehouse, tmp_path, *wrong)) == 2, wrong
    both = ["x", "--endpoint", "/endpoints/e", "--group", "/messagegroups/g"]
    unseen = ["x", "--watch", "--into", "y", "--fail-on", "unseen"]
    for wrong in ([], ["--explain", "x"], ["--watch", "x"], ["x", "--again"], both, unseen):
        assert code(CliRunner().invoke(cli, ["match", *wrong], standalone_mode=False)) == 2, wrong


def test_counts_of_micro_batches_are_added():
    one = {"read": 3, "matched": 2, "ambiguous": 0, "unmatched": 1, "unreadable": 0, "deviating": 1, "payloads": {"valid": 2}}
    two = {"read": 1, "matched": 1, "ambiguous": 0, "unmatched": 0, "unreadable": 0, "deviating": 0, "payloads": {"invalid": 1}}
    one, two = one | {"incomplete": 1}, two | {"incomplete": 2}
    total = _added(_added({}, one | {"catalog_snapshot": 1}), two | {"catalog_snapshot": 2})
    assert total.pop("incomplete") == 3
    assert total == {"read": 4, "matched": 3, "ambiguous": 0, "unmatched": 1, "unreadable": 0, "deviating": 1,
                     "payloads": {"invalid": 1, "valid": 2}, "catalog_snapshot": 2}  # fmt: skip


def test_a_stream_remembers_for_each_source_schema_and_scope():
    asked = [
        MatchOptions(("/landed",), into="a"), MatchOptions(("/landed",), into="b"), MatchOptions(("/other",), into="a"),
        MatchOptions(("/landed",), Scope(endpoint="/endpoints/e"), into="a"), MatchOptions(("/landed",), Scope("r"), into="a"),
    ]  # fmt: skip
    assert len({checkpoint(read_settings(warehouse="/w"), one) for one in asked}) == len(asked)


def test_scopes(warehouse, tmp_path):
    of_group = json.loads(run(warehouse, tmp_path, "--json", "--group", "/messagegroups/g").stdout)[0]
    assert of_group["best"] == [{"registryid": "r", "xid": "/messagegroups/g/messages/m"}]
    # the endpoint's topic and key count where its messages say nothing
    assert json.loads(run(warehouse, tmp_path, "--json", "--endpoint", "/endpoints/e").stdout)[0]["status"] == "matched"
    other = json.loads(run(warehouse, tmp_path, "--json", "--endpoint", "/endpoints/e", topic="other").stdout)[0]
    assert [reason["pointer"] for reason in other["reasons"]] == ["/protocoloptions/topic"]
    for missing in (["--group", "/messagegroups/x"], ["--endpoint", "/endpoints/x"], ["--registry", "x"]):
        assert code(run(warehouse, tmp_path, *missing)) == 2
    with model_of(warehouse) as model, model.at() as view:
        found = read_catalog(view, Scope("r", "/messagegroups/k")).messages
    assert [row["xid"] for row in found] == ["/messagegroups/k/messages/m"]


def test_no_values(warehouse, tmp_path):
    row = json.loads(run(warehouse, tmp_path, "--json", "--no-values", h="us", ce_source="/s/secret-shop").stdout)[0]
    assert "secret-shop" not in json.dumps({name: row[name] for name in ("variables", "reasons", "deviations", "payload_errors")})


def test_spark_is_not_imported_for_one_event(warehouse, tmp_path):
    run(warehouse, tmp_path)
    script = (
        "import sys\nfrom lakehouse.cli.main import cli\n"
        f"cli.main(['match', '--one', {str(tmp_path / 'event.json')!r}, '--warehouse', {warehouse!r}], standalone_mode=False)\n"
        "print('pyspark' in sys.modules)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.stdout.splitlines()[-1] == "False", ran.stderr
