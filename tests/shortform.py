"""The short form of a test with many cases: the first ones always, the others where `slow` tests run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_of(cases: Iterable[Any], count: int) -> list[Any]:
    """Return the parameters of a test, those after the first `count` marked as slow; a case of several values is a tuple."""
    listed = list(cases)
    return [*listed[:count], *(_slow(case) for case in listed[count:])]


def _slow(case: Any) -> Any:
    values, marks = (case.values, case.marks) if hasattr(case, "marks") else (case if type(case) is tuple else (case,), ())
    return pytest.param(*values, marks=[*marks, pytest.mark.slow])
