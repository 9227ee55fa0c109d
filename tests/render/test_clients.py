"""Clients are led where the endpoint's address says, encrypted or not; scripts of Python send what the message is."""

from __future__ import annotations

import shlex
import sys
from typing import Any
from unittest.mock import AsyncMock, MagicMock, call
from uuid import UUID

import pytest

from lakehouse.render.clients import kcat, mosquitto_pub, python
from lakehouse.render.rendering import Rendered
from lakehouse.render.unrenderable import RenderRefused
from render.definitions import rendered

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


HOSTILE = "'\"\\\n{}\ud800 #"


def executed(monkeypatch: pytest.MonkeyPatch, message: Rendered, *modules: str) -> MagicMock:
    """Run a script with stand-ins for the libraries that it imports; return the last of them."""
    library = MagicMock()
    for module in modules:
        monkeypatch.setitem(sys.modules, module, library)
    exec(compile(python(message), "script", "exec"), {})
    return library


def test_a_script_for_amqp(monkeypatch):
    captured = {
        "header": {"durable": True, "ttl": "3600000", "priority": 9},
        "properties": {"to": HOSTILE, "message-id": "7", "absolute-expiry-time": "1970-01-01T00:01:00Z", "user-id": "ann"},
        "application-properties": {"cloudEvents_type": "a.b", "copies": 3},
        "message-annotations": {"x-opt-key": HOSTILE},
    }
    message = Rendered("r", "x", "AMQP/1.0", None, captured, body=b"\0\xff", uri="amqps://mq.example", node="stock")
    library = executed(monkeypatch, message, "proton", "proton.utils")
    assert library.Message.call_args.kwargs == {
        "body": b"\0\xff", "inferred": True, "durable": True, "ttl": 3600.0, "priority": 9, "address": HOSTILE, "id": "7",
        "expiry_time": 60.0, "user_id": b"ann", "properties": {"cloudEvents_type": "a.b", "copies": 3},
        "annotations": {"x-opt-key": HOSTILE},
    }  # fmt: skip
    assert library.BlockingConnection.call_args == call("amqps://mq.example:5671")
    assert library.BlockingConnection().create_sender.call_args == call("stock")
    assert library.BlockingConnection().create_sender().send.call_args == call(library.Message())
    with pytest.raises(RenderRefused, match="not one of AMQP over TCP"):
        python(Rendered("r", "x", "AMQP/1.0", None, captured, uri="wss://mq.example"))
    with pytest.raises(RenderRefused, match="footer"):
        python(Rendered("r", "x", "AMQP/1.0", None, captured | {"footer": {"a": 1}}))


TIME_UUID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"


@pytest.mark.parametrize(
    ("properties", "sent"),
    [
        ({"user-id": {"value": "AAEC", "type": "binary"}}, {"user_id": b"\0\1\2"}),
        ({"user-id": {"value": "ann", "type": "string"}}, {"user_id": b"ann"}),
        ({"message-id": {"value": "42", "type": "ulong"}}, {"id": 42}),
        ({"message-id": {"value": TIME_UUID, "type": "uuid"}}, {"id": UUID(TIME_UUID)}),
        ({"message-id": {"value": "AAEC", "type": "binary"}}, {"id": b"\0\1\2"}),
        ({"message-id": {"value": "42", "type": "string"}}, {"id": "42"}),
    ],
)
def test_a_script_for_amqp_sends_identifiers_in_their_declared_types(monkeypatch, properties, sent):
    message = rendered({"protocol": "AMQP/1.0", "protocoloptions": {"properties": properties}})
    library = executed(monkeypatch, message, "proton", "proton.utils")
    assert library.Message.call_args.kwargs == {"body": b"", "inferred": True} | sent


def test_a_script_for_amqp_sends_bytes_of_what_is_declared_binary(monkeypatch):
    declared = {"a/b": {"value": "AAEC", "type": "binary"}, "c": {"value": "AAEC", "type": "string"}}
    options = {"application-properties": declared, "message-annotations": declared}
    library = executed(monkeypatch, rendered({"protocol": "AMQP/1.0", "protocoloptions": options}), "proton", "proton.utils")
    sent = library.Message.call_args.kwargs
    assert sent["properties"] == sent["annotations"] == {"a/b": b"\0\1\2", "c": "AAEC"}


@pytest.mark.parametrize(("declared", "sent"), [
    ({"value": "AAEC", "type": "binary"}, b"\0\1\2"), ({"value": "{c}", "type": "binary"}, b"\0\1\2"),
    ({"type": "binary"}, b"\0\1\2"), ({"value": "AAEC", "type": "string"}, b"AAEC"),
])  # fmt: skip
def test_a_script_for_mqtt_sends_correlation_data_as_declared(monkeypatch, declared, sent):
    options = {"topic_name": {"value": "t"}, "correlation_data": declared}
    message = rendered({"protocol": "MQTT/5.0", "protocoloptions": options}, {"c": "AAEC", "correlation_data": "AAEC"})
    modules = ("paho.mqtt.client", "paho.mqtt.packettypes", "paho.mqtt.properties", "paho.mqtt", "paho")
    assert executed(monkeypatch, message, *modules).Properties().CorrelationData == sent


def test_mosquitto_pub_sends_correlation_data_that_is_text():
    def words(correlation):
        options = {"topic_name": {"value": "t"}, "correlation_data": {"value": correlation, "type": "binary"}}
        return shlex.split(mosquitto_pub(rendered({"protocol": "MQTT/5.0", "protocoloptions": options})))

    assert "abc" in words("YWJj")
    with pytest.raises(RenderRefused) as refused:
        words("AAEC")
    assert [one.pointer for one in refused.value.refusals] == ["/protocoloptions/correlation_data"]


def test_a_script_for_nats(monkeypatch):
    captured = {"subject": "a.b", "reply-to": "c", "headers": [{"name": "ce-type", "value": HOSTILE}]}
    library = MagicMock(connect=AsyncMock(return_value=AsyncMock()))
    monkeypatch.setitem(sys.modules, "nats", library)
    exec(compile(python(Rendered("r", "x", "NATS", None, captured, body=b"{}", uri="tls://n.example")), "s", "exec"), {})
    assert library.connect.call_args == call("tls://n.example:4222")
    client = library.connect.return_value
    assert client.publish.call_args == call(subject="a.b", payload=b"{}", reply="c", headers={"ce-type": HOSTILE})
    assert client.drain.await_count == 1
    with pytest.raises(RenderRefused, match="a header once"):
        python(Rendered("r", "x", "NATS", None, captured | {"headers": captured["headers"] * 2}))


def test_a_script_for_kafka(monkeypatch):
    captured = {"topic": "t", "key_base64": "AP8=", "partition": "2", "headers": [{"name": "a=b", "value": HOSTILE}]}
    message = Rendered("r", "x", "KAFKA", None, captured, uri="SASL_SSL://k.example", acks=-1)
    library = executed(monkeypatch, message, "confluent_kafka")
    assert library.Producer.call_args == call(
        {"bootstrap.servers": "k.example:9092", "security.protocol": "sasl_ssl", "acks": "-1"}
    )
    assert library.Producer().produce.call_args == call(
        topic="t", value=None, key=b"\0\xff", partition=2, headers=[("a=b", HOSTILE)]
    )
    assert library.Producer().flush.called


@pytest.mark.parametrize(
    ("uri", "options", "port", "path", "is_secure"),
    [
        ("wss://m.example/mqtt", {"protocol": 5, "transport": "websockets"}, 443, "/mqtt", True),
        ("ws://m.example:80", {"protocol": 5, "transport": "websockets"}, 80, "/", False),
        (None, {"protocol": 5, "transport": "tcp"}, 1883, None, False),
    ],
)
def test_a_script_for_mqtt(monkeypatch, uri, options, port, path, is_secure):
    captured = PUBLISHED | {"qos": 1, "payload_format": 1, "user_properties": [{"name": "n", "value": HOSTILE}]}
    modules = ("paho.mqtt.client", "paho.mqtt.packettypes", "paho.mqtt.properties", "paho.mqtt", "paho")
    library = executed(monkeypatch, Rendered("r", "x", "MQTT/5.0", None, captured, body=b"b", uri=uri), *modules)
    client = library.Client()
    client.on_connect(client, None, None, MagicMock(is_failure=False), None)
    assert library.Client.call_args_list[0].kwargs == options
    assert client.connect.call_args == call("m.example" if uri else "localhost", port)
    assert client.publish.call_args == call("t", b"b", 1, retain=False, properties=library.Properties())
    assert library.Properties().UserProperty == [("n", HOSTILE)]
    assert library.Properties().PayloadFormatIndicator == 1
    assert client.tls_set.called == is_secure
    assert client.ws_set_options.call_args == (None if path is None else call(path=path))
    client.on_publish()
    assert client.disconnect.called
    with pytest.raises(SystemExit):
        client.on_connect(client, None, None, MagicMock(is_failure=True), None)


def test_no_script_sends_requests():
    with pytest.raises(RenderRefused, match="curl sends requests of HTTP"):
        python(Rendered("r", "x", "HTTP/1.1", None, {}))
