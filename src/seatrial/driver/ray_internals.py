"""Every interface of Ray that is not public and that a run relies on. No other module imports one.

`INTERNALS` lists them: what each is in Ray, which parts of it are used, and at which version that was read.
`tests/ray/test_ray_internals.py` compares the list with the Ray that is installed. Ray is imported inside functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.probe.processes import TRAIN_CONTROLLER, TRAIN_WORKER
from seatrial.probe.train_logs import CONTROLLER_LOGS, WORKER_LOGS

READ_AT = "2.58.1"

STATE_TRACKING = "RAY_TRAIN_ENABLE_STATE_TRACKING"  # set to 1 for a driver, it starts the state actor
STATE_ACTOR, STATE_NAMESPACE = "train_v2_state_actor", "_train_state_actor"
STATE_ROUTE = "/api/train/v2/runs/v1"  # of the dashboard
WORKER_CLASS, CONTROLLER_CLASS = "RayTrainWorker", "TrainController"  # of Ray Train's actors
SNAPSHOT = "checkpoint_manager_snapshot.json"  # a run's checkpoints, in its storage folder
JOB_STOP_WAIT = "RAY_JOB_STOP_WAIT_TIME_S"  # in a job's own environment: seconds from SIGTERM to SIGKILL
IGNORE_GITIGNORE = "RAY_RUNTIME_ENV_IGNORE_GITIGNORE"


@dataclass(frozen=True)
class Internal:
    """One interface: its name in Ray, the parts of it that are used, what they are used for, and the version read.

    Parts are parameters of a function, fields of a model, methods of a class, keys of a dict, or words of a text.
    """

    name: str
    parts: tuple[str, ...]
    use: str
    read_at: str = READ_AT


_V2 = "ray.train.v2._internal"
_SCHEMA = f"{_V2}.state.schema"
INTERNALS = (
    Internal("ray._private.state.jobs", ("JobID", "DriverPid", "DriverIPAddress"), "the Ray job of a driver's pid"),
    Internal("ray._private.state.actors", ("Pid", "IsDetached", "Address", "NodeID"), "actors that outlive their job"),
    Internal("ray._private.worker._global_node", ("get_logs_dir_path",), "where this node's session keeps its logs"),
    Internal(
        "ray._private.runtime_env.packaging.create_package",
        ("module_path", "target_path", "include_gitignore", "excludes"),
        "packs a script's folder as `ray job submit` does",
    ),
    Internal(
        "ray.train.torch.config._TorchBackend",
        ("worker_group", "backend_config"),
        "`on_start` makes the process group; `TorchConfig.backend_cls` chooses the class",
    ),
    Internal(
        f"{_V2}.execution.worker_group.WorkerGroup", ("execute",), "runs a function in every worker before `on_start`"
    ),
    Internal(f"{_V2}.state.state_actor", (STATE_ACTOR, STATE_NAMESPACE), "where the state actor is found"),
    Internal(
        f"{_V2}.state.state_actor.TrainStateActor",
        ("get_train_runs", "get_train_run_attempts"),
        "runs by id, and their attempts by run id and attempt id",
    ),
    Internal(
        f"{_SCHEMA}.TrainRun",
        ("id", "name", "job_id", "status", "status_detail", "run_settings"),
        "a run in the state actor's answer and in the dashboard's",
    ),
    Internal(f"{_SCHEMA}.RunSettings", ("run_config", "backend_config"), "a run's storage and backend; from 2.58 on"),
    Internal(f"{_SCHEMA}.RunConfig", ("storage_path",), "the folder that holds a run's own"),
    Internal(f"{_SCHEMA}.BackendConfig", ("config",), "`config['backend']` is the backend of torch.distributed"),
    Internal(
        f"{_SCHEMA}.TrainRunAttempt",
        ("attempt_id", "status", "status_detail", "start_time_ns", "workers"),
        "an attempt, as above",
    ),
    Internal(
        f"{_SCHEMA}.TrainWorker",
        ("world_rank", "local_rank", "node_id", "node_ip", "pid", "gpu_ids"),
        "a rank of an attempt, as above",
    ),
    Internal(f"{_SCHEMA}.TrainRunsResponse", ("train_runs",), f"the dashboard's answer to {STATE_ROUTE}"),
    Internal(f"{_SCHEMA}.DecoratedTrainRun", ("attempts",), "a run in that answer"),
    Internal("ray.dashboard.modules.train.train_head", (STATE_ROUTE, STATE_TRACKING), "the route, and its refusal"),
    Internal(f"{_V2}.execution.worker_group.worker.{WORKER_CLASS}", (TRAIN_WORKER,), "actors and processes of ranks"),
    Internal(
        f"{_V2}.execution.controller.controller.{CONTROLLER_CLASS}",
        (TRAIN_CONTROLLER,),
        "the actor and the process that own the ranks",
    ),
    Internal(f"{_V2}.logging.logging.LoggingManager", (WORKER_LOGS, CONTROLLER_LOGS), "the files of Ray Train's logs"),
    Internal(
        "ray._common.formatters.JSONFormatter",
        ("message", "process", "timestamp_ns"),
        "keys of a line of these logs",
    ),
    Internal(
        f"{_V2}.logging.logging.TrainContextFilter.LogKey",
        ("run_name", "world_rank", "local_rank", "node_rank"),
        "keys of a line of these logs",
    ),
    Internal("ray._common.filters.CoreContextFilter", ("job_id", "worker_id", "actor_id"), "keys of a line, too"),
    Internal(
        f"{_V2}.execution.worker_group.worker_group",
        ("Started training worker group of size ",),
        "the line that begins an attempt",
    ),
    Internal(
        f"{_V2}.execution.storage",
        ("Checkpoint successfully created at: ",),
        "the line of a checkpoint, followed by its `repr`",
    ),
    Internal(f"{_V2}.constants.CHECKPOINT_MANAGER_SNAPSHOT_FILENAME", (SNAPSHOT,), "the list of a run's checkpoints"),
    Internal(
        f"{_V2}.execution.checkpoint.checkpoint_manager",
        ("checkpoint_results", "checkpoint_dir_name"),
        "keys of that list",
    ),
    Internal("ray.dashboard.modules.job.job_supervisor", (JOB_STOP_WAIT,), "how long a job has to end"),
    Internal("ray.dashboard.modules.job.common.JOB_LOGS_PATH_TEMPLATE", ("job-driver-",), "the log of a job's driver"),
    Internal("ray._private.ray_logging.get_worker_log_file_name", ("{worker_name}-", "{job_id}-"), "workers' logs"),
    Internal(
        "ray._private.ray_constants",
        (IGNORE_GITIGNORE, "python-core-worker", "ray::IDLE"),
        "the switch of `ray job submit`, the core's logs beside a worker's, the title of a worker without work",
    ),
    Internal("ray._private.node", ("session_{",), "the folder of a private Ray's session"),
    Internal(
        "ray._private.worker",
        ("RAY_JOB_CONFIG_JSON_ENV_VAR", "RAY_OVERRIDE_JOB_RUNTIME_ENV"),
        "hand a runtime environment to the `ray.init` of a script",
    ),
)


def job_table() -> list[dict[str, Any]]:
    """The jobs of the cluster that this process has joined."""
    from ray._private.state import jobs

    return list(jobs())


def actor_table() -> list[dict[str, Any]]:
    """The actors of the cluster that this process has joined."""
    from ray._private.state import actors

    return list(actors().values())


def logs_folder() -> Path:
    """Where Ray keeps the logs of this node's session, for a process that has joined it."""
    from ray._private.worker import _global_node

    return Path(_global_node.get_logs_dir_path())


def pack_folder(folder: Path, archive: Path, *, gitignore: bool, excludes: Sequence[str]) -> None:
    """Writes a folder as a zip, as `ray job submit` would: without what .rayignore and, if asked, .gitignore name."""
    from ray._private.runtime_env.packaging import create_package

    create_package(str(folder), archive, include_gitignore=gitignore, excludes=list(excludes))


def torch_backend() -> Any:
    """The class whose `on_start(worker_group, backend_config)` makes the process group of a TorchTrainer."""
    from ray.train.torch.config import _TorchBackend

    return _TorchBackend
