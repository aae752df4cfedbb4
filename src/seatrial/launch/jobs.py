"""A trial as a job of an existing Ray cluster: submit, follow, stop. The run outlives this process."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import seatrial
from seatrial.canon import utc
from seatrial.driver import deliver
from seatrial.driver.prepare import check_shared
from seatrial.driver.ray_internals import JOB_STOP_WAIT
from seatrial.driver.tell import DIRECTORY
from seatrial.errors import InputError, RunError
from seatrial.launch import jobs_submitted
from seatrial.launch.jobs_dashboard import Dashboard, NoAnswer, NoJob, SubmittedJob, Versions, certificates
from seatrial.launch.jobs_package import TRIAL, JobPackage, local_paths, pack, refuse_secrets
from seatrial.launch.jobs_submitted import PREFIX, Submission
from seatrial.trial import Trial

ENTRYPOINT = f"python -m seatrial.driver --trial {TRIAL} --address auto --deliver"
# Seconds from Ray's request to stop until it kills the job. Its default of three is too short for a driver, which waits
# for workers, collects from the hosts and writes the record.
STOP_S = 120
GUARD_S = 120.0  # the longest time in which the guard seals after its driver was killed
OLDEST_PYTHON, OLDEST_RAY = (3, 11), (2, 56)
POLL_S, RAREST_S = 2.0, 30.0
SHARE = 10  # a request reads the whole log: the pause after it is this many times as long
LOST_S = 300.0  # following ends after so long without an answer; the run goes on
SEALED = "sealed "
Say = Callable[[str], None]
Answer = TypeVar("Answer")


def submit(trial: Trial, base: Path | None, address: str, warn: Say) -> Submission:
    """Submits a trial to a cluster. `base` is the folder of its file; `warn` gets what may go wrong on that cluster.

    Raises InputError; then nothing runs.
    """
    check_client()
    refuse_secrets(trial)
    check_shared(trial)
    dashboard, versions = Dashboard.open(address)
    for line in (*differences(versions), *local_paths(trial, base)):
        warn(line)
    submission = Submission(_name(trial), dashboard.address, trial.slug, utc())
    with tempfile.TemporaryDirectory(prefix="seatrial-") as folder, quiet():
        package = pack(trial, base, Path(folder))
        path = jobs_submitted.keep(submission)  # before the job exists, so that no job is ever unknown here
        try:
            _submit(dashboard, submission, trial, package)
        except InputError:
            path.unlink()
            raise
    return submission


class NoClient(InputError):
    """This machine has no Ray to submit a job with."""


def check_client() -> None:
    """Raises NoClient."""
    if find_spec("ray") is None or find_spec("aiohttp") is None:
        raise NoClient("ray is not installed here", expected="Ray's client", fix="pip install 'ray[default]'")


def differences(versions: Versions) -> list[str]:
    """Differences between this client and the cluster. Raises InputError for a Python that cannot run the driver."""
    said, own = [], version("ray")
    if _numbers(versions.ray)[:2] != _numbers(own)[:2]:
        said.append(f"the cluster runs Ray {versions.ray}, this client {own}")
    if _numbers(versions.ray)[:2] < OLDEST_RAY:
        said.append(f"Ray {versions.ray} is older than {'.'.join(map(str, OLDEST_RAY))}, which seatrial is made for")
    here = platform.python_version()
    if not versions.python:
        said.append("which Python the cluster runs could not be seen; the job's first line says it")
    elif _numbers(versions.python)[:2] < OLDEST_PYTHON:
        raise InputError(f"the cluster runs Python {versions.python}", expected="Python 3.11 or newer")
    elif _numbers(versions.python)[:2] != _numbers(here)[:2]:
        said.append(f"the cluster runs Python {versions.python}, this client {here}; plain files travel, no pickles")
    return said


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text)[:3])


def _name(trial: Trial) -> str:
    """A submission id that sorts by time and is unique on every cluster."""
    stamp = re.sub(r"\D", "", utc()[:19])
    return f"{PREFIX}{stamp[:8]}-{stamp[8:]}-{trial.slug}-{secrets.token_hex(2)}"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without Ray's own lines about uploads."""
    logging.disable(logging.WARNING)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def _submit(dashboard: Dashboard, submission: Submission, trial: Trial, package: JobPackage) -> None:
    """Uploads and submits. Raises InputError if the cluster has no such job afterwards."""
    runtime_env: dict[str, Any] = {
        "working_dir": str(package.working_dir),
        "py_modules": [str(package.module)],
        "env_vars": {JOB_STOP_WAIT: str(STOP_S)},
    }
    metadata = {"seatrial": seatrial.__version__, "trial": trial.slug, "trial-digest": package.trial}
    try:
        client(dashboard).submit_job(
            entrypoint=ENTRYPOINT, submission_id=submission.id, runtime_env=runtime_env, metadata=metadata
        )
    except Exception as error:  # requests, aiohttp and Ray raise many classes
        with contextlib.suppress(NoAnswer, NoJob):  # perhaps only the answer was lost
            dashboard.job(submission.id)
            return
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise InputError(
            f"{dashboard.address} did not take the job: {lines[-1].strip()[:500]}",
            expected="a cluster that takes jobs, with the ray[default] packages on its head",
        ) from None


def client(dashboard: Dashboard) -> Any:
    """Ray's client for the dashboard's address. RAY_ADDRESS would take precedence, so it is hidden meanwhile."""
    from ray.job_submission import JobSubmissionClient

    others = {name: os.environ.pop(name) for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS") if name in os.environ}
    try:
        return JobSubmissionClient(dashboard.address, headers=dashboard.headers, verify=certificates() or True)
    finally:
        os.environ.update(others)


def attach(name: str, address: str) -> tuple[Dashboard, SubmittedJob]:
    """The dashboard and the job of a run. Without `address` the run was submitted from here, with it from anywhere.

    Raises InputError, EvidenceError.
    """
    if not address:
        submission = jobs_submitted.find(name)
        dashboard, _ = Dashboard.open(submission.address, field="")  # the address is no argument of this call
        return dashboard, at_once(lambda: dashboard.job(submission.id))
    dashboard, _ = Dashboard.open(address)
    jobs = {job.id: job for job in at_once(dashboard.jobs) if job.id.startswith(PREFIX) or job.id == name}
    if name == "last" and jobs:
        return dashboard, jobs[max(jobs)]
    return dashboard, jobs[jobs_submitted.match_run(name, sorted(jobs), dashboard.address)]


def at_once(ask: Callable[[], Answer]) -> Answer:
    """The answer to a single request. Raises InputError where the dashboard gives none."""
    try:
        return ask()
    except NoAnswer as error:
        raise InputError(str(error)) from None


class LogTail:
    """A job's log as whole lines, without the delivered record in it."""

    def __init__(self, dashboard: Dashboard, name: str):
        self._dashboard, self._name = dashboard, name
        self._shown = 0

    def more(self, last: bool = False) -> list[str]:
        """New lines; an unfinished one only the `last` time. Raises NoAnswer."""
        text = self._dashboard.log(self._name)
        end = len(text) if last else text.rfind("\n") + 1
        fresh, self._shown = text[self._shown : end], max(end, self._shown)
        return [line for line in fresh.splitlines() if not deliver.is_part(line)]


def follow(dashboard: Dashboard, name: str, say: Say, tail: LogTail | None = None) -> SubmittedJob:
    """Shows the job's lines until it ends; with `tail`, only lines that it has not shown yet.

    Raises RunError when the dashboard does not answer for LOST_S; the run goes on without this process.
    """
    tail, since, told = tail or LogTail(dashboard, name), time.monotonic(), False
    while True:
        began = time.monotonic()
        try:
            job = dashboard.job(name)
            for line in tail.more(last=job.ended):
                say(line)
            since, told = time.monotonic(), False
            if job.ended:
                return job
        except NoAnswer as error:
            if time.monotonic() - since > LOST_S:
                raise RunError(f"{error}; the run goes on there: `seatrial attach {name}`") from None
            if not told:
                say(f"seatrial: {error}; asking again")
            told = True
        except NoJob as error:
            raise RunError(f"{error}; was the cluster started anew?") from None
        except InputError as error:  # the dashboard refuses what it took before, such as a token that was replaced
            raise RunError(f"{error}; the run goes on there: `seatrial attach {name}`") from None
        time.sleep(min(max(POLL_S, (time.monotonic() - began) * SHARE), RAREST_S))


def stop(dashboard: Dashboard, job: SubmittedJob, say: Say) -> str:
    """Stops a run and waits until it is sealed; returns the sealed record's path on the cluster.

    Empty if the run had not begun. Raises RunError if it ends without a sealed record.
    """
    tail = LogTail(dashboard, job.id)
    at_once(tail.more)  # skips the lines so far
    if not job.ended:
        at_once(lambda: dashboard.stop(job.id))
        say(f"seatrial: asked {job.id} to stop; it seals what it saw, which may take a minute")
    follow(dashboard, job.id, say, tail)
    deadline = time.monotonic() + GUARD_S
    while True:
        log = at_once(lambda: dashboard.log(job.id))
        if sealed := said(log, SEALED):
            return sealed
        directory = said(log, DIRECTORY)
        if not directory:
            return ""
        if time.monotonic() > deadline:
            raise RunError(f"{job.id} ended unsealed; `seatrial judge {directory}` seals it, where that folder is")
        time.sleep(POLL_S)


def said(log: str, start: str) -> str:
    """The rest of seatrial's own line that starts so; empty if there is none.

    The first line with the run directory counts: it comes before anything that a script prints. Of other lines the last
    counts.
    """
    begin = f"seatrial: {start}"
    found = [line.removeprefix(begin).strip() for line in log.splitlines() if line.startswith(begin)]
    return found[0 if start == DIRECTORY else -1] if found else ""
