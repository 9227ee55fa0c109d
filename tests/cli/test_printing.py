"""What commands print of what they did, and what an ingest counts."""

from __future__ import annotations

import io
import sys
import threading

import pytest

from lakehouse.cli.printing import prepare_streams, show_examples, show_maintained, show_table
from lakehouse.cli.query import show_rows
from lakehouse.ingest.summary import Summary
from lakehouse.progress import EverySeconds, Periodic
from lakehouse.readmodel.detail import Shown


def upkeep(table: str, **done: int) -> dict[str, object]:
    space = {"files": 3, "bytes": 30, "files_on_disk": 4, "bytes_on_disk": 40}
    return {"table": table, "before": space, "after": space, "compacted": 0, "removed": 0, "measured": 0, **done}


def test_a_dry_run_of_maintenance_lists_only_what_would_change(capsys):
    tables = [upkeep("changes", compacted=3), upkeep("groups"), upkeep("messages", removed=1)]
    show_maintained({"tables": tables, "stages": [], "dry_run": True, "seconds": 1.0})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split() for line in lines[1:3]] == [
        ["changes", "3", "30", "4", "40", "3", "0", "0"],
        ["messages", "3", "30", "4", "40", "0", "1", "0"],
    ]
    assert lines[0].endswith("would be measured")
    assert (
        lines[3] == "Dry run, nothing was done: 2 of 3 tables would be changed, 0 stages of dead runs would be removed; in 1.0 s."
    )
    show_maintained({"tables": [upkeep("groups")], "stages": [], "dry_run": True, "seconds": 1.0})
    assert capsys.readouterr().out.startswith("Dry run, nothing was done: 0 of 1 tables would be changed")


def test_what_was_done_is_printed_in_any_encoding(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    prepare_streams()
    show_maintained({"tables": [upkeep("changes")], "stages": [], "dry_run": False, "seconds": 1.0})
    assert b"3 \\u2192 3" in written.getvalue()


def test_the_seconds_of_an_ingest_count_what_comes_after_it():
    summary = Summary(1, {}, {}, {}, {"total": 2.0, "commit": 1.5})
    summary.add_stage("index", 0.5)
    assert summary.as_json()["seconds"] == {"total": 2.5, "commit": 1.5, "index": 0.5}


XID = "/messagegroups/shop.orders.kafka/messages/shop.orders.OrderPlaced/versions/1"


def test_an_xid_is_never_folded_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")
    show_table(["xid", "text"], [[XID, f"words before {XID} " + "and after " * 9]])
    lines = capsys.readouterr().out.splitlines()
    assert [line.count(XID) for line in lines][1] == 1
    assert sum(line.count(XID) for line in lines) == 2
    assert max(map(len, lines)) < 200  # the words are folded


def test_one_long_value_does_not_widen_all_rows_of_piped_output(capsys):
    show_table(["name", "value", "n"], [["a", "x" * 1000, "1"], ["b", "two\nlines", None]])
    assert [len(line) for line in capsys.readouterr().out.splitlines()] == [109, 1009, 112]


ROWS: list[list[str | None]] = [["a|b", 'say "x", y'], [None, "two\nlines"]]


@pytest.mark.parametrize(
    ("form", "printed"),
    [
        ("csv", 'xid,text\r\na|b,"say ""x"", y"\r\n,"two\nlines"\r\n'),
        ("markdown", '| xid | text |\n| --- | --- |\n| a\\|b | say "x", y |\n| NULL | two\\nlines |\n'),
        ("vertical", '-- row 1 --\nxid   a|b\ntext  say "x", y\n-- row 2 --\nxid   NULL\ntext  two\nlines\n'),
        ("table", 'xid   text\na|b   say "x", y\nNULL  two\\nlines\n'),
    ],
)
def test_rows_of_a_query_are_printed_in_each_format(capsys, form, printed):
    show_rows(form, ["xid", "text"], iter(ROWS))
    assert capsys.readouterr().out == printed


def test_the_example_of_the_protocol_in_use_is_printed_alone(capsys):
    examples = [{"as": name, "example": {"is": name}} for name in ("cloudevents", "http", "kafka")]
    shown = Shown({"protocol": None}, [], [], [{"protocol": "KAFKA"}], [], [])
    show_examples(shown, examples, everything=False)
    assert capsys.readouterr().out == '\nExample as kafka:\n{"is": "kafka"}\n\nMore with --examples: cloudevents, http.\n'
    show_examples(shown, examples, everything=True)
    assert capsys.readouterr().out.count("Example as") == 3


def test_a_line_now_and_then_says_which_stage_runs_where_there_is_no_terminal():
    lines: list[str] = []
    written = threading.Event()

    def write(line: str) -> None:
        lines.append(line)
        written.set()

    with Periodic(write, 0.001).stage("parse", "documents that changed"):
        assert written.wait(60)
    count = len(lines)
    assert lines[0].startswith("parse: documents that changed (")
    with Periodic(write, 86400).stage("commit", "one append"):
        pass
    assert len(lines) == count
    assert (EverySeconds(0).is_due(), EverySeconds(86400).is_due()) == (True, False)
