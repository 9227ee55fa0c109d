"""Schemas of payloads by their counts: additive, the same in any order, and with the types and required members of GenSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import law
from genson import SchemaBuilder
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.match.payload.schemas import Resolved
from lakehouse.match.payload.validators import make_validator
from lakehouse.propose.decided import Observed, Thresholds
from lakehouse.propose.pathcounts import KindCounts
from lakehouse.propose.payloadschema import FORMAT, payload_schema

ANY = Thresholds(required_events=1, required_days=0, map_keys=1_000)
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.just(1.5) | st.sampled_from(["a", "b", "2026-01-01"])
NAMES = st.sampled_from(["name", "kind", "x/y", "~z", "*", "{}"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
OBJECTS = st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=8)


def counted(values, keeps_values=True):
    counts = KindCounts(keeps_values)
    counts.count("/data", values)
    return counts.counts


def schema_of(values, thresholds=ANY, day="2026-01-01"):
    return payload_schema(Observed.of("k", {day: counted(values)}), thresholds).schema


def shape(schema: dict[str, Any], at: str = "") -> set[tuple[str, str]]:
    """Return the types and the required members at each path of a schema."""
    found: set[tuple[str, str]] = set()
    for one in schema.get("anyOf", [schema]):
        kinds = one.get("type", [])
        found |= {(at, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)}
        found |= {(f"{at}/{json.dumps(name)}", "required") for name in one.get("required", [])}
        for name, member in one.get("properties", {}).items():
            found |= shape(member, f"{at}/{json.dumps(name)}")
        if one.get("items"):
            found |= shape(one["items"], f"{at}[]")
    return found


@law
@given(OBJECTS)
def test_types_and_required_members_are_those_of_genson(objects):
    oracle = SchemaBuilder()
    for one in objects:
        oracle.add_object(one)
    assert shape(schema_of(objects)) == shape(oracle.to_schema())


@law
@given(OBJECTS, st.integers(0, 8), st.randoms())
def test_counts_of_parts_add_up_to_those_of_the_whole(objects, at, random):
    whole = Observed.of("k", {"d": counted(objects)})
    parts = [counted(part) for part in (objects[:at], objects[at:]) if part]
    random.shuffle(parts)
    total = KindCounts()
    for part in parts:
        total.add(part)
    assert total.counts == whole.counts
    assert json.dumps(payload_schema(Observed.of("k", {"d": total.counts}), ANY).schema) == json.dumps(
        payload_schema(whole, ANY).schema
    )


def test_a_member_is_required_after_enough_objects_on_enough_days():
    every = [{"id": "a", "note": "x"}, {"id": "b"}] * 500
    one_day = Observed.of("k", {"2026-01-01": counted(every)})
    two_days = Observed.of("k", {"2026-01-01": counted(every[:500]), "2026-01-02": counted(every[500:])})
    assert "required" not in payload_schema(one_day, Thresholds()).schema
    assert payload_schema(two_days, Thresholds()).schema["required"] == ["id"]


def test_a_rare_type_is_an_outlier_and_not_declared():
    observed = Observed.of("k", {"d": counted([{"n": 1}] * 1999 + [{"n": "one"}])})
    decided = payload_schema(observed, Thresholds())
    assert decided.schema["properties"]["n"]["type"] == "integer"
    assert decided.outliers == {"/data/n string": 1}


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([{"by": {str(number): {"n": number}}} for number in range(400)], id="ids"),
        pytest.param([{"by": {f"name{chr(97 + n % 26)}{chr(97 + n // 26)}": {"n": n}}} for n in range(400)], id="too many"),
        pytest.param([{"by": {f"name{chr(97 + n % 25)}": {"n": n}}} for n in range(100)], id="each is rare"),
    ],
)
def test_keys_that_are_ids_are_those_of_a_map(objects):
    by = schema_of(objects, Thresholds(required_events=1, required_days=0))["properties"]["by"]
    assert by["additionalProperties"]["properties"] == {"n": {"type": "integer"}}
    assert "properties" not in by


@pytest.mark.parametrize("keys", [25, 300], ids=["each is rare", "too many on all days"])
def test_values_of_a_map_are_an_enumeration_where_wanted(keys):
    names = [f"name{chr(97 + number % 26)}{chr(97 + number // 26)}" for number in range(keys)]
    events = [{"by": {names[number % keys]: "on" if number % 2 else "off"}} for number in range(1_200)]
    half = keys // 2 if keys > 200 else keys  # neither day alone has too many keys
    days = [[one for one in events if next(iter(one["by"])) in some] for some in (names[:half], names[-half:])]
    observed = Observed.of("k", {f"2026-01-0{day}": counted(some) for day, some in enumerate(days, 1)})
    schema = payload_schema(observed, Thresholds(enums=True)).schema
    assert schema["properties"]["by"]["additionalProperties"] == {"type": "string", "enum": ["off", "on"]}


def test_members_of_the_values_of_a_map_are_required_by_the_days_of_the_map():
    events = [{"by": {f"name{chr(97 + number % 25)}": {"n": 1}}} for number in range(600)]
    observed = Observed.of("k", {f"2026-01-0{day}": counted(events) for day in (1, 2)})
    by = payload_schema(observed, Thresholds()).schema["properties"]["by"]
    assert by["additionalProperties"]["required"] == ["n"]


def test_paths_of_a_kind_have_a_limit():
    objects = [{f"{chr(97 + n)}": {f"{chr(97 + n)}{m}x": {"v": 1, "w": 2} for m in range(90)}} for n in range(12)]
    observed = Observed.of("k", {"d": counted(objects)})
    assert len({path for path, _ in observed.counts}) <= 1000


def test_depth_has_a_limit():
    value: Any = 1
    for _ in range(40):
        value = {"in": value}
    assert max(path.count("/") for path, _ in counted([value])) == 12


def test_values_are_examples_and_enumerations_only_where_wanted():
    days = {f"2026-01-0{day}": counted([{"state": "on"}, {"state": "off"}] * 300) for day in (1, 2)}
    observed = Observed.of("k", days)
    assert payload_schema(observed, Thresholds()).schema["properties"]["state"]["examples"] == ["off", "on"]
    assert payload_schema(observed, Thresholds(enums=True)).schema["properties"]["state"]["enum"] == ["off", "on"]
    later = Observed.of("k", days | {"2026-01-03": counted([{"state": "gone"}])})
    assert "enum" not in payload_schema(later, Thresholds(enums=True)).schema["properties"]["state"]


def test_a_format_needs_all_texts_and_enough_of_them():
    dates = [{"at": f"2026-01-{day:02}T00:00:00Z"} for day in range(1, 29)]
    assert schema_of(dates, Thresholds())["properties"]["at"]["format"] == "date-time"
    assert "format" not in schema_of(dates[:19], Thresholds())["properties"]["at"]
    assert "format" not in schema_of([*dates, {"at": "soon"}], Thresholds())["properties"]["at"]


@pytest.mark.parametrize(
    "text",
    [
        "item:[{}]", "discount{}:5%", "a:b#c#{}", "a..{}@x.com", "a{}.@x.com", "10:00:{:02}+24:00", "2026-01-01T10:{:02}:60Z",
        "2026-02-{:02}",
    ],
)  # fmt: skip
@pytest.mark.parametrize("number_of_texts", [30, 40], ids=["values are kept", "values are not kept"])
def test_a_schema_takes_the_texts_that_it_was_made_of(text, number_of_texts):
    values = [{"v": text.format(number)} for number in range(1, number_of_texts + 1)]
    validator = make_validator(Resolved("x", FORMAT, json.dumps(schema_of(values, Thresholds()))), lambda _: None)
    assert [one for one in values if validator.errors(one)] == []


def test_secrets_are_never_kept_and_no_value_without_permission():
    secret = {"password": "a", "note": "Bearer abcdefghijklmnop1", "state": "on", "n": 5}
    counts = counted([secret])
    assert {path: one.values for (path, kind), one in counts.items() if kind != "object"} == {
        "/data/password": None, "/data/note": None, "/data/state": {"on": 1}, "/data/n": {"5": 1},
    }  # fmt: skip
    hidden = counted([secret], keeps_values=False)
    assert all(not one.values and one.least is None for (_, kind), one in hidden.items() if kind != "object")


@pytest.mark.parametrize("make", [str, float], ids=["texts", "numbers"])
def test_distinct_values_are_estimated_where_they_are_many(make):
    counts = counted([make(number) for number in range(20_000)])
    (one,) = counts.values()
    assert one.values is None
    assert 15_000 < one.distinct < 25_000
