"""What `lakehouse serve` has in addition to the xRegistry API, and how it behaves: over real sockets, and by signals."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import anyio
import pytest
from click.testing import CliRunner
from deltas import unpack

from lakehouse.cli.main import cli
from lakehouse.errors import SettingsError
from lakehouse.query.sqlserver import write_user
from lakehouse.readmodel import open_model
from lakehouse.readmodel.detail import show_messages
from lakehouse.readmodel.queries import change_events
from lakehouse.serve.answer.extraroutes import EXTRA_ROUTES
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.auth import Guard
from lakehouse.serve.config import Options
from lakehouse.settings import read_settings
from serve.served import Shops, serving, shop


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def shown(golden, tmp_path_factory):
    with serving(golden, tmp_path_factory.mktemp("model")) as found:
        yield found


def contents(folder):
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.rglob("*")) if path.is_file()}


def test_effective_definitions_report_their_origins(shown, golden, tmp_path):
    xid = "/messagegroups/g/messages/m"
    with open_model(read_settings(warehouse=str(golden), readmodel_dir=str(tmp_path))) as model:
        for at, path in ((None, ""), (1, "/at/1")):
            reported = model.answer(lambda view: show_messages(view, xid)[0].as_json(), at)
            assert shown.get(f"{path}/effective{xid}") == json.loads(json.dumps(reported))
    origins = {row["pointer"]: row["origin"] for row in shown.get("/effective" + xid)["attributes"]}
    assert "inherited" in origins.values()
    missing = shown.ask("/effective/messagegroups/g/messages/none")
    assert missing.status == 404
    assert missing.json["detail"].endswith("/messages/none: the catalog holds no such message.")  # and no command to run
    assert shown.ask("/effective/messagegroups/g").status == 404


def test_events_are_those_of_the_command_changes(shown, golden, tmp_path):
    settings = read_settings(warehouse=str(golden), readmodel_dir=str(tmp_path))
    with open_model(settings) as model, model.at() as view:
        reported = [json.loads(text) for _, text in change_events(view, settings.events_source, 0)]
        later = [json.loads(text) for _, text in change_events(view, settings.events_source, 2)]
    answer = shown.ask("/events?since=0")
    assert answer.headers["content-type"] == "application/cloudevents-batch+json"
    assert answer.json == reported
    assert shown.get("/events?since=2") == later
    assert {event["type"].split(".")[1] for event in shown.get("/events?feed=messagecatalog")} == {"cloudevents"}
    assert shown.ask("/events?since=99").status == 404
    assert shown.ask("/events?feed=other").status == 400


def stream(served, path, last=None, most=10_000):
    """Read Server-Sent Events until there are so many, or none comes for a while: (id, event)."""
    request = urllib.request.Request(served.url + path, headers={"Accept": "text/event-stream"})
    if last:
        request.add_header("Last-Event-ID", last)
    found, number = [], None
    with urllib.request.urlopen(request, timeout=3) as answer:
        assert answer.headers["content-type"] == "text/event-stream"
        try:
            for line in answer:
                if line.startswith(b"id: "):
                    number = line[4:].strip().decode()
                elif line.startswith(b"data: "):
                    found.append((number, json.loads(line[6:])))
                    if len(found) == most:
                        break
        except TimeoutError:
            pass
    return found


def test_a_stream_of_events_goes_on_where_it_was(shown):
    reported = shown.get("/events")
    found = stream(shown, "/events", most=len(reported))
    assert [event for _, event in found] == reported
    middle = len(found) // 2
    rest = stream(shown, "/events?since=0", last=found[middle - 1][0], most=len(reported) - middle)
    assert [event for _, event in rest] == reported[middle:]


def test_the_catalog_draft_is_read(served):
    """CAT-156 to CAT-158, CAT-161, CAT-164, CAT-166 to CAT-168, CAT-170 to CAT-174."""
    assert served.get("/messagecatalog") == ["draft", "empty", "mqtt", "orders"]
    assert served.get("/messagecatalog/draft")["format"] == "CloudEvents"
    assert served.get("/messagecatalog/draft/messagedefinitions") == ["com.shop.made"]
    there = "/messagecatalog/draft/messagedefinitions/com.shop.made"
    assert served.get(there + "/versions") == [1, 2]
    latest = served.get(there)
    assert (latest["id"], latest["version"], latest["format"], latest["description"]) == (
        "com.shop.made",
        2,
        "CloudEvents",
        "No. 2",
    )
    assert served.get(there + "/versions/1")["version"] == 1
    for path in (
        there + "/versions/beta",
        there + "/versions/3",
        "/messagecatalog/none",
        "/messagecatalog/draft/messagedefinitions/x",
    ):
        assert served.ask(path).status == 404
    uri = "https://shop.example" + there + "/versions/1"
    for path in (there, there + "/versions/1", "/messagedefinition?uri=" + uri):
        head = served.ask(path, "HEAD")
        assert (head.status, head.body, head.headers["etag"]) == (200, b"", served.ask(path).headers["etag"])
        assert head.headers["content-type"].startswith("application/json")
    assert served.ask(there + "/versions/3", "HEAD").status == 404
    assert served.get("/messagedefinition?uri=" + uri) == served.get(there + "/versions/1")
    assert served.ask("/messagedefinition?uri=urn:none").status == 404
    assert served.ask("/messagedefinition").status == served.ask("/messagedefinition?uri=").status == 400
    assert served.ask("/messagecatalog/draft/versions").status == served.ask(there + "/versions/1/x").status == 404
    assert served.ask("/messagecatalog/draft", "DELETE").status == 405


def test_openapi_names_paths_that_are_there(served):
    reported = served.get("/openapi.json")
    ids = {"groupid": "orders", "resourceid": "many", "versionid": "10", "snapshot": "2"}
    ids |= {"subject": "none", "version": "1", "id": "1", "guid": "none"}
    for path in reported["paths"]:
        known = ids | ({"groupid": "s", "resourceid": "json", "versionid": "1"} if "schemagroups" in path else {})
        known |= {"groupid": "e", "resourceid": "own", "versionid": "1"} if path.startswith("/endpoints") else {}
        known |= {"groupid": "draft", "resourceid": "com.shop.made", "versionid": "1"} if "messagecatalog" in path else {}
        wanted = path.format(**known) + ("?uri=urn:x" if path == "/messagedefinition" else "")
        if path == "/messagedefinition" or path.startswith("/effective"):  # no definitions were projected here
            continue
        answer = served.ask(wanted)
        # For an unknown subject or id the API of schema registries has its own codes: 404 is a path that does not exist.
        assert answer.status == 200 or (path.startswith("/ccompat/") and answer.json["error_code"] != 404), wanted
    page = served.ask("/openapi").body.decode()
    assert "http://" not in page
    assert "GET /messagegroups/{groupid}" in page


def test_every_first_part_below_a_registry_is_in_openapi(served):
    assert set(EXTRA_ROUTES) - {path.split("/")[1] for path in served.get("/openapi.json")["paths"]} == set()


@pytest.mark.parametrize(
    ("options", "reported"),
    [
        ({"host": "0.0.0.0"}, "--users"),
        ({"host": "0.0.0.0", "allow_anonymous": True}, "--tls-cert"),
        ({"host": "::", "allow_anonymous": True}, "--behind-proxy"),
        ({"users": "/nowhere"}, "no file"),
        ({"tls_cert": __file__}, "--tls-key"),
        ({"users": __file__, "allow_anonymous": True}, "exclude"),
    ],
)
def test_an_address_that_others_reach_asks_who_may(options, reported):
    with pytest.raises(SettingsError, match=reported):
        Options(**options).check()
    Options(host="0.0.0.0", allow_anonymous=True, behind_proxy=True).check()


def test_a_right_password_is_not_checked_anew_until_the_file_changes(tmp_path, monkeypatch):
    """A check takes as long as the hash was made to take."""
    users = tmp_path / "users.txt"
    write_user(str(users), "anna", "one")
    checked = []
    monkeypatch.setattr(hashlib, "pbkdf2_hmac", lambda *given: checked.append(given) or (b"hash of " + given[1]))
    name, iterations, salt, _ = users.read_text().strip().split(":")
    users.write_text(":".join((name, iterations, salt, base64.b64encode(b"hash of one").decode())) + "\n")

    def ask(guard: Guard, pair: str) -> str | None:
        return anyio.run(guard.check, {b"authorization": b"Basic " + base64.b64encode(pair.encode())}, "127.0.0.1")

    guard = Guard(str(users))
    assert [ask(guard, "anna:one") for _ in range(20)] == ["anna"] * 20
    assert len(checked) == 1
    for _ in range(2):
        with pytest.raises(ProblemFound):
            ask(guard, "anna:two")
    assert len(checked) == 3
    users.write_text(users.read_text() + "\n")
    assert ask(guard, "anna:one") == "anna"
    assert len(checked) == 4


def test_the_command_refuses_an_open_door(tmp_path):
    refused = CliRunner().invoke(cli, ["serve", "--host", "0.0.0.0"])
    assert isinstance(refused.exception, SettingsError)


def test_users_are_asked_for(catalog, tmp_path):
    users = tmp_path / "users.txt"
    write_user(str(users), "anna", "secret: ü")
    right = "Basic " + base64.b64encode("anna:secret: ü".encode()).decode()
    with serving(catalog.folder, tmp_path / "model", "--users", str(users)) as served:
        for given in (
            {},
            {"Authorization": "Basic bm9ib2R5Onh4"},
            {"Authorization": right[:-4] + "eHh4"},
            {"Authorization": "Bearer x"},
        ):
            answer = served.ask("/", **given)
            assert (answer.status, answer.headers["www-authenticate"][:5]) == (401, "Basic")
            assert b"registryid" not in answer.body
        assert served.ask("/", Authorization=right).status == 200
        assert served.ask("/health").status == 200
        assert served.ask("/events", Accept="text/event-stream").status == 401
        write_user(str(users), "anna", "another")
        assert served.ask("/", Authorization=right).status == 401


def test_a_proxy_in_front_reports_what_it_was_asked(catalog, tmp_path):
    with serving(catalog.folder, tmp_path / "model", "--behind-proxy") as served:
        reported = {"X_Forwarded_Host": "catalog.example", "X_Forwarded_Proto": "https", "X_Forwarded_Prefix": "/registry"}
        assert served.ask("/", **reported).json["messagegroupsurl"] == "https://catalog.example/registry/messagegroups"
        assert served.ask("/", X_Forwarded_Prefix='/"').status == 400


def test_tls(catalog, tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    with serving(catalog.folder, tmp_path / "model", "--tls-cert", str(cert), "--tls-key", str(key)) as served:
        assert served.url.startswith("https://")
        trusting = ssl.create_default_context(cafile=str(cert))
        trusting.check_hostname = False
        with urllib.request.urlopen(served.url + "/", context=trusting) as answer:
            assert json.load(answer)["self"] == served.url + "/"


def test_a_newer_snapshot_is_served_soon_and_nothing_is_written(tmp_path):
    written = Shops(tmp_path / "w")
    with serving(written.folder, tmp_path / "model") as served:
        assert served.get("/ready") == {"status": "ready", "snapshot": 0}
        written.load({"default": shop("one")})
        deadline = time.monotonic() + 10
        while served.get("/")["messagegroupscount"] == 0 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert served.get("/")["name"] == "Shop one"
        before = contents(written.folder)
        for path in ("/export", "/messagegroups?inline", "/events", "/at/1/", "/metrics"):
            assert served.ask(path).status == 200
        assert contents(written.folder) == before
        written.load({"default": shop("two")})
        deadline = time.monotonic() + 10
        while served.get("/")["name"] != "Shop two" and time.monotonic() < deadline:
            time.sleep(0.05)
        assert served.get("/messagegroups/orders/messages/many")["name"] == "tenth two"


def test_an_empty_warehouse_is_an_empty_registry(tmp_path):
    with serving(tmp_path / "nowhere", tmp_path / "model") as served:
        assert served.ask("/ready").status == 200
        root = served.get("/")
        assert (root["registryid"], root["messagegroupscount"]) == ("default", 0)
        assert served.get("/messagegroups") == {}
        assert served.ask("/messagegroups/x").status == 404
        assert served.ask("/at/1/").status == 404
        for path in (
            "/export",
            "/capabilities",
            "/model",
            "/events",
            "/messagecatalog",
            "/ccompat/v7/subjects",
            "/ccompat/v7/schemas",
        ):
            assert served.ask(path).status == 200
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.slow
def test_several_registries_without_a_default_are_listed(tmp_path):
    written = Shops(tmp_path / "w")
    written.load({"one": shop("one"), "a/b": {"name": "slash"}})
    with serving(written.folder, tmp_path / "model") as served:
        answer = served.ask("/")
        assert answer.status == 404
        assert f"{served.url}/reg-a%2Fb/" in answer.json["detail"]
        assert served.get("/reg-a%2Fb/")["self"] == served.url + "/reg-a%2Fb/"
    with serving(written.folder, tmp_path / "model", "--registry", "one") as served:
        assert served.get("/")["registryid"] == "one"


def test_processes_share_the_work_and_one_that_dies_is_replaced(catalog, tmp_path):
    with serving(catalog.folder, tmp_path / "model", "--workers", "2") as served:
        assert served.get("/")["registryid"] == "default"
        children = subprocess.run(["pgrep", "-P", str(served.process.pid)], capture_output=True, text=True, check=True)
        pids = [int(pid) for pid in children.stdout.split()]
        workers = [pid for pid in pids if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]
        assert len(workers) == 2
        os.kill(workers[0], signal.SIGKILL)
        for _ in range(30):
            assert served.ask("/").status == 200
            time.sleep(0.05)
        assert "lakehouse_http_requests_total" in served.ask("/metrics").body.decode()
    assert served.process.returncode == 0


def test_a_request_that_has_begun_is_ended_when_the_server_stops(catalog, tmp_path):
    with serving(catalog.folder, tmp_path / "model") as served:
        request = urllib.request.Request(served.url + "/events", headers={"Accept": "text/event-stream"})
        with urllib.request.urlopen(request, timeout=60) as events:
            events.read(100)
            served.process.send_signal(signal.SIGTERM)
            begun = time.monotonic()
            assert served.process.wait(60) == 0
            assert time.monotonic() - begun < 8  # the stream was ended, and not waited for


@pytest.mark.slow
def test_a_server_that_was_killed_starts_again(catalog, tmp_path):
    for _ in range(2):
        with serving(catalog.folder, tmp_path / "model") as served:
            assert served.get("/ready")["snapshot"] == 3
            served.process.send_signal(signal.SIGKILL)
            served.process.wait(10)


def test_a_client_that_sends_no_whole_head_is_cut_off(catalog, tmp_path):
    script = (
        "import sys; from lakehouse.serve import Options, run_server; from lakehouse.settings import read_settings\n"
        "run_server(read_settings(warehouse=sys.argv[1]), Options(port=0, client_seconds=1.0),"
        " lambda url, _: print(url, flush=True))"
    )
    reported = os.environ | {"LAKEHOUSE_READMODEL_DIR": str(tmp_path), "PYTHONPATH": os.getcwd()}
    with subprocess.Popen(
        [sys.executable, "-c", script, str(catalog.folder)], stdout=subprocess.PIPE, text=True, env=reported
    ) as process:
        host, port = process.stdout.readline().strip().strip("/").split("//")[1].split(":")
        with socket.create_connection((host, int(port)), timeout=60) as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n")
            begun = time.monotonic()
            assert slow.recv(100) == b""
            assert time.monotonic() - begun > 0.5
        process.send_signal(signal.SIGTERM)
