from __future__ import annotations

import pytest
from requirement_coverage import EXPLAINED, missing, named, requirements


def test_every_requirement_on_dialects_is_named_by_a_test_or_explained():
    if not requirements():
        pytest.skip("the table of requirements is not there")
    assert [row["id"] for row in missing()] == []


def test_what_is_explained_is_asked_for_and_not_tested():
    if not requirements():
        pytest.skip("the table of requirements is not there")
    assert EXPLAINED.keys() <= {row["id"] for row in requirements()}
    assert sorted(EXPLAINED.keys() & named()) == []
