"""Faults of the machine, made on purpose, with figures: `python -m tests.soak.faults [INGESTS]` (make soak).

Four readers at a pinned snapshot while another process ingests; a disk that is full, by a limit on the size of files.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse.ingest.pipeline import ingest
from lakehouse.log.snapshots import open_snapshot
from lakehouse.settings import read_settings
from lakehouse.store.session import open_session
from tests.soak.__main__ import COMMAND, ROOT, table

PAUSE = 2.0  # seconds between two reads of a reader, so that the writer gets on


def readers(spark: SparkSession, folder: Path, count: int) -> str:
    """Read a pinned snapshot in four threads while another process ingests; give the figures."""
    settings = read_settings(warehouse=str(folder / "warehouse"))
    (folder / "first.json").write_text(json.dumps({"messagegroups": {"g": {"messages": {f"m{n}": {} for n in range(200)}}}}))
    ingest(spark, settings, [str(folder / "first.json")])
    schema = open_snapshot(spark, settings, 1)
    queries = (f"SELECT count(*), bit_xor(xxhash64(xid, epoch)) FROM {schema}.messages",
               f"SELECT count(*), bit_xor(xxhash64(xid, epoch)) FROM {schema}.versions")  # fmt: skip
    expected = [spark.sql(query).collect() for query in queries]
    command = [sys.executable, "-m", "tests.soak.writer", str(folder / "warehouse"), str(folder), "writer", str(count)]
    writer = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    stop, reads, torn, slowest = threading.Event(), [0] * 4, [0] * 4, [0.0] * 4

    def read(number: int) -> None:
        while not stop.is_set():
            begun = time.monotonic()
            torn[number] += [spark.sql(query).collect() for query in queries] != expected
            slowest[number] = max(slowest[number], time.monotonic() - begun)
            reads[number] += 1
            stop.wait(PAUSE)

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(read, number) for number in range(4)]
        code = writer.wait()
        stop.set()
    for one in running:
        one.result()
    assert code == 0
    assert sum(torn) == 0
    return f"4 readers during {count} ingests: {sum(reads)} reads, {sum(torn)} torn, slowest {max(slowest):.1f} s"


def disk_full(spark: SparkSession, folder: Path, limit: int) -> str:
    """Ingest where no file may pass a limit, then again without it; give what was seen."""
    (folder / "documents").mkdir(parents=True)
    noise = random.Random(3)
    messages = {f"m{n}": {"description": f"{noise.getrandbits(2000):0500x}"} for n in range(4000)}
    (folder / "documents" / "a.json").write_text(json.dumps({"messagegroups": {"g": {"messages": messages}}}))
    command = [*COMMAND, "ingest", "documents", "--warehouse", "warehouse", "--json"]

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    failed = subprocess.run(command, cwd=folder, capture_output=True, text=True, preexec_fn=limited, check=False)
    assert failed.returncode == 1, failed.stderr
    seen = table(spark, folder, "changes").count()
    again = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    assert json.loads(again.stdout)["snapshot_id"] == 1
    assert (seen, table(spark, folder, "messages").count()) == (0, 4000)
    reported = next((line for line in failed.stderr.splitlines() if line.startswith("error")), "")[:200]
    return f"disk full at {limit} bytes a file: exit 1, nothing committed, the same command again loads all. It said: {reported}"


def main(count: str = "50") -> None:
    """Run all, and report each."""
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "readers").mkdir()
        spark = open_session(read_settings(warehouse=str(Path(scratch) / "readers" / "warehouse")))
        for number, limit in enumerate((200_000, 1_000_000)):
            sys.stdout.write(disk_full(spark, Path(scratch) / str(number), limit) + "\n")
            sys.stdout.flush()
        sys.stdout.write(readers(spark, Path(scratch) / "readers", int(count)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
