"""How much of the held-out windows stands in the training tokens, whatever the file lists say.

Every n-gram of tokens is hashed with a polynomial hash modulo 2⁶⁴, doubled from length 1 to n; a window's share is the
part of its n-grams that the training stream has too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from seatrial.train.data.tokens import Dataset

LONGEST = 64  # tokens; long enough that idioms and licence lines do not count as copies
SHORTEST = 16  # below it, chance and idiom would look like copies
_BASE = 0x9E3779B97F4A7C15
_CHUNK = 1 << 22


def ngram(data: Dataset) -> int:
    """The n in use: a power of two that fits into a window, at most `LONGEST`."""
    return min(LONGEST, 1 << (data.sequence_length.bit_length() - 1))


def shares(data: Dataset) -> list[float]:
    """Share of each held-out window's n-grams found in train, in window order; empty where windows are too short."""
    n = ngram(data)
    if n < SHORTEST:
        return []
    windows = [_hashes(data.window(number), n) for number in range(data.windows)]
    wanted = np.unique(np.concatenate(windows))
    found = np.zeros(len(wanted), dtype=bool)
    for start in range(0, len(data.train), _CHUNK):
        hashes = _hashes(data.train[start : start + _CHUNK + n - 1], n)
        at = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
        found[at[wanted[at] == hashes]] = True
    return [float(found[np.searchsorted(wanted, window)].mean()) for window in windows]


def _hashes(tokens: npt.NDArray[Any], n: int) -> npt.NDArray[np.uint64]:
    """One hash for each n-gram of a 1-D stream, shape (len - n + 1,)."""
    value = tokens.astype(np.uint64) + np.uint64(1)
    length, power = 1, _BASE
    while length < n:
        value = value[:-length] * np.uint64(power) + value[length:]
        length, power = length * 2, power * power % (1 << 64)
    return value
