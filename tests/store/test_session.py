"""The session factory: Java, jars, what is set and what is left alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakehouse.errors import JavaNotFound, SettingsError
from lakehouse.settings import data_folder, read_settings
from lakehouse.store.session import absolute_location, find_java, resolve_delta_jars


def fake_java(folder, version):
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text("#!/bin/sh\n")
    (folder / "bin" / "java").chmod(0o755)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    return str(folder)


@pytest.mark.parametrize("version", ["17.0.9", "21.0.1"])
def test_java_17_and_21_are_taken(tmp_path, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path / "jdk", version))
    assert find_java().startswith(str(tmp_path))


@pytest.mark.parametrize("version", ["1.8.0_372", "11.0.2", "25"])
def test_another_java_is_refused_with_its_version(tmp_path, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", fake_java(tmp_path / "jdk", version))
    with pytest.raises(JavaNotFound, match="17 or 21"):
        find_java()


def test_no_java_at_all(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(JavaNotFound, match="Install one"):
        find_java()


def test_delta_s_jars_are_those_for_the_spark_of_pyspark(tmp_path, monkeypatch):
    monkeypatch.setattr("lakehouse.store.session.user_cache_path", lambda _: tmp_path)
    monkeypatch.setattr("lakehouse.store.session.pyspark.__version__", "4.1.4")
    resolved = []
    monkeypatch.setattr("lakehouse.store.session._download_jars", lambda settings, folder, module: resolved.append(module))
    names = [Path(jar).name for jar in resolve_delta_jars(read_settings())]
    assert "delta-spark_4.1_2.13-4.4.0.jar" in names
    assert 'name="delta-spark_4.1_2.13"' in resolved[0]


def test_an_air_gapped_machine_names_a_folder_of_jars(tmp_path):
    (tmp_path / "delta-spark_x.jar").touch()
    assert resolve_delta_jars(read_settings(delta_jars=str(tmp_path))) == [str(tmp_path / "delta-spark_x.jar")]
    with pytest.raises(SettingsError, match="holds no delta-spark jar"):
        resolve_delta_jars(read_settings(delta_jars=str(tmp_path / "empty")))


def test_the_session_has_the_settings_of_the_packaged_file(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.cteRecursionRowLimit") == "-1"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"  # given by the test's settings, which win
    assert spark.sparkContext.getConf().get("spark.driver.host") == "127.0.0.1"
    assert spark.conf.get("spark.python.sql.dataFrameDebugging.enabled") == "false"
    flags = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    assert {"-XX:+UseParallelGC", "-XX:Tier4InvocationThreshold=100000"} <= set(flags)


def test_driver_and_executors_start_java_alike_however_they_are_started():
    named = ("spark-defaults.conf", "spark-local.conf", "spark-cluster.conf")
    lines = [line for name in named for line in (data_folder("conf") / name).read_text().splitlines()]
    options = [line.split(None, 1) for line in lines if ".extraJavaOptions" in line and not line.startswith("#")]
    assert [key.split(".")[1] for key, _ in options] == ["driver", "executor", "driver", "driver"]
    assert len({value for _, value in options}) == 1


def test_local_paths_become_absolute_and_uris_stay(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert absolute_location("w") == str(tmp_path / "w")
    assert absolute_location("s3a://bucket/w") == "s3a://bucket/w"
