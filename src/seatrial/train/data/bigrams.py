"""Counts of adjacent bytes: all that the baselines' table models need to know of the train split.

Apart from `baselines`, which reads the opened data: this is counted while the store that the data lies in is built.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

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
