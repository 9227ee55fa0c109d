"""The archive of Java's classes: which one fits, what is replaced, and that Java starts from it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lakehouse.errors import LakehouseError
from lakehouse.settings import read_settings
from lakehouse.store.classarchive import find_archive, new_archive, options_to_use, with_spark_jars
from lakehouse.store.session import find_java, resolve_delta_jars


@pytest.fixture
def places(tmp_path) -> tuple[str, str, Path]:
    """A Java, a class path, and the folder of archives."""
    java, jars = tmp_path / "jdk" / "bin" / "java", tmp_path / "jars"
    java.parent.mkdir(parents=True)
    java.touch()
    (tmp_path / "jdk" / "release").write_text('JAVA_VERSION="17.0.1"')
    jars.mkdir()
    for name in ("a.jar", "b.jar"):
        (jars / name).write_bytes(b"jar")
    return str(java), os.pathsep.join(str(jars / name) for name in ("a.jar", "b.jar")), jars


def archive(java: str, class_path: str, content: bytes = b"classes") -> Path:
    """Write what Java would."""
    with new_archive(java, class_path) as (options, put_in_place):
        written = re.search('-XX:ArchiveClassesAtExit=([^"]+)', options)
        assert written
        Path(written[1]).write_bytes(content)
        return put_in_place()


def test_an_archive_is_found_by_java_and_class_path(places):
    java, class_path, jars = places
    assert find_archive(java, class_path) is None
    path = archive(java, class_path)
    assert find_archive(java, class_path) == path
    assert path.parent == jars
    assert str(path) in options_to_use(path)
    assert find_archive(java, class_path.split(os.pathsep)[0]) is None


@pytest.mark.parametrize("changed", ["jdk/release", "jars/a.jar"])
def test_another_java_or_jar_has_another_archive(places, tmp_path, changed):
    java, class_path, _ = places
    archive(java, class_path)
    (tmp_path / changed).write_text("another one, of another size")
    assert find_archive(java, class_path) is None


def test_an_archive_that_is_cut_off_is_not_used(places):
    java, class_path, _ = places
    path = archive(java, class_path)
    path.write_bytes(b"cla")
    assert find_archive(java, class_path) is None


def test_a_new_archive_replaces_its_predecessor_and_the_oldest_others(places, tmp_path):
    java, class_path, jars = places
    older = [jars / f"classes-{name * 16}-1.jsa" for name in "abcd"]
    for age, path in enumerate(older):
        path.write_bytes(b"1")
        os.utime(path, (1000 - age, 1000 - age))
    archive(java, class_path)
    path = archive(java, class_path, b"more classes")
    assert sorted(jars.glob("*.jsa")) == sorted([path, *older[:3]])
    assert [file for file in jars.iterdir() if file.is_dir()] == []


def test_a_java_that_writes_none_is_an_error(places):
    java, class_path, jars = places
    with new_archive(java, class_path) as (_, put_in_place), pytest.raises(LakehouseError, match="wrote no archive"):
        put_in_place()
    assert list(jars.glob("classes*")) == []


def test_spark_s_jars_are_on_the_class_path_by_name(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)
    names = with_spark_jars("first.jar").split(os.pathsep)
    assert names[0] == "first.jar"
    assert len(names) > 200
    assert names[1:] == sorted(names[1:])


def test_another_spark_has_its_jars_on_the_class_path(monkeypatch, tmp_path):
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert with_spark_jars("first.jar") == os.pathsep.join(["first.jar", str(tmp_path / "jars" / "spark-core.jar")])


@pytest.mark.slow
def test_java_starts_from_the_archive(tmp_path):
    """A folder with a blank in its name; a folder of settings on the class path. Standard output has the result alone."""
    jars = tmp_path / "the jars"
    jars.mkdir()
    for jar in resolve_delta_jars(read_settings()):
        (jars / Path(jar).name).write_bytes(Path(jar).read_bytes())
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "core-site.xml").write_text("<configuration/>")
    log = tmp_path / "classes.log"
    (tmp_path / "lakehouse.toml").write_text(f'[spark]\n"spark.driver.extraJavaOptions" = "-Xlog:class+load:file={log}"\n')
    environment = os.environ | {"LAKEHOUSE_DELTA_JARS": str(jars), "SPARK_CONF_DIR": str(tmp_path / "conf")}

    def run(*arguments: str) -> str:
        command = [sys.executable, "-m", "lakehouse", "--conf", str(tmp_path / "lakehouse.toml"), *arguments]
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr[-3000:]
        return ran.stdout

    prepared = json.loads(run("prepare", "--json"))
    path = Path(prepared["archive"])
    assert path.parent == jars
    assert path.stat().st_size == prepared["bytes"] > 100_000_000
    (tmp_path / "a.json").write_text('{"messagegroups": {"g": {}}}')
    assert run("ingest", "a.json", "--json", "--warehouse", str(tmp_path / "warehouse")).count("\n") == 1
    loaded = log.read_text()
    assert loaded.count("source: shared objects file (top)") > 10_000
    # Java archives no classes of a jar in a folder with a blank, so Delta's are read from their jar here.
    assert re.search(r"org\.apache\.spark\.sql\.catalyst\.\S+ source: shared objects file \(top\)", loaded)
    assert find_archive(find_java(), with_spark_jars(os.pathsep.join(sorted(map(str, jars.glob("*.jar")))))) == path
