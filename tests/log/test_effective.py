"""The stored result of flattening follows the log: equal to the view after any edits, nothing else rewritten, show tells it."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from builders import document, group

from lakehouse.faults import CrashRequested
from lakehouse.ingest.pipeline import Request
from lakehouse.log.ownership.owners import Policy
from lakehouse.query.sql import run_query

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
    assert rows_of(catalog, "effective_messages") == rows_of(catalog, "flat_messages")
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
        catalog.ingest(request=Request(Policy(prune=True)))
        after = rows_of(catalog, "effective_messages")
        assert after == rows_of(catalog, "flat_messages")
        stamped = {row["xid"]: row["snapshot_id"] for row in catalog.spark.table("effective_messages").collect()}
        rewritten = {xid for xid, snapshot in stamped.items() if snapshot != before.get(xid)}
        differing = {key[1] for key, row in after.items() if known.get(key) != row}
        dependants = {key[1] for key, row in after.items() if set(row["depends_on"]) & differing}
        assert differing <= rewritten <= dependants | differing


def test_a_refresh_that_was_lost_is_made_up(catalog, monkeypatch):
    write(catalog, {0: None, 1: 0, 2: None}, {})
    catalog.ingest()
    write(catalog, {0: None}, {0: "other"})
    monkeypatch.setenv("LAKEHOUSE_CRASH_AT", "after_project_versions")
    with pytest.raises(CrashRequested):
        catalog.ingest()
    monkeypatch.delenv("LAKEHOUSE_CRASH_AT")
    assert [row["name"] for row in rows_of(catalog, "effective_messages").values()].count("other") == 0
    catalog.ingest()
    assert rows_of(catalog, "effective_messages") == rows_of(catalog, "flat_messages")
    assert {row["name"] for row in rows_of(catalog, "effective_messages").values()} == {"other", "n1", "n2"}
    history = catalog.spark.sql("DESCRIBE HISTORY effective_messages").count()
    assert catalog.ingest().snapshot_id is None
    assert catalog.spark.sql("DESCRIBE HISTORY effective_messages").count() == history
