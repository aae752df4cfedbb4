"""What a model without learning would reach: byte tables fitted on train, scored on the held-out windows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from seatrial.train.data.tokens import SEPARATOR, Dataset

SMOOTHING = 0.1  # added to every count, so that a byte never seen has a finite cost


def score(data: Dataset) -> tuple[dict[str, list[float]], list[int]]:
    """Nats per window of the unigram and the bigram table, and bytes per window; empty for synthetic tokens."""
    if data.documents is None:
        return {}, []
    stream = np.frombuffer(SEPARATOR.join(data.documents.train) + SEPARATOR, dtype=np.uint8)
    pairs = np.bincount(stream[:-1].astype(np.int64) * 256 + stream[1:], minlength=65536).reshape(256, 256)
    single = _cost(np.bincount(stream, minlength=256)[None, :])[0]
    double = _cost(pairs)
    nats: dict[str, list[float]] = {"unigram": [], "bigram": []}
    sizes: list[int] = []
    for number in range(data.windows):
        before, target = data.window_bytes(number)
        following = np.frombuffer(target, dtype=np.uint8)
        preceding = np.frombuffer(before[-1:] + target[:-1], dtype=np.uint8)
        nats["unigram"].append(float(single[following].sum()))
        nats["bigram"].append(float(double[preceding, following].sum()))
        sizes.append(len(following))
    return nats, sizes


def _cost(counts: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    smoothed = counts + SMOOTHING
    return np.asarray(-np.log(smoothed / smoothed.sum(axis=1, keepdims=True)))
