"""The claim registry: each claim that a trial may make, its parameters, and the kind of run that can establish it.

A claim without a judge in `seatrial.evidence.judges` is known, but no evidence for it exists yet: its verdict is
`not-established (not-run)`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import model_validator

from seatrial.trial.base import Section, SectionError

KINDS = ("execution", "transport", "performance", "learning", "recovery", "environment")
BASELINES = ("unigram", "bigram")
# The values that `equals` may have. gloo always uses tcp; NCCL without a network plugin uses socket.
PATHS: dict[str, tuple[str | bool, ...]] = {
    "transport.internode": ("efa", "ib", "socket", "tcp"),
    "transport.intranode": ("nvlink", "pcie-p2p", "shm", "tcp"),
    "transport.gpudirect": (True, False),
}


@dataclass(frozen=True)
class Entry:
    """One known claim. `forms` are the sets of parameters that it accepts."""

    name: str
    title: str
    established_by: str  # run | drill | comparison
    forms: tuple[frozenset[str], ...] = (frozenset(),)

    @property
    def kind(self) -> str:
        return self.name.split(".", 1)[0]


def _form(*names: str) -> frozenset[str]:
    return frozenset(names)


def _braced(form: frozenset[str]) -> str:
    return f"{{{', '.join(sorted(form))}}}" if form else "no parameter"


_HELDOUT = (_form("below"), _form("below", "by"), _form("max"), _form("improves_by", "over"))
_TASK = (_form("task", "min"), _form("task", "improves_by", "over"), _form("task", "max_drop", "over"))

REGISTRY: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry("execution.finished", "the job finished, on as many ranks as the trial asks for", "run"),
        Entry("execution.completed", "planned = executed = updates, on the planned data", "run"),
        Entry("execution.all_ranks_participated", "every rank's work is in the result", "run"),
        Entry("transport.internode", "the network between hosts", "run", (_form("equals"),)),
        Entry("transport.intranode", "the path between ranks of one host", "run", (_form("equals"),)),
        Entry("transport.gpudirect", "GPUDirect RDMA between hosts", "run", (_form("equals"),)),
        Entry("transport.min_busbw", "bus bandwidth of the job's collectives, GB/s", "run", (_form("min"),)),
        Entry("performance.tokens_per_second", "tokens/s over the steady window", "run", (_form("min"),)),
        Entry("performance.step_time_p95", "95th percentile of step time, seconds", "run", (_form("max"),)),
        Entry(
            "learning.heldout.loss",
            "held-out loss, nats per token",
            "run",
            (_form("max"), _form("improves_by", "over")),
        ),
        Entry("learning.heldout.bits_per_byte", "held-out bits per byte", "run", _HELDOUT),
        Entry("learning.task.accuracy", "share of a task's items that are right", "run", _TASK),
        Entry("recovery.checkpoint_reloads", "the final checkpoint reloads, all state equal", "run"),
        Entry(
            "recovery.worker_kill", "a killed worker costs at most max_lost_steps", "drill", (_form("max_lost_steps"),)
        ),
        Entry("environment.image_ran", "the image asked for is the image that ran", "run"),
        Entry("environment.hosts_agree", "every host has the same packages", "run"),
    )
}


class Claim(Section):
    """One statement that the team wants to rely on, with parameters in one of the forms of its registry entry."""

    claim: str
    equals: str | bool | None = None
    min: float | None = None
    max: float | None = None
    below: str | float | None = None
    by: float | None = None
    improves_by: float | None = None
    over: str | None = None
    max_lost_steps: int | None = None
    task: str | None = None
    max_drop: float | None = None

    @model_validator(mode="after")
    def _takes_a_known_form(self) -> Claim:
        entry = REGISTRY.get(self.claim)
        if entry is None:
            raise SectionError(unknown_claim(self.claim), "claim")
        given = frozenset(self.parameters)
        if given not in entry.forms:
            foreign = sorted(given.difference(*entry.forms))
            forms = " or ".join(map(_braced, entry.forms))
            raise SectionError(f"{self.claim} was given {_braced(given)}; expected {forms}", *foreign[:1])
        if isinstance(self.below, str) and self.below not in BASELINES:
            raise SectionError(f"saw {self.below}; expected a number or one of {', '.join(BASELINES)}", "below")
        if self.over is not None and self.over != "base":
            raise SectionError(f"saw {self.over}; expected base, the model before step 0", "over")
        if (known := PATHS.get(self.claim)) and self.equals not in known:
            words = ", ".join(str(value).lower() if isinstance(value, bool) else value for value in known)
            raise SectionError(f"saw {self.equals}; expected one of {words}", "equals")
        for name in ("by", "improves_by", "max_lost_steps", "max_drop"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise SectionError(f"saw {value}; expected at least 0", name)
        shares = ("min", "improves_by", "max_drop") if self.task is not None else ()
        for name in shares:
            share = getattr(self, name)
            if share is not None and not 0 <= share <= 1:
                raise SectionError(f"saw {share:g}; expected a share from 0 to 1, as in 0.05", name)
        return self

    @property
    def parameters(self) -> dict[str, Any]:
        """The given parameters, without the claim's name."""
        return {name: value for name, value in self.model_dump(exclude={"claim"}).items() if value is not None}

    def number(self, name: str) -> float:
        """A parameter that the claim's form requires. Raises ValueError where it was not given as a number."""
        value = self.parameters.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{self.claim} has no number {name}")
        return float(value)

    def resolved(self) -> dict[str, Any]:
        """The form that is frozen and hashed: the name and the given parameters."""
        return {"claim": self.claim, **self.parameters}


def unknown_claim(name: str) -> str:
    """The message for a name that is not in the registry."""
    from difflib import get_close_matches

    close = get_close_matches(name, REGISTRY, n=1, cutoff=0.5)
    hint = f"did you mean {close[0]}?" if close else f"known claims: {', '.join(REGISTRY)}"
    return f"unknown claim {name}; {hint}"
