"""The view `base_paths`: a small change has fewer of its rounds, and finds the same."""

from __future__ import annotations

import re

import pytest
from shortform import first_of

from lakehouse.store.views import MOST_BASES, base_paths, most_based, sees


@pytest.mark.parametrize(("based", "seen"), [(0, 1), (1, 2), (2, 4), (3, 4), (4, 8), (63, 64), (64, 128), (5000, 128)])
def test_rounds_that_see_no_more_are_left_out(based, seen):
    fewer = base_paths(seen=sees(based))
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
    first_of(
        [(LINKS, 128), (LINKS, 3), (LINKS, 1), *((links, 128) for links in (LINKS[:6], LINKS[6:9], LINKS[9:], LINKS[4:6]))], 3
    ),
)
def test_fewer_rounds_give_the_same_paths(spark, links, most):
    session = spark.newSession()
    columns = "registryid string, version_xid string, base_version_xid string"
    session.createDataFrame(links, columns).createOrReplaceTempView("base_links")
    every, fewer = (
        session.sql(base_paths(most, seen).split("\nAS\n")[1].rstrip().removesuffix(";")).orderBy("version_xid").collect()
        for seen in (MOST_BASES, sees(len(links)))
    )
    assert len(every) == len(links)
    assert fewer == every


def test_the_registry_with_most_bases_decides_how_far_is_seen(spark):
    columns = "registryid string, xid string, basemessage string"
    rows = [("r", f"v{n}", "base") for n in range(3)] + [("s", "v0", "base"), ("s", "v1", None), ("t", "v0", None)]
    assert most_based(spark.createDataFrame(rows, columns)) == 3
    assert most_based(spark.createDataFrame(rows[-1:], columns)) == 0
