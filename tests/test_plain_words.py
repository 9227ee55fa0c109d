"""What users and contributors read is in plain words.

Checked are commands, rules, findings, pages, columns, settings and docs, and docstrings and comments, also those of tests.
"""

from __future__ import annotations

import ast
import csv
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click
import pytest
from called import all_commands

from lakehouse.cli.main import cli

ROOT = Path(__file__).parents[1]

# A word in the sense that hides a meaning; others are fine: "stands for" (an abbreviation), "interface"; SQL has a column `told`.
WORDS = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"\b(tells?|telling|told)\b",
        r"\bmend(s|ed|ing)?\b",
        r"\banew\b",
        r"\bbeside\b",
        r"\basked of\b",
        r"\blets? go\b",
        r"\bstands?\b(?! for\b| in for\b|-ins?\b)",
        r"\bcomes? out of\b",
        r"\bof (its|their) own\b",
        r"\bwhat (is there|there is)\b",
        r"\bon and on\b",
        r"\bhouse\b",
        r"\b(a|the|its|each) face\b",
        r"\bwhich (is|are) not there\b",
    )
]

# Names in code that say nothing to who does not know it already; the glossary in CONTRIBUTING.md has those to use.
VAGUE = {
    "one",
    "known",
    "held",
    "kept",
    "given",
    "holder",
    "asked",
    "around",
    "compared",
    "leaves",
    "others",
    "ours",
    "said",
    "settle",
    "theirs",
    "there",
    "things",
    "way",
    "ways",
}


class Line(NamedTuple):
    """A line that a user reads, and where it is."""

    file: str
    number: int
    text: str


def test_the_words_find_what_they_mean_and_nothing_else():
    wrong = ["`show` tells more.", "It is mended.", "Made anew.", "beside it", "it stands in the body", "a folder of its own"]
    right = ["It stands for AMQP.", "an interface", "besides", "its own folder", "recommended", "households", "amendments"]
    assert [text for text in wrong if not any(word.search(text) for word in WORDS)] == []
    assert [text for text in right if any(word.search(text) for word in WORDS)] == []


def commands() -> Iterator[Line]:
    """Return the help of every command."""
    for path, command in list(all_commands())[1:]:
        name = " ".join(("lakehouse", *path))
        text = command.get_help(click.Context(command, info_name=name, **cli.context_settings))
        yield from (Line(f"{name} --help", number, line) for number, line in enumerate(text.splitlines(), 1))


def rows_of(path: str, columns: tuple[str, ...]) -> Iterator[Line]:
    """Return cells of a table of the package."""
    with (ROOT / path).open(encoding="utf-8", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), 2):
            yield from (Line(path, number, row[column] or "") for column in columns)


def templates() -> Iterator[Line]:
    """Return the text of templates, without tags and expressions."""
    for path in sorted((ROOT / "lakehouse").rglob("*.html")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield Line(named(path), number, re.sub(r"\{\{.*?\}\}|\{%.*?%\}|\{#.*?#\}|<(?!code)[^>]*>", " ", line))


def columns() -> Iterator[Line]:
    """Return the comments of tables, views and columns."""
    for path in sorted((ROOT / "ddl").rglob("*.sql")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            is_head = line.startswith("-- ") and number <= 2
            texts = [line] if is_head else re.findall(r"COMMENT '((?:[^'\\]|\\.)*)'", line)
            yield from (Line(named(path), number, text) for text in texts)


def settings() -> Iterator[Line]:
    """Return the comments of the settings."""
    for path in sorted((ROOT / "conf").glob("*.toml")):
        lines = enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        yield from (Line(named(path), number, line) for number, line in lines if line.startswith("#"))


def messages() -> Iterator[Line]:
    """Return the texts of findings, errors and answers: strings of code that hold words, docstrings apart."""
    for path in sorted((ROOT / "lakehouse").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
                is_code = "CREATE TABLE" in node.value or re.search(r"\b(told|stands)\b( TEXT| ?=|,)", node.value, re.I)
                if " " in node.value.strip() and not is_code:
                    yield Line(named(path), node.lineno, node.value)


MOOD = re.compile(r"\A\W*(Gives?|Tells?|Look whether)\b")


def programs() -> Iterator[Path]:
    """Yield the modules of the product, its jobs and its DAGs."""
    for folder in ("lakehouse", "jobs", "airflow_dags"):
        yield from sorted((ROOT / folder).rglob("*.py"))


def explained() -> Iterator[Path]:
    """Yield the modules whose docstrings and comments are checked: those of `programs`, and the tests."""
    yield from programs()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if "node_modules" not in path.relative_to(ROOT).parts:
            yield path


@cache
def explanations() -> list[Line]:
    """Return the docstrings and comments of the product and of its tests, without code and names of arguments."""
    found = []
    for path in explained():
        with path.open("rb") as file:
            for token in tokenize.tokenize(file.readline):
                is_doc = token.type == tokenize.STRING and token.string.startswith('"""') and "CREATE TABLE" not in token.string
                if is_doc or token.type == tokenize.COMMENT:
                    for number, line in enumerate(token.string.splitlines(), token.start[0]):
                        found.append(Line(named(path), number, re.sub(r"`[^`]*`|^ +\w+:", "`code`", line)))
    return found


def test_a_docstring_begins_with_a_usual_verb():
    assert [
        f"{line.file}:{line.number}: {line.text}" for line in explanations() if '"""' in line.text and MOOD.match(line.text)
    ] == []


def dags() -> Iterator[Line]:
    """Return the programs for Airflow whole: it shows their docstrings, and users change them."""
    for path in sorted((ROOT / "airflow_dags").glob("*.py")):
        yield from (
            Line(named(path), number, line) for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        )


def pages() -> list[Path]:
    """Return the pages that users read."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def prose(path: Path) -> list[Line]:
    """Return the lines of a page outside of code; code in a line is left out too."""
    found, is_code = [], False
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("    "):
            found.append(Line(named(path), number, re.sub(r"`[^`]*`|^\| \w+ \|", "`code`", line)))  # first cells are names
    return found


def named(path: Path) -> str:
    """Return the path of a file in the checkout."""
    return path.relative_to(ROOT).as_posix()


def found_in(lines: Iterator[Line] | list[Line]) -> list[str]:
    """Return the lines that hold one of the words, with their places."""
    return [f"{one.file}:{one.number}: {one.text.strip()}" for one in lines if any(word.search(one.text) for word in WORDS)]


def names_in(path: Path) -> Iterator[Line]:
    """Return the names that a module gives: variables, parameters, attributes, functions and classes."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for name in (
            getattr(node, "id", None),
            getattr(node, "arg", None),
            getattr(node, "attr", None),
            getattr(node, "name", None),
        ):
            if isinstance(name, str):
                yield Line(named(path), getattr(node, "lineno", 0), name)


def test_names_in_code_are_words_of_the_field():
    names = [name for path in programs() for name in names_in(path)]
    assert len(names) > 100_000
    assert [f"{name.file}:{name.number}: {name.text}" for name in names if name.text.strip("_").lower() in VAGUE] == []


def test_the_help_of_every_command():
    assert found_in(commands()) == []


@pytest.mark.parametrize(
    ("table", "names"),
    [
        ("rules/data/rules.csv", ("text", "hint")),
        ("dialects/data/dialect_rules.csv", ("message", "hint")),
    ],
)
def test_rules_and_their_hints(table, names):
    assert found_in(rows_of(f"lakehouse/{table}", names)) == []


@pytest.mark.parametrize(
    "source", [templates, columns, settings, messages, dags, explanations], ids=lambda source: source.__name__
)
def test_texts_of_the_product(source):
    assert found_in(source()) == []


@pytest.mark.parametrize("path", pages(), ids=named)
def test_a_page_of_the_docs(path):
    assert found_in(prose(path)) == []
