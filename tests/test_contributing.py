"""CONTRIBUTING.md and the `__init__` of each package are the map of the code: what they name exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from test_architecture import PACKAGES

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
ABOVE = ("", "lakehouse", "lakehouse/dialects/data", "lakehouse/rules/data", "lakehouse/site", "tests/dialects")
PATHS = sorted(set(re.findall(r"`([\w./]+(?:\.(?:py|csv|sql|md)|/))`", TEXT)))
NAMED = sorted(set(re.findall(r"`(\w+)`s? (?:in|of) `([\w./]+\.py)`", TEXT)))


def found(path: str) -> list[Path]:
    """Return the files that a path may mean: below the checkout, the package, or the folder of the tables."""
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


GLOSSARY = re.findall(r"(?m)^\| (.*?) \|", TEXT[TEXT.index("## Glossary") : TEXT.index("## Package layout")])
TERMS = [term for cell in GLOSSARY if cell != "word" for term in cell.split(", ")]
MOST_TERMS = 40  # more, and nobody reads them
LEAST_LINES = 10  # of code that use a term


def test_the_glossary_is_short():
    assert "effective definition" in TERMS
    assert sorted(TERMS) == sorted(set(TERMS))
    assert len(TERMS) <= MOST_TERMS


def test_the_code_uses_each_term_of_the_glossary():
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "lakehouse").rglob("*.py"))
    counts = {term: len(re.findall(rf"(?i){term.replace(' ', '[ _]?')}", code)) for term in TERMS}
    assert {term: count for term, count in counts.items() if count < LEAST_LINES} == {}


LAYOUT = re.findall(r"^    (\w+)  +(.*(?:\n {19}.*)*)", TEXT[TEXT.index("## Package layout") :], re.MULTILINE)


@pytest.mark.parametrize(("package", "reported"), LAYOUT)
def test_the_layout_names_parts_that_exist(package, reported):
    parts = re.findall(r"(?<![\w/])(\w+(?:/|\.py))(?![\w*])", reported.replace("ddl/", "").replace("data/*.csv", ""))
    assert [part for part in parts if not (ROOT / "lakehouse" / package / part).exists()] == []


def test_the_layout_has_the_order_in_which_packages_import():
    assert [package for package, _ in LAYOUT] == PACKAGES


@pytest.mark.parametrize(
    "package", sorted({path.parent for path in (ROOT / "lakehouse").rglob("__init__.py")}), ids=lambda path: path.name
)
def test_modules_that_a_package_names_exist(package):
    """A word in backticks alone is a module or folder of the package, or a name that one of its modules has."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    names = set(re.findall(r"`([a-z]+)`", docstring))
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in package.rglob("*")
        if path.suffix in (".py", ".json") and path.name != "__init__.py"
    )
    modules = {path.stem for path in package.iterdir()}
    assert [name for name in sorted(names - modules) if not re.search(rf"\b{name}\b", text)] == []
