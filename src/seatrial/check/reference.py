"""Deviations from a published reference configuration, as items to review: none of them is a verdict.

`ray-train-dlc-eks` is the manifest of AWS's EKS guide for the Ray Train container, as a table of its choices. What is
compared has KubeRay's and Kubernetes' defaults filled in: a default that is the reference's value is no deviation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from seatrial.check import inputs, operator
from seatrial.check.command import resources
from seatrial.check.manifest import RayGroup, accelerators
from seatrial.check.rule import DLC_EKS, nvidia
from seatrial.check.values import CannotTell, Value
from seatrial.errors import InputError, clean
from seatrial.hardware.images import dlc_repository
from seatrial.kube.apimachinery import quantity

Kind = Literal["workload", "convention", "risk"]
SOURCES = {"ray-train-dlc-eks": DLC_EKS}


@dataclass(frozen=True)
class Deviation:
    """One field in which a manifest differs from the reference."""

    path: str
    line: int
    kind: Kind  # follows from the workload, is a matter of the house, or is what the reference guards against
    field: str
    seen: str
    reference: str
    why: str

    def document(self) -> dict[str, Any]:
        return {**asdict(self), **inputs.place(self.path, self.line)}


@dataclass(frozen=True)
class _Choice:
    kind: Kind
    reference: str
    why: str
    of: Callable[[RayGroup], tuple[Value, str]]


def _limit(key: str) -> Callable[[RayGroup], tuple[Value, str]]:
    return lambda group: (group.limit(key), group.limit(key).raw)


def _param(key: str) -> Callable[[RayGroup], tuple[Value, str]]:
    def found(group: RayGroup) -> tuple[Value, str]:
        derived = operator.start_params(group).get(key)
        return group.params[key], str(derived.value) if derived else ""

    return found


def _env(name: str) -> Callable[[RayGroup], tuple[Value, str]]:
    return lambda group: (group.variable(name), group.variable(name).raw)


def _ports(group: RayGroup) -> tuple[Value, str]:
    ports = operator.head_ports(group.cluster)
    wanted = [name for name in ("gcs-server", "dashboard", "client") if name in ports]
    shown = wanted if len(wanted) == 3 else ports  # others beside these three do no harm
    return group.container["ports"], ", ".join(f"{name} {ports[name].value}" for name in shown)


def _prestop(group: RayGroup) -> tuple[Value, str]:
    command = group.container.at("lifecycle", "preStop", "exec", "command")
    return command, " ".join(part.raw for part in command)


def _mount(path: str) -> Callable[[RayGroup], tuple[Value, str]]:
    def found(group: RayGroup) -> tuple[Value, str]:
        mount = group.mounted_at(path)
        kind = next((key for key, _ in mount.volume.items() if key != "name"), "") if mount else ""
        return (mount.value if mount else group.container["volumeMounts"]), kind

    return found


def _equal_requests(group: RayGroup) -> tuple[Value, str]:
    """What decides the pod's class: cpu and memory; and the accelerators. A request that is left out is the limit."""
    keys = dict.fromkeys(("cpu", "memory", *(key for key, _ in accelerators(group))))
    same = all(
        group.limit(key) and _same(group.requested(key).require_known(), group.limit(key).require_known())
        for key in keys
    )
    return group.container["resources"], "equal to limits" if same else "other than limits"


def _image(group: RayGroup) -> tuple[Value, str]:
    image = group.image
    ours = not image.unknown and dlc_repository(image.raw) and ":train-ml-cuda" in image.raw
    return image, "the Ray Train container" if ours else image.raw


_BOTH = (
    _Choice("risk", "the Ray Train container", "its Ray, PyTorch, CUDA, NCCL and EFA are tested together", _image),
    _Choice(
        "convention", "persistentVolumeClaim", "checkpoints and data lie on one volume on every pod", _mount("/fsx")
    ),
    _Choice("risk", "emptyDir", "logs and spilled objects stay off the root disk", _mount("/tmp/ray")),
    _Choice("risk", "equal to limits", "the pod is Guaranteed and not the first to be evicted", _equal_requests),
    _Choice("convention", "/bin/sh -c ray stop", "a node leaves the cluster in order", _prestop),
)
_HEAD = (
    _Choice("risk", "0.0.0.0", "the dashboard is reached through the service", _param("dashboard-host")),
    _Choice("risk", "0", "no training lands on the head", _param("num-gpus")),
    _Choice("risk", "void", "the NVIDIA hook stays away from a pod without GPUs", _env("NVIDIA_VISIBLE_DEVICES")),
    _Choice("risk", "gcs-server 6379, dashboard 8265, client 10001", "KubeRay finds ports by these names", _ports),
    _Choice("workload", "4", "the driver and the GCS", _limit("cpu")),
    _Choice("workload", "16Gi", "the driver and the GCS", _limit("memory")),
)
_WORKER = (
    _Choice("workload", "4", "all GPUs of a g6.12xlarge", _param("num-gpus")),
    _Choice("workload", "4", "all GPUs of a g6.12xlarge", _limit("nvidia.com/gpu")),
    _Choice(
        "risk", "1", "EFA between nodes; without the device NCCL falls back to TCP", _limit("vpc.amazonaws.com/efa")
    ),
    _Choice("workload", "40", "leaves room for DaemonSets", _limit("cpu")),
    _Choice("workload", "160Gi", "leaves room for DaemonSets", _limit("memory")),
    _Choice("convention", "eth0", "the pod's one routable interface", _env("NCCL_SOCKET_IFNAME")),
)


def compare(paths: tuple[Path, ...], reference: str) -> list[Deviation]:
    """Every deviation of the resources that the paths name. Raises InputError."""
    if reference not in SOURCES:
        raise InputError(f"saw {clean(reference)}", field="reference", expected=f"one of {', '.join(SOURCES)}")
    found: list[Deviation] = []
    for manifest in resources(paths):
        if isinstance(manifest, InputError):
            raise manifest
        if cluster := manifest.cluster:
            version = cluster.ray_version
            if version.raw != "2.58.0":
                found.append(_deviation("risk", version, version.raw, "2.58.0", "the Ray of the reference's image"))
            for group in cluster.groups:
                if group.is_head or nvidia(group):
                    found += _group(group)
    return found


def _group(group: RayGroup) -> Iterator[Deviation]:
    for choice in (*(_HEAD if group.is_head else _WORKER), *_BOTH):
        try:
            value, seen = choice.of(group)
        except CannotTell as unknown:  # a placeholder is shown as it stands
            value, seen = unknown.value, unknown.value.raw
        if not _same(seen, choice.reference):
            yield _deviation(choice.kind, value, seen, choice.reference, choice.why)


def _same(one: str, other: str) -> bool:
    """Whether two texts mean the same: 1024Mi is 1Gi."""
    return one == other or ((amount := quantity(one)) is not None and amount == quantity(other))


def _deviation(kind: Kind, value: Value, seen: str, reference: str, why: str) -> Deviation:
    return Deviation(value.file, value.line, kind, value.field, clean(seen, 120) or "nothing", reference, why)
