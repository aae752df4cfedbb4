"""The Ray of one run, and its groups of workers. Written to the public API of Ray 2.56; the rest is `ray_internals`."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import seatrial
from seatrial.driver import ray_internals
from seatrial.driver.code import seatrial_layer
from seatrial.driver.finish import collect_job_logs
from seatrial.driver.probes import Probes
from seatrial.driver.watchdog import stack_file
from seatrial.events import Layout
from seatrial.events.writer import NODE_VARIABLE
from seatrial.probe import processes
from seatrial.probe.nccl import collect
from seatrial.probe.processes import MEMBER_VARIABLE, RUN_VARIABLE, STACKS, TRAIN_CONTROLLER
from seatrial.trial import Trial

# Read by Ray Train on the driver when it is imported; a user's own setting wins.
DEFAULTS = {
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "1.0",  # how late a dead worker is noticed; 2 s by default
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # or every relative path would break
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
PRIVATE_DEFAULTS = {
    "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0",  # this machine is not drained; the watcher costs the ranks CPU
}
LOGS_TIMEOUT_S = 60.0
OBJECT_STORE_BYTES = 100 << 20  # the training passes nothing through the object store


class TrainWorkerGroup:
    """One group of Ray Train workers, from its start to its end.

    Ray is waited for in a thread: an exception that a signal handler raises inside `ray.get` is swallowed there.
    """

    def __init__(self, fit: Callable[[], None], root: Path):
        self._fit, self._root = fit, root
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._wait, name="ray-train", daemon=True)
        self._thread.start()

    def _wait(self) -> None:
        try:
            self._fit()
        except BaseException as error:
            self._error = error

    def ended(self, within: float) -> bool:
        """Whether the group has ended, after at most so many seconds. Raises what it ended with."""
        self._thread.join(within)
        if self._thread.is_alive():
            return False
        if self._error:
            raise self._error
        return True

    def kill(self, patience: float = 20.0) -> None:
        """Ends Ray Train's controller, which runs on the driver's machine; what it owns goes with it."""
        deadline = time.monotonic() + patience
        while self._thread.is_alive() and time.monotonic() < deadline:
            for process in processes.of_run(self._root):
                if process.command.startswith(f"ray::{TRAIN_CONTROLLER}"):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(process.pid, signal.SIGKILL)
            self._thread.join(0.5)


class RaySession:
    """Ray, with one probe a host: a private one with its session under `temporary`, or the one at `address`."""

    def __init__(self, trial: Trial, layout: Layout, temporary: Path | None = None, address: str = ""):
        self._private = not address
        for name, value in {**DEFAULTS, **(PRIVATE_DEFAULTS if self._private else {})}.items():
            os.environ.setdefault(name, value)
        self._trial, self._layout = trial, layout
        self.probes = Probes(layout)
        import ray

        where = self._of_its_own(temporary) if self._private else self._already_there(address)
        ray.init(log_to_driver=False, **where)
        os.environ[NODE_VARIABLE] = ray.get_runtime_context().get_node_id()
        self.address = str(ray.get_runtime_context().gcs_address)
        self._own = {process.pid for process in processes.of_run(layout.root)}

    def _of_its_own(self, temporary: Path | None) -> dict[str, Any]:
        return {
            "address": "local",
            "num_cpus": max(self._trial.scaling.num_workers, len(os.sched_getaffinity(0))),
            "include_dashboard": False,
            "object_store_memory": OBJECT_STORE_BYTES,
            "_temp_dir": str(temporary),
        }

    def _already_there(self, address: str) -> dict[str, Any]:
        """Its workers inherit nothing of this process: the job itself carries the mark of the run."""
        return {"address": address, "runtime_env": {"env_vars": {RUN_VARIABLE: str(self._layout.root)}}}

    def start_group(self, role: str) -> TrainWorkerGroup:
        """Trains (`rank`) or reloads (`reload`) with a new group of worker processes."""
        return TrainWorkerGroup(lambda: self._fit(role), self._layout.root)

    def owns(self, pid: int) -> bool:
        """Whether a process is one of this Ray's own: it was there as soon as Ray was."""
        return pid in self._own

    def packages(self) -> list[str]:
        """Packages that Ray installs for the workers."""
        return list(self._trial.runtimeEnv.pip)

    def variables(self) -> dict[str, str]:
        """Environment variables for every process of a team's own script. Which of them are ranks is known later.

        None is marked as a rank: Ray's own actors for all jobs may be started by this one, and outlive it.
        """
        given: dict[str, str] = self._runtime_env()["env_vars"]
        del given[MEMBER_VARIABLE]
        logs = collect.variables(self._layout.root.name, 1) if self._trial.scaling.gpus_per_worker else {}
        return {**logs, **given}

    def _fit(self, role: str) -> None:
        from ray.train import FailureConfig, RunConfig, ScalingConfig
        from ray.train.torch import TorchTrainer

        from seatrial.driver.backend import NodeTorchConfig

        scaling, gpu = self._trial.scaling, self._trial.scaling.gpus_per_worker > 0
        limits = (
            self._trial.workload.timeout
        )  # a rank may wait for another's download; the watchdog is what ends a hang
        TorchTrainer(
            _member,
            train_loop_config={"root": str(self._layout.root), "role": role},
            torch_config=NodeTorchConfig(
                backend="cpu:gloo,cuda:nccl" if gpu else "gloo", timeout_s=int(max(limits.start, limits.step)) + 60
            ),
            scaling_config=ScalingConfig(
                num_workers=scaling.num_workers, use_gpu=gpu, resources_per_worker={"GPU" if gpu else "CPU": 1}
            ),
            run_config=RunConfig(
                name=f"ray-{role}",
                storage_path=str(self._layout.root),
                failure_config=FailureConfig(max_failures=0, controller_failure_limit=0),
                worker_runtime_env=self._runtime_env(),
            ),
        ).fit()

    def _runtime_env(self) -> dict[str, Any]:
        asked = self._trial.runtimeEnv
        path = _package_path(asked.env_vars.get("PYTHONPATH", os.environ.get("PYTHONPATH", "")))
        root = str(self._layout.root)
        variables = {RUN_VARIABLE: root, MEMBER_VARIABLE: root, **asked.env_vars, "PYTHONPATH": path}
        if self._private and "GLOO_SOCKET_IFNAME" not in os.environ:
            # All ranks are on this machine: no VPN and no stale host name may come between them.
            variables.setdefault("GLOO_SOCKET_IFNAME", "lo")
        if self._trial.cluster.require:
            variables.setdefault(collect.PINNED, collect.OFI_NETWORK)
        return {"env_vars": variables, **({"pip": list(asked.pip)} if asked.pip else {})}

    def keep_logs(self) -> None:
        """Copies what this job's workers wrote on each host; a private Ray's logs are collected with its session.

        Raises the first host's error, once all hosts are done. A host that did not answer before is not asked.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        if self._private:
            return
        job = ray.get_runtime_context().get_job_id()
        waiting = []
        for node in (node for node in ray.nodes() if node["Alive"] and node["NodeID"] not in self.probes.lost):
            place = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(num_cpus=0, max_retries=0)(_keep_logs).options(scheduling_strategy=place)
            target = self._layout.logs / "ray" / node["NodeID"][:8]
            waiting.append(task.remote(str(target), job, self._trial.runtimeEnv.env_vars))
        ray.wait(waiting, num_returns=len(waiting), timeout=LOGS_TIMEOUT_S)
        ray.get(waiting, timeout=0)

    def detached(self) -> frozenset[int]:
        """Pids, on this host, of actors that outlive the job that started them: Ray keeps some for all jobs."""
        import ray

        if self._private:
            return frozenset()
        here = ray.get_runtime_context().get_node_id()
        return frozenset(
            actor["Pid"]
            for actor in ray_internals.actor_table()
            if actor["IsDetached"] and actor["Address"]["NodeID"] == here
        )

    def close(self) -> None:
        """Ends a private Ray with all its processes. Of a Ray that was there before, only this job ends."""
        import ray

        ray.shutdown()


def _keep_logs(target: str, job: str, environment: dict[str, str]) -> None:
    """Runs on the host whose logs it copies."""
    collect_job_logs(ray_internals.logs_folder(), Path(target), job, environment)


def _package_path(asked: str) -> str:
    """This package's own place, then the path that was asked for: the workers run the code that runs here."""
    own = [str(Path(part).parent) for part in seatrial.__path__]  # several where it comes in zips
    others = [path for path in asked.split(os.pathsep) if path and path not in own]
    return os.pathsep.join((*own, *others))


def _log_nccl(run: str, rank: int) -> None:
    """Has NCCL log to a file of this process, which this host's probe reads. A setting that is there wins.

    NCCL reads its settings with the first collective, which is the training's first roll call.
    """
    for name, value in collect.variables(run, 1, rank).items():
        os.environ.setdefault(name, value)


def _member(config: dict[str, str]) -> None:
    """One rank, in a Ray Train worker."""
    import ray.train
    import ray.train.torch

    from seatrial.train import loop, reload
    from seatrial.train.context import open_context

    os.environ[NODE_VARIABLE] = ray.get_runtime_context().get_node_id()
    me = ray.train.get_context()
    root, role = Path(config["root"]), config["role"]
    # The file stays open as long as the process: faulthandler writes to its descriptor from a signal handler.
    stacks = stack_file(Layout(root), role, me.get_world_rank()).open("w")
    faulthandler.register(STACKS, file=stacks, all_threads=True)
    if role == "rank" and ray.train.torch.get_device().type == "cuda":
        _log_nccl(root.name, me.get_world_rank())
    context = open_context(
        root,
        role=role,
        attempt=1,
        rank=me.get_world_rank(),
        world_size=me.get_world_size(),
        local_rank=me.get_local_rank(),
        device=ray.train.torch.get_device(),
    )
    context.events.write(seatrial_layer())
    (loop if role == "rank" else reload).run(context)
