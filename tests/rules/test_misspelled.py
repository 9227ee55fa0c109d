"""An attribute with nearly the name of a known one loads, with a warning that names that one (TEXT-002)."""

from __future__ import annotations

from typing import Any

import pytest
from builders import read

from lakehouse.dialects.tables import FAMILIES, message_options
from lakehouse.rules.entity.constraints import Subject
from lakehouse.rules.entity.engine import check_entity
from lakehouse.rules.published import Parents, _check_row
from lakehouse.text.names import RegistryId, Xid
from lakehouse.text.problems import MISSPELLED

GROUP, MESSAGE = "/messagegroups/g", "/messagegroups/g/messages/m"
EVENT = {"envelope": "CloudEvents/1.0"}
CONSUMER = {"usage": ["consumer"], "protocol": "KAFKA", "protocoloptions": {"consumergruop": "orders"}}


def document(message: dict[str, Any] | None = None, group: dict[str, Any] | None = None, **root: Any) -> dict[str, Any]:
    return root | {"messagegroups": {"g": (group or {}) | {"messages": {"m": message or {}}}}}


def near(written: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return pointer, name and known name of each finding; what is misspelled loads, with a warning."""
    reading = read(written, rules=True)
    found = [one for one in reading.findings if one.rule_id == MISSPELLED]
    assert {(one.severity, one.action) for one in found} <= {("warning", "kept")}
    return [(one.pointer, *one.message.split("`")[1::2]) for one in found]


MISSPELLINGS = [
    (document(descriptoin="Lamps"), "/descriptoin", "description"),
    ({"messagegroup": {"g": {}}}, "/messagegroup", "messagegroups"),
    (document(group={"mesages": {"m": {}}}), f"{GROUP}/mesages", "messages"),
    (document(group={"envelop": "CloudEvents/1.0"}), f"{GROUP}/envelop", "envelope"),
    (document({"envelopmetadata": {}}), f"{MESSAGE}/envelopmetadata", "envelopemetadata"),
    (document({"dataSchemaFormat": "Avro/1.12"}), f"{MESSAGE}/dataSchemaFormat", "dataschemaformat"),
    (document({"schemaformatr": "Avro/1.12"}), f"{MESSAGE}/schemaformatr", "schemaformat"),
    (document({"createdAt": "2024-01-01T00:00:00Z"}), f"{MESSAGE}/createdAt", "createdat"),
    (document({"meta": {"compatability": "none"}}), f"{MESSAGE}/meta/compatability", "compatibility"),
    (document({"versions": {"1": {"protocl": "HTTP"}}}), f"{MESSAGE}/versions/1/protocl", "protocol"),
    (document({"protocl": "HTTP", "versions": {"1": {}}}), f"{MESSAGE}/protocl", "protocol"),
    (document(EVENT | {"envelopemetadata": {"type": {}, "sorce": {}}}), f"{MESSAGE}/envelopemetadata/sorce", "source"),
    (document({"protocol": "KAFKA", "protocoloptions": {"header": {}}}), f"{MESSAGE}/protocoloptions/header", "headers"),
    (document({"protocoloptions": {"payload_formt": {}}}), f"{MESSAGE}/protocoloptions/payload_formt", "payload_format"),
    (
        document(EVENT | {"envelopemetadata": {"type": {"requird": True}}}),
        f"{MESSAGE}/envelopemetadata/type/requird",
        "required",
    ),
    ({"endpoints": {"e": CONSUMER}}, "/endpoints/e/protocoloptions/consumergruop", "consumergroup"),
    ({"schemagroups": {"s": {"schemas": {"o": {"schemauri2": "x"}}}}}, "/schemagroups/s/schemas/o/schemauri2", "schemauri"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "pointer", "known"), MISSPELLINGS, ids=[one[1] for one in MISSPELLINGS])
def test_a_name_that_is_near_a_known_one_is_reported_where_it_is_written(written, pointer, known):
    assert near(written) == [(pointer, pointer.rsplit("/", 1)[1], known)]


OWN = {
    "a name that is near none": document({"retention": "P7D", "owner": "me"}),
    "a number of a version": document({"version": 3}, {"version": 3}),
    "a name that is near that of a map, and is none": document(group={"message": "x"}),
    "icon": document({"icon": "https://example.com/a.png"}),
    "a plural of what is set": document({"protocol": "HTTP", "protocols": ["HTTP"]}),
    "an extension of CloudEvents next to the attribute": document(EVENT | {"envelopemetadata": {"subject": {}, "subjectid": {}}}),
    "another envelope": document({"envelope": "Own/1.0", "envelopemetadata": {"sorce": {}}}),
    "another protocol": document({"protocol": "Own/1.0", "protocoloptions": {"topik": {}, "header": {}}}),
    "an option of another dialect": document({"protocol": "MQTT/5.0", "protocoloptions": {"topic-name": {}, "topicname": {}}}),
}


@pytest.mark.parametrize("written", OWN.values(), ids=OWN)
def test_a_name_of_your_own_is_not_reported(written):
    assert near(written) == []


def test_a_validation_of_what_is_published_says_the_same():
    # Given a message as it is published
    around = Parents(RegistryId("r"), "version", Xid(f"{MESSAGE}/versions/1"), "a.json", None, None, None)
    known = {"extensions": {"createdAt": "x", "version": 3}, "protocol": "KAFKA", "protocoloptions": {"header": {}}}
    # When
    found = [one["finding"] for one in _check_row("message", around, known)]
    # Then
    assert [(one["rule_id"], one["severity"], one["message"].split("`")[1::2]) for one in found] == [
        (MISSPELLED, "warning", ["createdAt", "createdat"]),
        (MISSPELLED, "warning", ["header", "headers"]),
    ]


@pytest.mark.parametrize("family", FAMILIES)
def test_the_known_options_of_a_protocol_are_not_reported(family):
    options: dict[str, Any] = {name: {} for name in message_options(family)}
    found = check_entity(Subject("message", {"protocol": family, "protocoloptions": options}))
    assert [one for one in found if one.rule_id == MISSPELLED] == []
