"""Starts the JVM with its standard error in a file; in its place PySpark's own builder, which leaves it on this process's."""

from __future__ import annotations

from typing import IO

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from lakehouse.store.internals.switch import uses_internals


def given_conf() -> dict[str, str]:
    """Return the settings that `spark-submit` gave; without internals Spark is started by that, so it has these alone."""
    if not uses_internals():
        return dict(SparkContext.getOrCreate().getConf().getAll())
    SparkContext._ensure_initialized()
    return dict(SparkConf().getAll())


def launch_session(conf: SparkConf, log: IO[bytes]) -> SparkSession:
    """Start Spark with a configuration, and return its session.

    Args:
        conf: all of it.
        log: takes what the JVM writes to standard error.

    Raises:
        Exception: it did not start.
    """
    if not uses_internals():
        return SparkSession.builder.config(conf=conf).getOrCreate()
    gateway = launch_gateway(conf=conf, popen_kwargs={"stderr": log})  # type: ignore[no-untyped-call]
    return SparkSession(SparkContext(gateway=gateway, conf=conf))
