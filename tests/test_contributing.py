"""CONTRIBUTING.md is the map of the house: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ABOVE = ("", "lakehouse", "lakehouse/dialects/data", "lakehouse/rules/data", "lakehouse/site", "tests/dialects")
PATHS = sorted(set(re.findall(r"`([\w./]+(?:\.(?:py|csv|sql|md)|/))`", TEXT)))
NAMED = sorted(set(re.findall(r"`(\w+)`s? (?:in|of) `([\w./]+\.py)`", TEXT)))


def found(path: str) -> list[Path]:
    """Give the files that a path may mean: below the checkout, the package, or the folder of the tables."""
    return [ROOT / folder / path for folder in ABOVE if (ROOT / folder / path).exists()]


@pytest.mark.parametrize("path", PATHS)
def test_every_path_leads_somewhere(path):
    assert found(path)


@pytest.mark.parametrize(("name", "path"), NAMED)
def test_every_name_stands_in_its_file(name, path):
    assert any(re.search(rf"\b{name}\b", file.read_text(encoding="utf-8")) for file in found(path))


def test_names_and_paths_are_read():
    assert ("default_version", "ingest/parse/document.py") in NAMED
    assert "ddl/views/" in PATHS
