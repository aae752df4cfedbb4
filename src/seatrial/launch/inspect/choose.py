"""Which of a cluster's jobs is meant, and which of its processes train."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

from seatrial.errors import InputError, clean
from seatrial.launch.inspect.dashboard import StateDashboard

RUNNING = ("PENDING", "RUNNING")
_SHOWN = 5


@dataclass(frozen=True)
class TrainingJob:
    """A Ray job with workers of Ray Train. `job` is Ray's hexadecimal id, `details` is the jobs API's answer."""

    job: str
    details: dict[str, Any]
    workers: list[dict[str, Any]]
    controllers: tuple[str, ...] = ()  # Ray node ids of Ray Train's controllers

    @property
    def name(self) -> str:
        """The submission id, else Ray's id."""
        return str(self.details.get("submission_id") or self.job)

    def training(self) -> dict[str, list[int]]:
        """Pids of the workers by Ray node id."""
        found: dict[str, list[int]] = defaultdict(list)
        for worker in self.workers:
            found[str(worker["node_id"])].append(int(worker["pid"]))
        return dict(found)

    def nodes(self) -> dict[str, list[int]]:
        """As `training`, and the nodes with a controller alone: without pids."""
        return {**{node: [] for node in self.controllers}, **self.training()}


def choose(cluster: StateDashboard, asked: str) -> TrainingJob:
    """The job asked for, or the only one that trains. Raises InputError that names the jobs of the cluster."""
    chosen = _chosen(cluster, asked)
    nodes = {str(actor["node_id"]) for actor in cluster.controllers() if actor.get("job_id") == chosen.job}
    return replace(chosen, controllers=tuple(sorted(nodes)))


def _chosen(cluster: StateDashboard, asked: str) -> TrainingJob:
    jobs, workers = cluster.listed(), cluster.workers()
    by_job: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for worker in workers:
        by_job[str(worker["job_id"])].append(worker)
    known = {str(job["job_id"]): job for job in jobs if job.get("job_id")}
    if asked:
        return _asked(asked, jobs, by_job)
    if len(by_job) == 1:
        ((job, own),) = by_job.items()
        return TrainingJob(job, known.get(job, {}), own)
    if by_job:
        names = ", ".join(_name(known.get(job, {"job_id": job})) for job in list(by_job)[:_SHOWN])
        raise InputError(f"{len(by_job)} jobs train there: {names}", field="job", expected="one of them")
    running = [job for job in jobs if job.get("status") in RUNNING]
    one = len(running) == 1
    some = f"{len(running)} job{'' if one else 's'} {'is' if one else 'are'} running, without workers of Ray Train yet"
    said = some if running else "no job is running"
    raise InputError(f"no training job runs there: {said}", field="address", expected="a cluster that trains now")


def _asked(asked: str, jobs: list[dict[str, Any]], by_job: dict[str, list[dict[str, Any]]]) -> TrainingJob:
    matching = [job for job in jobs if asked in (job.get("job_id"), job.get("submission_id"))]
    matching = matching or [job for job in jobs if str(job.get("submission_id") or "").startswith(asked)]
    if len(matching) == 1:
        (job,) = matching
        own = by_job.get(str(job.get("job_id")), [])
        if own:
            return TrainingJob(str(job["job_id"]), job, own)
        status = job.get("status")
        seen = f"{clean(asked)} has no worker of Ray Train now; it is {status}"
        raise InputError(seen, field="job", expected="a job that trains")
    if not matching and asked in by_job:  # a driver that the jobs API does not list
        return TrainingJob(asked, {}, by_job[asked])
    training = [_name(job) for job in jobs if str(job.get("job_id")) in by_job]
    every = [str(job[key]) for job in jobs for key in ("submission_id", "job_id") if job.get(key)]
    close = get_close_matches(asked, every, n=1, cutoff=0.7)
    hint = f"did you mean {close[0]}?" if close else f"training now: {', '.join(training[:_SHOWN]) or 'none'}"
    said = f"{len(matching)} jobs begin with {clean(asked)}" if matching else f"there is no job {clean(asked)}"
    raise InputError(said, field="job", fix=hint)


def _name(job: dict[str, Any]) -> str:
    return str(job.get("submission_id") or job.get("job_id"))


def status(cluster: StateDashboard, chosen: TrainingJob) -> str:
    """The job's present status; empty where the jobs API does not list it."""
    return next((str(job.get("status")) for job in cluster.listed() if str(job.get("job_id")) == chosen.job), "")
