"""`make soak`: two writers with 100 ingests each; kill -9 at each crash point and at 50 random moments."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from lakehouse.model import ENTITY_TABLES

POINTS = ["after_stage", "before_commit", "after_commit", *(f"after_project_{table.name}" for table in ENTITY_TABLES)]
COMMAND = [sys.executable, "-c", "from lakehouse.cli import main; main()"]
ROOT = Path(__file__).parents[2]


def two_writers(folder: Path, count: int) -> list[int]:
    """Let two processes ingest at once; give the snapshots that they were told of."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.soak.writer", str(folder / "warehouse"), str(folder), name, str(count)],
            stdout=subprocess.PIPE, text=True, cwd=ROOT,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    outputs = [writer.communicate()[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    return [int(line) for output in outputs for line in output.split()]


def check_two_writers(folder: Path, told: list[int], count: int) -> None:
    """None lost, none doubled, snapshots without gaps or repeats, digests chained, violations single."""
    assert sorted(told) == list(range(1, 2 * count + 1)), "snapshots have gaps or repeats"
    query = "SELECT snapshot_id, body FROM changes WHERE kind = 'snapshot' ORDER BY snapshot_id"
    snapshots = run_sql(folder, query)
    assert [row["snapshot_id"] for row in snapshots] == list(range(1, 2 * count + 1))
    bodies = [json.loads(row["body"]) for row in snapshots]
    assert all(later["previous_digest"] == earlier["digest"] for earlier, later in pairwise(bodies))
    assert run_sql(folder, "SELECT count(*) AS n, count(DISTINCT xid) AS d FROM messages") == [{"n": 2 * count, "d": 2 * count}]


def run_sql(folder: Path, query: str) -> list[dict[str, object]]:
    """Ask the warehouse."""
    asked = subprocess.run(
        [*COMMAND, "sql", query, "--json", "--warehouse", "warehouse"], cwd=folder, capture_output=True, text=True, check=True
    )
    rows: list[dict[str, object]] = json.loads(asked.stdout)
    return rows


def ingest(folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Start an ingest of the documents of a folder."""
    command = [*COMMAND, "ingest", "documents", "--warehouse", "warehouse"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=folder, env=os.environ | environment, text=True, start_new_session=True, **quiet)


def state(folder: Path) -> dict[str, object]:
    """Give what must be equal after a crash and a rerun, and without one."""
    columns = "registryid, xid, content_hash, epoch"
    return {table.name: run_sql(folder, f"SELECT {columns} FROM {table.name} ORDER BY 1, 2") for table in ENTITY_TABLES} | {
        "snapshots": run_sql(folder, "SELECT count(*) AS n FROM changes WHERE kind = 'snapshot'"),
        "violations": run_sql(folder, "SELECT count(*) AS n, count(DISTINCT violation_id) AS d FROM violations"),
    }


def write_documents(folder: Path) -> None:
    """Write documents with all kinds of entity and something to refuse."""
    (folder / "documents").mkdir(parents=True)
    for number in range(20):
        messages = {f"m{index}": {"name": "x"} for index in range(50)} | {"bad": {"name": 5}}
        document = {
            "messagegroups": {f"g{number}": {"messages": messages}},
            "endpoints": {f"e{number}": {"usage": ["producer"]}},
            "schemagroups": {f"s{number}": {"schemas": {"t": {"schema": {}}}}},
        }
        (folder / "documents" / f"{number}.json").write_text(json.dumps(document))


def crash_and_rerun(folder: Path, *, point: str | None = None, after: float = 0.0) -> dict[str, object]:
    """Kill an ingest at a point or after some seconds, run it again, and give the state."""
    write_documents(folder)
    if point:
        ingest(folder, LAKEHOUSE_CRASH_AT=point, LAKEHOUSE_CRASH_BY="kill").wait()
    else:
        victim = ingest(folder)
        time.sleep(after)
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()
    assert ingest(folder).wait() == 3
    return state(folder)


def main() -> None:
    """Run all, and tell each."""
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        begun = time.monotonic()
        write_documents(here / "plain")
        assert ingest(here / "plain").wait() == 3
        seconds = time.monotonic() - begun
        expected = state(here / "plain")
        for point in POINTS:
            assert crash_and_rerun(here / point, point=point) == expected, point
            sys.stdout.write(f"kill -9 at {point}: as undisturbed\n")
        chance = random.Random(7)
        for number in range(50):
            after = chance.uniform(0.3, 1.0) * seconds
            assert crash_and_rerun(here / f"random{number}", after=after) == expected, after
            sys.stdout.write(f"kill -9 after {after:.1f} s: as undisturbed\n")
        told = two_writers(here, 100)
        check_two_writers(here, told, 100)
        sys.stdout.write("two writers, 100 ingests each: none lost, none doubled\n")


if __name__ == "__main__":
    main()
