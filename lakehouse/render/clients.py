"""Rendered messages as lines for a shell: `curl`, `kcat`, `mosquitto_pub`. They are written, and never run.

Every value is quoted for a POSIX shell; a payload that is no text comes out of base64.
"""

from __future__ import annotations

import base64
import shlex
from collections.abc import Callable
from urllib.parse import urlencode, urlsplit

from lakehouse.match.definition.valuetypes import as_text
from lakehouse.render.faults import Refusal, RenderRefused
from lakehouse.render.rendered import Rendered
from lakehouse.text.jsontext import pointer_of

_MQTT_PROPERTIES = {"content_type": "content-type", "message_expiry_interval": "message-expiry-interval",
                    "payload_format": "payload-format-indicator", "response_topic": "response-topic",
                    "correlation_data": "correlation-data"}  # fmt: skip
_DELIMITERS = (0x1E, 0x1F, 0x1D, 0x1C, 0x02, 0x03)


def curl(message: Rendered) -> str:
    """Give the line of `curl` that would send a request.

    Raises:
        RenderRefused: it is a response.
    """
    captured = message.captured
    if "status" in captured:
        raise _refused(message, "/protocoloptions/status", "is a response: there is nothing to send")
    parts = urlsplit(message.uri or "")
    base = f"{parts.scheme}://{parts.netloc}" if parts.scheme in ("http", "https") and parts.netloc else "http://localhost:8080"
    query = urlencode([(one["name"], one["value"]) for one in captured.get("query", ())])
    words = ["curl", "-X", captured["method"], base + captured["path"] + (f"?{query}" if query else "")]
    words += ["--path-as-is"] if "/." in captured["path"] else []
    for one in captured["headers"]:
        words += ["-H", f"{one['name']}: {one['value']}" if one["value"] else f"{one['name']};"]
    if message.body is None:
        return shlex.join(words)
    if not any(one["name"].lower() == "content-type" for one in captured["headers"]):
        words += ["-H", "content-type:"]  # curl would say that it is a form
    text = _text(message.body)
    return shlex.join([*words, "--data-raw", text]) if text is not None else _piped(message.body, [*words, "--data-binary", "@-"])


def kcat(message: Rendered) -> str:
    """Give the line of `kcat` that would produce a record.

    Raises:
        RenderRefused: the key is no text, or the name of a header holds `=`.
    """
    captured = message.captured
    words = ["kcat", "-P", "-b", _broker(message, "9092")]
    security = _scheme(message)
    words += ["-X", f"security.protocol={security}"] if security in ("ssl", "sasl_ssl", "sasl_plaintext") else []
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
    for one in captured["headers"]:
        if "=" in one["name"]:
            raise _refused(message, pointer_of("protocoloptions", "headers", one["name"]), "kcat takes no name that holds =")
        words += ["-H", f"{one['name']}={one['value']}"]
    if not message.body:
        return f"echo | {shlex.join([*words, '-Z'] if message.body is None else words)}"
    if b"\n" in message.body:
        free = next((code for code in _DELIMITERS if code not in message.body), None)
        if free is None:
            raise _refused(message, "payload", "holds every character that could end a message of kcat")
        words += ["-D", f"\\x{free:02x}"]
    return _piped(message.body, words)


def mosquitto_pub(message: Rendered) -> str:
    """Give the line of `mosquitto_pub` that would publish a message.

    Raises:
        RenderRefused: the endpoint is a WebSocket, which the client does not speak in all its versions.
    """
    captured, scheme = message.captured, _scheme(message)
    if scheme in ("ws", "wss"):
        raise _refused(message, "endpoint", f"its address {message.uri} is a WebSocket, and mosquitto_pub goes over TCP")
    is_secure = scheme in ("mqtts", "ssl", "tls")
    host, _, port = _broker(message, "8883" if is_secure else "1883").rpartition(":")
    is_5 = (message.protocol or "").endswith("/5.0")
    words = ["mosquitto_pub", "-V", "5" if is_5 else "311", "-h", host, "-p", port]
    words += ["--tls-use-os-certs"] if is_secure else []
    words += ["-t", captured["topic_name"]]
    words += ["-q", as_text(captured["qos"])] + (["-r"] if captured["retain"] in (True, "true") else [])
    for name, own in _MQTT_PROPERTIES.items():
        if name in captured:
            words += ["-D", "publish", own, as_text(captured[name])]
    for one in captured.get("user_properties", ()):
        words += ["-D", "publish", "user-property", one["name"], one["value"]]
    if not message.body:
        return shlex.join([*words, "-n"])
    text = _text(message.body)
    return shlex.join([*words, "-m", text]) if text is not None else _piped(message.body, [*words, "-s"])


CLIENTS: dict[str, tuple[str, Callable[[Rendered], str]]] = {
    "curl": ("HTTP", curl),
    "kcat": ("KAFKA", kcat),
    "mosquitto_pub": ("MQTT", mosquitto_pub),
}


def _broker(message: Rendered, port: str) -> str:
    """Give host and port of the endpoint, else of this machine."""
    parts = urlsplit("//" + (message.uri or "").rpartition("://")[2])
    try:
        return f"{parts.hostname or 'localhost'}:{parts.port or port}"
    except ValueError:  # a port that is none
        return f"{parts.hostname or 'localhost'}:{port}"


def _scheme(message: Rendered) -> str:
    """Give the scheme of the endpoint's address; Kafka's have `_`, so they are no URI to the library."""
    before, found, _ = (message.uri or "").partition("://")
    return before.lower() if found else ""


def _text(body: bytes) -> str | None:
    """Give a body as an argument of a command, if it is one: UTF-8 without NUL."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _piped(body: bytes, words: list[str]) -> str:
    text = _text(body)
    first = f"printf %s {shlex.quote(text)}" if text is not None else f"echo {base64.b64encode(body).decode()} | base64 -d"
    return f"{first} | {shlex.join(words)}"


def _refused(message: Rendered, pointer: str, told: str) -> RenderRefused:
    return RenderRefused(message.xid, [Refusal(pointer, told)])
