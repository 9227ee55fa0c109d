"""The same content, whatever its wrapping: JSON, YAML, packed, cut into parts or whole, a document says the same.

What may differ is about the text itself: `raw`, the URI, the size, repeated keys, a byte order mark.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from builders import MAX_DEPTH, document, group, json_values, law
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.ingest.parse.document import ParseLimits
from lakehouse.ingest.parse.parse import Source, parser
from lakehouse.text.jsontext import as_written, read_json
from lakehouse.text.problems import BYTE_ORDER_MARK, DUPLICATE_KEY

SAMPLES = Path(__file__).resolve().parents[3] / "shared" / "samples"
PATHS = sorted(path for path in SAMPLES.glob("*/*") if path.suffix in (".json", ".cereg"))
LONG = 60_000  # bytes: more of the same as shorter ones say, in two thirds of the time
LARGE = 1 << 30
LIMITS = ParseLimits(bytes=LARGE, unpacked=LARGE, depth=MAX_DEPTH, entities=100_000, stream=LARGE, strict=False)
OF_THE_TEXT = (DUPLICATE_KEY, BYTE_ORDER_MARK)


class Said(NamedTuple):
    """What a document says: its entities, its findings, its facts."""

    entities: list[dict[str, Any]]
    findings: list[tuple[Any, ...]]
    facts: dict[str, Any]


def said(text: bytes, name: str, **limits: Any) -> Said:
    """Parse a document in plain Python."""
    source = Source(f"file:/none/{name}", len(text), "0" * 64, None, False, False, text, None, False, False)
    batch = pa.RecordBatch.from_arrays([pa.array([value]) for value in source], names=list(Source._fields))
    made = [row for part in parser(LIMITS._replace(**limits))([batch]) for row in part.to_pylist()]
    named = [name for name in made[0] if name not in ("raw", "document_uri", "finding", "facts")]
    entities = [{name: row[name] for name in named} for row in made if row["row"] == "entity"]
    reported = ("pointer", "rule_id", "severity", "action", "message", "hint")
    findings = [
        (row["registryid"], row["kind"], row["xid"] or "", *(row["finding"][name] for name in reported))
        for row in made
        if row["row"] == "finding" and row["finding"]["rule_id"] not in OF_THE_TEXT
    ]
    (facts,) = [json.loads(row["facts"]) for row in made if row["row"] == "document"]
    kept = {name: value for name, value in facts.items() if name not in ("sha256", "size", "findings")}
    return Said(sorted(entities, key=str), sorted(findings), kept)


def as_yaml(value: Any, indent: int = 0) -> Iterator[str]:
    """Write a JSON value as YAML in blocks, line by line; texts and keys in quotes, numbers as they are spelled."""
    blank = "  " * indent
    if isinstance(value, dict) and value:
        for key, member in value.items():
            is_block = isinstance(member, dict | list) and member
            yield f"{blank}? {_quoted(key)}"  # a plain key may be 1,024 characters long, this one as long as it likes
            if is_block:
                yield f"{blank}:"
                yield from as_yaml(member, indent + 1)
            else:
                yield f"{blank}: {_scalar(member)}"
    elif isinstance(value, list) and value:
        for member in value:
            if isinstance(member, dict | list) and member:
                yield f"{blank}-"
                yield from as_yaml(member, indent + 1)
            else:
                yield f"{blank}- {_scalar(member)}"
    else:
        yield f"{blank}{_scalar(value)}"


def _scalar(value: Any) -> str:
    return _quoted(value) if isinstance(value, str) else as_written(value)


def _quoted(text: str) -> str:
    """Write a text so that YAML, which takes no surrogates for one character, reads it like JSON."""
    return '"' + "".join(one if " " <= one <= "~" and one not in '"\\' else f"\\U{ord(one):08x}" for one in text) + '"'


def in_flow(value: Any) -> str:
    """Write a JSON value as YAML in flow style."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_quoted(key)}: {in_flow(member)}" for key, member in value.items()) + "}"
    return "[" + ", ".join(map(in_flow, value)) + "]" if isinstance(value, list) else _scalar(value)


def yaml_of(text: bytes, *, flow: bool = False) -> bytes:
    value, _ = read_json(text, MAX_DEPTH)
    return (in_flow(value) if flow else "\n".join(as_yaml(value))).encode()


# Each way to wrap a text: what it becomes, how its name ends, and the size above which it is read part by part.
WRAPPINGS: dict[str, tuple[Callable[[bytes], bytes], str, int]] = {
    "packed": (partial(gzip.compress, mtime=0), ".json.gz", LARGE),
    "in parts": (bytes, ".json", 200),
    "in larger parts": (bytes, ".json", 5000),
    "packed, in parts": (partial(gzip.compress, mtime=0), ".json.gz", 1000),
    "YAML in flow style": (partial(yaml_of, flow=True), ".yaml", LARGE),
    "YAML": (yaml_of, ".yml", LARGE),
    "YAML, packed and large": (lambda text: gzip.compress(yaml_of(text), mtime=0), ".yaml.gz", 100),
}
IN_JSON = [name for name in WRAPPINGS if "YAML" not in name]


def wrapped(text: bytes, wrapping: str, **limits: Any) -> Said:
    wrap, suffix, stream = WRAPPINGS[wrapping]
    return said(wrap(text), "group/messagedefinitions/a" + suffix, stream=stream, **limits)


def check(text: bytes, wrappings: list[str] | None = None, **limits: Any) -> Said:
    """Hold a document against all its wrappings."""
    plain = said(text, "group/messagedefinitions/a.json", **limits)
    for wrapping in wrappings or WRAPPINGS:
        assert wrapped(text, wrapping, **limits) == plain, wrapping
    return plain


KEY = base64.b64encode(b"hello").decode()
KAFKA = {"protocol": "KAFKA", "protocoloptions": {"key": {"value": KEY}}}
BY_SPELLING = {"dataschemaformat": "Avro/1.9", "schemauri": "https://schemas.example/a.avsc"}
FILLER = {f"f{n}": group({f"m{n}": {"description": "x" * 40 + "é\U0001f600\t\u0085"}}) for n in range(12)}


def undeclared(*, mark_first: bool) -> dict[str, Any]:
    """A document that only a spelling somewhere reports to be one of 0.5-wip, in which a Kafka key is base64."""
    mark = {"mark": group({"b": {"dataschemaformat": "Avro/1.9", "schemauri": "https://schemas.example/a"}})}
    key = {"key": group({"k": KAFKA})}
    groups = mark | FILLER | key if mark_first else key | FILLER | mark
    return {"name": "undeclared", "messagegroups": groups}


BASE = {"b": {"format": "MQTT/5.0", "protocoloptions": {"qos": 1}}}
DERIVED = {f"d{n}": {"basemessage": "/messagegroups/z/messages/b", "protocoloptions": {"topic": f"t{n}"}} for n in range(5)}
OWN: dict[str, Any] = {
    "marked first": undeclared(mark_first=True),
    "marked last": undeclared(mark_first=False),
    "named": undeclared(mark_first=True) | {"specversion": "1.0-rc2"},
    "named by $schema": undeclared(mark_first=False) | {"$schema": "https://xregistry.example/schemas/0.5-wip/messages.json"},
    "rc4 by a member": {
        "messagegroups": FILLER,
        "endpoints": {
            "e": {"usage": ["consumer"], "protocol": "MQTT/5.0", "protocoloptions": {"topicfilter": "a/#"}},
            "f": {"usage": ["consumer"], "protocol": "KAFKA", "protocoloptions": {"consumer-group": "g"}},
        },
    },
    "oldest": {
        "definitionGroups": {f"g{n}": {"format": "CloudEvents/1.0", "definitions": {f"m{n}": {}}} for n in range(20)},
        "schemaGroups": {"s": {"schemas": {"t": {"format": "Avro/1.9", "schema": {"type": "string"}}}}},
    },
    "bases": document({"a": group(DERIVED), **FILLER, "z": group(BASE)}, {"e": group(BASE, usage=["producer"])}),
    "both spellings": {
        "definitionGroups": {"g": {"name": "first"}},
        "messagegroups": FILLER | {"g": {"name": "second"}, "G": {"name": "third"}},
        "endpoints": {},
    },
    "both spellings, the other way": {
        "messagegroups": FILLER | {"g": {"name": "first"}},
        "definitionGroups": {"g": {"name": "second"}},
    },
    "errors everywhere": document(
        {"bad id": group({"m": {}}), "g": group({"m": {"name": 5}, "n": {"versions": []}, "o": []}), **FILLER},
        {"e": {"usage": "x", "protocoloptions": {"endpoints": [{"uri": "amqp://u:s@host:1"}], "authorization": {"type": ""}}}},
        {"s": group({"t": {"format": 1}}, holds="schemas", labels={"a": 1})},
        documentation={"no": "text"},
        epoch=-1,
        big=12345678901234567890123,
        half=1.50,
    ),
    "collections of other shapes": {"messagegroups": FILLER, "endpoints": [1], "schemagroups": None},
    "a model": {"groups": {"dirs": {"singular": "dir", "plural": "dirs", "resources": {}}}},
    "nothing": {},
    "the draft": [
        {"id": "g", "format": "NATS", "messagedefinitions": [{"id": "m", "definition": {"pub": {"subject": "s"}}}]},
        {"id": "n", "format": "NATS", "definition": {"pub": {"subject": "s"}}},
    ],
}


@pytest.mark.parametrize("written", OWN.values(), ids=OWN)
def test_a_document_says_the_same_however_it_is_wrapped(written):
    check(json.dumps(written).encode())


@pytest.mark.parametrize("dialect", ["0.5-wip", "1.0-rc2", "cncf-catalog"])
def test_a_document_says_the_same_in_a_dialect_that_is_asked_for(dialect):
    check(json.dumps(undeclared(mark_first=True)).encode(), dialect=dialect)


@pytest.mark.parametrize("mark_first", [True, False])
@pytest.mark.parametrize("wrapping", ["in parts", "YAML"])
def test_the_dialect_is_that_of_the_document_and_not_of_a_part(mark_first, wrapping):
    found = wrapped(json.dumps(undeclared(mark_first=mark_first)).encode(), wrapping)
    assert found.facts["dialect"] == "0.5-wip"
    (body,) = [row["body"] for row in found.entities if row["xid"].endswith("/k/versions/1")]
    assert json.loads(body)["protocoloptions"] == {"key": {"value": "hello"}}


def test_a_strict_ingest_rejects_the_same_documents():
    found = check(json.dumps(OWN["errors everywhere"]).encode(), IN_JSON, strict=True)
    assert found.facts["status"] == "rejected"


references = st.sampled_from([f"{mark}/messagegroups/{g}/messages/{m}" for mark in ("", "#") for g in "ab" for m in "mn"])
options = st.sampled_from([{"topic": "t"}, {"key": KEY}, {"qos": 1, "topic-name": "t"}, {"nothing": None}])
definitions = st.fixed_dictionaries(
    {},
    optional={
        "name": json_values,
        "protocol": st.sampled_from(["KAFKA", "mqtt", "MQTT/5.0"]),
        "format": st.sampled_from(["Kafka", "CloudEvents/1.0"]),
        "basemessage": references,
        "basemessageurl": references,
        "xref": references,
        "protocoloptions": options,
        "schemaformat": st.just("Avro/1.9"),
        "x": json_values,
    },
)
messages = definitions | st.dictionaries(st.sampled_from("12"), definitions, min_size=1).map(lambda found: {"versions": found})
members = st.dictionaries(st.sampled_from("mn"), messages)
written_groups = st.dictionaries(
    st.sampled_from("abA"),
    st.fixed_dictionaries({}, optional={"messages": members, "definitions": members, "protocol": st.just("KAFKA")}),
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "specversion": st.sampled_from(["0.5-wip", "1.0-rc2"]),
        "labels": json_values,
        **dict.fromkeys(("messagegroups", "definitionGroups", "endpoints"), written_groups),
    },
).flatmap(lambda found: st.permutations(list(found.items())).map(dict))


@law
@given(documents, st.integers(1, 400))
def test_any_document_says_the_same(written, stream):
    text = json.dumps(written).encode()
    plain = check(text, ["YAML", "YAML in flow style"])
    assert said(text, "group/messagedefinitions/a.json", stream=stream) == plain


@pytest.mark.skipif(not PATHS, reason="the sample documents are not there")
@pytest.mark.parametrize("path", [
    pytest.param(path, id=f"{path.parent.name}/{path.name}", marks=[pytest.mark.slow] if path.stat().st_size > LONG else [])
    for path in PATHS
])  # fmt: skip
def test_a_published_document_says_the_same_however_it_is_wrapped(path):
    assert check(path.read_bytes()).facts["status"] in ("loaded", "skipped")
