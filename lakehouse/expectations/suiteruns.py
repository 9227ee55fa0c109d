"""Running suites of expectations with Great Expectations, and what came out: counts and pages, never values of documents.

The suite `specification` has one expectation a rule over one row of counts, run by the pandas engine: its time does not depend on
the size of the catalog. Suites of tables run in Spark. Great Expectations takes a second to import, so it is imported when it is
first needed, or ahead of that in a thread (`warm_up`).
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timezone
from importlib.metadata import version
from typing import Any, NamedTuple, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined
from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import SettingsError
from lakehouse.expectations.suites import SPECIFICATION, Expectation, Suite
from lakehouse.rules.declared import SEVERITIES
from lakehouse.rules.findings import Count
from lakehouse.settings import Settings
from lakehouse.store.files import remove_folder, write_text
from lakehouse.store.session import absolute_location
from lakehouse.version import VERSION

logger = logging.getLogger(__name__)

_NO_VALUES = {"result_format": "BASIC", "partial_unexpected_count": 0}


class RuleExpectation(Protocol):
    """What the suite `specification` takes from the declaration of a rule."""

    @property
    def id(self) -> str:
        """Id of the requirement."""

    @property
    def severity(self) -> str:
        """One of 'error', 'warning' and 'info'."""

    @property
    def table(self) -> str:
        """Table that the rule is about."""

    @property
    def text(self) -> str:
        """Return what the rule requires."""

    @property
    def hint(self) -> str:
        """How to fix what breaks it."""

    @property
    def section(self) -> str:
        """Section of the specification."""


class Outcome(NamedTuple):
    """What came out for one expectation.

    Attributes:
        expectation: the expectation.
        success: it holds.
        unexpected: rows or findings that break it; None where it is not about rows.
        observed: a number or a time that was observed instead, as text; empty when there is none.
        error: why it could not be checked; empty when it could. May hold names and values: never shown on a page.
    """

    expectation: Expectation
    success: bool
    unexpected: int | None
    observed: str
    error: str


class SuiteResult(NamedTuple):
    """What came out for a suite."""

    suite: Suite
    outcomes: tuple[Outcome, ...]

    def failed(self, *severities: str) -> list[Outcome]:
        """Return the expectations that failed, of some severities or of all."""
        chosen = severities or SEVERITIES
        return [outcome for outcome in self.outcomes if not outcome.success and outcome.expectation.severity in chosen]

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of failed expectations by severity."""
        return {severity: len(self.failed(severity)) for severity in SEVERITIES}


def warm_up() -> None:
    """Import Great Expectations in a thread, while Spark is at work."""
    threading.Thread(target=_great_expectations, name="great-expectations", daemon=True).start()


def specification(rules: Iterable[RuleExpectation], counts: Iterable[Count]) -> Suite:
    """Make the suite of the rules: none has a finding.

    A finding of another severity than its rule's, or of no known rule, has its own expectation: nothing is left out.
    """
    declared = {(rule.id, rule.severity): _rule_expectation(rule) for rule in rules}
    texts = {expectation.name: expectation.description for expectation in declared.values()}
    for count in counts:
        if (count.rule_id, count.severity) not in declared:
            name = f"{count.rule_id} ({count.severity})" if count.rule_id in texts else count.rule_id
            text = texts.get(count.rule_id, "A finding of a rule that this version does not list")
            config = _no_findings(_column(count))
            meta = {"requirement": count.rule_id}
            declared[count.rule_id, count.severity] = Expectation(name, count.severity, text, True, config, meta)
    return Suite(SPECIFICATION, "", None, tuple(declared.values()))


def validate_counts(suite: Suite, counts: Iterable[Count]) -> SuiteResult:
    """Run the suite `specification` over one row of counts; a rule without a finding has none."""
    row = dict.fromkeys((expectation.config["kwargs"]["column"] for expectation in suite.expectations), 0)
    row |= {_column(count): count.n for count in counts if _column(count) in row}
    result = _validate(suite, importlib.import_module("pandas").DataFrame([row]), "pandas")
    return result._replace(
        outcomes=tuple(outcome._replace(unexpected=int(row[_column_of(outcome)])) for outcome in result.outcomes)
    )


def validate_rows(suite: Suite, rows: DataFrame) -> SuiteResult:
    """Run a suite over the rows of its table or query, in Spark.

    Raises:
        SettingsError: an expectation is none that Great Expectations knows, or its arguments are wrong.
    """
    try:
        return _validate(suite, rows, "spark")
    finally:
        rows.sparkSession.catalog.dropTempView("tmp_view")  # the name under which queries of Great Expectations read the rows


def check_expectations(suite: Suite) -> None:
    """Check that Great Expectations accepts a suite.

    Raises:
        SettingsError: an expectation is none that it knows, or its arguments are wrong.
    """
    with _silence():
        _build(_great_expectations(), suite)


def _rule_expectation(rule: RuleExpectation) -> Expectation:
    meta = {"requirement": rule.id, "table": rule.table, "section": rule.section, "hint": rule.hint}
    config = _no_findings(f"{rule.id} {rule.severity}")
    return Expectation(rule.id, rule.severity, rule.text, rule.severity == "error", config, meta)


def _no_findings(column: str) -> dict[str, Any]:
    return {"type": "expect_column_max_to_be_between", "kwargs": {"column": column, "max_value": 0}}


def _column(count: Count) -> str:
    return f"{count.rule_id} {count.severity}"


def _column_of(outcome: Outcome) -> str:
    return str(outcome.expectation.config["kwargs"]["column"])


def _validate(suite: Suite, rows: Any, engine: str) -> SuiteResult:
    if not suite.expectations:
        return SuiteResult(suite, ())
    gx = _great_expectations()
    with _silence():
        built = _build(gx, suite)
        context = gx.get_context(mode="ephemeral")
        context.enable_analytics(False)
        context.variables.progress_bars = {"globally": False, "metric_calculations": False}
        sources = context.data_sources
        source: Any = sources.add_pandas(suite.name) if engine == "pandas" else sources.add_spark(suite.name, persist=False)
        if engine == "spark":  # else queries run in the session that was opened first, where other tables may have their names
            source.get_execution_engine().spark = rows.sparkSession
        batch = source.add_dataframe_asset(suite.name).add_batch_definition_whole_dataframe("all").get_batch({"dataframe": rows})
        done = batch.validate(built, result_format=_NO_VALUES)
    by_name = {result.expectation_config.meta["name"]: result for result in done.results}
    return SuiteResult(suite, tuple(_outcome(expectation, by_name[expectation.name]) for expectation in suite.expectations))


def _build(gx: Any, suite: Suite) -> Any:
    # One by one: the constructor of a suite leaves out what it does not know, with a line in the log.
    configuration = importlib.import_module("great_expectations.expectations.expectation_configuration")
    expectations = []
    for expectation in suite.expectations:
        meta = {
            "name": expectation.name,
            "severity": expectation.severity,
            "description": expectation.description,
            **expectation.meta,
        }
        try:
            config = configuration.ExpectationConfiguration(**expectation.config, meta=meta)
            expectations.append(config.to_domain_obj())
        except Exception as error:
            details = " ".join(str(error).split())
            raise SettingsError(f"suite {suite.name}: expectation {expectation.name} cannot be understood: {details}") from error
    return gx.ExpectationSuite(name=suite.name, expectations=expectations)


def _outcome(expectation: Expectation, done: Any) -> Outcome:
    """Take from a result what is a count or a time; all else may hold values of documents."""
    result: dict[str, Any] = done.result or {}
    unexpected, observed = result.get("unexpected_count"), result.get("observed_value")
    if expectation.config["type"] == "unexpected_rows_expectation":
        unexpected = observed
    is_shown = isinstance(observed, int | float | date) and not isinstance(observed, bool)
    details = observed.isoformat(" ", "seconds") if isinstance(observed, datetime) else str(observed)
    number = int(unexpected) if isinstance(unexpected, int | float) else None
    return Outcome(expectation, bool(done.success), number, details if is_shown else "", _raised(done.exception_info or {}))


def _raised(info: dict[str, Any]) -> str:
    """Return the first error message, which is at the top or below the id of a metric."""
    details = [part for part in (info, *info.values()) if isinstance(part, dict) and part.get("raised_exception")]
    return str(details[0].get("exception_message") or "it raised an error").strip() if details else ""


def _great_expectations() -> Any:
    # Without a handler Python would print its warnings to standard error.
    logging.getLogger("great_expectations").addHandler(logging.NullHandler())
    return importlib.import_module("great_expectations")


@contextlib.contextmanager
def _silence() -> Any:
    """Keep from standard output what Great Expectations prints there."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        yield
    if printed.getvalue():
        logger.debug("great_expectations: %s", json.dumps(printed.getvalue()))


FOLDER = "_data_docs"


@dataclass(frozen=True)
class About:
    """What is at the foot of each page.

    Attributes:
        what: what was validated, such as 'Snapshot 12'.
        counts: expectations that do not hold, by severity.
    """

    what: str
    counts: dict[str, int]
    at: str = ""
    product: str = ""
    engine: str = ""


def write_pages(spark: SparkSession, settings: Settings, what: str, results: Iterable[SuiteResult], folder: str = FOLDER) -> str:
    """Write the pages below the warehouse, over those of the run before.

    Args:
        spark: the session.
        settings: the warehouse: a local folder, or anything that Spark's Hadoop filesystems write.
        what: what was validated, such as 'Snapshot 12'.
        results: what came out for each suite.
        folder: folder below the warehouse.

    Returns:
        Location of the first page.
    """
    location = f"{absolute_location(settings.warehouse)}/{folder}"
    pages = render_pages(what, list(results), datetime.now(timezone.utc))
    remove_folder(spark, f"{location}/suites")
    for name, text in pages.items():
        write_text(spark, f"{location}/{name}", text, checksums=False)
    return f"{location}/index.html"


def render_pages(what: str, results: list[SuiteResult], at: datetime) -> dict[str, str]:
    """Render the pages.

    Returns:
        The text of each page by its path.
    """
    counts = {severity: sum(result.counts[severity] for result in results) for severity in SEVERITIES}
    details = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    about = About(what, counts, details, VERSION, version("great-expectations"))
    pages = Environment(
        loader=PackageLoader("lakehouse.expectations", "pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    common = {"about": about, "severities": SEVERITIES}
    rendered = {"index.html": pages.get_template("index.html").render(common, results=results)}
    for result in results:
        passed = [outcome for outcome in result.outcomes if outcome.success]
        page = pages.get_template("suite.html").render(common, result=result, failed=_worst_first(result), passed=passed)
        rendered[f"suites/{result.suite.name}.html"] = page
    return rendered


def _worst_first(result: SuiteResult) -> list[Outcome]:
    return [outcome for severity in SEVERITIES for outcome in result.failed(severity)]
