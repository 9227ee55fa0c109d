"""Rules about one endpoint: its usage, its addresses, its protocol's options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lakehouse.dialects.tables import FAMILIES, PROTOCOLS, family_of
from lakehouse.rules.entity.checks import shown
from lakehouse.rules.entity.constraints import EntityViolation, Subject, by_table
from lakehouse.text import values

NO_LABELS = "END-012"

_BAD_ESCAPE = re.compile(r"://[^/]*/.*%(?![0-9A-Fa-f]{2})")

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.\-_]*)://([^/?#]*)([^?#]*)(.*)", re.DOTALL)

_AUTHORITY = re.compile(r"(?:[^@]*@)?(\[[0-9A-Fa-f:.]+\]|[^:\[\]\s@]+)(?::([0-9]{1,5}))?")

_MQTT_WILDCARDS = re.compile(r"[+#]")


def check_endpoint(subject: Subject) -> Iterator[EntityViolation]:
    """Check what a table cannot say of an endpoint: END-058, its addresses, its options."""
    attributes = subject.attributes
    if not attributes.get("usage") and "usage" not in attributes:
        yield EntityViolation((), "END-058", "`usage` is missing")
    elif attributes.get("usage") == ["subscriber"] and not attributes.get("labels"):
        yield EntityViolation(("usage",), NO_LABELS, "it is for subscribers, and has no `labels` that name the product behind it")
    options, envelope = attributes.get("protocoloptions"), attributes.get("envelopeoptions")
    family = family_of(attributes.get("protocol"))
    if isinstance(envelope, dict):
        yield from _check_format(envelope, options, family)
    if not isinstance(options, dict):
        return
    if family in FAMILIES:
        yield from by_table("endpoint", family, attributes)
    addresses = options.get("endpoints")
    if addresses is None:
        return
    if not isinstance(addresses, list):
        yield EntityViolation(("protocoloptions", "endpoints"), "END-101", "`endpoints` is not an array of objects")
        return
    for index, address in enumerate(addresses):
        path = ("protocoloptions", "endpoints", str(index))
        if not isinstance(address, dict):
            yield EntityViolation(path, "END-101", f"{shown(address)} is not an object with `uri`")
        else:
            yield from _check_address(address, path, family)


def _check_format(envelope: dict[str, Any], options: Any, family: str | None) -> Iterator[EntityViolation]:
    form = envelope.get("format")
    if form is None:
        return
    if envelope.get("mode") == "binary":
        yield EntityViolation(("envelopeoptions", "format"), "END-082", f"`format` is {shown(form)}, and `mode` is binary")
        return
    headers = options.get("headers") if isinstance(options, dict) and family == "HTTP" else None
    for index, item in enumerate(headers) if isinstance(headers, list) else ():
        if isinstance(item, dict) and str(item.get("name", "")).lower() == "content-type" and item.get("value") != form:
            path = ("protocoloptions", "headers", str(index))
            yield EntityViolation(path, "END-083", f"the header says {shown(item.get('value'))}, and `format` is {shown(form)}")


def _check_address(address: dict[str, Any], path: tuple[str, ...], family: str | None) -> Iterator[EntityViolation]:
    """Check a network address: an absolute URI of a scheme that the protocol has (requirements.md 32)."""
    uri = address.get("uri")
    here = (*path, "uri")
    if family == "KAFKA" and isinstance(uri, str) and "://" not in uri:
        yield EntityViolation(here, "END-175", f"{shown(uri)} has no scheme such as SSL://")
        return
    if family == "AMQP" and isinstance(uri, str) and _BAD_ESCAPE.search(uri):
        yield EntityViolation(here, "END-143", f"the path of {shown(uri)} is not a node name")
        return
    if not isinstance(uri, str) or not (values.is_uri(uri) or values.is_template(uri)):
        yield EntityViolation(here if "uri" in address else path, "END-103", f"`uri` is not an absolute URI: {shown(uri)}")
        return
    parts = _ADDRESS.fullmatch(uri)
    if family not in PROTOCOLS or "{" in uri.split("/", 3)[min(2, uri.count("/"))]:
        return  # the host is a placeholder
    protocol = PROTOCOLS[family]
    rule_id, schemes = protocol.rule, protocol.schemes.split()
    authority = _AUTHORITY.fullmatch(parts[2]) if parts else None
    if parts is None or authority is None:
        yield EntityViolation(here, rule_id, f"{shown(uri)} is not an address of the form scheme://host:port")
        return
    scheme, path_part = parts[1].lower(), parts[3]
    if scheme not in schemes:
        severity = "warning" if protocol.other_schemes else None  # they are named as examples, and others are seen
        yield EntityViolation(here, rule_id, f"{shown(uri)} has none of the schemes {', '.join(schemes)}", severity)
    elif family == "MQTT":
        if scheme in ("tcp", "ssl", "wss") and path_part not in ("", "/"):
            yield EntityViolation(here, "END-158", f"{shown(uri)} has a path")
        elif _MQTT_WILDCARDS.search(path_part + parts[4]):
            yield EntityViolation(here, "END-156", f"the path of {shown(uri)} is not a topic name: it has a wildcard")
    if authority[2] is None and family == "NATS" and scheme in schemes:
        yield EntityViolation(here, "END-190", f"{shown(uri)} has no port")
    if authority[2] is None and family == "KAFKA":
        yield EntityViolation(here, "END-175", f"{shown(uri)} has no port", "warning")
