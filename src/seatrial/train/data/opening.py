"""Opens the data of a trial: hosts agree on the source, rank 0 builds the store, every rank maps it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from seatrial.errors import RunError
from seatrial.train.data import cache
from seatrial.train.data.source import SPLITS, Source, content_digest, source_of
from seatrial.train.data.store import Recipe
from seatrial.train.data.tokenizer import ByteTokenizer, ModelTokenizer, Tokenizer
from seatrial.train.data.tokens import Dataset, Split, StoreStatistics, checked, synthetic

if TYPE_CHECKING:
    from seatrial.train.context import Context

FOLDER = "tokens"  # in the storage, beside the runs


def open_data(context: Context, model_folder: Path | None, vocabulary: int) -> Dataset:
    """The dataset of a trial. All ranks call it together; one process a host reads the source, for its digest.

    Raises RunError on every rank alike: for hosts with different files, bad rows, a store that cannot be kept, data
    that is too small to train or to score on.
    """
    import torch.distributed as dist

    from seatrial.train.context import on_all_ranks

    work = context.trial.training
    if work.data.synthetic:
        return synthetic(work.seed, work.sequence_length, work.data.heldout_windows, vocabulary)
    tokenizer = tokenizer_of(context, model_folder)
    source = on_all_ranks(lambda: source_of(work.data) if context.is_local_rank_zero else None)
    agreed = _agreed((str(source.manifest["source"]), content_digest(source)) if source else None)
    recipe = recipe_of(context, source, tokenizer) if source and context.rank == 0 else None
    cache_folder = context.layout.root.parent / FOLDER
    folder = on_all_ranks(lambda: cache.ensure(cache_folder, recipe) if recipe else None)
    named: list[Any] = [folder.name if folder else ""]
    dist.broadcast_object_list(named, src=0)
    data = open_store(context, cache_folder / named[0], tokenizer, agreed, source.manifest if source else {})
    if data.statistics.largest >= vocabulary:
        raise RunError(
            f"the data has token {data.statistics.largest}, the model's vocabulary ends at {vocabulary - 1};"
            " raise vocab_size"
        )
    return data


def tokenizer_of(context: Context, model_folder: Path | None) -> Tokenizer:
    """The tokenizer that the model of the trial goes with."""
    return ByteTokenizer() if context.trial.training.model.tokens_are_bytes else ModelTokenizer(model_folder or Path())


def recipe_of(context: Context, source: Source, tokenizer: Tokenizer) -> Recipe:
    """What the store of a trial is made of."""
    work = context.trial.training
    return Recipe(source, tokenizer, work.data.chat, work.sequence_length, work.data.max_bad_rows)


def open_store(
    context: Context, folder: Path, tokenizer: Tokenizer, source: tuple[str, str], content: dict[str, Any]
) -> Dataset:
    """The dataset of a trial over a store; `source` is its name and its manifest's digest."""
    work = context.trial.training
    data = work.data
    return map_store(
        folder, tokenizer, source, content, work.sequence_length, work.seed, data.heldout_windows, data.max_bad_rows
    )


def map_store(
    folder: Path,
    tokenizer: Tokenizer,
    source: tuple[str, str],
    content: dict[str, Any],
    sequence_length: int,
    seed: int,
    windows: int,
    max_bad_rows: int,
) -> Dataset:
    """A dataset over a store. Raises RunError if the store is not complete, or too small."""
    index = cache.index(folder, max_bad_rows)
    train, heldout = (_split(folder, split, index, sequence_length) for split in SPLITS)
    bigrams = np.fromfile(folder / "pairs", dtype="<i8").reshape(256, 256)
    windows = min(windows, heldout.rows)
    statistics = _statistics(index, train)
    return checked(Dataset(*source, tokenizer, train, heldout, seed, windows, bigrams, content, statistics, folder))


def _statistics(index: dict[str, Any], train: Split) -> StoreStatistics:
    splits, bad = index["splits"], index["bad"]
    return StoreStatistics(
        documents=splits["train"]["documents"],
        counted=train.counted_in_all(),
        truncated=sum(split["truncated"] for split in splits.values()),
        largest=max(split["largest"] for split in splits.values()),
        bad=bad["counts"],
        named=tuple(bad["named"]),
    )


def _split(folder: Path, split: str, index: dict[str, Any], sequence_length: int) -> Split:
    kinds = {"tokens": index["dtype"], "starts": "<i8"} | ({"answers": "u1", "rows": "<i8"} if index["chat"] else {})
    found: list[Any] = []
    for name, dtype in kinds.items():
        path = folder / f"{split}.{name}"
        found.append(np.memmap(path, dtype=dtype, mode="r") if path.stat().st_size else np.empty(0, dtype=dtype))
    return Split(found[0], found[1], sequence_length, *found[2:])


def _agreed(mine: tuple[str, str] | None) -> tuple[str, str]:
    """Name and manifest digest of the source, as every host found them. Raises RunError if they differ."""
    import torch.distributed as dist

    found: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, mine)
    seen = sorted({tuple(one) for one in found if one})
    if len(seen) > 1:
        manifests = ", ".join(manifest for _, manifest in seen)
        raise RunError(f"ranks have different data: manifests {manifests}; every host needs the same files")
    return str(seen[0][0]), str(seen[0][1])
