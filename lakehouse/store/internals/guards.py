"""What is put into Spark's own work: checks of statements, its SQL server, what its JVM prints.

There is no other way for the first two in Python: without internals they are refused, since a statement must not run unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakehouse.store.internals.jvm import java_class, require_classic, require_internals, uses_internals

_guards: dict[int, tuple[Any, Any]] = {}  # by the JVM's session catalog: check and parser, which are injected once for each


def guard_new_sessions(spark: SparkSession, allowed: int, reading: bool, settings: str, fixed: Mapping[str, str]) -> None:
    """Allow sessions that are opened from now on, by anyone, to run only what is allowed.

    Args:
        spark: the session whose siblings they are.
        allowed: what the class ReadOnly calls so.
        reading: set settings back that its client must not have (the class OwnSettings).
        settings: regular expression for the names of those that a client may have.
        fixed: settings that stay as they are.

    Raises:
        SettingsError: internals are turned off.
    """
    require_internals("The check of a statement before it runs")
    require_classic(spark, "The check of a statement before it runs")
    session: Any = spark
    extensions = session._jsparkSession.extensions()
    key = extensions.hashCode()
    if key not in _guards:
        fixed_settings = session.sparkContext._gateway.jvm.java.util.HashMap(dict(fixed))
        check = _made(spark, "ReadOnly", settings)
        parser = _made(spark, "OwnSettings", settings, fixed_settings)
        extensions.injectCheckRule(check)
        extensions.injectParser(parser)
        _guards[key] = check, parser
    check, parser = _guards[key]
    check.allow(allowed)
    parser.want(reading)


def make_state(session: SparkSession) -> None:
    """Build the state of a new session now, with the current check."""
    classic: Any = session
    classic._jsparkSession.sessionState()


def compile_class(spark: SparkSession, source: str, name: str) -> Any:
    """Compile a Java class of this package by the compiler that Spark ships, let the thread's loader find it, and return it.

    Args:
        spark: the session.
        source: file in this package.
        name: full name of the class.
    """
    loader = _compiled(spark, source).getClassLoader()
    java_class(spark._jvm, "java.lang.Thread").currentThread().setContextClassLoader(loader)
    return loader.loadClass(name)


def _compiled(spark: SparkSession, source: str) -> Any:
    """Return the compiler that has compiled a file of this package."""
    compiler = java_class(spark._jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(java_class(spark._jvm, "java.lang.Thread").currentThread().getContextClassLoader())
    compiler.cook(files("lakehouse.store.internals").joinpath(source).read_text(encoding="utf-8"))
    return compiler


LOG_STORE = "xregistry.ConditionalLogStore"


def provide_log_store(spark: SparkSession, folder: Path) -> None:
    """Compile the log store that commits to S3 by conditional puts, where all threads and executors of Spark find it.

    Args:
        spark: a session whose settings may name the class already; nothing was read from S3 yet.
        folder: for the jar, as long as the process lives.
    """
    session: Any = spark
    classes = _compiled(spark, "ConditionalLogStore.java").getBytecodes()
    jar = folder / "log-store.jar"
    with ZipFile(jar, "w") as file:
        for name in classes:
            file.writestr(f"{name.replace('.', '/')}.class", bytes(classes[name]))
    loader = java_class(session._jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    loader.addURL(java_class(session._jvm, "java.net.URL")(jar.as_uri()))  # that of spark-submit, which all threads inherit
    session._jsparkSession.sparkContext().addJar(str(jar))


def lets_writers_in(spark: SparkSession, location: str) -> str | None:
    """Return why the store of a folder does not keep writers apart, tried with a small object; None: it does."""
    session: Any = spark
    settings = session._jsparkSession.sessionState().newHadoopConf()
    try:
        return None if java_class(session._jvm, LOG_STORE).excludes(location, settings) else "the store ignores If-None-Match"
    except Py4JJavaError as error:
        return f"a put with If-None-Match failed ({error.java_exception.getMessage()})"


def set_property(spark: SparkSession, key: str, value: str) -> None:
    """Set a property of the JVM: some parts of Spark read their settings from nowhere else."""
    java_class(spark._jvm, "java.lang.System").setProperty(key, value)


def start_sql_server(spark: SparkSession) -> Any:
    """Start Spark's SQL server on a session, and return it; its method `stop` ends it.

    Raises:
        SettingsError: internals are turned off.
    """
    require_internals("The SQL server")
    require_classic(spark, "The SQL server")
    session: Any = spark
    server = java_class(session._jvm, "org.apache.spark.sql.hive.thriftserver.HiveThriftServer2")
    return server.startWithSparkSession(session._jsparkSession, False)


def print_to_errors(spark: SparkSession) -> None:
    """Redirect what Spark and Delta print to standard error; without internals it stays on standard output."""
    if uses_internals(spark):
        system = java_class(spark._jvm, "java.lang.System")
        system.setOut(system.err)


def _made(spark: SparkSession, name: str, *values: Any) -> Any:
    """Make an object of a Java class of this package by its first constructor."""
    return compile_class(spark, f"{name}.java", f"xregistry.{name}").getConstructors()[0].newInstance(_objects(spark, *values))


def _objects(spark: SparkSession, *values: Any) -> Any:
    gateway: Any = spark.sparkContext._gateway
    result = gateway.new_array(gateway.jvm.java.lang.Object, len(values))
    for index, value in enumerate(values):
        result[index] = value
    return result
