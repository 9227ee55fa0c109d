"""The default Version: one choice for documents and requests, and one text that says so, in Python and as a column."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from pyspark.sql import functions as F

from lakehouse.domain.versions import DefaultChoice, choose_default, with_isdefault
from lakehouse.log.owners import with_isdefault as column_with_isdefault
from lakehouse.text.jsontext import canonical, decoded
from lakehouse.text.names import JsonText

VALUES: list[Any] = [
    None, True, 1, "", 'a"isdefault":true,b', "\\", '\\"', "}{", "[", {"isdefault": True}, {"isdefault": False},
    [{"isdefault": True}],
    {'x"isdefault': True}, {'"isdefault"': {"isdefault": [False]}}, "\u2028é", 2**70, {"a": [{"b": {"isdefault": True}}]},
]  # fmt: skip

NAMES = ["a", "dataschema", "isdefaults", "z", 'q"', 'x"isdefault', "labels"]


@pytest.mark.parametrize(
    ("named", "chosen"),
    [
        ([None, None], DefaultChoice("3")),
        (["2", "1"], DefaultChoice("2")),
        ([None, "1"], DefaultChoice("1")),
        (["9", "1"], DefaultChoice("1", ("9",))),
        (["9", None, "8"], DefaultChoice("3", ("9", "8"))), ([], DefaultChoice("3")),
    ],
)  # fmt: skip
def test_the_first_that_is_named_and_exists_is_the_default_else_the_newest(named, chosen):
    assert choose_default(named, {"1", "2", "3"}, "3") == chosen


def test_without_versions_there_is_no_default():
    assert choose_default(["1"], (), None) == DefaultChoice(None, ("1",))


def bodies(count: int) -> list[tuple[JsonText, bool]]:
    """Make up normal forms of Versions with their `isdefault`: the word occurs in names, texts and values, too."""
    choose = random.Random(7)
    found = []
    for _ in range(count):
        isdefault = choose.random() < 0.5
        known = {name: choose.choice(VALUES) for name in choose.sample(NAMES, 4)}
        found.append((decoded(canonical(known | {"isdefault": isdefault})), isdefault))
    return found


def test_a_text_says_which_version_is_the_default():
    for body, isdefault in bodies(500):
        assert with_isdefault(body, isdefault) == body
        other = with_isdefault(body, not isdefault)
        assert json.loads(other) == json.loads(body) | {"isdefault": not isdefault}
        assert other == decoded(canonical(json.loads(body) | {"isdefault": not isdefault}))
        assert with_isdefault(other, isdefault) == body


def test_a_column_writes_the_same_text(spark):
    wanted = [(body, flag) for body, _ in bodies(300) for flag in (True, False)]
    frame = spark.createDataFrame(wanted, "body STRING, flag BOOLEAN")
    rows = frame.withColumn("written", column_with_isdefault(F.col("body"), F.col("flag"))).collect()
    assert [row["written"] for row in rows] == [with_isdefault(row["body"], row["flag"]) for row in rows]
    assert len(rows) == len(wanted)
