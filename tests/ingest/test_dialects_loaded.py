"""Every dialect through the catalog and out again: one load of the same messages in all of them, exports, a load of these."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from conftest import Catalog
from said import KINDS, TYPE, document_in
from soak.sessions import forget

from lakehouse.cli.console import Context
from lakehouse.cli.main import cli
from lakehouse.dialects.tables import DIALECTS, NORMAL
from lakehouse.errors import LossyExport
from lakehouse.export.run import Exported, ExportRequest, export
from lakehouse.export.writers import WriteStyle
from lakehouse.log.snapshots import open_relations
from lakehouse.store.views import with_read

pytestmark = pytest.mark.slow  # tests/dialects and tests/export check each dialect without a load

# What every dialect that names things as xRegistry does can say, and (marked) what 0.5-wip or the draft cannot.
RICH: dict[str, Any] = {
    "specversion": "1.0-rc2",
    "messagegroups": {
        "events": {
            "envelope": "CloudEvents/1.0",
            "description": "what happens",
            "messages": {
                TYPE: KINDS["CloudEvents"][NORMAL] | {"versions": {
                    "1": KINDS["CloudEvents"][NORMAL] | {"description": "first", "createdat": "2024-01-01T00:00:00Z"},
                    "2": KINDS["CloudEvents"][NORMAL] | {"description": "second", "createdat": "2024-02-01T00:00:00Z"},
                }, "meta": {"defaultversionid": "2"}},
                "com.example.derived": {  # the draft has no bases
                    "envelope": "CloudEvents/1.0", "basemessage": f"/messagegroups/events/messages/{TYPE}",
                    "envelopemetadata": {"type": {"value": "com.example.derived"}},
                },
                "com.example.typed": {  # 0.5-wip has no `datacontenttype` of a message, the draft none either
                    "envelope": "CloudEvents/1.0", "datacontenttype": "application/json",
                    "envelopemetadata": {"type": {"value": "com.example.typed"}},
                },
            },
        },
        "queue": {"protocol": "AMQP/1.0", "messages": {"placed": KINDS["AMQP"][NORMAL]}},
        "topics": {"protocol": "MQTT/5.0", "messages": {"plain": KINDS["MQTT"][NORMAL],
                                                        "event": KINDS["CloudEvents-over-MQTT"][NORMAL]}},
        "stream": {"protocol": "KAFKA", "messages": {"keyed": KINDS["Kafka"][NORMAL],
            "binary": {"protocol": "KAFKA", "protocoloptions": {"key_base64": "AAE="}}}},
        "web": {"protocol": "HTTP", "messages": {"posted": KINDS["HTTP"][NORMAL]}},
        "subjects": {"protocol": "NATS", "messages": {"sent": KINDS["NATS"][NORMAL]}},
    },
    "endpoints": {"e": {
        "usage": ["producer"], "protocol": "AMQP/1.0", "messagegroups": ["/messagegroups/queue"],
        "protocoloptions": {"endpoints": [{"uri": "amqps://a.example:5671"}], "deployed": True, "node": "q",
                            "authorization": {"type": "SASL"}},
    }},
    "schemagroups": {"s": {"schemas": {"order": {"format": "JsonSchema/draft-07", "schema": {"type": "object"}}}}},
}  # fmt: skip
OLD_KEY = {"messagegroups": {"g": {"messages": {"m": {"protocol": "KAFKA", "protocoloptions": {"key": {"value": "bXkga2V5"}}}}}}}
LOADED = (NORMAL, "1.0-rc4", "0.5-wip", "cncf-catalog")
LOSSY = ("0.5-wip", "cncf-catalog")
NOT_COMPARED = {"registryid", "document_uris"}


class Reported:
    """What the catalog held, and what came out of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.exported: dict[str, Exported] = {}
        self.versions: dict[str, list[dict[str, Any]]] = {}
        self.flat: dict[str, list[dict[str, Any]]] = {}
        self.hashes: dict[str, dict[str, str]] = {}
        self.dialects: dict[str, str] = {}
        self.invoked: dict[str, Result] = {}
        self.old_options: list[Any] = []

    def document(self, dialect: str) -> Any:
        return json.loads((self.folder / "out" / f"{dialect}.json").read_text(encoding="utf-8"))


def by_registry(catalog: Catalog, table: str) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in catalog.spark.table(f"xregistry.{table}").orderBy("registryid", "xid").collect():
        facts = row.asDict(recursive=True)
        found.setdefault(facts["registryid"], []).append({key: facts[key] for key in facts.keys() - NOT_COMPARED})
    return found


@pytest.fixture(scope="module")
def reported(spark: Any, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reported]:
    catalog = Catalog(spark, tmp_path_factory.mktemp("dialects"))
    shutil.copytree(empty_warehouse, catalog.settings.warehouse)
    done = Reported(catalog.documents.parent)
    for kind, dialects in KINDS.items():
        for dialect, written in dialects.items():
            catalog.write(f"{kind}/{dialect}/said.json", document_in(dialect, copy.deepcopy(written), kind))
    catalog.write("rich.json", RICH)
    summary = catalog.ingest(registry_from="document")
    assert not summary.refused, catalog.rows("SELECT document_uri, rule_id, message FROM xregistry.violations")
    open_relations(spark, catalog.settings, with_read(["flat_messages", "documents"]), ["versions"])
    done.versions, done.flat = by_registry(catalog, "versions"), by_registry(catalog, "flat_messages")
    done.dialects = dict(catalog.rows("SELECT registryid, dialect FROM xregistry.documents"))

    for dialect in LOADED:
        out = str(done.folder / "out" / f"{dialect}.json")
        request = ExportRequest(out, "rich", style=WriteStyle(dialect=dialect), lossy=dialect in LOSSY)
        done.exported[dialect] = export(spark, catalog.settings, request)
    split = ExportRequest(str(done.folder / "split"), "rich", True, WriteStyle(by_group=True, dialect="cncf-catalog"), lossy=True)
    done.exported["split"] = export(spark, catalog.settings, split)

    old = catalog.write("old.json", OLD_KEY)
    arguments = ["--warehouse", catalog.settings.warehouse, "--registry", "old", "ingest", str(old), "--dialect", "0.5-wip"]
    done.invoked["ingest"] = CliRunner().invoke(cli, arguments, obj=Context())
    arguments = ["--warehouse", catalog.settings.warehouse, "--registry", "rich", "export", "--dialect", "0.5-wip"]
    done.invoked["refused"] = CliRunner().invoke(cli, arguments, obj=Context())
    done.invoked["lossy"] = CliRunner().invoke(cli, [*arguments, "--lossy", "--examples", "1"], obj=Context())
    catalog.ingest(done.folder / "out", registry_from="document")
    for registryid, xid, content_hash in catalog.rows("SELECT registryid, xid, content_hash FROM xregistry.versions"):
        done.hashes.setdefault(registryid, {})[xid] = content_hash
    done.dialects |= dict(catalog.rows("SELECT registryid, dialect FROM xregistry.documents"))
    options = "SELECT protocoloptions FROM xregistry.versions WHERE registryid = 'old'"
    done.old_options = catalog.rows(options)
    yield done
    forget(spark, Path(catalog.settings.warehouse))


# In


@pytest.mark.parametrize(("kind", "dialect"), [(kind, dialect) for kind in KINDS for dialect in KINDS[kind]])
def test_one_message_gives_equal_rows_whichever_dialect_it_came_in(reported, kind, dialect):
    normal = reported.versions[f"{kind}/{NORMAL}/said"]
    assert [row["xid"] for row in normal] == [f"/messagegroups/g/messages/{TYPE}/versions/1"]
    assert reported.versions[f"{kind}/{dialect}/said"] == normal
    assert reported.flat[f"{kind}/{dialect}/said"] == reported.flat[f"{kind}/{NORMAL}/said"]
    assert reported.flat[f"{kind}/{NORMAL}/said"][0]["messageid"] == TYPE
    assert reported.dialects[f"{kind}/{dialect}/said"] == dialect


def test_each_dialect_writes_a_cloudevent_over_mqtt_or_both_halves_of_it():
    others = {"cncf-catalog", "asyncapi-2", "asyncapi-3"}  # which name things otherwise
    assert KINDS["CloudEvents-over-MQTT"].keys() | others == set(DIALECTS)
    assert all("cncf-catalog" in KINDS[kind] for kind in ("CloudEvents", "MQTT", "AMQP", "NATS"))
    assert all(KINDS[kind].keys() >= set(DIALECTS) - others for kind in KINDS)


def test_a_dialect_that_is_given_is_taken_instead_of_the_one_that_is_seen(reported):
    """WIP-059: only 0.5-wip has a binary key."""
    assert reported.invoked["ingest"].exit_code == 0, reported.invoked["ingest"].output
    assert "Dialects: 0.5-wip (1)" in reported.invoked["ingest"].stdout
    assert reported.dialects["old"] == "0.5-wip"
    assert [json.loads(options) for options in reported.old_options] == [{"key": {"value": "my key"}}]


# Out


def test_what_a_dialect_cannot_say_refuses_the_export(reported):
    refused = reported.invoked["refused"]
    assert refused.stdout == ""
    assert isinstance(refused.exception, LossyExport)
    assert refused.exception.exit_code == 3
    assert refused.exception.count == reported.exported["0.5-wip"].losses.count == 1
    lost = "WIP-021  /messagegroups/events/messages/com.example.typed /versions/1/datacontenttype"
    assert lost in str(refused.exception)


@pytest.mark.parametrize("dialect", LOADED)
def test_an_export_gives_equal_versions_on_what_the_dialect_can_say(reported, dialect):
    before, after = reported.hashes["rich"], reported.hashes[dialect]
    lost = {
        example["xid"] + "/".join(example["pointer"].split("/")[:3]): example["pointer"].count("/") == 2 or not example["pointer"]
        for one in reported.exported[dialect].losses.as_json()
        for example in one["examples"]
    }
    unlike = {xid for xid in before.keys() | after.keys() if before.get(xid) != after.get(xid)}
    explained = {xid for xid in unlike if any((xid + "/").startswith(one + "/") for one in lost)}
    assert unlike - explained == set()
    assert reported.dialects[dialect] == dialect
    if dialect not in LOSSY:
        assert (lost, unlike) == ({}, set())


def test_an_export_in_05_loses_one_thing(reported):
    lost = "/messagegroups/events/messages/com.example.typed/versions/1"
    unlike = {xid for xid, found in reported.hashes["rich"].items() if reported.hashes["0.5-wip"][xid] != found}
    assert unlike == {lost}


def test_an_export_in_the_draft_holds_what_it_can_say(reported):
    """CAT-011, CAT-023."""
    same = {xid for xid, found in reported.hashes["rich"].items() if reported.hashes["cncf-catalog"].get(xid) == found}
    here = "/messagegroups/events/messages/" + TYPE
    assert same == {f"{here}/versions/1", f"{here}/versions/2", "/messagegroups/queue/messages/placed/versions/1",
                    "/messagegroups/topics/messages/plain/versions/1",
                    "/messagegroups/subjects/messages/sent/versions/1"}  # fmt: skip
    groups = reported.document("cncf-catalog")
    assert [(one["id"], one["format"]) for one in groups if one["messagedefinitions"]] == [
        ("events", "CloudEvents"), ("queue", "AMQP"), ("subjects", "NATS"), ("topics", "MQTT"),
    ]  # fmt: skip


def test_each_group_of_the_draft_may_have_a_file_of_its_own(reported):
    files = sorted((reported.folder / "split" / "messagegroups").glob("*.json"))
    groups = [json.loads(path.read_text(encoding="utf-8")) for path in files]
    assert groups == reported.document("cncf-catalog")


def test_the_words_are_those_of_the_dialect(reported):
    event = {dialect: reported.document(dialect)["messagegroups"]["topics"]["messages"]["event"] for dialect in LOADED[:-1]}
    assert event[NORMAL]["basemessage"] == "/messagegroups/g/messages/base"
    assert event["1.0-rc4"]["versions"]["1"]["ancestorid"] == "1"
    old = event["0.5-wip"]
    assert (old["basemessageurl"], old["protocoloptions"]["topic-name"]) == (
        "#/messagegroups/g/messages/base",
        {"value": "a/{b}"},
    )
    assert old.keys().isdisjoint({"xid", "versionid", "metaurl", "meta", "ancestor", "basemessage", "dataschema"})
    authorized = reported.document("1.0-rc4")["endpoints"]["e"]["protocoloptions"]["authorization"]
    assert authorized == [{"type": "SASL"}]


# The command


def test_the_command_writes_with_lossy_and_lists(reported):
    lossy = reported.invoked["lossy"]
    assert lossy.exit_code == 0, lossy.output
    assert json.loads(lossy.stdout) == reported.document("0.5-wip")
    assert "Left out, since 0.5-wip cannot express it: 1" in lossy.stderr
    assert "WIP-021  /messagegroups/events/messages/com.example.typed" in lossy.stderr


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--dialect", "0.5-wip", "--source"], "--dialect"),
        (["--dialect", "cncf-catalog", "--base-url", "https://a.example/r"], "no URLs"),
        (["--dialect", "cereg"], "cereg"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(arguments, reported):
    invoked = CliRunner().invoke(cli, ["export", *arguments], obj=Context())
    assert invoked.exit_code == 2
    assert reported in invoked.stderr


def test_ingest_takes_the_dialects_that_are_read():
    invoked = CliRunner().invoke(cli, ["ingest", "x", "--dialect", "1.0"], obj=Context())
    assert invoked.exit_code == 2
    assert all(dialect in invoked.stderr for dialect in DIALECTS)
