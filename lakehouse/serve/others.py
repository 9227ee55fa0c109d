"""What stands beside the xRegistry API: paths of this product, and those of the CNCF Message and Event Catalog draft."""

from __future__ import annotations

from typing import Any

from starlette.routing import Route

from lakehouse.serve.asking import Part

PARTS: dict[str, Part] = {}


def routes(app: Any) -> list[Route]:
    """Give the paths that stand at the root of the server only."""
    return []
