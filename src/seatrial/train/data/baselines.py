"""What a model without learning would reach: byte tables fitted on train, scored on the held-out windows.

`BigramCounts` is all that the tables need of the train split; it is counted while the store is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from seatrial.train.data.tokens import Dataset

SMOOTHING = 0.1  # added to every count, so that a byte never seen has a finite cost
_BLOCK = 1 << 20  # bytes that are counted at once


class BigramCounts:
    """`table()[a, b]` is how often byte b followed byte a within a document."""

    def __init__(self) -> None:
        self._counts = np.zeros(65536, dtype=np.int64)
        self._waiting: list[bytes] = []
        self._size = 0

    def add(self, texts: list[bytes]) -> None:
        """Texts whose first byte is only context."""
        self._waiting += texts
        self._size += sum(map(len, texts))
        if self._size >= _BLOCK:
            self._count()

    def table(self) -> npt.NDArray[np.int64]:
        """Counts so far, shape (256, 256): the byte before, the byte after."""
        self._count()
        return self._counts.reshape(256, 256)

    def _count(self) -> None:
        lengths = np.asarray([len(text) for text in self._waiting], dtype=np.int64)
        stream = np.frombuffer(b"".join(self._waiting), dtype=np.uint8).astype(np.uint16)
        codes = (stream[:-1] << 8) | stream[1:]  # one number a pair, so that one bincount does it
        inside = np.ones(len(codes), dtype=bool)
        ends = np.cumsum(lengths)[:-1]
        inside[ends[(ends > 0) & (ends <= len(codes))] - 1] = False  # from one text to the next
        self._counts += np.bincount(codes[inside], minlength=65536)
        self._waiting, self._size = [], 0


def score(data: Dataset) -> tuple[dict[str, list[float]], list[int]]:
    """Nats per window of the unigram and the bigram table, and bytes per window, over the targets that count.

    Empty for synthetic tokens.
    """
    if data.bigrams is None:
        return {}, []
    single, double = _cost(data.bigrams.sum(axis=0)[None, :])[0], _cost(data.bigrams)
    nats: dict[str, list[float]] = {"unigram": [], "bigram": []}
    sizes: list[int] = []
    for number in range(data.windows):
        runs = [np.frombuffer(before + said, dtype=np.uint8) for before, said in data.window_bytes(number)]
        nats["unigram"].append(float(sum(single[run[1:]].sum() for run in runs)))
        nats["bigram"].append(float(sum(double[run[:-1], run[1:]].sum() for run in runs)))
        sizes.append(sum(len(run) - 1 for run in runs))
    return nats, sizes


def _cost(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    smoothed = counts + SMOOTHING
    return np.asarray(-np.log(smoothed / smoothed.sum(axis=1, keepdims=True)))
