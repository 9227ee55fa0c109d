"""What `lakehouse doctor` reports of the environment."""

from __future__ import annotations

import platform

from lakehouse.extras import EXTRAS
from lakehouse.operations.environment import Environment, read_environment

TRIED = Environment("3.11.7", "17.0.1", "4.2.1", "4.4.0", tuple(EXTRAS), ())


def test_what_was_tried_is_not_reported():
    assert TRIED.untried() == []


def test_another_python_and_another_spark_are_reported():
    ((python, _),) = TRIED._replace(python="3.9.1").untried()
    assert python == "Python 3.9.1 was not tried"
    ((spark, fix),) = TRIED._replace(spark="4.3.0").untried()
    assert spark == "Spark 4.3.0 was not tried"
    assert "'pyspark==4.2.*'" in fix


def test_versions_are_looked_up(spark):
    here = read_environment(spark)
    assert (here.python, here.spark) == (platform.python_version(), spark.version)
    assert here.java.split(".")[0] in ("17", "21")
    assert "spark" in here.installed
    assert set(here.installed) | set(here.missing) == set(EXTRAS)
