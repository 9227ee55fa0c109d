"""A small change costs what it is: few queries, the same result as by the way of large ones."""

from __future__ import annotations

import re

import pytest
from histories import contents, shop
from queries import executions
from soak.runs import WAYS
from soak.sessions import forget_attached

from lakehouse.settings import read_settings
from lakehouse.store import materialize, merges

MOST_EXECUTIONS = 35  # of SQL, for one message of an attached catalog, each some 0.1 s of planning


def document(edited: str):
    messages = {
        f"m{n}": {
            "envelope": "CloudEvents/1.0",
            "description": edited if n == 0 else "the same",
            "envelopemetadata": {"type": {"value": f"t.{n}"}, "source": {"value": "/s"}},
        }
        for n in range(20)
    }
    return {"messagegroups": {"g": {"messages": messages}}}


@pytest.fixture
def shipped(catalog):
    """A catalog with all settings as shipped."""
    catalog.settings = read_settings(warehouse=catalog.settings.warehouse)
    return catalog


def test_one_message_takes_few_queries(shipped):
    for edited in ("one", "two"):
        shipped.write("a.json", document(edited))
        shipped.ingest()
    shipped.write("a.json", document("three"))
    before = executions(shipped.spark)
    assert shipped.ingest().entities["versions"] == {"inserted": 0, "updated": 1, "deleted": 0, "unchanged": 19, "quarantined": 0}
    assert 0 < executions(shipped.spark) - before <= MOST_EXECUTIONS, executions(shipped.spark) - before


@pytest.mark.slow
def test_small_and_large_ways_give_the_same(shipped, tmp_path, monkeypatch):
    """Three releases with bases, endpoints, schemas and something refused, by all ways; tables count as large."""
    monkeypatch.setattr(merges, "_LARGE_TABLE", -1)
    monkeypatch.setattr(materialize, "_MOST_IN_A_PLAN", 0)
    found = []
    for way, overrides in WAYS.items():
        forget_attached(shipped.spark)
        shipped.settings = read_settings(warehouse=str(tmp_path / way), **overrides)
        reported = []
        for release in (shop("one", "m", "n", "o"), shop("two", "m", "n", "o"), shop("three", "m", "o")):
            shipped.write("a.json", release)
            reported.append(shipped.ingest().as_json() | {"seconds": None})
        rows_of_tables = contents(shipped, "xregistry")
        effective = shipped.rows(
            "SELECT registryid, xid, chain_status, attributes, depends_on, snapshot_id FROM effective_messages"
        )
        found.append((reported, {name: _timeless(rows) for name, rows in rows_of_tables.items()}, sorted(map(str, effective))))
    assert all(other == found[0] for other in found)


def _timeless(rows):
    """Leave out what the clock and the run say."""
    return sorted(re.sub(r"datetime\.datetime\([^)]*\)|(?<=ingest_id=')[^']*", "", row) for row in rows)
