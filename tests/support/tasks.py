"""Letters that are followed by a digit each: text that a tiny byte model learns in seconds, and tasks about it."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from seatrial.events import Layout, read
from seatrial.events.tasks import TaskScored
from seatrial.trial import Trial
from tests.support.trials import tiny

LETTERS = "abcdefghijklmnop"
DIGIT = {letter: str((3 * n + 1) % 10) for n, letter in enumerate(LETTERS)}
CLAIMS = [
    {"claim": "learning.task.accuracy", "task": "digits", "improves_by": 0.3, "over": "base"},
    {"claim": "learning.task.accuracy", "task": "choice", "min": 0.5},
    {"claim": "learning.task.accuracy", "task": "choice", "max_drop": 0.1, "over": "base"},
]


def lines(count: int, seed: int) -> str:
    generator = random.Random(seed)
    return "".join(f"{letter}{DIGIT[letter]}\n" for letter in generator.choices(LETTERS, k=count))


def write(folder: Path, items: int = 41) -> dict[str, Any]:
    """Training text, held-out text and two task files; returns the keys of a workload that use them."""
    (folder / "train.txt").write_text(lines(20_000, 1))
    (folder / "heldout.txt").write_text(lines(600, 2))
    exact, choice = [], []
    for number in range(items):  # an odd number: ranks have different shares
        letter = LETTERS[number % len(LETTERS)]
        prompt = lines(5 + number % 4, 100 + number) + letter
        exact.append({"prompt": prompt, "answer": DIGIT[letter]})
        choice.append({"prompt": prompt, "choices": list("0123456789"), "answer": int(DIGIT[letter])})
    for name, rows in (("digits", exact), ("choice", choice)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tasks = [
        {"name": "digits", "kind": "exact_match", "path": str(folder / "digits.jsonl"), "max_new_tokens": 4},
        {"name": "choice", "kind": "multiple_choice", "path": str(folder / "choice.jsonl")},
    ]
    texts = {split: str(folder / f"{split}.txt") for split in ("train", "heldout")}
    return {"data": {**texts, "heldout_windows": 4}, "evaluate": {"tasks": tasks}}


def trial(folder: Path, changes: dict[str, Any] | None = None, **workload: Any) -> Trial:
    """Learns the digits in eighty steps; keywords replace keys of the workload."""
    learns = {"steps": 80, "checkpoint": {"every": 80}, "optimizer": {"lr": 5e-3, "warmup_steps": 5}}
    return tiny({"claims": CLAIMS, **(changes or {})}, **{**learns, **write(folder), **workload})


def scored(layout: Layout, role: str, world: int) -> dict[tuple[str, str], dict[int, Any]]:
    """Items by task and phase: `(score, answer, log-probabilities)`."""
    found: dict[tuple[str, str], dict[int, Any]] = {}
    for rank in range(world):
        stream = read(layout.process(1, f"{role}-{rank}"), f"{role}-{rank}", layout.root.name)
        for event in stream.all(TaskScored):
            items = {number: (score, said, nats) for number, _, score, said, nats in event.items}
            found.setdefault((event.task, event.phase), {}).update(items)
    return found
