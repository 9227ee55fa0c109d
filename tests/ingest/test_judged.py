"""The same ingest again, with nothing published since: what was refused is not read and judged again, and stays refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from builders import group
from queries import executions
from soak.sessions import forget_attached

from lakehouse.domain.ownership import Policy
from lakehouse.ingest import pipeline
from lakehouse.ingest.pipeline import IngestRequest

MOST_EXECUTIONS = 11
EVENT = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "t"}}}
NO_SCHEMA = {"dataschemaxid": "/schemagroups/s/schemas/none", "dataschemaformat": "Avro/1.9"}
SCHEMAS = {"s": group({"t": {"format": "Avro/1.9", "schema": "x"}}, holds="schemas")}


class Judged(Exception):
    """Documents would be parsed and judged."""


@pytest.fixture
def judged(catalog):
    """A catalog that checks relations, and documents of which something is refused, each in another way."""
    catalog.settings = catalog.settings.model_copy(update={"check_relations": True})
    catalog.write("good.json", {"messagegroups": {"g": group({"t": EVENT})}})  # has no finding
    catalog.write("broken.json", b"{")
    catalog.write("partly.json", {"messagegroups": {"h": group({"m": EVENT, "n": {"protocol": 7}})}})
    catalog.write("between.json", {"messagegroups": {"i": group({"m": EVENT | NO_SCHEMA})}, "schemagroups": SCHEMAS})
    return catalog


@pytest.fixture
def no_judging(monkeypatch):
    """Return what lets an ingest end where it would parse and judge documents."""

    def judge(*_: Any) -> None:
        raise Judged

    return lambda: monkeypatch.setattr(pipeline, "_parsed", judge)


def reported(summary: Any) -> Any:
    """Return what an ingest says of what was refused."""
    quarantined = {table: counts["quarantined"] for table, counts in summary.entities.items()}
    return summary.refused, summary.documents["rejected"], quarantined, summary.violations


@pytest.mark.slow
def test_what_was_refused_is_judged_again_only_where_something_changed(judged, no_judging, monkeypatch):
    first = judged.ingest()
    assert (first.refused, first.documents["rejected"]) == (True, 1)
    no_judging()
    before = executions(judged.spark)
    again = judged.ingest()
    assert executions(judged.spark) - before <= MOST_EXECUTIONS
    assert reported(again) == reported(first)
    assert again.documents == {"read": 4, "unchanged": 3, "skipped": 0, "rejected": 1}
    assert again.entities["messages"]["unchanged"] == first.entities["messages"]["inserted"]
    assert again.snapshot_id is None
    assert judged.ingest(request=IngestRequest(dry_run=True)).changes == []

    settings = judged.settings.model_copy(update={"duplicate_messageids": "error"})
    asked = (
        {"strict": True},
        {"policy": Policy(force=True)},
        {"label": "l"},
        {"policy": Policy(prune=True)},
        {"dialect": "1.0-rc1"},
    )
    for given in ({"settings": settings}, {"registry_from": "folder"}, *({"request": IngestRequest(**one)} for one in asked)):
        with pytest.raises(Judged):
            judged.ingest(**given)
    with monkeypatch.context() as patched:
        patched.setattr("lakehouse.ingest.unchanged._rules", lambda: "others")
        with pytest.raises(Judged):
            judged.ingest()
    for name, changed in (("broken", b"{}{"), ("new", {"messagegroups": {"k": {}}})):
        kept = (judged.documents / f"{name}.json").read_bytes() if name == "broken" else None
        judged.write(f"{name}.json", changed)
        with pytest.raises(Judged):
            judged.ingest()
        (judged.documents / f"{name}.json").unlink()
        if kept is not None:
            judged.write(f"{name}.json", kept)
    judged.ingest()


def test_a_command_that_begins_with_no_table_reports_what_stays_refused(judged, no_judging):
    for name in ("good", "broken", "between"):
        (judged.documents / f"{name}.json").unlink()
    first = judged.ingest()
    no_judging()
    forget_attached(judged.spark)
    assert reported(judged.ingest()) == reported(first)


@pytest.mark.slow
def test_what_was_published_meanwhile_may_change_the_judgement(judged, no_judging):
    judged.ingest()
    other = judged.documents.parent / "other.json"
    named = {"s": group({"none": {"format": "Avro/1.9", "schema": "x"}}, holds="schemas")}
    other.write_text(json.dumps({"schemagroups": named}))
    for name in ("broken", "partly"):
        (judged.documents / f"{name}.json").unlink()
    assert judged.ingest(other).entities["schemas"]["inserted"] + judged.ingest().entities["messages"]["inserted"] > 0
    no_judging()
    judged.ingest()


def test_what_could_not_be_looked_at_and_is_gone_then_is_pruned(judged):
    prune = IngestRequest(policy=Policy(prune=True))
    judged.write("good.json", {"messagegroups": {"g": {"messages": {name: {} for name in "abc"}}}})
    for name in ("broken", "partly", "between"):
        (judged.documents / f"{name}.json").unlink()
    gone = judged.write("gone.json", {"messagegroups": {"h": {}}})
    judged.ingest()
    gone.unlink()
    gone.symlink_to(judged.write("../elsewhere.json", {}))
    assert judged.ingest(request=prune).snapshot_id is None
    gone.unlink()
    assert judged.ingest(request=prune).entities["groups"]["deleted"] == 1


def test_pruning_ends_early_where_the_same_pruning_changed_nothing(judged, no_judging):
    prune = IngestRequest(policy=Policy(prune=True))
    for name in ("broken", "partly", "between"):
        (judged.documents / f"{name}.json").unlink()
    judged.ingest(request=prune)
    no_judging()
    before = executions(judged.spark)
    assert judged.ingest(request=prune).documents == {"read": 1, "unchanged": 1, "skipped": 0, "rejected": 0}
    assert executions(judged.spark) - before <= MOST_EXECUTIONS
    judged.write("more.json", {"messagegroups": {"k": {}}})
    with pytest.raises(Judged):
        judged.ingest(request=prune)
    (judged.documents / "more.json").rename(judged.documents / "good.json")
    with pytest.raises(Judged):
        judged.ingest(request=prune)
