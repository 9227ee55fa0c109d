"""Matching written a second time, in plain Python over leaves and captured messages: what the engine must agree with.

No code of the package, no index, no order of checks: every definition is compared with every message, and templates are
expressions of `re`.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any
from urllib.parse import unquote

CHANGED = {"AMQP": ("header/", "delivery-annotations/", "footer/"), "MQTT": ("qos", "retain", "message_expiry_interval")}
PREFIXES = {"KAFKA": ("headers/", ("ce_",)), "AMQP": ("application-properties/", ("cloudEvents:", "cloudEvents_")),
            "MQTT": ("user_properties/", ("",)), "HTTP": ("headers/", ("ce-",)), "NATS": ("headers/", ("ce-",))}  # fmt: skip
CONTENT_TYPE = {"KAFKA": "headers/content-type", "AMQP": "properties/content-type", "MQTT": "content_type",
                "HTTP": "headers/content-type", "NATS": "headers/content-type"}  # fmt: skip


def seen(message: dict[str, Any]) -> dict[str, Any]:
    """Read a captured message: family, options by name with all their values, attributes of the CloudEvent."""
    family = message["protocol"].partition("/")[0]
    options: dict[str, list[Any]] = {}
    for name, value in message["captured"].items():
        if isinstance(value, list):
            for pair in value:
                key = pair["name"].lower() if family == "HTTP" else pair["name"]
                options.setdefault(f"{name}/{key}", []).append(pair["value"])
        elif isinstance(value, dict):
            for key, one in value.items():
                options[f"{name}/{key}"] = [one]
        elif value is not None:
            options[name] = [value]
    body = base64.b64decode(message.get("payload_base64") or "")
    content = str(options.get(CONTENT_TYPE[family], [""])[-1]).lower()
    attributes: dict[str, Any] = {}
    if content.startswith("application/cloudevents"):
        attributes = {name: value for name, value in json.loads(body).items() if name not in ("data", "data_base64")}
        attributes.setdefault("datacontenttype", "application/json")
    else:
        section, prefixes = PREFIXES[family]
        for name, values in options.items():
            for prefix in prefixes:
                if name.startswith(section + prefix):
                    text = values[-1] if family == "KAFKA" else values[0]
                    attributes[name[len(section + prefix) :]] = unquote(text) if family in ("HTTP", "NATS") else text
        if content:
            attributes.setdefault("datacontenttype", content)
    return {"family": family, "options": options, "attributes": {k: v for k, v in attributes.items() if v is not None}}


def is_of(row: dict[str, Any], message: dict[str, Any], rule: str = "auto") -> tuple[bool, dict[str, str], set[str]]:
    """Return whether a message is one of a definition, what its placeholders hold, and the pointers that fail."""
    what, leaves = seen(message), row["attributes"]
    wanted = json.loads(leaves.get("/protocol", '""')).partition("/")[0].upper()
    if wanted not in ("", "NONE", what["family"]):
        return False, {}, {"/protocol"}
    failed: set[str] = set()
    held: dict[str, list[tuple[str, str]]] = {}
    names = {leaf.rpartition("/")[0] for leaf in leaves if leaf.rpartition("/")[2] in ("value", "type", "required")}
    names = {name for name in names if name.startswith(("/envelopemetadata/", "/protocoloptions/"))}
    if row["envelope"]:
        names |= {f"/envelopemetadata/{name}" for name in ("id", "source", "type", "specversion")}
    for name in names:
        verdict = _one(name, leaves, what, rule, held)
        if verdict is False:
            failed.add(name)
    for uses in held.values():
        if len({text for _, text in uses}) > 1 and len({unquote(text) for _, text in uses}) > 1:
            failed |= {pointer for pointer, _ in uses}
    return not failed, {name: uses[0][1] for name, uses in held.items()}, failed


def best(rows: list[dict[str, Any]]) -> set[str]:
    """Return of the definitions that a message is of those that no other is more specific than."""

    def asks(row: dict[str, Any]) -> set[tuple[str, str]]:
        values = {(k, re.sub(r"\{\w+\}", "{}", v)) for k, v in row["attributes"].items() if k.endswith("/value")}
        protocol = json.loads(row["attributes"].get("/protocol", '""')).partition("/")[0].upper()
        return values | ({("/protocol", protocol)} if protocol not in ("", "NONE") else set())

    def demands(row: dict[str, Any]) -> set[tuple[str, str]]:
        required = {k for k, v in row["attributes"].items() if k.endswith("/required") and v == "true"}
        types = {(k, v) for k, v in row["attributes"].items() if k.endswith("/type") and k.count("/") > 2}
        implied = (
            {f"/envelopemetadata/{name}/required" for name in ("id", "source", "type", "specversion")}
            if row["envelope"]
            else set()
        )
        return {(k, "true") for k in required | implied} | types

    def beats(one: dict[str, Any], other: dict[str, Any]) -> bool:
        if other["xid"] in one["depends_on"] and other is not one:
            return True
        if one["xid"] in other["depends_on"]:
            return False
        if asks(one) == asks(other):
            return demands(other) < demands(one)
        return asks(other) < asks(one)

    return {one["xid"] for one in rows if not any(beats(two, one) for two in rows if two is not one)}


def _one(
    pointer: str, leaves: dict[str, str], what: dict[str, Any], rule: str, held: dict[str, list[tuple[str, str]]]
) -> bool | None:
    _, section, key = pointer.split("/", 2)
    in_envelope = section == "envelopemetadata"
    value = json.loads(leaves[f"{pointer}/value"]) if f"{pointer}/value" in leaves else None
    kind = json.loads(leaves.get(f"{pointer}/type", "null"))
    needed = key in ("id", "source", "type", "specversion") if in_envelope else False
    needed = json.loads(leaves[f"{pointer}/required"]) if f"{pointer}/required" in leaves else needed
    if in_envelope and key == "specversion" and value is None:
        value = "1.0"
    there = (
        [what["attributes"][key]]
        if in_envelope and key in what["attributes"]
        else []
        if in_envelope
        else what["options"].get(key, [])
    )
    if what["family"] == "KAFKA" and not in_envelope:
        there = there[-1:]
    if not in_envelope and key.startswith(CHANGED.get(what["family"], ("\0",))):
        return True
    if not there:
        return not needed and value is None
    return any(_holds(pointer, key, value, kind, one, rule, held, in_envelope, what["family"]) for one in there)


def _holds(
    pointer: str,
    key: str,
    value: Any,
    kind: str | None,
    one: Any,
    rule: str,
    held: dict[str, Any],
    in_envelope: bool,
    family: str,
) -> bool:
    text = one if isinstance(one, str) else json.dumps(one)
    if in_envelope and key in ("id", "source", "type") and text == "":
        return False
    if value is None:
        if kind == "integer":
            return re.fullmatch(r"-?(0|[1-9]\d*)", text) is not None and -(2**31) <= int(text) < 2**31
        if kind == "boolean":
            return text in ("true", "false")
        if kind == "timestamp":
            return re.fullmatch(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", text) is not None
        return True
    if isinstance(value, str) and re.search(r"\{\w+\}", value):
        separator = "." if family == "NATS" and not in_envelope and key == "subject" else "/"
        alone = re.fullmatch(r"\{\w+\}", value) is not None
        hole = "([\\s\\S]+)" if rule == "any" or (rule == "auto" and alone) else f"([^{separator}]+)"
        parts = re.split(r"\{(\w+)\}", value)
        found = re.fullmatch("".join(hole if at % 2 else re.escape(part) for at, part in enumerate(parts)), text)
        if found is None:
            return False
        for name, captured in zip(parts[1::2], found.groups(), strict=True):
            held.setdefault(name, []).append((pointer, captured))
        return True
    return text == (value if isinstance(value, str) else json.dumps(value))
