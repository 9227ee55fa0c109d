"""What is reported for a value with placeholders."""

from __future__ import annotations

import re

import pytest
from builders import law
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.text.values import is_whole, template_problem


@pytest.mark.parametrize("text", ["", "/x/y", "/x/{a}", "{a}{b_2}", "{A}-{0}"])
def test_a_level_1_template_has_no_problem(text):
    assert template_problem(text) is None


@pytest.mark.parametrize(
    ("text", "rule_id", "named"),
    [
        ("/a/{b", "MSG-226", "without its partner"),
        ("a}b{", "MSG-226", "without its partner"),
        ("{{x}", "MSG-226", "without its partner"),
        ("/a/{group-id}/{b}", "MSG-227", "'{group-id}'"),
        ("{}", "MSG-227", "'{}'"),
        ("{a:b}", "MSG-227", "'{a:b}'"),
        *((f"/x/{{a}}/{expression}", "MSG-220", repr(expression))
          for expression in ("{+path}", "{#f}", "{?q}", "{&q}", "{;p}", "{/seg}", "{.ext}", "{x,y}", "{x*}", "{x:3}", "{|x}")),
    ],
)  # fmt: skip
def test_the_rule_that_a_template_breaks_is_reported(text, rule_id, named):
    reported, why = template_problem(text)
    assert reported == rule_id
    assert named in why


@law
@given(st.text(alphabet="{}ab0_+:,*- ", max_size=12))
def test_every_text_is_answered(text):
    problem = template_problem(text)
    left = re.sub(r"\{[ab0_]+\}", "", text)
    assert (problem is None) == ("{" not in left and "}" not in left)


@pytest.mark.parametrize(
    ("text", "is_one"), [("0", True), ("9" * 4300, True), ("1" * 4301, False), ("²", False), ("٣", False), ("", False)]
)
def test_a_whole_number_is_what_python_reads_of_ascii_digits(text, is_one):
    assert is_whole(text) is is_one
    assert not is_one or int(text) >= 0
