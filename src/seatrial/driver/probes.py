"""The probes of a run, one a host: started before the workers, stopped after them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from seatrial.canon import file_digest
from seatrial.driver.finish import closed
from seatrial.events import Layout
from seatrial.events.writer import NODE_VARIABLE
from seatrial.probe.host import HostProbe
from seatrial.probe.processes import RUN_VARIABLE

START_S = 120.0
ANSWER_S = 3.0
STOP_S = 30.0


class Probes:
    """One actor without CPUs on each host of the Ray that this process has joined, by Ray node id."""

    def __init__(self, layout: Layout):
        self._layout = layout
        self._actors: dict[str, Any] = {}
        self.lost: dict[str, str] = {}  # hosts that did not answer at the end: their names

    def start(self) -> list[str]:
        """Starts one probe a host, in the image's own interpreter, without the runtime environment.

        Returns their event files, relative to the run directory, once all of them watch. Raises what one failed with.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        claims, trial = (file_digest(p) for p in (self._layout.claims, self._layout.trial))
        for node in (node["NodeID"] for node in ray.nodes() if node["Alive"]):
            variables = {NODE_VARIABLE: node, RUN_VARIABLE: str(self._layout.root)}
            actor = ray.remote(num_cpus=0)(HostProbe).options(
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
                runtime_env={"env_vars": variables},
            )
            self._actors[node] = actor.remote(str(self._file(node)), self._layout.root.name, 1, claims, trial)
        ray.get([probe.ready.remote() for probe in self._actors.values()], timeout=START_S)
        return [self._layout.relative(self._file(node)) for node in self._actors]

    def _file(self, node: str) -> Path:
        return self._layout.process(1, f"probe-{node[:8]}")

    def silent(self) -> dict[str, str]:
        """Other hosts whose probe does not answer, or that Ray has given up: names by Ray node id."""
        import ray

        here = ray.get_runtime_context().get_node_id()
        asked = {node: probe.ready.remote() for node, probe in self._actors.items() if node != here}
        if not asked:
            return {}
        _, waiting = ray.wait(list(asked.values()), num_returns=len(asked), timeout=ANSWER_S)
        return _names(node for node, answer in asked.items() if answer in waiting or _problem(answer))

    def stop(self) -> tuple[list[str], list[str]]:
        """Has each probe end what outlives the run on its host, write its last sample and close.

        Returns what had to be ended, and what went wrong. A probe that Ray does not reach reads on the storage that the
        run is over: it is given the time to close its file.
        """
        import ray

        asked = {node: probe.stop.remote() for node, probe in self._actors.items()}
        deadline, waiting = time.monotonic() + STOP_S, list(asked)
        while waiting and not all(closed(self._file(node)) for node in waiting) and time.monotonic() < deadline:
            waiting = _unanswered(asked, 0.5)
        waiting = _unanswered(asked, 0.5)  # what is closed answers at once
        self.lost = _names(waiting)
        self._actors = {}
        answered = {node: answer for node, answer in asked.items() if node not in waiting}
        problems = [f"probe-{node[:8]}: {said}" for node, answer in answered.items() if (said := _problem(answer))]
        ended = [
            f"{process} on probe-{node[:8]}'s host"
            for node, answer in answered.items()
            if not _problem(answer)
            for process in ray.get(answer)
        ]
        return ended, problems + [f"the probe of {name} did not answer" for name in self.lost.values()]


def _unanswered(asked: dict[str, Any], seconds: float) -> list[str]:
    import ray

    _, waiting = ray.wait(list(asked.values()), num_returns=len(asked), timeout=seconds)
    return [node for node, answer in asked.items() if answer in waiting]


def _problem(answer: Any) -> str:
    """What an actor's method failed with, in one line; empty if it did not."""
    import ray

    try:
        ray.get(answer)
    except ray.exceptions.RayError as error:
        return (str(error).strip().splitlines() or [type(error).__name__])[-1]
    return ""


def _names(nodes: Iterable[str]) -> dict[str, str]:
    import ray

    names = {node["NodeID"]: str(node["NodeManagerHostname"]) for node in ray.nodes()}
    return {node: names.get(node, node) for node in nodes}
