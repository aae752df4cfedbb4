"""Why a claim is refuted or not established: one registry, with a sentence for each reason."""

from __future__ import annotations

from enum import StrEnum


class Reason(StrEnum):
    """A reason as records write it; `meaning` is the sentence that people read."""

    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not-applicable"
    ERROR = "error"
    INTERNAL = "internal"
    CONTRADICTION = "contradiction"
    UNCORROBORATED = "uncorroborated"
    UNCLEAR = "unclear"
    UNSTABLE = "unstable"
    VOID = "void"
    NOT_RUN = "not-run"
    SYNTHETIC_DATA = "synthetic-data"
    CONTAMINATED = "contaminated"
    FAILED = "failed"
    TIMED_OUT = "timed-out"
    INTERRUPTED = "interrupted"
    STEPS = "steps"
    UPDATES = "updates"
    SCHEDULE = "schedule"
    DATA = "data"
    RANKS = "ranks"
    ROLL_CALL = "roll-call"
    GRADIENTS = "gradients"
    REPLICAS = "replicas"
    RELOAD = "reload"
    MISSING = "missing"
    STEP = "step"
    VALUE = "value"
    DIFFERENT = "different"
    NON_FINITE = "non-finite"

    @property
    def meaning(self) -> str:
        return MEANINGS[self]


# Every reason with its meaning, under the heading by which people look for it.
GROUPS: dict[str, dict[Reason, str]] = {
    "Too little is known": {
        Reason.UNKNOWN: "a fact that the claim needs could not be seen",
        Reason.NOT_APPLICABLE: "what the claim speaks of does not exist in this run",
        Reason.ERROR: "the events or the claim have a shape that makes no sense",
        Reason.INTERNAL: "seatrial itself failed: a fault of its own, no evidence about the run",
        Reason.CONTRADICTION: "witnesses disagree",
        Reason.UNCORROBORATED: "only one witness says so",
        Reason.UNCLEAR: "what was seen is too coarse to tell, or is not finite",
        Reason.UNSTABLE: "there are too few samples, or chance alone can explain the result",
        Reason.VOID: "claims, trial or files are not those that the run was started or sealed with",
        Reason.NOT_RUN: "this run has no evidence of that sort",
        Reason.SYNTHETIC_DATA: "nothing can be learnt from random tokens",
        Reason.CONTAMINATED: "held-out data stands in the training data, or documents saw each other",
    },
    "How the run ended": {
        Reason.FAILED: "the run ended with an error",
        Reason.TIMED_OUT: "the run made no progress within a limit of workload.timeout",
        Reason.INTERRUPTED: "the run was stopped on request",
    },
    "What was done is not what was planned": {
        Reason.STEPS: "ranks took another number of steps than planned",
        Reason.UPDATES: "a parameter was not updated as often as planned, or never",
        Reason.SCHEDULE: "the learning rate was not the schedule's",
        Reason.DATA: "a rank did not train on the data that it should have",
        Reason.RANKS: "another number of ranks took part than the trial asks for",
        Reason.ROLL_CALL: "a roll call is missing, or did not count every rank once",
        Reason.GRADIENTS: "a rank's gradient is not, or not equally, in what was applied",
        Reason.REPLICAS: "ranks that hold the same shard hold different bytes",
    },
    "What was saved is not what was trained": {
        Reason.RELOAD: "the checkpoint does not load",
        Reason.MISSING: "the checkpoint lacks something",
        Reason.STEP: "the checkpoint is of another step",
    },
    "What was seen is not what was claimed": {
        Reason.VALUE: "the value that was seen is not the value claimed",
        Reason.DIFFERENT: "what was seen is something else than what was claimed",
        Reason.NON_FINITE: "a number was not finite",
    },
}
MEANINGS: dict[Reason, str] = {reason: said for group in GROUPS.values() for reason, said in group.items()}


def meaning(word: str) -> str:
    """The sentence of a reason in a record; empty for a word that this version does not know."""
    return next((sentence for reason, sentence in MEANINGS.items() if reason == word), "")
