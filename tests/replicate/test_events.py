"""A source that reports of its changes: the listener, the subscription at the source, and what is made of subjects."""

from __future__ import annotations

import http.client
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from serve.served import serving
from serve.test_roundtrip import SHOP

from lakehouse.errors import ReplicationError
from lakehouse.replicate.client import Client, read_address
from lakehouse.replicate.state import PeerState
from lakehouse.replicate.subscriber import Listener, Subscriber, concerns, xid_of
from replicate.sources import QUICK, Catalog, answering
from replicate.test_subscriptions import renamed, until


@pytest.mark.parametrize(
    ("subject", "xid"),
    [
        ("/messagecatalog/5", "/messagegroups/5"),
        ("/messagecatalog/5/messagedefinitions/1", "/messagegroups/5/messages/1"),
        ("/messagecatalog/5/messagedefinitions/1/version/3", "/messagegroups/5/messages/1"),
        ("/messagecatalog/5/messagedefinitions/1/versions/3", "/messagegroups/5/messages/1"),
        ("/schemagroups/s/schemas/t", "/schemagroups/s/schemas/t"),
        ("/", "/"),
    ],
)
def test_subjects_of_both_feeds_are_understood(subject, xid):
    """CAT-199, CAT-206, CAT-211: `/version/` is accepted as well as `/versions/`."""
    assert xid_of(subject) == xid


def test_what_an_event_concerns():
    scope = ("/messagegroups/5/messages/1",)
    assert concerns("/", scope)
    assert concerns("/messagecatalog/5", scope)
    assert concerns("/messagecatalog/5/messagedefinitions/1/versions/3", scope)
    assert not concerns("/messagecatalog/5/messagedefinitions/12", scope)
    assert not concerns("/messagecatalog/55", scope)
    assert concerns("/anything", ())


@pytest.fixture
def listener():
    found = Listener("127.0.0.1", 0, ("/messagegroups/5",))
    yield found
    found.close()


def report(listener: Listener, body: bytes = b"", method: str = "POST", token: str | None = None, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", listener.port, timeout=10)
    try:
        reported = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, "/events", body, reported | {"Authorization": f"Bearer {token or listener.token}"})
        return connection.getresponse().status
    finally:
        connection.close()


def test_events_wake_and_many_of_them_once(listener):
    """CAT-191: whoever subscribed is reported at once; a storm of events is one round."""
    event = {"specversion": "1.0", "subject": "/messagecatalog/5"}
    assert report(listener, b"", ce_subject="/messagecatalog/5") == 204
    assert report(listener, json.dumps(event).encode(), Content_Type="application/cloudevents+json") == 204
    assert report(listener, json.dumps([event]).encode(), Content_Type="application/cloudevents-batch+json") == 204
    assert report(listener, b"", ce_subject="/messagecatalog/6") == 204
    stopped = threading.Event()
    assert listener.count == 3
    assert listener.wait(5, stopped) is True
    assert listener.wait(0.2, stopped) is False


def test_nobody_else_wakes(listener):
    assert report(listener, b"", token="guessed", ce_subject="/messagecatalog/5") == 401
    assert report(listener, b"", "OPTIONS", token="guessed") == 401
    assert report(listener, b" " * (2 << 20)) == 413
    assert listener.count == 0


def subscriber(client: Client, folder: Path, listener: Listener) -> Subscriber:
    folder.mkdir(exist_ok=True)
    return Subscriber(client, PeerState(folder), listener.url, listener.token, ())


def test_a_source_is_subscribed_to_and_reports(tmp_path):
    catalog = Catalog(tmp_path / "warehouse")
    catalog.load(SHOP)
    listener = Listener("127.0.0.1", 0, ())
    options = ("--subscriptions", str(tmp_path / "kept"), "--allow-private-sinks")
    with serving(catalog.folder, tmp_path / "model", *options) as served:
        client = Client(read_address(served.url, "SOURCE", {}), QUICK)
        first = subscriber(client, tmp_path / "state", listener)
        assert first.keep() is True
        assert first.keep() is False
        until(lambda: served.get("/subscriptions")[0]["status"]["state"] == "active")
        catalog.load(renamed(SHOP, 1))
        assert listener.wait(20, threading.Event())
        again = subscriber(client, tmp_path / "state", listener)  # as after a kill -9: the same subscription, written again
        assert again.keep() is True
        assert len(served.get("/subscriptions")) == 1
        assert client.send("DELETE", f"{served.url}/subscriptions/{served.get('/subscriptions')[0]['id']}", None).status == 204
        assert again.keep() is True  # it was lost: a round has to come
        again.end()
        assert served.get("/subscriptions") == []
        client.close()
    listener.close()


def test_subscriptions_of_a_registry_are_its_servers():
    addresses = [read_address(f"http://127.0.0.1:8080{path}", "SOURCE", {}) for path in ("/", "/reg-shop/", "/xr/reg-shop/")]
    assert [address.url_of_subscriptions("s1") for address in addresses] == [
        "http://127.0.0.1:8080/subscriptions/s1", "http://127.0.0.1:8080/subscriptions/s1",
        "http://127.0.0.1:8080/xr/subscriptions/s1",
    ]  # fmt: skip
    assert addresses[1].url_of_subscriptions() == "http://127.0.0.1:8080/subscriptions"


def test_a_source_without_subscriptions_is_reported(tmp_path, listener):
    def answer(asked: Any) -> None:
        asked.give({"title": "no"}, 404)

    with answering(answer) as source, pytest.raises(ReplicationError, match="Leave --on-events out"):
        subscriber(Client(read_address(source.url, "SOURCE", {}), QUICK), tmp_path / "state", listener).keep()
