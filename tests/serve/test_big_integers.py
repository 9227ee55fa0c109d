"""Integers of more than 64 bits, which JSON may hold: wherever an attribute may have one, it is kept, compared and shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakehouse.agents.questions import CatalogQuestions, bounded
from lakehouse.compatibility import compare
from lakehouse.export.otherformats import FORMATS
from lakehouse.export.writers import WriteStyle
from lakehouse.readmodel import open_model
from lakehouse.readmodel.queries import snapshot_differences
from lakehouse.serve.apierrors import ProblemFound
from lakehouse.serve.writer.append import DeltaAppender
from lakehouse.serve.writer.process import Batches
from lakehouse.settings import read_settings
from lakehouse.site.pages.contents import all_paths, find_page
from lakehouse.site.served import Site
from lakehouse.text.jsontext import as_column_text
from serve.served import serving
from serve.writing import asks, empty_warehouse, ignore

BIG = 10**20
SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": BIG, "default": BIG, "enum": [BIG, 1]}},
}
MESSAGE = {
    "envelope": "CloudEvents/1.0",
    "envelopemetadata": {"type": {"value": "made"}},
    "protocol": "KAFKA",
    "protocoloptions": {"topic": "t", "partition": BIG},
    "dataschemaformat": "JsonSchema/draft-07",
    "dataschemauri": "#/schemagroups/s/schemas/j",
    "big": BIG,
    "deep": {"er": [BIG, {"y": BIG}]},
}
ENDPOINT = {
    "usage": ["producer"],
    "protocol": "KAFKA",
    "protocoloptions": {"topic": "t", "partition": BIG, "endpoints": [{"uri": "kafka://h:1"}]},
    "messagegroups": ["/messagegroups/g"],
    "labels": {"n": "1"},
    "deprecated": {"x": BIG},
}
LIMITS = {"type": "number", "maximum": 2**63 - 1, "minimum": -BIG, "multipleOf": 0.01, "enum": [0.5, 1]}
N = "/schemagroups/s/schemas/num/versions/1"
M = "/messagegroups/g/messages/m"
WRITES = [
    ("PUT", "/schemagroups/s/schemas/num$details", {"format": "JsonSchema/draft-07", "schema": LIMITS, "half": 0.5}),
    ("PUT", "/schemagroups/s/schemas/j$details", {"format": "JsonSchema/draft-07", "schema": SCHEMA, "big": BIG}),
    ("PUT", "/messagegroups/g", {"big": BIG, "deprecated": {"x": BIG}}),
    ("PUT", M, MESSAGE),
    ("PUT", M, MESSAGE | {"big": BIG + 1}),
    ("PATCH", f"{M}/meta", {"deprecated": {"x": BIG}}),
    ("PUT", "/endpoints/e", ENDPOINT),
    ("PUT", "/endpoints/e", ENDPOINT | {"protocoloptions": ENDPOINT["protocoloptions"] | {"partition": BIG + 1}}),
    ("PUT", "/messagegroups/g/messages/n", MESSAGE | {"dataschema": SCHEMA, "dataschemauri": None}),
    ("PUT", "/messagegroups/last", {}),
]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("big")
    empty_warehouse(folder / "warehouse")
    settings = read_settings(warehouse=str(folder / "warehouse"), readmodel_dir=str(folder / "cache"))
    with open_model(settings) as model:
        batches = Batches(model, DeltaAppender(model.location, settings), attempts=5)
        for write in WRITES:
            _, [result] = batches.commit([asks(*write)], ignore)
            assert not isinstance(result, ProblemFound), (write, result)
        yield model


def test_what_they_changed_is_found(written):
    found = {
        difference.pointer: (difference.before, difference.after)
        for number in range(1, len(WRITES))
        for difference in snapshot_differences(written, number, number + 1)
        if difference.pointer
    }
    assert found == {
        "/big": (str(BIG), str(BIG + 1)),
        "/deprecated": (None, f'{{"x":{BIG}}}'),
        "/protocoloptions/partition": (str(BIG), str(BIG + 1)),
    }


def test_pages_show_them(written):
    with written.at(len(WRITES) - 1) as view:  # of the newest snapshot definitions were not computed
        page_context = Site(written, 9).page_context(view)
        pages = [find_page(page_context, path, {}) for path in all_paths(page_context)]
    assert sum(str(BIG).encode() in page.body for page in pages if page is not None) > 5


def test_they_are_shown_together_with_numbers_that_are_no_integers(written, call):
    place = Path(written.settings.warehouse).parent
    [shown] = json.loads(call(place, "--json", "show", N).out)
    assert (shown["attributes"]["schema"], shown["attributes"]["half"]) == (LIMITS, 0.5)
    plain = call(place, "show", N).out
    assert "0.01" in plain
    assert str(BIG) in plain


@pytest.mark.parametrize(("xid", "name", "value"), [(N, "schema", LIMITS), (M, "deep", MESSAGE["deep"])])
def test_agents_read_them_as_numbers(written, xid, name, value):
    [registryid] = written.answer(lambda view: view.registries())
    answer = json.loads(bounded(CatalogQuestions(written, None, 1 << 20).document(registryid, xid)))
    assert answer[name] == value


def test_they_are_served_and_exported(written, tmp_path):
    with serving(written.settings.warehouse, tmp_path) as served:
        document = served.get("/export")
        assert list(served.get("/messagegroups/g/messages?sort=big")) == ["n", "m"]
    message = document["messagegroups"]["g"]["messages"]["m"]["versions"]["1"]
    assert (message["big"], message["deep"]) == (BIG + 1, MESSAGE["deep"])
    assert {name: str(BIG) in str(format.write(document, WriteStyle())) for name, format in FORMATS.items()} == {
        name: name != "odcs" for name in FORMATS
    }


@pytest.mark.parametrize("format", ["JsonSchema/draft-07", "JsonStructure"])
def test_schemas_that_hold_them_are_compared(format):
    other = json.loads(json.dumps(SCHEMA).replace(f'"maximum": {BIG}', f'"maximum": {BIG + 7}'))
    assert compare(SCHEMA, SCHEMA, format) == []
    assert compare(SCHEMA, SCHEMA | {"title": "t"}, format) == []
    assert {one.pointer for one in compare(SCHEMA, other, format)} <= {"/n"}


@pytest.mark.parametrize("written", [json.loads, str], ids=["value", "text"])
@pytest.mark.parametrize("format", ["JsonSchema/draft-07", "JsonStructure"])
def test_values_that_differ_in_their_last_digits_are_others(format, written):
    first, second = (written(json.dumps(SCHEMA).replace(f"[{BIG}, 1]", f"[{value}, 1]")) for value in (BIG, BIG + 7))
    assert {one.what for one in compare(first, second, format)} == {f"value {BIG} went", f"value {BIG + 7} came"}


def test_an_integer_with_an_exponent_is_the_same_value():
    assert compare({"enum": [BIG, {"a": BIG, "b": 1}]}, {"enum": [{"b": 1.0, "a": 1e20}, 1e20]}, "JsonSchema/draft-07") == []


def test_limits_that_no_double_holds_are_compared():
    limits = [{"type": "integer", "maximum": 10**400 + more} for more in (0, 1)]
    assert [one.kind for one in compare(*limits, "JsonSchema/draft-07")] == ["range-changed"]


def test_a_column_has_their_digits():
    assert as_column_text({"a": [BIG, 1e20, 0.5]}) == '{"a":[100000000000000000000,1.0E20,0.5]}'
