"""Columns are the row loop, quicker: random definitions, some of which ask alike, and random records of Kafka."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from builders import document, group
from shortform import first_of

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from match.catalogs import load
from match.test_columns import both, row

ATTRIBUTES: dict[str, list[dict[str, Any]]] = {
    "source": [{"value": "/s/{a}"}, {"value": "/s/x"}, {"value": "{a}"}, {"type": "uri"}],
    "subject": [{"value": "{b}"}, {"value": "{a}"}, {"required": True}, {"value": "k{b}"}],
    "time": [{"type": "timestamp", "required": True}, {"type": "timestamp"}, {"value": "{d}T00:00:00Z", "type": "timestamp"}],
    "n": [{"type": "integer"}, {"value": 5, "type": "integer"}, {"type": "boolean"}],
}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "topic": [{"value": "t"}, {"value": "{c}"}], "key": [{"value": "{b}"}, {"value": "k1"}],
    "headers": [{"h": {"value": "{a}"}}, {"h": {"required": True}}, {"Cookie": {"value": "{a}"}}],
}  # fmt: skip
VALUES: dict[str, list[str]] = {
    "ce_source": ["/s/x", "/s/y", "/s/a b", "x"], "ce_subject": ["k1", "k2", "x"], "h": ["x", "y"], "ce_n": ["5", "true", "x"],
    "Cookie": ["x", "y"],
    "ce_time": ["2026-01-01T00:00:00Z", "2026-01-01", "2024-02-29T00:00:00Z"],
}  # fmt: skip


def some(chance: Random, named: dict[str, list[Any]], share: float) -> dict[str, Any]:
    return {name: chance.choice(values) for name, values in named.items() if chance.random() < share}


def definition(chance: Random) -> dict[str, Any]:
    declared = {"type": {"value": f"T{chance.randrange(4)}"}} | some(chance, ATTRIBUTES, 0.6)
    made: dict[str, Any] = {"envelope": "CloudEvents/1.0", "envelopemetadata": declared}
    if chance.random() < 0.5:
        options = some(chance, OPTIONS, 0.6)
        if "key" not in options:
            options |= some(chance, {"key_base64": [{"value": "/w=="}, {"value": "azE="}, {"required": True}]}, 0.5)
        made |= {"protocol": "KAFKA", "protocoloptions": options}
    if chance.random() < 0.5:
        kind = chance.choice(["integer", "string"])
        made |= {"dataschemaformat": "JSONSchema/draft-07", "dataschema": {"properties": {"x": {"type": kind}}}}
    return made


def record(chance: Random, number: int) -> Any:
    headers = {"ce_specversion": "1.0", "ce_id": str(number), "ce_type": f"T{chance.randrange(5)}"} | some(chance, VALUES, 0.97)
    key = chance.choice([b"k1", f"k{number}".encode(), b"\xff", None])
    return row(number, headers, chance.choice("tu"), key, chance.choice([b'{"x": 1}', b'{"x": "a"}', None]))


@pytest.mark.parametrize("seed", first_of(range(8), 2))
def test_both_ways_report_the_same(seed):
    chance = Random(seed)
    for _ in range(3):
        registries = ("r", "q")[: chance.randrange(1, 3)]
        documents = {
            one: document({"g": group({f"m{number}": definition(chance) for number in range(chance.randrange(1, 9))})})
            for one in registries
        }
        rows, schemas = load(documents)
        matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest(payload_share=chance.choice([0, 1])))
        _, by_columns, looped = both(matcher, [record(chance, number) for number in range(600)])
        assert by_columns == looped
