"""Why a message is not rendered: values that are missing, that would not match back, or that a protocol cannot carry.

A line break in a header, a wildcard in a topic: a client would refuse it, or send another message than the definition says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lakehouse.errors import LakehouseError
from lakehouse.match.definition.compiled import escape
from lakehouse.match.definition.valuetypes import as_text
from lakehouse.text.names import Pointer, Xid

_TOKEN = re.compile(r"\A[A-Za-z0-9!#$%&'*+\-.^_`|~]+\Z")  # RFC 9110, 5.6.2
_FIELD = re.compile(r"\A(?:[\x21-\x7e](?:[\x20\x09\x21-\x7e]*[\x21-\x7e])?)?\Z")  # RFC 9110, 5.5, in ASCII
_PATH = re.compile(r"\A/(?:[A-Za-z0-9\-._~:/@!$&'()*+,;=]|%[0-9A-Fa-f]{2})*\Z")  # RFC 3986, 3.3
_KAFKA_TOPIC = re.compile(r"\A(?!\.{1,2}\Z)[A-Za-z0-9._-]{1,249}\Z")
_NATS_SUBJECT = re.compile(r"\A[^\s.*>\x00]+(?:\.[^\s.*>\x00]+)*\Z")
_ANY = re.compile("")
# Types that only AMQP has (MSG-317).
_OF_AMQP = {
    "ulong": (re.compile(r"\A(?:0|[1-9][0-9]{0,18})\Z"), "a ulong is a whole number of at most 19 digits"),
    "uuid": (re.compile(r"\A[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}\Z"), "no UUID"),
}
_ONLY_MQTT_5 = (
    "payload_format",
    "message_expiry_interval",
    "response_topic",
    "correlation_data",
    "content_type",
    "user_properties",
)


class Need(NamedTuple):
    """A value that somebody has to give.

    Attributes:
        name: as `--set` takes it: of a placeholder, or of an attribute.
        pointer: JSON Pointer of the declaration that asks for it first.
        kind: the declared type, or None.
        template: the declared value, where `name` is a placeholder of it; else None.
    """

    name: str
    pointer: Pointer
    kind: str | None = None
    template: str | None = None


class Refusal(NamedTuple):
    """Why a message would not be what its definition says: JSON Pointer of the declaration, `payload` or `endpoint`; and why."""

    pointer: str
    reason: str


class MissingValues(LakehouseError):
    """A definition asks for values that were not given (exit code 2; MSG-230).

    Attributes:
        xid: of the definition.
        needs: all that is missing.
    """

    exit_code = 2

    def __init__(self, xid: Xid, needs: Sequence[Need]) -> None:
        self.xid, self.needs = xid, tuple(needs)
        message = "\n".join(f"  {need.name}: {_described(need)}" for need in needs)
        example = " ".join(f"--set {need.name}=…" for need in needs[:3])
        super().__init__(f"{xid}: values are missing.\n{message}\nGive them with {example}, or let --example make them up.")


class RenderRefused(LakehouseError):
    """The values make no message that the definition matches, or a payload that breaks its schema (exit code 3).

    Attributes:
        xid: of the definition.
        refusals: what is wrong, and where it is declared.
    """

    exit_code = 3

    def __init__(self, xid: Xid, refusals: Sequence[Refusal]) -> None:
        self.xid, self.refusals = xid, tuple(refusals)
        super().__init__(
            f"{xid}: cannot be rendered.\n" + "\n".join(f"  {refusal.pointer or '/'}: {refusal.reason}" for refusal in refusals)
        )


def _described(need: Need) -> str:
    if need.template is not None:
        return f"placeholder of {need.template!r} ({need.pointer})"
    return f"{need.pointer}" + (f", type {need.kind}" if need.kind else "")


def refusals_of(protocol: str, captured: Mapping[str, Any], kinds: Mapping[str, str]) -> list[Refusal]:
    """Return what a protocol cannot carry of a message, by pointer of the declaration.

    Args:
        protocol: as the catalog writes it.
        captured: what the transport carries, named as in `protocoloptions`.
        kinds: declared types of options, as in `Rendered`.
    """
    family, _, version = protocol.partition("/")
    if family.upper() == "AMQP":
        return _amqp(captured, kinds)
    checks: dict[str, Callable[[Mapping[str, Any], str], list[Refusal]]] = {
        "HTTP": _http, "NATS": _nats, "KAFKA": _kafka, "MQTT": _mqtt,
    }  # fmt: skip
    return checks[family.upper()](captured, version) if family.upper() in checks else []


def _http(captured: Mapping[str, Any], _: str) -> list[Refusal]:
    results = _headers(captured)
    path = captured.get("path")
    if path is not None and not _PATH.match(as_text(path)):
        results.append(_refusal("path", path, "a path begins with / and holds what RFC 3986 allows: percent-encode the value"))
    method = captured.get("method")
    if method is not None and not _TOKEN.match(as_text(method)):
        results.append(_refusal("method", method, "no HTTP method"))
    status = captured.get("status")
    if status is not None and not re.match(r"\A[1-5]\d\d\Z", as_text(status)):
        results.append(_refusal("status", status, "no HTTP status code"))
    return results


def _nats(captured: Mapping[str, Any], _: str) -> list[Refusal]:
    results = _headers(captured)
    for name in ("subject", "reply-to"):
        if name in captured and not _NATS_SUBJECT.match(as_text(captured[name])):
            results.append(_refusal(name, captured[name], "a subject has no blanks, empty tokens or wildcards"))
    return results


def _kafka(captured: Mapping[str, Any], _: str) -> list[Refusal]:
    topic = captured["topic"]
    if _KAFKA_TOPIC.match(as_text(topic)):
        return []
    return [_refusal("topic", topic, "a topic holds 1 to 249 letters, digits, dots, - and _")]


def _amqp(captured: Mapping[str, Any], kinds: Mapping[str, str]) -> list[Refusal]:
    results = []
    for section, members in captured.items():
        for name, value in members.items() if isinstance(members, Mapping) else ():
            key = f"{section}/{escape(name)}"
            pattern, wanted = _OF_AMQP.get(kinds.get(key, ""), (_ANY, ""))
            if not pattern.match(as_text(value)):
                results.append(_refusal(key, value, wanted))
    return results


def _mqtt(captured: Mapping[str, Any], version: str) -> list[Refusal]:
    results = []
    for name in ("topic_name", "response_topic"):
        text = as_text(captured.get(name, "t"))
        if not text or any(character in text for character in "+#\0") or len(text.encode()) > 65_535:
            results.append(_refusal(name, text, "a topic to publish to is not empty and has no wildcards"))
    if captured["qos"] not in (0, 1, 2):
        results.append(_refusal("qos", captured["qos"], "0, 1 or 2"))
    if version.startswith("3"):
        results += [
            _refusal(name, captured[name], f"MQTT/{version} does not carry it") for name in _ONLY_MQTT_5 if captured.get(name)
        ]
    for user_property in captured.get("user_properties", ()):
        if "\0" in user_property["name"] + user_property["value"]:
            results.append(_refusal(f"user_properties/{escape(user_property['name'])}", user_property["value"], "holds a NUL"))
    return results


def _headers(captured: Mapping[str, Any]) -> list[Refusal]:
    results = []
    for header in captured.get("headers", ()):
        pointer = f"headers/{escape(header['name'])}"
        if not _TOKEN.match(header["name"]):
            results.append(_refusal(pointer, header["name"], "no name of a header"))
        if not _FIELD.match(header["value"]):
            results.append(_refusal(pointer, header["value"], "a header holds printable ASCII, and blanks only inside"))
    return results


def _refusal(key: str, value: Any, reason: str) -> Refusal:
    return Refusal(f"/protocoloptions/{key}", f"{as_text(value)[:120]!r}: {reason}")
