"""What the specifications allow is accepted, next to what they forbid."""

from __future__ import annotations

from typing import Any

import pytest
from builders import document, group, message_document, read


def rules_of(written: dict[str, Any]) -> set[str]:
    """Return the rules of severity error that a document breaks."""
    return {finding.rule_id for finding in read(written, rules=True).findings if finding.severity == "error"}


def kafka(**options: Any) -> dict[str, Any]:
    return message_document({"protocol": "KAFKA", "protocoloptions": options})


def mqtt(**options: Any) -> dict[str, Any]:
    return message_document({"protocol": "MQTT/5.0", "protocoloptions": options})


def declared(**declaration: Any) -> dict[str, Any]:
    metadata = {"type": {"value": "t"}, "attempt": declaration}
    return message_document({"envelope": "CloudEvents/1.0", "envelopemetadata": metadata})


def endpoint(protocol: str = "HTTP/1.1", **options: Any) -> dict[str, Any]:
    return document({"g": group({})}, {"e": {"usage": ["producer"], "protocol": protocol, "protocoloptions": options}})


@pytest.mark.parametrize(
    "written",
    [
        kafka(partition={"value": "{p}"}),
        mqtt(qos={"value": "{q}"}, retain={"value": "{r}"}),
        declared(type="integer", value="{attempt}"),
        declared(type="boolean", value="{flag}"),
        endpoint(authorization={"type": None, "resourceuri": None, "grant_types": None}),
        endpoint(options=None),
        document({"g": group({}, createdat="2016-12-31T23:59:60Z")}),
    ],
)
def test_what_is_allowed_breaks_no_rule(written):
    assert rules_of(written) == set()


@pytest.mark.parametrize(
    ("written", "rule_id"),
    [
        (kafka(partition={"value": "p"}), "MSG-366"),
        (declared(type="integer", value="ten"), "MSG-213"),
        (declared(type="number", value="{n}"), "MSG-214"),
        (endpoint(authorization={"type": ""}), "END-113"),
        (endpoint("AMQP/0-9-1"), "END-091"),
        (endpoint("AMQP/0.9.1"), "END-091"),
        (document({"g": group({}, createdat="2016-12-31T23:59:61Z")}), "MSG-047"),
    ],
)
def test_what_is_not_allowed_next_to_it_breaks_its_rule(written, rule_id):
    assert rules_of(written) - {"MSG-115"} == {rule_id}  # which its message breaks without it
