"""A script's batches: the digest of each, the number of its tokens, and statistics of the tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seatrial.events.observed import TokensSeen

WHOLE_BYTES = 256 << 10  # of one tensor; of a larger one, as much in evenly spaced blocks
BLOCK_BYTES = 4 << 10
KEPT_TOKENS = 64 << 10
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.uint8)
_WITHOUT_NUMPY = {torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2}
Leaves = list[tuple[str, Any]]  # what a batch is made of, by name


def leaves(value: Any) -> Leaves:
    """What a batch is made of, through maps (by sorted key), lists and tuples."""
    found: Leaves = []
    _collect(value, "", found)
    return found


def _collect(value: Any, name: str, found: Leaves) -> None:
    if isinstance(value, Tensor):
        found.append((name, value))
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            _collect(value[key], f"{name}.{key}", found)
    elif isinstance(value, list | tuple):
        for position, part in enumerate(value):
            _collect(part, f"{name}.{position}", found)
    else:
        found.append((name, value))


def digest(parts: Leaves) -> tuple[str, str]:
    """`(128-bit hex digest of every tensor's dtype, shape and bytes, "")`, or `("", why there is none)`.

    `part:` before it says that of some tensor not all bytes were read.
    """
    hasher, part, tensors = hashlib.sha256(), False, 0
    for name, leaf in parts:
        if isinstance(leaf, Tensor):
            if leaf.device.type != "cpu" or leaf.layout is not torch.strided:
                kind = leaf.device.type if leaf.device.type != "cpu" else leaf.layout
                return "", f"tensors of a batch are {kind} when it is handed over; they are not read there"
            laid = "" if leaf.is_contiguous() else leaf.stride()
            data, said = _array(leaf.detach()), f"{name}:{leaf.dtype}{tuple(leaf.shape)}{laid}"
        elif isinstance(leaf, np.ndarray) and leaf.dtype.kind in "biufc":
            data, said = np.ascontiguousarray(leaf), f"{name}:{leaf.dtype}{leaf.shape}"
        else:
            hasher.update(f"{name}:{leaf!r}"[:4096].encode() if isinstance(leaf, str | int | float) else name.encode())
            continue
        hasher.update(said.encode())
        tensors += 1
        part |= data.nbytes > WHOLE_BYTES
        for block in _blocks(data) if data.nbytes > WHOLE_BYTES else (data,):
            hasher.update(block)
    if not tensors:
        return "", "a batch has no tensor in it"
    return f"{'part:' if part else ''}{hasher.hexdigest()[:32]}", ""


def _array(tensor: Tensor) -> Any:
    """The memory of a CPU tensor, contiguous; a permuted one is read in the order in which it lies there."""
    if not tensor.is_contiguous():
        tensor = tensor.permute(sorted(range(tensor.dim()), key=tensor.stride, reverse=True)).contiguous()
    if tensor.dtype in _WITHOUT_NUMPY or tensor.is_conj() or tensor.is_neg():
        tensor = tensor.resolve_conj().resolve_neg().reshape(-1).view(torch.uint8)
    return tensor.numpy()


def _blocks(data: Any) -> Iterator[Any]:
    """As many bytes as are read of a large tensor, evenly spread."""
    flat, count = data.reshape(-1).view(np.uint8), WHOLE_BYTES // BLOCK_BYTES
    for number in range(count):
        start = (len(flat) - BLOCK_BYTES) * number // (count - 1)
        yield flat[start : start + BLOCK_BYTES]


def tokens_of(parts: Leaves) -> tuple[Tensor | None, Tensor | None]:
    """The token ids of a batch, `input_ids` or else its first integer tensor of two dimensions, and the mask beside."""
    tensors = {name.rpartition(".")[2]: leaf for name, leaf in parts if isinstance(leaf, Tensor)}
    ids = tensors.get("input_ids")
    if ids is None:
        return next((t for t in tensors.values() if t.dim() == 2 and t.dtype in _INTEGERS), None), None
    mask = tensors.get("attention_mask")
    return ids, mask if mask is not None and mask.shape == ids.shape and mask.device.type == "cpu" else None


def count(ids: Tensor | None, mask: Tensor | None) -> tuple[int, str]:
    """The number of tokens in a batch, and what it was counted from."""
    if ids is None:
        return 0, "unknown"
    return (int(torch.count_nonzero(mask)), "attention_mask") if mask is not None else (ids.numel(), "input_ids")


class TokenSample:
    """The first tokens of this rank's batches."""

    def __init__(self) -> None:
        self._kept: list[Tensor] = []
        self._left = KEPT_TOKENS

    def add(self, ids: Tensor | None, mask: Tensor | None) -> None:
        """Keeps a copy of what is still wanted."""
        if self._left > 0 and ids is not None and ids.device.type == "cpu":
            flat = (ids[mask != 0] if mask is not None else ids.flatten())[: self._left]
            self._kept.append(flat.to(torch.int64, copy=True))
            self._left -= flat.numel()

    def seen(self) -> TokensSeen | None:
        """What they look like; None if there were none."""
        total = KEPT_TOKENS - self._left
        if not total:
            return None
        values, counts = np.unique(torch.cat(self._kept).numpy(), return_counts=True)
        largest = int(values[-1])
        pairs = int((counts.astype(np.int64) * (counts - 1)).sum())
        ratio = pairs * (largest + 1) / (total * (total - 1)) if total > 1 and largest >= 0 else None
        return TokensSeen(tokens=total, distinct=len(values), largest=largest, coincidence=ratio)
