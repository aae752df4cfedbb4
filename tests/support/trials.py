"""Trials for tests: `tiny` runs in seconds and still learns."""

from __future__ import annotations

import atexit
import json
import shutil
import sysconfig
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from seatrial.trial import Trial

TINY: dict[str, Any] = {
    "metadata": {"name": "tiny"},
    "workload": {
        "model": {
            "config": {
                "model_type": "qwen2", "vocab_size": 256, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
                "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 128, "tie_word_embeddings": True,
            }
        },
        "data": {"corpus": "python-stdlib", "heldout_windows": 16},
        "precision": "fp32", "sequence_length": 64, "micro_batch": 4, "global_batch": 16, "steps": 40,
        "optimizer": {"lr": 1e-2, "warmup_steps": 2},
        "measure": {"warmup_steps": 5}, "checkpoint": {"every": 20}, "seed": 17,
        "timeout": {"start": 120, "step": 60},
    },
    "claims": [
        {"claim": "execution.completed"}, {"claim": "execution.all_ranks_participated"},
        {"claim": "recovery.checkpoint_reloads"}, {"claim": "learning.heldout.bits_per_byte", "below": "unigram", "by": 0.2},
    ],
}  # fmt: skip


PATIENT = {"start": 400, "step": 300}  # seconds: a run that is not about limits ends by one only where it hangs


def tiny(changes: dict[str, Any] | None = None, **workload: Any) -> Trial:
    """The tiny trial; `changes` replace top-level sections, keywords replace keys of the workload."""
    document = {**TINY, **(changes or {})}
    document["workload"] = {**document["workload"], **workload}
    return Trial.model_validate_json(json.dumps(document))


def quick(changes: dict[str, Any] | None = None, **workload: Any) -> Trial:
    """The tiny trial on a few files of the standard library, which open sooner than the whole corpus, and patient."""
    return tiny(changes, **{"data": small_corpus(), "timeout": PATIENT, **workload})


@cache
def small_corpus() -> dict[str, Any]:
    """Real text of about a megabyte, made once and removed at the end."""
    root = Path(tempfile.mkdtemp(prefix="seatrial-corpus-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    library = Path(sysconfig.get_paths()["stdlib"])
    for number, path in enumerate(sorted(p for p in library.glob("*.py") if 3_000 < p.stat().st_size < 40_000)):
        folder = root / ("heldout" if number % 8 == 0 else "train")
        folder.mkdir(exist_ok=True)
        shutil.copy(path, folder)
    return {"train": str(root / "train"), "heldout": str(root / "heldout"), "heldout_windows": 16}
