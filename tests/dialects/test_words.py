"""Words for people are no reason to lose an entity: one of a wrong type is left out and reported, and stays in `raw`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import body, document, errors, group, law, message, read, rows, warnings
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ingest.parse.document import ParseLimits
from lakehouse.ingest.parse.parse import Source, parser
from lakehouse.text.problems import ICON

G, E, S = "/messagegroups/g", "/endpoints/e", "/schemagroups/s"
M, T = f"{G}/messages/m", f"{S}/schemas/t"
WRONG: dict[str, list[Any]] = {
    "name": [5, {"en": "Orders"}, ["a"], True, ""],
    "description": [1.50, {"a": 1}, []],
    "documentation": [{"description": "prose", "files": ["README.md"]}, "All about it. See below.", "", 7, ["https://a.example"]],
    "icon": [{"small": "a.png"}, "a b", 5],
    "labels": ["a, b", ["a"], {"a": 1, "b": "kept by nobody"}, {"a": {"b": "c"}}, {"a": None}],
}
CASES = [pytest.param(name, value, id=f"{name}-{n}") for name, values in WRONG.items() for n, value in enumerate(values)]
# Each place in which an entity says something of itself: its document, its pointer, the row that would hold it, its rules.
PLACES: dict[str, tuple[Any, str, str, dict[str, str]]] = {
    "registry": (lambda own: document({"g": {}}) | own, "", "/",
                 {"name": "MSG-007", "description": "MSG-008", "documentation": "MSG-009", "labels": "MSG-010"}),
    "messagegroup": (lambda own: document({"g": group({"m": {}}, **own)}), G, G,
                     {"name": "MSG-025", "description": "MSG-026", "documentation": "MSG-027", "labels": "MSG-028"}),
    "endpoint": (lambda own: document(endpoints={"e": {"usage": ["subscriber"]} | own}), E, E, {}),
    "message": (lambda own: document({"g": group({"m": own})}), M, f"{M}/versions/1",
                {"name": "MSG-043", "description": "MSG-044", "documentation": "MSG-045", "labels": "MSG-046"}),
    "Version": (lambda own: document({"g": group({"m": {"versions": {"1": own, "2": {}}}})}),
                f"{M}/versions/1", f"{M}/versions/1", {}),
    "message with versions": (lambda own: document({"g": group({"m": own | {"versions": {"1": {}}}})}), M, M, {}),
    "schemagroup": (lambda own: document(schemagroups={"s": group({}, holds="schemas", **own)}), S, S, {}),
    "schema": (lambda own: document(schemagroups={"s": group({"t": own}, holds="schemas")}), T, f"{T}/versions/1", {}),
}  # fmt: skip


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("name", "value"), CASES)
def test_a_word_of_a_wrong_type_is_left_out_and_the_entity_is_loaded(place, name, value):
    place_in, pointer, xid, rules = PLACES[place]
    good, bad = read(place_in({}), rules=True), read(place_in({name: value, "x-own": 1}), rules=True)
    assert set(rows(bad)) == set(rows(good))
    assert not bad.quarantined
    found = body(bad, xid)
    assert found.pop("extensions") == {"x-own": 1}
    assert found == body(good, xid)
    raw = rows(bad)[xid].raw or rows(bad)[M].raw
    assert json.loads(raw or "")[name] == value
    reported = [one for one in errors(bad) if one.rule_id != "END-012"]
    assert {one.action for one in reported} == {"kept"}
    assert all(one.pointer.startswith(f"{pointer}/{name}") and f"`{name}` is left out" in one.message for one in reported)
    wanted = ICON if name == "icon" else rules.get(name)
    assert wanted is None or {one.rule_id for one in reported} == {wanted}


@pytest.mark.parametrize(
    "right",
    [
        {"name": "any", "description": "", "labels": {}},
        {"documentation": "https://a.example/docs", "icon": "data:image/png;base64,AAAA"},
        {"documentation": "docs/README.md", "icon": "/a.svg"},
        {"name": None, "documentation": None, "labels": None},
    ],
)
def test_words_as_they_should_be_are_reported_nothing(right):
    assert errors(read(document({"g": group({"m": right}, **right)}, name="r") | right, rules=True)) == []


def test_what_stands_at_the_message_and_is_no_word_does_not_hide_the_versions_own():
    written = {"name": 5, "labels": "x", "versions": {"1": {"name": "right", "labels": {"a": "b"}}}}
    found = body(read(document({"g": group({"m": written})})), f"{M}/versions/1")
    assert (found["name"], found["labels"]) == ("right", {"a": "b"})


def test_properties_that_are_called_like_words_are_none():
    metadata = {"name": 5, "labels": "x", "description": []}
    reading = read(document({"g": group({"m": message(envelopemetadata=metadata)})}))
    assert {(one.rule_id, one.action) for one in errors(reading)} == {("MSG-053", "quarantined"), ("MSG-115", "quarantined")}


def test_another_error_still_takes_the_entity_out():
    reading = read(document({"g": group({"m": {"name": 5, "envelope": 5}})}))
    found = {(one.pointer, one.action) for one in errors(reading)}
    assert found >= {(f"{M}/name", "quarantined"), (f"{M}/envelope", "quarantined")}
    assert M not in rows(reading)


def test_labels_that_are_there_and_wrong_are_not_reported_to_be_missing():
    reading = read(document(endpoints={"e": {"usage": ["subscriber"], "labels": 5}}), rules=True)
    assert [one.rule_id for one in warnings(reading)] == []


def test_a_word_that_stands_twice_with_different_values_is_an_error_as_ever():
    reading = read('{"messagegroups":{"g":{"name":"a","name":5}}}')
    assert {(one.rule_id, one.action) for one in errors(reading)} == {("JSON-002", "quarantined")}


@law
@given(st.sampled_from(sorted(WRONG)), st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=9),
       lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=3), one, max_size=3)))  # fmt: skip
def test_no_word_takes_anything_out(name, value):
    own = {name: value}
    written = document({"g": group({"m": own}, **own)}, {"e": {"usage": ["producer"]} | own}) | own
    reading = read(written, rules=True)
    assert not reading.quarantined
    assert set(rows(reading)) == {"/", G, M, f"{M}/versions/1", E}


def facts(strict: bool) -> dict[str, Any]:
    text = json.dumps(document({"g": group({"m": {}})}, documentation={"a": "b"})).encode()
    source = Source("file:/none/a.json", len(text), "0" * 64, None, False, False, text, None, False, False)
    limits = ParseLimits(bytes=1 << 20, unpacked=1 << 20, depth=64, entities=1000, stream=1 << 20, strict=strict)
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays([pa.array([one]) for one in source], names=list(Source._fields))
    found = [row for part in parser(limits)([batch]) for row in part.to_pylist() if row["row"] == "document"]
    return json.loads(found[0]["facts"])


def test_nothing_was_refused_so_the_document_is_not_read_again():
    found = facts(strict=False)
    assert (found["status"], "quarantined" in found, len(found["findings"])) == ("loaded", False, 1)


def test_a_strict_ingest_rejects_it():
    found = facts(strict=True)
    assert (found["status"], "MSG-009" in found["reason"]) == ("rejected", True)
