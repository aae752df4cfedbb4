"""A run directory as evidence reads it: the streams that the rosters call for, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.canon import parse, sha256
from seatrial.errors import EvidenceError
from seatrial.events import Layout, Stream, read
from seatrial.events.base import Nonsense
from seatrial.events.layers import Job, layer
from seatrial.events.planned import PlanFacts, Tolerances
from seatrial.events.schema import LOAD, PhaseEnded, Planned, ProcessFailed, Roster, Step
from seatrial.trial.kinds import RELOAD, TRAIN, RunKind

# What only a script's own ranks can say, and the lines that have them say it.
UNOBSERVED = (
    "only {script} knows: `from seatrial import observe`, then `with observe() as trial:` around its loop"
    " and `trial.step(loss=loss)` after each optimizer step"
)


@dataclass(frozen=True)
class Run:
    """The streams of one attempt by role, and the frozen claims. `void` says why nothing can be judged."""

    name: str
    claims: list[dict[str, Any]]
    void: str
    driver: Stream
    ranks: tuple[Stream, ...]
    reloads: tuple[Stream, ...]
    probes: tuple[Stream, ...]
    refused: tuple[str, ...]

    @property
    def plan(self) -> PlanFacts:
        """What was planned; an empty plan if the driver's evidence ends before it."""
        planned = self.driver.last(Planned)
        return planned.facts if planned else PlanFacts()

    @property
    def kind(self) -> RunKind:
        """Which kind of run this is the account of, by its plan."""
        return self.plan.kind

    @property
    def tolerances(self) -> Tolerances:
        return self.plan.tolerances

    @property
    def last_step(self) -> int:
        """The last step that is planned, else the last that every rank has taken: a script need not say how many."""
        taken = [step.step if (step := s.last(Step)) else 0 for s in self.ranks]
        return self.plan.steps or min(taken, default=0)

    def phase(self, name: str) -> PhaseEnded | None:
        """How a phase ended, as the driver saw it."""
        return next((e for e in self.driver.all(PhaseEnded) if e.phase == name), None)

    def ended_early(self) -> str:
        """Empty if the run was carried out to its end, else why not. A checkpoint that does not load is a finding.

        A job that is only looked at has no phases: its look ended early if it was cut short.
        """
        for phase in self.kind.phases:
            ended = self.phase(phase.name)
            if ended is None:
                return f"the driver ended before the {phase.name} phase did"
            if ended.status != "finished" and not (phase == RELOAD and self.load_failed()):
                return f"{phase.name} {ended.status}: {ended.cause}".rstrip(": ")
        return "" if self.kind.phases else self._cut_short()

    def _cut_short(self) -> str:
        try:
            job = layer(self.driver, Job)
        except Nonsense as error:
            return str(error)
        said = job.cut_short if job else ""
        return said or ("" if self.driver.closed else "the looking ended before it was done")

    def load_failed(self) -> str:
        """What a reload process failed with while it loaded the checkpoint, if one did."""
        ended = self.phase("reload")
        failed = [e.error for s in self.reloads for e in s.all(ProcessFailed) if e.during == LOAD]
        return failed[0] if failed and ended and ended.status == "failed" else ""

    def incomplete(self, streams: tuple[Stream, ...], role: str) -> str:
        """Empty if every stream of a role is whole, else where the first one ends."""
        if not streams and role == TRAIN.role and not self.kind.planned_ranks:
            return UNOBSERVED.format(script=self.plan.script)
        if not streams:
            return f"the driver's roster of {role} processes is missing"
        return next((why for stream in streams if (why := stream.why_incomplete())), "")

    def failures(self) -> list[tuple[str, str]]:
        """`(path, error)` of the processes that said what they failed with."""
        return [
            (s.path, f"{e.error} (during {e.during})")
            for s in (*self.ranks, *self.reloads)
            for e in s.all(ProcessFailed)
        ]


def gather(root: Path) -> Run:
    """Reads a run directory. Raises EvidenceError if it is none."""
    layout = Layout(root)
    frozen = _frozen(layout)
    name = str((frozen or {}).get("run") or root.name)  # as frozen: a copied folder keeps its identity
    driver = _in_place(read(layout.driver_events, layout.relative(layout.driver_events), name), "driver", None)
    ranks, reloads, probes = on_rosters(driver, lambda file: read(root / file, file, name))
    listed = {driver.path, *(file for roster in driver.all(Roster) for file in roster.files)}
    refused = tuple(f for p in sorted(layout.events.rglob("*.jsonl")) if (f := layout.relative(p)) not in listed)
    claims, void = _claims(layout, frozen, (driver, *ranks, *reloads, *probes))
    return Run(name, claims, void, driver, ranks, reloads, probes, refused)


def on_rosters(driver: Stream, opened: Callable[[str], Stream]) -> tuple[tuple[Stream, ...], ...]:
    """The streams of ranks, of reload processes and of probes; `opened` gives the stream of a file that a roster names.

    The last attempt's ranks are what came of a script that was started again; earlier ones are known, and no more.
    """
    rosters: dict[str, list[str]] = {roster.phase: roster.files for roster in driver.all(Roster)}
    ranks, reloads = (
        tuple(_in_place(opened(file), role, rank) for rank, file in enumerate(rosters.get(phase, [])))
        for phase, role in ((TRAIN.name, TRAIN.role), (RELOAD.name, RELOAD.role))
    )
    return ranks, reloads, tuple(_in_place(opened(file), "probe", None) for file in rosters.get("probe", []))


def _in_place(stream: Stream, role: str, rank: int | None) -> Stream:
    """A file that another process of the run wrote is no evidence of this one."""
    if stream.header and (stream.header.role, stream.header.rank) != (role, rank):
        return Stream(stream.path, (), (), "foreign")
    return stream


def _frozen(layout: Layout) -> dict[str, Any] | None:
    try:
        frozen = parse(layout.claims.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    claims = frozen.get("claims") if isinstance(frozen, dict) else None
    return frozen if isinstance(claims, list) and all(isinstance(claim, dict) for claim in claims) else None


def _claims(
    layout: Layout, frozen: dict[str, Any] | None, streams: tuple[Stream, ...]
) -> tuple[list[dict[str, Any]], str]:
    """The claims to judge, and why they cannot be, if so."""
    if frozen is None:
        return _claims_of_trial(layout), "claims.json is missing or unreadable"
    claims = frozen["claims"]
    if not layout.trial.is_file():
        return claims, "trial.json is missing"
    now = {"claims": sha256(layout.claims.read_bytes()), "trial": sha256(layout.trial.read_bytes())}
    for stream in streams:
        for name, digest in now.items():
            if stream.header and getattr(stream.header, name) != digest:
                return claims, f"{name}.json is not what {stream.path} was started with"
    return claims, ""


def _claims_of_trial(layout: Layout) -> list[dict[str, Any]]:
    try:
        claims = parse(layout.trial.read_bytes())["claims"]
        return [c for c in claims if isinstance(c, dict) and "claim" in c]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise EvidenceError(
            f"{layout.root}: neither claims.json nor trial.json can be read ({type(error).__name__});"
            " expected a run directory"
        ) from None
