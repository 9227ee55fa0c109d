"""The candidate: what the catalog would hold after a commit, validated before it.

Two questions, each an error-level expectation that stops the commit: does anything that would be published carry an error of
its own (which `rules.gate` should have taken out), and do the rules of `expectations_dir` hold on the tables as they
would be. What the shipped suites ask was checked entity by entity before, so an ingest does not run them; `validate` does.

An ingest answers for what it would write or make worse: what broke a rule of the user's before, such as what was written over
HTTP, stops no ingest that leaves it as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import CandidateRefused, SettingsError
from lakehouse.expectations.suiteruns import (
    FOLDER,
    Outcome,
    RuleExpectation,
    SuiteResult,
    specification,
    validate_counts,
    validate_rows,
    write_pages,
)
from lakehouse.expectations.suites import Suite, read_stopping
from lakehouse.extras import require
from lakehouse.log.commits import log_rows
from lakehouse.log.plan import Plan
from lakehouse.log.projections import project
from lakehouse.rules.findings import Count, count_findings
from lakehouse.settings import Settings
from lakehouse.store.deltatables import open_table
from lakehouse.store.keys import KEY
from lakehouse.store.materialize import is_known_empty
from lakehouse.store.schema import ENTITY_TABLES, Table

_MOST_DETAILS = 10


def read_gates(settings: Settings) -> list[Suite]:
    """Read the suites that may stop an ingest, with those expectations only that do.

    Raises:
        SettingsError: a suite cannot be read.
        NotInstalled: there is one, and Great Expectations is not installed.
    """
    names = {table.name for table in ENTITY_TABLES}
    gates = [suite for suite in read_stopping(settings) if suite.words & names]
    if gates:
        require("great_expectations")
    return gates


def validate_candidate(
    spark: SparkSession,
    plan: Plan,
    stage: DataFrame | None,
    rules: Iterable[RuleExpectation],
    gates: list[Suite],
    docs: Settings | None = None,
) -> None:
    """Validate what a plan would publish.

    Args:
        spark: the session.
        plan: what would be committed.
        stage: columns `schema.STAGE`; None: the plan has its texts.
        rules: the rules; those of severity error have an expectation.
        gates: as from `read_gates`.
        docs: names the warehouse that Data Docs of a refusal are written to; None: none are.

    Raises:
        CandidateRefused: an expectation does not hold, so that nothing may be committed.
        SettingsError: a suite cannot be understood.
    """
    counts = _published_errors(plan)
    errors = [rule for rule in rules if rule.severity == "error"]
    results = [validate_counts(specification(errors, counts), counts)] if counts else []
    failed = [(result.suite, outcome) for result in results for outcome in result.failed("error")]
    house = _validate_tables(spark, plan, stage, gates)
    failed += _made_worse(spark, plan, house)
    results += house
    if failed:
        details = [_failure_message(suite, outcome) for suite, outcome in failed]
        what = f"What would have become snapshot {plan.head.snapshot_id + 1}"
        pages = write_pages(spark, docs, what, results, f"{FOLDER}/candidate") if docs else None
        raise CandidateRefused(details[:_MOST_DETAILS], len(details), pages)


def _published_errors(plan: Plan) -> list[Count]:
    """Count the errors that refuse an entity which would be published from the same document all the same."""
    if plan.decided is None:
        published = plan.entities.filter(F.col("document_uri").isNotNull()).select(*KEY, "document_uri")
        return count_findings(only_published(plan.findings, published))
    results = Counter(
        finding["finding"]["rule_id"]
        for finding in plan.decided.findings
        if finding["finding"]["severity"] == "error"
        and finding["finding"]["action"] == "quarantined"
        and (finding["document_uri"], finding["registryid"], finding["kind"], finding["xid"]) in plan.decided.written
    )
    return sorted(Count(rule_id, "error", n) for rule_id, n in results.items())


def only_published(findings: DataFrame, published: DataFrame) -> DataFrame:
    """Keep the errors that refuse an entity of a document which would be published from that document all the same.

    Errors that are kept refuse nothing: they report what is published already, or a text for people that was left out.

    Args:
        findings: columns row, document_uri, registryid, kind, xid, finding.
        published: what would be committed; columns KEY, document_uri (of the text that is taken).
    """
    refused = findings.filter((F.col("finding.severity") == "error") & (F.col("finding.action") == "quarantined"))
    if is_known_empty(refused):
        return refused
    return refused.join(published, on=[*KEY, "document_uri"], how="left_semi").select(*findings.columns)


def candidate_table(spark: SparkSession, plan: Plan, stage: DataFrame | None, table: Table) -> DataFrame:
    """Return an entity table as it would be after the commit."""
    rows = log_rows(spark, plan, stage).filter((F.col("kind") == table.kind) & (F.col("op") != "delete"))
    fresh = project(rows.withColumn("snapshot_id", F.lit(plan.head.snapshot_id + 1).cast("bigint")), table)
    if table.name not in plan.head.tables:
        return fresh
    return _left_alone(spark, plan.entities, table).select(*fresh.columns).unionByName(fresh)


def _left_alone(spark: SparkSession, changed: DataFrame, table: Table) -> DataFrame:
    """Return the rows of an entity table that a commit would neither write nor delete."""
    changed = changed.filter(F.col("kind") == table.kind).select("registryid", "xid")
    return open_table(spark, table.name).join(changed, on=["registryid", "xid"], how="left_anti")


def _validate_tables(spark: SparkSession, plan: Plan, stage: DataFrame | None, gates: list[Suite]) -> list[SuiteResult]:
    """Run the suites that concern a table which changes; bare names in their queries mean the candidate."""
    changed = _changed_tables(plan)
    concerned = [suite for suite in gates if suite.words & set(changed)]
    wanted = {name for suite in concerned for name in suite.words & set(changed)}
    return _validate_with(spark, {name: candidate_table(spark, plan, stage, changed[name]) for name in wanted}, concerned)


def _validate_with(spark: SparkSession, tables: dict[str, DataFrame], suites: list[Suite]) -> list[SuiteResult]:
    """Run suites in whose queries the names of some tables mean other rows."""
    with ExitStack() as views:
        for name, rows in tables.items():
            rows.createOrReplaceTempView(name)
            views.callback(spark.catalog.dropTempView, name)
        return [validate_rows(suite, read_rows(spark, suite)) for suite in suites]


def _made_worse(spark: SparkSession, plan: Plan, results: list[SuiteResult]) -> list[tuple[Suite, Outcome]]:
    """Return the expectations that would fail, without those that fail already and that the plan makes no worse.

    It makes one worse where more rows would break it than break it now, or than would without the rows that it writes: not those
    that get another owner alone, or whose epoch counts what came into them. What is not about rows cannot be compared: it stops
    nothing where it does not hold now.
    """
    failed = [(result.suite, outcome) for result in results for outcome in result.failed("error")]
    if not failed or not plan.head.tables:
        return failed
    suites = [
        result.suite._replace(expectations=tuple(outcome.expectation for outcome in result.failed("error")))
        for result in results
        if result.failed("error")
    ]
    changed = {name: table for name, table in _changed_tables(plan).items() if name in plan.head.tables}
    now = _outcomes(_validate_with(spark, {name: open_table(spark, name) for name in changed}, suites))
    is_written = (F.col("op") == "delete") | ~F.col("content_hash").eqNullSafe(F.col("stored_content_hash"))
    written = plan.entities.filter(is_written)
    without = _outcomes(
        _validate_with(spark, {name: _left_alone(spark, written, table) for name, table in changed.items()}, suites)
    )

    def is_worse(suite: Suite, outcome: Outcome) -> bool:
        key = suite.name, outcome.expectation.name
        if outcome.error or now[key].success:
            return True
        counts = [row.unexpected for row in (now[key], without[key])]
        return outcome.unexpected is not None and any(number is not None and outcome.unexpected > number for number in counts)

    return [(suite, outcome) for suite, outcome in failed if is_worse(suite, outcome)]


def _outcomes(results: list[SuiteResult]) -> dict[tuple[str, str], Outcome]:
    return {(result.suite.name, outcome.expectation.name): outcome for result in results for outcome in result.outcomes}


def _changed_tables(plan: Plan) -> dict[str, Table]:
    return {table.name: table for table in ENTITY_TABLES if plan.changed[table.name]}


def read_rows(spark: SparkSession, suite: Suite) -> DataFrame:
    """Return the rows of a suite's table; bare names are those of the current schema.

    Raises:
        SettingsError: there is no such table, or the query cannot be run.
    """
    try:
        return spark.sql(suite.query) if suite.query else spark.table(suite.table)
    except Exception as error:
        details = str(error).split("\n\nJVM stacktrace")[0].strip()
        raise SettingsError(f"suite {suite.name}: its rows cannot be read: {details}") from error


def _failure_message(suite: Suite, outcome: Outcome) -> str:
    expectation = outcome.expectation
    how = outcome.error or (f"{outcome.unexpected} break it" if outcome.unexpected is not None else f"found {outcome.observed}")
    return f"{suite.name}: {expectation.name}: {how}. {expectation.description}".strip()
