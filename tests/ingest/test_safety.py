"""Safety: deletions, stale documents, crashes, two writers, hostile documents."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Catalog
from planning import plan_of
from pyspark.sql import SparkSession
from soak.sessions import forget

from lakehouse.domain.ownership import Policy
from lakehouse.errors import CommitLost, PruneRefused
from lakehouse.failpoints import CrashRequested
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.log.commits import CommitInfo, commit, read_head
from lakehouse.log.projections import roll_forward
from lakehouse.store.schema import ENTITY_TABLES, STAGE

PRUNE = IngestRequest(Policy(prune=True))
PRUNE_BY_FORCE = IngestRequest(Policy(prune=True, force=True))
FORCE = IngestRequest(Policy(force=True))


def document(*messages, **more):
    return {"messagegroups": {"g": {"messages": {name: {"name": name} for name in messages}}}, **more}


def contents(catalog):
    """Return all entity rows without what differs between two runs of the same."""
    columns = "registryid, xid, content_hash, epoch, snapshot_id"
    return {table.name: sorted(catalog.rows(f"SELECT {columns} FROM {table.name}")) for table in ENTITY_TABLES}


# Cases that do not affect each other: each has its own registry and folder in one catalog


class Steps:
    """What the ingests of one catalog returned, and what was there between them."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.folder = catalog.documents
        self.write("vanish/a", "m", "n", "o")
        self.write("vanish/b", "p")
        self.write("cut/a", "m", "n")
        self.write("below/a", "m", "n")
        self.write("half/a", "m")
        self.write("half/b", *"abcdef")
        self.write("dry/a", "m")
        catalog.ingest(request=IngestRequest(label="release 1"))

        catalog.write("dry/a.json", document("m", registryid="dry") | DRY_EDIT)
        self.dry = catalog.ingest(self.folder / "dry", request=IngestRequest(dry_run=True)).as_json()
        self.after_dry = catalog.rows("SELECT max(snapshot_id) FROM changes") + catalog.rows("SELECT count(*) FROM violations")
        self.write("dry/a", "m")

        for name in ("vanish/b", "half/b"):
            (self.folder / f"{name}.json").unlink()
        self.without_prune = catalog.ingest()
        with pytest.raises(PruneRefused, match="--force"):
            catalog.ingest(self.folder / "half", request=PRUNE)
        self.after_refusal = self.count("half")
        catalog.write("below/a.json", {"registryid": "below", "messagegroups": {"g": {"messages": ["not", "a", "map"]}}})
        self.forced = catalog.ingest(self.folder / "half", self.folder / "below", request=PRUNE_BY_FORCE)
        catalog.write("cut/a.json", b"{ cut off")
        self.pruned = catalog.ingest(request=PRUNE)
        self.read_again = catalog.ingest(self.folder / "vanish", request=FORCE)

    def write(self, name: str, *messages: str) -> None:
        self.catalog.write(f"{name}.json", document(*messages, registryid=name.partition("/")[0]))

    def count(self, registry: str) -> list[Any]:
        return self.catalog.rows(f"SELECT count(*) FROM messages WHERE registryid = '{registry}' AND size(document_uris) = 1")


DRY_EDIT = {"messagegroups": {"g": {"messages": {"m": {"name": "edited"}, "bad": {"envelope": 5}}}}}


@pytest.fixture(scope="module")
def steps(spark: SparkSession, empty_warehouse: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Steps]:
    catalog = Catalog(spark, tmp_path_factory.mktemp("steps"))
    shutil.copytree(empty_warehouse, catalog.settings.warehouse)
    yield Steps(catalog)
    forget(spark, Path(catalog.settings.warehouse))


def test_prune_deletes_what_a_vanished_document_held(steps):
    assert steps.without_prune.snapshot_id is None
    assert (steps.pruned.entities["messages"]["deleted"], steps.pruned.entities["groups"]["deleted"]) == (1, 0)
    deleted = "SELECT kind, xid LIKE '%vanish/b.json' FROM changes WHERE op = 'delete' AND snapshot_id = 3 ORDER BY 1"
    assert steps.catalog.rows(deleted) == [("document", True), ("message", False), ("version", False)]


def test_prune_refuses_to_delete_more_than_half_unless_forced(steps):
    assert steps.after_refusal == [7]
    assert steps.forced.entities["messages"]["deleted"] == 6
    assert steps.count("half") == [1]


def test_a_rejected_document_drops_nothing(steps):
    assert steps.pruned.documents["rejected"] == 1
    assert steps.count("cut") == [2]


def test_what_is_refused_is_not_dropped_nor_what_stands_below_it(steps):
    assert steps.count("below") == [2]


def test_force_reads_again_and_commits_nothing_when_nothing_changed(steps):
    found = steps.read_again
    assert (found.snapshot_id, found.documents["unchanged"], found.entities["messages"]["unchanged"]) == (None, 0, 3)


def test_a_dry_run_reports_what_would_change_and_does_nothing(steps):
    assert (steps.dry["snapshot_id"], steps.dry["dry_run"], steps.dry["entities"]["versions"]["updated"]) == (None, True, 1)
    changed = {"op": "update", "registryid": "dry", "kind": "version", "xid": "/messagegroups/g/messages/m/versions/1"}
    assert steps.dry["changes"] == [changed]
    assert steps.after_dry == [1, 0]


def test_a_label_names_the_snapshot(steps):
    assert steps.catalog.rows("SELECT xid, snapshot_id FROM changes WHERE kind = 'label'") == [("release 1", 1)]


# Deletions


@pytest.mark.slow
def test_what_a_document_dropped_stays_without_an_owner_and_goes_with_prune(catalog):
    catalog.write("a.json", document("m", "n", "o"))
    catalog.ingest()
    catalog.write("a.json", document("m", "o"))
    assert catalog.ingest().entities["messages"] == {"inserted": 0, "updated": 1, "deleted": 0, "unchanged": 2, "quarantined": 0}
    assert catalog.rows("SELECT messageid FROM messages WHERE size(document_uris) = 0") == ["n"]
    pruned = catalog.ingest(request=PRUNE)
    assert (pruned.entities["messages"]["deleted"], pruned.entities["versions"]["deleted"]) == (1, 1)
    assert sorted(catalog.rows("SELECT messageid FROM messages")) == ["m", "o"]
    assert catalog.ingest(request=PRUNE).snapshot_id is None


def test_prune_empties_no_small_registry_since_a_large_one_loses_little(catalog):
    catalog.write("a.json", document("m", "n", "o", registryid="small"))
    catalog.write("b.json", document(*(f"m{number}" for number in range(20)), registryid="large"))
    catalog.write("b2.json", document("last", registryid="large"))
    catalog.ingest()
    for name in ("a.json", "b2.json"):
        (catalog.documents / name).unlink()
    for planner in ("auto", "spark"):
        settings = catalog.settings.model_copy(update={"planner": planner})
        with pytest.raises(PruneRefused, match="8 of the 8 entities of registry 'small'"):
            catalog.ingest(settings=settings, request=PRUNE)
    assert catalog.rows("SELECT registryid, count(*) FROM messages GROUP BY 1 ORDER BY 1") == [("large", 21), ("small", 3)]


@pytest.mark.slow
def test_prune_keeps_what_another_document_still_holds(catalog):
    catalog.write("a.json", document("m", "n"))
    catalog.write("b.json", document("n"))
    catalog.ingest()
    catalog.write("a.json", document("m"))
    assert catalog.ingest(request=PRUNE).entities["messages"]["deleted"] == 0
    assert [len(uris) for uris in catalog.rows("SELECT document_uris FROM messages ORDER BY messageid")] == [1, 1]


@pytest.mark.slow
def test_what_comes_back_goes_on_counting_its_epoch(catalog):
    catalog.write("a.json", document("m", "n", "o"))
    catalog.ingest()
    catalog.write("a.json", document("m", "o"))
    catalog.ingest(request=PRUNE)
    catalog.write("a.json", document("m", "n", "o"))
    assert catalog.ingest().entities["versions"]["inserted"] == 1
    assert catalog.rows("SELECT versions.epoch FROM versions WHERE name = 'n'") == [2]


# Stale documents


@pytest.mark.slow
def test_a_stale_entity_is_refused_with_a_warning_and_taken_by_force(catalog):
    def version(name, epoch):
        return {"messagegroups": {"g": {"messages": {"m": {"name": name, "epoch": epoch}}}}}

    catalog.write("a.json", version("new", 5))
    catalog.ingest()
    catalog.write("a.json", version("old", 4))
    summary = catalog.ingest()
    assert (summary.snapshot_id, summary.violations["warning"]) == (2, 1)  # the facts of the document changed
    assert summary.entities["versions"]["quarantined"] == 1
    assert catalog.rows("SELECT name, epoch FROM versions") == [("new", 5)]
    assert catalog.rows("SELECT severity, action FROM violations WHERE rule_id = 'DOC-003'") == [("warning", "quarantined")]
    assert catalog.ingest().snapshot_id is None
    assert catalog.ingest(request=FORCE).entities["versions"]["updated"] == 1
    assert catalog.rows("SELECT name, epoch FROM versions") == [("old", 4)]


@pytest.mark.slow
def test_a_declared_epoch_below_a_counted_one_is_not_stale(catalog):
    catalog.write("a.json", document("m"))
    catalog.ingest()
    for name in ("x", "y"):
        catalog.write("a.json", {"messagegroups": {"g": {"messages": {"m": {"name": name}}}}})
        catalog.ingest()
    catalog.write("a.json", {"messagegroups": {"g": {"messages": {"m": {"name": "z", "epoch": 1}}}}})
    assert catalog.ingest().entities["versions"]["updated"] == 1


# Flags


@pytest.mark.slow
def test_strict_refuses_a_document_whole(catalog):
    catalog.write("a.json", {"messagegroups": {"g": {"messages": {"m": {}, "bad": {"envelope": 5}}}}})
    catalog.write("b.json", {"messagegroups": {"h": {}}})
    summary = catalog.ingest(request=IngestRequest(strict=True))
    assert (summary.documents["rejected"], summary.entities["groups"]["inserted"]) == (1, 1)
    reported, raw = catalog.rows("SELECT message, raw FROM violations")[0]
    assert "MSG-051" in reported
    assert "bad" in raw


# Crashes

POINTS = ["after_stage", "before_commit", "after_commit", "after_project_groups", "after_project_versions"]
POINTS += ["after_project_effective_messages"]


@pytest.mark.slow
@pytest.mark.parametrize("point", POINTS)
def test_after_a_crash_and_a_rerun_all_is_as_if_undisturbed(catalog, monkeypatch, point):
    refreshing = point == "after_project_effective_messages"
    catalog.settings = catalog.settings.model_copy(update={"refresh_effective": refreshing})
    catalog.write("a.json", {"messagegroups": {"g": {"messages": {"m": {}, "bad": {"envelope": 5}}}}})
    monkeypatch.setenv("LAKEHOUSE_CRASH_AT", point)
    with pytest.raises(CrashRequested):
        catalog.ingest()
    monkeypatch.delenv("LAKEHOUSE_CRASH_AT")
    catalog.ingest()
    assert {table: [row[:2] for row in rows] for table, rows in contents(catalog).items() if rows} == {
        "registries": [("default", "/")],
        "groups": [("default", "/messagegroups/g")],
        "messages": [("default", "/messagegroups/g/messages/m")],
        "versions": [("default", "/messagegroups/g/messages/m/versions/1")],
    }
    assert catalog.rows("SELECT count(*) FROM effective_messages") == [int(refreshing)]
    assert catalog.rows("SELECT max(snapshot_id), count(*) FROM changes WHERE kind = 'snapshot'") == [(1, 1)]
    assert catalog.rows("SELECT count(*), count(DISTINCT violation_id) FROM violations") == [(2, 2)]


@pytest.mark.slow
def test_stages_of_dead_runs_are_removed_by_age(catalog, monkeypatch):
    catalog.write("a.json", document("m"))
    monkeypatch.setenv("LAKEHOUSE_CRASH_AT", "after_stage")
    with pytest.raises(CrashRequested):
        catalog.ingest()
    monkeypatch.delenv("LAKEHOUSE_CRASH_AT")
    folder = catalog.documents.parent / "warehouse" / "_stage"
    assert len(list(folder.iterdir())) == 1
    catalog.ingest()
    assert len(list(folder.iterdir())) == 1  # young: its run may live
    for stage in folder.iterdir():
        import os

        os.utime(stage, (0, 0))
    catalog.ingest()
    assert list(folder.iterdir()) == []


# Two writers


@pytest.mark.slow
def test_a_writer_that_lost_the_race_notices(catalog):
    catalog.write("a.json", document("m"))
    catalog.ingest()
    head = read_head(catalog.spark)
    nothing = catalog.spark.createDataFrame([], STAGE)
    stale = plan_of(catalog.spark, head, nothing)
    catalog.write("a.json", document("m", "n"))
    catalog.ingest()
    with pytest.raises(CommitLost):
        commit(catalog.spark, stale, nothing, CommitInfo("late", "ingest", {}))
    ingests = [json.loads(body)["ingest_id"] for body in catalog.rows("SELECT body FROM changes WHERE kind = 'snapshot'")]
    assert len(ingests) == 2
    assert "late" not in ingests


def test_a_writer_that_lost_the_race_plans_again(catalog, monkeypatch):
    catalog.write("a.json", document("m"))
    from lakehouse.ingest import pipeline

    genuine, first = pipeline.commit, []

    def overtaken(spark, plan, stage, run, entities=None):
        if not first:
            first.append(True)
            nothing = spark.createDataFrame([], STAGE)
            other = plan_of(spark, plan.head, nothing)
            roll_forward(spark, genuine(spark, other, nothing, CommitInfo("other", "ingest", {})))
        return genuine(spark, plan, stage, run, entities)

    monkeypatch.setattr(pipeline, "commit", overtaken)
    assert catalog.ingest().snapshot_id == 2
    assert catalog.rows("SELECT count(*) FROM messages") == [1]


# Hostile documents

HOSTILE = [
    b'{"messagegroups":{"../../x":{}}}',
    b'{"messagegroups":{"a\'; DROP TABLE messages; --":{}}}',
    b'{"messagegroups":{"g":{"messages":{"<script>":{}}}}}',
    b'{"messagegroups":{"g":{"messages":{"m":{"name":"' + b"x" * 100_000 + b'"}}}}}',
    b'{"messagegroups":{"g":{"messages":{"m":{"name":"\\u0000\\u001b[31m\\u2028"}}}}}',
    b'{"messagegroups":{"g":{"messages":{"m":{"name":"\\ud800"}}}}}',
    b'{"messagegroups":' + b'{"g":' * 100 + b"1" + b"}" * 100 + b"}",
    b'{"messagegroups":{"g":{"epoch":' + b"9" * 5000 + b"}}}",
    b'{"messagegroups":{"g":{"epoch":-1,"labels":{"a":[]},"createdat":"0000-01-01T00:00:00Z"}}}',
    b'{"messagegroups":{"g":{"messages":{"m":{"basemessage":"/messagegroups/g/messages/m"}}}}}',
    b'{"messagegroups":null,"endpoints":[],"schemagroups":7}',
    b'{"registryid":"../etc","messagegroups":{}}',
    b"",
    b"null",
    b"[" * 100_000,
]


@pytest.mark.slow
def test_hostile_documents_neither_stop_the_others_nor_leave_the_warehouse(catalog):
    for index, text in enumerate(HOSTILE):
        catalog.write(f"{index:02}.json", text)
    catalog.write("zz.json", document("good", registryid="good"))
    summary = catalog.ingest()
    assert summary.documents["read"] == len(HOSTILE) + 1
    assert summary.hidden == []
    assert catalog.rows("SELECT messageid FROM messages WHERE registryid = 'good'") == ["good"]
    assert sorted(path.name for path in catalog.documents.parent.iterdir()) == ["documents", "warehouse"]
    assert catalog.rows("SELECT xid FROM groups WHERE xid LIKE '%DROP%' OR xid LIKE '%..%'") == []


@pytest.mark.slow
def test_a_document_with_too_many_entities_is_rejected(catalog):
    catalog.write("a.json", document(*(f"m{index}" for index in range(50))))
    summary = catalog.ingest(settings=catalog.settings.model_copy(update={"max_entities": 20}))
    assert summary.documents["rejected"] == 1
    assert catalog.rows("SELECT rule_id FROM violations") == ["JSON-004"]
