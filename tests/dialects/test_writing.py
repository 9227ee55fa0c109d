"""One definition in every dialect: read to equal rows, and written back. Laws over what each dialect can say."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from builders import as_document, errors, law, read, rows
from hypothesis import given
from hypothesis import strategies as st
from said import BASE, FORMATS, KINDS, TYPE, document_in, messages

from lakehouse.dialects.draft.writer import write_draft, write_drafts
from lakehouse.dialects.tables import WRITABLE, Loss
from lakehouse.dialects.writing import respell, to_dialect
from lakehouse.ingest.parse.draft import read_draft
from lakehouse.ingest.parse.parse import read_as
from lakehouse.ingest.parse.readings import Reading
from lakehouse.text.jsontext import read_json

DIALECTS = ("1.0-rc1", "1.0-rc2", "1.0-rc4", "0.5-wip")


def read_in(dialect: str, written: dict[str, Any], kind: str) -> Reading:
    """Read a message written in a dialect, alone in its document."""
    value, problems = read_json(json.dumps(document_in(dialect, written, kind)).encode(), 100)
    reported, reading = read_as(value, problems, "", None, rules=False)
    assert reported == dialect
    assert errors(reading) == []
    return reading


@pytest.mark.parametrize(
    ("kind", "dialect"),
    [(kind, dialect) for kind, dialects in KINDS.items() for dialect in dialects],
)
def test_one_message_gives_equal_rows_in_every_dialect(kind, dialect):
    xid = f"/messagegroups/g/messages/{TYPE}/versions/1"
    written = copy.deepcopy(KINDS[kind][dialect])
    row = rows(read_in(dialect, written, kind))[xid]
    expected = rows(read_in("1.0-rc2", copy.deepcopy(KINDS[kind]["1.0-rc2"]), kind))[xid]
    assert (row.body, row.content_hash) == (expected.body, expected.content_hash)
    assert dict(row.attributes or ()) == dict(expected.attributes or ())


# The way back


def normal_group(message: dict[str, Any], **attributes: Any) -> dict[str, Any]:
    """Return a document in normal form with one message."""
    reading = read({"specversion": "1.0-rc2", "messagegroups": {"g": attributes | {"messages": {TYPE: message}}}})
    assert errors(reading) == []
    return as_document(reading)


@pytest.mark.parametrize(
    ("kind", "dialect"), [(kind, dialect) for kind in KINDS for dialect in KINDS[kind] if dialect in DIALECTS]
)
def test_what_a_dialect_is_written_as_is_read_to_the_same_rows(kind, dialect):
    normal = normal_group(KINDS[kind]["1.0-rc2"])
    written, losses = respell(normal | {"specversion": "1.0-rc2"}, dialect)
    assert losses == []
    assert written["specversion"] == dialect
    assert hashes(read(written | {"specversion": dialect}), dialect, written) == hashes(read(normal), "", normal)


def hashes(reading: Reading, dialect: str, document: Any) -> dict[str, str]:
    if dialect:
        value, problems = read_json(json.dumps(document).encode(), 100)
        reading = read_as(value, problems, "", dialect, rules=False)[1]
    assert errors(reading) == []
    return {row.xid: row.content_hash for row in reading.rows if row.kind != "registry"}


def test_05_has_its_own_words():
    """WIP-001, WIP-007, WIP-010, WIP-011, WIP-016 to WIP-019, WIP-048, WIP-055, WIP-056, WIP-059, WIP-061."""
    message = {"meta": {"defaultversionsticky": True}, "basemessage": BASE, "protocol": "KAFKA",
               "dataschema": {}, "dataschemaformat": "x/1", "protocoloptions": {"key": "k", "topic": "t"}}  # fmt: skip
    written, losses = respell({"specversion": "1.0-rc2", "messagegroups": {"g": {"messages": {"m": message}}}}, "0.5-wip")
    assert losses == []
    assert written == {"specversion": "0.5-wip", "messagegroups": {"g": {"messages": {"m": {
        "defaultversionsticky": True, "basemessageurl": "#" + BASE, "protocol": "KAFKA", "schema": {}, "schemaformat": "x/1",
        "protocoloptions": {"key": {"value": "aw=="}, "topic": {"value": "t"}}}}}}}  # fmt: skip


def test_rc4_has_its_own_words():
    message = {"versions": {"1": {"ancestor": "1"}}}
    endpoint = {"protocol": "AMQP/1.0", "protocoloptions": {"authorization": {"type": "SASL"}, "distributionmode": "copy"}}
    written, losses = respell({"messagegroups": {"g": {"messages": {"m": message}}}, "endpoints": {"e": endpoint}}, "1.0-rc4")
    assert losses == []
    assert written["messagegroups"]["g"]["messages"]["m"]["versions"]["1"] == {"ancestorid": "1"}
    assert written["endpoints"]["e"]["protocoloptions"] == {"authorization": [{"type": "SASL"}], "distribution-mode": "copy"}


def test_what_05_cannot_say_is_reported():
    """WIP-002 to WIP-006, WIP-014, WIP-015, WIP-020, WIP-021."""
    versions = {
        "1": {"ancestor": "1"},
        "2": {"ancestor": "2", "datacontenttype": "a/b", "dataschemaxid": "/schemagroups/g/schemas/s"},
    }
    message = {"xid": "/x", "meta": {"compatibility": "none"}, "versions": versions}
    written, losses = respell(
        {"capabilities": {}, "messagegroups": {"g": {"deprecated": {}, "messages": {"m": message}}}}, "0.5-wip"
    )
    here = "/messagegroups/g/messages/m"
    assert sorted(loss[:2] for loss in losses) == [
        ("/capabilities", "WIP-004"),
        ("/messagegroups/g/deprecated", "WIP-006"),
        (f"{here}/meta/compatibility", "WIP-015"),
        (f"{here}/versions/2/ancestor", "WIP-014"),
        (f"{here}/versions/2/datacontenttype", "WIP-021"),
        (f"{here}/versions/2/dataschemaxid", "WIP-020"),
    ]
    assert written == {"messagegroups": {"g": {"messages": {"m": {"versions": {"1": {}, "2": {}}}}}}}


def test_a_group_alone_is_written_as_in_its_registry():
    document = normal_group(KINDS["Kafka"]["1.0-rc2"])
    for dialect in DIALECTS:
        whole, _ = respell(document, dialect)
        alone, _ = respell(document["messagegroups"]["g"], dialect, "messagegroup")
        assert whole["messagegroups"]["g"] == alone


# The draft


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "cncf-catalog" in KINDS[kind]])
def test_a_group_of_the_draft_is_read_to_the_same_rows(kind):
    """CAT-010, CAT-011, CAT-070."""
    message = copy.deepcopy(KINDS[kind]["1.0-rc2"])
    own = {key: message[key] for key in ("envelope", "protocol") if key in message}
    normal = normal_group(message, **own)
    written, losses = write_drafts(normal)
    assert losses == []
    assert [one["format"] for one in written[0]["messagedefinitions"][TYPE]["versions"].values()] == [FORMATS[kind]]
    reading = read_draft(written, [], "", rules=False)
    assert errors(reading) == []
    assert {row.xid: row.content_hash for row in reading.rows} == hashes(read(normal), "", normal)


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"name": "n"}, "/versions/1/name"),
        ({"basemessage": BASE}, "/versions/1/basemessage"),
        ({"labels": {"a": "b"}}, "/versions/1/labels/a"),
        ({"protocol": "HTTP", "protocoloptions": {"method": "GET"}}, "/versions/1/protocoloptions"),
        ({"meta": {"compatibility": "none"}}, "/meta/compatibility"),
        ({"datacontenttype": "a/b"}, "/versions/1/datacontenttype"),
        ({"envelopemetadata": {"type": {"value": "other"}}}, "/versions/1"),
        (
            {"envelopemetadata": {"type": {"value": TYPE}, "x": {"value": 5, "type": "integer"}}},
            "/versions/1/envelopemetadata/x/value",
        ),
        ({"versionid": "v1"}, "/versions/v1"),
    ],
)
def test_what_the_draft_cannot_say_is_reported(change, pointer):
    message = copy.deepcopy(KINDS["CloudEvents"]["1.0-rc2"]) | change
    written, losses = write_draft(normal_group(message, envelope="CloudEvents/1.0")["messagegroups"]["g"], "g")
    assert f"/messages/{TYPE}{pointer}" in [loss.pointer for loss in losses]
    assert errors(read_draft(written, [], "", rules=False)) == []


def test_one_function_writes_all_dialects():
    document = normal_group(KINDS["MQTT"]["1.0-rc2"], protocol="MQTT/5.0")
    groups = document["messagegroups"]
    for dialect in ("1.0-rc1", "1.0-rc2", "1.0-rc4", "0.5-wip"):
        assert to_dialect(document, dialect) == respell(document, dialect)
        assert to_dialect(groups["g"], dialect, "messagegroup") == respell(groups["g"], dialect, "messagegroup")
    assert to_dialect(document, "cncf-catalog") == write_drafts(document)
    assert to_dialect({"messagegroupid": "g"} | groups["g"], "cncf-catalog", "messagegroup") == write_draft(groups["g"], "g")
    assert to_dialect({}, "cncf-catalog", "endpoint")[1] == [Loss("", "CAT-011", "cncf-catalog has no endpoint")]
    assert "cereg" not in WRITABLE
    with pytest.raises(ValueError, match="cereg"):
        to_dialect(document, "cereg")


# Laws


def without(document: Any, losses: list[Loss]) -> Any:
    """Take what was lost out of a document in normal form."""
    found = copy.deepcopy(document)
    for loss in losses:
        holder = found
        *tokens, last = [token.replace("~1", "/").replace("~0", "~") for token in loss.pointer.split("/")[1:]]
        for token in tokens:
            holder = holder.get(token, {}) if isinstance(holder, dict) else {}
        if isinstance(holder, dict):
            holder.pop(last, None)
    return found


@law
@given(messages(), st.sampled_from(DIALECTS))
def test_normal_form_to_dialect_to_normal_form_is_the_identity_on_what_the_dialect_can_say(message, dialect):
    reading = read({"messagegroups": {"g": {"messages": {TYPE: message}}}})
    if errors(reading):
        return
    normal = as_document(reading)
    before = copy.deepcopy(normal)
    written, losses = respell(normal, dialect)
    assert normal == before
    assert hashes(reading, dialect, written) == hashes(reading, "1.0-rc2", without(normal, losses))


@law
@given(messages())
def test_normal_form_to_the_draft_to_normal_form_is_the_identity_when_nothing_is_lost(message):
    reading = read({"messagegroups": {"g": {"protocol": message["protocol"], "messages": {TYPE: message}}}})
    if errors(reading):
        return
    normal = as_document(reading)
    written, losses = write_drafts(normal)
    back = read_draft(written, [], "", rules=False)
    assert errors(back) == []
    if not losses:
        assert {row.xid: row.content_hash for row in back.rows} == hashes(reading, "1.0-rc2", normal)


def test_an_empty_set_of_labels_is_reported_as_lost_in_the_draft():
    reading = read({"messagegroups": {"g": {"protocol": "NATS", "messages": {TYPE: {"protocol": "NATS", "labels": {}}}}}})
    _, losses = write_drafts(as_document(reading))
    assert [loss.rule_id for loss in losses] == ["CAT-031"]
