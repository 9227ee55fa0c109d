"""What holds others counts what came into it and what went, as over HTTP: once for each snapshot, but for what is declared."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from lakehouse.domain.ownership import Policy
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.operations.doctor import diagnose

A, B = ({"name": name} for name in "ab")
ONE, TWO = ({"versions": {number: {} for number in numbers}, "meta": {"defaultversionid": "1"}} for numbers in ("1", "12"))
SCHEMA = {"format": "JSONSchema/draft-07", "schema": {}}
DATED = {"modifiedat": "2020-01-01T00:00:00Z"}


def of(registryid, **groups):
    """Build a document; a group without `messages` is one of these."""
    held = {name: said if "messages" in said else {"messages": said} for name, said in groups.items()}
    return {"specversion": "1.0-rc2", "registryid": registryid, "messagegroups": held}


def declaring(**declared):
    """Build a group before and after a message came."""
    return [{"messages": messages} | declared for messages in ({"a": A}, {"a": A, "b": B})]


BOTH, EPOCH, DATE = declaring(epoch=7, **DATED), declaring(epoch=7), declaring(**DATED)
# Before, after, and the holders whose epochs or dates are others then.
CASES = {
    "came": (of("came", g={"a": A}), of("came", g={"a": A, "b": B}), {"/messagegroups/g": 2}),
    "changed": (of("changed", g={"a": A}), of("changed", g={"a": B}), {}),
    "went": (of("went", g={"a": A, "b": B}), of("went", g={"a": A}), {"/messagegroups/g": 2}),
    "version": (of("version", g={"a": ONE}), of("version", g={"a": TWO}), {"/messagegroups/g/messages/a": 2}),
    "groups": (of("groups", g={"a": A}), of("groups", g={"a": A}, h={"a": A}, i={}), {"/": 2}),
    "written": (
        of("written", g={"messages": {"a": A}}),
        of("written", g={"messages": {"a": A, "b": B}, "name": "G"}),
        {"/messagegroups/g": 2},
    ),
    "both": (of("both", g=BOTH[0]), of("both", g=BOTH[1]), {}),
    "epoch": (of("epoch", g=EPOCH[0]), of("epoch", g=EPOCH[1]), {"/messagegroups/g": 7}),
    "date": (of("date", g=DATE[0]), of("date", g=DATE[1]), {"/messagegroups/g": 2}),
    "endpoint": (
        of("endpoint") | {"endpoints": {"e": {"usage": ["producer"], "messages": {}}}},
        of("endpoint") | {"endpoints": {"e": {"usage": ["producer"], "messages": {"a": A, "b": B}}}},
        {"/endpoints/e": 2},
    ),
    "schema": (
        of("schema") | {"schemagroups": {"s": {"schemas": {"t": SCHEMA}}}},
        of("schema") | {"schemagroups": {"s": {"schemas": {"t": SCHEMA, "u": SCHEMA}}}},
        {"/schemagroups/s": 2},
    ),
}
_ROWS = """SELECT registryid, xid, epoch, modifiedat FROM changes
    WHERE snapshot_id = {0} AND op = 'update' AND kind IN ('registry', 'group', 'endpoint', 'message', 'schema')"""


@pytest.mark.slow
def test_a_holder_counts_what_came_and_what_went(catalog):
    for name, (before, _, _) in CASES.items():
        catalog.write(f"{name}.json", before)
    # A group of two documents, of which the second vanishes: the first, which holds its text, is not read then
    for name, own in {"two": {}, "declared": {"epoch": 7} | DATED}.items():
        catalog.write(f"{name}-1.json", of(name, g={"messages": {"a": A, "b": A}} | own))
        catalog.write(f"{name}-2.json", of(name, g={"messages": {"c": A}} | own))
    catalog.ingest()
    assert catalog.rows("SELECT count(*) FROM changes WHERE op = 'update'") == [0]
    # When members come and go
    for name, (_, after, _) in CASES.items():
        catalog.write(f"{name}.json", after)
    for name in ("two-2", "declared-2"):
        (catalog.documents / f"{name}.json").unlink()
    summary = catalog.ingest(request=IngestRequest(Policy(prune=True)))
    assert summary.snapshot_id == 2
    # Then what holds them is counted once, at the time of the snapshot, and stays as far as it is declared
    expected = {(name, xid): epoch for name, (_, _, grown) in CASES.items() for xid, epoch in grown.items()}
    rows = catalog.spark.sql(_ROWS.format(2)).collect()
    assert {(row["registryid"], row["xid"]): row["epoch"] for row in rows} == expected | {("two", "/messagegroups/g"): 2}
    body = "SELECT get_json_object(body, '$.committed_at') FROM changes WHERE kind = 'snapshot' AND snapshot_id = 2"
    committed_at = datetime.fromisoformat(catalog.rows(body)[0])
    for row in rows:
        expected_date = datetime(2020, 1, 1, tzinfo=timezone.utc) if row["registryid"] == "date" else committed_at
        assert row["modifiedat"].astimezone(timezone.utc) == expected_date, row
    # And it stays what it was, and whose it was
    texts = "SELECT count(DISTINCT content_hash, body, document_uris) FROM changes WHERE registryid = 'came' AND kind = 'group'"
    assert catalog.rows(texts) == [1]
    assert catalog.rows("SELECT epoch FROM groups WHERE registryid = 'declared'") == [7]
    assert [one for one in diagnose(catalog.spark, catalog.settings, deep=True) if one.state == "error"] == []
    # And the same again changes nothing, and is not older than what it became
    assert catalog.ingest(request=IngestRequest(Policy(force=True))).snapshot_id is None
    assert catalog.rows("SELECT count(*) FROM violations WHERE rule_id = 'DOC-003'") == [0]
