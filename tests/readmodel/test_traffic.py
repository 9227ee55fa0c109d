"""Events that `match --into` wrote, counted without Spark: by message and day, each data file once."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from matchresults import PAID, PLACED, SIGNATURES, at, event, write_events

from lakehouse.readmodel import traffic
from lakehouse.readmodel.file import sqliteschema
from lakehouse.readmodel.file.delta import Warehouse
from lakehouse.readmodel.file.place import ModelFiles
from lakehouse.readmodel.traffic import ReasonCount, Traffic, Undeclared
from lakehouse.settings import read_settings


@pytest.fixture
def counts(tmp_path):
    warehouse = tmp_path / "w"
    warehouse.mkdir()
    settings = read_settings(warehouse=str(warehouse))
    return Traffic(Warehouse(str(warehouse), settings), ModelFiles(str(warehouse), str(tmp_path / "cache")))


def folder_of(counts: Traffic) -> Path:
    return Path(counts.warehouse.location)


def test_without_results_nothing_is_known_and_no_file_is_made(counts):
    assert not counts.refresh()
    assert counts.totals() is None
    assert counts.messages("default", [PLACED]) is None
    assert counts.digests() == {}
    assert not counts.file.exists()


def test_events_are_counted_by_message_and_day(counts):
    errors = [{"pointer": "/total", "keyword": "type", "message": "secret"}]
    deviations = [{"pointer": "/protocoloptions/qos", "reason": "value", "expected": "1", "actual": "0"}]
    missing = [{"pointer": "/envelopemetadata/time", "reason": "absent", "expected": None, "actual": None}]
    write_events(
        folder_of(counts),
        [
            event(PLACED, at(2, 23)),
            event(PLACED, at(3), "valid_older"),
            event(PLACED, at(3, 5), "invalid", payload_errors=errors),
            event(PLACED, None, "undecodable", deviations=deviations),
            event(PAID, at(4), "none"),
            event(None, at(5), nearest_xid=PLACED, reasons=missing),
        ],
    )
    assert counts.refresh()
    sent, reasons = counts.messages("default", [PLACED])
    assert sent == (4, 2, 2, 1, "2026-03-03T05:00:00Z", [("2026-03-01", 1), ("2026-03-02", 1), ("2026-03-03", 2)])
    assert reasons == [
        ReasonCount("deviation", "/protocoloptions/qos", "value", 1),
        ReasonCount("missed", "/envelopemetadata/time", "absent", 1),
        ReasonCount("payload", "/total", "type", 1),
    ]
    assert counts.messages("other", [PAID]) is None
    totals = counts.totals()
    assert totals.sent.events == 5
    assert totals.sent.valid == 2
    assert (totals.matched, totals.missed) == (5, {PLACED: 1})
    both, all_reasons = counts.messages("default", [PLACED, PAID])
    assert (both.events, both.days[-1], all_reasons) == (5, ("2026-03-04", 1), reasons)
    assert totals.seen == {("default", PLACED): (4, "2026-03-03T05:00:00Z"), ("default", PAID): (1, "2026-03-04T00:00:00Z")}
    assert b"secret" not in counts.file.read_bytes()


def test_an_event_counts_for_each_registry_with_a_best_definition(counts):
    both = [{"registryid": name, "xid": PLACED} for name in ("default", "other")]
    write_events(folder_of(counts), [event(PLACED, at(2), best=both)])
    counts.refresh()
    assert [counts.messages(name, [PLACED]).sent.events for name in ("default", "other")] == [1, 1]
    assert counts.totals().matched == 1


def test_an_event_that_comes_near_to_nothing_counts_too(counts):
    write_events(folder_of(counts), [event(PLACED, at(2)), event(None, at(2)), event(None, None, best=None)])
    counts.refresh()
    assert (counts.totals().matched, counts.totals().missed) == (1, {"": 2})


def test_only_new_files_are_read_and_those_that_are_gone_do_not_count(counts, monkeypatch):
    read: list[str] = []
    batches = traffic.file_batches

    def noticed(table, path, *more):
        if "event_matches" in table.table_uri:
            read.append(path)
        return batches(table, path, *more)

    monkeypatch.setattr(traffic, "file_batches", noticed)
    warehouse = folder_of(counts)
    write_events(warehouse, [event(PLACED, at(2))])
    write_events(warehouse, [event(PAID, at(2))], "other")
    assert counts.refresh()
    assert len(read) == 2
    assert not counts.refresh()
    assert len(read) == 2
    write_events(warehouse, [event(PLACED, at(3), run="r2")])
    before = counts.digests()
    assert counts.refresh()
    assert len(read) == 3
    assert counts.messages("default", [PLACED]).sent.events == 2
    assert {xid for xid, digest in counts.digests().items() if before[xid] != digest} == {PLACED}
    DeltaTable(warehouse / "_match" / "landing" / "event_matches").delete("run_id = 'r1'")
    counts.refresh()
    assert counts.messages("default", [PLACED]).sent.days == [("2026-03-03", 1)]
    (warehouse / "_match" / "other").rename(warehouse / "elsewhere")
    counts.refresh()
    assert counts.messages("default", [PAID]) is None


def test_events_of_no_definition_are_listed_commonest_first(counts):
    warehouse = folder_of(counts)
    write_events(warehouse, [event(PLACED, at(2))])
    rows = [
        {
            "status": "unmatched",
            "why": "type a: not declared",
            "ce_type": "a",
            "ce_source": "s",
            "events": 3,
            "last_landed_at": at(2),
        },
        {
            "status": "unmatched",
            "why": "type a: not declared",
            "ce_type": "a",
            "ce_source": "s",
            "events": 4,
            "last_landed_at": at(3),
        },
        {"status": "unmatched", "why": "no type", "ce_type": None, "ce_source": None, "events": 9, "last_landed_at": None},
        {"status": "unreadable", "why": "no JSON", "ce_type": None, "ce_source": None, "events": 99, "last_landed_at": None},
    ]
    write_deltalake(warehouse / "_match/landing/unmatched_signatures", pa.Table.from_pylist(rows, SIGNATURES), mode="append")
    counts.refresh()
    assert counts.totals().undeclared == [
        Undeclared("", "", "no type", 9, ""),
        Undeclared("a", "s", "type a: not declared", 7, "2026-03-03T00:00:00Z"),
    ]


def test_a_damaged_file_is_made_again(counts):
    write_events(folder_of(counts), [event(PLACED, at(2))])
    counts.refresh()
    counts.file.write_bytes(b"no database, but long enough to be looked at as one" * 100)
    assert counts.messages("default", [PLACED]) is None
    assert counts.refresh()
    assert counts.messages("default", [PLACED]).sent.events == 1


def test_a_table_that_cannot_be_read_is_reported_once_and_costs_no_other(counts, caplog, tmp_path):
    warehouse = folder_of(counts)
    write_events(warehouse, [event(PLACED, at(2))])
    write_events(warehouse, [event(PAID, at(2))], "other")
    (file,) = (warehouse / "_match/other/event_matches").glob("*.parquet")
    file.rename(tmp_path / "aside")
    counts.refresh()
    counts.refresh()
    assert counts.messages("default", [PLACED]).sent.events == 1
    assert counts.messages("default", [PAID]) is None
    assert len(caplog.records) == 1
    (tmp_path / "aside").rename(file)
    counts.refresh()
    assert counts.messages("default", [PAID]).sent.events == 1
    assert "what was sent is not counted" in caplog.text


def test_a_file_that_another_process_writes_is_not_taken_for_a_damaged_one(counts, monkeypatch, caplog):
    write_events(folder_of(counts), [event(PLACED, at(2))])
    counts.refresh()
    monkeypatch.setattr(sqliteschema, "_BUSY_SECONDS", 0)
    with closing(sqlite3.connect(counts.file, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert counts.messages("default", [PLACED]) is None
        assert not counts.refresh()
    assert "locked" in caplog.text
    assert counts.messages("default", [PLACED]).sent.events == 1


def test_whatever_is_wrong_with_results_is_reported_and_raises_nothing(counts, monkeypatch, caplog):
    write_events(folder_of(counts), [event(PLACED, at(2))])
    (file,) = (folder_of(counts) / "_match/landing/event_matches").glob("*.parquet")
    file.write_bytes(b"no Parquet")
    counts.refresh()
    assert counts.messages("default", [PLACED]) is None

    def gone(name: str) -> list[str]:
        raise OSError(f"{name} is gone")

    monkeypatch.setattr(counts.warehouse, "folders", gone)
    assert not counts.refresh()
    assert [record.message.partition(":")[0] for record in caplog.records] == ["what was sent is not counted"] * 2


def test_the_runs_of_a_schema_are_read_once_for_all_new_files(counts, monkeypatch):
    for number in range(3):
        write_events(folder_of(counts), [event(PLACED, None, run=f"r{number}")])
    opened: list[str] = []
    open_table = counts.warehouse.open
    monkeypatch.setattr(counts.warehouse, "open", lambda name: opened.append(name) or open_table(name))
    counts.refresh()
    assert opened.count("_match/landing/match_runs") == 1
    assert counts.messages("default", [PLACED]).sent.days == [("2026-03-01", 3)]
