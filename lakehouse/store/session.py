"""The Spark session: one factory for the command line, the jobs and the tests; and separate sessions for work of our own.

Started by `spark-submit`, or with a session already there, it takes what was given and adds only what is missing, and it
never sets a master. Started as a plain Python process it runs locally, listens on the loopback address only, and keeps
what the JVM writes to standard error in a file that is shown when the start fails.
"""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import as_file
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyspark
from platformdirs import user_cache_path
from pyspark import SparkConf
from pyspark.sql import SparkSession

from lakehouse.errors import JavaNotFound, LakehouseError, SettingsError
from lakehouse.settings import Settings, data_folder
from lakehouse.store.classarchive import find_archive, new_archive, options_to_use, with_spark_jars
from lakehouse.store.internals.guards import LOG_STORE, provide_log_store
from lakehouse.store.internals.jvm import end_session, is_connect, launch_session, name_classes, submitted_conf, uses_internals

JAVA_VERSIONS = (17, 21)
_LOOPBACK = "127.0.0.1"
_CLASS_PATH = "spark.driver.extraClassPath"


def open_session(settings: Settings, app_name: str = "lakehouse") -> SparkSession:
    """Open a Spark session with Delta Lake in which the catalog's tables can be attached.

    Raises:
        SettingsError: SPARK_REMOTE names a Connect server, and there is no session yet.
        JavaNotFound: neither Java 17 nor 21 is there.
        LakehouseError: Delta's jars cannot be resolved, or the JVM does not start.
    """
    # PySpark also logs each failed query as JSON; the error is reported once.
    for logger_name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        logging.getLogger(logger_name).setLevel(logging.CRITICAL)
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if os.environ.get("SPARK_REMOTE"):
        raise SettingsError(
            "SPARK_REMOTE names a Spark Connect server, but this command starts Spark itself: unset it. In Python, "
            "Catalog(spark=session) reads by Spark Connect (docs/python.md)."
        )
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    session = _open_submitted(settings, app_name) if submitted else _open_local(settings, app_name)
    name_classes(session)
    key = log_store_key(settings)
    if key is not None and session.conf.get(key, None) == LOG_STORE:
        provide_log_store(session, Path(urlsplit(scratch_folder()).path))
    return session


def open_beside(spark: SparkSession, settings: Settings) -> SparkSession:
    """Open a second session, next to a notebook's for example, with the settings that the catalog needs.

    They share the engine and the tables. What can only be set when Spark starts is left as it is. Spark Connect joins no rows of
    two sessions, so there the session itself is used, with the settings that it has.

    Raises:
        LakehouseError: the session that is there has no Delta Lake.
    """
    if is_connect(spark):
        return spark
    extensions = str(spark.conf.get("spark.sql.extensions", ""))
    if "DeltaSparkSessionExtension" not in extensions:
        raise LakehouseError(
            "the Spark session has no Delta Lake: build it with delta.configure_spark_with_delta_pip, or with "
            "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
            "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog."
        )
    name_classes(spark)
    session = spark.newSession()
    for key, value in (_packaged_conf() | settings.spark).items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def absolute_location(path: str) -> str:
    """Return a local path as absolute; a URI is returned as it is."""
    return path if re.match(r"\A[A-Za-z][A-Za-z0-9+.\-]*:", path) else str(Path(path).absolute())


@cache
def scratch_folder() -> str:
    """Return the URI of a temporary folder of this process: Spark wants one for each schema, even where nothing is stored."""
    folder = tempfile.mkdtemp(prefix="lakehouse-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder).as_uri()


def log_store_key(settings: Settings) -> str | None:
    """Return the setting of Delta's log store for the warehouse; None: it is not on S3, and Delta's own is right."""
    scheme = re.match(r"\A(s3[an]?)://", settings.warehouse)
    return None if scheme is None else f"spark.delta.logStore.{scheme[1]}.impl"


def find_java() -> str:
    """Find the Java that Spark will start.

    Returns:
        Path of the `java` binary.

    Raises:
        JavaNotFound: there is none, or its version is not 17 or 21.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    how = (
        "Install one, for example `apt-get install openjdk-17-jre-headless` or `brew install openjdk@17`, "
        "and let JAVA_HOME name its folder."
    )
    if java is None:
        where = f"JAVA_HOME={home}" if home else "the PATH"
        raise JavaNotFound(f"Spark needs Java 17 or 21, and {where} has no `java`. {how}")
    version = _java_version(java)
    if version not in JAVA_VERSIONS:
        raise JavaNotFound(f"Spark needs Java 17 or 21, and {java} is version {version or 'unknown'}. {how}")
    return java


def resolve_delta_jars(settings: Settings) -> list[str]:
    """Return the paths of Delta Lake's jars, resolved from Maven at first use, and then from the cache folder.

    Raises:
        SettingsError: `delta_jars` names a folder without Delta's jars.
        LakehouseError: they cannot be resolved.
    """
    if settings.delta_jars:
        jars = sorted(str(path) for path in Path(settings.delta_jars).glob("*.jar"))
        if not any("delta-spark" in jar for jar in jars):
            raise SettingsError(f"delta_jars: {settings.delta_jars} holds no delta-spark jar. docs/operations.md lists the jars.")
        return jars
    module = _delta_module()
    wanted = [f"{name}-{revision}.jar" for name, revision in re.findall(r'name="([^"]+)" rev="([^"]+)"', module)]
    folder = user_cache_path("xregistry-lakehouse") / "jars"
    jars = [str(folder / name) for name in wanted]
    if not all(Path(jar).exists() for jar in jars):
        _download_jars(settings, folder, module)
    return jars


def _delta_module() -> str:
    """Return the Ivy module that lists Delta Lake's jars, those for the Spark of PySpark."""
    module = data_folder("conf").joinpath("delta-jars.xml").read_text(encoding="utf-8")
    return re.sub(r"(?<=delta-spark_)[\d.]+(?=_)", ".".join(pyspark.__version__.split(".")[:2]), module)


def _open_submitted(settings: Settings, app_name: str) -> SparkSession:
    submitted_settings = submitted_conf()
    builder = SparkSession.builder.appName(submitted_settings.get("spark.app.name", app_name))
    wanted = _packaged_conf() | settings.spark
    for key, value in (_warehouse_conf(settings, wanted | submitted_settings) | wanted).items():
        if key not in submitted_settings:
            builder = builder.config(key, value)
    return builder.getOrCreate()


def archive_classes(settings: Settings, work: Callable[[SparkSession], object]) -> Path:
    """Write the archive of Java's classes from which later sessions start (`classarchive`).

    Args:
        settings: those of the later sessions; their class path counts.
        work: what a session does that loads the classes. It is the only session of this process, and ends here.

    Returns:
        The archive, some 200 MB.

    Raises:
        LakehouseError: Java wrote none.
        JavaNotFound: neither Java 17 nor 21 is there.
        OSError: the folder of Delta Lake's jars cannot be written.
    """
    if not uses_internals():
        raise LakehouseError("An archive of Java's classes needs internals of Spark: unset LAKEHOUSE_SPARK_INTERNALS.")
    conf = _local_conf(settings, "lakehouse")
    class_path = with_spark_jars(conf[_CLASS_PATH])
    with new_archive(find_java(), class_path) as (options, put_in_place):
        session = _launch(conf | {_CLASS_PATH: class_path}, options)
        name_classes(session)
        work(session)
        end_session(session)
        return put_in_place()


def _local_conf(settings: Settings, app_name: str) -> dict[str, str]:
    conf = {"spark.app.name": app_name, "spark.driver.memory": "4g", **_packaged_conf(), **settings.spark}
    conf = _warehouse_conf(settings, conf) | conf
    if conf.get("spark.master", "local").startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        os.environ["PYSPARK_PYTHON"] = sys.executable  # or executors start another Python, without our packages
        conf |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    jars = resolve_delta_jars(settings)
    class_path = conf.get(_CLASS_PATH)
    conf[_CLASS_PATH] = os.pathsep.join([*jars, class_path] if class_path else jars)
    if not conf.get("spark.master", "local").startswith("local"):
        conf.setdefault("spark.jars", ",".join(jars))
    return conf


def _open_local(settings: Settings, app_name: str) -> SparkSession:
    conf = _local_conf(settings, app_name)
    class_path = with_spark_jars(conf[_CLASS_PATH])
    archive = find_archive(find_java(), class_path)
    return _launch(conf) if archive is None else _launch(conf | {_CLASS_PATH: class_path}, options_to_use(archive))


def _launch(conf: dict[str, str], options: str = "") -> SparkSession:
    with as_file(data_folder("conf").joinpath("log4j2.properties")) as log4j:
        options = f"-Dlog4j2.configurationFile={log4j.as_uri()} {options} {conf.get('spark.driver.extraJavaOptions', '')}"
        spark_conf = SparkConf(loadDefaults=False)
        spark_conf.setAll(list((conf | {"spark.driver.extraJavaOptions": options.strip()}).items()))
        log = tempfile.NamedTemporaryFile(prefix="lakehouse-", suffix=".log", delete=False)  # noqa: SIM115
        atexit.register(Path(log.name).unlink, missing_ok=True)
        with log:
            try:
                return launch_session(spark_conf, log.file)
            except Exception as error:
                details = Path(log.name).read_text(encoding="utf-8", errors="replace")[-4000:]
                raise LakehouseError(f"Spark did not start: {error}\n{details}") from error


def _packaged_conf() -> dict[str, str]:
    """Read `conf/spark-defaults.conf`, in the format of Spark's own file of that name."""
    text = data_folder("conf").joinpath("spark-defaults.conf").read_text(encoding="utf-8")
    pairs = (line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#"))
    return {key: value.strip() for key, value in pairs}


def _warehouse_conf(settings: Settings, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the conf of Spark's warehouse folder, in which a metastore puts schemas without a location, and of the log on S3.

    Without the folder, Spark would make the folder as soon as it is asked for anything, also by a command that only reads.
    """
    embedded = conf.get("spark.sql.catalogImplementation", "in-memory") == "in-memory"
    folder = {"spark.sql.warehouse.dir": scratch_folder() if embedded else absolute_location(settings.warehouse)}
    key = None if settings.single_writer or not uses_internals() else log_store_key(settings)
    return folder if key is None else folder | {key: LOG_STORE}


def _java_version(java: str) -> int | None:
    """Read the major version from the installation's `release` file, else ask the binary (slower)."""
    release = Path(java).resolve().parent.parent / "release"
    if release.is_file():
        text = release.read_text(encoding="utf-8", errors="replace")
        match = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', text)
    else:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
        match = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(match.group(1)) if match else None


def _download_jars(settings: Settings, folder: Path, module: str) -> None:
    """Resolve the jars of a module with the Ivy that Spark ships, next to the folder, and move them in when all are there."""
    spark_jars = Path(pyspark.__path__[0]) / "jars"
    folder.parent.mkdir(parents=True, exist_ok=True)
    sys.stderr.write("Resolving Delta Lake's jars from Maven (13 MB, once) ...\n")
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        Path(scratch, "delta-jars.xml").write_text(module, encoding="utf-8")
        command = [
            find_java(),
            "-cp",
            str(spark_jars / "*"),
            "org.apache.ivy.Main",
            "-ivy",
            f"{scratch}/delta-jars.xml",
            "-types",
            "jar",
            "-m2compatible",
            "-cache",
            str(Path(scratch) / "cache"),
            "-retrieve",
            f"{scratch}/jars/[artifact]-[revision].[ext]",
            *(["-settings", settings.ivy_settings] if settings.ivy_settings else []),
        ]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
        results = list(Path(scratch, "jars").glob("*.jar"))
        if ran.returncode or not results:
            raise LakehouseError(
                "Delta Lake's jars could not be resolved from Maven. On a machine that does not reach it, put them into a "
                "folder and name it with the setting delta_jars (LAKEHOUSE_DELTA_JARS); docs/operations.md lists them.\n"
                + (ran.stdout + ran.stderr)[-2000:]
            )
        folder.mkdir(exist_ok=True)
        for jar in results:
            jar.replace(folder / jar.name)


# An ingest of three messages, warm: 22 CPU seconds with compiled code, 11 interpreted. Of some rows, a plan is not worth a second
# look while it runs, nor more than one partition, nor the conditions that could be derived.
WITHOUT_CODEGEN = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.constraintPropagation.enabled": "false",
}


def open_sibling(spark: SparkSession, schema: str | None = None) -> SparkSession:
    """Open a new session, in a schema: that of the given session when none is named."""
    remote: Any = spark
    session: SparkSession = remote.cloneSession() if is_connect(spark) else spark.newSession()
    session.catalog.setCurrentDatabase(schema or spark.catalog.currentDatabase())
    for key in WITHOUT_CODEGEN:
        session.conf.set(key, str(spark.conf.get(key)))
    return session


@contextmanager
def without_codegen(spark: SparkSession, wanted: bool) -> Iterator[None]:
    """Interpret the queries of this session, and of sessions that it opens, until the end of the block, if `wanted`."""
    before = {key: str(spark.conf.get(key)) for key in WITHOUT_CODEGEN}
    try:
        for key, value in WITHOUT_CODEGEN.items() if wanted else ():
            spark.conf.set(key, value)
        yield
    finally:
        for key, value in before.items():
            spark.conf.set(key, value)


def is_without_codegen(spark: SparkSession) -> bool:
    """Return whether Spark interprets this session's queries, since its work is small."""
    return all(spark.conf.get(key) == value for key, value in WITHOUT_CODEGEN.items())
