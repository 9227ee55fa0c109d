"""The stateful test: small catalogs with everything as shipped, against the model.

`python -m tests.soak.machine --steps N --seed S` runs N steps (`make soak`), in catalogs of 40 steps each; step K of seed S is
the same each time, so `--catalog C` takes a run up at its C-th catalog. A failure prints the history as a shell script, and
keeps it as JSON that `--replay FILE` runs again.

The long run draws its steps itself: Hypothesis would spend days on shrinking a history of which each step takes ten seconds,
and knows no way to take a run up in its middle. `tests/test_machine.py` runs the same steps as rules of Hypothesis.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from lakehouse.settings import read_settings
from lakehouse.tables import create_tables

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
        """Give the history, to be replayed."""
        steps = [{"documents": {path: as_json(one) for path, one in documents.items()}, "run": run._asdict()}
                 for documents, run in self.history]  # fmt: skip
        return "[\n" + ",\n".join(json.dumps(step) for step in steps) + "\n]\n"

    def close(self) -> None:
        """Leave the catalog."""
        forget(self.world.spark, self.world.warehouse.folder)


def replay(machine: Machine, text: str) -> None:
    """Do the steps of a history again."""
    for step in json.loads(text):
        documents = {path: from_json(one) for path, one in step["documents"].items()}
        machine.step(documents, Run(**step["run"]))


def run(spark: SparkSession, scratch: Path, *, steps: int, seed: int, catalog: int, keep: Path, loud: bool) -> int:
    """Run steps; give how many failures there were."""
    failures = 0
    empty = _empty_warehouse(spark, scratch / "empty")
    while steps > 0:
        begun = time.monotonic()
        random = Random(f"{seed}/{catalog}")
        machine = Machine(spark, scratch / f"{seed}-{catalog}", empty)
        try:
            while steps > 0 and len(machine.history) < STEPS_OF_A_CATALOG:
                steps -= 1
                step = time.monotonic()
                machine.draw(random)
                if loud:
                    sys.stdout.write(f"step {len(machine.history)}: {time.monotonic() - step:.0f} s {machine.world.told}\n")
                    sys.stdout.flush()
        except Exception as error:
            failures += 1
            _tell_failure(machine, keep / f"machine-{seed}-{catalog}.json", error)
        done = len(machine.history)
        sys.stdout.write(f"seed {seed} catalog {catalog}: {done} steps, {time.monotonic() - begun:.0f} s, {failures} failures\n")
        sys.stdout.flush()
        machine.close()
        catalog += 1
    return failures


def _empty_warehouse(spark: SparkSession, folder: Path) -> Path:
    """Make a warehouse with all tables and no rows: copied for each catalog, which is quicker than creating them."""
    create_tables(spark, read_settings(warehouse=str(folder)))
    forget(spark, folder)
    return folder


def _tell_failure(machine: Machine, path: Path, error: Exception) -> None:
    path.write_text(machine.as_json())
    told = str(error) if isinstance(error, Broken) else f"{type(error).__name__}: {error}"
    sys.stdout.write(
        f"{script.as_script(machine.history)}\n# {path}, step {len(machine.history)}:\n# {told[:3000]}\n".replace("\n# ", "\n# ")
    )
    if not isinstance(error, Broken):
        import traceback

        traceback.print_exception(error, limit=-6)


def main() -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--catalog", type=int, default=0, help="take the run up at this catalog")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="do the steps of this history again")
    parser.add_argument("--keep", type=Path, default=Path(), metavar="DIR", help="where histories of failures are kept")
    parser.add_argument("--verbose", action="store_true", help="tell each step")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        spark = open_quick(Path(scratch) / "session", **{"spark.driver.memory": "2g"})
        if asked.replay:
            machine = Machine(spark, Path(scratch) / "replay")
            try:
                replay(machine, asked.replay.read_text())
            except Broken as error:
                sys.exit(f"step {len(machine.history)}: {error}")
            sys.stdout.write(f"{len(machine.history)} steps, no failure\n")
        elif run(
            spark, Path(scratch), steps=asked.steps, seed=asked.seed, catalog=asked.catalog, keep=asked.keep, loud=asked.verbose
        ):
            sys.exit(1)


if __name__ == "__main__":
    main()
