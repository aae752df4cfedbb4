"""The progress of a running trial: three lines on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from types import TracebackType
from typing import Any

from seatrial import __version__
from seatrial.cli import output
from seatrial.events import Layout
from seatrial.trial import Trial

BAR = 26
WINDOW = 20  # the shown rate is over so many steps


class Progress:
    """Follows the events of a run. On a terminal the current line is rewritten in place."""

    def __init__(self, trial: Trial, said: str, quiet: bool):
        from rich.live import Live

        self._trial, self._said, self._quiet = trial, said, quiet
        self._console = output.console()
        self._live = (
            Live(console=self._console, refresh_per_second=8, transient=True)
            if self._console.is_terminal and not quiet
            else None
        )
        self._scores: dict[str, dict[str, list[Any]]] = {}
        self._steps: dict[int, list[dict[str, Any]]] = {}
        self._done: set[str] = set()
        self._began = 0.0
        self._whole = 0  # the last step that all ranks have completed

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()
        if kind is None:
            self._finish("training", self._training_line())

    def started(self, layout: Layout) -> None:
        """Prints what will run. The run has a directory; nothing has started yet."""
        if self._quiet:
            return
        workers = self._trial.scaling.num_workers
        device = "cuda, nccl" if self._trial.scaling.gpus_per_worker else "cpu, gloo"
        self._console.print(
            f"seatrial {__version__} · {self._trial.slug} · {workers} worker{'s' * (workers != 1)} on this machine"
            f" ({device})",
            highlight=False,
            markup=False,
        )
        if self._said:
            self._console.print(self._said, style="dim", highlight=False, markup=False)
        self._console.print()
        self._current("starting", "Ray and the workers")

    def event(self, name: str, event: dict[str, Any]) -> None:
        """One more event of the run."""
        kind = event.get("event")
        if kind == "evaluated" and event.get("phase") in ("before", "after"):
            self._scored(name, event)
        elif kind == "step":
            self._stepped(event)
        elif kind == "phase_started" and event.get("phase") == "reload":
            self._finish("training", self._training_line())
            self._current("reload", "new processes load the last checkpoint")
        elif kind == "train_attempt":
            self._attempted(event)
        elif kind == "interrupted":
            self._plain(
                "stopping          "
                + (
                    "waiting for the record to be sealed; interrupt again to end at once"
                    if event["times"] == 1
                    else "ending at once"
                )
            )
        elif kind == "stalled":
            self._plain(f"no progress       within {event.get('limit')} = {event.get('seconds'):g} s")

    def _attempted(self, event: dict[str, Any]) -> None:
        """Shows what Ray Train reports about a team's own script."""
        ranks = len(event["workers"])
        where = len({worker["node"] for worker in event["workers"]})
        text = f"{event['status'].lower()}, {ranks} rank{'s' * (ranks != 1)} on {where} host{'s' * (where != 1)}"
        self._current("training", text)
        if event["status"] in ("FINISHED", "ERRORED", "ABORTED"):
            self._finish(f"attempt {event['attempt']}", text)

    def _scored(self, name: str, event: dict[str, Any]) -> None:
        phase = event["phase"]
        self._scores.setdefault(phase, {})[name] = event["items"]
        if len(self._scores[phase]) < self._trial.scaling.num_workers:
            return
        if phase == "after":
            self._finish("training", self._training_line())
        items = [item for part in self._scores[phase].values() for item in part]
        self._finish(f"held-out {phase}", _score(items))
        self._current("training", self._training_line())

    def _stepped(self, event: dict[str, Any]) -> None:
        step = event["step"]
        self._began = self._began or time.monotonic()
        self._steps.setdefault(step, []).append(event)
        if len(self._steps[step]) == self._trial.scaling.num_workers:
            self._whole = step
            self._steps.pop(step - WINDOW, None)
            self._current("training", self._training_line())

    def _training_line(self) -> str:
        last, total = self._whole, self._trial.workload.steps
        if not last:
            return ""
        window = [events for step, events in self._steps.items() if step <= last]
        seconds = sum(max(e["duration_s"] for e in events) for events in window)
        rate = sum(e["tokens"] for events in window for e in events) / seconds if seconds else 0.0
        losses = [e["loss"] for e in self._steps[last]]
        loss = f"{sum(losses) / len(losses):.2f}" if all(isinstance(x, int | float) for x in losses) else "NaN"
        if all(x is None for x in losses):
            loss = "not told"
        elapsed = int(time.monotonic() - self._began)
        done = f"step {last}"
        if total:  # a script need not say how many steps it takes
            filled = min(BAR, BAR * last // total)
            done = f"{'━' * filled}{'╌' * (BAR - filled)} {last}/{total}"
        return f"{done}  loss {loss}  {output.rate(rate)} tokens/s  {elapsed // 60}:{elapsed % 60:02d}"

    def _current(self, label: str, text: str) -> None:
        if self._live and label not in self._done:
            from rich.text import Text

            self._live.update(Text(f"  {label:<17} {text}", no_wrap=True, overflow="ellipsis"), refresh=True)

    def _finish(self, label: str, text: str) -> None:
        if text and label not in self._done:
            self._done.add(label)
            self._plain(f"{label:<17} {text}")

    def _plain(self, text: str) -> None:
        if not self._quiet:
            self._console.print(f"  {text}", highlight=False, markup=False, soft_wrap=True)


def _score(items: list[Any]) -> str:
    """Bits per byte if the items count bytes, else nats per token."""
    if any(not isinstance(item[1], int | float) for item in items):
        return "NaN"
    nats, tokens, size = (sum(item[i] for item in items) for i in (1, 2, 3))
    return f"{nats / math.log(2) / size:.2f} bits/byte" if size else f"{nats / tokens:.3f} nats/token"
