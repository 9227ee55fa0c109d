"""The spellings of a document's URI."""

from __future__ import annotations

import pytest

from lakehouse.text.documentnames import documents_of


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_all_spellings_of_a_path_find_the_document(here):
    stored = f"file:{here}/docs/a b.json"
    others = [f"file:{here}/docs/other.json", "file:/elsewhere/docs/a b.json", "s3a://bucket/docs/a b.json"]
    for text in (
        stored,
        f"{here}/docs/a b.json",
        f"{here}/docs/../docs//a b.json",
        "./docs/a b.json",
        "docs/a b.json",
        f"file://{here}/docs/a b.json",
        (here / "docs" / "a b.json").as_uri(),
        f"file://localhost{here}/docs/a%20b.json",
    ):
        assert documents_of(text, [stored, *others]) == [stored], text


def test_the_end_of_a_uri_finds_all_that_end_so(here):
    known = ["file:/x/docs/a.json", "s3a://bucket/docs/a.json", "https://host/docs/ba.json"]
    assert documents_of("a.json", known) == known[:2]
    assert documents_of("./docs/a.json", known) == known[:2]
    assert documents_of("s3://bucket/docs/a.json", known) == known[1:2]
    for text in ("/docs/a.json", "b/a.json", "a", "", "."):
        assert documents_of(text, known) == []
