"""How quick the read model is: built, looked at, following a commit; and commands that answer out of it, each a fresh process.

    python -m tests.bench.quick --messages 100000 [--warehouse DIR]

Prints one JSON object. Seconds are `wall`, and `cpu`, which a machine with other work to do leaves as it is. There is no Java on
the PATH of what is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from tests.bench.generator import Shape
from tests.bench.tables import Generated

ROOT = Path(__file__).parents[2]
# Refreshes the read model and reports what that took: seconds, processor time, the largest resident size in MiB.
_REFRESH = """
import json, resource, sys, time

begun = time.process_time()
import deltalake, pyarrow.parquet

imports = time.process_time() - begun
from lakehouse.readmodel import ReadModel
from lakehouse.settings import read_settings

before = resource.getrusage(resource.RUSAGE_SELF)
begun = time.perf_counter()
with ReadModel(read_settings(warehouse=sys.argv[1], readmodel_dir=sys.argv[2])) as model:
    is_new = model.refresh()
    wall, now = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF)
    begun = time.perf_counter()
    for _ in range(100):
        model.refresh()
    look = (time.perf_counter() - begun) * 10
    messages = model.answer(lambda view: view.db.execute("SELECT count(*) FROM effective").fetchone()[0])
cpu = now.ru_utime + now.ru_stime - before.ru_utime - before.ru_stime
mib = max(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) // 1024
measured = {"is_new": is_new, "imports_cpu": round(imports, 2), "wall": round(wall, 2), "cpu": round(cpu, 2)}
print(json.dumps(measured | {"resident_mib": mib, "look_ms": round(look, 2), "messages": messages}))
"""


def commands(messageid: str, groupid: str) -> dict[str, list[str]]:
    """Return the commands that are measured."""
    message = f"/messagegroups/{groupid}/messages/{messageid}"
    return {
        "show message": ["show", message],
        "show message by id": ["show", messageid],
        "show group": ["show", f"/messagegroups/{groupid}"],
        "show endpoint": ["show", f"/endpoints/endpoint.{groupid}"],
        "show document": ["show", "document-000000.xreg.json"],
        "show message of the past": ["show", message, "--at", "1"],
        "log": ["log", message],
        "blame": ["blame", message],
        "snapshots": ["snapshots"],
        "violations": ["violations"],
        "changes": ["changes", "--since", "1"],
        "diff": ["diff", "1", "2"],
        "search": ["search", "parcel", "refused"],
        "label": ["label", "1", "first"],
    }


class Place:
    """A warehouse, and the folder of its read model."""

    def __init__(self, warehouse: Path, folder: Path) -> None:
        self.warehouse, self.folder = warehouse, folder
        inherited = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
        reported = {"PATH": str(folder), "PYTHONPATH": str(ROOT), "LAKEHOUSE_WAREHOUSE": str(warehouse)}
        self.environment = inherited | reported | {"LAKEHOUSE_READMODEL_DIR": str(folder / "model")}

    def refresh(self) -> dict[str, Any]:
        """Bring the read model up to date in a fresh process."""
        command = [sys.executable, "-c", _REFRESH, str(self.warehouse), str(self.folder / "model")]
        ran = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
        reported: dict[str, Any] = json.loads(ran.stdout)
        return reported

    def run(self, arguments: list[str], repeats: int) -> dict[str, float]:
        """Run a command in fresh processes; give medians."""
        walls, cpus = [], []
        for _ in range(repeats):
            begun, before = perf_counter(), os.times()
            ran = subprocess.run(
                [sys.executable, "-m", "lakehouse", *arguments], env=self.environment, capture_output=True, text=True, check=False
            )
            after = os.times()
            assert ran.returncode == 0, (arguments, ran.stderr[-2000:])
            assert ran.stdout, arguments
            walls.append(perf_counter() - begun)
            cpus.append(after.children_user + after.children_system - before.children_user - before.children_system)
        return {"wall": round(median(walls), 2), "cpu": round(median(cpus), 2)}


def measure(written: Generated, folder: Path, touched: int, repeats: int) -> dict[str, Any]:
    """Measure all of it; the warehouse holds one snapshot."""
    place = Place(written.folder, folder)
    found: dict[str, Any] = {"messages": written.shape.messages, "build": place.refresh()}
    found["file_mib"] = round(sum(file.stat().st_size for file in (folder / "model").iterdir()) / 2**20)
    found["nothing new"] = place.refresh()
    written.touch(touched)
    found[f"{touched} messages of the log followed"] = place.refresh()
    written.project_touched(touched)
    found["their definitions followed"] = place.refresh()
    assert {one["messages"] for one in found.values() if isinstance(one, dict)} == {written.shape.messages}
    written.label("first", 1)
    place.refresh()
    message = written.first_message()
    for name, arguments in commands(message.rpartition("/")[2], message.split("/")[2]).items():
        found[name] = place.run(arguments, repeats)
    return found


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--touched", type=int, default=100, help="messages that the commit changes which is followed")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--warehouse", type=Path, help="where the catalog is written, or was by an earlier run")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakehouse-bench-") as folder:
        written = Generated(given.warehouse or Path(folder, "w"), Shape(messages=given.messages))
        written.load()
        print(json.dumps(measure(written, Path(folder), given.touched, given.repeat), indent=1))


if __name__ == "__main__":
    main()
