"""What was found sound is not looked at again, and what was not is reported each time."""

from __future__ import annotations

from lakehouse.rules.entity import constraints
from lakehouse.rules.entity.constraints import Subject, ValidatedCache
from lakehouse.rules.entity.engine import check_entity


def rules_of(**known):
    found = [one.rule_id for one in check_entity(Subject("message", known, "m"))]
    return [rule_id for rule_id in found if rule_id != "MSG-110"]  # an envelope of one's own is worth reporting, and no fault


def test_a_fault_is_reported_each_time_and_beside_sound_ones():
    event = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"id": {"required": False}, "time": {"type": "timestamp"}}}
    assert rules_of(**event) == rules_of(**event) == ["MSG-252"]
    assert rules_of(envelope="CloudEvents/1.0", envelopemetadata={"time": {"type": "timestamp"}}) == []


def test_one_declaration_is_another_one_in_another_envelope_and_under_another_protocol():
    metadata = {"ID": {"type": "integer", "value": 2**40}}
    assert rules_of(envelope="Own/1", envelopemetadata=metadata) == []
    assert rules_of(envelope="CloudEvents/1.0", envelopemetadata=metadata) == ["MSG-236", "MSG-213"]
    options = {"payload_format": {"type": "integer", "value": 1}}
    assert rules_of(protocol="MQTT/5.0", protocoloptions=options) == []
    assert rules_of(protocol="MQTT/3.1.1", protocoloptions=options) == ["MSG-347"]


def test_a_message_that_names_no_protocol_has_that_of_its_group():
    options = {"payload_format": {"type": "integer", "value": 1}}
    for protocol, expected in (("MQTT/5.0", []), ("MQTT/3.1.1", ["MSG-347"]), (None, [])):
        subject = Subject("message", {"protocoloptions": options}, "m", "MQTT", group_protocol=protocol)
        assert [one.rule_id for one in check_entity(subject)] == expected


def test_true_is_not_one():
    for value, expected in ((1, []), (True, ["MSG-213"]), (1, [])):
        assert rules_of(envelope="Own/1", envelopemetadata={"n": {"type": "integer", "value": value}}) == expected


def test_a_text_that_passed_passes_and_another_does_not():
    for _ in range(2):
        assert rules_of(datacontenttype="application/json") == []
        assert rules_of(datacontenttype="no media type") == ["MSG-192"]


def test_no_more_is_remembered_than_a_worker_can_hold(monkeypatch):
    monkeypatch.setattr(constraints, "_MOST", 10)
    remembered = ValidatedCache()
    for number in range(100):
        members = remembered.unvalidated(number % 7, {f"n{number}": {"value": number}, "long": "x" * 1000})
        remembered.add(number % 7, members, ())
        assert sum(map(len, remembered._texts.values())) <= 12
    assert list(remembered.unvalidated(99 % 7, {"n99": {"value": 99}, "long": "x" * 1000})) == ["long"]
