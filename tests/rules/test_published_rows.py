"""What is published is judged with the protocol of its group as an ingest reads it."""

from __future__ import annotations

from lakehouse.rules.published import Parents, _check_row
from lakehouse.text.names import RegistryId, Xid


def broken(protocol):
    around = Parents(RegistryId("r"), "version", Xid("/messagegroups/g/messages/m/versions/1"), "a.json", None, None, protocol)
    found = _check_row("message", around, {"protocoloptions": {"qos": {"value": 9}}})
    return [(one["finding"]["rule_id"], one["finding"]["message"]) for one in found]


def test_blanks_in_the_name_of_a_groups_protocol_are_no_part_of_it():
    assert broken("MQTT /5.0") == broken("mqtt/5.0")
    assert broken("MQTT/5.0") != broken("KAFKA")
