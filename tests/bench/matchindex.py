"""The index of matching with many definitions: how long it takes to make, and what a Python worker that maps it holds itself.

`python -m tests.bench.matchindex --definitions 1000000` measures it alone; `make bench` with the rest. It needs no Spark.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
from rich.console import Console

from lakehouse.match.distributed import open_store, schema_table, write_store
from lakehouse.match.event.canonical import Event
from lakehouse.match.index import definition_rows, index_of
from lakehouse.match.matcher import MatchRequest

SCHEMA_XID = "/schemagroups/bench/schemas/S"
_AT_A_TIME = 50_000
_ASKED = 10_000

console = Console(stderr=True)


def definitions_of(number: int) -> Iterator[dict[str, Any]]:
    """Make a CloudEvent and its variant for Kafka, as rows of `flat_messages`."""
    base = {
        "/envelope": '"CloudEvents/1.0"', "/envelopemetadata/type/value": f'"bench.T{number}"',
        "/envelopemetadata/source/value": '"/devices/{device}"', "/envelopemetadata/subject/value": '"{id}"',
        "/envelopemetadata/time/required": "true", "/envelopemetadata/time/type": '"timestamp"',
        "/dataschemaformat": '"JSONSchema/draft-07"', "/dataschemauri": f'"{SCHEMA_XID}"',
    }  # fmt: skip
    variant = base | {"/protocol": '"KAFKA"', "/protocoloptions/topic/value": '"bench"', "/protocoloptions/key/value": '"{id}"'}
    for name, attributes in (("base", base), ("kafka", variant)):
        xid = f"/messagegroups/{name}/messages/T{number}"
        yield {"registryid": "bench", "xid": xid, "version_xid": f"{xid}/versions/1", "group_xid": f"/messagegroups/{name}",
               "chain_status": "none", "envelope": "CloudEvents/1.0", "protocol": "KAFKA" if name == "kafka" else None,
               "dataschemaformat": "JSONSchema/draft-07", "schema_xid": SCHEMA_XID, "dataschemauri": SCHEMA_XID,
               "attributes": attributes, "inferred": {}, "depends_on": [xid]}  # fmt: skip


def measure_index(definitions: int) -> dict[str, float]:
    """Make an index, and open it in a new process.

    Returns:
        `definitions`; `rows_seconds`: compiling the rows, which Spark's tasks share; `index_seconds`: sorting and writing, on the
        driver; `mib`: of its files; `open_seconds`; `own_mib`: memory of the process after its lookups, mapped files apart;
        `ask_us`: for the candidates of one event.
    """
    begun = time.perf_counter()
    parts = []
    for start in range(0, definitions // 2, _AT_A_TIME):
        numbers = range(start, min(start + _AT_A_TIME, definitions // 2))
        parts.append(definition_rows(row for number in numbers for row in definitions_of(number)))
    made = pa.concat_tables(parts)
    compiled = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        path = write_store(Path(folder), index_of(made), schema_table([]))
        written = time.perf_counter()
        size = sum(file.stat().st_size for file in path.iterdir())
        reported = subprocess.run(
            [sys.executable, "-m", "tests.bench.matchindex", "--ask", str(path), "--definitions", str(definitions)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
    made_in = {"rows_seconds": compiled - begun, "index_seconds": written - compiled, "mib": size / 2**20}
    return {"definitions": definitions, **{name: round(one, 2) for name, one in made_in.items()}, **json.loads(reported.stdout)}


def reported_index(found: dict[str, float]) -> str:
    """Return in a line what was measured."""
    return (
        f"Index of {found['definitions']:,} definitions: {found['rows_seconds']:.1f} s of tasks to compile, "
        f"{found['index_seconds']:.1f} s on the driver to sort and write, {found['mib']:,.0f} MiB mapped; a worker opens it in "
        f"{found['open_seconds']:.2f} s, holds {found['own_mib']:,.0f} MiB itself and finds two in {found['ask_us']:.0f} µs."
    )


def _ask(folder: str, definitions: int) -> dict[str, float]:
    """Open an index and ask for the candidates of some events."""
    before, begun = _own_mib(), time.perf_counter()
    matcher = open_store(folder, MatchRequest())
    opened = time.perf_counter()
    step = max(1, definitions // 2 // _ASKED)
    asked = range(0, definitions // 2, step)
    for number in asked:
        event = Event("KAFKA", ce={"type": f"bench.T{number}"}, captured=frozenset({"/protocoloptions/topic"}))
        assert len(matcher.index.candidates(event)) == 2
    seconds = time.perf_counter() - opened
    own = {"open_seconds": opened - begun, "own_mib": _own_mib() - before, "ask_us": 1e6 * seconds / len(asked)}
    return {name: round(one, 3) for name, one in own.items()}


def _own_mib() -> float:
    """Return the memory of this process that no file backs, in MiB."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("RssAnon:"))


@click.command()
@click.option("--definitions", type=click.IntRange(2), default=1_000_000, show_default=True)
@click.option("--ask", metavar="FOLDER", hidden=True)
def main(definitions: int, ask: str | None) -> None:
    """Measure the index alone."""
    if ask:
        click.echo(json.dumps(_ask(ask, definitions)))
    else:
        console.print(reported_index(measure_index(definitions)))


if __name__ == "__main__":
    main()
