"""A catalog of several registries, seen one at a time: by the option, the environment or the settings file, in every command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sitecatalogs import Catalog

from lakehouse.cli.main import cli

M, V = "/messagegroups/g/messages/m", "/schemagroups/s/schemas/t/versions"


def document(name: str, *attributes: str) -> dict[str, Any]:
    envelope = {"envelope": "CloudEvents/1.0", "envelopemetadata": {one: {"required": True} for one in attributes}}
    versions = {n: {"format": "Avro/1.11", "schema": {"type": kind}} for n, kind in (("1", "int"), ("2", name))}
    schemas = {"t": {"versions": versions}}
    return {"messagegroups": {"g": {"messages": {"m": {"name": name, **envelope}}}}, "schemagroups": {"s": {"schemas": schemas}}}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two registries with the same XIDs; the second snapshot breaks producers in `one`, the third in `two`."""
    folder = tmp_path_factory.mktemp("registries")
    catalog = Catalog(folder / "warehouse")
    for one, two in (((), ()), (("region",), ()), (("region",), ("tenant",))):
        catalog.ingest({"file:/1.json": ("one", document("int", *one)), "file:/2.json": ("two", document("string", *two))})
    return folder


GIVEN = ("option", "environment", "file")


@pytest.fixture
def only(call, place, monkeypatch, tmp_path):
    """Call a command for one registry, which is given in one of three ways."""

    def called(given: str, registry: str, *arguments: str) -> Any:
        if given == "environment":
            monkeypatch.setenv("LAKEHOUSE_REGISTRY", registry)
        elif given == "file":
            (tmp_path / "conf.toml").write_text(f'registry = "{registry}"\n')
            arguments = (*arguments, "--conf", str(tmp_path / "conf.toml"))
        else:
            arguments = (*arguments, "--registry", registry)
        return call(place, *arguments)

    return called


@pytest.mark.parametrize("given", GIVEN)
def test_the_history_of_an_entity_is_that_of_the_registry(only, given):
    for command in ("log", "blame"):
        lines = json.loads(only(given, "two", command, M, "--json").out)
        assert {line["registryid"] for line in lines} == {"two"}, command
        refused = only(given, "none", command, M)
        assert (refused.code, refused.out, "in registry 'none'" in refused.err) == (2, "", True), command


@pytest.mark.parametrize("given", GIVEN)
def test_schemas_of_the_registry_are_compared(only, given):
    assert only(given, "one", "compat", f"{V}/1", "2").code == 0
    assert only(given, "two", "compat", f"{V}/1", "2").code == 4
    assert only(given, "none", "compat", f"{V}/1", "2").code == 2


@pytest.mark.parametrize("given", GIVEN)
def test_differences_and_events_are_those_of_the_registry(only, given):
    ran = only(given, "two", "diff", "1", "2", "--breaking")
    assert (ran.code, ran.out.count("\n")) == (0, 1), ran.out
    ran = only(given, "two", "diff", "2", "3", "--breaking", "--json")
    assert ran.code == 4
    assert {difference["registryid"] for difference in json.loads(ran.out)} == {"two"}
    events = [json.loads(line) for line in only(given, "two", "changes").out.splitlines()]
    assert {event["source"] for event in events} == {"https://registry.invalid/two"}


@pytest.mark.parametrize("arguments", [("diff", "1", "2"), ("changes",), ("site", "--out", "pages")], ids=lambda words: words[0])
def test_a_registry_that_is_not_in_the_catalog_is_refused(only, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused = only("option", "none", *arguments)
    assert (refused.code, refused.out) == (2, "")
    assert "there is nothing in a registry 'none'. The catalog holds one, two." in refused.err
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("given", GIVEN)
def test_the_site_shows_the_registry_alone(only, given, tmp_path):
    out = tmp_path / "pages"
    assert only(given, "two", "site", "--out", str(out)).code == 0
    assert (out / "reg-two.html").exists()
    assert list(out.glob("reg-one*")) == []
    for page in out.rglob("*"):
        assert not page.is_file() or b"reg-one" not in page.read_bytes(), page
    assert "0 created, 0 changed, 0 deleted" in (out / "snapshots.html").read_text()  # by the second one, in this registry


def test_without_a_registry_all_are_shown(call, place, tmp_path):
    lines = json.loads(call(place, "log", M, "--json").out)
    assert {line["registryid"] for line in lines} == {"one", "two"}
    assert len(json.loads(call(place, "diff", "1", "3", "--breaking", "--json").out)) == 2
    assert call(place, "site", "--out", str(tmp_path / "pages")).code == 0
    assert {path.name for path in (tmp_path / "pages").glob("reg-*.html")} == {"reg-one.html", "reg-two.html"}


def test_snapshots_are_of_all_registries_and_the_option_is_refused(only):
    refused = only("option", "two", "snapshots")
    assert (refused.code, refused.out) == (2, "")
    assert "--registry: this command does not work on one registry only." in refused.err
    for given in ("environment", "file"):
        ran = only(given, "none", "snapshots", "--json")
        assert (ran.code, len(json.loads(ran.out))) == (0, 3)


@pytest.mark.parametrize("name", ["snapshots", "label", "sql", "validate", "doctor", "migrate", "maintain", "backup", "rules"])
def test_help_does_not_offer_an_option_that_is_refused(name):
    assert "--registry" not in CliRunner().invoke(cli, [name, "--help"]).output
    assert "--registry" in CliRunner().invoke(cli, ["log", "--help"]).output
