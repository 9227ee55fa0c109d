"""What a run reports to machines: a line of JSON for each stage, metrics as OpenMetrics text, lineage as OpenLineage events.

The command line writes all of it, besides what a person sees; the library only names its stages.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.openmetrics.exposition import generate_latest

from lakehouse.errors import SettingsError
from lakehouse.progress import Watcher
from lakehouse.store.schema import ENTITY_TABLES
from lakehouse.store.session import absolute_location
from lakehouse.version import VERSION

PRODUCER = f"urn:xregistry-lakehouse:{VERSION}"
_RESULTS = ("ingest", "validate", "export", "maintain")


@dataclass
class CommandRun:
    """A run of a command.

    Attributes:
        command: its name.
        warehouse: the warehouse.
        log: whether stages are written as JSON to standard error.
        metrics: file for the figures; None: none is written.
        inputs: what is read, as given.
        endpoint: XID of the endpoint whose messages events are matched with; empty: of all.
        result: what came out, as with `--json`.
        seconds: time by stage.
    """

    command: str = ""
    warehouse: str = ""
    log: bool = False
    metrics: str | None = None
    inputs: tuple[str, ...] = ()
    endpoint: str = ""
    result: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    run_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    begun: float = field(default_factory=time.monotonic)

    def begin(self) -> None:
        """Return whether the run begins.

        Raises:
            SettingsError: the figures have no folder to be written into.
        """
        if self.metrics and not Path(self.metrics).absolute().parent.is_dir():
            raise SettingsError(f"--metrics {self.metrics}: there is no such folder.")
        _report_lineage(self, "START")

    def watch(self, watcher: Watcher) -> Watcher:
        """Record stages on their way to another watcher."""
        return _Recorder(self, watcher)

    def report(self, stage: str, state: str, seconds: float, **more: Any) -> None:
        """Write a line of the log."""
        if self.log:
            now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            line = {"time": now, "run": self.run_id, "command": self.command, "stage": stage, "state": state}
            with suppress(BrokenPipeError):  # nobody reads the lines any more; the run goes on
                sys.stderr.write(json.dumps({**line, "seconds": round(seconds, 3), **more}) + "\n")
                sys.stderr.flush()

    def end(self, exit_code: int, error: str | None = None) -> None:
        """Return how the run ended, in all ways that were asked for."""
        spent = time.monotonic() - self.begun
        failed = exit_code not in (0, 3, 4)
        error_fields = {} if error is None else {"error": error}
        self.report("end", "failed" if failed else "done", spent, exit_code=exit_code, warehouse=self.warehouse, **error_fields)
        if self.metrics:
            try:
                _write(self.metrics, figures(self, exit_code, spent))
            except OSError as problem:  # what was done stays done
                sys.stderr.write(f"warning: the figures were not written: {problem}\n")
        _report_lineage(self, "FAIL" if failed else "COMPLETE")


_Rows = list[tuple[dict[str, str], float]]  # labels and value
_Gauge = tuple[str, str, _Rows]  # name, description, rows


def figures(run: CommandRun, exit_code: int, seconds: float) -> str:
    """Return the figures of a run as OpenMetrics text."""
    registry = CollectorRegistry()
    run_labels = {"command": run.command, "version": VERSION, "warehouse": run.warehouse}
    gauges: list[_Gauge] = [
        ("run_info", "Command that ran.", [(run_labels, 1)]),
        ("run_exit_code", "Exit code: 0 done, 3 done but something was refused, 1 and 2 failed.", [({}, exit_code)]),
        ("run_end_timestamp_seconds", "When the run ended, in seconds since 1970.", [({}, time.time())]),
        ("run_duration_seconds", "Time that the run took.", [({}, seconds)]),
        ("stage_duration_seconds", "Time by stage.", [({"stage": name}, spent) for name, spent in run.seconds.items()]),
    ]
    if run.result.get("snapshot_id"):
        gauges.append(("snapshot_id", "Snapshot that was committed or looked at.", [({}, run.result["snapshot_id"])]))
    if run.result and run.command in _GAUGES:
        gauges += _GAUGES[run.command](run.result, run)
    for name, description, rows in gauges:
        if rows:
            made = Gauge(f"lakehouse_{name}", description, list(rows[0][0]), registry=registry)
            for labels, value in rows:
                (made.labels(**labels) if labels else made).set(value)
    text: bytes = generate_latest(registry)  # type: ignore[no-untyped-call]
    return text.decode()


def _of_match(result: dict[str, Any], run: CommandRun) -> Iterator[_Gauge]:
    from lakehouse.match.evaluation import STATUSES

    events: _Rows = [({"status": name, "endpoint": run.endpoint}, result[name]) for name in STATUSES]
    yield "events", "Events by what came of them.", events
    yield "payloads", "Payloads of events by status.", [({"status": name}, n) for name, n in result["payloads"].items()]
    yield "messages_unseen", "Definitions that no event was of.", [({}, result["unseen"])]


def _of_ingest(result: dict[str, Any], _: CommandRun) -> Iterator[_Gauge]:
    yield "documents", "Documents by outcome.", [({"outcome": name}, n) for name, n in result["documents"].items()]
    entities: _Rows = [
        ({"table": table, "outcome": outcome}, n) for table, counts in result["entities"].items() for outcome, n in counts.items()
    ]
    yield "entities", "Entities by table and outcome.", entities
    yield "findings", "Findings by severity.", [({"severity": name}, n) for name, n in result["violations"].items()]


def _of_validate(result: dict[str, Any], _: CommandRun) -> Iterator[_Gauge]:
    failed: _Rows = [
        ({"suite": name, "severity": severity}, n)
        for name, suite in result["suites"].items()
        for severity, n in suite["failed"].items()
    ]
    yield "expectations_failed", "Expectations that do not hold.", failed


def _of_maintain(result: dict[str, Any], _: CommandRun) -> Iterator[_Gauge]:
    for what in ("files", "bytes", "files_on_disk", "bytes_on_disk"):
        rows: _Rows = [
            ({"table": table["table"], "when": when}, table[when][what])
            for table in result["tables"]
            for when in ("before", "after")
        ]
        yield f"table_{what}", f"{what.replace('_', ' ').capitalize()} of each table.", rows


_GAUGES: dict[str, Callable[[dict[str, Any], CommandRun], Iterator[_Gauge]]] = {
    "match": _of_match,
    "ingest": _of_ingest,
    "validate": _of_validate,
    "maintain": _of_maintain,
}


class _Recorder:
    """Records stages."""

    def __init__(self, run: CommandRun, watcher: Watcher) -> None:
        self.run = run
        self.watcher = watcher

    @contextmanager
    def stage(self, name: str, detail: str) -> Iterator[None]:
        begun = time.monotonic()
        state = "failed"
        try:
            with self.watcher.stage(name, detail):
                yield
            state = "done"
        finally:
            spent = time.monotonic() - begun
            self.run.seconds[name] = self.run.seconds.get(name, 0.0) + spent
            self.run.report(name, state, spent, message=detail, told=detail)  # `told`: the name before 0.2


def _write(file: str, text: str) -> None:
    """Replace the file at once: who reads it meanwhile sees the old figures or the new."""
    path = Path(file)
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)


def _report_lineage(run: CommandRun, state: str) -> None:
    """Report the run to OpenLineage, where its library is installed and configured (OPENLINEAGE_URL or OPENLINEAGE_CONFIG)."""
    wanted = any(os.environ.get(name) for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG"))
    if run.command not in _RESULTS or not wanted or importlib.util.find_spec("openlineage") is None:
        return
    from openlineage.client import OpenLineageClient
    from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, RunEvent, RunState
    from openlineage.client.event_v2 import Run as LineageRun

    inputs, outputs = datasets(run)
    event = RunEvent(
        eventType=RunState[state],
        eventTime=datetime.now(timezone.utc).isoformat(),
        run=LineageRun(runId=run.run_id),
        job=Job(namespace=os.environ.get("OPENLINEAGE_NAMESPACE", "xregistry-lakehouse"), name=run.command),
        producer=PRODUCER,
        inputs=[InputDataset(namespace=namespace, name=name) for namespace, name in inputs],
        outputs=[OutputDataset(namespace=namespace, name=name) for namespace, name in outputs],
    )
    try:
        OpenLineageClient().emit(event)
    except Exception as problem:  # whoever listens may be away; the catalog does not wait for them
        sys.stderr.write(f"warning: OpenLineage event not sent: {type(problem).__name__}: {problem}\n")


def datasets(run: CommandRun) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Return what a run reads and writes, as namespace and name of each: files and folders, and the tables of the warehouse."""
    tables = {name: _dataset(f"{run.warehouse}/{name}") for name in ("changes", *(table.name for table in ENTITY_TABLES))}
    inputs = [_dataset(source) for source in run.inputs]
    if run.command == "ingest":
        changed = {
            name
            for name, counts in run.result.get("entities", {}).items()
            if any(counts[outcome] for outcome in ("inserted", "updated", "deleted"))
        }
        return inputs, [place for name, place in tables.items() if name in changed or (changed and name == "changes")]
    if run.command == "export":
        return [tables["changes"]], [_dataset(run.result["out"])] if run.result.get("out") else []
    return list(tables.values()), []


def _dataset(location: str) -> tuple[str, str]:
    """Return a location as OpenLineage names it: file and the path, or scheme and bucket and the path."""
    whole = absolute_location(location)
    if "://" in whole:
        scheme, rest = whole.split("://", 1)
        bucket, _, path = rest.partition("/")
        return f"{scheme}://{bucket}", path
    return "file", whole.removeprefix("file:")
