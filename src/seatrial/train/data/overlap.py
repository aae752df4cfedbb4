"""How much of the held-out windows stands in the training tokens, whatever the file lists say.

Every n-gram of tokens is hashed with a polynomial hash modulo 2⁶⁴, doubled from length 1 to n. Of a window those
n-grams are compared that lie within one document and end in a token that counts; its share is the part that train has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from seatrial.train.data.tokens import IGNORED, Dataset, Sample

LONGEST = 64  # tokens; long enough that idioms and licence lines do not count as copies
SHORTEST = 16  # below it, chance and idiom would look like copies
_BASE = 0x9E3779B97F4A7C15
_CHUNK = 1 << 20


def ngram(data: Dataset) -> int:
    """The n in use: the largest power of two, from 16 to 64, that half of the windows hold; 16 if none does."""
    windows = [data.window(number) for number in range(data.windows)]
    n = LONGEST
    while n > SHORTEST and 2 * sum(bool(len(_ends(window, n))) for window in windows) < len(windows):
        n //= 2
    return n


def shares(data: Dataset) -> list[float]:
    """Share of each held-out window's n-grams found in train, in window order; empty where no window holds one.

    A window that holds none, among others that do, has the share 0.
    """
    n = ngram(data)
    windows = [_ngrams(data.window(number), n) for number in range(data.windows)]
    wanted = np.unique(np.concatenate(windows))
    if not len(wanted):
        return []
    found = np.zeros(len(wanted), dtype=bool)
    stream = data.train.tokens
    for start in range(0, len(stream), _CHUNK):
        seen = hashes(stream[start : start + _CHUNK + n - 1], n)
        at = np.minimum(np.searchsorted(wanted, seen), len(wanted) - 1)
        found[at[wanted[at] == seen]] = True
    return [float(found[np.searchsorted(wanted, window)].mean()) if len(window) else 0.0 for window in windows]


def _ends(window: Sample, n: int) -> npt.NDArray[np.int64]:
    """Where in a window's tokens the n-grams end that are compared, from 0."""
    return np.flatnonzero((window.targets != IGNORED) & (window.positions >= n - 2)) + 1


def _ngrams(window: Sample, n: int) -> npt.NDArray[np.uint64]:
    ends = _ends(window, n)
    if not len(ends):
        return np.empty(0, dtype=np.uint64)
    tokens = np.append(window.inputs, max(0, int(window.targets[-1])))
    return hashes(tokens, n)[ends - n + 1]


def hashes(tokens: npt.NDArray[Any], n: int) -> npt.NDArray[np.uint64]:
    """One hash for each n-gram of a 1-D stream, shape (max(0, len - n + 1),)."""
    value = tokens.astype(np.uint64) + np.uint64(1)
    length, power = 1, _BASE
    while length < n:
        value = value[:-length] * np.uint64(power) + value[length:]
        length, power = length * 2, power * power % (1 << 64)
    return value
