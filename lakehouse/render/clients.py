"""Clients that send a rendered message: lines for a shell of `curl`, `kcat` and `mosquitto_pub`, and scripts of Python.

They are written, and never run. Every value is quoted for a POSIX shell, or is a literal of Python.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit
from uuid import UUID

from lakehouse.match.definition.compiled import escape
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.render.rendering import Rendered
from lakehouse.render.unrenderable import Refusal, RenderRefused
from lakehouse.text.jsontext import pointer_of
from lakehouse.text.timestamps import microseconds

_MQTT_PROPERTIES = {"content_type": "content-type", "message_expiry_interval": "message-expiry-interval",
                    "payload_format": "payload-format-indicator", "response_topic": "response-topic",
                    "correlation_data": "correlation-data"}  # fmt: skip
_SECURED = ("ssl", "sasl_ssl", "sasl_plaintext")  # of Kafka
_MQTT_SECURED = ("mqtts", "ssl", "tls")
_DELIMITERS = (0x1E, 0x1F, 0x1D, 0x1C, 0x02, 0x03)


def curl(message: Rendered) -> str:
    """Return the line of `curl` that would send a request.

    Raises:
        RenderRefused: it is a response.
    """
    captured = message.captured
    if "status" in captured:
        raise _refused(message, "/protocoloptions/status", "is a response: there is nothing to send")
    parts = urlsplit(message.uri or "")
    base = f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") and parts.netloc else "http://localhost:8080"
    query = urlencode([(parameter["name"], parameter["value"]) for parameter in captured.get("query", ())])
    words = ["curl", "-X", captured["method"], base + captured["path"] + (f"?{query}" if query else "")]
    words += ["--path-as-is"] if "/." in captured["path"] else []
    for header in captured["headers"]:
        words += ["-H", f"{header['name']}: {header['value']}" if header["value"] else f"{header['name']};"]
    if message.body is None:
        return shlex.join(words)
    if not any(header["name"].lower() == "content-type" for header in captured["headers"]):
        words += ["-H", "content-type:"]  # curl would say that it is a form
    text = _text(message.body)
    return shlex.join([*words, "--data-raw", text]) if text is not None else _piped(message.body, [*words, "--data-binary", "@-"])


def kcat(message: Rendered) -> str:
    """Return the line of `kcat` that would produce a record.

    Raises:
        RenderRefused: the key is no text, or the name of a header holds `=`.
    """
    captured = message.captured
    words = ["kcat", "-P", "-b", _broker(message, "9092")]
    security = _scheme(message)
    words += ["-X", f"security.protocol={security}"] if security in _SECURED else []
    words += ["-t", captured["topic"]]
    if "key" in captured:
        words += ["-k", as_text(captured["key"])]
    elif "key_base64" in captured:
        key = _text(base64.b64decode(as_text(captured["key_base64"])))
        if key is None:
            raise _refused(message, "/protocoloptions/key_base64", "kcat takes a key that is text")
        words += ["-k", key]
    words += ["-p", as_text(captured["partition"])] if "partition" in captured else []
    words += [] if message.acks is None else ["-X", f"acks={message.acks}"]
    for header in captured["headers"]:
        if "=" in header["name"]:
            raise _refused(message, pointer_of("protocoloptions", "headers", header["name"]), "kcat takes no name that holds =")
        words += ["-H", f"{header['name']}={header['value']}"]
    if not message.body:
        return f"echo | {shlex.join([*words, '-Z'] if message.body is None else words)}"
    if b"\n" in message.body:
        free = next((code for code in _DELIMITERS if code not in message.body), None)
        if free is None:
            raise _refused(message, "payload", "holds every character that could end a message of kcat")
        words += ["-D", f"\\x{free:02x}"]
    return _piped(message.body, words)


def mosquitto_pub(message: Rendered) -> str:
    """Return the line of `mosquitto_pub` that would publish a message.

    Raises:
        RenderRefused: the endpoint is a WebSocket, which the client does not speak in all its versions; or the correlation data
            are bytes that no argument of a command can hold.
    """
    captured, scheme = message.captured, _scheme(message)
    if scheme in ("ws", "wss"):
        raise _refused(message, "endpoint", f"its address {message.uri} is a WebSocket, and mosquitto_pub goes over TCP")
    is_secure = scheme in _MQTT_SECURED
    host, _, port = _broker(message, "8883" if is_secure else "1883").rpartition(":")
    is_5 = (message.protocol or "").endswith("/5.0")
    words = ["mosquitto_pub", "-V", "5" if is_5 else "311", "-h", host, "-p", port]
    words += ["--tls-use-os-certs"] if is_secure else []
    words += ["-t", captured["topic_name"]]
    words += ["-q", as_text(captured["qos"])] + (["-r"] if _is_true(captured["retain"]) else [])
    for name, own in _MQTT_PROPERTIES.items():
        if name in captured:
            text = _text(_declared(message, name, captured[name], _bytes))
            if text is None:
                raise _refused(message, pointer_of("protocoloptions", name), "mosquitto_pub takes no bytes that are not text")
            words += ["-D", "publish", own, text]
    for user_property in captured.get("user_properties", ()):
        words += ["-D", "publish", "user-property", user_property["name"], user_property["value"]]
    if not message.body:
        return shlex.join([*words, "-n"])
    text = _text(message.body)
    return shlex.join([*words, "-m", text]) if text is not None else _piped(message.body, [*words, "-s"])


def python(message: Rendered) -> str:
    """Return a script of Python that would send a message, with the usual library of its protocol.

    Raises:
        RenderRefused: it goes over HTTP, or holds what the library cannot send.
    """
    script = _SCRIPTS.get(message.family or "")
    if script is None:
        raise _refused(message, "/protocol", f"scripts are written for {', '.join(_SCRIPTS)}; curl sends requests of HTTP")
    return "\n".join(script(message))


def _amqp_script(message: Rendered) -> list[str]:
    captured, scheme = message.captured, _scheme(message)
    if scheme not in ("", "amqp", "amqps"):
        raise _refused(message, "endpoint", f"its address {message.uri} is not one of AMQP over TCP")
    if captured.get("footer"):
        raise _refused(message, "/protocoloptions/footer", "python-qpid-proton sends no footer")
    named: dict[str, Any] = {"body": message.body or b"", "inferred": True}
    for section in ("header", "properties"):
        for name, value in captured.get(section, {}).items():
            converted = _declared(message, f"{section}/{name}", value, _AMQP_VALUES.get(name, as_text))
            named[_AMQP_NAMES.get(name, name.replace("-", "_"))] = converted
    maps = {
        field: {
            name: _declared(message, f"{section}/{escape(name)}", value, _unchanged)
            for name, value in captured.get(section, {}).items()
        }
        for section, field in _AMQP_MAPS.items()
    }
    named |= {field: values for field, values in maps.items() if values}
    has_uuid = any(isinstance(value, UUID) for values in (named, *maps.values()) for value in values.values())
    address = f"{scheme or 'amqp'}://{_broker(message, '5671' if scheme == 'amqps' else '5672')}"
    node = message.node or as_text(captured["properties"].get("to", ""))
    return [
        *(["from uuid import UUID", ""] if has_uuid else []),
        "from proton import Message",
        "from proton.utils import BlockingConnection",
        "",
        *_call("message = Message", named),
        f"connection = BlockingConnection({address!r})",
        f"connection.create_sender({node!r}).send(message)",
        "connection.close()",
    ]


def _kafka_script(message: Rendered) -> list[str]:
    captured, security = message.captured, _scheme(message)
    settings = {"bootstrap.servers": _broker(message, "9092")}
    settings |= {"security.protocol": security} if security in _SECURED else {}
    settings |= {} if message.acks is None else {"acks": str(message.acks)}
    named: dict[str, Any] = {"topic": as_text(captured["topic"]), "value": message.body}
    if "key" in captured or "key_base64" in captured:
        named["key"] = as_text(captured["key"]) if "key" in captured else base64.b64decode(as_text(captured["key_base64"]))
    named |= {"partition": _whole(captured["partition"])} if "partition" in captured else {}
    named["headers"] = _pairs(captured["headers"])
    return [
        "from confluent_kafka import Producer",
        "",
        f"producer = Producer({settings!r})",
        *_call("producer.produce", named),
        "producer.flush()",
    ]


def _mqtt_script(message: Rendered) -> list[str]:
    captured, parts, scheme = message.captured, urlsplit(message.uri or ""), _scheme(message)
    is_websocket, is_secure = scheme in ("ws", "wss"), scheme in ("wss", *_MQTT_SECURED)
    port = ("443" if is_secure else "80") if is_websocket else ("8883" if is_secure else "1883")
    host, _, port = _broker(message, port).rpartition(":")
    is_5 = (message.protocol or "").endswith("/5.0")
    version, transport = 5 if is_5 else 4, "websockets" if is_websocket else "tcp"
    properties = {
        name: _declared(message, option, captured[option], usual)
        for option, (name, usual) in _PAHO_PROPERTIES.items()
        if option in captured
    }
    properties |= {"UserProperty": _pairs(captured["user_properties"])} if captured.get("user_properties") else {}
    published = [as_text(captured["topic_name"]), message.body or b"", _whole(captured["qos"])]
    return [
        "from paho.mqtt.client import CallbackAPIVersion, Client",
        *(["from paho.mqtt.packettypes import PacketTypes", "from paho.mqtt.properties import Properties"] if properties else []),
        "",
        *(["properties = Properties(PacketTypes.PUBLISH)"] if properties else []),
        *(f"properties.{name} = {value!r}" for name, value in properties.items()),
        "",
        "",
        "def send(client, data, flags, reason, _):",
        "    if reason.is_failure:",
        "        raise SystemExit(str(reason))",
        f"    client.publish({', '.join(map(repr, published))}, retain={_is_true(captured['retain'])}"
        f"{', properties=properties' if properties else ''})",
        "",
        "",
        f"client = Client(CallbackAPIVersion.VERSION2, protocol={version}, transport={transport!r})",
        *([f"client.ws_set_options(path={parts.path or '/'!r})"] if is_websocket else []),
        *(["client.tls_set()"] if is_secure else []),
        "client.on_connect = send",
        "client.on_publish = lambda *_: client.disconnect()",
        f"client.connect({host!r}, {int(port)})",
        "client.loop_forever()",
    ]


def _nats_script(message: Rendered) -> list[str]:
    captured, scheme = message.captured, _scheme(message)
    headers = dict(_pairs(captured.get("headers", ())))
    if len(headers) < len(captured.get("headers", ())):
        raise _refused(message, "/protocoloptions/headers", "nats-py sends a header once")
    named: dict[str, Any] = {"subject": as_text(captured["subject"]), "payload": message.body or b""}
    named |= {"reply": as_text(captured["reply-to"])} if "reply-to" in captured else {}
    named |= {"headers": headers} if headers else {}
    address = f"{scheme if scheme in ('tls', 'ws', 'wss') else 'nats'}://{_broker(message, '4222')}"
    return [
        "import asyncio",
        "",
        "import nats",
        "",
        "",
        "async def send() -> None:",
        f"    client = await nats.connect({address!r})",
        *(f"    {line}" for line in _call("await client.publish", named)),
        "    await client.drain()",
        "",
        "",
        "asyncio.run(send())",
    ]


def _call(function: str, named: Mapping[str, Any]) -> list[str]:
    """Return the lines of a call with a named argument a line."""
    return [f"{function}(", *(f"    {name}={value!r}," for name, value in named.items()), ")"]


def _pairs(listed: Any) -> list[tuple[str, str]]:
    return [(pair["name"], pair["value"]) for pair in listed]


def _seconds(value: Any) -> float:
    return microseconds(as_text(value))[0] / 1_000_000


def _is_true(value: Any) -> bool:
    return value in (True, "true")


def _whole(value: Any) -> int:
    return int(as_text(value))


def _milliseconds(value: Any) -> float:
    return _whole(value) / 1_000


def _bytes(value: Any) -> bytes:
    return as_text(value).encode()


def _unchanged(value: Any) -> Any:
    return value


def _declared(message: Rendered, option: str, value: Any, usual: Callable[[Any], Any]) -> Any:
    """Return a value of an option in the type of Python for its declared type; the usual one where that does not matter.

    Texts that are none of the declared type were refused when the message was rendered.
    """
    converted = _OF_KINDS.get(message.kinds.get(option, ""), usual)
    return converted(value)


def _broker(message: Rendered, port: str) -> str:
    """Return host and port of the endpoint, else of this machine."""
    parts = urlsplit("//" + (message.uri or "").rpartition("://")[2])
    try:
        return f"{parts.hostname or 'localhost'}:{parts.port or port}"
    except ValueError:  # a port that is none
        return f"{parts.hostname or 'localhost'}:{port}"


def _scheme(message: Rendered) -> str:
    """Return the scheme of the endpoint's address; Kafka's have `_`, so they are no URI to the library."""
    before, result, _ = (message.uri or "").partition("://")
    return before.lower() if result else ""


def _text(body: bytes) -> str | None:
    """Return a body as an argument of a command, if it is one: UTF-8 without NUL."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _piped(body: bytes, words: list[str]) -> str:
    text = _text(body)
    first = f"printf %s {shlex.quote(text)}" if text is not None else f"echo {base64.b64encode(body).decode()} | base64 -d"
    return f"{first} | {shlex.join(words)}"


def _refused(message: Rendered, pointer: str, reason: str) -> RenderRefused:
    return RenderRefused(message.xid, [Refusal(pointer, reason)])


_SCRIPTS: dict[str, Callable[[Rendered], list[str]]] = {
    "AMQP": _amqp_script, "KAFKA": _kafka_script, "MQTT": _mqtt_script, "NATS": _nats_script,
}  # fmt: skip
# What a declared type is in Python, where the text in `captured` does not show it.
_OF_KINDS: dict[str, Callable[[Any], Any]] = {
    "binary": lambda value: base64.b64decode(as_text(value)), "ulong": _whole, "uuid": lambda value: UUID(as_text(value)),
}  # fmt: skip
# How python-qpid-proton names fields of a message, and what it takes there if not a text.
_AMQP_NAMES = {"message-id": "id", "to": "address", "absolute-expiry-time": "expiry_time"}
_AMQP_VALUES: dict[str, Callable[[Any], Any]] = {
    "durable": _is_true, "first-acquirer": _is_true, "priority": _whole, "delivery-count": _whole, "group-sequence": _whole,
    "ttl": _milliseconds, "absolute-expiry-time": _seconds, "creation-time": _seconds, "user-id": _bytes,
}  # fmt: skip
_AMQP_MAPS = {"application-properties": "properties", "message-annotations": "annotations",
              "delivery-annotations": "instructions"}  # fmt: skip
_PAHO_PROPERTIES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "payload_format": ("PayloadFormatIndicator", _whole), "message_expiry_interval": ("MessageExpiryInterval", _whole),
    "content_type": ("ContentType", as_text), "response_topic": ("ResponseTopic", as_text),
    "correlation_data": ("CorrelationData", _bytes),
}  # fmt: skip
# Form of `render`: protocols that it is for, and what writes it. A script of Python comes last: it is for what no line can send.
CLIENTS: dict[str, tuple[tuple[str, ...], Callable[[Rendered], str]]] = {
    "curl": (("HTTP",), curl),
    "kcat": (("KAFKA",), kcat),
    "mosquitto_pub": (("MQTT",), mosquitto_pub),
    "python": (tuple(_SCRIPTS), python),
}
