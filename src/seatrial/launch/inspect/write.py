"""Writes what was seen into a run directory that is marked as observed, and seals it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from seatrial.canon import canonical, plain, sha256, utc
from seatrial.errors import InputError
from seatrial.events import Layout, Redactor, Writer
from seatrial.events.layers import NAMES, HostSeen
from seatrial.events.layout import problem_with
from seatrial.events.planned import PlanFacts, Tolerances
from seatrial.events.schema import Environment, Planned, Roster
from seatrial.record import seal

# Frozen before anything is judged, as in a run. A connection with less than the first is only a rendezvous. An
# interface's counter may lack the second share of it: bytes that were in flight when the window began.
TOLERANCES = Tolerances(observed_least_bytes_per_s=10_000.0, observed_below=0.1)
DETAILS = ("job_id", "submission_id", "type", "status", "entrypoint", "start_time", "end_time")


@dataclass
class Inspection:
    """Everything that was seen of a job; a field is empty where its source was not asked."""

    name: str
    asked: dict[str, Any]
    claims: list[dict[str, Any]]
    image: str | None = None
    job: dict[str, Any] = field(default_factory=dict)
    ray: dict[str, Any] = field(default_factory=dict)
    train: dict[str, Any] = field(default_factory=dict)
    kubernetes: dict[str, Any] = field(default_factory=dict)
    nodes: dict[str, dict[str, str]] = field(default_factory=dict)
    hosts: dict[str, Any] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)
    cut_short: str = ""


class InspectionDirectory:
    """The run directory of an inspection. Claims are frozen before the window; the rest is written after it."""

    def __init__(self, seen: Inspection, storage: Path):
        self._seen, self.layout = seen, _new(storage, seen.name)
        document = Redactor().value(plain({"observed": True, "asked": seen.asked, "claims": seen.claims}))
        self._trial = canonical({**document, "image": seen.image})
        frozen = {"schema": "seatrial.claims/1", "run": self.layout.root.name, "claims": seen.claims}
        self._claims = canonical(plain(frozen))
        self.layout.trial.write_bytes(self._trial)
        self.layout.claims.write_bytes(self._claims)
        self._events = self._writer(self.layout.driver_events, "driver")
        self._events.write(
            Planned(facts=PlanFacts(observed=True, image=seen.image, tolerances=TOLERANCES, asked=seen.asked))
        )

    def finish(self) -> tuple[Path, dict[str, Any]]:
        """Writes what was seen, closes and seals. Raises OSError."""
        seen, note = self._seen, self._events.write
        job = {name: seen.job[name] for name in DETAILS if seen.job.get(name) is not None}
        note(Environment(layer="job", content={**job, "problems": seen.problems, "cut_short": seen.cut_short}))
        for layer in ("ray", "train", "kubernetes"):
            if content := getattr(seen, layer):
                note(Environment(layer=layer, content=content))
        files = []
        for node, told in sorted(seen.hosts.items()):
            path = self.layout.process(1, f"probe-{node[:8]}")
            with self._writer(path, "probe") as host:
                content = {"node": node, "ray_node": seen.nodes.get(node), **told}
                host.write(Environment(layer=NAMES[HostSeen], content=content))
            files.append(self.layout.relative(path))
        note(Roster(phase="probe", attempt=1, files=files))
        self._events.close()
        return seal(self.layout.root)

    def _writer(self, path: Path, role: str) -> Writer:
        return Writer(
            path,
            run=self.layout.root.name,
            attempt=1,
            role=role,
            claims=sha256(self._claims),
            trial=sha256(self._trial),
            redactor=Redactor(os.environ),
        )


def _new(storage: Path, name: str) -> Layout:
    """A new run directory. Raises InputError if the folder cannot be used."""
    if problem := problem_with(storage):
        raise InputError(problem, field="storage", expected="a folder that can be written")
    stamp = utc()[:19].replace("-", "").replace(":", "").replace("T", "-")
    slug = "".join(c if c.isalnum() else "-" for c in name.lower()).strip("-")[:48]
    for number in range(1, 1000):
        root = storage / f"{stamp}-inspect-{slug}{f'-{number}' if number > 1 else ''}"
        try:
            root.mkdir()
        except FileExistsError:
            continue
        layout = Layout(root)
        layout.events.mkdir()
        return layout
    raise InputError(f"{storage} has 1000 inspections of this second already", field="storage")
