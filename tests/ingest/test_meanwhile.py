"""What other processes load and name while an ingest reads its documents."""

from __future__ import annotations

import pytest

from lakehouse.domain.ownership import Policy
from lakehouse.errors import DocumentsOvertaken, LabelTaken
from lakehouse.ingest import pipeline
from lakehouse.ingest.pipeline import IngestRequest
from lakehouse.log.snapshots import label_snapshot

PRUNE = IngestRequest(Policy(prune=True))
NAMES = "SELECT name, epoch FROM versions ORDER BY name"


def document(**names):
    return {"messagegroups": {"g": {"messages": {messageid: {"name": name} for messageid, name in names.items()}}}}


@pytest.fixture
def meanwhile(monkeypatch):
    """Have something done while the next ingests read: when their documents have been parsed."""

    def once(*deeds):
        left = list(deeds)

        def at(point):
            if point == "after_stage" and left:
                left.pop(0)()

        monkeypatch.setattr(pipeline, "crash_point", at)

    return once


@pytest.mark.slow
def test_what_came_after_the_folder_was_listed_has_not_vanished(catalog, meanwhile):
    catalog.write("a.json", document(m="M", n="N", o="O"))
    catalog.ingest()
    catalog.write("a.json", document(m="M", n="N", o="O2"))
    meanwhile(lambda: catalog.ingest(catalog.write("b.json", document(p="P"))))
    assert catalog.ingest(request=PRUNE).entities["messages"]["deleted"] == 0
    assert catalog.rows(NAMES) == [("M", 1), ("N", 1), ("O2", 2), ("P", 1)]
    assert catalog.ingest(request=PRUNE).snapshot_id is None


@pytest.mark.slow
def test_a_text_that_another_ingest_read_later_is_not_put_back(catalog, meanwhile):
    a = catalog.write("a.json", document(m="1", n="N"))
    catalog.ingest()
    catalog.write("a.json", document(m="2", n="N"))

    def overtake():
        catalog.write("a.json", document(m="3", n="N", o="O"))
        catalog.ingest(a)

    meanwhile(overtake)
    assert catalog.ingest(request=PRUNE).snapshot_id is None
    assert catalog.rows(NAMES) == [("3", 2), ("N", 1), ("O", 1)]


@pytest.mark.slow
def test_who_is_overtaken_each_time_says_so_and_changes_nothing(catalog, meanwhile):
    a = catalog.write("a.json", document(m="1"))
    catalog.ingest()

    def overtake(number):
        catalog.write("a.json", document(m=f"theirs {number}"))
        catalog.ingest(a)
        catalog.write("a.json", document(m=f"ours {number}"))

    catalog.settings = catalog.settings.model_copy(update={"commit_attempts": 2})
    catalog.write("a.json", document(m="ours 0"))
    # Each deed is an ingest too, which comes by the same point.
    meanwhile(lambda: overtake(1), lambda: None, lambda: overtake(2), lambda: None)
    with pytest.raises(DocumentsOvertaken, match=r"a\.json: loaded by another ingest"):
        catalog.ingest()
    assert catalog.rows(NAMES) == [("theirs 2", 3)]


@pytest.mark.slow
def test_the_same_text_read_twice_is_loaded_once(catalog, meanwhile):
    a = catalog.write("a.json", document(m="1"))
    catalog.ingest()
    catalog.write("a.json", document(m="2"))
    meanwhile(lambda: catalog.ingest(a))
    assert catalog.ingest().snapshot_id is None
    assert catalog.rows(NAMES) == [("2", 2)]


@pytest.mark.slow
def test_a_label_that_was_given_meanwhile_is_not_moved(catalog, meanwhile):
    catalog.write("a.json", document(m="1"))
    catalog.ingest()
    catalog.write("a.json", document(m="2"))
    meanwhile(lambda: label_snapshot(catalog.spark, catalog.settings, "1", "release"))
    with pytest.raises(LabelTaken):
        catalog.ingest(request=IngestRequest(label="release"))
    assert catalog.rows(NAMES) == [("1", 1)]
