"""The driver: runs one trial beside Ray, judges and seals it. `python -m seatrial.driver`, the trial as JSON on stdin.

Its exit status is execution only, 0 or 4, so that nothing retries a job because a claim was refuted.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from seatrial.driver import code
from seatrial.driver.blame import why_it_failed
from seatrial.driver.finish import collect_logs, end_leftovers, seal_run
from seatrial.driver.prepare import freeze, new_run
from seatrial.driver.watchdog import Limits, Watchdog
from seatrial.errors import EXIT_ENDED_EARLY, EXIT_OK, Interrupted, SeatrialError, TimedOut
from seatrial.events import Layout, Writer
from seatrial.events.schema import Environment, Leftover, PhaseEnded, PhaseStarted
from seatrial.probe.processes import RUN_VARIABLE
from seatrial.trial import Trial

# Short and under /tmp: Ray's socket paths in it are limited to 107 bytes.
SESSION_PREFIX = "st-"


def main(arguments: list[str] | None = None) -> int:
    """Reads the trial, runs it, seals it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m seatrial.driver", description=__doc__)
    parser.add_argument(
        "--run-dir", type=Path, help="a run directory made by the launcher; default: a new one on storage.path"
    )
    parser.add_argument(
        "--session-dir", type=Path, help="a short folder for Ray's session; default: a new one under /tmp"
    )
    given = parser.parse_args(arguments)
    trial = Trial.model_validate_json(sys.stdin.buffer.read())
    try:
        layout = (
            Layout(given.run_dir.resolve()) if given.run_dir else new_run(trial, Path(trial.storage.path).resolve())
        )
    except SeatrialError as error:
        print(f"seatrial: {error}", file=sys.stderr)
        return error.exit_code
    os.environ[RUN_VARIABLE] = layout.root.name
    if given.session_dir:
        return Driver(trial, layout, given.session_dir).run()
    with tempfile.TemporaryDirectory(prefix=SESSION_PREFIX, dir="/tmp") as temporary:
        return Driver(trial, layout, Path(temporary)).run()


class Driver:
    """One run from frozen claims to sealed record."""

    def __init__(self, trial: Trial, layout: Layout, temporary: Path):
        self.trial, self.layout, self.temporary = trial, layout, temporary
        self._expired = ""

    def run(self) -> int:
        """Carries out everything; whatever happens in between, what was seen is sealed."""
        signal.signal(signal.SIGTERM, self._interrupted)
        signal.signal(signal.SIGUSR1, self._timed_out)
        events = freeze(self.trial, self.layout)
        status = "failed"
        try:
            for layer in code.layers(self.layout, _settings(self.trial)):
                events.write(layer)
            status = self._phases(events)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from here on the seal is near; nothing may come between
            left = end_leftovers(self.layout.root.name, str(self.temporary))
            if left:
                events.write(Leftover(processes=left))
            collect_logs(self.layout, self.temporary, (self.trial.runtimeEnv.env_vars,))
            self._close(events)
            path, record = seal_run(self.layout)
            print(f"seatrial: sealed {path}")
        return EXIT_OK if status == "finished" and not record["ended_early"] else EXIT_ENDED_EARLY

    def _phases(self, events: Writer) -> str:
        """Trains, then reloads in new processes. Returns how the training ended."""
        session: Any = None
        try:
            status = "failed"
            for phase, role in (("train", "rank"), ("reload", "reload")):
                events.write(PhaseStarted(phase=phase, attempt=1))
                ended, cause = "finished", ""
                try:
                    if session is None:
                        session = self._open_session(events)
                    limits = Limits.of(self.trial.workload.timeout)
                    with Watchdog(self.layout, role, self.trial.scaling.num_workers, limits, events, self._expire):
                        session.run_group(role)
                except Interrupted as error:
                    ended, cause = "interrupted", str(error)
                except TimedOut as error:
                    ended, cause = "timed-out", str(error)
                except Exception as error:  # Ray Train raises the workers' errors in several wrappings
                    ended, cause = "failed", why_it_failed(self.layout, role, self.trial.scaling.num_workers, error)
                events.write(PhaseEnded(phase=phase, attempt=1, status=ended, cause=cause))
                status = ended if phase == "train" else status
                if ended != "finished":
                    print(f"seatrial: {phase} {ended}: {cause}", file=sys.stderr)
                    break
            return status
        finally:
            if session is not None:
                self._close_session(session)

    def _open_session(self, events: Writer) -> Any:
        import ray
        from seatrial.driver.ray_session import RaySession

        session = RaySession(self.trial, self.layout, self.temporary)
        events.write(
            Environment(
                layer="ray", content={"ray": ray.__version__, "commit": ray.__commit__, "nodes": len(ray.nodes())}
            )
        )
        session.start_probes()
        return session

    def _close_session(self, session: Any) -> None:
        try:
            session.stop_probes()
        except Exception as error:  # a probe that failed leaves its file unclosed, which the evidence says
            print(f"seatrial: a probe ended badly: {error}", file=sys.stderr)
        session.close()

    @staticmethod
    def _close(events: Writer) -> None:
        try:
            events.close()
        except OSError as error:  # a full storage: the missing line is itself evidence
            print(f"seatrial: the driver's events could not be closed: {error}", file=sys.stderr)

    def _expire(self, why: str) -> None:
        """Called from the watchdog's thread: the main thread, inside Ray, is told by a signal."""
        self._expired = why
        os.kill(os.getpid(), signal.SIGUSR1)

    def _timed_out(self, _: int, __: FrameType | None) -> None:
        raise TimedOut(self._expired)

    def _interrupted(self, _: int, __: FrameType | None) -> None:
        raise Interrupted("stopped on request (Ctrl-C or SIGTERM)")


def _settings(trial: Trial) -> dict[str, Any]:
    """What the trial and the environment set: names and values, redacted when they are written."""
    prefixes = ("NCCL_", "FI_", "GLOO_", "TORCH_", "RAY_", "CUDA_", "OMP_", "MKL_", "HF_", "PYTORCH_", "SEATRIAL_")
    return {"workload": trial.workload.model_dump(mode="json"), "scaling": trial.scaling.model_dump(mode="json"),
            "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(prefixes)}}  # fmt: skip
