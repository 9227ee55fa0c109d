"""The stored result of flattening follows the log: equal to the view after any edits, nothing else rewritten, show reports it."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from builders import document, group

from lakehouse.domain.ownership import Policy
from lakehouse.failpoints import CrashRequested
from lakehouse.ingest.pipeline import IngestRequest, ingest
from lakehouse.log import effectivetable
from lakehouse.log.snapshots import open_relations
from lakehouse.operations.rebuild import rebuild_tables
from lakehouse.query.sql import run_query
from lakehouse.store.views import with_read

pytestmark = pytest.mark.slow

G = "/messagegroups/g/messages/"


@pytest.fixture
def catalog(catalog):
    """A catalog whose ingests refresh the table."""
    catalog.settings = catalog.settings.model_copy(update={"refresh_effective": True})
    return catalog


def rows_of(catalog, relation: str) -> dict[tuple[str, str], Any]:
    result = run_query(catalog.spark, catalog.settings, f"SELECT * FROM {relation}")
    found = [json.loads(row) for row in result.json_rows()]
    for row in found:
        row.pop("snapshot_id", None)
        row["depends_on"] = sorted(row["depends_on"])
    return {(row["registryid"], row["xid"]): row for row in found}


def write(catalog, bases: dict[int, Any], texts: dict[int, str]) -> None:
    """Write one document a message, so that an edit of one is an ingest of one."""
    for i, base in bases.items():
        written: dict[str, Any] = {"name": texts.get(i, f"n{i}"), "labels": {f"l{i}": "x"}}
        written |= {} if base is None else {"basemessage": f"{G}m{base}"}
        alias = {"meta": {"xref": f"{G}m{base}"}}
        catalog.write(f"{i:03}.json", document({"g": group({f"m{i}": alias if isinstance(base, str) else written})}))


def test_edits_deletions_and_cycles_leave_the_table_equal_to_the_view(catalog):
    rng = random.Random(5)
    bases: dict[int, Any] = {i: rng.choice([None, rng.randrange(i), rng.randrange(40)]) if i else None for i in range(24)}
    bases[20] = "3"
    bases[21] = "30"
    bases[22], bases[23] = 21, 20
    write(catalog, bases, {})
    catalog.ingest()
    assert rows_of(catalog, "effective_messages") == rows_of(catalog, "computed_messages")
    edits: list[tuple[dict[int, Any], list[int]]] = [
        ({0: None, 5: 2, 30: 1}, []),  # an edit, another base, what a dangling alias waits for
        ({1: 2, 2: 1, 6: 6}, [4, 30]),  # cycles come, others go
        ({1: None, 20: "7"}, []),  # a cycle is broken, an alias turns elsewhere
    ]
    for number, (edited, deleted) in enumerate(edits):
        before = {row["xid"]: row["snapshot_id"] for row in catalog.spark.table("effective_messages").collect()}
        known = rows_of(catalog, "effective_messages")
        write(catalog, edited, dict.fromkeys(edited, f"edit {number}"))
        for i in deleted:
            (catalog.documents / f"{i:03}.json").unlink()
        catalog.ingest(request=IngestRequest(Policy(prune=True)))
        after = rows_of(catalog, "effective_messages")
        assert after == rows_of(catalog, "computed_messages")
        stamped = {row["xid"]: row["snapshot_id"] for row in catalog.spark.table("effective_messages").collect()}
        rewritten = {xid for xid, snapshot in stamped.items() if snapshot != before.get(xid)}
        differing = {key[1] for key, row in after.items() if known.get(key) != row}
        dependants = {key[1] for key, row in after.items() if set(row["depends_on"]) & differing}
        assert differing <= rewritten <= dependants | differing


def crash(*_: object, **__: object) -> None:
    raise CrashRequested("refresh")


def test_a_base_may_name_a_version_that_its_message_does_not_show(catalog):
    """Its own base is none that the message's row depends on, so the chain is followed over the Versions themselves."""
    older = {"b": {"meta": {"defaultversionid": "2"}, "versions": {"1": {"basemessage": f"{G}c/versions/1"}, "2": {"name": "b"}}}}
    oldest = {"c": {"meta": {"defaultversionid": "2"}, "versions": {"1": {"basemessage": f"{G}d"}, "2": {"name": "c"}}}}
    for name, messages in {"b": older, "c": oldest, "d": {"d": {"description": "of d"}}, "x": {"x": {"name": "x"}}}.items():
        catalog.write(f"{name}.json", document({"g": group(messages)}))
    catalog.ingest()
    catalog.write("x.json", document({"g": group({"x": {"name": "x", "basemessage": f"{G}b/versions/1"}})}))
    catalog.ingest()
    found = rows_of(catalog, "effective_messages")
    assert found == rows_of(catalog, "computed_messages")
    assert found["default", f"{G}x"]["description"] == "of d"
    catalog.write("d.json", document({"g": group({"d": {"description": "edited"}})}))
    catalog.ingest()
    assert rows_of(catalog, "effective_messages")["default", f"{G}x"]["description"] == "edited"


def test_a_refresh_that_was_lost_is_made_up(catalog, monkeypatch):
    write(catalog, {0: None, 1: 0, 2: None}, {})
    catalog.ingest()
    write(catalog, {0: None}, {0: "other"})
    with monkeypatch.context() as patch:
        for function in ("refresh", "take"):  # by Spark, by the driver
            patch.setattr(effectivetable, function, crash)
        with pytest.raises(CrashRequested):
            catalog.ingest()
    assert [row["name"] for row in rows_of(catalog, "effective_messages").values()].count("other") == 0
    assert rows_of(catalog, "flat_messages") == rows_of(catalog, "computed_messages")  # is not behind
    catalog.ingest()
    assert rows_of(catalog, "effective_messages") == rows_of(catalog, "computed_messages")
    assert {row["name"] for row in rows_of(catalog, "effective_messages").values()} == {"other", "n1", "n2"}
    history = catalog.spark.sql("DESCRIBE HISTORY effective_messages").count()
    assert catalog.ingest().snapshot_id is None
    assert catalog.spark.sql("DESCRIBE HISTORY effective_messages").count() == history


def test_a_table_that_was_rebuilt_empty_takes_the_first_messages(catalog):
    """Delta knows its first transaction by then, and leaves out another one."""
    catalog.write("a.json", document({"g": group({})}))
    catalog.ingest()
    rebuild_tables(catalog.spark, catalog.settings)
    write(catalog, {0: None, 1: 0}, {})
    catalog.ingest()
    found = rows_of(catalog, "effective_messages")
    assert [xid for _, xid in sorted(found)] == [f"{G}m0", f"{G}m1"]
    assert found == rows_of(catalog, "computed_messages")


def tables_read(catalog, relation: str) -> set[str]:
    """Return the tables whose files a query of a relation reads."""
    plan = catalog.spark.sql(f"EXPLAIN SELECT name FROM {relation}").collect()[0][0]
    return set(re.findall(r"spark_catalog\.xregistry\.(\w+)", plan))


def test_flat_messages_is_what_is_stored_at_the_head_and_at_each_snapshot_that_delta_still_holds(catalog):
    write(catalog, {0: None, 1: 0}, {})
    catalog.ingest()
    write(catalog, {0: None}, {0: "other"})
    catalog.ingest()
    catalog.write("endpoint.json", {"endpoints": {"e": {"endpointid": "e", "usage": ["producer"]}}})
    catalog.ingest()  # changes no definition: the table stays at snapshot 2
    spark, settings = catalog.spark, catalog.settings
    flat = with_read(["flat_messages"])
    assert tables_read(catalog, f"{open_relations(spark, settings, flat)}.flat_messages") == {"effective_messages"}
    assert rows_of(catalog, "flat_messages") == rows_of(catalog, "computed_messages")
    names = {}
    for at in ("1", "2", "3"):
        schema = open_relations(spark, settings, flat, at=at)
        assert tables_read(catalog, f"{schema}.flat_messages") == {"effective_messages"}
        names[at] = [row["name"] for row in spark.table(f"{schema}.flat_messages").orderBy("xid").collect()]
        assert {row["snapshot_id"] for row in spark.table(f"{schema}.effective_messages").collect()} == {int(at)}
    assert names == {"1": ["n0", "n1"], "2": ["other", "n1"], "3": ["other", "n1"]}
    spark.sql("ALTER TABLE effective_messages SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 0 hours')")
    schema = open_relations(spark, settings, flat, at="1")  # its files may go at any time
    assert tables_read(catalog, f"{schema}.flat_messages") == {"changes"}
    assert [row["name"] for row in spark.table(f"{schema}.flat_messages").orderBy("xid").collect()] == names["1"]
    assert {row["snapshot_id"] for row in spark.table(f"{schema}.effective_messages").collect()} == {1}


def test_without_a_stored_result_flat_messages_is_computed(catalog):
    write(catalog, {0: None, 1: 0}, {})
    settings = catalog.settings.model_copy(update={"refresh_effective": False})
    ingest(catalog.spark, settings, [str(catalog.documents)])
    schema = open_relations(catalog.spark, settings, with_read(["flat_messages"]))
    assert "effective_messages" not in tables_read(catalog, f"{schema}.flat_messages")
    assert catalog.spark.table("flat_messages").count() == 2
