"""Data Docs: what came out of the suites as HTML pages under the warehouse, for people.

Written from the results of Great Expectations by templates of our own, `pages/`. Its own pages load styles, scripts and pictures
from other hosts, write values unescaped, and have one section per rule; these work without network, run no script, hold counts
and no value of a document, and everything in them is escaped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import version

from jinja2 import Environment, PackageLoader, StrictUndefined
from pyspark.sql import SparkSession

from lakehouse.expectations.suiteruns import Outcome, SuiteResult
from lakehouse.rules.declared import SEVERITIES
from lakehouse.settings import Settings
from lakehouse.store.files import remove_folder, write_text
from lakehouse.store.session import absolute_location
from lakehouse.version import VERSION

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
    told = at.strftime("%Y-%m-%d %H:%M:%S UTC")
    about = About(what, counts, told, VERSION, version("great-expectations"))
    pages = Environment(
        loader=PackageLoader("lakehouse.expectations", "pages"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    common = {"about": about, "severities": SEVERITIES}
    rendered = {"index.html": pages.get_template("index.html").render(common, results=results)}
    for result in results:
        held = [one for one in result.outcomes if one.success]
        page = pages.get_template("suite.html").render(common, result=result, failed=_worst_first(result), held=held)
        rendered[f"suites/{result.suite.name}.html"] = page
    return rendered


def _worst_first(result: SuiteResult) -> list[Outcome]:
    return [one for severity in SEVERITIES for one in result.failed(severity)]
