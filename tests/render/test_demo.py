"""The events that the demo matches are rendered from its documents."""

from __future__ import annotations

from render.demo_landed import LANDED, lines


def test_the_landed_events_are_current():
    reported = "run `PYTHONPATH=tests python tests/render/demo_landed.py`"
    assert LANDED.read_text(encoding="utf-8").splitlines() == lines(), reported
