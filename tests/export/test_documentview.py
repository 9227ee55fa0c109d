"""Rows become JSON and come back: without Spark, on documents of our own and on the published ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from builders import NOW, document, errors, group, ids, json_values, law, message, message_document, read, stored
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dialects.detection import not_a_registry
from lakehouse.export.run import Trailer, write_lines
from lakehouse.export.view import Stored, Urls, as_bytes, nested, registry_view
from lakehouse.export.writers import WriteStyle
from lakehouse.ingest.parse.readings import Reading
from lakehouse.text.xid import as_xid


def exported(rows: list[Stored], style: WriteStyle | None = None) -> dict[str, Any]:
    """Join the lines to one document, as an export does."""
    style = style or WriteStyle()
    *lines, last = write_lines(rows, style)
    text = b"".join(line + b"\n" for line in lines)
    trailer = Trailer.parse(last[:-12])
    assert len(last) == int(last[-12:]) + 12
    assert not trailer.roots or trailer.roots == [row for row in rows if row.kind == "registry"]
    root = trailer.roots[0] if trailer.roots else None
    written = (
        json.loads(root.raw or root.body)
        if style.source and root
        else json.loads(as_bytes(registry_view("r", root, (NOW, NOW), Urls())))
    )
    for run in trailer.runs:
        part = json.loads(b"{" + text[run.offset : run.offset + run.length] + b"}")
        assert len(part) == run.groups
        written.setdefault(run.collection, {}).update(part)
    return written


def facts(reading: Reading) -> dict[tuple[str, str], tuple[str, str, Any]]:
    return {(row.kind, row.xid): (row.content_hash, row.body, row.attributes and sorted(row.attributes)) for row in reading.rows}


def check_round_trip(reading: Reading) -> None:
    rows = stored(reading)
    written = exported(rows)
    again = read(json.dumps(written))
    assert facts(again) | {("registry", "/"): 0} == facts(reading) | {("registry", "/"): 0}
    assert {(row.xid, row.epoch, row.createdat, row.modifiedat) for row in rows} <= {
        (row.xid, row.epoch, row.createdat, row.modifiedat) for row in again.rows
    }
    assert exported(stored(again)) == written
    assert facts(read(json.dumps(exported(rows, WriteStyle(source=True))))) | {("registry", "/"): 0} == facts(reading) | {
        ("registry", "/"): 0
    }


SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
PATHS = sorted(path for path in SAMPLES.glob("*/*") if path.suffix in (".json", ".cereg"))
MESSAGE = "/messagegroups/g/messages/m"


def view(written: dict[str, Any], **group_attributes: Any) -> dict[str, Any]:
    """Return the exported form of one message."""
    reading = read(message_document(written, **group_attributes))
    assert errors(reading) == []
    check_round_trip(reading)
    return exported(stored(reading))["messagegroups"]["g"]["messages"]["m"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_each_sample_comes_back(path):
    if not_a_registry(json.loads(path.read_text(encoding="utf-8"))) is None:
        check_round_trip(read(path.read_bytes()))


# Differences between a source and its export that docs/export.md reports: where and what the source has
_COMPUTED = re.compile(r"/(self|shortself|xid|specversion|registryid|\w+(url|count))\Z")
_ALLOWED = [
    lambda where, value, left_out: (
        bool(_COMPUTED.search(where)) and not where.endswith(("schemaurl", "dataschemaurl", "basemessageurl"))
    ),
    lambda where, value, left_out: where == "/id",  # the registry's
    lambda where, value, left_out: where.startswith(tuple(left_out)),  # words of a wrong type
    lambda where, value, left_out: value in ("None", "Kafka"),  # values of the normal form
    lambda where, value, left_out: where.endswith("/headers/type"),  # shaped like a JSON Schema
    lambda where, value, left_out: where.endswith(f"/headers/{value}/name"),  # the key reports it
    lambda where, value, left_out: bool(
        re.search(r"/schemas/[^/]+/(modifiedat|description)\Z", where)
    ),  # the Version has another
    lambda where, value, left_out: (
        bool(re.search(r"(createdat|modifiedat)\Z", where)) and value[-1] not in "Zz" and "+" not in value
    ),
]


def _scalars(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _scalars(member, f"{where}/{key}")
    elif isinstance(value, list):
        for member in value:
            yield from _scalars(member, where)
    elif value is not None:
        yield where, value


@pytest.mark.parametrize("path", PATHS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_no_value_of_a_sample_is_lost(path):
    source = json.loads(path.read_text(encoding="utf-8"))
    if not_a_registry(source) is not None:
        return
    reading = read(path.read_bytes())
    rows = stored(reading)
    left_out = [finding.pointer for finding in reading.findings if finding.severity == "error" and finding.action == "kept"]
    written = {json.dumps(value) for _, value in _scalars(exported(rows))}

    def is_there(value: Any) -> bool:
        reference = as_xid(value) if isinstance(value, str) else None
        return json.dumps(value) in written or (reference is not None and json.dumps(reference) in written)

    lost = [(where, value) for where, value in _scalars(source) if not is_there(value)]
    assert [found for found in lost if not any(allowed(*found, left_out) for allowed in _ALLOWED)] == []


def test_a_message_shows_its_default_version_its_meta_and_its_versions():
    written = view(
        {
            "versions": {"1": {"name": "old", "x": 1}, "2": {"name": "new", "x": 2, "deprecated": {"removal": "never"}}},
            "meta": {"readonly": True, "y": None},
        }
    )
    here = "#/messagegroups/g/messages/m"
    assert (written["messageid"], written["versionid"], written["self"], written["xid"]) == ("m", "2", here, MESSAGE)
    assert (written["name"], written["x"], written["ancestor"]) == ("new", 2, "1")
    assert "isdefault" not in written
    assert "deprecated" not in written  # it is its default Version's, not its own
    assert written["metaurl"] == written["meta"]["self"] == here + "/meta"
    assert (written["meta"]["defaultversionid"], written["meta"]["defaultversionurl"]) == ("2", here + "/versions/2")
    assert (written["meta"]["readonly"], written["meta"]["y"]) == (True, None)
    assert (written["versionsurl"], written["versionscount"], list(written["versions"])) == (here + "/versions", 2, ["1", "2"])
    assert [(one["isdefault"], one["name"], one["x"]) for one in written["versions"].values()] == [
        (False, "old", 1),
        (True, "new", 2),
    ]
    assert written["versions"]["2"]["deprecated"] == {"removal": "never"}


def test_an_alias_has_its_meta_only():
    written = view({"meta": {"xref": "/messagegroups/h/messages/n"}})
    assert written["meta"]["xref"] == "/messagegroups/h/messages/n"
    assert set(written) == {"messageid", "self", "xid", "metaurl", "meta"}


def test_the_root_and_groups_have_urls_and_counts():
    written = exported(stored(read(document({"g": group({}, color="red")}, {"e": {"usage": ["producer"]}}, registryid="other"))))
    assert written["registryid"] == "r"
    assert (written["self"], written["xid"], written["epoch"]) == ("#", "/", 1)
    assert written["messagegroups"]["g"] == {
        "messagegroupid": "g",
        "self": "#/messagegroups/g",
        "xid": "/messagegroups/g",
        "epoch": 1,
        "createdat": "2023-11-14T22:13:20.123456Z",
        "modifiedat": "2023-11-14T22:13:20.123456Z",
        "color": "red",
        "messagesurl": "#/messagegroups/g/messages",
        "messages": {},
        "messagescount": 0,
    }
    assert written["endpoints"]["e"]["messagescount"] == 0


def test_references_into_the_document_are_json_pointers():
    rows = stored(read(document({"a~b": group({"m": message()})})))
    assert exported(rows)["messagegroups"]["a~b"]["self"] == "#/messagegroups/a~0b"


def test_urls_stand_below_a_base():
    assert Urls("https://example.com/reg/").url_of("messagegroups", "g") == "https://example.com/reg/messagegroups/g"


@pytest.mark.parametrize(
    ("protocol", "options", "shown"),
    [
        ("MQTT/5.0", {"qos": 1, "topic_name": {"value": "t", "required": True}}, None),
        ("MQTT/5.0", {"unknown": {"value": 1}}, None),
        ("HTTP", {"method": "POST", "query": {"q": "1"}, "headers": [{"name": "a", "value": "b"}]}, None),
        ("KAFKA", {"key": {"value": {"a": 1}}, "topic": {"value": None}, "headers": {"h": "v"}}, None),
        ("KAFKA", {"headers": {"type": {"value": "object"}, "properties": {"value": 1, "required": True}}}, None),
        ("AMQP/1.0", {"properties": {"subject": {"value": "s"}}}, None),
        ("NATS", {"subject": {"value": "s"}}, {"subject": "s"}),
        (None, {"anything": {"value": 1}}, None),
    ],
)
def test_declarations_that_hold_only_a_value_are_bare_except_in_amqp(protocol, options, shown):
    written = view({"protocol": protocol, "protocoloptions": options})
    assert written["protocoloptions"] == (shown or options)


def test_the_groups_protocol_decides_how_options_are_written():
    assert view({"protocoloptions": {"qos": 1}}, protocol="MQTT/5.0")["protocoloptions"] == {"qos": 1}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2024-01-01T12:00:00+02:00", "2024-01-01T12:00:00+02:00"),
        ("2024-01-01T12:00:00.1234567Z", "2024-01-01T12:00:00.1234567Z"),
        ("2024-01-01T12:00:00.5", "2024-01-01T12:00:00.5Z"),
        ("2024-01-01T12:00:00", "2024-01-01T12:00:00Z"),
    ],
)
def test_declared_dates_are_spelled_as_written(text, shown):
    assert view({"createdat": text})["createdat"] == shown
    assert view({"createdat": text, "versions": {"1": {}}})["versions"]["1"]["createdat"] == shown
    assert view({"meta": {"createdat": text}})["meta"]["createdat"] == shown


def test_numbers_and_opaque_values_are_exact():
    text = '{"messagegroups":{"g":{"messages":{"m":{"x":1e16,"big":123456789012345678901234,"dataschema":{"b":1.10,"a":null}}}}}}'
    *lines, _ = write_lines(stored(read(text)), WriteStyle())
    assert b'"dataschema":{"a":null,"b":1.1}' in lines[1]
    assert b'"big":123456789012345678901234' in lines[1]
    assert b'"x":1e+16' in lines[1]
    *lines, _ = write_lines(stored(read(text)), WriteStyle(source=True))
    assert b'{"x":1e16,"big":123456789012345678901234,"dataschema":{"b":1.10,"a":null}}' in lines[1]


def test_members_of_a_pruned_group_are_written_under_its_id():
    rows = [row for row in stored(read(message_document({"name": "n"}))) if row.kind in ("message", "version")]
    written = exported(rows)
    assert written["messagegroups"]["g"]["messagegroupid"] == "g"
    assert written["messagegroups"]["g"]["messages"]["m"]["name"] == "n"
    assert (written["epoch"], written["createdat"]) == (1, "2023-11-14T22:13:20.123456Z")


def test_versions_of_a_pruned_message_are_written():
    rows = [row for row in stored(read(message_document({"name": "n"}))) if row.kind == "version"]
    assert exported(rows)["messagegroups"]["g"]["messages"]["m"]["versions"]["1"]["name"] == "n"


def test_each_group_can_be_a_run_of_its_own():
    rows = stored(read(document({"a": group({"m": message()}), "b": group({})}, {"e": {}}, {"s": {}})))
    *lines, last = write_lines(rows, WriteStyle(by_group=True))
    text = b"".join(line + b"\n" for line in lines)
    runs = Trailer.parse(last[:-12]).runs
    assert [(run.collection, run.groupid, run.groups, run.members) for run in runs] == [
        ("endpoints", "e", 1, 0),
        ("messagegroups", "a", 1, 1),
        ("messagegroups", "b", 1, 0),
        ("schemagroups", "s", 1, 0),
    ]
    for run in runs:
        assert list(json.loads(b"{" + text[run.offset : run.offset + run.length] + b"}")) == [run.groupid]


def test_leaves_become_the_object_that_they_came_from():
    leaves = {"/a/b~1c": "1", "/a/d": "{}", "/e": "[1.5]", "/f": '"x"'}
    assert nested(leaves.items()) == {"a": {"b/c": 1, "d": {}}, "e": [1.5], "f": "x"}


# Laws

_names = st.sampled_from(["a", "type", "properties", "qos", "method", "value", "name", "versions", "x~/y"])
_options = st.dictionaries(_names, json_values, max_size=3)
_attributes = st.fixed_dictionaries(
    {},
    optional={
        "protocol": st.sampled_from(["MQTT/5.0", "KAFKA", "HTTP", "NATS", "AMQP/1.0", "other"]),
        "protocoloptions": _options | st.fixed_dictionaries({"headers": json_values, "query": _options}),
        "envelopemetadata": st.dictionaries(_names, st.dictionaries(_names, json_values, max_size=3), max_size=2),
        "dataschema": json_values,
        "x-acme": json_values,
        "createdat": st.datetimes().map(lambda moment: moment.isoformat() + "Z"),
        "epoch": st.integers(1, 2**40),
        "deprecated": st.fixed_dictionaries({}, optional={"removal": st.just("x")}),
        "labels": st.dictionaries(_names, st.text("xy", max_size=3), max_size=2),
    },
)


def _with_protocols(message: dict[str, Any]) -> dict[str, Any]:
    """Drop options that an export writes with another protocol than the one they are read under, or with none."""
    versions = {
        versionid: {key: value for key, value in one.items() if key != "protocoloptions" or "protocol" in one}
        for versionid, one in message.get("versions", {}).items()
    }
    if not versions:
        return message
    return {key: value for key, value in message.items() if not key.startswith("protocol")} | {"versions": versions}


_messages = st.builds(
    lambda own, more: _with_protocols(own | more),
    _attributes,
    st.fixed_dictionaries(
        {},
        optional={
            "versions": st.dictionaries(ids, _attributes, min_size=1, max_size=3),
            "meta": st.dictionaries(st.sampled_from(["readonly", "x", "authority"]), st.just(None) | st.booleans(), max_size=2),
        },
    ),
)


@law
@given(st.dictionaries(ids, _messages, max_size=2), st.sampled_from([{}, {"protocol": "MQTT/3.1.1"}, {"protocol": "KAFKA"}]))
def test_what_was_read_comes_back(messages, group_attributes):
    check_round_trip(read(document({"g": group(messages, **group_attributes)})))


@law
@given(st.dictionaries(ids, json_values, max_size=4), st.dictionaries(ids, json_values, max_size=4))
def test_roots_and_endpoints_come_back(root, endpoint):
    check_round_trip(read({**root, "endpoints": {"e": endpoint}}))
