"""Published schemas, each with mutations of known effect; without the samples, schemas made up for this test."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path

from lakehouse.compatibility import judge

SAMPLES = Path(__file__).parents[3] / "shared" / "samples"
NOBODY, READERS, WRITERS, BOTH = ("no", "no"), ("yes", "no"), ("no", "yes"), ("yes", "yes")
OWN_JSON = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "count": {"type": "integer"}, "place": {"type": "object", "properties": {}}},
    "required": ["id"],
}
OWN_AVRO = {"type": "record", "name": "Own", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": ["null", "int"]}]}
MOST = 20  # of each format


def schemas_in(value) -> Iterator[tuple[str, dict]]:
    """Return the schemas of a document with their formats."""
    if isinstance(value, dict):
        format_, schema = value.get("format") or value.get("dataschemaformat"), value.get("schema") or value.get("dataschema")
        if isinstance(schema, dict) and isinstance(format_, str):
            yield format_, schema
        for one in value.values():
            yield from schemas_in(one)
    elif isinstance(value, list):
        for one in value:
            yield from schemas_in(one)


def real_schemas() -> list[tuple[str, dict]]:
    """Return objects of JSON Schema and records of Avro, different ones."""
    found: dict[str, tuple[str, dict]] = {}
    for path in sorted(SAMPLES.glob("*/*.xreg.json")):
        for format_, schema in schemas_in(json.loads(path.read_text(encoding="utf-8"))):
            is_json = format_.lower().startswith("jsonschema") and len(plain_members(schema)) > 1
            if is_json or (format_.lower().startswith("avro") and schema.get("type") == "record" and len(schema["fields"]) > 1):
                found.setdefault(json.dumps(schema, sort_keys=True), ("json" if is_json else "avro", schema))
    chosen = [[one for one in found.values() if one[0] == name][:MOST] for name in ("json", "avro")]
    return [one for each in chosen for one in each] + [("json", OWN_JSON), ("avro", OWN_AVRO)]


def plain_members(schema: dict) -> list[str]:
    """Return the members of an object that have one plain type and no further limits."""
    if schema.get("type") != "object" or not isinstance(schema.get("properties"), dict) or "$ref" in schema or "allOf" in schema:
        return []
    return [name for name, one in schema["properties"].items() if isinstance(one, dict) and is_plain(one)]


def is_plain(schema: dict) -> bool:
    return schema.get("type") in ("string", "integer", "boolean") and not {"enum", "const"} & schema.keys()


def json_mutations(schema: dict) -> Iterator[tuple[str, dict, dict, tuple[str, str]]]:
    """Return what was changed, the schema before and after, and whom that breaks: readers, writers."""
    name = plain_members(schema)[0]
    optional, required = copy.deepcopy(schema), copy.deepcopy(schema)
    optional["required"] = [one for one in schema.get("required", ()) if one != name]
    required["required"] = [*optional["required"], name]

    def with_member(base: dict, member: str, value: dict, *, is_required: bool = False) -> dict:
        made = copy.deepcopy(base)
        made["properties"][member] = value
        made["required"] = [*base["required"], member] if is_required else base["required"]
        return made

    without = copy.deepcopy(optional)
    del without["properties"][name]
    no_longer = copy.deepcopy(required)
    del no_longer["properties"][name]
    no_longer["required"].remove(name)
    one = schema["properties"][name]
    other = "object" if one["type"] != "object" else "string"
    both = with_member(optional, name, {**one, "type": [one["type"], "null"]})
    values = [with_member(optional, "zz-value", {"enum": held}) for held in (["a", "b"], ["a", "b", "c"])]
    lengths = [with_member(optional, "zz-text", {"type": "string", "maxLength": most}) for most in (5, 9)]
    words = with_member(optional, name, {**one, "description": "other words", "title": "x"})
    yield "an optional member came", optional, with_member(optional, "zz-new", {"type": "string"}), NOBODY
    yield "a required member came", optional, with_member(optional, "zz-new", {"type": "string"}, is_required=True), WRITERS
    yield "an optional member went", optional, without, NOBODY
    yield "a required member went", required, no_longer, READERS
    yield "a member became required", optional, required, WRITERS
    yield "a member became optional", required, optional, READERS
    yield "another type", optional, with_member(optional, name, {"type": other}), BOTH
    yield "null is a type, too", optional, both, READERS
    yield "a value came", *values, READERS
    yield "a value went", *values[::-1], WRITERS
    yield "longer texts", *lengths, READERS
    yield "other words", optional, words, NOBODY


def avro_mutations(schema: dict) -> Iterator[tuple[str, dict, dict, tuple[str, str]]]:
    """Return what was changed, the schema before and after, and whom that breaks: readers, writers."""

    def with_field(base: dict, **field) -> dict:
        return {**base, "fields": [*base["fields"], {"name": "zz", **field}]}

    def enum(*symbols: str, **more) -> dict:
        return with_field(schema, type={"type": "enum", "name": "ZzKind", "symbols": list(symbols), **more})

    optional, needed = with_field(schema, type=["null", "string"], default=None), with_field(schema, type="string")
    renamed = {**schema, "fields": [*schema["fields"], {"name": "zy", "aliases": ["zz"], "type": "string", "default": ""}]}
    yield "a field with a default came", schema, optional, NOBODY
    yield "a field without a default came", schema, needed, WRITERS
    yield "a field with a default went", optional, schema, NOBODY
    yield "a field without a default went", needed, schema, READERS
    yield "another type", needed, with_field(schema, type="int"), BOTH
    yield "a promotion", with_field(schema, type="int"), with_field(schema, type="long"), READERS
    yield "null is a type, too", needed, with_field(schema, type=["null", "string"]), READERS
    yield "a symbol came", enum("A"), enum("A", "B"), READERS
    yield "a symbol came, and the enum has a default", enum("A", default="A"), enum("A", "B", default="A"), NOBODY
    yield "a symbol went", enum("A", "B"), enum("A"), WRITERS
    yield "renamed with an alias", with_field(schema, type="string", default=""), renamed, NOBODY
    yield "other words", schema, {**schema, "doc": "other words"}, NOBODY


def test_mutations_of_real_schemas_break_whom_they_break():
    found = real_schemas()
    wrong, count = [], 0
    for format_, schema in found:
        made = json_mutations(schema) if format_ == "json" else avro_mutations(schema)
        for what, before, after, expected in made:
            count += 1
            judgement = judge(before, after, "JsonSchema" if format_ == "json" else "Avro")
            if tuple(judgement.breaks.as_json().values()) != expected:
                wrong.append((what, judgement.breaks.as_json(), schema))
    assert wrong == []
    assert count == 12 * len(found)
    assert not SAMPLES.exists() or len(found) >= 30
