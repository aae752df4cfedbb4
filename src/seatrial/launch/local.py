"""Runs a trial on this machine. The driver is a child process in its own session.

This process owns the terminal and Ctrl-C, and ends a driver that exceeds every limit. If the driver ended without a
record, this process seals what it left.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from seatrial.driver.finish import DRIVER_LOG, collect_logs, end_leftovers, seal_run
from seatrial.driver.main import SESSION_PREFIX
from seatrial.driver.prepare import new_run, recorded
from seatrial.errors import InputError, RunError
from seatrial.events import Layout, Redactor
from seatrial.events.follow import Follower
from seatrial.plan import plan
from seatrial.probe.processes import RUN_VARIABLE
from seatrial.record import latest, read_record
from seatrial.train.tasks.planned import check_tasks
from seatrial.trial import Trial
from seatrial.trial.kinds import RUN, SCRIPT

POLL_S = 0.2
SLACK_S = 90.0  # added to the trial's own limits, for Ray's start and stop
OnEvent = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class SealedRun:
    """A run that has ended: its directory, its sealed record, and the processes that had to be killed afterwards."""

    layout: Layout
    record: Path
    content: dict[str, Any]
    digest: str
    leftover: list[str]


def check(trial: Trial) -> Path:
    """Checks everything that can be known before the start. Returns the storage folder. Raises InputError."""
    if trial.cluster.provider != "local":
        raise InputError(
            f"saw {trial.cluster.provider}",
            field="cluster.provider",
            expected="local, for a run on this machine",
            fix="remove `cluster`; or run it on an existing Ray cluster: `seatrial run TRIAL --on http://HOST:8265`; or"
            " write Kubernetes manifests: `seatrial render TRIAL`",
        )
    if "://" in trial.storage.path:
        raise InputError(
            f"saw {trial.storage.path}", field="storage.path", expected="a folder: object storage is not supported yet"
        )
    CHECKS[trial.run_kind.name](trial)
    gpus = len(list(Path("/dev").glob("nvidia[0-9]*")))
    wanted = trial.scaling.num_workers * trial.scaling.gpus_per_worker
    if wanted > gpus:
        raise InputError(
            f"the trial asks for {wanted} GPUs, and this machine has {gpus or 'none'}",
            field="scaling.gpus_per_worker",
            expected=f"num_workers × gpus_per_worker of at most {gpus}",
        )
    recorded(trial)
    missing = [name for name in ("torch", "ray", "transformers", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed",
            expected="the extra `train`",
            fix="pip install 'seatrial[train]'",
        )
    return Path(trial.storage.path).expanduser().resolve()


def _check_training(trial: Trial) -> None:
    plan(trial)
    data = trial.training.data
    paths = {"train": data.train, "heldout": data.heldout}
    if data.dataset and data.dataset.name.startswith("/"):
        paths["dataset.name"] = data.dataset.name
    for name, path in paths.items():
        if path and not Path(path).exists():
            expected = f"a {data.format or 'text, .jsonl or .parquet'} file or a folder of them"
            raise InputError(f"{path} does not exist", field=f"workload.data.{name}", expected=expected)
    if data.dataset and importlib.util.find_spec("datasets") is None:
        raise InputError("datasets is not installed", field="workload.data.dataset", fix="pip install datasets")
    if (folder := trial.training.model.path) and not (Path(folder) / "config.json").is_file():
        raise InputError(
            f"{folder} has no config.json", field="workload.model.path", expected="a folder with a Transformers model"
        )
    check_tasks(trial)


def _check_script(trial: Trial) -> None:
    script = trial.team_script.script
    if not Path(script).is_file():
        raise InputError(
            f"{script} is no file", field="workload.script", expected="a Python script that makes a TorchTrainer"
        )


CHECKS: dict[str, Callable[[Trial], None]] = {RUN.name: _check_training, SCRIPT.name: _check_script}


class StopRequests:
    """Counts requests to stop: Ctrl-C, SIGTERM, a lost terminal. Without it, these would interrupt any line of code."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequests:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # A signal that is ignored stays ignored: nohup ignores SIGHUP, a shell's background job ignores Ctrl-C.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._more)
        return self

    def _more(self, _: int, __: FrameType | None) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def run(trial: Trial, started: Callable[[Layout], None], on_event: OnEvent) -> SealedRun:
    """Runs a trial to its sealed record. Calls `started` with the run directory, `on_event` with each new event.

    Raises InputError before anything is started, RunError if no record could be written.
    """
    storage = check(trial)
    try:
        session = Path(tempfile.mkdtemp(prefix=SESSION_PREFIX, dir="/tmp"))
    except OSError as error:
        raise InputError(
            f"/tmp cannot be used: {error.strerror}", expected="a folder there for Ray's session"
        ) from None
    with StopRequests() as requests:
        try:
            layout = new_run(trial, storage)
            started(layout)
            driver = _start(trial, layout, session)
            try:
                _follow(driver, layout, trial, on_event, requests)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(driver.pid, signal.SIGKILL)  # it still runs only if following it failed
                driver.wait()
                leftover = end_leftovers(layout.root, str(session))
                if not layout.record.is_file():
                    _salvage(layout, session, trial)
        finally:
            shutil.rmtree(session, ignore_errors=True)
    path = latest(layout.root)
    content, digest = read_record(path)
    return SealedRun(layout, path, content, digest, leftover)


def _start(trial: Trial, layout: Layout, session: Path) -> subprocess.Popen[bytes]:
    """Starts the driver. The trial goes through its stdin, so that its secrets never reach the disk."""
    command = [sys.executable, "-m", "seatrial.driver", "--run-dir", str(layout.root), "--session-dir", str(session)]
    environment = {**os.environ, RUN_VARIABLE: str(layout.root), "PYTHONUNBUFFERED": "1"}
    with (session / DRIVER_LOG).open("wb") as log:
        driver = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    assert driver.stdin is not None
    with contextlib.suppress(BrokenPipeError), driver.stdin as pipe:  # if the driver died at once, its log says why
        pipe.write(json.dumps(trial.resolved()).encode())
    return driver


def _follow(
    driver: subprocess.Popen[bytes], layout: Layout, trial: Trial, on_event: OnEvent, requests: StopRequests
) -> None:
    """Follows the driver until it ends. The first request to stop asks it to stop and seal, the second kills it."""
    follower = Follower(layout)
    limits = trial.workload.timeout
    allowed = max(limits.start, limits.step) + SLACK_S
    moved, asked, overdue = time.monotonic(), 0, 0
    while True:
        ended = driver.poll() is not None
        for name, event in follower.poll():
            on_event(name, event)
            # A script without `observe` may be silent for hours: the driver alone decides on its limits.
            if not trial.run_kind.planned_ranks or not name.startswith("probe-"):
                moved = time.monotonic()
        if ended:
            return
        if requests.count > asked:
            asked = requests.count
            on_event("launcher", {"event": "interrupted", "times": asked})
            _stop(driver, hard=asked > 1)
        if time.monotonic() - moved > allowed * (overdue + 1):
            overdue += 1
            _stop(driver, hard=overdue > 1)
        time.sleep(POLL_S)


def _stop(driver: subprocess.Popen[bytes], hard: bool) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(driver.pid, signal.SIGKILL if hard else signal.SIGTERM)


def _salvage(layout: Layout, session: Path, trial: Trial) -> None:
    """Seals what a driver left behind without a record. Raises RunError if there is nothing to seal, or no space."""
    environment = trial.runtimeEnv.env_vars
    if not layout.driver_events.is_file():
        text = Redactor(os.environ, environment).text((session / DRIVER_LOG).read_text(errors="replace"))
        said = text.strip().splitlines() or ["it said nothing"]
        raise RunError(f"the driver ended before it began, in {layout.root}: {said[-1]}")
    try:
        collect_logs(layout, session, (environment,))
    except OSError as error:
        print(f"seatrial: logs could not be kept: {error}", file=sys.stderr)
    try:
        seal_run(layout)
    except OSError as error:
        raise RunError(
            f"the record could not be written to {layout.root}: {error.strerror or error};"
            f" free space there, then `seatrial judge {layout.root}`"
        ) from error
