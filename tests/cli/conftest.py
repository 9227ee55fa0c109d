"""The command called in the process of the test."""

from __future__ import annotations

import pytest
from called import Caller, caller


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Caller:
    return caller(monkeypatch, capsys)
