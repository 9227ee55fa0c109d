"""Sketches of distinct values: HyperLogLog with one byte a register, 6.5 % of error. Those of two parts add up by the greater."""

from __future__ import annotations

from math import log

import numpy as np
import numpy.typing as npt

REGISTERS = 256
_ALPHA = 0.7213 / (1 + 1.079 / REGISTERS)


def estimated(sketch: bytes | None) -> int:
    """Return how many distinct values a sketch saw."""
    registers = np.frombuffer(sketch or bytes(REGISTERS), np.uint8)
    estimate = _ALPHA * REGISTERS**2 / float(np.exp2(-registers.astype(np.float64)).sum())
    empty = int((registers == 0).sum())
    return round(REGISTERS * log(REGISTERS / empty) if empty and estimate <= 2.5 * REGISTERS else estimate)


def registers_of(hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint8]:
    """Fill registers: the low byte of each hash says which, the leading zeros of the rest how high; MurmurHash3 mixes."""
    registers = np.zeros(REGISTERS, np.uint8)
    if not len(hashes):
        return registers
    mixed = hashes ^ np.uint64(0x9E3779B97F4A7C15)  # zero would stay zero
    for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        mixed ^= mixed >> np.uint64(33)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(33)
    rest = (mixed >> np.uint64(12)).astype(np.float64)  # 52 bits, which a float holds exactly
    ranks = 53 - np.frexp(rest)[1]
    np.maximum.at(registers, (mixed & np.uint64(REGISTERS - 1)).astype(np.intp), ranks.astype(np.uint8))
    return registers
