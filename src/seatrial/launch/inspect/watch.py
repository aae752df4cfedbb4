"""Watches the hosts of a job through a short Ray job without CPUs, whose actors end with it."""

from __future__ import annotations

import contextlib
import json
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from seatrial.driver.block import decode
from seatrial.driver.inspect import REQUEST_VARIABLE, SLACK_S, START_S
from seatrial.driver.ray_internals import JOB_STOP_WAIT
from seatrial.errors import EvidenceError, InputError, Interrupted, RunError, clean
from seatrial.launch.inspect.choose import TrainingJob
from seatrial.launch.inspect.dashboard import StateDashboard
from seatrial.launch.jobs import client, quiet
from seatrial.launch.jobs_dashboard import NoAnswer, NoJob, SubmittedJob
from seatrial.launch.jobs_package import own_module

ENTRYPOINT = "python -m seatrial.driver.inspect"
PREFIX = "seatrial-inspect-"
POLL_S = 1.0
STOP_S = 20  # Ray reads whole seconds
SETUP_S = 120.0  # the longest time in which Ray starts a job with its runtime environment
Say = Callable[[str], None]


def watch(cluster: StateDashboard, chosen: TrainingJob, seconds: float, say: Say) -> dict[str, Any]:
    """What the hosts' observers saw.

    Raises RunError if no observer could be started, none answered or the connection was lost, and Interrupted when the
    user stops it. It then ends the job in the cluster, if it can reach it.
    """
    name = f"{PREFIX}{secrets.token_hex(4)}"
    with _interruptible():
        try:
            _submit(cluster, name, {"job": chosen.job, "seconds": seconds, "nodes": chosen.nodes()})
            hosts = len(chosen.training())
            say(f"watching {hosts} host{'s' * (hosts != 1)} for {seconds:g} s, by {name}, a job without CPUs")
            return _result(cluster, _ended(cluster, name, seconds))
        except BaseException:
            _end(cluster, name)
            raise


def _submit(cluster: StateDashboard, name: str, request: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory(prefix="seatrial-") as folder, quiet():
        variables = {REQUEST_VARIABLE: json.dumps(request), JOB_STOP_WAIT: str(STOP_S)}
        runtime_env = {"py_modules": [str(own_module(Path(folder)))], "env_vars": variables}
        try:
            client(cluster).submit_job(entrypoint=ENTRYPOINT, submission_id=name, runtime_env=runtime_env)
        except Interrupted:
            raise
        except Exception as error:  # requests, aiohttp and Ray raise many classes
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise RunError(f"no observer could be started: {clean(said[-1].strip(), 300)}") from None


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C and SIGTERM become Interrupted once, so that the job in the cluster can be ended."""

    def stop(_: int, __: FrameType | None) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise Interrupted("stopped on request (Ctrl-C or SIGTERM)")

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _ended(cluster: StateDashboard, name: str, seconds: float) -> SubmittedJob:
    deadline = time.monotonic() + SETUP_S + START_S + seconds + SLACK_S
    while True:
        try:
            job = cluster.job(name)
        except (NoAnswer, NoJob) as error:
            raise RunError(f"the connection was lost: {error}") from None
        if job.ended:
            return job
        if time.monotonic() > deadline:
            raise RunError(f"the observers' job {name} did not end in time; it was {job.status.lower()}")
        time.sleep(POLL_S)


def _result(cluster: StateDashboard, job: SubmittedJob) -> dict[str, Any]:
    try:
        log = cluster.log(job.id)
        seen = decode(log)
    except NoAnswer as error:
        raise RunError(f"the connection was lost: {error}") from None
    except EvidenceError as error:
        raise RunError(str(error)) from None
    if seen is None:
        said = [line for line in (log or job.message).strip().splitlines() if line.strip()] or ["it said nothing"]
        raise RunError(f"the observers' job {job.status.lower()} without an answer: {clean(said[-1].strip(), 300)}")
    return seen


def _end(cluster: StateDashboard, name: str) -> None:
    """Stops the job in the cluster and waits for its end: its actors go with its driver."""
    deadline = time.monotonic() + STOP_S
    with contextlib.suppress(NoAnswer, InputError):  # it never started, or the cluster is out of reach
        if cluster.job(name).ended:
            return
        cluster.stop(name)
        while not cluster.job(name).ended and time.monotonic() < deadline:
            time.sleep(POLL_S)
