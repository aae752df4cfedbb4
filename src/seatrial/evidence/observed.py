"""Facts about a job that already ran when it was looked at: what its hosts' observers, Ray and Kubernetes said.

Nothing here was told by the training itself. What only a training that is told beforehand can show is unknown, each
time with the reason.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from seatrial.events import Stream
from seatrial.events.schema import Environment
from seatrial.evidence import observed_environment, observed_transport
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run
from seatrial.trial.claims import KINDS

LAYER = "observation"  # the environment layer of a host's file that holds what its observer saw
BY_RAY = "Ray's dashboard"
# What the judges of a run ask first for, and why nobody who only looks can answer.
UNSEEN = {
    "execution.status": "how a job ends cannot be seen while it runs",
    "execution.planned_steps": "what a script plans is in the script: `workload: {script: …}` runs it as a trial",
    "execution.roll_calls": "a roll call is made by the ranks: `seatrial.observe` in the script does it",
    "execution.gradient_roll_calls": "gradients are compared by the ranks: `seatrial.observe` in the script does it",
    "performance.tokens_per_second": "tokens and step times are the script's: `seatrial.observe` in it counts them",
    "performance.step_time": "step times are the script's: `seatrial.observe` in it takes them",
    "performance.clocks": "step times are the script's: `seatrial.observe` in it takes them",
    "learning.data": "what is learnt is seen by an evaluation before and after, and looking evaluates nothing",
    "recovery.status": "no checkpoint is reloaded by looking at a job: a trial does it",
    "transport.busbw": "single collectives are not timed, and the plan of messages is not known",
}


@dataclass(frozen=True)
class Process:
    """One training process, as the observer of its host saw it. `number` orders them: by rank where that is known."""

    number: int
    node: str
    host: str
    name: str
    pid: int
    rank: int | None
    told: dict[str, Any] = field(repr=False)
    gone: str = ""

    @property
    def label(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else f"process {self.pid} on {self.name}"


@dataclass(frozen=True)
class Seen:
    """Everything that was seen, by whom."""

    run: Run
    hosts: dict[str, dict[str, Any]]  # those with training processes, by Ray node id
    others: tuple[dict[str, Any], ...]  # that were asked for Ray Train's logs alone
    processes: tuple[Process, ...]
    layers: dict[str, dict[str, Any]]  # of the client: job, train, kubernetes, ray
    problems: dict[str, str]  # nodes without an observer's answer


def is_observed(run: Run) -> bool:
    """Whether this is the account of a job that was looked at, and not of a run of a trial."""
    return run.plan.get("observed") is True


def ended_early(run: Run) -> str:
    """Empty if the looking was carried out as asked, else why not."""
    job: dict[str, Any] = next((e.content for e in run.driver.all(Environment) if e.layer == "job"), {})
    return str(job.get("cut_short") or ("" if run.driver.closed else "the looking ended before it was done"))


def facts(run: Run) -> dict[str, dict[str, Fact]]:
    """All facts, kinds apart. Files that a sound writer never wrote establish nothing."""
    found: dict[str, dict[str, Fact]] = {kind: {} for kind in KINDS}
    try:
        every = list(_every(run))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"what was seen makes no sense: {type(error).__name__}: {error}"
        every = [Fact(f"{kind}.error", "error", reason=reason) for kind in KINDS]
    for fact in every:
        found[fact.id.partition(".")[0]][fact.id] = fact
    return found


def _every(run: Run) -> Iterator[Fact]:
    seen = read(run)
    yield from (unknown(name, reason, "nobody") for name, reason in UNSEEN.items())
    yield from (_job(seen), _ranks(seen), _attempts(seen), _checkpoint(seen), _gpus(seen))
    yield from observed_transport.facts(seen)
    yield from observed_environment.facts(seen)


def read(run: Run) -> Seen:
    """What the files of a look hold. A file that is not whole holds nothing."""
    layers = {e.layer: e.content for e in run.driver.all(Environment)}
    hosts: dict[str, dict[str, Any]] = {}
    problems = dict(layers.get("job", {}).get("problems") or {})
    for stream in run.probes:
        told = _told(stream)
        if told is None or not stream.closed:
            problems[stream.path] = stream.why_incomplete() or "holds nothing that an observer saw"
        else:
            hosts[str(told["node"])] = told
    training = {node: told for node, told in hosts.items() if told["processes"] or told["not_there"]}
    others = tuple(told for node, told in hosts.items() if node not in training)
    return Seen(run, training, others, _processes(training, layers), layers, problems)


def _told(stream: Stream) -> dict[str, Any] | None:
    return next((e.content for e in stream.all(Environment) if e.layer == LAYER), None)


def _processes(hosts: dict[str, dict[str, Any]], layers: dict[str, dict[str, Any]]) -> tuple[Process, ...]:
    by_ray = {
        (str(worker["node_id"]), int(worker["pid"])): int(worker["world_rank"])
        for worker in _workers_now(layers.get("train", {}))
    }
    rows = []
    for node, told in hosts.items():
        for pid, process in told["processes"].items():
            logged = (process.get("rank") or {}).get("world_rank")
            rank = by_ray.get((node, int(pid)), logged)
            gone = told["window"]["gone"].get(pid, "")
            rows.append((rank is None, rank or 0, str(told["name"]), int(pid), rank, node, told, process, gone))
    rows.sort(key=lambda row: row[:4])
    return tuple(
        Process(number, node, str(told["host"]), name, pid, rank, process, gone)
        for number, (_, _, name, pid, rank, node, told, process, gone) in enumerate(rows)
    )


def _workers_now(train: dict[str, Any]) -> list[dict[str, Any]]:
    """The workers of the newest attempt of each run, by Ray Train's own state; none where it keeps none."""
    return [w for run in train.get("runs", []) for attempt in run["attempts"][-1:] for w in attempt["workers"]]


def _job(seen: Seen) -> Fact:
    job = {k: v for k, v in seen.layers.get("job", {}).items() if k not in ("problems", "cut_short")}
    if not job.get("status"):
        return unknown("execution.job", str(job.get("unknown") or "Ray's dashboard was not asked"), BY_RAY)
    return Fact("execution.job", value=job, witness=BY_RAY)


def _ranks(seen: Seen) -> Fact:
    """Which rank runs where. A rank's number is Ray Train's word, by its state or in its log; the process was seen."""
    name, witness = "execution.processes", "observers of the hosts (processes), Ray Train (their ranks)"
    if not seen.processes:
        why = next(iter(seen.problems.values()), "no host was watched")
        return unknown(name, f"no training process was seen: {why}", witness)
    rows = [
        {
            "rank": process.rank,
            "host": process.name,
            "node": process.node,
            "pid": process.pid,
            "machine": seen.hosts[process.node]["machine"],
            **({"gone": process.gone} if process.gone else {}),
        }
        for process in seen.processes
    ]
    absent = {told["name"]: told["not_there"] for told in seen.hosts.values() if told["not_there"]}
    value = {
        "processes": len(rows),
        "hosts": len({process.host for process in seen.processes}),
        "by_rank": rows,
        "rank_unknown": sum(process.rank is None for process in seen.processes),
        "listed_by_ray_but_not_there": absent,
        "hosts_not_watched": seen.problems,
    }
    return Fact(name, value=value, witness=witness)


def _attempts(seen: Seen) -> Fact:
    """By Ray Train's state where it is kept, else by what its controllers wrote into logs on the hosts watched."""
    name, train = "execution.attempts_seen", seen.layers.get("train", {})
    if "runs" in train:
        value = [
            {"run": run["name"], "status": run["status"], "attempts": [a["status"] for a in run["attempts"]]}
            for run in train["runs"]
        ]
        return Fact(name, value=value, witness="Ray Train's state")
    logged = [attempt for told in (*seen.hosts.values(), *seen.others) for attempt in told["attempts"]]
    if logged:
        runs = sorted({attempt["run"] for attempt in logged})
        groups = {run: [a["workers"] for a in logged if a["run"] == run] for run in runs}
        value = [{"run": run, "attempts": len(sizes), "workers_of_each": sizes} for run, sizes in groups.items()]
        return Fact(name, value=value, witness="the log of Ray Train's controller")
    why = str(train.get("unknown") or "Ray Train was not asked")
    return unknown(name, f"{why}; and no controller's log was found on the hosts watched", "Ray Train")


def _checkpoint(seen: Seen) -> Fact:
    """Where checkpoints go, and how old the newest was when it was looked at. That one loads is not shown by this."""
    name = "recovery.newest_checkpoint"
    logged = [told["checkpoint"] for told in seen.hosts.values() if told["checkpoint"]]
    storage = [run.get("storage_path") for run in seen.layers.get("train", {}).get("runs", [])]
    if logged:
        newest = min(logged, key=lambda each: float(each["age_s"]))
        return Fact(name, value={**newest, "storage": storage or None}, witness="the log of Ray Train's workers")
    why = "no worker on the hosts watched has reported a checkpoint in the part of its log that was read"
    return unknown(name, f"{why}; storage: {', '.join(map(str, storage))}" if storage else why, "Ray Train's logs")


def _gpus(seen: Seen) -> Fact:
    """One look at the end of the window: how busy they were then, not over the window."""
    name, witness = "performance.gpu_use", "nvidia-smi on each host, once"
    told = {host["name"]: host["gpus"] for host in seen.hosts.values()}
    if known := {host: gpus["gpus"] for host, gpus in told.items() if "gpus" in gpus}:
        silent = {host: gpus["unknown"] for host, gpus in told.items() if "unknown" in gpus}
        return Fact(name, value={"by_host": known, "not_told": silent}, witness=witness)
    reasons = sorted({str(gpus.get("unknown")) for gpus in told.values()})
    return unknown(name, "; ".join(reasons) or "no host was watched", witness)
