"""Runs a team's own script unchanged, as a child process that finds this driver's Ray by its address."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from seatrial.driver.script_faults import advice, last_line
from seatrial.driver.train_state import TRACKING, RayTrainState
from seatrial.errors import RunError
from seatrial.events import Layout, Redactor
from seatrial.events.script import TrainAttempt
from seatrial.probe import processes
from seatrial.probe.processes import ROLE_VARIABLE, SCRIPT_ROLE
from seatrial.trial.script import Script

TERMINAL = ("FINISHED", "ERRORED", "ABORTED")
JOB_CONFIG = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # Ray's job submission sets it for an entrypoint's ray.init
LOG = "script.log"
LOG_BYTES = 32 << 20
TAIL_LINES = 400
STATE_EVERY_S = 1.0
PATIENCE_S = 10.0
SETTLE_S = 5.0  # Ray Train reports the final state a moment after the script's end


class ScriptGroup:
    """The running script, with the interface of `ray_session.TrainWorkerGroup`.

    `environment` is the one that this process was started with: the script does not get what seatrial sets for its own
    use of Ray. `state` collects what Ray Train reports meanwhile; `changed()` returns what is new.
    """

    def __init__(self, work: Script, layout: Layout, environment: Mapping[str, str], session: Any, forward: bool):
        self._work, self._layout, self._session = work, layout, session
        self.state = RayTrainState()
        self._changed: list[TrainAttempt] = []
        self._next_look = 0.0
        variables = {**session.variables(), **work.env}
        self._log = _Log(layout.logs / LOG, Redactor(os.environ, variables), forward)
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-u", work.script, *work.args],
                env=_environment(environment, session.address, variables, session.packages()),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise RunError(f"workload.script: {work.script} could not be started: {error.strerror}") from None
        self._log.follow(self._process)

    @property
    def said(self) -> str:
        """The last line of the script's output, redacted."""
        return last_line(self._log.tail)

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for a signal."""
        return self._process.poll()

    def changed(self) -> list[TrainAttempt]:
        """Attempts that are new or have changed since the last call."""
        changed, self._changed = self._changed, []
        return changed

    def ended(self, within: float) -> bool:
        """Waits at most `within` seconds; returns whether the script has ended. Raises RunError if it has failed."""
        try:
            code = self._process.wait(within)
        except subprocess.TimeoutExpired:
            self._look()
            if other := self._other_ray():
                raise RunError(
                    f"{self._name} started a Ray of its own ({other}): nothing watches its workers; call ray.init()"
                    " without an address or resources, or not at all"
                ) from None
            return False
        self._log.finish()
        self._settle()
        if code:
            raise RunError(self._failed(code))
        if not self.trained:
            raise RunError(
                f"{self._name} ended with 0 and trained nothing: Ray Train saw no run; expected a script that calls"
                " fit() of a Ray Train trainer when it is started"
            )
        return True

    @property
    def trained(self) -> bool:
        """Whether anything was trained: Ray Train reports an attempt, or ranks wrote event files."""
        return bool(self.state.attempts) or any(self._layout.events.glob("a*/rank-*.jsonl"))

    @property
    def _name(self) -> str:
        return Path(self._work.script).name

    def _look(self) -> None:
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + STATE_EVERY_S
            self._changed += self.state.poll({self._process.pid, *self._children()})

    def _children(self) -> set[int]:
        """All processes of the run: a script may start the program that trains."""
        return {process.pid for process in processes.of_run(self._layout.root)}

    def _settle(self) -> None:
        deadline = time.monotonic() + SETTLE_S
        while True:
            self._next_look = 0.0
            self._look()
            done = self.state.attempts and all(a.run_status in TERMINAL for a in self.state.attempts)
            if done or time.monotonic() >= deadline:
                return
            time.sleep(processes.POLL_S)

    def _other_ray(self) -> str:
        """A GCS process that bears this run's mark but is not of this session; empty if there is none."""
        for process in processes.of_run(self._layout.root):
            if "gcs_server" in process.command.split(" ")[0] and not self._session.owns(process.pid):
                return f"gcs_server {process.pid}"
        return ""

    def _failed(self, code: int) -> str:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with {code}"
        hint = advice(self._log.tail)
        said = self.said
        return f"{self._name} {how}" + (f": {said}" if said else "") + (f"; {hint}" if hint else "")

    def kill(self, patience: float = PATIENCE_S) -> None:
        """Asks the script to end, then ends it; Ray ends the workers of a job whose driver is gone."""
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(patience)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.finish()
        self._settle()


def _environment(
    started_with: Mapping[str, str], address: str, variables: dict[str, str], packages: list[str]
) -> dict[str, str]:
    """The script's environment: it makes `ray.init` join this Ray, and puts the mark of the run on the workers."""
    config = json.loads(started_with.get(JOB_CONFIG) or "{}")
    runtime = dict(config.get("runtime_env") or {})
    runtime["env_vars"] = {**runtime.get("env_vars", {}), **variables}
    if packages:
        runtime["pip"] = packages
    config["runtime_env"] = runtime
    return {
        **started_with,
        **variables,
        JOB_CONFIG: json.dumps(config),
        "RAY_OVERRIDE_JOB_RUNTIME_ENV": "1",  # a script's own runtime_env is added to this one, not refused
        "RAY_ADDRESS": address,
        TRACKING: "1",
        ROLE_VARIABLE: SCRIPT_ROLE,
    }


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # of terminals; useless in a log file


class _Log:
    """The script's output: redacted line by line, written to the run directory, and forwarded to stdout if asked."""

    def __init__(self, path: Path, redactor: Redactor, forward: bool):
        self._path, self._redactor, self._forward = path, redactor, forward
        self.tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._thread: threading.Thread | None = None
        self._problem: OSError | None = None

    def follow(self, process: subprocess.Popen[bytes]) -> None:
        """Starts to read the script's output, until the pipe closes."""
        self._thread = threading.Thread(target=self._read, args=(process,), name="script-log", daemon=True)
        self._thread.start()

    def _read(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        written = 0
        with self._path.open("wb") as file:
            for raw in process.stdout:
                line = self._redactor.text(_COLOURS.sub("", raw.decode("utf-8", "backslashreplace")))
                self.tail.append(line.rstrip("\n"))
                if self._forward:
                    sys.stdout.write(line)
                    sys.stdout.flush()
                data = line.encode("utf-8", "backslashreplace")
                if written < LOG_BYTES and not self._problem:
                    written += len(data)
                    try:
                        file.write(data)
                        file.flush()
                    except OSError as error:  # a full storage: the script must still be read, or it would block
                        self._problem = error
            if written >= LOG_BYTES and not self._problem:
                file.write(b"[the log was cut here; its last lines:]\n")
                file.write("\n".join(self.tail).encode("utf-8", "backslashreplace"))

    def finish(self, patience: float = 5.0) -> None:
        """Waits until all output is read, but not for a grandchild that keeps the pipe open."""
        if self._thread:
            self._thread.join(patience)
        if self._problem:
            print(f"seatrial: the script's log is incomplete: {self._problem.strerror}", file=sys.stderr)
            self._problem = None
