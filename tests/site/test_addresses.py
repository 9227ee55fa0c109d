"""Paths of pages: safe wherever they are put, and read back."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.site.addresses import id_of_path_part, path_of, path_of_comparison, path_part_of, read_path

quick = settings(max_examples=300, deadline=None, derandomize=True, database=None)
texts = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=300)


@quick
@given(texts)
def test_a_name_is_safe_and_is_read_back(text):
    name = path_part_of(text)
    assert re.fullmatch(r"[A-Za-z0-9._~-]{1,120}", name)
    assert not name.startswith(".")
    assert not re.search(r"\.(html|json|txt)\Z", name)
    assert id_of_path_part(name, [text]) == text


@quick
@given(texts, texts)
def test_two_ids_never_share_a_name(one, other):
    assert (path_part_of(one) == path_part_of(other)) == (one == other)


@quick
@given(texts)
def test_only_what_is_written_is_read(name):
    found = id_of_path_part(name, [])
    assert found is None or path_part_of(found) == name


@pytest.mark.parametrize("part", ["", "history", "p2", "compare3~to~5", "comparev1~to~v~7E"])
def test_a_path_is_taken_apart(part):
    address = read_path(path_of("a/b", "/messagegroups/g.html/messages/m~x", part))
    assert address.folder == ("reg-a~2Fb", "messagegroups", "g~2Ehtml")
    assert address.name == "m~7Ex"
    assert address.part + address.of == part


@pytest.mark.parametrize("path", ["", "x", "a/b.exe", "../index", "reg-default"])
def test_what_is_no_path_of_a_page_is_none(path):
    assert read_path(path) is None


@pytest.mark.parametrize("text", ["a" * 128, "é" * 128, "~" * 128, "x" * 72, "x" * 73])
def test_the_longest_ids_make_names_that_file_systems_take(text):
    """An id has up to 128 characters (core, `<SINGULAR>id`), and a comparison names three."""
    token = f"v{path_part_of(text)}"
    path = path_of_comparison(path_of("r", f"/messagegroups/{text}/messages/{text}"), token, f"v{path_part_of(text[:-1] + 'z')}")
    assert max(len(part.encode()) for part in path.split("/")) <= 255 - len(".~new")
    assert id_of_path_part(path_part_of(text), [text]) == text
