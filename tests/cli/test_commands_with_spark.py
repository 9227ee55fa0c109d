"""The commands that need Spark, on one catalog: each does what it says, and prints it for a person or as JSON."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from soak.sessions import forget, forget_attached

from lakehouse.cli.console import Context
from lakehouse.cli.main import cli

Run = Callable[..., str]
EVENT = {"ce_specversion": "1.0", "ce_id": "1", "ce_source": "/shop", "ce_type": "sold", "ce_tenant": "eu"}


@pytest.fixture(scope="module")
def place(spark: Any, loaded_history: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the warehouse of three releases, and their document."""
    folder = tmp_path_factory.mktemp("commands")
    for name in ("warehouse", "documents"):
        shutil.copytree(loaded_history[0] / name, folder / name)
    forget_attached(spark)
    yield folder
    forget(spark, folder / "warehouse")


@pytest.fixture
def run(place: Path) -> Run:
    """Run a command, and return what it prints."""

    def run(*arguments: object) -> str:
        named = [str(argument) for argument in arguments]
        options = ["--warehouse", str(place / "warehouse"), "--quiet"]
        result = CliRunner().invoke(cli, [named[0], *options, *named[1:]], obj=Context(), standalone_mode=False)
        assert result.exception is None, f"{result.output}{result.exception!r}"
        assert not result.return_value, result.output
        return result.stdout

    return run


def messages_of(document: dict[str, Any]) -> list[str]:
    return [name for group in document["messagegroups"].values() for name in group["messages"]]


def test_export_writes_all_a_part_or_an_earlier_state(run, place):
    whole = json.loads(run("export"))
    assert messages_of(whole) == ["event", "m", "o"]
    assert sorted(whole["endpoints"]) == ["e"]
    assert messages_of(json.loads(run("export", "--at", "first"))) == ["event", "m", "n", "o"]
    part = json.loads(run("export", "--select", "/messagegroups/g/messages/m"))
    assert messages_of(part) == ["event", "m"]  # with its base
    flat = json.loads(run("export", "--flat"))["messagegroups"]["g"]["messages"]["m"]
    assert "basemessage" not in flat
    assert "tenant" in flat["envelopemetadata"]
    source = json.loads(run("export", "--source"))
    assert source["endpoints"]["e"]["protocoloptions"]["options"] == {"topic": "three"}
    run("export", "--split", "group", "--out", place / "split")
    assert sorted(str(path.relative_to(place / "split")) for path in (place / "split").rglob("*.json")) == [
        "endpoints/e.json", "messagegroups/base.json", "messagegroups/g.json", "schemagroups/s.json"
    ]  # fmt: skip


def test_export_writes_what_other_tools_read(run, place):
    assert json.loads(run("export", "--dialect", "asyncapi-3", "--lossy"))["asyncapi"].startswith("3.")
    written = json.loads(run("export", "--dialect", "1.0-rc1", "--out", place / "older.json", "--json"))
    assert written["entities"]["messages"] == 3
    assert json.loads((place / "older.json").read_text())["specversion"] == "1.0-rc1"
    run("export", "--dialect", "odcs", "--out", f"{place / 'contracts'}/")
    assert len(list((place / "contracts").rglob("*.yaml"))) == 3
    run("export", "--dbt", place / "sources.yaml")
    assert "effective_messages" in (place / "sources.yaml").read_text()


def test_a_sound_warehouse_is_maintained_rebuilt_and_backed_up(run, place):
    checked = json.loads(run("doctor", "--deep", "--json"))
    assert {row["state"] for row in checked} == {"ok"}
    assert "messages" in run("maintain", "--dry-run")
    run("maintain")
    assert run("rebuild")
    run("backup", place / "backup")
    assert list((place / "backup").iterdir())
    assert json.loads(run("migrate", "--json")) == {"schema_version": 2}
    assert "CREATE SCHEMA" in run("ddl")


def test_a_snapshot_gets_a_label(run):
    run("label", "2", "second")
    assert "second" in json.loads(run("snapshots", "--json"))[1]["labels"]


def test_what_is_published_is_checked(run):
    validation = json.loads(run("validate", "--exit-zero", "--json"))
    assert validation["suites"]
    assert {outcome["severity"] for outcome in validation["failed"]} <= {"warning", "info"}


def test_events_are_matched_and_definitions_proposed(run, place):
    rows = [
        {"topic": "sales", "headers": [{"name": name, "value": value} for name, value in event.items()]}
        for event in (EVENT, EVENT | {"ce_id": "2", "ce_tenant": ""}, {"h": "no event"})
    ]
    events = place / "events.jsonl"
    events.write_text("".join(json.dumps({"protocol": "KAFKA", "captured": row}) + "\n" for row in rows))
    assert "Events: 3 read" in run("match", events, "--into", "seen", "--samples", "1")
    landed = place / "landed"
    landed.mkdir()
    shutil.copy(events, landed)
    assert "Events: 3 read" in run("match", landed, "--into", "seen", "--available-now")
    run("propose", events, "--out", place / "proposed", "--accept")
    assert list((place / "proposed").rglob("*.json"))


def test_a_table_of_values_becomes_messages(run, place, spark):
    spark.createDataFrame([("eu", "sold"), ("us", "sold")], "tenant STRING, type STRING").createOrReplaceTempView("given_values")
    options = ["--example", "--as", "kafka", "--format", "captured", "--out", place / "rendered.jsonl"]
    counted = json.loads(run("render", "/messagegroups/g/messages/m", "--values", "given_values", *options, "--json"))
    spark.catalog.dropTempView("given_values")
    assert counted == {"written": 2, "failed": 0}
    rendered = [json.loads(line) for line in (place / "rendered.jsonl").read_text().splitlines()]
    assert [row["protocol"] for row in rendered] == ["KAFKA", "KAFKA"]


def test_an_ingest_reports_what_would_change_and_what_did(run, place):
    document = place / "documents" / "a.json"
    edited = json.loads(document.read_text())
    messages = edited["messagegroups"]["g"]["messages"]
    del messages["bad"]
    messages["m"]["name"] = "four"
    document.write_text(json.dumps(edited))
    assert "update  default     /messagegroups/g/messages/m/versions/1" in run("ingest", document, "--force", "--dry-run")
    assert "committed" in run("ingest", document, "--force")
    assert json.loads(run("ingest", document, "--json"))["snapshot_id"] is None
