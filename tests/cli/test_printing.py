"""What commands print of what they did, and what an ingest counts."""

from __future__ import annotations

from lakehouse.cli.printing import show_maintained
from lakehouse.ingest.summary import Summary


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


def test_the_seconds_of_an_ingest_count_what_comes_after_it():
    summary = Summary(1, {}, {}, {}, {"total": 2.0, "commit": 1.5})
    summary.add_stage("index", 0.5)
    assert summary.as_json()["seconds"] == {"total": 2.5, "commit": 1.5, "index": 0.5}
