"""Results of `match --into`, written without Spark."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

MICROS = pa.timestamp("us", "UTC")
DEFINITIONS = pa.list_(pa.struct([("registryid", pa.string()), ("xid", pa.string())]))
REASONS = pa.list_(pa.struct([(name, pa.string()) for name in ("pointer", "reason", "expected", "actual")]))
ERRORS = pa.list_(pa.struct([(name, pa.string()) for name in ("pointer", "keyword", "message")]))
EVENTS = pa.schema(
    [("run_id", pa.string()), ("landed_at", MICROS), ("registryid", pa.string()), ("xid", pa.string()), ("best", DEFINITIONS),
     ("payload_status", pa.string()), ("payload_errors", ERRORS), ("deviations", REASONS), ("nearest_xid", pa.string()),
     ("reasons", REASONS)]
)  # fmt: skip
RUNS = pa.schema([("run_id", pa.string()), ("begun_at", MICROS)])
SIGNATURES = pa.schema(
    [("status", pa.string()), ("why", pa.string()), ("ce_type", pa.string()), ("ce_source", pa.string()), ("events", pa.int64()),
     ("last_landed_at", MICROS)]
)  # fmt: skip
PLACED = "/messagegroups/shop/messages/placed"
PAID = "/messagegroups/shop/messages/paid"


def at(day: int, hour: int = 0) -> datetime:
    return datetime(2026, 3, day, hour, tzinfo=timezone.utc)


def event(xid: str | None, landed: datetime | None, status: str = "valid", run: str = "r1", **more: Any) -> dict[str, Any]:
    best = [{"registryid": "default", "xid": xid}] if xid else []
    return {
        "run_id": run,
        "landed_at": landed,
        "registryid": "default",
        "xid": xid,
        "best": best,
        "payload_status": status,
    } | more


def write_events(warehouse: Path, rows: list[dict[str, Any]], schema: str = "landing") -> None:
    """Append events, with the runs that they name: one table of them, which begins at noon of the first of March."""
    folder = warehouse / "_match" / schema
    write_deltalake(folder / "event_matches", pa.Table.from_pylist(rows, EVENTS), mode="append")
    runs = [{"run_id": run, "begun_at": at(1, 12)} for run in sorted({row["run_id"] for row in rows})]
    write_deltalake(folder / "match_runs", pa.Table.from_pylist(runs, RUNS), mode="append")
    write_deltalake(folder / "unmatched_signatures", pa.Table.from_pylist([], SIGNATURES), mode="append")
