"""What looks like a secret is in no result, and without values no text of an event is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import document, group

from lakehouse.match import MatchRequest, Tolerance
from lakehouse.match.definition.scope import MatchCatalog
from lakehouse.match.event.canonical import events_of
from lakehouse.match.event.captured import landed_of_text
from lakehouse.match.explain import _match
from match.catalogs import load

SECRET = "hunter2-s3cr3t"
NAMED = {"specversion": "1.0", "id": "1", "type": "T", "source": "/s"}


def message(headers: dict[str, Any] | None = None, schema: Any = None, **envelope: Any) -> dict[str, Any]:
    written: dict[str, Any] = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T"}} | envelope}
    if headers is not None:
        written |= {"protocol": "KAFKA", "protocoloptions": {"headers": headers}}
    return written if schema is None else written | {"dataschemaformat": "JSONSchema/draft-07", "dataschema": schema}


def kafka(data: Any = None, key: str = "k", **headers: str) -> dict[str, Any]:
    named = {f"ce_{name}": text for name, text in NAMED.items()} | {
        name.replace("__", "-"): text for name, text in headers.items()
    }
    return {"protocol": "KAFKA", "captured": {"topic": "t", "key": key, "headers": named}, "payload": data}


def explained(written: dict[str, Any], event: dict[str, Any], **request: Any) -> list[dict[str, Any]]:
    rows, schemas = load({"r": document({"g": group({"m": written})})})
    events = [one for landed in landed_of_text(json.dumps(event).encode()) for one in events_of(landed)]
    results = _match(events, MatchCatalog(rows, schemas), MatchRequest(**request), explain=True)
    return [result.as_json() for result in results]


CASES: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "extension": (message(accesstoken={"type": "integer"}), kafka(ce_accesstoken=SECRET), "reasons"),
    "undeclared extension": (message(), kafka(ce_accesstoken=SECRET), "deviations"),
    "header": (message({"x-api-key": {"type": "integer"}}), kafka(x__api__key=SECRET), "reasons"),
    "placeholder of a secret name": (
        message({"x-hook": {"value": "{token}"}}, subject={"value": "{token}"}),
        kafka(x__hook="other", ce_subject=SECRET),
        "reasons",
    ),
    "placeholder that a secret header holds, too": (
        message({"x-token": {"value": "{name}"}}, subject={"value": "{name}"}),
        kafka(x__token=SECRET, ce_subject="other"),
        "reasons",
    ),
    "placeholder in a secret header": (message({"x-api-key": {"value": "{k}"}}), kafka(x__api__key=SECRET), "variables"),
    "template with a placeholder of a secret name": (
        message({"x-hook": {"value": "hook {token}"}}),
        kafka(x__hook=f"hok {SECRET}"),
        "reasons",
    ),
    "payload": (
        message(schema={"properties": {"password": {"type": "integer"}}}),
        NAMED | {"data": {"password": SECRET}},
        "payload_errors",
    ),
    "payload below": (
        message(schema={"properties": {"credentials": {"items": {"type": "integer"}}}}),
        NAMED | {"data": {"credentials": [SECRET]}},
        "payload_errors",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("written", "event", "member"), CASES.values(), ids=CASES)
def test_what_looks_like_a_secret_is_blanked(written, event, member):
    [result] = explained(written, event, tolerance=Tolerance("strict"))
    assert result[member]
    assert result["candidates"]
    assert SECRET not in json.dumps(result)


def test_what_is_no_secret_is_shown():
    keyed = message({}) | {"protocoloptions": {"key": {"value": "{order}"}}}
    [result] = explained(keyed | {"envelopemetadata": {"type": {"value": "T"}, "subject": {"value": "{order}"}}},
                         kafka(key="o-1", ce_subject="o-2"))  # fmt: skip
    assert {reason["pointer"]: (reason["expected"], reason["actual"]) for reason in result["reasons"]} == {
        "/protocoloptions/key": ("o-2", "o-1"),
        "/envelopemetadata/subject": ("o-1", "o-2"),
    }
    [candidate] = result["candidates"]
    assert {"o-1", "o-2", "T"} <= {attribute["actual"] for attribute in candidate["attributes"]}


def test_texts_of_candidates_are_cut():
    [result] = explained(message({"h": {"required": True}}), kafka(h="x" * 1000))
    [actual] = [one["actual"] for one in result["candidates"][0]["attributes"] if one["pointer"] == "/protocoloptions/headers/h"]
    assert actual == "x" * 119 + "…"


def test_without_values_the_candidates_hold_no_text_of_the_event():
    written = message({"h": {"required": True}}, subject={"value": "{name}"})
    [result] = explained(written, kafka(h="text-1", ce_subject="text-2"), with_values=False)
    assert "text-" not in json.dumps(result)
    assert {one["pointer"]: one["verdict"] for one in result["candidates"][0]["attributes"]}[
        "/protocoloptions/headers/h"
    ] == "pass"


def test_a_url_that_cannot_be_read_is_not_quoted():
    event = {"method": "POST", "url": f"https://user:{SECRET}@h\u2100st/x", "headers": {}}
    [result] = explained(message(), event)
    assert (result["status"], result["reasons"][0]["pointer"]) == ("unreadable", "url")
    assert SECRET not in json.dumps(result)
