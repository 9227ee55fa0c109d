"""A secret that is planted anywhere, however it is spelled, whatever becomes of the document, is in no row of the stage."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from builders import document, group, law, stage
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.text.problems import CREDENTIAL

# Letters that no rule, name or hash has side by side; between them is what a quote or a format may stumble over.
_letters = st.text(alphabet="QXZJKVW", min_size=7, max_size=9)
secrets = st.tuples(_letters, st.sampled_from(["", "7", "=7", "'7", ",7", ":7", "#7", "&7", "+7", "\\7", "!7", "%7"]), _letters)


def leaks(secret: str, rows: Any) -> list[str]:
    """Return the pieces of a secret that the rows contain; a piece is four characters."""
    reported = str(rows)
    pieces = {secret[at : at + 4] for at in range(len(secret) - 3)}
    return sorted(piece for piece in pieces if piece.isalpha() and piece in reported)


def endpoint(**members: Any) -> dict[str, Any]:
    return document(endpoints={"e": {"usage": ["producer"]} | members})


def in_message(**members: Any) -> dict[str, Any]:
    return document({"g": group({"m": {"name": "n"} | members})})


def basic(secret: str) -> str:
    return base64.b64encode(f"user:{secret}".encode()).decode()


# Each place: the text behind which the secret comes, and a document with the secret there.
PLACES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "password": ("password", lambda s: endpoint(protocoloptions={"authorization": {"type": "Plain", "password": s}})),
    "upper case": ("PASSWORD", lambda s: endpoint(protocoloptions={"authorization": {"x": {"PASSWORD": s}}, "a": 1})),
    "token": ("accessToken", lambda s: endpoint(config={"authorization": {"accessToken": s}})),
    "option": ("clientsecret", lambda s: endpoint(protocoloptions={"options": {"sasl.clientsecret": s, "b": "c"}})),
    "authorization": ("authorization", lambda s: endpoint(protocoloptions={"authorization": f"Bearer {s}"})),
    "uri": ("amqps", lambda s: endpoint(protocoloptions={"endpoints": [{"uri": f"amqps://u:{s}@b.example:5671"}]})),
    "header": (
        "value",
        lambda s: in_message(
            protocol="HTTP/1.1", protocoloptions={"headers": [{"name": "Authorization", "value": f"Bearer {s}"}]}
        ),
    ),
    "header, value first": ("value", lambda s: in_message(protocoloptions={"headers": [{"value": s, "name": "Cookie"}]})),
    "Kafka header": ("value", lambda s: in_message(protocol="KAFKA", protocoloptions={"headers": {"X-Api-Key": {"value": s}}})),
    "Version": ("api_key", lambda s: in_message(versions={"1": {"protocoloptions": {"headers": {"api_key": s}}}})),
    "any header": ("Bearer", lambda s: in_message(protocoloptions={"headers": {"x": {"value": f"Bearer {s}7"}}})),
    "Basic": ("Basic", lambda s: in_message(description=f"curl with Basic {basic(s)} or so")),
    "prose": ("Bearer", lambda s: in_message(description=f"try Bearer {s}7{s} first")),
    "schema": ("Bearer", lambda s: in_message(dataschema={"examples": [f"Bearer {s}7"]})),
    "group": ("token", lambda s: document({"g": group({}, protocoloptions={"headers": {"x-auth-token": s}})})),
    "root": ("password", lambda s: document({}, options={"password": s})),
    "message of an endpoint": ("value", lambda s: endpoint(messages={"m": {"metadata": {"Cookie": {"value": s}}}})),
    "oldest dialect": (
        "value",
        lambda s: {"definitionGroups": {"g": {"definitions": {"d": {"metadata": {"headers": {"cookie": {"value": s}}}}}}}},
    ),
    "draft": (
        "value",
        lambda s: [
            {"id": "g", "format": "AMQP", "messagedefinitions": {"d": {"definition": {"headers": {"Cookie": {"value": s}}}}}}
        ],
    ),
    "a list for a map": ("value", lambda s: {"messagegroups": [{"options": {"cookie": {"value": s}}}], "specversion": "1.0-rc2"}),
    "endpoints in a list": ("password", lambda s: {"endpoints": [{"authorization": {"password": s}}]}),
    "messages in a list": ("cookie", lambda s: document({"g": {"messages": [{"protocoloptions": {"headers": {"cookie": s}}}]}})),
}

_styles = st.fixed_dictionaries(
    {
        "default_style": st.sampled_from([None, '"', "'", "|", ">"]),
        "default_flow_style": st.sampled_from([True, False, None]),
        "width": st.sampled_from([10, 20, 80]),
        "indent": st.sampled_from([2, 4]),
    }
)


def as_json(value: Any, indent: int | None, escaped: set[int]) -> str:
    """Write JSON, with escapes for some characters that do not need one."""

    def spell(text: str) -> str:
        plain = json.dumps(text, ensure_ascii=False)[1:-1]
        units = [plain[n : n + 2] if plain[n] == "\\" else plain[n] for n in _starts(plain)]
        return '"' + "".join(f"\\u{ord(u):04x}" if n % 11 in escaped and u.isalnum() else u for n, u in enumerate(units)) + '"'

    texts: list[str] = []

    def taken(one: Any) -> Any:
        if isinstance(one, dict):
            return {taken(key): taken(member) for key, member in one.items()}
        if isinstance(one, list):
            return [taken(member) for member in one]
        if isinstance(one, str):
            texts.append(spell(one))
            return f"@{len(texts) - 1}@"
        return one

    written = json.dumps(taken(value), indent=indent)
    for number, text in enumerate(texts):
        written = written.replace(f'"@{number}@"', text)
    return written


def _starts(plain: str) -> list[int]:
    starts, at = [], 0
    while at < len(plain):
        starts.append(at)
        at += 2 if plain[at] == "\\" else 1
    return starts


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, str, str, str]:
    """Return a secret, the text behind which it comes, a document that holds it, and its suffix."""
    secret = "".join(draw(secrets))
    before, build = PLACES[draw(st.sampled_from(sorted(PLACES)))]
    if draw(st.booleans()):
        escaped = draw(st.sets(st.integers(0, 10), max_size=3))
        return secret, before, as_json(build(secret), draw(st.sampled_from([None, 1])), escaped), ".json"
    return secret, before, yaml.dump(build(secret), sort_keys=False, **draw(_styles)), ".yaml"


@settings(law, max_examples=300)
@given(documents(), st.sampled_from([40, 1 << 20]), st.booleans(), st.booleans(), st.sampled_from([0, 1000]))
def test_a_secret_of_a_whole_document_is_nowhere(planted, stream, packed, strict, entities):
    secret, _, text, suffix = planted
    encoded = gzip.compress(text.encode()) if packed else text.encode()
    rows = stage(encoded, uri=f"file:/a{suffix}" + (".gz" if packed else ""), stream=stream, strict=strict, entities=entities)
    assert leaks(secret, rows) == [], text
    assert leaks(basic(secret), rows) == [], text


@settings(law, max_examples=600)
@given(documents(), st.data())
def test_a_secret_of_a_broken_document_is_nowhere(planted, data):
    secret, before, text, suffix = planted
    start = text.find(secret)
    key = text.rfind(before, 0, max(start, 0))
    places = [at for at in range(len(text)) if start >= 0 and key >= 0 and not key - 1 <= at < start + len(secret)]
    how = data.draw(st.sampled_from(["cut", "cut", "insert", "delete", "utf-16", "latin-1"] if places else ["cut"]))
    if how == "cut":
        text = text[: data.draw(st.integers(0, len(text)))]
    elif how in ("insert", "delete"):
        at = data.draw(st.sampled_from(places))
        added = data.draw(st.sampled_from(list("{}[],:\"'\n\t&*!-|>#@ x"))) if how == "insert" else ""
        text = text[:at] + added + text[at + (how == "delete") :]
    encoded = text.encode(how if how == "utf-16" else "utf-8") + (b"\xff" if how == "latin-1" else b"")
    rows = stage(encoded, uri=f"file:/a{suffix}")
    # What can still be read may have become a document whose key names no secret any more.
    if json.loads(rows["document"][0]["facts"])["status"] == "rejected":
        assert leaks(secret, rows) == [], text


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("suffix", [".json", ".yaml"])
def test_a_secret_is_reported_whatever_the_format(place, suffix):
    value = PLACES[place][1]("QXZJKVWQ7QXZJ")
    text = json.dumps(value) if suffix == ".json" else yaml.dump(value)
    rows = stage(text.encode(), uri=f"file:/a{suffix}")
    reported = {row["finding"]["rule_id"] for row in rows["finding"]}
    assert CREDENTIAL in reported or json.loads(rows["document"][0]["facts"])["status"] == "rejected"
    assert leaks("QXZJKVWQ7QXZJ", rows) == []


@pytest.mark.parametrize(
    "text",
    [
        '{"messagegroups":{"g":{"password":"QXZJKV","password":"WQXZJK"}}}',
        '{"messagegroups":{"g":{"x":{"password":"QXZJKV"},"x":{"a":1}}}}',
        '{"messagegroups":{"g":{"messages":{"m":{"headers":{"cookie":"QXZJKV","cookie":"WQXZJK"}}}}}}',
        '{"messagegroups":{"g":{"x":"Bearer QXZJKV","x":"Bearer WQXZJK"}}}',
        '{"messagegroups":{"g":{"authorization":{"x":"QXZJKV","x":"WQXZJK"}}}}',
        '{"messagegroups":{"g":{"x":"amqps://u:QXZJKV@h","x":1}}}',
        '{"options":{"headers":[{"name":"Cookie","value":"QXZJKV","value":"WQXZJK"}]},"messagegroups":{}}',
        '{"endpoints":{"e":{"config":{"authorization":{"password":"QXZJKV"}}},"e":{"config":{"authorization":{"token":"WQXZJK"}}}}}',
    ],
)
@pytest.mark.parametrize("stream", [20, 1 << 20])
def test_the_values_of_a_doubled_key_are_recorded_without_secrets(text, stream):
    rows = stage(text.encode(), stream=stream)
    assert {"JSON-002", "END-031"} & {row["finding"]["rule_id"] for row in rows["finding"]}
    assert leaks("QXZJKV", rows) + leaks("WQXZJK", rows) == []
