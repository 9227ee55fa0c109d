"""Subscriptions over real sockets: a server of this product, and sinks of the test (CAT-177, CAT-178, CAT-191 to CAT-211)."""

from __future__ import annotations

import copy
import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from serve.served import serving
from serve.test_roundtrip import SHOP

from lakehouse.readmodel import open_model
from lakehouse.serve.subscriptions import deliver
from lakehouse.serve.subscriptions.deliver import NotReachable, address_of, is_of_internet
from lakehouse.serve.subscriptions.store import ACTIVE, PARKED, NotValid, Store, read_subscription
from lakehouse.settings import read_settings
from replicate.sources import Asked, Catalog, answering

BASE = "https://source.example.com"


class Sink:
    """What a sink does, and what it was sent."""

    def __init__(self) -> None:
        self.status: Any = 204
        self.allowed = "*"
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.asked_for: list[dict[str, str]] = []

    def __call__(self, asked: Asked) -> None:
        headers = {name.lower(): value for name, value in asked.headers.items()}
        if asked.command == "OPTIONS":
            self.asked_for.append(headers)
            asked.give(b"", 200, **({"WebHook-Allowed-Origin": self.allowed} if self.allowed else {}))
            return
        status = self.status(headers) if callable(self.status) else self.status
        if status < 300:
            self.got.append((asked.path, headers, b""))
        asked.give(b"", status, **({"Location": "/elsewhere"} if status == 302 else {}))

    def subjects(self) -> list[str]:
        return [headers["ce-subject"] for _, headers, _ in self.got]


@contextmanager
def subscribed(tmp_path, sink: str, *options: str, **more: Any):
    """A server with one subscription; gives the catalog, the server, and the subscription's path."""
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(SHOP)
    with serving(
        catalog.folder, tmp_path / "model", "--subscriptions", str(tmp_path / "kept"), "--allow-private-sinks", *options
    ) as served:
        answer = send(served, "POST", "/subscriptions", {"source": served.url, "protocol": "HTTP", "sink": sink} | more)
        assert answer[0] == 201, answer
        assert answer[1]["location"].endswith(f"/subscriptions/{answer[2]['id']}")
        yield catalog, served, f"/subscriptions/{answer[2]['id']}"


def send(served: Any, method: str, path: str, value: Any, kind: str = "application/cloudevents-subscription+json", **more: str):
    import http.client

    connection = http.client.HTTPConnection(served.address, timeout=30)
    try:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        connection.request(method, path, body, {"Content-Type": kind} | more)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, {name.lower(): one for name, one in answer.getheaders()}, json.loads(text) if text else None
    finally:
        connection.close()


def until(found: Any, seconds: float = 30.0) -> Any:
    """Wait until something is there."""
    end = time.monotonic() + seconds
    while not (value := found()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)
    return value


def renamed(document: Any, number: int) -> Any:
    after = copy.deepcopy(document)
    after["messagegroups"]["orders"]["messages"]["placed"]["description"] = f"No. {number}"
    return after


def in_state(served: Any, path: str, state: str) -> Any:
    return lambda: (found := served.get(path)["status"])["state"] == state and found


def test_a_sink_is_reported_of_each_change_once_it_has_said_that_it_wants_to_be(tmp_path):
    sink = Sink()
    with answering(sink) as hook, subscribed(tmp_path, hook.url + "in") as (catalog, served, path):
        until(in_state(served, path, "active"))
        assert sink.asked_for[0]["webhook-request-origin"] == served.address
        after = renamed(SHOP, 1)
        del after["messagegroups"]["empty"]
        catalog.load(after)
        until(lambda: len(sink.got) == len(served.get("/events?since=1")) > 0)
        sent = [{name[3:]: value for name, value in headers.items() if name.startswith("ce-")} for _, headers, _ in sink.got]
        reported = served.get("/events?since=1")
    by_id = {event["id"] + event["subject"] + event["type"]: event for event in reported}
    assert len(by_id) == len(reported)  # CAT-201, CAT-208
    drafts = [event for event in reported if "messagecatalog" in event["type"]]
    assert {event["type"] for event in drafts} == {f"io.cloudevents.messagecatalog.{one}.v1" for one in ("updated", "deleted")}
    assert not any("data" in event for event in drafts)  # CAT-202, CAT-209
    assert {event["source"] for event in drafts} == {"https://registry.invalid/shop"}  # CAT-198, CAT-205: setting events_source
    times = {(event["type"].split(".")[-2], event["subject"]): event["time"] for event in drafts}
    own = read_settings(warehouse=str(catalog.folder), readmodel_dir=str(tmp_path / "own"))
    with open_model(own) as model, model.at() as view:
        committed = view.committed_at
        made = view.entity("shop", "/messagegroups/orders/messages/placed/versions/1").createdat
    assert datetime.fromisoformat(times["deleted", "/messagecatalog/empty"]) == committed  # CAT-203 to CAT-207
    path = "/messagecatalog/orders/messagedefinitions/placed/versions/1"
    assert datetime.fromisoformat(times["updated", path]).timestamp() * 1_000_000 == made  # CAT-200: of a version createdtimeutc
    for event in sent:  # CAT-196 to CAT-202: as the feed has them, in the order of the feed
        known = by_id[event["id"] + event["subject"] + event["type"]]
        assert {name: known[name] for name in ("source", "time", "specversion")} == {
            name: event[name] for name in ("source", "time", "specversion")
        }
    assert [event["subject"] for event in sent] == [event["subject"] for event in reported]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["filter", "filters"])
def test_a_filter_limits_what_is_reported(tmp_path, form):
    """CAT-194, CAT-210: a prefix of the subject; events of catalogs carry no data."""
    sink = Sink()
    wanted = {"prefix": {"subject": "/messagecatalog/orders/messagedefinitions/placed"}}
    more = {form: wanted if form == "filter" else [wanted], "config": {"contentmode": "structured"}}
    with answering(sink) as hook, subscribed(tmp_path, hook.url, **more) as (catalog, served, path):
        until(in_state(served, path, "active"))
        after = renamed(SHOP, 1)
        del after["messagegroups"]["empty"]
        catalog.load(after)
        until(lambda: served.get(path)["status"]["snapshot"] == 2)
        events = [json.loads(body) for method, _, headers, body in hook.seen if method == "POST"]
    assert [event["subject"] for event in events] == ["/messagecatalog/orders/messagedefinitions/placed/versions/1"]
    assert "data" not in events[0]


def test_what_was_not_sent_is_sent_after_a_restart_and_in_order(tmp_path):
    sink = Sink()
    sink.status = 503
    more = {"filters": [{"prefix": {"subject": "/messagecatalog/orders"}}]}
    with answering(sink) as hook:
        with subscribed(tmp_path, hook.url, **more) as (catalog, served, path):
            until(in_state(served, path, "active"))
            for number in range(1, 4):
                catalog.load(renamed(SHOP, number))
            reported = until(lambda: served.get(path)["status"]["reason"])
            served.process.kill()
        assert "503" in reported
        sink.status = 204
        with serving(
            catalog.folder, tmp_path / "model", "--subscriptions", str(tmp_path / "kept"), "--allow-private-sinks"
        ) as again:
            until(lambda: len(sink.got) >= 3, 60)
            expected = [(event["subject"], event["id"]) for event in again.get("/events?since=1&feed=messagecatalog")]
            until(lambda: len(sink.got) == len(expected))
    assert [(headers["ce-subject"], headers["ce-id"]) for _, headers, _ in sink.got] == expected


def test_an_event_that_is_refused_is_parked_and_shown_and_the_others_go_on(tmp_path):
    sink = Sink()
    sink.status = lambda headers: 422 if headers["ce-type"].startswith("io.xregistry") else 204
    with answering(sink) as hook, subscribed(tmp_path, hook.url) as (catalog, served, path):
        until(in_state(served, path, "active"))
        catalog.load(renamed(SHOP, 1))
        every = until(lambda: served.get("/events?since=1"))
        until(lambda: sum(served.get(path)["status"][name] for name in ("parked", "delivered")) == len(every))
        status = served.get(path)["status"]
        figures = served.ask("/metrics").body.decode()
    assert status["parked"] == len([event for event in every if event["type"].startswith("io.xregistry")]) > 0
    assert status["delivered"] == len(sink.got) > 0
    assert all("422" in one["reason"] for one in status["parkedevents"])
    assert f"lakehouse_subscription_events_parked {status['parked']}.0" in figures
    assert 'lakehouse_subscriptions{status="active"} 1.0' in figures


@pytest.mark.attack
@pytest.mark.parametrize("how", ["no permission", "another origin", "redirected"])
def test_nothing_is_sent_to_a_sink_that_did_not_say_yes(tmp_path, how):
    sink = Sink()
    if how == "redirected":
        sink.status = 302
    else:
        sink.allowed = "" if how == "no permission" else "other.example"
    with answering(sink) as hook, subscribed(tmp_path, hook.url) as (catalog, served, path):
        catalog.load(renamed(SHOP, 1))
        reason = until(lambda: served.get(path)["status"]["reason"])
        assert ("302" if how == "redirected" else "WebHook-Allowed-Origin") in reason
        assert sink.got == []
        assert "/elsewhere" not in hook.paths()


def test_a_sink_that_is_gone_is_parked_until_it_is_written_again(tmp_path):
    sink = Sink()
    sink.status = 410
    with answering(sink) as hook, subscribed(tmp_path, hook.url) as (catalog, served, path):
        until(in_state(served, path, "active"))
        catalog.load(renamed(SHOP, 1))
        assert "410" in until(in_state(served, path, "parked"))["reason"]
        sink.status = 204
        assert send(served, "PUT", path, {"sink": hook.url})[0] == 200
        until(lambda: len(sink.got) == len(served.get("/events?since=1")))  # nothing was lost
        assert send(served, "DELETE", path, b"")[0] == 204
        assert served.ask(path).status == 404


@pytest.mark.attack
def test_what_lets_us_in_is_sent_and_not_shown(tmp_path):
    sink = Sink()
    more = {"sinkcredential": {"credentialtype": "ACCESSTOKEN", "accesstoken": "secret-word", "accesstokentype": "bearer"}}
    with answering(sink) as hook, subscribed(tmp_path, hook.url, **more) as (_, served, path):
        until(in_state(served, path, "active"))
        assert sink.asked_for[0]["authorization"] == "Bearer secret-word"
        for shown in (path, "/subscriptions", "/metrics"):
            assert b"secret-word" not in served.ask(shown).body
    assert oct((tmp_path / "kept" / "subscriptions.sqlite").stat().st_mode & 0o777) == "0o600"


def trickle(asked: Asked, first: bytes, piece: bytes = b"x") -> None:
    """Send the beginning of an answer, and then a little now and then, for as long as the other end takes it."""
    try:
        asked.wfile.write(first)
        while True:
            asked.wfile.write(piece)
            asked.wfile.flush()
            time.sleep(0.05)
    except OSError:
        asked.close_connection = True


ENDLESS = {
    "headers": (b"HTTP/1.1 204 No Content\r\nX-Long: ", b"x"),
    "many headers": (b"HTTP/1.1 204 No Content\r\n", b"X-Long: " + b"x" * 60_000 + b"\r\n"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n", b"x"),
    "length of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"0"),
}


@pytest.mark.attack
@pytest.mark.parametrize("what", ENDLESS)
def test_an_answer_that_does_not_end_is_given_up(what):
    with answering(lambda asked: trickle(asked, *ENDLESS[what])) as hook, pytest.raises(NotReachable, match="no answer"):
        deliver.send("POST", hook.url, {}, b"{}", allow_private=True, seconds=0.5)


@pytest.mark.attack
def test_a_request_that_is_not_taken_in_is_given_up():
    """The other end reads a little now and then, so that each piece is sent within its own timeout."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)

        given_up = threading.Event()

        def read_slowly() -> None:
            with listening.accept()[0] as connected, suppress(OSError):
                while not given_up.wait(0.05) and connected.recv(2048):
                    pass

        reader = threading.Thread(target=read_slowly)
        reader.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        with pytest.raises(NotReachable, match="no answer"):
            deliver.send("POST", url, {}, b"x" * (32 << 20), allow_private=True, seconds=0.5)
        given_up.set()
        reader.join(30)


@pytest.mark.slow
@pytest.mark.attack
@pytest.mark.parametrize("how", ["trickle", "never say whether they want to be asked", "ask for one event a minute"])
def test_no_number_of_slow_sinks_delays_another_one(tmp_path, how):
    """Twelve are more than the sinks that get something at a time."""
    quick = Sink()

    def answer(asked: Asked) -> None:
        if asked.path == "/quick":
            quick(asked)
        elif asked.command == "OPTIONS" and "never" not in how:
            asked.give(b"", **{"WebHook-Allowed-Origin": "*"} | ({"WebHook-Allowed-Rate": "1"} if "minute" in how else {}))
        elif "minute" in how:
            asked.give(b"", 204)
        else:
            trickle(asked, *ENDLESS["headers"])

    with answering(answer) as hook, subscribed(tmp_path, f"{hook.url}slow/0") as (catalog, served, first):
        paths = [first]
        for name in [*(f"slow/{number}" for number in range(1, 12)), "quick"]:
            answered = send(served, "POST", "/subscriptions", {"source": served.url, "protocol": "HTTP", "sink": hook.url + name})
            paths.append(f"/subscriptions/{answered[2]['id']}")
        active = "validating" if "never" in how else "active"
        until(lambda: all(served.get(path)["status"]["state"] == active for path in paths[:-1]))
        until(in_state(served, paths[-1], "active"))
        catalog.load(renamed(SHOP, 1))
        if "never" not in how:
            until(lambda: len({path for method, path, *_ in hook.seen if method == "POST" and path != "/quick"}) >= 8)
        reported = until(lambda: served.get("/events?since=1"))
        catalog.load(renamed(SHOP, 2))
        until(lambda: len(quick.got) >= 2 * len(reported))
        slow = [served.get(path)["status"] for path in paths[:-1]]
    assert [headers["ce-subject"] for _, headers, _ in quick.got] == [event["subject"] for event in reported] * 2
    assert all(one["state"] == active and one["delivered"] <= 3 for one in slow)


@pytest.mark.attack
def test_addresses_of_this_machine_are_no_sinks(tmp_path):
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(SHOP)
    with serving(catalog.folder, tmp_path / "model", "--subscriptions", str(tmp_path / "kept")) as served:
        for sink in (
            "http://127.0.0.1:1/",
            "http://localhost/",
            "http://[::1]/",
            "http://169.254.169.254/latest",
            "http://10.0.0.1/",
        ):
            status, _, reported = send(served, "POST", "/subscriptions", {"sink": sink})
            assert (status, "private network" in reported["title"]) == (400, True), sink
        wrong = [
            ({"sink": "https://x.example/"}, "text/plain", 415),
            (b"{", "application/json", 400),
            (b" " * (1 << 17), "application/json", 413),
            ({"sink": "ftp://x"}, "application/json", 400),
            ({"sink": "https://x.example/", "source": "https://source.example.com/messagecatalog/5"}, "application/json", 400),
        ]
        for value, kind, expected in wrong:
            assert send(served, "POST", "/subscriptions", value, kind)[0] == expected, value
        assert send(served, "POST", "/subscriptions", {"sink": "https://x.example/"}, Host="evil.example")[0] == 421
        assert send(served, "PATCH", "/subscriptions", {})[0] == 405
        assert served.get("/subscriptions") == []
        assert served.ask("/subscriptions/nobody").status == 404
        assert served.ask("/subscriptions", "OPTIONS").headers["allow"] == "GET, POST, OPTIONS"


def test_without_the_option_there_are_no_subscriptions(tmp_path):
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(SHOP)
    with serving(catalog.folder, tmp_path / "model") as served:
        assert served.ask("/subscriptions").status == 404


@pytest.mark.slow
def test_two_processes_send_each_event_once(tmp_path):
    sink = Sink()
    with answering(sink) as hook, subscribed(tmp_path, hook.url, "--workers", "2") as (catalog, served, path):
        until(in_state(served, path, "active"))
        catalog.load(renamed(SHOP, 1))
        until(lambda: served.get(path)["status"]["snapshot"] == 2)
        time.sleep(1)
        assert len(sink.got) == len(served.get("/events?since=1"))


@pytest.mark.attack
@pytest.mark.parametrize(
    ("address", "is_open"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("169.254.169.254", False),
        ("0.0.0.0", False),
        ("100.64.0.1", False),
        ("224.0.0.1", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("2002:7f00:1::", False),
        ("fec0::1", False),
        ("::127.0.0.1", False),
        ("::8.8.8.8", False),
        ("::ffff:0:127.0.0.1", False),
        ("64:ff9b:1::7f00:1", False),
        ("fd00:ec2::254", False),
        ("100.100.100.200", False),
        ("192.0.0.192", False),
        ("192.0.0.9", False),
        ("192.88.99.1", False),
        ("::ffff:192.0.0.8", False),
        ("2002:c000:8::", False),
        ("5f00::1", False),
        ("3fff::1", False),
        ("ff0e::1", False),
    ],
)
def test_addresses_that_anybody_reaches(address, is_open):
    assert is_of_internet(address) is is_open


@pytest.mark.attack
def test_a_name_is_resolved_once_and_every_address_counts(monkeypatch):
    def resolved(*addresses):
        return lambda *_, **__: [(0, 0, 0, "", (address, 80)) for address in addresses]

    monkeypatch.setattr(deliver.socket, "getaddrinfo", resolved("93.184.216.34", "127.0.0.1"))
    with pytest.raises(NotReachable, match="private"):
        address_of("x.example", 80, allow_private=False)
    monkeypatch.setattr(deliver.socket, "getaddrinfo", resolved("93.184.216.34"))
    assert address_of("x.example", 80, allow_private=False) == "93.184.216.34"


SAMPLE = {
    "source": BASE,
    "protocol": "HTTPS",
    "sink": "https://target.example.com/notifications",
    "filter": {"prefix": {"subject": "/messagecatalog/5"}},
}


def test_the_request_of_the_draft_is_understood():
    """CAT-193, CAT-195."""
    read = read_subscription(SAMPLE, BASE, "shop")
    assert read.registryid == "shop"
    assert read.wants({"type": "t", "subject": "/messagecatalog/5/messagedefinitions/1"})
    assert not read.wants({"type": "t", "subject": "/messagecatalog/6"})
    assert read_subscription(SAMPLE | {"source": BASE + "/reg-a%2Fb/"}, BASE, None).registryid == "a/b"


@pytest.mark.parametrize(
    ("change", "reported"),
    [
        ({"source": BASE + "/messagecatalog/5"}, "CAT-193"),
        ({"protocol": "KAFKA"}, "HTTP or HTTPS"),
        ({"sink": "http://x.example/"}, "https"),
        ({"sink": "https://me:word@x.example/"}, "sinkcredential"),
        ({"sink": "https://x.example:99999/"}, "absolute URL"),
        ({"sink": 5}, "URL"),
        ({"filter": []}, "object"),
        ({"filters": {}}, "array"),
        ({"filters": [{"sql": "TRUE"}]}, "not served"),
        ({"filters": [{"prefix": {}}]}, "attribute"),
        ({"types": "x"}, "array"),
        ({"config": {"x": 1}}, "contentmode"),
        ({"sinkcredential": {"credentialtype": "PLAIN"}}, "ACCESSTOKEN"),
        ({"hello": 1}, "Unknown"),
    ],
)
def test_a_subscription_that_cannot_be_is_reported(change, reported):
    with pytest.raises(NotValid, match=reported):
        read_subscription(SAMPLE | change, BASE, "shop")


def test_filters_of_cloudevents():
    filters = [
        {"any": [{"exact": {"type": "a"}}, {"suffix": {"subject": "/x"}}]},
        {"not": {"exact": {"subject": "/y/x"}}},
        {"all": [{"prefix": {"type": "a"}}]},
    ]
    read = read_subscription(
        SAMPLE | {"filter": {"prefix": {"subject": "/"}}, "filters": filters, "types": ["a", "ab"]}, BASE, "s"
    )
    wanted = [{"type": "a", "subject": "/z"}, {"type": "ab", "subject": "/z/x"}]
    unwanted = [{"type": "a", "subject": "/y/x"}, {"type": "ab", "subject": "/z"}, {"type": "c", "subject": "/x"}, {"type": "a"}]
    assert [read.wants(event) for event in wanted + unwanted] == [True, True, False, False, False, False]


def test_openapi_describes_what_is_routed_taken_and_shown(tmp_path):
    """Methods are those that are answered; bodies and answers are as their schemas say, and bodies that are not are refused."""
    sink = Sink()
    sink.status = 422
    asked = {
        "types": ["io.xregistry.version.updated"],
        "filter": {"prefix": {"subject": "/messagegroups"}},
        "filters": [{"not": {"any": [{"exact": {"source": "x"}}, {"all": [{"suffix": {"subject": "/none"}}]}]}}],
        "config": {"contentmode": "structured"},
        "protocolsettings": {"method": "POST"},
        "sinkcredential": {"credentialtype": "ACCESSTOKEN", "accesstokentype": "bearer", "accesstoken": "word"},
    }
    with answering(sink) as hook, subscribed(tmp_path, hook.url, **asked) as (catalog, served, path):
        reported = served.get("/openapi.json")
        every = {one: item for one, item in reported["paths"].items() if one.startswith("/subscriptions")}
        assert list(every) == ["/subscriptions", "/subscriptions/{subscriptionid}"]
        assert served.ask("/at/1/subscriptions").status == served.ask("/reg-shop/subscriptions").status == 404
        here = {"/subscriptions": "/subscriptions", "/subscriptions/{subscriptionid}": path}
        for described, item in every.items():
            methods = {name.upper() for name in item} - {"PARAMETERS"}
            allowed = served.ask(here[described], "OPTIONS").headers["allow"].split(", ")
            assert methods == {*allowed} - {"OPTIONS"}
            for method in {"PUT", "PATCH", "POST", "DELETE"} - methods:
                answer = served.ask(here[described], method)
                assert (answer.status, answer.headers["allow"]) == (405, ", ".join(allowed))
        until(in_state(served, path, "active"))
        catalog.load(renamed(SHOP, 1))
        until(lambda: served.get(path)["status"]["parked"])

        def check(method: str, described: str, status: int, value: Any) -> None:
            (content,) = every[described][method.lower()]["responses"][str(status)]["content"].values()
            Draft202012Validator(content["schema"] | {"components": reported["components"]}).validate(value)

        check("GET", "/subscriptions", 200, served.get("/subscriptions"))
        check("GET", "/subscriptions/{subscriptionid}", 200, served.get(path))
        body = every["/subscriptions"]["post"]["requestBody"]["content"]
        assert body == every["/subscriptions/{subscriptionid}"]["put"]["requestBody"]["content"]
        good = {"source": served.url, "protocol": "HTTP", "sink": hook.url} | asked
        changes = [{}, {"types": None, "id": 7, "status": {}}, {"sink": None}, {"config": {"contentmode": "x"}}, {"filter": []}]
        changes += [{"filters": [{}]}, {"filter": {"prefix": {}}}, {"other": 1}, {"sinkcredential": {}}, {"protocol": "MQTT"}]
        changes += [{"types": [""]}, {"protocolsettings": {"method": "GET"}}, {"filter": {"all": []}}, {"filter": {"like": {}}}]
        for change in changes:
            for kind, content in body.items():
                is_valid = Draft202012Validator(content["schema"] | {"components": reported["components"]}).is_valid(
                    good | change
                )
                status, _, value = send(served, "POST", "/subscriptions", good | change, kind)
                assert status == (201 if is_valid else 400), (change, value)
                check("POST", "/subscriptions", status, value)
                status, _, value = send(served, "PUT", path, good | change, kind)
                assert status == (200 if is_valid else 400), (change, value)
                check("PUT", "/subscriptions/{subscriptionid}", status, value)
        for missing in ("/subscriptions/none", "/subscriptions/", "/subscriptions/a%2Fb"):
            answer = served.ask(missing)
            assert answer.status == 404
            check("GET", "/subscriptions/{subscriptionid}", 404, answer.json)
        status, _, value = send(served, "POST", "/subscriptions", good, "text/plain")
        check("POST", "/subscriptions", status, value)
        assert "POST /subscriptions" in served.ask("/openapi").body.decode()


def test_openapi_is_silent_about_subscriptions_that_are_not_served(tmp_path):
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(SHOP)
    with serving(catalog.folder, tmp_path / "model") as served:
        assert not any(path.startswith("/subscriptions") for path in served.get("/openapi.json")["paths"])


def test_what_was_served_since_it_was_listed_is_read_again(tmp_path, monkeypatch):
    store = Store(tmp_path / "subscriptions")
    subscription = read_subscription({"sink": "https://sink.test/"}, "https://here.test", "default")
    deliverer = deliver.Deliverer(store, None, "", allow_private=False)
    served: list[tuple[int, int]] = []
    monkeypatch.setattr(deliverer, "_deliver", lambda stored, seconds: served.append((stored.snapshot, stored.position)))
    added = store.add(subscription, "here", 1, "")
    store.update(added, status=ACTIVE)
    listed = store.get(added.id)
    store.update(listed, snapshot=5, position=2)
    deliverer._serve(listed, False)
    assert served == [(5, 2)]  # and not what it was when it was listed
    for later in ({"next_at": time.time() + 60}, {"next_at": 0.0, "status": PARKED}):
        store.update(listed, **later)
        deliverer._serve(listed, False)
    store.delete(added.id)
    deliverer._serve(listed, False)
    assert len(served) == 1
    store.close()
