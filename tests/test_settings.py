"""Settings: where they come from, and what is refused."""

from __future__ import annotations

from functools import partial

import pytest

from lakehouse.errors import SettingsError
from lakehouse.match.conformance import create_conformance
from lakehouse.settings import read_settings
from lakehouse.store.deltatables import check_writers


def test_command_line_over_environment_over_file_over_default(tmp_path, monkeypatch):
    file = tmp_path / "conf.toml"
    file.write_text('warehouse = "of-file"\nregistry = "of-file"\nmax_json_depth = 10\n')
    monkeypatch.setenv("LAKEHOUSE_WAREHOUSE", "of-environment")
    monkeypatch.setenv("LAKEHOUSE_REGISTRY", "of-environment")
    settings = read_settings(str(file), warehouse="of-command-line")
    assert (settings.warehouse, settings.registry, settings.max_json_depth) == ("of-command-line", "of-environment", 10)
    assert settings.commit_attempts == 8


def test_the_environment_names_the_file(tmp_path, monkeypatch):
    (tmp_path / "conf.toml").write_text("commit_attempts = 3")
    monkeypatch.setenv("LAKEHOUSE_CONF", str(tmp_path / "conf.toml"))
    assert read_settings().commit_attempts == 3


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("max_jsn_depth = 3", "max_jsn_depth"),
        ("max_json_depth = 0", "greater than 0"),
        ("warehouse = 5", "string"),
        ("= 5", "not TOML"),
    ],
)
def test_a_wrong_file_is_reported(tmp_path, text, reported):
    (tmp_path / "conf.toml").write_text(text)
    with pytest.raises(SettingsError, match=reported):
        read_settings(str(tmp_path / "conf.toml"))


def test_a_missing_file_is_reported():
    with pytest.raises(SettingsError, match=r"nowhere\.toml"):
        read_settings("nowhere.toml")


@pytest.mark.parametrize(
    ("warehouse", "given", "refused"),
    [
        ("/w", {}, False),
        ("gs://b/w", {}, False),
        ("s3a://b/w", {}, True),
        ("s3://b/w", {}, True),
        ("s3a://b/w", {"single_writer": True}, False),
    ],
)
def test_on_s3_somebody_must_say_that_one_process_writes(warehouse, given, refused):
    class Conf:
        def get(self, key, default):
            return default

    class Session:
        conf = Conf()

    settings = read_settings(warehouse=warehouse, **given)
    if refused:
        for begins in (check_writers, partial(create_conformance, name="results")):
            with pytest.raises(SettingsError, match="single_writer"):
                begins(Session(), settings)
    else:
        check_writers(Session(), settings)
    Conf.get = lambda self, key, default: "a.log.Store" if key == "spark.delta.logStore.s3a.impl" else default
    check_writers(Session(), read_settings(warehouse="s3a://b/w"))
