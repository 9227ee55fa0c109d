"""`ddl/views/base_paths.sql` is plain SQL, so its seven rounds are written out: each is the first one with other numbers."""

from __future__ import annotations

import re

import pytest

from lakehouse.settings import data_folder

VIEW = (data_folder("ddl") / "views" / "base_paths.sql").read_text(encoding="utf-8")
ROUNDS = re.findall(r"^answers_(\d+) AS \((.*?)^\),\n\npaths_\1 AS \((.*?)^\)", VIEW, re.DOTALL | re.MULTILINE)


def numbered(round_: tuple[str, str, str], seen: int) -> tuple[str, str]:
    """Write the first round for paths that see so far already: it asks those that see as far as that."""
    _, answers, paths = round_
    answers = answers.replace("FROM paths_1\n", f"FROM paths_{seen}\n").replace(
        "size(path) = 1 THEN", f"size(path) = {seen} THEN"
    )
    paths = paths.replace("FROM answers_2\n", f"FROM answers_{2 * seen}\n").replace("size(path) < 1\n", f"size(path) < {seen}\n")
    return answers.replace("path[0]", f"path[{seen - 1}]"), paths


@pytest.mark.parametrize("number", range(1, 7))
def test_each_round_is_the_first_one_with_its_numbers(number):
    assert ROUNDS[number][0] == str(2 ** (number + 1))
    assert ROUNDS[number][1:] == numbered(ROUNDS[0], 2**number)


def test_seven_rounds_see_as_far_as_chains_are_followed():
    assert len(ROUNDS) == 7
    assert "128 AS max_depth" in VIEW
    assert ROUNDS[-1][0] == "128"
    assert "size(path) = 128 OR" in VIEW
