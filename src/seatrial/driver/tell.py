"""What a driver that runs as a job of a cluster prints meanwhile, for the readers of the job's log."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import seatrial
from seatrial.driver import deliver
from seatrial.errors import SeatrialError
from seatrial.events import Layout
from seatrial.events.follow import Follower
from seatrial.record import latest, read_record
from seatrial.trial import Trial

POLL_S = 1.0
STEPS_S = 5.0  # the least time between two lines of progress
DIRECTORY, RECORD = "run directory ", "record "  # a client looks for these behind `seatrial: `
SHOWN_LINES = 10  # Ray shows so many lines of a failed job's log, the last ones


@contextlib.contextmanager
def telling(trial: Trial, layout: Layout) -> Iterator[None]:
    """Prints the progress of the run, and delivers its record when it is sealed."""
    os.environ[deliver.VARIABLE] = "1"
    say(f"seatrial: {seatrial.__version__}, Python {platform.python_version()}, trial {trial.slug}")
    say(f"seatrial: {DIRECTORY}{layout.root}")
    ended = threading.Event()
    thread = threading.Thread(target=_follow, args=(Progress(trial), layout, ended), name="tell", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        hand_over(layout)


def hand_over(layout: Layout) -> None:
    """Delivers a sealed record, then prints its verdicts: Ray shows the last lines of a job that failed."""
    if not layout.record.is_file():
        return
    try:
        deliver.write(layout.root)
        record, digest = read_record(latest(layout.root))
    except (OSError, SeatrialError) as error:  # the record is sealed all the same
        say(f"seatrial: the record could not be delivered through this log: {error}")
        return
    said = [": ".join(filter(None, (v["claim"], v["verdict"], v["reason"]))) for v in record["verdicts"]]
    if record["ended_early"]:
        said.append(f"ended early: {record['ended_early']}")
    said.append(f"{RECORD}{digest} in {layout.root}")
    for line in [""] * (SHOWN_LINES - len(said)):
        say(line)
    for line in said:
        say(f"seatrial: {line}")


def say(line: str) -> None:
    """Prints one line of the job's log at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _follow(progress: Progress, layout: Layout, ended: threading.Event) -> None:
    # Not the probes: they write many events, and none that gives a line.
    followers = [Follower(layout, names) for names in ("driver", "rank-*")]
    while not ended.wait(POLL_S):
        for name, event in (found for follower in followers for found in follower.poll()):
            for line in progress.lines(name, event):
                say(line)


class Progress:
    """Turns events into lines: a step when all ranks have taken it, an evaluation when all have scored."""

    def __init__(self, trial: Trial):
        self._ranks, self._steps = trial.scaling.num_workers, trial.workload.steps
        self._seen: dict[int, dict[str, Any]] = {}
        self._scores: dict[str, dict[str, list[Any]]] = {}
        self._said = 0.0
        self._attempt = ""

    def lines(self, name: str, event: dict[str, Any]) -> Iterator[str]:
        """The lines for one more event."""
        kind = event.get("event")
        if kind == "phase_started":
            yield f"seatrial: {event.get('phase')} starts"
        elif kind == "train_attempt":
            ranks, hosts = len(event["workers"]), len({worker["node"] for worker in event["workers"]})
            where = f"{ranks} rank{'s' * (ranks != 1)} on {hosts} host{'s' * (hosts != 1)}"
            said = f"seatrial: attempt {event['attempt']} {str(event['status']).lower()}, {where}"
            if said != self._attempt:  # other changes of an attempt give no line
                self._attempt = said
                yield said
        elif kind == "stalled":
            yield f"seatrial: no progress within {event.get('limit')} = {event.get('seconds')} s"
        elif kind == "step" and name.startswith("rank-"):
            yield from self._stepped(name, event)
        elif kind == "evaluated" and name.startswith("rank-"):
            yield from self._scored(name, event)

    def _stepped(self, name: str, event: dict[str, Any]) -> Iterator[str]:
        step = event["step"]
        made = self._seen.setdefault(step, {})
        made[name] = event.get("loss")
        if len(made) < self._ranks:
            return
        for older in [number for number in self._seen if number <= step]:
            del self._seen[older]
        if time.monotonic() - self._said >= STEPS_S or step == self._steps:
            self._said = time.monotonic()
            numbers = [loss for loss in made.values() if isinstance(loss, int | float)]
            loss = f", loss {sum(numbers) / len(numbers):.4g}" if len(numbers) == len(made) else ""
            yield f"seatrial: step {step}{f'/{self._steps}' if self._steps else ''}{loss}"

    def _scored(self, name: str, event: dict[str, Any]) -> Iterator[str]:
        scores = self._scores.setdefault(str(event["phase"]), {})
        scores[name] = event["items"]
        if len(scores) == self._ranks:
            items = [item for part in scores.values() for item in part]
            tokens = sum(item[2] for item in items)
            if tokens and all(isinstance(item[1], int | float) for item in items):
                yield f"seatrial: held-out {event['phase']}: {sum(item[1] for item in items) / tokens:.3f} nats/token"
