"""What the stateful test does not draw or look at, each with its reason; it is to be empty."""

from __future__ import annotations

OFF: dict[str, str] = {
    "dry run": "a dry run creates tables and rolls forward",
}
