"""Stale updates: what a document declared, wherever it declared it, is compared with what was declared before."""

from __future__ import annotations

import pytest
from builders import document, group

G, S = "/messagegroups/g/messages", "/schemagroups/s/schemas"
OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"


def edition(name, epoch, date):
    """Build a document whose entities declare an epoch or a date, each in another place."""
    schema = {"format": "JSONSchema/draft-07", "schema": {"title": name}}
    messages = {
        "single": {"name": name, "meta": {"epoch": epoch}},
        "versioned": {"meta": {"epoch": epoch, "readonly": name == "old"}, "versions": {"1": {"name": name}}},
        "default": {"epoch": epoch, "versions": {"1": {}, "2": {"name": name}}},
        "version": {"versions": {"1": {"name": name, "epoch": epoch}}},
        "dated": {"name": name, "meta": {"modifiedat": date}},
        "dated_version": {"name": name, "modifiedat": date},
    }
    schemas = {"single": schema | {"meta": {"epoch": epoch}}, "versioned": {"meta": {"epoch": epoch}, "versions": {"1": schema}}}
    held = {"g": group(messages, name=name, epoch=epoch)}
    return document(
        held, {"e": {"usage": ["producer"], "name": name, "modifiedat": date}}, {"s": group(schemas, holds="schemas")}
    )


STALE = {
    ("group", "/messagegroups/g"),
    ("endpoint", "/endpoints/e"),
    *(("message", f"{G}/{name}") for name in ("single", "versioned", "dated")),
    *(("version", f"{G}/{name}") for name in ("default/versions/2", "version/versions/1", "dated_version/versions/1")),
    *(("schema", f"{S}/{name}") for name in ("single", "versioned")),
}


@pytest.mark.slow
def test_what_is_older_than_declared_before_is_stale_wherever_it_is_declared(catalog):
    catalog.write("a.json", edition("new", 5, NEW))
    catalog.ingest()
    catalog.write("a.json", edition("old", 4, OLD))
    catalog.ingest()
    found = catalog.spark.table("violations").filter("rule_id = 'DOC-003'").collect()
    xids = set(catalog.rows("SELECT kind, xid FROM changes WHERE snapshot_id = 1 AND kind <> 'document'"))
    assert {one for one in xids if one[1] in {row["xid"] for row in found}} == STALE
    kept = {row["xid"]: row["epoch"] for row in catalog.spark.table("messages").collect()}
    assert (kept[f"{G}/single"], kept[f"{G}/versioned"]) == (5, 5)
    reported = "select name from versions where xid like '%/default/versions/2' union select name from endpoints"
    assert catalog.rows(reported) == ["new"]


@pytest.mark.slow
def test_what_was_counted_or_dated_by_a_commit_makes_nothing_stale(catalog):
    """A message whose Version declares an epoch has its own, counted epoch."""
    catalog.write("a.json", document({"g": group({"m": {"epoch": 7, "versions": {"1": {}}}, "n": {"name": "one"}})}))
    catalog.ingest()
    for authority in ("https://a.example", "https://b.example"):
        held = {"m": {"epoch": 7, "meta": {"authority": authority}, "versions": {"1": {}}}, "n": {"name": authority}}
        catalog.write("a.json", document({"g": group(held)}))
        catalog.ingest()
    assert catalog.rows("SELECT epoch FROM messages WHERE messageid = 'm'") == [3]
    held = {"m": {"epoch": 7, "meta": {"epoch": 1}, "versions": {"1": {}}}, "n": {"name": "two", "modifiedat": OLD}}
    catalog.write("a.json", document({"g": group(held)}))
    counts = catalog.ingest().entities
    assert (counts["messages"]["updated"], counts["versions"]["updated"]) == (1, 1)
    assert catalog.rows("SELECT count(*) FROM violations WHERE rule_id = 'DOC-003'") == [0]


@pytest.mark.slow
def test_a_date_in_the_words_of_another_dialect_is_declared_too(catalog):
    """The CNCF catalog draft spells it `updatedtimeutc`."""
    for date, description in ((NEW, "new"), (OLD, "old")):
        drafted = {"id": "d", "format": "CloudEvents", "updatedtimeutc": date, "description": description}
        catalog.write("a.json", drafted | {"messagedefinitions": []})
        catalog.ingest()
    assert catalog.rows("SELECT description FROM groups") == ["new"]
    assert catalog.rows("SELECT xid FROM violations WHERE rule_id = 'DOC-003'") == ["/messagegroups/d"]
