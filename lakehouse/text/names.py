"""Types of strings that are not just strings, so that mypy finds one that stands where another is asked for."""

from __future__ import annotations

from typing import NewType

RegistryId = NewType("RegistryId", str)
