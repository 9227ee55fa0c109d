"""One Spark session for all tests, and a fresh catalog for each test that asks for one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import histories
import pytest
from called import Caller, caller
from pyspark.sql import SparkSession
from soak.sessions import forget, forget_attached, open_quick

from lakehouse.ingest.pipeline import ingest
from lakehouse.ingest.summary import Summary
from lakehouse.settings import Settings, read_settings
from lakehouse.store.deltatables import create_tables
from lakehouse.store.session import resolve_delta_jars

if not hasattr(sys.modules["__main__"], "__file__"):
    sys.modules["__main__"].__file__ = __file__  # a worker of xdist has none, and PySpark would take it for a doctest and exit

collect_ignore = [
    "airflow",
    "asyncapi",
    "bi",
    "clients",
    "cluster",
    "dbt",
    "connect",
    "inspector",
    "kubernetes",
    "matrix",
    "metastore",
    "s3",
    "trino",
    "ui",
]  # in separate environments: see the Makefile


# Half a minute or more each: what is short is left for the end, where the workers wait for each other.
LONGEST = (
    "test_candidates.py", "test_dialects_loaded.py", "test_on_spark.py", "test_catalogrules.py",
    "test_internals.py", "test_validation.py", "test_machine.py", "test_docs.py", "test_ingest.py", "test_doctor.py",
    "test_recipes.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with tests that use Spark come first, and those that take longest before all others: see FromBothEnds."""
    with_spark = {item.path for item in items if "spark" in getattr(item, "fixturenames", ())}
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: (item.path not in with_spark, ranks.get(item.path.name, len(ranks))))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Choose who runs which file."""
    from workers import FromBothEnds

    return FromBothEnds(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(scope="session", autouse=True)
def readmodels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Put the read models of tests into a separate folder, also those of commands that tests run."""
    folder = tmp_path_factory.mktemp("readmodels")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LAKEHOUSE_READMODEL_DIR", str(folder))
        patched.setenv("LAKEHOUSE_PROGRESS_SECONDS", "86400")  # what a command prints does not depend on how long it takes
        yield folder


@pytest.fixture(scope="session", autouse=True)
def delta_jars() -> None:
    """Delta's jars are there before a test runs a command, which would say on standard error that it fetches them."""
    resolve_delta_jars(read_settings())


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = open_quick(tmp_path_factory.mktemp("session"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def empty_warehouse(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A warehouse with all tables and no rows: copied for each test, which is quicker than creating them."""
    folder = tmp_path_factory.mktemp("empty") / "warehouse"
    create_tables(spark, read_settings(warehouse=str(folder)))
    forget(spark, folder)
    return folder


class Catalog:
    """A catalog in its own warehouse, and a folder of documents to load into it."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.documents = folder / "documents"
        self.documents.mkdir()
        self.settings = read_settings(warehouse=str(folder / "warehouse"), check_relations=False)

    def write(self, name: str, document: Any) -> Path:
        path = self.documents / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
        return path

    def ingest(self, *sources: Path, settings: Settings | None = None, **options: Any) -> Summary:
        named = [str(source) for source in sources] or [str(self.documents)]
        return ingest(self.spark, settings or self.settings, named, **options)

    def rows(self, query: str) -> list[Any]:
        return [row[0] if len(row) == 1 else tuple(row) for row in self.spark.sql(query).collect()]


@pytest.fixture
def bare_catalog(spark: SparkSession, tmp_path: Path) -> Iterator[Catalog]:
    """A catalog whose tables are not there yet."""
    forget_attached(spark)  # the one that tests of the module share
    made = Catalog(spark, tmp_path)
    yield made
    forget(spark, Path(made.settings.warehouse))


@pytest.fixture
def catalog(bare_catalog: Catalog, empty_warehouse: Path) -> Catalog:
    """A catalog whose tables are there and empty."""
    shutil.copytree(empty_warehouse, bare_catalog.settings.warehouse)
    return bare_catalog


@pytest.fixture
def samples() -> Path:
    folder = Path(__file__).parents[2] / "shared" / "samples"
    if not folder.is_dir():
        pytest.skip("the published samples are not next to this checkout")
    return folder


@pytest.fixture(scope="session")
def loaded_history(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, Any]]:
    """Three releases of a shop's document in a warehouse, and the rows of all tables after each: copied, never written."""
    made = Catalog(spark, tmp_path_factory.mktemp("history"))
    then = histories.load(made)
    forget(spark, Path(made.settings.warehouse))
    return made.documents.parent, then


@pytest.fixture
def history(bare_catalog: Catalog, loaded_history: tuple[Path, dict[int, Any]]) -> Catalog:
    """A catalog of three releases, to be broken."""
    shutil.copytree(loaded_history[0] / "warehouse", bare_catalog.settings.warehouse)
    return bare_catalog


@pytest.fixture(scope="module")
def past(
    spark: SparkSession, loaded_history: tuple[Path, dict[int, Any]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Catalog]:
    """A catalog of three releases, for the tests of a module that only read it."""
    made = Catalog(spark, tmp_path_factory.mktemp("past"))
    shutil.copytree(loaded_history[0] / "warehouse", made.settings.warehouse)
    yield made
    forget(spark, Path(made.settings.warehouse))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Caller:
    """The command `lakehouse`, called in the process of the test."""
    return caller(monkeypatch, capsys)
