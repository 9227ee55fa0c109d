"""Lines for clients say what the endpoint's address says: where to, and whether the connection is encrypted."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from lakehouse.render.rendering import Rendered
from lakehouse.render.renderruns import kcat, mosquitto_pub
from lakehouse.render.unrenderable import RenderRefused

RECORD: dict[str, Any] = {"topic": "t", "headers": []}
PUBLISHED: dict[str, Any] = {"topic_name": "t", "qos": 0, "retain": False}


def record(uri: str | None) -> list[str]:
    return shlex.split(kcat(Rendered("r", "x", "KAFKA", None, RECORD, body=b"b", uri=uri)).partition("|")[2])


def published(uri: str | None) -> list[str]:
    return shlex.split(mosquitto_pub(Rendered("r", "x", "MQTT/5.0", None, PUBLISHED, body=b"b", uri=uri)))


@pytest.mark.parametrize(
    ("uri", "reported"),
    [
        (None, ["-b", "localhost:9092"]), ("k.example:9093", ["-b", "k.example:9093"]),
        ("PLAINTEXT://k.example", ["-b", "k.example:9092"]),
        ("SSL://k.example:9093", ["-b", "k.example:9093", "-X", "security.protocol=ssl"]),
        ("SASL_SSL://k.example:9096", ["-b", "k.example:9096", "-X", "security.protocol=sasl_ssl"]),
    ],
)  # fmt: skip
def test_kcat(uri, reported):
    assert record(uri) == ["kcat", "-P", *reported, "-t", "t"]


def test_what_kcat_cannot_say_is_reported_with_its_pointer():
    headers = [{"name": "a/b=c", "value": "1"}]
    with pytest.raises(RenderRefused) as refused:
        kcat(Rendered("r", "x", "KAFKA", None, RECORD | {"headers": headers}, body=b"b"))
    assert [one.pointer for one in refused.value.refusals] == ["/protocoloptions/headers/a~1b=c"]


@pytest.mark.parametrize(
    ("uri", "reported"),
    [
        (None, ["-h", "localhost", "-p", "1883"]), ("mqtt://m.example", ["-h", "m.example", "-p", "1883"]),
        ("mqtts://m.example:8883/", ["-h", "m.example", "-p", "8883", "--tls-use-os-certs"]),
        ("mqtts://m.example", ["-h", "m.example", "-p", "8883", "--tls-use-os-certs"]),
    ],
)  # fmt: skip
def test_mosquitto_pub(uri, reported):
    assert published(uri) == ["mosquitto_pub", "-V", "5", *reported, "-t", "t", "-q", "0", "-m", "b"]


def test_mosquitto_pub_speaks_no_websockets():
    with pytest.raises(RenderRefused, match="WebSocket"):
        published("wss://m.example:443")
