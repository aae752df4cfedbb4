"""The driver: runs one trial beside Ray, judges and seals it. `python -m seatrial.driver`, the trial as JSON on stdin.

With `--address` it is a cluster's entrypoint: it uses the Ray that runs there, and leaves it unchanged. Its exit status
is about execution only, 0 or 4, so that nothing retries a job because a claim was refuted.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
import tempfile
import traceback
from pathlib import Path
from types import FrameType
from typing import IO, Any

from seatrial.driver import code, guard
from seatrial.driver.blame import lost_hosts, required_network
from seatrial.driver.conduct import CONDUCTS, Conduct, Helm
from seatrial.driver.finish import collect_logs, collect_own_log, end_leftovers, seal_run, wait_until_closed
from seatrial.driver.prepare import check_shared, freeze, new_run
from seatrial.driver.tell import telling
from seatrial.errors import (
    EXIT_ENDED_EARLY,
    EXIT_OK,
    InputError,
    Interrupted,
    Place,
    RunError,
    SeatrialError,
    TimedOut,
)
from seatrial.events import Layout, Redactor
from seatrial.events.base import Event
from seatrial.events.schema import Closed, Environment, Leftover, PhaseEnded, PhaseStarted, Roster
from seatrial.probe.processes import RUN_VARIABLE
from seatrial.trial import Trial

# What Ray Train raises for workers that are gone. After any other error Ray itself may be dead, which soon ends this
# process: then the cause is written at once, and nobody is asked which hosts are lost.
WORKERS_FAILED = "WorkerGroupError"
# Short and under /tmp: Ray's socket paths in it are limited to 107 bytes.
SESSION_PREFIX = "st-"


def main(arguments: list[str] | None = None) -> int:
    """Reads the trial, runs it, seals it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m seatrial.driver", description=__doc__)
    parser.add_argument("--trial", type=Path, help="the resolved trial, a JSON file; default: stdin")
    parser.add_argument("--address", default="", help="the address of a running Ray, or auto; default: a private Ray")
    parser.add_argument(
        "--run-dir", type=Path, help="a run directory made by the launcher; default: a new one on storage.path"
    )
    parser.add_argument(
        "--session-dir", type=Path, help="a short folder for a private Ray's session; default: a new one under /tmp"
    )
    parser.add_argument("--deliver", action="store_true", help="print progress and the sealed record on stdout")
    given = parser.parse_args(arguments)
    try:
        return _carry_out(given)
    except SeatrialError as error:
        print(f"seatrial: {error}", file=sys.stderr)
        return EXIT_ENDED_EARLY if given.address else error.exit_code
    except Exception:
        if not given.address:
            raise
        traceback.print_exc()
        return EXIT_ENDED_EARLY


def _carry_out(given: argparse.Namespace) -> int:
    trial = _read(given.trial) if given.trial else Trial.from_resolved(sys.stdin.buffer.read())
    if given.address:
        check_shared(trial)
    layout = Layout(given.run_dir.resolve()) if given.run_dir else new_run(trial, Path(trial.storage.path).resolve())
    os.environ[RUN_VARIABLE] = str(layout.root)
    if given.address or given.session_dir:
        with telling(trial, layout) if given.deliver else contextlib.nullcontext():
            return Driver(trial, layout, given.session_dir, given.address).run()
    with tempfile.TemporaryDirectory(prefix=SESSION_PREFIX, dir="/tmp") as temporary:
        return Driver(trial, layout, Path(temporary)).run()


def _read(path: Path) -> Trial:
    """The trial in a file of resolved JSON. Raises InputError."""
    try:
        return Trial.from_resolved(path.read_bytes())
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
    except ValueError as error:  # pydantic's errors are of this kind too
        problem = " ".join(str(error).split())[:500]
    raise InputError(problem, place=Place(str(path)), expected="a trial as `seatrial render` writes it")


class Driver:
    """One run from frozen claims to sealed record."""

    def __init__(self, trial: Trial, layout: Layout, temporary: Path | None, address: str = ""):
        self.trial, self.layout, self.temporary, self.address = trial, layout, temporary, address
        self._started_with = dict(os.environ)  # before anything is set for this process's own use of Ray
        self._asked_to_stop = False
        self._kept: frozenset[int] = frozenset()
        self._guard: IO[bytes] | None = None  # open as long as this process lives

    def run(self) -> int:
        """Runs the trial, and seals what was seen whatever happens. Returns the exit code."""
        signal.signal(signal.SIGTERM, self._stop)
        self.events = freeze(self.trial, self.layout)
        conduct = CONDUCTS[self.trial.run_kind.name](self._helm())
        try:
            redactor = Redactor(os.environ, self.trial.runtimeEnv.env_vars)
            for layer in code.layers(self.layout, _settings(self.trial), redactor):
                self._note(layer)
            for layer in conduct.layers():
                self._note(layer)
            if self.address:
                self._guard = guard.start(self.layout, self.trial.runtimeEnv.env_vars)
            self._phases(conduct)
        finally:
            self._settle()
            path, record = seal_run(self.layout)
            print(f"seatrial: sealed {path}")
        return EXIT_ENDED_EARLY if record["ended_early"] else EXIT_OK

    def _settle(self) -> None:
        """Cleans up between the run and its seal. No failure here may prevent the seal."""
        try:
            session = "" if self.address else str(self.temporary)
            if left := end_leftovers(self.layout.root, session, kept=self._kept):
                self._note(Leftover(processes=left))
            variables = self.trial.runtimeEnv.env_vars
            if self.address:
                wait_until_closed(self.layout)
                collect_own_log(self.layout, variables)
            elif self.temporary:
                collect_logs(self.layout, self.temporary, (variables,))
            self._note(Closed())
        except Exception as error:  # the evidence then lacks something, and says so
            print(f"seatrial: after the run: {type(error).__name__}: {error}", file=sys.stderr)
        self.events.abandon()

    def _helm(self) -> Helm:
        return Helm(
            trial=self.trial,
            layout=self.layout,
            note=self._note,
            stopping=lambda: self._asked_to_stop,
            environment=self._started_with,
            forward=bool(self.address),
        )

    def _phases(self, conduct: Conduct) -> None:
        """Carries out the phases of this kind of run, one after the other, up to the first that does not finish."""
        session: Any = None
        try:
            for phase in self.trial.run_kind.phases:
                self._note(PhaseStarted(phase=phase.name, attempt=1))
                status, cause = "finished", ""
                try:
                    session = session or self._open_session()
                    conduct.follow(session, phase.role)
                except Interrupted as error:
                    status, cause = "interrupted", str(error)
                except TimedOut as error:
                    status, cause = "timed-out", str(error) + self._lost_hosts(session, phase.role)
                except Exception as error:  # Ray Train raises the workers' errors in several wrappings
                    status, cause = "failed", conduct.why(phase.role, error)
                    cause += required_network(self.trial.cluster.require, cause)
                    if type(error).__name__ == WORKERS_FAILED:
                        cause += self._lost_hosts(session, phase.role)
                self._note(PhaseEnded(phase=phase.name, attempt=1, status=status, cause=cause))
                if status != "finished":
                    print(f"seatrial: {phase.name} {status}: {cause}", file=sys.stderr)
                    break
        finally:
            if session is not None:
                self._close_session(session)

    def _lost_hosts(self, session: Any, role: str) -> str:
        try:
            silent = session.probes.silent()
        except Exception as error:  # Ray itself may have failed
            print(f"seatrial: Ray did not tell which hosts answer: {error}", file=sys.stderr)
            return ""
        return lost_hosts(self.layout, role, self.trial.scaling.num_workers, silent)

    def _open_session(self) -> Any:
        try:
            import ray
        except ModuleNotFoundError:
            raise RunError(
                f"{sys.executable} has no Ray; expected the `python` on the PATH to be the one that Ray runs in"
            ) from None

        from seatrial.driver.ray_session import RaySession

        session = RaySession(self.trial, self.layout, self.temporary, self.address)
        signal.signal(signal.SIGTERM, self._stop)  # ray.init installs its own handler, which exits at once
        seen = {"ray": ray.__version__, "commit": ray.__commit__, "nodes": len(ray.nodes())}
        self._note(Environment(layer="ray", content=seen))
        try:
            files = session.probes.start()
        except Exception:
            session.close()
            raise
        self._note(Roster(phase="probe", attempt=1, files=files))
        self._note_pods()
        return session

    def _note_pods(self) -> None:
        """Records which image each pod of the cluster runs: when the probes have started, and before they stop."""
        from seatrial.driver import pods  # loads TLS, which a run on one machine does not need

        if own := pods.layer():
            self._note(own)

    def _close_session(self, session: Any) -> None:
        """Takes every step, even if an earlier one failed."""

        def stop_probes() -> None:
            left, problems = session.probes.stop()
            if left:
                self._note(Leftover(processes=left))
            if problems:  # the probe's file stays unclosed, and the evidence says so
                raise RunError("; ".join(problems))

        def spare() -> None:
            self._kept = session.detached()

        for step, what in (
            (self._note_pods, "the pods could not be recorded"),
            (stop_probes, "a probe ended badly"),
            (session.keep_logs, "a host's logs could not be kept"),
            (spare, "Ray did not list its detached actors"),
            (session.close, "Ray ended badly"),  # its leftover processes are ended later
        ):
            try:
                step()
            except Exception as error:
                print(f"seatrial: {what}: {error}", file=sys.stderr)

    def _note(self, event: Event) -> None:
        """Writes an event of the driver. On a full storage it frees the space that is reserved for the seal."""
        try:
            self.events.write(event)
        except OSError:
            self.layout.reserve.unlink(missing_ok=True)
            self.events.write(event)

    def _stop(self, _: int, __: FrameType | None) -> None:
        self._asked_to_stop = True


def _settings(trial: Trial) -> dict[str, Any]:
    """The settings of the trial and of the environment, by name. They are redacted when they are written."""
    prefixes = ("NCCL_", "FI_", "GLOO_", "TORCH_", "RAY_", "CUDA_", "OMP_", "MKL_", "HF_", "PYTORCH_", "SEATRIAL_")
    return {
        "workload": trial.workload.model_dump(mode="json"),
        "scaling": trial.scaling.model_dump(mode="json"),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(prefixes)},
    }
