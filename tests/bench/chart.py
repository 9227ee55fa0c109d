"""The ratios as a chart: one bar a case, with its goal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
from matplotlib import pyplot as plt  # the backend is chosen before

from tests.bench.pairs import Case

_MET, _MISSED, _WITHOUT_GOAL = "#4c956c", "#d1495b", "#8d99ae"


def draw_chart(cases: Sequence[Case], title: str, target: Path) -> None:
    """Draw how many times its floor each case takes, on a logarithmic axis."""
    figure, axes = plt.subplots(figsize=(10, 0.5 * len(cases) + 1.5), layout="constrained")
    names = [f"{case.what}\n/ {case.floor}" for case in cases]
    bars = axes.barh(names, [case.ratio for case in cases], color=[_colour(case) for case in cases], height=0.6)
    axes.bar_label(bars, [f"{case.ratio:.2f}" for case in cases], padding=4, fontsize=8)
    for index, case in enumerate(cases):
        if case.goal is not None:
            axes.plot([case.goal, case.goal], [index - 0.4, index + 0.4], color="black", linewidth=2)
    axes.set_xscale("log")
    axes.axvline(1, color="grey", linewidth=0.8, linestyle=":")
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlabel("times the floor; black marks: goals")
    axes.set_title(title, fontsize=10)
    figure.savefig(target, dpi=110)
    plt.close(figure)


def _colour(case: Case) -> str:
    if case.goal is None:
        return _WITHOUT_GOAL
    return _MET if case.ratio <= case.goal else _MISSED
