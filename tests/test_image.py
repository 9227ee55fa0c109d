"""What the container image installs: files that are known by their hashes, in versions that pyproject.toml allows."""

from __future__ import annotations

import json
import re
from importlib.metadata import metadata, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
CI = ROOT / ".ci"
DOCKERFILE = ROOT / "Dockerfile"
HASHED = ["constraints-build.txt", "constraints-image.txt"]


def pins(text: str) -> dict[str, str]:
    """Read the exact versions that a Python 3.11 on Linux gets, by the names of packages."""
    lines = [Requirement(line.split(" --hash")[0].rstrip(" \\")) for line in re.findall(r"(?m)^[A-Za-z0-9].*", text)]
    here = {"python_version": "3.11", "python_full_version": "3.11.0", "sys_platform": "linux", "os_name": "posix"}
    fits = [line for line in lines if line.marker is None or line.marker.evaluate(here)]
    return {canonicalize_name(line.name): str(line.specifier).removeprefix("==") for line in fits}


def declared() -> dict[str, SpecifierSet]:
    """Read the ranges of pyproject.toml, of all extras, that a Python 3.11 on Linux gets."""
    here = {"python_version": "3.11", "sys_platform": "linux", "extra": "all"}
    lines = [Requirement(line) for line in requires("xregistry-lakehouse") or ()]
    return {canonicalize_name(line.name): line.specifier for line in lines if line.marker is None or line.marker.evaluate(here)}


@pytest.mark.parametrize("name", HASHED)
def test_every_file_is_known_by_its_hash(name):
    reported = (CI / name).read_text().replace("\\\n", " ").splitlines()
    assert len(reported) >= 3
    assert [
        line for line in reported if not re.fullmatch(r"[a-z0-9-]+==\S+( +; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+\s*", line)
    ] == []


def test_versions_are_those_that_are_tested():
    every, image = (pins((CI / name).read_text()) for name in ("constraints.txt", "constraints-image.txt"))
    assert image.items() <= every.items()
    assert {"pyspark", "delta-spark", "uvicorn"} <= image.keys()


def test_ranges_hold_the_exact_versions():
    every = pins((CI / "constraints.txt").read_text())
    assert {name: every.get(name) for name, allowed in declared().items() if every.get(name) not in allowed} == {}


def test_the_image_installs_nothing_else():
    text = DOCKERFILE.read_text()
    installs = [line for line in text.replace("\\\n", " ").split("&&") for line in re.findall(r"pip install .*", line)]
    assert len(installs) == 2
    assert all("--require-hashes" in one for one in installs)
    copied = re.findall(r"\.ci/([\w.-]+)", " ".join(line for line in text.splitlines() if line.startswith("COPY")))
    assert sorted(copied) == HASHED
    assert "!.ci/constraints-*.txt" in (ROOT / ".dockerignore").read_text().splitlines()
    for name in ("Dockerfile", ".ci/pin", *(f".ci/{one}" for one in HASHED)):
        assert not re.search(r"index-url|https?://(?!127\.0\.0\.1)", (ROOT / name).read_text()), name
    assert re.search(r"(?m)^ARG BASE=\S+\nFROM \$\{BASE\}$", text)


def test_extras_of_the_image_exist():
    extras = set(metadata("xregistry-lakehouse").get_all("Provides-Extra") or ())
    (default,) = re.findall(r"(?m)^ARG EXTRAS=(\S+)$", DOCKERFILE.read_text())
    assert set(default.split(",")) <= extras


def test_the_image_opens_nothing_to_everybody():
    """Another user than root, a server that wants users, and a check of its health, where it is reached without one."""
    lines = DOCKERFILE.read_text().splitlines()
    (command,) = (json.loads(line.removeprefix("CMD ")) for line in lines if line.startswith("CMD "))
    assert command[0] == "serve"
    assert "--users" in command
    assert "--allow-anonymous" not in command
    assert [line for line in lines if line.startswith("USER ")] == ["USER 10001"]
    (port,) = (line.removeprefix("EXPOSE ") for line in lines if line.startswith("EXPOSE "))
    assert len([line for line in lines if f"127.0.0.1:{port}/health" in line]) == 1
