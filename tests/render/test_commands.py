"""The command `render`: what it takes, what it writes, what it reports, and its exit codes; without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from match.catalogs import load
from match.stored import model_of, write_catalog

from lakehouse.cli.console import Context
from lakehouse.cli.main import cli
from lakehouse.match.definition.compiled import definition_of
from lakehouse.match.evaluation import Tolerance, evaluate
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import landed_of_http
from lakehouse.render.renderruns import commands_of, examples_of, renderer_of, samples_of
from lakehouse.render.selected import read_selected

ORDER = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "Order"}, "source": {"value": "/{region}"}, "subject": {"value": "{id}"}},
    "dataschemaformat": "JSONSchema/draft-07",
    "dataschema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "string", "pattern": "^[0-9]+$"}}},
}
BROKEN = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "B"}, "source": {"value": "{a}{b}"}}}
ON_MQTT = {"protocol": "MQTT/5.0", "protocoloptions": {"topic_name": {"value": "t/{id}"}, "qos": {"value": 1}}}
DOCUMENT = {
    "specversion": "1.0-rc2",
    "messagegroups": {"g": {"messages": {"Order": ORDER}}, "h": {"messages": {"Alarm": ON_MQTT, "Broken": BROKEN}}},
}
ENDPOINTS = {
    "e": {"usage": ["producer"], "protocol": "KAFKA", "protocoloptions": {"topic": "orders", "key": "{id}", "acks": -1},
          "messagegroups": ["/messagegroups/g"]},
    "f": {"usage": ["producer"], "protocol": "NATS", "envelope": "CloudEvents/1.0", "envelopeoptions": {"mode": "structured"},
          "protocoloptions": {"subject": "o.{id}"}, "messagegroups": ["/messagegroups/g"]},
}  # fmt: skip
FIXED = ("--seed", "1", "--now", "2026-01-01T00:00:00Z")
GIVEN = ("--set", "region=eu", "--set", "id=7")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: Any) -> str:
    """Write the catalog that is read."""
    return write_catalog(tmp_path_factory.mktemp("warehouse"), {"default": DOCUMENT | {"endpoints": ENDPOINTS}})


def reported_of(warehouse: str, *xids: str) -> list[dict[str, Any]]:
    """Make up examples."""
    with model_of(warehouse) as model:
        selected = model.answer(lambda view: read_selected(view, xids))
        return examples_of(samples_of(selected, renderer_of(selected)))


def run(warehouse: str, *arguments: str, fed: str | None = None) -> tuple[int, str, str]:
    result = CliRunner().invoke(
        cli, ["--warehouse", warehouse, "render", *arguments], obj=Context(), input=fed, standalone_mode=False
    )
    code = getattr(result.exception, "exit_code", result.return_value) if result.exception else result.return_value
    return code or 0, result.stdout, result.stderr or str(result.exception or "")


def test_a_message_by_its_id_goes_where_its_endpoints_carry_it(warehouse):
    code, out, _ = run(warehouse, "Order", *GIVEN, *FIXED)
    assert code == 0
    reported = [json.loads(line) for line in out.splitlines()]
    assert [(one["protocol"], one["mode"], one["endpoint"]) for one in reported] == [
        ("KAFKA", "binary", "/endpoints/e"), ("NATS", "structured", "/endpoints/f"),
    ]  # fmt: skip
    assert (reported[0]["captured"]["topic"], reported[0]["captured"]["key"], reported[1]["captured"]["subject"]) == (
        "orders",
        "7",
        "o.7",
    )
    [only] = run(warehouse, "--endpoint", "/endpoints/f", *GIVEN, *FIXED)[1].splitlines()
    assert json.loads(only)["protocol"] == "NATS"


def test_an_example_has_a_command_for_each_endpoint_that_it_is_sent_to(tmp_path):
    endpoints = ENDPOINTS | {
        "e2": ENDPOINTS["e"] | {"protocoloptions": {"topic": "others"}},
        "read": ENDPOINTS["e"] | {"usage": ["consumer"]},
    }
    document = {"default": DOCUMENT | {"endpoints": endpoints}}

    def commands(xid: str) -> list[tuple[str, str | None, str]]:
        with model_of(write_catalog(tmp_path / xid.rpartition("/")[2], document)) as model:
            selected = model.answer(lambda view: read_selected(view, [xid]))
        renderer = renderer_of(selected, "2026-01-01T00:00:00Z")
        return [(one.client, one.endpoint, one.text) for one in commands_of(samples_of(selected, renderer), selected, renderer)]

    sent = commands("/messagegroups/g/messages/Order")
    assert [one[:2] for one in sent] == [("kcat", "/endpoints/e"), ("python", "/endpoints/f"), ("kcat", "/endpoints/e2")]
    assert ["-t orders" in sent[0][2], "nats.connect" in sent[1][2], "-t others" in sent[2][2]] == [True, True, True]
    [(client, endpoint, line)] = commands("/messagegroups/h/messages/Alarm")
    assert (client, endpoint) == ("mosquitto_pub", None)
    assert line.startswith("mosquitto_pub -V 5 -h localhost -p 1883 -t t/")
    assert commands("/messagegroups/h/messages/Broken") == []


def test_a_script_is_for_the_protocol_of_the_message(warehouse):
    code, out, _ = run(warehouse, "Alarm", "--set", "id=7", *FIXED, "--format", "python")
    assert code == 0
    compile(out, "script", "exec")
    assert "paho.mqtt" in out
    assert "confluent_kafka" in run(warehouse, "Order", *GIVEN, *FIXED, "--format", "python", "--as", "kafka")[1]
    code, _, reported = run(warehouse, "Order", *GIVEN, *FIXED, "--format", "python", "--as", "http")
    assert code == 2
    assert "--format python writes messages of AMQP, KAFKA, MQTT, NATS" in reported


def test_the_captured_line_is_what_match_reads(warehouse):
    line = json.loads(run(warehouse, "Order", *GIVEN, *FIXED, "--as", "kafka", "--format", "captured")[1])
    assert sorted(line) == ["captured", "payload_base64", "protocol", "registryid", "sent_as"]


def test_what_is_missing_is_reported_for_all_protocols_at_once(warehouse):
    code, out, reported = run(warehouse, "Order", "--as", "all")
    assert (code, out) == (2, "")
    for name in ("region:", "id:", "topic_name:"):
        assert name in reported


def test_a_payload_that_breaks_its_schema_is_refused(warehouse, tmp_path):
    (tmp_path / "order.json").write_text('{"id": "x"}')
    code, _, reported = run(warehouse, "Order", *GIVEN, "--as", "cloudevents", "--data", str(tmp_path / "order.json"))
    assert code == 3
    assert "payload/id" in reported
    assert run(warehouse, "Order", *GIVEN, "--as", "cloudevents", "--data", "-", fed='{"id": "1"}')[0] == 0


def test_of_several_what_fails_is_listed_and_the_rest_is_written(warehouse, tmp_path):
    target = tmp_path / "all.jsonl"
    code, _, reported = run(warehouse, "--all", "--example", "--out", str(target), *FIXED)
    assert code == 3
    assert "Broken" in reported
    assert "are adjacent" in reported
    assert len(target.read_text().splitlines()) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["all.jsonl"]
    whole = json.loads(run(warehouse, "--json", "--all", "--example", *FIXED)[1])
    assert len(whole["messages"]) == 3
    assert [one["xid"].rpartition("/")[2] for one in whole["failed"]] == ["Broken"]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_file_of_values_is_a_message_a_line(warehouse, tmp_path, form):
    rows = [
        {"region": "eu", "id": "7", "data": '{"id":"7"}'},
        {"region": "eu"},
        {"region": "us", "id": "8", "data": '{"id":"x"}'},
    ]
    path = tmp_path / f"values.{form}"
    if form == "csv":
        path.write_text('region,id,data\neu,7,"{""id"":""7""}"\neu,,\nus,8,"{""id"":""x""}"\n')
    elif form == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    else:
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist(rows), path)
    code, out, reported = run(warehouse, "Order", "--values", str(path), "--as", "cloudevents", *FIXED)
    assert code == 3
    assert [json.loads(line)["subject"] for line in out.splitlines()] == ["7"]
    assert "row 1" in reported
    assert "row 2" in reported


def test_rows_of_one_seed_have_different_ids(warehouse, tmp_path):
    (tmp_path / "v.csv").write_text("region,id\neu,7\neu,7\n")
    events = run(warehouse, "Order", "--values", str(tmp_path / "v.csv"), "--as", "cloudevents", *FIXED)[1].splitlines()
    assert len({json.loads(line)["id"] for line in events}) == 2


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ((), "Name XIDs"),
        (("Order", "--all"), "Name XIDs"),
        (("nope",), "no such message"),
        (("Order", "--set", "regoin=1"), "regoin"),
        (("Order", "--set", "region"), "NAME=VALUE"),
        (("Order", "--as", "smtp"), "smtp"),
        (("Order", "--format", "curl", "--as", "kafka"), "curl"),
        (("Order", "--batch", "--as", "kafka"), "--batch"),
        (("Order", "--batch", "--mode", "binary"), "--batch"),
        (("Order", "--now", "noon"), "RFC 3339"),
        (("Order", "--data", "/nowhere.json"), "cannot be read"),
        (("Order", "--values", "/nowhere.jsonl"), "cannot be read"),
        (("Order", "--values", "some.table"), "--format captured"),
        (("Order", "--group", "/messagegroups/none"), "Name XIDs"),
        (("--group", "/messagegroups/none"), "no message of such a group"),
    ],
)
def test_wrong_usage_exits_with_2(warehouse, arguments, reported):
    code, out, error = run(warehouse, *arguments)
    assert (code, out) == (2, "")
    assert reported in error


def test_a_batch_is_one_message(warehouse):
    [line] = run(warehouse, "Order", *GIVEN, "--batch", *FIXED)[1].splitlines()
    assert [event["subject"] for event in json.loads(line)] == ["7"]
    [line] = run(warehouse, "Order", *GIVEN, "--batch", "--as", "http", "--format", "captured", *FIXED)[1].splitlines()
    assert {"name": "content-type", "value": "application/cloudevents-batch+json"} in json.loads(line)["captured"]["headers"]


def test_lines_of_kcat_and_mosquitto_pub(warehouse):
    kcat = run(warehouse, "Order", "--set", "region=it's", "--set", "id=7", "--example", "--format", "kcat", *FIXED)[1]
    assert kcat.startswith('printf %s \'{"id":"7"}\' | kcat -P -b localhost:9092 -t orders -k 7 -X acks=-1 -H ')
    assert "'ce_source=/it'\"'\"'s'" in kcat
    assert run(warehouse, "Alarm", "--set", "id=7", "--format", "mosquitto_pub")[1] == (
        "mosquitto_pub -V 5 -h localhost -p 1883 -t t/7 -q 1 -n\n"
    )


def test_the_line_of_curl_sends_what_was_rendered(warehouse):
    """The line is run against a listener of this test: what arrives is matched by the definition."""
    received: list[Any] = []

    class Listener(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append(landed_of_http(self.command, self.path, list(self.headers.items()), None, body))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Listener)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        for mode in ("binary", "structured"):
            given = ("--set", "region=it's", "--set", 'id=ö "%1', "--example", "--mode", mode)
            line = run(warehouse, "Order", *given, "--format", "curl", *FIXED)[1]
            line = line.replace("http://localhost:8080", f"http://127.0.0.1:{server.server_port}")
            subprocess.run(["sh", "-c", line], check=True, capture_output=True, timeout=60)
    finally:
        server.shutdown()
        server.server_close()
    rows, _ = load({"default": DOCUMENT})
    definition = definition_of(next(row for row in rows if row["xid"].endswith("/Order")))
    assert len(received) == 2
    for landed in received:
        outcome = evaluate(definition, next(events_of(landed)), Tolerance())
        assert (outcome.reasons, outcome.variables) == ([], {"region": "it's", "id": 'ö "%1'})


def test_the_command_needs_no_spark():
    root = Path(__file__).parents[2]
    modules = "lakehouse.cli.render, lakehouse.render.renderruns, lakehouse.render.selected"
    script = f"import sys, {modules}; sys.exit('pyspark' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False, cwd=root).returncode == 0


def test_a_message_is_shown_with_an_example_over_each_protocol(warehouse):
    reported = reported_of(warehouse, "/messagegroups/g/messages/Order")
    assert [one["as"] for one in reported] == ["cloudevents", "http", "kafka", "amqp", "mqtt", "nats"]
    kafka = next(one["example"] for one in reported if one["as"] == "kafka")
    assert (kafka["captured"]["topic"], kafka["payload_status"]) == ("orders", "valid")
    again = reported_of(warehouse, "/messagegroups/g/messages/Order")
    assert [one["example"]["payload"] for one in again if one["as"] == "http"] == [
        one["example"]["payload"] for one in reported if one["as"] == "http"
    ]
    [broken, *_] = reported_of(warehouse, "/messagegroups/h/messages/Broken")
    assert "cannot be rendered" in broken["error"]
