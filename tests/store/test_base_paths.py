"""`ddl/views/base_paths.sql` is plain SQL, so its seven rounds are written out: each is the first one with other numbers."""

from __future__ import annotations

import re

import pytest

from lakehouse.settings import data_folder
from lakehouse.store.rounds import with_depth, with_rounds

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


@pytest.mark.parametrize(("based", "seen"), [(0, 1), (1, 2), (2, 4), (3, 4), (4, 8), (63, 64), (64, 128), (5000, 128)])
def test_rounds_that_see_no_more_are_left_out(based, seen):
    fewer = with_rounds(VIEW, based)
    assert [int(number) for number in re.findall(r"^answers_(\d+) AS", fewer, re.MULTILINE)] == [
        2**n for n in range(1, seen.bit_length())
    ]
    assert f"FROM paths_{seen}\n)\n\nSELECT" in fewer
    assert f"size(path) = {seen} OR" in fewer
    assert "128 AS max_depth" in fewer


# Chains of so many Versions, and one that ends in a cycle of two.
LINKS = [
    ("r", f"v{n}", None if n == 5 else f"v{n + 1}") for n in range(6)
] + [("r", "w", "x"), ("r", "x", "y"), ("r", "y", "x"), ("r", "z", "z")]  # fmt: skip


@pytest.mark.parametrize(
    ("links", "most"),
    [*((links, 128) for links in (LINKS[:6], LINKS[6:9], LINKS[9:], LINKS, LINKS[4:6])), (LINKS, 1), (LINKS, 3)],
)
def test_fewer_rounds_give_the_same_paths(spark, links, most):
    session = spark.newSession()
    columns = "registryid string, version_xid string, base_version_xid string"
    session.createDataFrame(links, columns).createOrReplaceTempView("base_links")
    query = with_depth(re.split(r"^AS\n", VIEW.rstrip().removesuffix(";"), flags=re.MULTILINE)[1], most)
    every = session.sql(query).orderBy("version_xid").collect()
    assert len(every) == len(links)
    assert session.sql(with_rounds(query, len(links))).orderBy("version_xid").collect() == every
