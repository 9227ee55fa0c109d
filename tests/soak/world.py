"""Does a step of a history in a real catalog and in the model, and looks whether the two agree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.domain.ownership import Policy
from lakehouse.errors import PruneRefused
from lakehouse.failpoints import CrashRequested
from lakehouse.ingest.pipeline import IngestRequest, ingest
from lakehouse.ingest.summary import Summary
from lakehouse.operations.doctor import diagnose
from lakehouse.operations.rebuild import rebuild_tables
from lakehouse.settings import read_settings

from .checks import Broken, Step, check, check_counts, check_documents, check_entities, check_refused, with_refused
from .documents import write
from .edits import NEEDLE
from .model import Catalog, Ingest, Key, TooMuchPruned, settle
from .runs import WAYS, Run
from .terms import Document
from .warehouse import Row, Search, Warehouse, differing, digest

_ROOT = Path(__file__).parents[2]


class World:
    """A catalog with everything as shipped, its folder of documents, and the model of both."""

    def __init__(self, spark: SparkSession, folder: Path, empty: Path | None = None) -> None:
        self.spark = spark
        self.documents = folder / "documents"
        self.documents.mkdir(parents=True, exist_ok=True)
        if empty is not None and not (folder / "warehouse").exists():
            shutil.copytree(empty, folder / "warehouse")
        self.settings = read_settings(warehouse=str(folder / "warehouse"))
        self.warehouse = Warehouse(folder / "warehouse", self.documents)
        self.search = Search(folder / "warehouse", NEEDLE)
        self.model = Catalog()
        self.rows: dict[Key, Row] = {}
        self.written: dict[str, Document] = {}
        self.outcome = ""  # of the last step
        self.is_interrupted = False  # the first step was begun before, by a process that died

    def state(self) -> tuple[Any, ...]:
        """Return what a later process goes on from."""
        return self.model, self.rows, self.written

    def restore(self, state: tuple[Any, ...]) -> None:
        """Go on from a state; what was begun after it may be in the warehouse in parts."""
        self.model, self.rows, self.written = state
        self.is_interrupted = True

    def step(self, documents: dict[str, Document], run: Run, *, deep: bool = False) -> None:
        """Write documents, ingest them, and check all that must hold.

        Args:
            documents: all that are there then, by path.
            run: how they are ingested.
            deep: ask the doctor, rebuild, and search all files.

        Raises:
            Broken: something does not hold.
        """
        self._write(documents)
        reported = self._dry(run) if run.first_dry else None
        is_whole = run.crash is None and not self.is_interrupted
        head = self.warehouse.head() if is_whole else None
        died = run.crash is not None and self._crash(run)
        summary = self._ingest(run)
        outcome = "pruning refused" if summary is None else f"ingest {summary.seconds['total']:.0f} s, {summary.snapshot_id}"
        self.outcome = f"{outcome}{', died' if died else ''}: {run}"
        step = self._follow(run, is_refused=summary is None)
        if summary is not None:
            check_refused(step)
        rows = self.warehouse.entities()
        check_entities(step, rows, self.rows, self.warehouse)
        self.rows = rows
        if summary is not None:
            check_documents(step, self.warehouse)
            check_counts(step, summary, self.warehouse, head)
            if reported is not None and is_whole:
                self._check_reported(summary, reported)
            if run.again:
                self._check_again(run)
        self._check_secrets()
        if deep:
            self._check_deep()
        self.is_interrupted = False

    # Doing

    def _write(self, documents: dict[str, Document]) -> None:
        for path in self.written.keys() - documents.keys():
            (self.documents / path).unlink(missing_ok=True)
        (self.documents / "sub").mkdir(exist_ok=True)
        for path, document in documents.items():
            if self.written.get(path) != document:
                (self.documents / path).write_bytes(write(document, path))
        self.written = dict(documents)

    def _ingest(self, run: Run, *, dry: bool = False) -> Summary | None:
        """Ingest; None when pruning was refused."""
        policy = Policy(run.force, run.prune, self.settings.on_conflict)
        request = IngestRequest(policy, strict=run.strict, dry_run=dry)
        try:
            settings = self.settings.model_copy(update=WAYS[run.way])
            return ingest(self.spark, settings, [str(self.documents / run.source)], request=request)
        except PruneRefused:
            return None

    def _dry(self, run: Run) -> Summary | None:
        before = digest(self.warehouse.folder)
        reported = self._ingest(run, dry=True)
        changed = differing(before, digest(self.warehouse.folder))
        check("dry run", not changed, f"a dry run changed {changed[:10]}")
        return reported

    def _crash(self, run: Run) -> bool:
        """Die at a point of an ingest; False when it never came by."""
        assert run.crash is not None
        if run.by_kill:
            flags = [f"--{name}" for name in ("prune", "force", "strict") if getattr(run, name)]
            command = [sys.executable, "-m", "lakehouse", "ingest", str(self.documents / run.source), *flags]
            reported = os.environ | {"LAKEHOUSE_CRASH_AT": run.crash, "LAKEHOUSE_CRASH_BY": "kill"}
            command += ["--warehouse", str(self.warehouse.folder)]
            return subprocess.run(command, env=reported, cwd=_ROOT, capture_output=True, check=False).returncode < 0
        os.environ["LAKEHOUSE_CRASH_AT"] = run.crash
        try:
            self._ingest(run)
        except CrashRequested:
            return True
        finally:
            del os.environ["LAKEHOUSE_CRASH_AT"]
        return False

    def _follow(self, run: Run, *, is_refused: bool) -> Step:
        """Let the model do the same."""
        found = {path: self.written[path] for path in sorted(run.found(self.written))}
        below = frozenset(path for path in self.model.said if run.lists(path))
        named = frozenset({run.source} & found.keys())
        asked = Ingest(found, named, below, prune=run.prune, force=run.force, strict=run.strict)
        asked = with_refused(asked, self.warehouse)
        before = self.model
        try:
            after = before.after(asked)
        except TooMuchPruned as error:
            check("pruning", is_refused, f"it was to be refused: {error}")
        else:
            # What was not written has no findings of rules between entities.
            check("pruning", not is_refused or _prunes_too_much(before, asked), "it was refused")
            self.model = before if is_refused else after
        return Step(before, self.model, asked)

    # Checks of files

    def _check_reported(self, summary: Summary, reported: Summary) -> None:
        """A dry run reports what the ingest after it changes."""
        expected = self.warehouse.changed_in(summary.snapshot_id) if summary.snapshot_id else set()
        changes = {(one["op"], one["registryid"], one["kind"], one["xid"]) for one in reported.changes or []}
        check("dry run", changes == expected, f"a dry run reported other changes: {sorted(changes ^ expected)}")

    def _check_secrets(self, *, again: bool = False) -> None:
        """No planted secret is anywhere on disk."""
        hits = self.search.found(again=again)
        check("secrets", not hits, f"they stand in {hits[:10]}")

    def _check_again(self, run: Run) -> None:
        """The same documents again commit nothing, and write nothing."""
        before = digest(self.warehouse.folder)
        summary = self._ingest(run)
        changed = differing(before, digest(self.warehouse.folder))
        number = None if summary is None else summary.snapshot_id
        ops = self.warehouse.snapshots().get(number or -1)
        check("again", summary is not None and number is None, f"the same again is snapshot {number}: {ops}")
        check("again", not changed, f"the same again changed {changed[:10]}")

    def _check_deep(self) -> None:
        """The doctor is content, a rebuild changes nothing, and all files are searched."""
        problems = [one for one in diagnose(self.spark, self.settings, deep=True) if one.state != "ok"]
        check("doctor", not problems, str(problems))
        rebuild_tables(self.spark, self.settings)
        check("rebuild", self.warehouse.entities() == self.rows, "a rebuild gives other rows")
        self._check_secrets(again=True)


def _prunes_too_much(before: Catalog, asked: Ingest) -> bool:
    """Return whether pruning is refused once rules between entities have refused what they may."""
    try:
        settle(before, asked._replace(refused={}, rejected=frozenset()))
    except TooMuchPruned:
        return True
    return False


__all__ = ["Broken", "World"]
