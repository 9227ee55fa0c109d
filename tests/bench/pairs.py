"""What is measured: a case and its floor, in alternating pairs; the least that Spark does for the same end is the floor."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from pyspark.sql import DataFrame
from rich.console import Console

progress = Console(stderr=True)


@dataclass
class Case:
    """What was measured of one case; one number for each repetition.

    Attributes:
        floor: what the floor does.
        goal: how many times the floor it shall take at most; None: no goal.
    """

    what: str
    floor: str = ""
    goal: float | None = None
    seconds: list[float] = field(default_factory=list)
    floor_seconds: list[float] = field(default_factory=list)
    stages: list[dict[str, float]] = field(default_factory=list)
    catalog_rows: list[int] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Return how many times the floor it takes, of medians."""
        return median(self.seconds) / median(self.floor_seconds)

    def measure(self, product: Callable[[], object], floor: Callable[[], object]) -> None:
        """Measure one pair; what is second in it is first in the next one."""
        pair = [(product, self.seconds), (floor, self.floor_seconds)]
        for action, into in pair if len(self.seconds) % 2 else reversed(pair):
            begun = time.perf_counter()
            action()
            into.append(round(time.perf_counter() - begun, 3))
        progress.log(f"{self.what}: {self.seconds[-1]:.2f} s, floor {self.floor_seconds[-1]:.2f} s")

    def as_json(self) -> dict[str, Any]:
        """Return the case as one JSON value."""
        numbers = {"median": median(self.seconds), "floor_median": median(self.floor_seconds), "ratio": self.ratio}
        return {**vars(self), **{name: round(number, 3) for name, number in numbers.items()}}

    def median_stages(self) -> dict[str, float]:
        """Return the median seconds of each stage."""
        return {name: median(stages[name] for stages in self.stages) for name in (self.stages[0] if self.stages else ())}


def to_nowhere(rows: DataFrame) -> None:
    """Compute all columns of all rows and drop them."""
    rows.write.format("noop").mode("overwrite").save()


def spread(numbers: list[float]) -> str:
    """Write a median, and the smallest and largest when there are several."""
    if len(numbers) == 1:
        return f"{numbers[0]:.2f}"
    return f"{median(numbers):.2f} ({min(numbers):.2f} to {max(numbers):.2f})"
