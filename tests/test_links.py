"""Pages of docs/, README and CONTRIBUTING: links lead somewhere, no page is an orphan, each begins and ends as readers expect."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import median
from urllib.parse import unquote

import click
import pytest

from lakehouse.cli.main import cli

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *DOCS,
    *DECISIONS,
    ROOT / "expectations" / "README.md",
    ROOT / "ddl" / "migrations" / "README.md",
]
_CODE = re.compile(r"^( *)(```|~~~).*?^\1\2\s*$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


@cache
def prose(page: Path) -> str:
    """Return the text of a page without its blocks of code."""
    return _CODE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as forges and the site make them."""
    headings = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", one) for one in _HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}


def links(page: Path) -> list[str]:
    """Return the relative links of a page."""
    return [one for one in _LINK.findall(_SPAN.sub("", prose(page))) if not re.match(r"[a-z]+:", one)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading(page):
    for link in links(page):
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name}: {link} leads to no file"
        if anchor:
            assert anchor in anchors(target), f"{page.name}: {link} leads to no heading of {target.name}"


@pytest.mark.parametrize(
    "page", [one for one in PAGES if one.name != "CHANGELOG.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_what_a_page_names_of_the_package_exists(page):
    for path in re.findall(r"`((?:lakehouse|tests|ddl|conf|expectations|jobs|docs)/[\w./-]+)`", prose(page)):
        assert (ROOT / path).exists(), f"{page.name}: there is no {path}"
    for module, name in re.findall(r"\b(lakehouse(?:\.[a-z]\w*)+)\.(\w+)[`(]", prose(page)):
        try:
            found = hasattr(import_module(module), name)
        except ModuleNotFoundError:
            found = False
        assert found, f"{page.name}: there is no {module}.{name}"


def test_every_page_is_in_the_list_of_pages_and_in_the_navigation_of_the_site():
    listed = {link.partition("#")[0] for link in links(ROOT / "docs" / "index.md")} | {"index.md"}
    navigation = re.findall(
        r": (?:decisions/)?([\w-]+\.md)$", (ROOT / ".ci" / "docs" / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE
    )
    assert {page.name for page in DOCS} - listed == set()
    assert sorted(navigation) == sorted(page.name for page in [*DOCS, *DECISIONS])


def test_a_decision_has_a_date_a_status_and_what_else_was_possible():
    numbers = []
    for page in DECISIONS:
        text = prose(page)
        assert (
            re.search(r"^Status: (accepted|closed|replaced by .+), (\d{4}-\d\d-\d\d)\.$", text, re.MULTILINE)[2] == page.name[:10]
        )
        if "Status: closed" not in text:
            assert re.findall("^## (.+)$", text, re.MULTILINE)[:3] == ["Context", "Decision", "Alternatives"]
        numbers += map(int, re.findall(r"^(\d+)\. ", text, re.MULTILINE))
    assert sorted(numbers) == list(range(1, len(numbers) + 1)), "the code refers to decisions by number"
    assert [page.name for page in DECISIONS if f"(decisions/{page.name})" not in prose(ROOT / "docs" / "decisions.md")] == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_every_page_ends_with_what_to_read_next(page):
    last = prose(page).strip().split("\n\n")[-1].strip()
    assert last.startswith("Next: ")
    assert _LINK.search(last)


def sentences(page: Path) -> list[str]:
    """Return the sentences of a page: paragraphs and items of lists, without tables, headings and indented code."""
    lines = (
        "" if line.startswith(("|", "#", "!", "    ")) else re.sub(r"^ *([-*]|\d+\.) ", "\n\n", line)
        for line in prose(page).split("\n")
    )
    blocks = (" ".join(one.split()) for one in re.split(r"\n\s*\n", "\n".join(lines)))
    parts = (part for block in blocks for part in re.split(r"(?<=[.?!:])\**\s+(?=[A-Z`*\[(])", block))
    return [part for part in parts if len(part.split()) > 2]


@pytest.mark.parametrize("page", [*DOCS, *DECISIONS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_a_page_begins_with_what_it_is_for_in_short_sentences(page):
    heading, first = prose(page).split("\n\n")[:2]
    assert heading.startswith("# ")
    assert re.match(r"[A-Z`*]", first.strip()), f"{page.name} does not begin with a sentence"
    words = [len(one.split()) for one in sentences(page)]
    assert median(words) <= 25, f"{page.name}: half of the sentences have more than 25 words"
    assert [one for one in sentences(page) if len(one.split()) > 45] == []


def test_the_readme_names_every_command_and_no_other():
    section = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Commands")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    assert sorted(name for line in table for name in re.findall(r"`([\w-]+)`", line)) == cli.list_commands(click.Context(cli))


def test_the_line_that_the_readme_edits_requires_a_region():
    demo = (ROOT / "lakehouse" / "cli" / "demo" / "orders.xreg.json").read_text(encoding="utf-8").splitlines()
    assert "sed '28s/true/false/' lakehouse/cli/demo/orders.xreg.json" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert demo[24].strip() == '"region": {'
    assert demo[27].strip() == '"required": true,'
