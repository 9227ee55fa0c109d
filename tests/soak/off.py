"""What the stateful test does not draw or look at, each with its reason; it is to be empty.

An invariant is switched off by its name in `checks.py` or `world.py`, a damage of documents by its name in `documents.DAMAGES`,
groups in two spellings by `doubled`.
"""

from __future__ import annotations

OFF: dict[str, str] = {}
