"""`make soak`: two writers with 100 ingests each; kill -9 at each crash point and at 50 random moments."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.cli.console import REFUSED
from lakehouse.settings import read_settings
from lakehouse.store.schema import ENTITY_TABLES
from lakehouse.store.session import open_session

POINTS = ["after_stage", "before_commit", "after_commit", *(f"after_project_{table.name}" for table in ENTITY_TABLES),
          "after_project_effective_messages"]  # fmt: skip
COMMAND = [sys.executable, "-m", "lakehouse"]
ROOT = Path(__file__).parents[2]
RANDOM_KILLS, WRITES = (int(os.environ.get(name, default)) for name, default in (("SOAK_KILLS", "50"), ("SOAK_WRITES", "100")))
# Short-lived processes: the quick compiler alone.
QUICK = {
    "LAKEHOUSE_SPARK": json.dumps({"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m"})
}


def two_writers(folder: Path, count: int) -> list[int]:
    """Let two processes ingest at once; return the snapshots that they reported."""
    writers = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.soak.writer", str(folder / "warehouse"), str(folder), name, str(count)],
            stdout=subprocess.PIPE, text=True, cwd=ROOT, env=os.environ | QUICK,
        )
        for name in ("one", "two")
    ]  # fmt: skip
    outputs = [writer.communicate()[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0, 0]
    return [int(line) for output in outputs for line in output.split()]


def check_two_writers(spark: SparkSession, folder: Path, reported: list[int], count: int) -> None:
    """None lost, none doubled, snapshots without gaps or repeats, digests chained, violations single."""
    expected = list(range(1, 2 * count + 1))
    assert sorted(reported) == expected, "snapshots have gaps or repeats"
    snapshots = table(spark, folder, "changes").filter("kind = 'snapshot'").orderBy("snapshot_id").collect()
    assert [row["snapshot_id"] for row in snapshots] == expected
    bodies = [json.loads(row["body"]) for row in snapshots]
    assert all(later["previous_digest"] == earlier["digest"] for earlier, later in pairwise(bodies))
    messages = [row["xid"] for row in table(spark, folder, "messages").collect()]
    assert len(messages) == len(set(messages)) == 2 * count


def table(spark: SparkSession, folder: Path, name: str) -> DataFrame:
    """Read a table of the warehouse by its path."""
    return spark.read.format("delta").load(str(folder / "warehouse" / name))


def ingest(folder: Path, **environment: str) -> subprocess.Popen[str]:
    """Start an ingest of the documents of a folder."""
    command = [*COMMAND, "ingest", "documents", "--warehouse", "warehouse"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, cwd=folder, env=os.environ | QUICK | environment, text=True, start_new_session=True, **quiet)


def state(spark: SparkSession, folder: Path) -> dict[str, object]:
    """Return what must be equal after a crash and a rerun, and without one."""
    columns = ["registryid", "xid", "content_hash", "epoch"]
    rows: dict[str, object] = {
        entity.name: sorted(map(tuple, table(spark, folder, entity.name).select(*columns).collect())) for entity in ENTITY_TABLES
    }
    # As text: what maps hold has no order.
    flat = table(spark, folder, "effective_messages").select("registryid", "xid", "chain_status", "attributes", "depends_on")
    rows["effective_messages"] = sorted(str(row) for row in flat.withColumn("attributes", F.map_entries("attributes")).collect())
    found = [row["violation_id"] for row in table(spark, folder, "violations").collect()]
    assert len(found) == len(set(found)), "violations are doubled"
    return rows | {
        "snapshots": table(spark, folder, "changes").filter("kind = 'snapshot'").count(),
        "violations": len(found),
    }


def write_documents(folder: Path) -> None:
    """Write documents with all kinds of entity and something to refuse."""
    (folder / "documents").mkdir(parents=True)
    for number in range(20):
        messages = {f"m{index}": {"name": "x"} for index in range(50)} | {"bad": {"envelope": 5}}
        document = {
            "messagegroups": {f"g{number}": {"messages": messages}},
            "endpoints": {f"e{number}": {"usage": ["producer"]}},
            "schemagroups": {f"s{number}": {"schemas": {"t": {"schema": {}}}}},
        }
        (folder / "documents" / f"{number}.json").write_text(json.dumps(document))


def crash(folder: Path, *, point: str | None = None, after: float = 0.0) -> None:
    """Kill an ingest at a point or after some seconds."""
    write_documents(folder)
    if point:
        killed = ingest(folder, LAKEHOUSE_CRASH_AT=point, LAKEHOUSE_CRASH_BY="kill")
        assert killed.wait() == -signal.SIGKILL, f"nothing crashed at {point}"
    else:
        victim = ingest(folder)
        time.sleep(after)
        os.killpg(victim.pid, signal.SIGKILL)
        victim.wait()


def main() -> None:
    """Run all, and report each."""
    with tempfile.TemporaryDirectory() as scratch:
        here = Path(scratch)
        begun = time.monotonic()
        write_documents(here / "plain")
        assert ingest(here / "plain").wait() == REFUSED
        seconds = time.monotonic() - begun
        spark = open_session(read_settings(warehouse=str(here / "none")))
        expected = state(spark, here / "plain")

        def check(name: str, reported: str, **how: Any) -> None:
            crash(here / name, **how)
            assert ingest(here / name).wait() == REFUSED, reported
            assert state(spark, here / name) == expected, reported
            shutil.rmtree(here / name)
            sys.stdout.write(f"kill -9 {reported}: as undisturbed\n")
            sys.stdout.flush()

        for point in POINTS:
            check(point, f"at {point}", point=point)
        chance = random.Random(7)
        for number in range(RANDOM_KILLS):
            after = chance.uniform(0.3, 1.0) * seconds
            check(f"random{number}", f"after {after:.1f} s", after=after)
        reported = two_writers(here, WRITES)
        check_two_writers(spark, here, reported, WRITES)
        sys.stdout.write(f"two writers, {WRITES} ingests each: none lost, none doubled\n")


if __name__ == "__main__":
    main()
