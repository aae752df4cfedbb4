"""Everything that was seen of a job that already ran, by whom: read from the files of a look."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from seatrial.events import Stream
from seatrial.events.layers import HostSeen, Job, Kubernetes, ProcessSeen, RayVersion, Train, TrainWorkerSeen, layer
from seatrial.events.schema import Environment
from seatrial.evidence.run import Run


@dataclass(frozen=True)
class SeenProcess:
    """One training process, as the observer of its host saw it. `number` orders them: by rank where that is known."""

    number: int
    node: str
    host: str
    name: str
    pid: int
    rank: int | None
    told: ProcessSeen = field(repr=False)
    gone: str = ""

    @property
    def label(self) -> str:
        return f"rank {self.rank}" if self.rank is not None else f"process {self.pid} on {self.name}"


@dataclass(frozen=True)
class Seen:
    """What the observers, Ray and Kubernetes said. A source that was not asked said nothing."""

    run: Run
    hosts: dict[str, HostSeen]  # those with training processes, by Ray node id
    others: tuple[HostSeen, ...]  # that were asked for Ray Train's logs alone
    processes: tuple[SeenProcess, ...]
    job: Job
    job_document: dict[str, object]
    train: Train
    kubernetes: Kubernetes
    ray: RayVersion
    ray_document: dict[str, object]
    problems: dict[str, str]  # nodes without an observer's answer


def read(run: Run) -> Seen:
    """What the files of a look hold. A file that is not whole holds nothing. Raises Nonsense for another shape."""
    job, train = layer(run.driver, Job) or Job(), layer(run.driver, Train) or Train()
    hosts: dict[str, HostSeen] = {}
    problems = dict(job.problems)
    for stream in run.probes:
        told = layer(stream, HostSeen)
        if told is None or not stream.closed:
            problems[stream.path] = stream.why_incomplete() or "holds nothing that an observer saw"
        else:
            hosts[told.node] = told
    training = {node: told for node, told in hosts.items() if told.processes or told.not_there}
    return Seen(
        run=run,
        hosts=training,
        others=tuple(told for node, told in hosts.items() if node not in training),
        processes=_processes(training, train),
        job=job,
        job_document=_document(run.driver, "job"),
        train=train,
        kubernetes=layer(run.driver, Kubernetes) or Kubernetes(),
        ray=layer(run.driver, RayVersion) or RayVersion(),
        ray_document=_document(run.driver, "ray"),
        problems=problems,
    )


def _document(stream: Stream, name: str) -> dict[str, object]:
    """A layer as it was written, to be shown whole."""
    return next((dict(e.content) for e in stream.all(Environment) if e.layer == name), {})


def _processes(hosts: dict[str, HostSeen], train: Train) -> tuple[SeenProcess, ...]:
    by_ray = {(worker.node_id, worker.pid): worker.world_rank for worker in _workers_now(train)}
    found = []
    for node, told in hosts.items():
        for pid, process in told.processes.items():
            logged = (process.rank or {}).get("world_rank")
            known = isinstance(logged, int) and not isinstance(logged, bool)
            rank = by_ray.get((node, int(pid)), logged if known else None)
            gone = told.window.gone.get(pid, "")
            found.append(SeenProcess(0, node, told.host, told.name, int(pid), rank, process, gone))
    found.sort(key=lambda process: (process.rank is None, process.rank or 0, process.name, process.pid))
    return tuple(replace(process, number=number) for number, process in enumerate(found))


def _workers_now(train: Train) -> list[TrainWorkerSeen]:
    """The workers of the newest attempt of each run, by Ray Train's own state; none where it keeps none."""
    return [worker for run in train.runs or () for attempt in run.attempts[-1:] for worker in attempt.workers]
