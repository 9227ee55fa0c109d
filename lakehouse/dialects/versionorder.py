"""The order of Versions by their ids and by the time when they were created."""

from __future__ import annotations

import re
from typing import Any

from lakehouse.text.timestamps import microseconds


def natural_order(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key under which 1.10 comes after 1.9 (decision 7)."""
    parts = re.findall(r"0*([0-9]+)|([^0-9]+)", text)
    return [(0, len(digits), digits) if digits else (1, 0, other) for digits, other in parts] + [(-1, 0, text)]


def version_order(versionid: str, attributes: Any) -> tuple[int, list[tuple[int, int, str]]]:
    """Return a sort key of Versions in a document: by declared `createdat`, then in natural order of ids (decision 7)."""
    return _created(attributes), natural_order(versionid)


def _created(attributes: Any) -> int:
    """Return the declared `createdat`; a Version without one comes before all others."""
    text = attributes.get("createdat") if isinstance(attributes, dict) else None
    try:
        return microseconds(text)[0] if isinstance(text, str) else -(2**62)
    except ValueError:
        return -(2**62)
