"""Before anything starts: the run directory, the frozen claims, the plan, the rosters."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from seatrial.canon import canonical, digest, plain, sha256, utc
from seatrial.errors import InputError
from seatrial.events import Layout, Redactor, Writer
from seatrial.events.layout import problem_with
from seatrial.events.planned import PlanFacts, PlannedSchedule
from seatrial.events.schema import Planned, Roster, StorageCanary
from seatrial.plan import plan
from seatrial.plan.batches import TOLERANCES
from seatrial.train.tasks.planned import TOLERANCES as TASK_TOLERANCES
from seatrial.train.tasks.planned import check_tasks, planned_tasks
from seatrial.trial import Trial
from seatrial.trial.kinds import RUN, SCRIPT, Phase

RESERVE_BYTES = 8 << 20  # given back before sealing, so that a full disk can still hold the record


def check_shared(trial: Trial) -> None:
    """Checks what a driver on a cluster can know before it creates a run directory. Raises InputError."""
    check_shared_path(trial.storage.path)
    check_tasks(trial, everywhere=False)
    PLANS[trial.run_kind.name](trial)
    recorded(trial)


def check_shared_path(path: str) -> None:
    """Raises InputError unless `path` can be one folder that several hosts share."""
    if "://" in path:
        raise InputError(f"saw {path}", field="storage.path", expected="a folder: object storage is not supported yet")
    if not Path(path).is_absolute():
        raise InputError(
            f"saw {path}", field="storage.path", expected="the absolute path of a folder that every host mounts there"
        )


def new_run(trial: Trial, storage: Path) -> Layout:
    """Creates a run directory with a new name. Raises InputError if the storage cannot be used."""
    problem = problem_with(storage)
    if problem:
        raise InputError(
            problem, field="storage.path", expected="a folder that can be written, read, listed, renamed and deleted in"
        )
    stamp = utc()[:19].replace("-", "").replace(":", "").replace("T", "-")
    for number in range(1, 1000):
        root = storage / f"{stamp}-{trial.slug}{f'-{number}' if number > 1 else ''}"
        try:
            root.mkdir()
        except FileExistsError:
            continue
        layout = Layout(root)
        layout.make()
        return layout
    raise InputError(f"{storage} already has 1000 runs of this second", field="storage.path")


def recorded(trial: Trial) -> dict[str, Any]:
    """The trial as the record holds it: variables whose names look secret are masked.

    Raises InputError if there is a secret anywhere else: a record must not hold it.
    """
    document: dict[str, Any] = plain(trial.resolved())
    variables = Redactor({}).value(document["runtimeEnv"]["env_vars"])
    document["runtimeEnv"] = {**document["runtimeEnv"], "env_vars": variables}
    for section, value in document.items():
        looked_at = _as_variables(value) if section == "cluster" else value
        if Redactor({}).value(looked_at) != looked_at:
            raise InputError(
                "holds what looks like a secret",
                field=section,
                expected="secrets in runtimeEnv.env_vars, or in a Kubernetes Secret that a pod refers to",
            )
    return document


def _as_variables(value: Any) -> Any:
    """A Kubernetes object as the redactor understands it: `{name: A, value: b}` becomes the variable A. Keys that only
    name a secret are renamed: the `key` of a toleration or of a reference, and `secretName`."""
    if isinstance(value, list):
        return [_as_variables(item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("name"), str) and isinstance(value.get("value"), str):
        return {value["name"]: value["value"]}
    names = {"key": "of", "secretName": "object"}
    return {names.get(key, key): _as_variables(item) for key, item in value.items()}


def freeze(trial: Trial, layout: Layout) -> Writer:
    """Writes trial.json and claims.json, opens the driver's events, and states plan, tolerances and rosters.

    From here on a change to either file is detected: every event file's header states their digests. Raises OSError.
    """
    document = recorded(trial)
    trial_bytes = canonical(document)
    claims_bytes = canonical({"schema": "seatrial.claims/1", "run": layout.root.name, "claims": document["claims"]})
    layout.trial.write_bytes(trial_bytes)
    layout.claims.write_bytes(claims_bytes)
    _reserve(layout)
    events = Writer(
        layout.driver_events,
        run=layout.root.name,
        attempt=1,
        role="driver",
        claims=sha256(claims_bytes),
        trial=sha256(trial_bytes),
        redactor=Redactor(os.environ, trial.runtimeEnv.env_vars),
    )
    problem = problem_with(layout.root)
    events.write(StorageCanary(path=str(layout.root), ok=not problem, problem=problem))
    sections = {name: digest(value) for name, value in document.items()}
    events.write(Planned(facts=PLANS[trial.run_kind.name](trial).model_copy(update={"sections": sections})))
    if trial.run_kind.planned_ranks:  # of a script, Ray Train says which ranks there are once it has started them
        for phase in trial.run_kind.phases:
            events.write(Roster(phase=phase.name, attempt=1, files=_files(layout, phase, trial.scaling.num_workers)))
    return events


def _files(layout: Layout, phase: Phase, processes: int) -> list[str]:
    return [layout.relative(layout.process(1, f"{phase.role}-{number}")) for number in range(processes)]


def _plan_of_training(trial: Trial) -> PlanFacts:
    """What follows from the trial by arithmetic, and what of it the judgement needs."""
    work, planned = trial.training, plan(trial).facts()
    tasks = planned_tasks(trial)
    return planned.model_copy(
        update={
            **({"tasks": tasks} if tasks else {}),
            "tolerances": planned.tolerances.also(TASK_TOLERANCES),
            "synthetic": work.data.synthetic,
            "heldout_windows": work.data.heldout_windows,
            "micro_batch": work.micro_batch,
            "global_batch": work.global_batch,
            "precision": work.precision,
            "reduce_dtype": work.reduce_dtype,
            "strategy": work.strategy,
            "image": trial.image,
            "schedule": PlannedSchedule(
                peak=work.optimizer.lr, warmup_steps=work.optimizer.warmup_steps, steps=work.steps
            ),
        }
    )


def _plan_of_script(trial: Trial) -> PlanFacts:
    """The plan of a script: what the trial states about it, and nothing that only the script knows."""
    work = trial.team_script
    return PlanFacts(
        script=Path(work.script).name,
        steps=work.steps,
        ranks=trial.scaling.num_workers,
        steady_from=work.measure.warmup_steps + 1,
        synthetic=work.synthetic,
        image=trial.image,
        tolerances=TOLERANCES,
    )


PLANS: dict[str, Callable[[Trial], PlanFacts]] = {RUN.name: _plan_of_training, SCRIPT.name: _plan_of_script}


def _reserve(layout: Layout) -> None:
    """Reserves space for the seal. Writes real bytes, not a sparse file: the space must exist on a full disk."""
    with layout.reserve.open("wb") as handle:
        for _ in range(RESERVE_BYTES >> 20):
            handle.write(b"\x00" * (1 << 20))
        handle.flush()
        os.fsync(handle.fileno())
