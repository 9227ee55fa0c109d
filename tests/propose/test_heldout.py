"""Proposals from messages of real senders match what was not observed, and are what was published."""

from __future__ import annotations

import pytest

from propose.heldout import EVENTS, measure, messages, totals

pytestmark = pytest.mark.skipif(not EVENTS.is_file(), reason="the published samples are not next to this checkout")


@pytest.fixture(scope="module")
def halves():
    sent = messages()
    return [measure(sent, odd) for odd in (False, True)]


def test_messages_that_were_not_observed_match_and_those_of_other_types_do_not(halves):
    for half in halves:
        assert half.matched >= 0.99 * half.tested > 200, half.missed
        assert half.confused <= 0.02 * half.foreign


def test_proposals_are_what_was_published(halves):
    scores = totals(halves)["all"]
    # Half of the declared protocols sent nothing, and no member that all of a few messages had shows that it is optional.
    assert min(scores[name].precision for name in ("attributes", "values", "members", "types")) >= 0.95
    assert min(scores[name].recall for name in ("attributes", "members", "types")) >= 0.85
    assert scores["required"].recall >= 0.85
