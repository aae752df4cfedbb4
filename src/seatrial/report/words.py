"""The report's words as tables: what a verdict, a reason, a kind and a fact mean."""

from __future__ import annotations

from seatrial.report import tasks

VERDICTS = {
    "supported": "what was claimed was seen, by the witnesses that it needs",
    "refuted": "what was seen contradicts the claim",
    "not-established": "neither: evidence is missing, weak or in conflict, and the reason says which",
}

REASONS = {
    "unknown": "a fact that it needs could not be seen",
    "not-applicable": "what it speaks of does not exist in this run",
    "error": "a fact that it needs makes no sense",
    "contradiction": "witnesses disagree",
    "uncorroborated": "a second witness is missing",
    "void": "nothing shows that the run was started with these claims",
    "unstable": "repetitions differ too much",
    "not-run": "nothing that could establish it was run",
    "synthetic-data": "random tokens support no learning claim",
    "contaminated": "held-out data stands in the training data",
    "value": "the value seen is not the value claimed",
    "different": "what was seen is something else than what was claimed",
    "non-finite": "a number was not finite",
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

# Fact id -> (title, group), in the order of the report.
FACTS: dict[str, tuple[str, str]] = {
    "execution.status": ("How the training ended", "End of the run"),
    "execution.train_runs": ("Ray Train's account", "End of the run"),
    "execution.attempts": ("Attempts", "End of the run"),
    "execution.failures": ("Failures", "End of the run"),
    "execution.leftover_processes": ("Processes left behind", "End of the run"),
    "execution.refused_files": ("Event files not on the roster", "End of the run"),
    "execution.planned_steps": ("Planned steps", "Steps and updates"),
    "execution.executed_steps": ("Executed steps", "Steps and updates"),
    "execution.updates": ("Optimizer updates", "Steps and updates"),
    "execution.parameters_without_gradient": ("Parameters without any gradient", "Steps and updates"),
    "execution.parameters_unmoved": ("Parameters that never changed", "Steps and updates"),
    "execution.schedule": ("Learning-rate schedule", "Steps and updates"),
    "execution.ranks": ("Ranks", "Who took part"),
    "execution.roster": ("Roster", "Who took part"),
    "execution.roll_calls": ("Roll calls", "Who took part"),
    "execution.gradient_roll_calls": ("Gradient roll calls", "Who took part"),
    "execution.replicas": ("Replicas", "Who took part"),
    "execution.batches": ("Batches", "Data and storage"),
    "execution.observing": ("What the script tells", "Data and storage"),
    "execution.data_order": ("Data order", "Data and storage"),
    "execution.storage": ("Storage", "Data and storage"),
    "execution.tolerances": ("Tolerances, set before step 0", "Tolerances"),
    "transport.internode.path": ("Path between hosts", "Path"),
    "transport.intranode.path": ("Path within a host", "Path"),
    "transport.gpudirect.path": ("GPUDirect RDMA", "Path"),
    "transport.hosts": ("Ranks by host", "Path"),
    "transport.between": ("What ranks' connections carried", "Witnesses"),
    "transport.bytes": ("Bytes against the band", "Witnesses"),
    "transport.interfaces": ("Interfaces of the ranks' connections", "Witnesses"),
    "transport.nccl": ("NCCL's log", "Witnesses"),
    "transport.busbw": ("Bus bandwidth", "Witnesses"),
    "performance.tokens_per_second": ("Throughput", "Steady window"),
    "performance.step_time": ("Step time", "Steady window"),
    "performance.data_wait": ("Waiting for data", "Steady window"),
    "performance.clocks": ("Clocks of the ranks", "Steady window"),
    "performance.peak_memory": ("Peak memory", "Memory and checkpoints"),
    "performance.checkpoint_time": ("Time to save a checkpoint", "Memory and checkpoints"),
    "learning.heldout.paired_change": ("Change by window", "Change and curve"),
    "learning.train_loss": ("Train loss", "Change and curve"),
    "learning.data": ("Data", "Data"),
    "learning.tokens": ("Tokens, random or not", "Data"),
    "learning.overlap": ("Overlap of held-out and train", "Data"),
    "recovery.checkpoints": ("Checkpoints", "Checkpoints"),
    "recovery.status": ("How the reload ended", "Reload"),
    "recovery.reload": ("Saved against reloaded", "Reload"),
    "environment.hosts": ("Hosts", "Hosts"),
    "environment.runtime_env": ("Runtime environment against the image", "Hosts"),
    "environment.image.asked": ("Image asked for", "Image"),
    "environment.image.ran": ("Image that ran", "Image"),
}

# Facts that repeat what the trial says. They are shown as asked, never as seen.
ASKED = frozenset({"execution.planned_steps", "environment.image.asked"})

PHASES = {"before": "Before training", "after": "After training", "reload": "Reloaded from the checkpoint"}
METRICS = {"loss": "loss", "bits_per_byte": "bits per byte"}


def title_of(fact: str) -> str:
    """The title of any fact; one that is not in the table is named after its id."""
    if fact in FACTS:
        return FACTS[fact][0]
    if title := tasks.title(fact):
        return title
    words = fact.split(".", 1)[-1].replace(".", ", ").replace("_", " ").strip()
    return words[:1].upper() + words[1:] or "Unnamed fact"
