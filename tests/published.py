"""The published documents: they are not part of this repository, and their tests are skipped or have fewer cases without them."""

from __future__ import annotations

from pathlib import Path

import pytest

SAMPLES = Path(__file__).resolve().parents[2] / "shared" / "samples"
_SMALL = 12_000  # bytes: half of the documents, with a tenth of the messages

# For fixtures that load them: the small ones, and in `make test-all` all of them.
SMALL_OR_ALL = [pytest.param(_SMALL, id="small"), pytest.param(None, id="all", marks=pytest.mark.slow)]


def published(most: int | None) -> list[Path]:
    """Return the folder of the published documents, or those of up to so many bytes and that in the oldest dialect."""
    if not SAMPLES.is_dir():
        return []
    small = [path for path in SAMPLES.rglob("*.xreg.json") if path.stat().st_size < (most or 0)]
    return sorted([*small, *SAMPLES.rglob("*.cereg")]) if most else [SAMPLES]
