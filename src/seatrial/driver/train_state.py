"""What Ray Train says of its runs: the state actor, which a driver starts that has `ray_internals.STATE_TRACKING` set.

The actor is found by its name: a Ray without it costs this evidence and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import Any

from seatrial.driver import ray_internals
from seatrial.events.script import TrainAttempt

TRACKING = ray_internals.STATE_TRACKING
ANSWER_S = 5.0
DETAIL_CHARACTERS = 2000  # the end of a traceback says what it was


class RayTrainState:
    """The runs of the Ray jobs whose drivers have one of some pids on this host."""

    def __init__(self) -> None:
        self._said: dict[str, TrainAttempt] = {}
        self.seen = False  # whether the actor has ever answered

    @property
    def attempts(self) -> list[TrainAttempt]:
        """Every attempt as it was last seen, in the order of their start."""
        return sorted(self._said.values(), key=lambda attempt: attempt.attempt)

    def poll(self, drivers: Collection[int]) -> list[TrainAttempt]:
        """Attempts that are new or have changed. Nothing where Ray Train keeps no state, or does not answer now."""
        jobs = _jobs(drivers)
        if not jobs or (state := _ask()) is None:
            return []
        self.seen = True
        changed = []
        for number, told in enumerate(_attempts(*state, jobs), start=1):
            event = told.model_copy(update={"attempt": number})
            if self._said.get(event.id) != event:
                self._said[event.id] = event
                changed.append(event)
        return changed


def _jobs(drivers: Collection[int]) -> set[str]:
    import ray

    here = ray.util.get_node_ip_address()
    return {
        job["JobID"]
        for job in ray_internals.job_table()
        if job["DriverPid"] in drivers and job["DriverIPAddress"] == here
    }


def _ask() -> tuple[dict[str, Any], dict[str, Any]] | None:
    import ray

    try:
        actor = ray.get_actor(ray_internals.STATE_ACTOR, namespace=ray_internals.STATE_NAMESPACE)
        runs, attempts = ray.get(
            [actor.get_train_runs.remote(), actor.get_train_run_attempts.remote()], timeout=ANSWER_S
        )
    except (ValueError, ray.exceptions.RayError):  # not there yet, or not answering: asked again
        return None
    return runs, attempts


def _attempts(runs: dict[str, Any], attempts: dict[str, Any], jobs: set[str]) -> Iterator[TrainAttempt]:
    mine = [run for run in runs.values() if run.job_id in jobs]
    pairs = [(attempt, run) for run in mine for attempt in attempts.get(run.id, {}).values()]
    for attempt, run in sorted(pairs, key=lambda pair: int(pair[0].start_time_ns)):
        settings = run.run_settings if hasattr(run, "run_settings") else None
        yield TrainAttempt(
            attempt=0,
            id=attempt.attempt_id,
            run=run.id,
            name=run.name,
            run_status=str(getattr(run.status, "value", run.status)),
            status=str(getattr(attempt.status, "value", attempt.status)),
            detail=(attempt.status_detail or run.status_detail or "").strip()[-DETAIL_CHARACTERS:],
            storage=os.path.join(settings.run_config.storage_path, run.name) if settings else "",
            backend=str(settings.backend_config.config.get("backend") or "") if settings else "",
            workers=[
                {
                    "rank": worker.world_rank,
                    "local_rank": worker.local_rank,
                    "node": worker.node_id,
                    "ip": worker.node_ip,
                    "pid": worker.pid,
                    "gpus": list(worker.gpu_ids),
                }
                for worker in sorted(attempt.workers, key=lambda worker: int(worker.world_rank))
            ],
        )
