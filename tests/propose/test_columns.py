"""Objects that are read in columns are counted as Python counts them; what columns cannot hold is left to Python."""

from __future__ import annotations

import gzip
import json
from collections import Counter, defaultdict
from datetime import datetime, timezone
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest
from builders import law
from hypothesis import given
from hypothesis import strategies as st
from match.catalogs import load

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.propose import proposalruns
from lakehouse.propose.columnevents import count_objects, count_records
from lakehouse.propose.kinds import EventCounter
from lakehouse.propose.pathcounts import KindCounts
from lakehouse.text.objectcolumns import ObjectReader
from propose.test_payloadschema import OBJECTS
from propose.test_widenedversions import declared
from tests.bench.matchbatch import COLUMNS as LANDED


def in_columns(bodies: list[bytes], reader: ObjectReader, keeps_values: bool = True) -> tuple[KindCounts, set[int]]:
    """Count texts in columns, and what is left of them as Python does; return the counts, and what was in columns."""
    counts, done = KindCounts(keeps_values), set()
    for part in reader.read(pa.array(bodies, pa.binary())):
        count_objects(counts, "/data", part.objects, part.has_nulls)
        done |= set(part.rows.tolist())
    values = [value(body) for number, body in enumerate(bodies) if number not in done]
    texts = [one for one in values if not isinstance(one, bytes)]
    if texts:
        counts.count("/data", texts)
    if len(texts) < len(values):
        counts.add_events("/data", "binary", len(values) - len(texts))
    return counts, done


def in_python(bodies: list[bytes], keeps_values: bool = True) -> KindCounts:
    return in_columns(bodies, ObjectReader(patience=0), keeps_values)[0]


def value(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return body


def usual(number: int) -> dict[str, Any]:
    return {
        "id": f"o{number}", "total": number + 0.5, "count": number, "paid": number % 3 > 0, "day": "2026-01-01", "none": [],
        "at": f"2026-03-{1 + number % 28:02}T10:00:00Z", "tags": ["a", "b"][: number % 3],
        "lines": [{"sku": f"s{number % 7}", "n": number}] * (number % 4), "price": number / 4,
        "deep": {"er": {"est": [[1], [number]]}},
        "to": {"city": ["Paris", "Rome"][number % 2]} | ({"zip": str(number)} if number % 5 else {}),
    } | ({"note": "x"} if number % 3 else {})  # fmt: skip


USUAL = list(map(usual, range(400)))


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")], ids=["compact", "usual"])
@pytest.mark.parametrize("keeps_values", [True, False], ids=["values", "none"])
def test_usual_objects_are_all_counted_in_columns(separators, keeps_values):
    bodies = [json.dumps(one, separators=separators).encode() for one in USUAL]
    counts, done = in_columns(bodies, ObjectReader(), keeps_values)
    assert done == set(range(400))
    assert counts.counts == in_python(bodies, keeps_values).counts


ODD = {
    "a type that differs": b'{"id":5}',
    "a fraction among whole numbers": b'{"count":1.5}',
    "a whole number as a fraction": b'{"total":2.0}',
    "a whole number with an exponent": b'{"total":2e1}',
    "a whole number among fractions": b'{"total":2}',
    "an escaped name of a whole number": b'{"tot\\u0061l":2}',
    "a number that is too large": b'{"count":123456789012345678901}',
    "no number": b'{"total":NaN}',
    "one that is infinite": b'{"total":1e999}',
    "minus infinity": b'{"total":-Infinity}',
    "a name that is there twice": b'{"id":"a","id":"b"}',
    "a member that is new": b'{"new":{"er":1}}',
    "a null": b'{"id":null}',
    "a null among members that are absent": b'{"id":null,"note":"x"}',
    "an item that is null": b'{"tags":["a",null]}',
    "an object of items that is null": b'{"lines":[null,{"sku":null,"n":1}]}',
    "half a surrogate pair": b'{"id":"\\ud800"}',
    "a pair": b'{"id":"\\ud83d\\ude00"}',
    "no UTF-8": b'{"id":"\xff"}',
    "a line break": b'{"id":\n"a"}',
    "two objects": b'{"id":"a"}{"id":"b"}',
    "half an object": b'{"id":"a"',
    "no object": b"[1]",
    "nothing": b"",
    "text": b"hello",
    "a name in a text": b'{"id":"\\"x\\":1"}',
    "a name with a backslash": b'{"id\\\\":1,"z":2}',
    "blanks": b'{ "id" : "a" }',
    "an id for a name": b'{"to":{"12345":"x"}}',
    "an empty object": b"{}",
    "minus zero": b'{"count":-0,"total":-0.0}',
    "deep": b'{"deep":' * 20 + b"1" + b"}" * 20,
    "very deep": b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "a secret": b'{"password":"abc","id":"Bearer abcdefghijklmnop1"}',
    "a long text": b'{"note":"' + b"x" * 300 + b'"}',
    "an empty name": b'{"":{"":1}}',
    "a date that is none": b'{"at":"2026-02-30T00:00:00Z"}',
    "an object of another type": b'{"to":"Paris"}',
    "a tab": b'{"id":"a\tb"}',
    "a byte order mark": b'\xef\xbb\xbf{"id":"a"}',
}


@pytest.mark.parametrize("share", [200, 3, 1])
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_odd_objects_are_counted_as_python_counts_them(odd, share):
    bodies = [odd if n % share == share - 1 else json.dumps(one, separators=(",", ":")).encode() for n, one in enumerate(USUAL)]
    assert in_columns(bodies, ObjectReader())[0].counts == in_python(bodies).counts


@pytest.mark.parametrize("odd", [b'{"id":5}', b'{"id":"a","id":"b"}', b'{"total":2.0}', b"hello", b'{"id":"\xff"}'])
def test_one_odd_object_does_not_cost_the_others(odd):
    bodies = [odd if n % 200 == 199 else orjson.dumps(one) for n, one in enumerate(USUAL)]
    assert len(in_columns(bodies, ObjectReader())[1]) > 340


def test_objects_with_every_member_null_or_there_are_counted_in_columns():
    whole = [one | {"note": one.get("note"), "to": one["to"] | {"zip": one["to"].get("zip")}} for one in USUAL]
    bodies = [json.dumps(one).encode() for one in whole]
    counts, done = in_columns(bodies, ObjectReader())
    assert done == set(range(400))
    assert counts.counts == in_python(bodies).counts
    assert counts.counts["/data/note", "null"].events == 134


def test_keys_of_maps_do_not_become_columns():
    bodies = [json.dumps({"by": {f"name{chr(97 + n % 26)}{chr(97 + n // 26)}x{n}": {"n": n}}}).encode() for n in range(2000)]
    reader = ObjectReader()
    for start in range(0, 2000, 500):
        counts, _ = in_columns(bodies[start : start + 500], reader)
        assert counts.counts == in_python(bodies[start : start + 500]).counts
    assert reader.patience == 0


@law
@given(OBJECTS, st.randoms(), st.booleans())
def test_objects_in_columns_are_counted_as_python_counts_them(objects, random, is_compact):
    separators = (",", ":") if is_compact else (", ", ": ")
    bodies = [json.dumps(random.choice(objects), separators=separators, ensure_ascii=is_compact).encode() for _ in range(100)]
    reader = ObjectReader()
    for part in np.array_split(np.arange(100), 2):
        texts = [bodies[number] for number in part]
        assert in_columns(texts, reader)[0].counts == in_python(texts).counts


KNOWN = [f"/protocoloptions/{name}" for name in ("topic", "partition", "key", "key_base64", "headers")]


def record(number: int, **changed: Any) -> dict[str, Any]:
    """Return a row of `LANDED`: a record of Kafka that holds a binary CloudEvent."""
    named = {
        "ce_specversion": "1.0", "ce_id": f"e{number}", "ce_type": f"shop.T{number % 2}", "ce_subject": f"orders/{number}",
        "ce_source": f"https://shop.example.com/{number % 3}/orders", "ce_time": f"2026-03-0{1 + number % 2}T10:00:00Z",
        "content-type": "application/json", "region": "eu",
    }  # fmt: skip
    headers = [{"key": name, "value": text.encode()} for name, text in named.items()]
    options = [{"key": "topic", "value": "orders"}, {"key": "partition", "value": str(number % 4)}]
    return {
        "ordinal": 0, "source": "s", "partition": 0, "offset": number, "protocol": "KAFKA", "headers": headers,
        "options": options,
        "key": f"k{number}".encode(), "captured": KNOWN, "payload": orjson.dumps(usual(number)),
    } | changed  # fmt: skip


def with_headers(number: int, *more: tuple[str | None, bytes | None], without: str = "") -> dict[str, Any]:
    kept = [one for one in record(number)["headers"] if one["key"] != without]
    return record(number, headers=kept + [{"key": name, "value": text} for name, text in more])


def observed(batches: list[pa.RecordBatch], in_columns: bool, monkeypatch: pytest.MonkeyPatch, matcher: Any = None) -> list[str]:
    """Return the rows of `observed_paths` of what was counted, and how many events there were."""
    counters: Any = defaultdict(EventCounter)
    statuses: Counter[str] = Counter()
    with monkeypatch.context() as patched:
        if not in_columns:
            patched.setattr(proposalruns, "count_records", lambda batch, _: np.zeros(batch.num_rows, bool))
        for batch in batches:
            proposalruns._observe(matcher, batch, counters, statuses)
    rows = [row for (ordinal, breaks), counter in counters.items() for row in proposalruns.rows_of(counter, str(ordinal), breaks)]
    return [*sorted(map(repr, rows)), str(sorted(statuses.items()))]


RECORDS = {
    "usual": record,
    "without a key": lambda n: record(n, key=None if n % 2 else b"k"),
    "keys of bytes": lambda n: record(n, key=b"\xff" if n % 5 == 0 else b"k"),
    "landed on days": lambda n: record(n, landed_at=datetime(2026, 1, 1 + n % 3, 23, 59, tzinfo=timezone.utc)),
    "without content type": lambda n: with_headers(n, without="content-type"),
    "without time": lambda n: with_headers(n, without="ce_time"),
    "without type": lambda n: with_headers(n, without="ce_type"),
    "an empty type": lambda n: with_headers(n, ("ce_type", b""), without="ce_type"),
    "a header twice": lambda n: with_headers(n, ("region", b"us")),
    "a header without a value": lambda n: with_headers(n, ("x", None if n % 2 else b"x")),
    "a header of bytes": lambda n: with_headers(n, ("x", b"\xff" if n % 7 == 0 else b"x")),
    "a secret header": lambda n: with_headers(n, ("Authorization", b"Basic eDp5"), ("x-token", b"abc")),
    "the id of a schema": lambda n: with_headers(n, ("__value_schema_id", b"\x01\x02")),
    "packed": lambda n: with_headers(n, ("content-encoding", b"gzip")) | {"payload": gzip.compress(record(n)["payload"])},
    "some structured": lambda n: with_headers(n, ("content-type", b"application/cloudevents+json"), without="content-type")
    | {"payload": orjson.dumps({"specversion": "1.0", "id": "1", "source": "/s", "type": "shop.T0", "data": usual(n)})}
    if n % 9 == 8
    else record(n),
    "other shapes": lambda n: with_headers(n, (f"x{n % 3}", b"1")),
    "many sources": lambda n: with_headers(n, ("ce_source", f"/s/{n % 50}".encode()), without="ce_source"),
    "no CloudEvents": lambda n: record(n, headers=[{"key": "kind", "value": b"a"}]),
    "without payload": lambda n: record(n, payload=None if n % 6 == 0 else b"" if n % 6 == 1 else b"{}"),
    "two sources of the run": lambda n: record(n, ordinal=n % 2),
    "unreadable": lambda n: record(n, problem="cut off") if n % 4 == 0 else record(n),
    "odd payloads": lambda n: record(n, payload=list(ODD.values())[n % len(ODD)]) if n % 10 == 0 else record(n),
}  # fmt: skip


@pytest.mark.parametrize("make", RECORDS.values(), ids=RECORDS)
def test_records_in_columns_are_counted_as_events_are(make, monkeypatch):
    whole = pa.RecordBatch.from_pylist(list(map(make, range(1800))), LANDED)
    batches = [whole.slice(start, 900) for start in (0, 900)]
    assert observed(batches, True, monkeypatch) == observed(batches, False, monkeypatch)


def test_usual_records_are_in_columns_but_for_the_sample():
    counters: Any = defaultdict(EventCounter)
    done = count_records(pa.RecordBatch.from_pylist(list(map(record, range(900))), LANDED), lambda ordinal: counters[ordinal])
    assert int(done.sum()) == 900 - 2 * 200


def test_types_without_a_candidate_are_unmatched_and_the_others_are_matched(monkeypatch):
    rows, schemas = load({"r": json.dumps(declared())})
    matcher = Matcher(Index.of(rows), Payloads(Schemas(schemas)), MatchRequest())
    made = [
        with_headers(n, ("ce_type", b"shop.orders.OrderPlaced"), without="ce_type") if n % 3 == 0 else record(n)
        for n in range(900)
    ]
    batches = [pa.RecordBatch.from_pylist(made, LANDED)]
    found = observed(batches, True, monkeypatch, matcher)
    assert found == observed(batches, False, monkeypatch, matcher)
    assert found[-1] == "[('invalid', 300), ('unmatched', 600)]"
