"""Runs a trial on this machine: the driver is a child process in a session of its own.

This side owns the terminal, Ctrl-C and the last word on time-outs; it seals what a driver left that could not.
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
from seatrial.trial.script import Script

POLL_S = 0.2
SLACK_S = 90.0  # what the driver may take beyond the trial's own limits: Ray's start and stop
OnEvent = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class SealedRun:
    """A run that has ended: its directory, its sealed record, and processes that had to be ended afterwards."""

    layout: Layout
    record: Path
    content: dict[str, Any]
    digest: str
    leftover: list[str]


def check(trial: Trial) -> Path:
    """Everything that can be known before anything starts; returns the storage folder. Raises InputError."""
    if trial.cluster.provider != "local":
        raise InputError(
            f"saw {trial.cluster.provider}",
            field="cluster.provider",
            expected="local, for a run on this machine",
            fix="leave `cluster` out; --on http://HOST:8265 runs it on a Ray cluster that is there, `seatrial render`"
            " writes the manifests of one",
        )
    if "://" in trial.storage.path:
        raise InputError(
            f"saw {trial.storage.path}", field="storage.path", expected="a folder; object storage comes with recovery"
        )
    if trial.script:
        _check_script(trial.script)
    else:
        _check_training(trial)
    gpus = len(list(Path("/dev").glob("nvidia[0-9]*")))
    wanted = trial.scaling.num_workers * trial.scaling.gpus_per_worker
    if wanted > gpus:
        raise InputError(
            f"{wanted} GPUs asked for, this machine has {gpus or 'no GPU'}",
            field="scaling.gpus_per_worker",
            expected=f"num_workers × gpus_per_worker of at most {gpus}",
        )
    recorded(trial)
    missing = [name for name in ("torch", "ray", "transformers", "numpy") if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"{', '.join(missing)} not installed",
            expected="the training extra on a machine that trains",
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


def _check_script(work: Script) -> None:
    if not Path(work.script).is_file():
        raise InputError(
            f"{work.script} is no file", field="workload.script", expected="a Python script that makes a TorchTrainer"
        )


class Requests:
    """Counts requests to stop (Ctrl-C, SIGTERM, a lost terminal) instead of being torn out of whatever goes on."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Requests:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            # nohup ignores SIGHUP on purpose; a shell's background job ignores Ctrl-C, which is not meant for it.
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._more)
        return self

    def _more(self, _: int, __: FrameType | None) -> None:
        self.count += 1

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


def run(trial: Trial, started: Callable[[Layout], None], on_event: OnEvent) -> SealedRun:
    """Runs a trial to its sealed record. `started` is told the run directory, `on_event` every event as it appears.

    Raises InputError before anything is started, RunError if not even a record could be written.
    """
    storage = check(trial)
    try:
        session = Path(tempfile.mkdtemp(prefix=SESSION_PREFIX, dir="/tmp"))
    except OSError as error:
        raise InputError(f"/tmp cannot be used: {error.strerror}", expected="room for Ray's session there") from None
    with Requests() as requests:
        try:
            layout = new_run(trial, storage)
            started(layout)
            driver = _start(trial, layout, session)
            try:
                _follow(driver, layout, trial, on_event, requests)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(driver.pid, signal.SIGKILL)  # it has ended, unless following it failed
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
    """The driver process. The trial goes through its stdin: what is secret in it never touches the disk."""
    command = [sys.executable, "-m", "seatrial.driver", "--run-dir", str(layout.root), "--session-dir", str(session)]
    environment = {**os.environ, RUN_VARIABLE: str(layout.root), "PYTHONUNBUFFERED": "1"}
    with (session / DRIVER_LOG).open("wb") as log:
        driver = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True
        )
    assert driver.stdin is not None
    with contextlib.suppress(BrokenPipeError), driver.stdin as pipe:  # a driver that died at once says why in its log
        pipe.write(json.dumps(trial.resolved()).encode())
    return driver


def _follow(
    driver: subprocess.Popen[bytes], layout: Layout, trial: Trial, on_event: OnEvent, requests: Requests
) -> None:
    """Until the driver ends. The first request to stop asks it to stop and seal, the second ends it."""
    follower = Follower(layout)
    limits = trial.workload.timeout
    allowed = max(limits.start, limits.step) + SLACK_S
    moved, asked, overdue = time.monotonic(), 0, 0
    while True:
        ended = driver.poll() is not None
        for name, event in follower.poll():
            on_event(name, event)
            # A script that does not observe says nothing for hours; what it is given is the driver's to decide.
            if trial.script or not name.startswith("probe-"):
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
    """Seals what a driver left that ended without sealing. Raises RunError if it left nothing to seal, or no room."""
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
