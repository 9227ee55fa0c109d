"""Templates: what placeholders take, hold and write, in a time that follows the length of the text."""

from __future__ import annotations

import re
import time

import pytest
from builders import law
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.match.definition.templates import compile_template, has_placeholder

TEXT = st.text(alphabet="ab-/.", max_size=12)


@pytest.mark.parametrize(
    ("template", "text", "held"),
    [
        ("{x}", "https://a.example/feed?q=1", ("https://a.example/feed?q=1",)),
        ("{x}", "", None),
        ("a/{x}/b", "a/1/b", ("1",)),
        ("a/{x}/b", "a/1/2/b", None),
        ("a/{x}/b", "a//b", None),
        ("a/{x}", "a/é\n", ("é\n",)),
        ("{x}-{y}", "1-2-3", ("1-2", "3")),
        ("{9}T00:00:00Z", "2026-01-01T00:00:00Z", ("2026-01-01",)),
        ("{a b}/{x}", "{a b}/1", ("1",)),
        ("{}/{x}", "{}/1", ("1",)),
        ("{x}{y}", "ab", None),
    ],
)
def test_what_a_template_holds(template, text, held):
    assert compile_template(template).match(text) == held


def test_rules_of_placeholders():
    assert compile_template("{x}", rule="segment").match("a/b") is None
    assert compile_template("a/{x}", rule="any").match("a/b/c") == ("b/c",)
    assert compile_template("a.{x}", ".").match("a.b.c") is None
    assert compile_template("a.{x}", ".").match("a.b/c") == ("b/c",)


def test_a_near_miss_is_explained():
    assert compile_template("v/{geohash}/x").explain("v/6/0/x") == "{geohash} would have to hold /"
    assert compile_template("v/{a}").explain("v") == "1 segments, declared 2"
    assert "adjacent" in compile_template("{a}{b}").explain("ab")


def test_names_do_not_count_in_the_shape():
    assert compile_template("a/{mmsi}").shape == compile_template("a/{UserID}").shape
    assert compile_template("a/{}").shape != compile_template("a/{x}").shape or not has_placeholder("a/{}")


@law
@given(st.lists(st.sampled_from(["{p}", "{q}", "a", "-", "/", "b"]), max_size=6).map("".join), TEXT, st.sampled_from("/."))
def test_a_regular_expression_agrees(template, text, separator):
    if "}{" in template or not has_placeholder(template):
        return
    alone = re.fullmatch(r"\{\w+\}", template)
    hole = r"([\s\S]+)" if alone else f"([^{re.escape(separator)}]+)"
    parts = re.split(r"\{\w+\}", template)
    found = re.fullmatch(hole.join(re.escape(part) for part in parts), text)
    assert compile_template(template, separator).match(text) == (found and found.groups())


@law
@given(st.sampled_from(["{p}", "a/{p}", "{p}-{q}", "{p}/x/{q}", "{p}/{p}"]), TEXT, TEXT)
def test_what_is_written_comes_back_or_is_refused(template, one, other):
    made = compile_template(template)
    values = {"p": one, "q": other}
    try:
        text = made.fill(values)
    except ValueError:
        return
    assert made.match(text) == tuple(values[name] for name in made.names)


@pytest.mark.parametrize("template", ["{a}-{b}-{c}-{d}-{e}-{f}!", "{a}--{b}--{c}!", "{a}-{a}-{a}-{a}"])
def test_no_text_takes_long(template):
    made = compile_template(template, rule="any")
    begun = time.process_time()
    for text in ("-" * 10_000, "a" * 10_000, "-a" * 5_000):
        made.match(text)
    assert time.process_time() - begun < 10
