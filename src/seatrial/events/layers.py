"""Layers of the environment that evidence reads, with the types of what they hold; other layers are only compared.

`Environment.content` is a document of its layer. What a layer holds beyond the fields here stays in the record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from seatrial.events.base import Count, Decimal, Nonsense, Seconds
from seatrial.events.planned import Positive
from seatrial.events.reader import Stream
from seatrial.events.schema import Environment

Counters = dict[str, dict[str, Decimal]]
Connections = tuple[tuple[str, str, Decimal, Decimal], ...]


class Layer(BaseModel):
    """What one layer holds. `unknown` says why it could not be found out."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    unknown: str = ""

    def content(self) -> dict[str, Any]:
        """The layer as an event holds it: only what was found out."""
        return self.model_dump(mode="json", exclude_unset=True)


class Interface(Layer):
    addresses: tuple[str, ...] = ()


class Network(Layer):
    """The interfaces of a host, by name."""

    interfaces: dict[str, Interface] = {}

    @property
    def addresses(self) -> dict[str, tuple[str, ...]]:
        return {name: link.addresses for name, link in self.interfaces.items()}


class Packages(Layer):
    """Packages of one interpreter: name and version."""

    installed: dict[str, str] = {}


class Torch(Layer):
    backend: str = ""


class Unit(Layer):
    """An FSDP unit in elements; `padded` is what a collective of it carries."""

    name: str = ""
    tensors: Count
    trainable: Count = 0
    frozen: Count = 0
    padded: Count
    padded_trainable: Count


class Sharding(Layer):
    """How a model is sharded: what its messages follow from. `mesh` is (replicate, shard)."""

    units: tuple[Unit, ...]
    mesh: tuple[Positive, Positive]
    param_dtype: str
    reduce_dtype: str
    reshard_after_forward: bool


class PodSeen(Layer):
    """A pod by its Ray container. Before the node has pulled the image, `image_id` is empty."""

    name: str
    ip: str = ""
    image: str = ""
    image_id: str = ""


class Pods(Layer):
    pods: tuple[PodSeen, ...] = ()


class Job(Layer):
    """The job that was looked at. `problems`: nodes without an observer's answer, and why."""

    status: str = ""
    problems: dict[str, str] = {}
    cut_short: str = ""


class TrainWorkerSeen(Layer):
    world_rank: int
    node_id: str
    pid: int


class TrainAttemptSeen(Layer):
    status: str
    workers: tuple[TrainWorkerSeen, ...] = ()


class TrainRunSeen(Layer):
    name: str
    status: str
    storage_path: str | None = None
    attempts: tuple[TrainAttemptSeen, ...] = ()


class Train(Layer):
    """Ray Train's own state of a job; `runs` is None where it keeps none."""

    runs: tuple[TrainRunSeen, ...] | None = None


class Kubernetes(Layer):
    """A resource in a cluster. Its pods are whole documents: the record shows all of them."""

    pods: tuple[dict[str, Any], ...] = ()
    resource: str | None = None
    status: dict[str, Any] | None = None
    effective: Any = None
    effective_unknown: str = ""
    warnings: Any = None


class RayVersion(Layer):
    version: str = ""


class ProcessSeen(Layer):
    """A training process as the observer of its host saw it."""

    libraries: dict[str, Any] = {}
    python: str | None = None
    devices: tuple[str, ...] = ()
    nccl_threads: tuple[Any, ...] = ()
    settings: dict[str, Any] = {}
    packages: str = ""
    rank: dict[str, Any] | None = None


class WindowSeen(Layer):
    """What moved on a host between the first and the last look. `gone`: processes that ended meanwhile.

    Connections are `[local, remote, bytes sent, bytes received]` by process; `unknown` under that key says why not.
    """

    seconds: Seconds
    counters: tuple[Counters, Counters]
    backwards: tuple[str, ...] = ()
    connections: dict[str, Connections | str] = {}
    gone: dict[str, str] = {}


class GpusSeen(Layer):
    """What nvidia-smi said of a host's GPUs, once; None where it said nothing."""

    gpus: tuple[dict[str, Any], ...] | None = None


class AttemptSeen(Layer):
    run: str
    workers: Any = None


class HostSeen(Layer):
    """Everything that the observer of one host saw, under the host's Ray node id."""

    node: str
    host: str
    machine: str = ""
    name: str
    network: Network = Network()
    processes: dict[Annotated[str, Field(pattern=r"^[0-9]{1,12}$")], ProcessSeen] = {}
    not_there: tuple[int, ...] = ()
    window: WindowSeen
    attempts: tuple[AttemptSeen, ...] = ()
    checkpoint: dict[str, Any] | None = None
    gpus: GpusSeen = GpusSeen()


NAMES: dict[type[Layer], str] = {
    HostSeen: "observation",
    Job: "job",
    Kubernetes: "kubernetes",
    Network: "network",
    Packages: "packages",
    Pods: "pods",
    RayVersion: "ray",
    Sharding: "sharding",
    Torch: "torch",
    Train: "train",
}
L = TypeVar("L", bound=Layer)


def layers(streams: Iterable[Stream], shape: type[L]) -> list[L]:
    """Every layer of a shape in some streams, in order. Raises Nonsense for one that is not of its shape."""
    return [
        parsed(event, shape) for stream in streams for event in stream.all(Environment) if event.layer == NAMES[shape]
    ]


def layer(stream: Stream, shape: type[L]) -> L | None:
    """The last layer of a shape in a stream. Raises Nonsense where it is not of its shape."""
    found = layers([stream], shape)
    return found[-1] if found else None


def parsed(event: Environment, shape: type[L]) -> L:
    """The content of a layer. Raises Nonsense where it has another shape."""
    try:
        return shape.model_validate(event.content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Nonsense(f"layer {event.layer}: {where}: {first['msg']}") from None
