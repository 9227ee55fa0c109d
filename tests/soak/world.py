"""Does a step of a history in a real catalog and in the model, and looks whether the two agree."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.doctor import diagnose, rebuild
from lakehouse.errors import PruneRefused
from lakehouse.faults import CrashRequested
from lakehouse.pipeline import Request, Summary, ingest
from lakehouse.plans import Policy
from lakehouse.settings import read_settings

from .documents import write
from .edits import NEEDLE
from .model import (
    DEFAULT_REGISTRY,
    TABLES,
    Catalog,
    Ingest,
    Key,
    Reading,
    TooMuchPruned,
    missed,
    read,
    unfounded,
    with_dependents,
)
from .off import OFF
from .runs import Run
from .terms import Document
from .warehouse import Load, Row, Search, Warehouse, differing, digest, kind_of

RELATIONS = {"MSG-146", "MSG-183", "END-173"}  # rules between entities that the model knows
_ROOT = Path(__file__).parents[2]


class Broken(AssertionError):
    """The catalog is not what it ought to be."""


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
        self.told = ""  # of the last step
        self.is_interrupted = False  # the first step was begun before, by a process that died

    def step(self, documents: dict[str, Document], run: Run, *, deep: bool = False) -> None:
        """Write documents, ingest them, and check all that must hold.

        Raises:
            Broken: something does not.
        """
        self._write(documents)
        found = {path: documents[path] for path in sorted(run.found(documents))}
        told = self._dry(run) if run.first_dry else None
        head = max(self.warehouse.snapshots(), default=0) if (self.warehouse.folder / "changes").is_dir() else 0
        crashed = run.crash is not None or self.is_interrupted
        died = run.crash is not None and self._crash(run)
        try:
            summary = self._ingest(run)
        except PruneRefused:
            summary = None
        seconds = "" if summary is None else f"ingest {summary.seconds['total']:.0f} s, snapshot {summary.snapshot_id}"
        self.told = f"{seconds or 'pruning refused'}{', died' if died else ''}: {run}"
        below = frozenset(path for path in self.model.said if run.lists(path))
        before, outcome = self.model, Ingest(found, below, run.prune, run.force, run.strict)
        is_refused = self._follow(outcome)
        _check(is_refused == (summary is None), f"pruning over half: the model says {is_refused}")
        if crashed or summary is None or told is None:
            told = None
        self._check_entities(before)
        self._check_documents(found, summary)
        if summary is not None:
            self._check_counts(found, summary, None if crashed else head, told)
        self._check_files()
        self.is_interrupted = False
        if run.again and summary is not None:
            self._check_again(run)
        if deep:
            self._check_deep()

    def state(self) -> tuple[Any, ...]:
        return self.model, self.rows, self.written

    def restore(self, state: tuple[Any, ...]) -> None:
        self.model, self.rows, self.written = state
        self.is_interrupted = True

    # Doing

    def _write(self, documents: dict[str, Document]) -> None:
        for path in self.written.keys() - documents.keys():
            (self.documents / path).unlink(missing_ok=True)
        (self.documents / "sub").mkdir(exist_ok=True)
        for path, document in documents.items():
            if self.written.get(path) != document:
                (self.documents / path).write_bytes(write(document, path))
        self.written = dict(documents)

    def _ingest(self, run: Run, *, dry: bool = False) -> Summary:
        policy = Policy(run.force, run.prune, self.settings.on_conflict)
        request = Request(policy, strict=run.strict, dry_run=dry)
        return ingest(self.spark, self.settings, [str(self.documents / run.source)], request=request)

    def _dry(self, run: Run) -> Summary | None:
        before = digest(self.warehouse.folder)
        try:
            told = self._ingest(run, dry=True)
        except PruneRefused:
            told = None
        if "dry run" not in OFF:
            changed = differing(before, digest(self.warehouse.folder))
            _check(not changed, f"a dry run changed {changed[:10]}")
        return told

    def _crash(self, run: Run) -> bool:
        """Die at a point of an ingest; False when it never came by."""
        assert run.crash is not None
        if run.by_kill:
            flags = [f"--{name}" for name in ("prune", "force", "strict") if getattr(run, name)]
            command = [sys.executable, "-m", "lakehouse", "ingest", str(self.documents / run.source), *flags]
            told = os.environ | {"LAKEHOUSE_CRASH_AT": run.crash, "LAKEHOUSE_CRASH_BY": "kill"}
            command += ["--warehouse", str(self.warehouse.folder)]
            return subprocess.run(command, env=told, cwd=_ROOT, capture_output=True, check=False).returncode < 0
        os.environ["LAKEHOUSE_CRASH_AT"] = run.crash
        try:
            self._ingest(run)
        except CrashRequested:
            return True
        except PruneRefused:
            return False
        finally:
            del os.environ["LAKEHOUSE_CRASH_AT"]
        return False

    def _follow(self, outcome: Ingest) -> bool:
        """Let the model do the ingest, with what rules between entities refused; True when it would prune too much."""
        readings = {path: read(document) for path, document in outcome.documents.items()}
        refused: dict[str, frozenset[Key]] = {}
        rejected: set[str] = set()
        known = self.warehouse.findings()
        for path, load in self._last_loads(readings).items():
            told = [known[one] for one in load.facts.get("findings") or [] if one in known]
            keys = {Key(one["registryid"], kind_of(one["xid"]), one["xid"]) for one in told
                    if one["rule_id"] in RELATIONS and one["action"] == "quarantined"}  # fmt: skip
            reading = readings[path]
            if keys and load.facts["status"] == "loaded":
                refused[path] = frozenset(keys)
            if load.facts["status"] == "rejected" and not reading.rejected and outcome.strict and not reading.has_errors:
                rejected.add(path)
        outcome = replace(outcome, refused=refused, rejected=frozenset(rejected))
        before = self.model
        try:
            self.model = before.after(outcome)
        except TooMuchPruned:
            return True
        self.outcome = outcome
        _check(not (wrong := unfounded(before, outcome, self.model)), f"refused without a reason: {wrong}")
        _check(not (wrong := missed(before, self.model)), f"published though it breaks a rule: {wrong}")
        for path in rejected:
            reasons = {key for key in readings[path].accepted if key.kind in ("version", "endpoint")}
            without = unfounded(before, replace(outcome, refused={path: frozenset(reasons)}), self.model).get(path, set())
            _check(bool(reasons - without), f"{path} was rejected without a reason")
        return False

    def _last_loads(self, paths: Any) -> dict[str, Load]:
        """Give the last load of each document, in whatever registry."""
        last: dict[str, Load] = {}
        for load in sorted(self.warehouse.loads(), key=lambda load: load.snapshot_id):
            if load.path in paths:
                last[load.path] = load
        return last

    # Checks

    def _check_entities(self, before: Catalog) -> None:
        """The published entities are the model's, in the tables and in the log; what nobody touched is as it was."""
        rows, log, model = self.warehouse.entities(), self.warehouse.from_log(), self.model
        expected = model.published
        _check(rows.keys() == expected.keys(), lambda: f"missing: {sorted(expected.keys() - rows.keys())}, "
               f"too many: {sorted(rows.keys() - expected.keys())}")  # fmt: skip
        for key, row in rows.items():
            one = expected[key]
            _check(key.kind == "registry" or row.said == one.said, f"{key} is {row.said} and not {one.said}")
            _check(row.owners == one.owners, f"{key} is owned by {row.owners} and not {one.owners}")
            _check(key.kind == "registry" or row.epoch == one.epoch, f"{key} has the epoch {row.epoch} and not {one.epoch}")
            if row.isdefault is not None:
                _check(row.isdefault == model.isdefault(key), f"{key} has isdefault {row.isdefault}")
            if key.kind == "registry":
                said = {every[key] for every in model.said.values() if key in every}
                _check(row.said in said or not one.owners, f"{key} is {row.said}, which nobody says")
            self._check_untouched(key, row, before)
        told = {key: (row.content_hash, row.epoch, *row.dates, row.owners, row.snapshot_id) for key, row in rows.items()}
        _check(told == log, lambda: f"tables differ from the log: {[key for key in told | log if told.get(key) != log.get(key)]}")
        flattened = {(key.registry, key.xid) for key in rows if key.kind == "message"}
        _check(self.warehouse.flattened() == flattened, "effective_messages has other messages")
        self.rows = rows

    def _check_untouched(self, key: Key, row: Row, before: Catalog) -> None:
        old, was, one = self.rows.get(key), before.published.get(key), self.model.published[key]
        if old is None or was is None or key.kind == "registry" or was.said != one.said:
            return
        _check((old.dates, old.epoch) == (row.dates, row.epoch), f"{key} was touched: {old} became {row}")
        if "/versions/" in key.xid and before.isdefault(key) != self.model.isdefault(key):
            return
        _check(old.content_hash == row.content_hash, f"{key} was touched: {old} became {row}")
        _check(old.snapshot_id == row.snapshot_id or was.owners != one.owners, f"{key} was written anew: {old} became {row}")

    def _check_documents(self, found: dict[str, Document], summary: Summary | None) -> None:
        """Of each document is known what came of it, and which conflicts it lost or won."""
        if summary is None:
            return
        loads, known = self._last_loads(found), self.warehouse.findings()
        for path, document in found.items():
            reading = read(document)
            expected = self._status(path, reading)
            _check(path in loads, f"{path} is not known")
            facts = loads[path].facts
            _check(facts["status"] == expected, f"{path} is {facts['status']} and not {expected}: {facts.get('reason')}")
            if "registry of documents" not in OFF:
                _check(expected != "loaded" or loads[path].registry == reading.registry, f"{path} is known in another registry")
            if expected == "loaded" and "disputes" not in OFF:
                told = [known[one] for one in facts.get("findings") or [] if known[one]["xid"] != "/"]
                self._check_told(path, "DOC-001", told, self.model.lost[path])
                self._check_told(path, "DOC-002", told, self.model.taken[path])
        if "stale registries" not in OFF:
            registries: dict[str, set[str]] = {}
            for load in self.warehouse.loads():
                registries.setdefault(load.path, set()).add(load.registry)
            twice = {path: names for path, names in registries.items() if len(names) > 1}
            _check(not twice, f"documents are known in several registries: {twice}")

    def _check_told(self, path: str, rule: str, told: list[dict[str, Any]], keys: frozenset[Key]) -> None:
        has = {Key(one["registryid"], kind_of(one["xid"]), one["xid"]) for one in told if one["rule_id"] == rule}
        expected = {key for key in keys if key.registry == read(self.written[path]).registry}
        _check(has == expected, f"{path}: {rule} is told of {sorted(has)} and not of {sorted(expected)}")

    def _status(self, path: str, reading: Reading) -> str:
        if reading.skipped:
            return "skipped"
        is_rejected = reading.rejected or path in self.outcome.rejected or (self.outcome.strict and reading.has_errors)
        return "rejected" if is_rejected else "loaded"

    def _check_counts(self, found: dict[str, Document], summary: Summary, head: int | None, told: Summary | None) -> None:
        """The summary says what is in the log, and exit code 3 where something was refused."""
        statuses = [self._status(path, read(document)) for path, document in found.items()]
        counted = {name: statuses.count(name) for name in ("skipped", "rejected")} | {"read": len(found)}
        has = {name: summary.documents[name] for name in counted}
        if "skipped again" in OFF:
            counted.pop("skipped"), has.pop("skipped")
        _check(counted == has, f"documents: {has} instead of {counted}")
        refused = {
            path: self._refused(path, document)
            for path, document in found.items()
            if self._status(path, read(document)) == "loaded"
        }
        quarantined = {
            table: sum(TABLES[key.kind] == table for keys in refused.values() for key in keys) for table in TABLES.values()
        }
        if "disputes" not in OFF:
            has = {table: summary.entities[table]["quarantined"] for table in quarantined}
            _check(quarantined == has, f"quarantined: {has} instead of {quarantined}")
            is_refused = any(refused.values()) or "rejected" in statuses
            _check(summary.refused == is_refused, f"refused is {summary.refused}: {refused} {statuses}")
        if head is None:  # what a run that died did is not told by the next one
            return
        snapshots = self.warehouse.snapshots()
        _check(max(snapshots, default=0) == (summary.snapshot_id or head), f"snapshot {summary.snapshot_id} after {head}")
        ops = snapshots.get(summary.snapshot_id or -1, {})
        outcomes = {"inserted": ("insert",), "updated": ("update", "own"), "deleted": ("delete",)}
        for kind, table in TABLES.items():
            for name, of in outcomes.items():
                n = sum(ops.get(kind, {}).get(op, 0) for op in of)
                _check(
                    summary.entities[table][name] == n, f"{table} {name}: {summary.entities[table][name]} told, {n} in the log"
                )
        if told is not None:
            expected = self.warehouse.changed_in(summary.snapshot_id) if summary.snapshot_id else set()
            changes = {(one["op"], one["registryid"], one["kind"], one["xid"]) for one in told.changes or []}
            _check(changes == expected, f"a dry run told other changes: {changes ^ expected}")

    def _refused(self, path: str, document: Document) -> set[Key]:
        reading = read(document)
        out = with_dependents(reading, self.outcome.refused.get(path, frozenset()))
        lost = {key for key in self.model.lost[path] if key in reading.accepted}
        return {*reading.refused, *out, *lost}

    def _check_files(self, *, again: bool = False) -> None:
        """No planted secret is anywhere on disk."""
        hits = self.search.found(again=again)
        _check("secrets" in OFF or not hits, f"secrets stand in {hits[:10]}")

    def _check_again(self, run: Run) -> None:
        """The same documents again commit nothing, and write nothing."""
        before = digest(self.warehouse.folder)
        summary = self._ingest(run)
        changed = differing(before, digest(self.warehouse.folder))
        ops = self.warehouse.snapshots().get(summary.snapshot_id or -1)
        _check(summary.snapshot_id is None, f"the same again is snapshot {summary.snapshot_id}: {ops}")
        _check(not changed, f"the same again changed {changed[:10]}")

    def _check_deep(self) -> None:
        """The doctor is content, a rebuild changes nothing, and all files are searched."""
        problems = [one for one in diagnose(self.spark, self.settings, deep=True) if one.state != "ok"]
        _check(not problems, f"doctor: {problems}")
        rebuild(self.spark, self.settings)
        _check(self.warehouse.entities() == self.rows, "a rebuild gives other rows")
        self._check_files(again=True)


def _check(holds: bool, told: str | Callable[[], str]) -> None:
    if not holds:
        raise Broken(told if isinstance(told, str) else told())


__all__ = ["DEFAULT_REGISTRY", "Broken", "World"]
