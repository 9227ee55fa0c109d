"""What the container image installs: files that are known by their hashes, in the versions of pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CI = ROOT / ".ci"
HASHED = ["constraints-build.txt", "constraints-image.txt"]


def pins(text: str) -> dict[str, str]:
    """Read exact versions by the names of packages, as PyPI spells these."""
    found = re.findall(r'(?m)^\s*"?([A-Za-z0-9][\w.-]*)==([^\s";]+)', text)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in found}


def declared(*sections: str) -> dict[str, str]:
    """Read the pins of pyproject.toml that a Python 3.11 on Linux gets."""
    text = (ROOT / "pyproject.toml").read_text()
    found: dict[str, str] = {}
    for section in sections:
        (inside,) = re.findall(rf"(?ms)^{section} = \[(.*?)\]$", text)
        found |= pins("\n".join(line for line in inside.splitlines() if "python_version < '3.11'" not in line))
    return found


@pytest.mark.parametrize("name", HASHED)
def test_every_file_is_known_by_its_hash(name):
    told = (CI / name).read_text().replace("\\\n", " ").splitlines()
    assert len(told) >= 3
    assert [
        line for line in told if not re.fullmatch(r"[a-z0-9-]+==\S+( +; [^#]+?)?( +--hash=sha256:[0-9a-f]{64})+\s*", line)
    ] == []


def test_versions_are_those_that_are_tested():
    every, image = (pins((CI / name).read_text()) for name in ("constraints.txt", "constraints-image.txt"))
    assert declared("dependencies", "serve").items() <= image.items() <= every.items()
    assert declared("dependencies", "lineage", "match", "serve", "replicate", "dev").items() <= every.items()


def test_the_image_installs_nothing_else():
    told = (ROOT / "Dockerfile").read_text()
    installs = [line for line in told.replace("\\\n", " ").split("&&") for line in re.findall(r"pip install .*", line)]
    assert len(installs) == 3
    assert all("--require-hashes" in one or ("--no-index" in one and "--no-deps" in one) for one in installs)
    copied = re.findall(r"\.ci/([\w.-]+)", " ".join(line for line in told.splitlines() if line.startswith("COPY")))
    assert sorted(copied) == HASHED
    assert "!.ci/constraints-*.txt" in (ROOT / ".dockerignore").read_text().splitlines()
    for name in ("Dockerfile", ".ci/pin", *(f".ci/{one}" for one in HASHED)):
        assert not re.search(r"index-url|https?://", (ROOT / name).read_text()), name
    assert re.search(r"(?m)^ARG BASE=\S+\nFROM \$\{BASE\}$", told)
