"""Data order as a pure function of (seed, epoch, index); idea: levanter's permutation, here a Feistel network.

A step's batch is the global indices `[s*B, (s+1)*B)`, whatever the number of ranks: the cursor is one integer, and a
run continues exactly on another world size.
"""

from __future__ import annotations

import hashlib

_ROUNDS = 6


def row(seed: int, index: int, rows: int) -> int:
    """The row of the store that global sample `index` reads; each epoch of `rows` samples visits every row once."""
    if rows < 1:
        raise ValueError("a store without rows has no order")
    epoch, position = divmod(index, rows)
    return _permute(position, rows, f"{seed}/{epoch}")


def _permute(position: int, size: int, key: str) -> int:
    """A keyed permutation of `range(size)`: a balanced Feistel network on the next even power of two, walked until it
    lands inside (Black & Rogaway 2002, cycle walking); fewer than four walks on average."""
    half = max(1, ((size - 1).bit_length() + 1) // 2)
    mask = (1 << half) - 1
    value = position
    while True:
        left, right = value >> half, value & mask
        for number in range(_ROUNDS):
            left, right = right, left ^ (_round(key, number, right) & mask)
        value = (left << half) | right
        if value < size:
            return value


def _round(key: str, number: int, half: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{key}/{number}/{half}".encode(), digest_size=8).digest(), "big")


def indices(step: int, rank: int, micro: int, *, world_size: int, micro_batch: int, global_batch: int) -> range:
    """Global indices that `rank` reads in micro-batch `micro` of 1-based `step`."""
    start = (step - 1) * global_batch + micro * world_size * micro_batch + rank * micro_batch
    return range(start, start + micro_batch)


def sample_digest(inputs: bytes, targets: bytes, *others: bytes) -> str:
    """64-bit hex digest of one row as given to forward, int32 little-endian: inputs, targets, then positions."""
    return hashlib.sha256(b"|".join((inputs, targets, *others))).hexdigest()[:16]


def step_digest(samples: list[tuple[int, str]]) -> str:
    """Digest over the samples of all ranks, sorted by global index: free of world size."""
    text = "\n".join(f"{index} {digest}" for index, digest in sorted(samples))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def chain(digests: list[str]) -> str:
    """The chain over step digests: equal exactly if every step was, in order."""
    value = ""
    for digest in digests:
        value = hashlib.sha256(f"{value}\n{digest}".encode()).hexdigest()
    return "sha256:" + value
