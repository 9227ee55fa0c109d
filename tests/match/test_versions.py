"""Versions of a message that are not the default: tried only where no default one matches, the newest first."""

from __future__ import annotations

from typing import Any

from builders import document, group

from lakehouse.match import Index, Matcher, MatchRequest, Payloads, Schemas
from lakehouse.match.event.captured import landed_of_text
from match.catalogs import load


def definitions() -> list[dict[str, Any]]:
    """Return a message with three Versions, as flattening gives each: of type T3, which is the default, T2 and T1 or T2."""
    found = []
    for number, older in ((3, None), (2, 1), (1, 2)):
        asked = {"envelope": "CloudEvents/1.0", "envelopemetadata": {"type": {"value": "T2" if number < 3 else "T3"}}}
        if number == 1:
            asked["envelopemetadata"]["source"] = {"value": "/{place}"}
        rows, _ = load({"r": document({"g": group({"m": asked})})})
        found.append(rows[0] | {"older": older, "version_xid": f"/messagegroups/g/messages/m/versions/{number}"})
    return found


def reported(kind: str, **more: str) -> dict[str, Any]:
    matcher = Matcher(Index.of(definitions()), Payloads(Schemas([])), MatchRequest())
    event = {"specversion": "1.0", "id": "1", "type": kind, "source": "/s"} | more
    text = str(event).replace("'", '"').encode()
    (row,) = [row for landed in landed_of_text(text) for row in matcher.rows(landed)]
    return row


def test_the_default_version_comes_first():
    row = reported("T3")
    assert (row["status"], row["version_xid"][-1], row["remarks"]) == ("matched", "3", [])


def test_the_newest_of_the_others_is_reported():
    row = reported("T2")
    assert (row["status"], row["version_xid"][-1], row["remarks"]) == (
        "matched", "2", ["matches Version 2, which is not the default"],
    )  # fmt: skip
    assert row["best"] == row["matches"] == [{"registryid": "r", "xid": "/messagegroups/g/messages/m"}]


def test_what_no_version_matches_is_compared_with_the_default_one_only():
    row = reported("t2")
    assert (row["status"], row["reasons"][0]["expected"]) == ("unmatched", "T3")
    assert reported("elsewhere")["nearest_xid"] is None
