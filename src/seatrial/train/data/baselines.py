"""What a model without learning would reach: byte tables fitted on train, scored on the held-out windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from seatrial.train.data.tokens import Dataset

SMOOTHING = 0.1  # added to every count, so that a byte never seen has a finite cost


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
