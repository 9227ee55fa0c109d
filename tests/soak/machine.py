"""The stateful test: small catalogs with everything as shipped, against the model.

`python -m tests.soak.machine --steps N --seed S` runs N steps (`make soak`), in catalogs of 40 steps each. All follows from the
seed; `--folder DIR` keeps where the run is, so that the same command takes up again what was killed or stopped, in the middle of
a step too. A failure prints the history as a shell script, and keeps it as JSON that `--replay FILE` runs again.

The long run draws its steps itself: Hypothesis would spend days on shrinking a history of which each step takes ten seconds,
and knows no way to take a run up in its middle. `tests/test_machine.py` runs the same steps as rules of Hypothesis.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.settings import read_settings
from lakehouse.store.deltatables import create_tables

from . import script
from .edits import edit, first_documents
from .runs import Run, draw_run
from .sessions import forget, open_quick
from .terms import Document, as_json, from_json
from .world import Broken, World

STEPS_OF_A_CATALOG = 40


class Machine:
    """Steps in one catalog, each of which can be drawn at random or replayed."""

    def __init__(self, spark: SparkSession, folder: Path, empty: Path | None = None) -> None:
        self.world = World(spark, folder, empty)
        self.documents: dict[str, Document] = {}
        self.history: list[tuple[dict[str, Document], Run]] = []

    def draw(self, random: Random) -> None:
        """Draw edits and an ingest, and do them."""
        if not self.history:
            self.documents = first_documents(random)
        else:
            edit(random, self.documents)
        self.step(dict(self.documents), draw_run(random, self.documents))

    def step(self, documents: dict[str, Document], run: Run) -> None:
        """Do one step.

        Raises:
            Broken: the catalog is not what it ought to be.
        """
        self.documents = dict(documents)
        self.history.append((documents, run))
        self.world.step(documents, run, deep=len(self.history) % 10 == 0)

    def as_json(self) -> str:
        """Return the history, to be replayed."""
        steps = [{"documents": {path: as_json(one) for path, one in documents.items()}, "run": run._asdict()}
                 for documents, run in self.history]  # fmt: skip
        return "[\n" + ",\n".join(json.dumps(step) for step in steps) + "\n]\n"

    def state(self) -> tuple[Any, ...]:
        """Return what a later process goes on from."""
        return (self.documents, self.history, self.world.state())

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go on from a state of this catalog; what was begun after it is in the warehouse in parts, as after a crash."""
        _, self.documents, self.history, world = state
        self.world.restore(world)

    def close(self) -> None:
        """Leave the catalog."""
        forget(self.world.spark, self.world.warehouse.folder)


def replay(machine: Machine, text: str) -> None:
    """Do the steps of a history again."""
    for step in json.loads(text):
        documents = {path: from_json(one) for path, one in step["documents"].items()}
        machine.step(documents, Run(**step["run"]))


@dataclass
class Progress:
    """Where a run is; kept after each step."""

    seed: int
    left: int
    catalog: int = 0
    failures: int = 0
    done: int = 0
    state: tuple[Any, ...] | None = None

    def folder(self, below: Path) -> Path:
        return below / f"{self.seed}-{self.catalog}"


def run(spark: SparkSession, below: Path, progress: Progress, *, loud: bool) -> Progress:
    """Run the steps that are left.

    Raises:
        SparkLost: the session died; the same command goes on.
    """
    empty = _empty_warehouse(spark, below / "empty")
    while progress.left > 0:
        random = Random(f"{progress.seed}/{progress.catalog}")
        if progress.state is None:
            shutil.rmtree(progress.folder(below), ignore_errors=True)
        machine = Machine(spark, progress.folder(below), empty)
        if progress.state is not None:
            machine.restore(progress.state)
            random.setstate(progress.state[0])
        try:
            while progress.left > 0 and len(machine.history) < STEPS_OF_A_CATALOG:
                begun = time.monotonic()
                machine.draw(random)
                progress.left, progress.done = progress.left - 1, progress.done + 1
                progress.state = (random.getstate(), *machine.state())
                (below / "progress").write_bytes(pickle.dumps(progress))
                if loud:
                    _say(f"step {progress.done}: {time.monotonic() - begun:.0f} s {machine.world.outcome}")
        except Exception as error:
            if not _is_alive(spark):
                raise SparkLost from error
            progress.left, progress.done, progress.failures = progress.left - 1, progress.done + 1, progress.failures + 1
            _report_failure(machine, below / f"machine-{progress.seed}-{progress.catalog}.json", error)
        _say(f"seed {progress.seed}: {progress.done} steps in {progress.catalog + 1} catalogs, {progress.failures} failures")
        machine.close()
        progress.catalog, progress.state = progress.catalog + 1, None
        (below / "progress").write_bytes(pickle.dumps(progress))
    return progress


class SparkLost(Exception):
    """The session died under the run."""


def _is_alive(spark: SparkSession) -> bool:
    try:
        return spark.sql("SELECT 1").count() == 1
    except Exception:
        return False


def _say(reported: str) -> None:
    sys.stdout.write(reported + "\n")
    sys.stdout.flush()


def _empty_warehouse(spark: SparkSession, folder: Path) -> Path:
    """Make a warehouse with all tables and no rows: copied for each catalog, which is quicker than creating them."""
    shutil.rmtree(folder, ignore_errors=True)
    create_tables(spark, read_settings(warehouse=str(folder)))
    forget(spark, folder)
    return folder


def _report_failure(machine: Machine, path: Path, error: Exception) -> None:
    path.write_text(machine.as_json())
    reported = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
    sys.stdout.write(
        f"{script.as_script(machine.history)}\n# {path}, step {len(machine.history)}:\n# {reported[:3000]}\n".replace(
            "\n# ", "\n# "
        )
    )
    if not isinstance(error, Broken):
        import traceback

        traceback.print_exception(error, limit=-6)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep catalogs, histories and where the run is here")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="do the steps of this history again")
    parser.add_argument("--verbose", action="store_true", help="print each step")
    asked = parser.parse_args()
    with ExitStack() as scratch:
        below = (asked.folder or Path(scratch.enter_context(tempfile.TemporaryDirectory()))).absolute()
        below.mkdir(parents=True, exist_ok=True)
        spark = open_quick(below / "session", once=False)
        if asked.replay:
            shutil.rmtree(below / "replay", ignore_errors=True)
            machine = Machine(spark, below / "replay")
            try:
                replay(machine, asked.replay.read_text())
            except Broken as error:
                sys.exit(f"step {len(machine.history)}: {error}")
            _say(f"{len(machine.history)} steps, no failure")
            return
        kept = below / "progress"
        progress = pickle.loads(kept.read_bytes()) if kept.exists() else Progress(asked.seed, asked.steps)
        try:
            failures = run(spark, below, progress, loud=asked.verbose).failures
        except SparkLost:
            _say(f"the session died after {progress.done} steps; the same command with --folder takes them up again")
            os._exit(75)
        sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
