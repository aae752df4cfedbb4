"""The half of `seatrial inspect` that runs in the cluster: `python -m seatrial.driver.inspect`, a Ray job without CPUs.

It joins the Ray that is there and starts one actor without CPUs on each host of the training. The actors watch for a
window and end with it; what they saw is printed as one marked block. It writes no file and touches no process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from types import FrameType
from typing import Any

from seatrial.driver import ray_internals
from seatrial.driver.block import encode
from seatrial.errors import EXIT_ENDED_EARLY, EXIT_OK, Interrupted
from seatrial.events.writer import NODE_VARIABLE
from seatrial.probe.observed import HostObserver

REQUEST_VARIABLE = "SEATRIAL_INSPECT"  # `{"job": hex, "seconds": window, "nodes": {Ray node id: [pid]}}`
START_S = 60.0
SLACK_S = 30.0  # what looking takes beyond the window
POLL_S = 0.5


def main() -> int:
    """Watches and prints; returns 0, or 4 where no host could be watched."""
    request = json.loads(os.environ[REQUEST_VARIABLE])
    import ray

    ray.init(address="auto", log_to_driver=False, logging_level="WARNING")
    observers = HostObservers(request["job"])
    signal.signal(signal.SIGTERM, observers.stop)  # ray.init puts its own in place
    try:
        seen = observers.carry_out(request["nodes"], float(request["seconds"]))
    except Interrupted as error:
        print(f"seatrial: {error}", file=sys.stderr)
        return EXIT_ENDED_EARLY
    finally:
        observers.close()
        ray.shutdown()
    sys.stdout.flush()
    left = memoryview(encode(seen).encode())
    while left:  # past Python's buffer: nothing else may write in between
        left = left[os.write(sys.stdout.fileno(), left) :]
    return EXIT_OK if seen["hosts"] else EXIT_ENDED_EARLY


class HostObservers:
    """One actor without CPUs on each host. It is polled, so that a request to stop is heard in between."""

    def __init__(self, job: str):
        self._job = job
        self._actors: dict[str, Any] = {}
        self._problems: dict[str, str] = {}
        self._stopped = False

    def stop(self, _: int, __: FrameType | None) -> None:
        """A signal's handler: an exception would be swallowed where Ray is waited for."""
        self._stopped = True

    def close(self) -> None:
        """Ends the actors, whatever they do."""
        import ray

        for actor in self._actors.values():
            ray.kill(actor)

    def carry_out(self, nodes: dict[str, list[int]], seconds: float) -> dict[str, Any]:
        """What was seen by Ray node id in `hosts`, and in `problems` why nothing was. Raises Interrupted."""
        import ray

        alive = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        self._problems = dict.fromkeys(nodes.keys() - alive, "Ray has no such node alive any more")
        self._actors = {node: _observer(node, pids, self._job) for node, pids in nodes.items() if node in alive}
        begun = self._answers({node: actor.begin.remote(seconds) for node, actor in self._actors.items()}, START_S)
        hosts: dict[str, Any] = {}
        self._rest(seconds if begun else 0.0)
        deadline = time.monotonic() + SLACK_S
        while waiting := begun.keys() - hosts.keys() - self._problems.keys():
            if time.monotonic() > deadline:
                self._problems |= dict.fromkeys(waiting, f"its observer was not done after {seconds + SLACK_S:g} s")
                break
            asked = {node: self._actors[node].seen.remote() for node in waiting}
            answers = self._answers(asked, max(POLL_S, deadline - time.monotonic()))
            hosts |= {node: told for node, told in answers.items() if told is not None}
            time.sleep(POLL_S)
        return {
            "ray": ray.__version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "hosts": hosts,
            "problems": self._problems,
        }

    def _rest(self, seconds: float) -> None:
        """Asks for nothing while the observers look: it would cost the hosts more than they do. Raises Interrupted."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, POLL_S))
            if self._stopped:
                raise Interrupted("stopped on request")

    def _answers(self, asked: dict[str, Any], seconds: float) -> dict[str, Any]:
        """What each node answers within some seconds. For a node that does not, the reason is noted as its problem."""
        import ray

        deadline, waiting = time.monotonic() + seconds, list(asked.values())
        while waiting and time.monotonic() < deadline:
            _, waiting = ray.wait(waiting, num_returns=len(waiting), timeout=POLL_S)
            if self._stopped:
                raise Interrupted("stopped on request")
        answers: dict[str, Any] = {}
        for node, reference in asked.items():
            if reference in waiting:
                self._problems[node] = f"its observer did not answer within {seconds:.0f} s"
                continue
            try:
                answers[node] = ray.get(reference)
            except ray.exceptions.RayError as error:
                self._problems[node] = (str(error).strip().splitlines() or [type(error).__name__])[-1][:300]
        return answers


class SeatrialObserver(HostObserver):
    """What Ray shows under this name. It knows where its own host's Ray keeps its logs."""

    def __init__(self, pids: list[int], job: str):
        super().__init__(pids, job, str(ray_internals.logs_folder()))


def _observer(node: str, pids: list[int], job: str) -> Any:
    """Starts an observer in the image's own interpreter. Where a node has no room for it, it waits and is given up."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    actor = ray.remote(num_cpus=0, max_restarts=0)(SeatrialObserver).options(
        scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
        runtime_env={"env_vars": {NODE_VARIABLE: node}},
    )
    return actor.remote(pids, job)


if __name__ == "__main__":
    sys.exit(main())
