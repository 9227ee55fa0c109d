"""The digest of a snapshot's rows in plain Python, as `lakehouse.log.plan.rows_digest` computes it in Spark."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import xxhash

_SEED = 42  # of Spark's xxhash64
MASK = 2**64 - 1


def folded(rows: Iterable[Iterable[Any]]) -> int:
    """Fold rows into one number, whatever their order: a lost or altered row changes it.

    Args:
        rows: values of each row, in the order of `lakehouse.log.snapshotfacts.LOGGED`: texts, integers (dates in
            microseconds), lists of them, or None.
    """
    digest = 0
    for values in rows:
        seed = _SEED
        for value in values:
            for part in value if isinstance(value, (list, tuple)) else (value,):
                seed = seed if part is None else xxhash.xxh64_intdigest(_bytes(part), seed)
        digest ^= seed
    return digest & MASK


def _bytes(value: Any) -> bytes:
    if isinstance(value, int):
        return value.to_bytes(8, "little", signed=True)
    return str(value).encode()
