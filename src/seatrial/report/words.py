"""The report's words as tables: what a verdict, a kind and a fact mean."""

from __future__ import annotations

from typing import Any

from seatrial.evidence.facts import (
    FactType,
    environment,
    execution,
    learning,
    outside,
    performance,
    recovery,
    transport,
)
from seatrial.report import tasks

VERDICTS = {
    "supported": "what was claimed was seen, by the witnesses that it needs",
    "refuted": "what was seen contradicts the claim",
    "not-established": "neither: evidence is missing, weak or in conflict, and the reason says which",
}

KINDS = {
    "execution": "Whether the planned work was done, by every rank, on the planned data.",
    "transport": "Which path the bytes between ranks took.",
    "performance": "How fast it ran in the steady window. Says nothing about what was learnt.",
    "learning": "What the model can do after training that it could not before.",
    "recovery": "Whether what was saved comes back in new processes.",
    "environment": "What ran, layer by layer, so that two runs can be told apart.",
}

UNGROUPED = "Other facts"

_TITLES: tuple[tuple[FactType[Any], str, str], ...] = (
    (execution.STATUS, "How the training ended", "End of the run"),
    (outside.TRAIN_RUNS, "Ray Train's account", "End of the run"),
    (execution.ATTEMPTS, "Attempts", "End of the run"),
    (execution.FAILURES, "Failures", "End of the run"),
    (execution.LEFTOVER_PROCESSES, "Processes left behind", "End of the run"),
    (execution.REFUSED_FILES, "Event files not on the roster", "End of the run"),
    (execution.PLANNED_STEPS, "Planned steps", "Steps and updates"),
    (execution.EXECUTED_STEPS, "Executed steps", "Steps and updates"),
    (execution.UPDATES, "Optimizer updates", "Steps and updates"),
    (execution.PARAMETERS_WITHOUT_GRADIENT, "Parameters without any gradient", "Steps and updates"),
    (execution.PARAMETERS_UNMOVED, "Parameters that never changed", "Steps and updates"),
    (execution.SCHEDULE, "Learning-rate schedule", "Steps and updates"),
    (outside.RANKS, "Ranks", "Who took part"),
    (execution.ROSTER, "Roster", "Who took part"),
    (execution.ROLL_CALLS, "Roll calls", "Who took part"),
    (execution.GRADIENT_ROLL_CALLS, "Gradient roll calls", "Who took part"),
    (execution.REPLICAS, "Replicas", "Who took part"),
    (outside.BATCHES, "Batches", "Data and storage"),
    (outside.OBSERVING, "What the script tells", "Data and storage"),
    (execution.DATA_ORDER, "Data order", "Data and storage"),
    (execution.STORAGE, "Storage", "Data and storage"),
    (execution.TOLERANCES, "Tolerances, set before step 0", "Tolerances"),
    (transport.INTERNODE, "Path between hosts", "Path"),
    (transport.INTRANODE, "Path within a host", "Path"),
    (transport.GPUDIRECT, "GPUDirect RDMA", "Path"),
    (transport.HOSTS, "Ranks by host", "Path"),
    (transport.BETWEEN, "What ranks' connections carried", "Witnesses"),
    (transport.BYTES, "Bytes against the band", "Witnesses"),
    (transport.INTERFACES, "Interfaces of the ranks' connections", "Witnesses"),
    (transport.NCCL, "NCCL's log", "Witnesses"),
    (transport.BUSBW, "Bus bandwidth", "Witnesses"),
    (performance.TOKENS_PER_SECOND, "Throughput", "Steady window"),
    (performance.STEP_TIME, "Step time", "Steady window"),
    (performance.DATA_WAIT, "Waiting for data", "Steady window"),
    (performance.CLOCKS, "Clocks of the ranks", "Steady window"),
    (performance.PEAK_MEMORY, "Peak memory", "Memory and checkpoints"),
    (performance.CHECKPOINT_TIME, "Time to save a checkpoint", "Memory and checkpoints"),
    (learning.PAIRED_CHANGE, "Change by window", "Change and curve"),
    (learning.TRAIN_LOSS, "Train loss", "Change and curve"),
    (learning.DATA, "Data", "Data"),
    (learning.TOKENS, "Tokens, random or not", "Data"),
    (learning.OVERLAP, "Overlap of held-out and train", "Data"),
    (recovery.CHECKPOINTS, "Checkpoints", "Checkpoints"),
    (recovery.STATUS, "How the reload ended", "Reload"),
    (recovery.RELOAD, "Saved against reloaded", "Reload"),
    (environment.HOSTS, "Hosts", "Hosts"),
    (environment.RUNTIME_ENV, "Runtime environment against the image", "Hosts"),
    (environment.IMAGE_ASKED, "Image asked for", "Image"),
    (environment.IMAGE_RAN, "Image that ran", "Image"),
)
# Fact id -> (title, group), in the order of the report.
FACTS = {type.id: (title, group) for type, title, group in _TITLES}

# Facts that repeat what the trial says. They are shown as asked, never as seen.
ASKED = frozenset({execution.PLANNED_STEPS.id, environment.IMAGE_ASKED.id})

PHASES = {"before": "Before training", "after": "After training", "reload": "Reloaded from the checkpoint"}
METRICS = dict(zip(learning.HELDOUT, ("loss", "bits per byte"), strict=True))


def title_of(fact: str) -> str:
    """The title of any fact; one that is not in the table is named after its id."""
    if fact in FACTS:
        return FACTS[fact][0]
    if title := tasks.title(fact):
        return title
    words = fact.split(".", 1)[-1].replace(".", ", ").replace("_", " ").strip()
    return words[:1].upper() + words[1:] or "Unnamed fact"
