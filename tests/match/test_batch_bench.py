"""The benchmark of `match_batch` measures what it says: each event is matched, and its payload is valid."""

from __future__ import annotations

import pytest

from tests.bench.matchbatch import measure


@pytest.mark.parametrize("mode", ["binary", "structured"])
def test_every_event_is_matched_and_every_payload_is_valid(mode):
    assert measure(types=12, mode=mode, rounds=1, rows=1_000).keys() == {"metadata", "payloads", "bare"}
