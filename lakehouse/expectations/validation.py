"""`lakehouse validate`: all rules and suites over the published catalog, with results for people, queries and schedulers."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from lakehouse.expectations.gates import read_rows
from lakehouse.expectations.suiteruns import (
    RuleExpectation,
    SuiteResult,
    check_expectations,
    specification,
    validate_counts,
    validate_rows,
    write_pages,
)
from lakehouse.expectations.suites import SPECIFICATION, Suite, choose_suites, read_suites
from lakehouse.log.commits import read_head
from lakehouse.log.projections import roll_forward
from lakehouse.log.snapshots import open_relations, resolve_snapshot
from lakehouse.progress import Clock, Watcher
from lakehouse.rules.declared import SEVERITIES
from lakehouse.rules.findings import Count, count_findings, record_findings, unrecorded
from lakehouse.settings import Settings
from lakehouse.store.deltatables import attach_tables, check_writers, is_small
from lakehouse.store.schema import SCHEMA
from lakehouse.store.session import without_codegen
from lakehouse.store.views import views, with_read

EXAMPLES = 3  # of each rule
_Check = Callable[[SparkSession, int], DataFrame]
_Table = Callable[[SparkSession], DataFrame | None]


class BrokenRule(NamedTuple):
    """A rule that has findings, with some of them: registryid, xid, message, hint."""

    found: Count
    examples: list[dict[str, str]]


@dataclass
class Validation:
    """What a validation found; `as_json` is the contract of `lakehouse validate --json`.

    Attributes:
        schema: the schema that was validated.
        snapshot_id: the newest snapshot.
        results: what came out for each suite.
        broken: the rules that have findings, the worst first.
        recorded: findings that `violations` did not hold before.
        skipped: suites whose table the schema does not have.
        data_docs: location of the first page.
        seconds: by stage.
    """

    schema: str
    snapshot_id: int
    results: list[SuiteResult]
    broken: list[BrokenRule]
    recorded: int
    skipped: list[str]
    data_docs: str
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def has_findings(self) -> bool:
        """Return whether an expectation of severity error or warning failed: exit code 3."""
        return any(result.failed("error", "warning") for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """Return the validation as one JSON value."""
        return {
            "schema": self.schema,
            "snapshot_id": self.snapshot_id,
            "suites": {
                result.suite.name: {"expectations": len(result.outcomes), "failed": result.counts} for result in self.results
            },
            "rules": [{**broken.found._asdict(), "examples": broken.examples} for broken in self.broken],
            "failed": [
                {
                    "suite": result.suite.name,
                    "name": outcome.expectation.name,
                    "severity": outcome.expectation.severity,
                    "description": outcome.expectation.description,
                    "unexpected": outcome.unexpected,
                    "observed": outcome.observed or None,
                    "error": outcome.error or None,
                }
                for result in self.results
                for outcome in result.failed()
            ],
            "recorded": self.recorded,
            "skipped": self.skipped,
            "data_docs": self.data_docs,
            "seconds": {name: round(seconds, 3) for name, seconds in self.seconds.items()},
        }


def validate(
    spark: SparkSession,
    settings: Settings,
    check: _Check,
    rules: Mapping[str, RuleExpectation],
    *,
    suites: Iterable[str] = (),
    at: str | None = None,
    extra_tables: Mapping[str, _Table] = MappingProxyType({}),
    watcher: Watcher | None = None,
) -> Validation:
    """Run suites over a published state of the catalog.

    Args:
        spark: a session from `open_session`.
        settings: warehouse, folder of suites.
        check: returns the findings of the rules over the current schema, of this snapshot; columns row, document_uri, registryid,
            kind, xid, finding.
        rules: the rules by id.
        suites: names of the suites to run; none means all.
        at: a snapshot, as in `resolve_snapshot`, whose findings are reported and not recorded; None: the catalog as it is.
        extra_tables: tables outside of the catalog: by name the function that reads their rows, or None without such a table.
            Only for the catalog as it is.
        watcher: is notified of the stages.

    Raises:
        SettingsError: a suite is not there, or cannot be understood.
        SnapshotNotFound: `at` names no snapshot.
        WarehouseError: the warehouse holds no catalog.
    """
    clock = Clock(watcher)
    names = list(suites)
    chosen = choose_suites(read_suites(settings), names)
    for suite in chosen.values():
        check_expectations(suite)
    with clock("attach", "tables of the catalog"):
        schema, snapshot_id = _open(spark, settings, chosen.values(), at)
    results: list[SuiteResult] = []
    broken: list[BrokenRule] = []
    recorded = 0
    with _names_in(spark, schema), without_codegen(spark, is_small(spark, settings)):
        if not names or SPECIFICATION in names:
            with clock("check", f"{len(rules)} rules"):
                findings = check(spark, snapshot_id).localCheckpoint()
                counts = count_findings(findings)
                results.append(validate_counts(specification(rules.values(), counts), counts))
                broken = find_broken(findings, counts)
                if at is None:
                    recorded = record_findings(spark, unrecorded(spark, findings), uuid.uuid4().hex)
        with _with_extra_tables(spark, {} if at is not None else extra_tables):
            existing = [suite for suite in chosen.values() if _table_exists(spark, suite, schema)]
            for suite in existing:
                with clock("suites", f"suite {suite.name}: {len(suite.expectations)} expectations"):
                    results.append(validate_rows(suite, read_rows(spark, suite)))
    with clock("docs", "Data Docs"):
        pages = write_pages(spark, settings, f"Snapshot {snapshot_id}", results)
    skipped = sorted(suite.name for suite in chosen.values() if suite not in existing and (names or not suite.optional))
    return Validation(schema, snapshot_id, results, broken, recorded, skipped, pages, clock.seconds())


def _open(spark: SparkSession, settings: Settings, suites: Iterable[Suite], at: str | None) -> tuple[str, int]:
    """Open the catalog, as it is or as of a snapshot, with the views that suites read; give the schema and the snapshot."""
    check_writers(spark, settings)
    attach_tables(spark, settings)
    head = read_head(spark)
    roll_forward(spark, head, settings=settings)
    words = {word for suite in suites for word in suite.words}
    schema = open_relations(spark, settings, with_read([*(name for name in views() if name in words), "documents"]), at=at)
    return schema, head.snapshot_id if at is None else resolve_snapshot(spark, at)


def find_broken(findings: DataFrame, counts: list[Count]) -> list[BrokenRule]:
    """Return each rule that has findings with some of them, the worst first."""
    key = [F.col("finding.rule_id").alias("rule_id"), F.col("finding.severity").alias("severity")]
    details = [F.coalesce(F.col(f"finding.{name}"), F.lit("")).alias(name) for name in ("message", "hint")]
    rows = findings.select(*key, "registryid", F.coalesce("xid", "document_uri").alias("xid"), *details)
    first = Window.partitionBy("rule_id", "severity").orderBy("registryid", "xid", "message")
    few = rows.withColumn("nth", F.row_number().over(first)).filter(F.col("nth") <= EXAMPLES).orderBy("nth")
    examples: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in few.collect():
        example = {name: row[name] for name in ("registryid", "xid", "message", "hint")}
        examples.setdefault((row["rule_id"], row["severity"]), []).append(example)
    worst_first = sorted(counts, key=lambda count: (SEVERITIES.index(count.severity), count.rule_id))
    return [BrokenRule(count, examples.get((count.rule_id, count.severity), [])) for count in worst_first]


@contextmanager
def _names_in(spark: SparkSession, schema: str) -> Iterator[None]:
    """Resolve bare names as tables and views of a schema."""
    spark.catalog.setCurrentDatabase(schema)
    try:
        yield
    finally:
        spark.catalog.setCurrentDatabase(SCHEMA)


def _table_exists(spark: SparkSession, suite: Suite, schema: str) -> bool:
    """Return whether a suite's table exists; True for one of the live schema, whose absence the read reports."""
    if suite.optional:
        return spark.catalog.tableExists(suite.table)
    return schema == SCHEMA or spark.catalog.tableExists(f"{schema}.{suite.table}")


@contextmanager
def _with_extra_tables(spark: SparkSession, extra_tables: Mapping[str, _Table]) -> Iterator[None]:
    """Add tables that are not the catalog's to what suites can read."""
    with ExitStack() as views:
        for name, read in extra_tables.items():
            rows = read(spark)
            if rows is not None:
                rows.createOrReplaceTempView(name)
                views.callback(spark.catalog.dropTempView, name)
        yield
