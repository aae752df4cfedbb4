"""What KubeRay makes of a group: the final `ray start` line, shared memory, probes and the rest, each with its reason.

Read from KubeRay 1.4 to 1.7, ray-operator/controllers/ray/common/pod.go; function names there are given below. What
the operator's own environment can switch (probe and init-container injection) is taken as by default: on.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from seatrial.check.manifest import RayClusterSpec, RayGroup, gpu_key
from seatrial.check.values import CannotTell, Value, whole
from seatrial.kube.apimachinery import quantity, version

DEFAULT_KUBERAY = "1.6"
FLAGS_WITH_VALUE = ("log-color", "include-dashboard", "include-log-monitor")
_CUSTOM = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}


@dataclass(frozen=True)
class Derived:
    """One value that the operator derives: what it is, why, and the value of the manifest it comes from."""

    value: Any
    reason: str
    origin: Value


def start_params(group: RayGroup) -> dict[str, Derived]:
    """The complete rayStartParams: user's, group resources, defaults, autodetected. Raises CannotTell.

    updateRayStartParamsResources, setMissingRayStartParams, generateRayStartCommand.
    """
    params = {key: Derived(value.raw, "as written", value) for key, value in group.params.items()}
    _group_resources(group, params)
    # setMissingRayStartParams keeps what is written, but `block` it always sets.
    params |= {key: value for key, value in _defaults(group).items() if key == "block" or key not in params}
    if "num-cpus" not in params and (cpus := _autodetected(group, "cpu", requests_too=True)):
        params["num-cpus"] = cpus
    if "memory" not in params and (memory := _autodetected(group, "memory", requests_too=False)):
        params["memory"] = memory
    _accelerators(group, params)
    return dict(sorted(params.items()))


def _group_resources(group: RayGroup, params: dict[str, Derived]) -> None:
    """updateRayStartParamsResources: the group's own `resources` and `labels` replace what is written."""
    custom: dict[str, float] = {}
    for key, value in group.value["resources"].items():
        amount = value.known_quantity()
        if amount is None:
            continue  # `quantity-invalid` is for the container's; here KubeRay skips what does not parse
        name = key.lower()
        known = {"cpu": "num-cpus", "memory": "memory"}.get(name) or ("num-gpus" if gpu_key(name) else "")
        if known:
            params[known] = Derived(str(whole(amount)), f"from the group's resources.{key}", value)
        else:
            custom[key] = float(amount)
    if custom:
        text = json.dumps(custom, separators=(",", ":"), sort_keys=True)
        params["resources"] = Derived(f"'{text}'", "from the group's resources", group.value["resources"])
    if labels := group.value["labels"].items():
        text = ",".join(f"{key}={value.raw}" for key, value in sorted(labels, key=lambda item: item[0]))
        params["labels"] = Derived(text, "from the group's labels", group.value["labels"])


def _defaults(group: RayGroup) -> dict[str, Derived]:
    here = group.params
    defaults = {
        "block": Derived("true", "KubeRay always adds it", here),
        "metrics-export-port": Derived("8080", "KubeRay's default", here),
        "dashboard-agent-listen-port": Derived("52365", "KubeRay's default; its probes ask there", here),
    }
    if group.is_head:
        defaults["dashboard-host"] = Derived("0.0.0.0", "KubeRay's default for the head", here)
        if group.cluster.autoscaling:
            defaults["no-monitor"] = Derived("true", "the autoscaler runs as a sidecar", here)
    else:
        port = group.cluster.head.params["port"].raw or "6379"
        defaults["address"] = Derived(f"<head service>:{port}", "KubeRay points workers at the head's service", here)
    return defaults


def _autodetected(group: RayGroup, key: str, *, requests_too: bool) -> Derived | None:
    """num-cpus from the CPU limit, else the request, rounded up; memory from the limit only."""
    for section, value in (("limits", group.limit(key)), ("requests", group.request(key))):
        amount = value.known_quantity() if value and (section == "limits" or requests_too) else None
        if amount:
            return Derived(str(whole(amount)), f"from {section}.{key} {value.raw}", value)
    return None


def resources_param(group: RayGroup) -> dict[str, float] | None:
    """rayStartParams.resources as KubeRay parses it after trimming quotes (getResourcesMap); None where that fails."""
    given = group.params["resources"]
    if not given:
        return {}  # nothing written is a map without entries, and parses
    try:
        parsed = json.loads(given.require_known().strip("'\"` "))
    except ValueError:
        return None
    # Go parses into map[string]float64, which takes neither text nor booleans.
    numbers = isinstance(parsed, dict) and all(
        isinstance(amount, int | float) and not isinstance(amount, bool) for amount in parsed.values()
    )
    return parsed if numbers else None


def _accelerators(group: RayGroup, params: dict[str, Derived]) -> None:
    """addWellKnownAcceleratorResources: from limits only; nothing at all if `resources` does not parse."""
    # Written by hand it is text that may not parse; made of the group's own resources above it surely does.
    made = "resources" not in params or params["resources"].reason != "as written"
    resources = {} if made else resources_param(group)
    if resources is None:
        return
    added = any(name in resources for name in _CUSTOM.values())
    # By name, as KubeRay sorts the keys: of several GPU keys or custom ones the first counts.
    for key, value in sorted(group.container.at("resources", "limits").items(), key=lambda item: item[0]):
        wanted = (gpu_key(key) and "num-gpus" not in params) or (key in _CUSTOM and not added)
        amount = value.known_quantity() if wanted else None
        if not amount:
            continue
        if gpu_key(key):
            params["num-gpus"] = Derived(str(whole(amount)), f"from limits.{key}", value)
        else:
            resources = {**resources, _CUSTOM[key]: float(amount)}
            text = json.dumps(resources, separators=(",", ":"), sort_keys=True)
            params["resources"] = Derived(f"'{text}'", f"from limits.{key}", value)
            added = True


def start_line(group: RayGroup) -> str:
    """The `ray start` line (convertParamMap): true becomes a bare flag, false vanishes. Raises CannotTell."""
    words = ["ray start --head" if group.is_head else "ray start"]
    for key, derived in start_params(group).items():
        value = str(derived.value)
        if value.lower() in ("true", "false") and key not in FLAGS_WITH_VALUE:
            words += [f"--{key}"] if value.lower() == "true" else []
        else:
            words.append(f"--{key}={value}")
    return " ".join(words)


def number(group: RayGroup, param: str) -> tuple[Fraction, Derived] | None:
    """A numeric start parameter after the operator's work, None where Ray would detect it. Raises CannotTell."""
    derived = start_params(group).get(param)
    if derived is None:
        return None
    if derived.origin.unknown:
        raise CannotTell(f"{derived.origin.field} is {derived.origin.raw}", derived.origin)
    amount = quantity(str(derived.value))  # None: `ray-start-value` says what is wrong with it
    return None if amount is None else (amount, derived)


@dataclass(frozen=True)
class SharedMemory:
    """What is at /dev/shm: `size` in bytes, None for no limit; `memory` whether it is a tmpfs."""

    size: Fraction | None
    memory: bool
    injected: bool
    origin: Value
    reason: str


def shared_memory(group: RayGroup) -> SharedMemory:
    """addEmptyDir, makeEmptyDirVolume. Raises CannotTell for a placeholder as the size."""
    mount = group.mounted_at("/dev/shm")
    if mount:
        empty = mount.volume["emptyDir"]
        limit = empty["sizeLimit"]
        size = limit.known_quantity() if limit else None
        memory = empty["medium"].require_known() == "Memory"
        return SharedMemory(size, memory, False, limit or mount.value, "mounted by the manifest")
    plasma = group.params["plasma-directory"]
    if plasma.scalar:
        reason = "plasma-directory is set, so KubeRay adds nothing: the container runtime's 64 MiB"
        return SharedMemory(Fraction(64 << 20), True, False, plasma, reason)
    for section, value in (("limit", group.limit("memory")), ("request", group.request("memory"))):
        size = value.known_quantity() if value else None
        if size is not None:
            return SharedMemory(size, True, True, value, f"KubeRay adds an emptyDir of the memory {section}'s size")
    return SharedMemory(None, True, True, group.container["resources"], "KubeRay adds an emptyDir without a size")


@dataclass(frozen=True)
class ContainerProbes:
    """How the operator asks whether Ray lives: `wget` in the container, or HTTP from the kubelet."""

    readiness: str  # "own", "http", "wget"
    liveness: str
    reason: str


def probes(group: RayGroup, kuberay: str) -> ContainerProbes:
    """initLivenessAndReadinessProbe. HTTP since KubeRay 1.6 for a rayVersion that parses and is at least 2.53."""
    ray = version(group.cluster.ray_version.require_known())
    if (version(kuberay) or (0,)) < (1, 6):
        kind, reason = "wget", f"KubeRay {kuberay} probes with wget"
    elif ray is None:
        kind, reason = "wget", "rayVersion is missing or does not parse, so KubeRay probes with wget"
    elif ray < (2, 53):
        given = group.cluster.ray_version.raw
        kind, reason = "wget", f"rayVersion {given} is below 2.53, so KubeRay probes with wget"
    else:
        kind, reason = "http", "KubeRay 1.6 and rayVersion 2.53 or later: GET /api/healthz on 52365"
    # A worker that serves must also be asked whether its Serve proxy is ready, which KubeRay does by wget alone.
    service = group.cluster.manifest.is_service and not group.is_head
    readiness = "own" if group.container["readinessProbe"] else "wget" if service else kind
    return ContainerProbes(readiness, "own" if group.container["livenessProbe"] else kind, reason)


def head_ports(cluster: RayClusterSpec) -> dict[str, Derived]:
    """Ports of the head service (getPortsFromCluster): the container's own; the defaults only where it lists none."""
    listed = list(cluster.head.container["ports"])
    if not listed:
        here = cluster.head.container
        default = {"gcs-server": 6379, "dashboard": 8265, "client": 10001, "serve": 8000, "metrics": 8080}
        return {
            name: Derived(port, "the container lists no port: KubeRay's defaults", here)
            for name, port in default.items()
        }
    ports: dict[str, Derived] = {}
    for port in listed:
        # getPortsFromCluster names a port without a name after its number.
        name = port["name"].require_known() or f"{port['containerPort'].require_known()}-port"
        ports[name] = Derived(port["containerPort"].require_known(), "listed by the head container", port)
    ports.setdefault("metrics", Derived(8080, "KubeRay adds it", cluster.head.container["ports"]))
    return ports


def overwrites_command(group: RayGroup) -> bool:
    """The annotation that keeps KubeRay from replacing the command: on the cluster, or on the pod template."""
    own = group.metadata.at("annotations", "ray.io/overwrite-container-cmd")
    return group.cluster.overwrites_command or own.raw.lower() == "true"


def command(group: RayGroup) -> Derived:
    """The container's command as it will run (BuildPod). Raises CannotTell."""
    container = group.container
    own = " ".join(part.raw for key in ("command", "args") for part in container[key])
    if overwrites_command(group):
        return Derived(
            own, "the annotation ray.io/overwrite-container-cmd keeps the container's own", container["command"]
        )
    # The order of BuildPod: a command that starts Ray is kept, another one is put in front of KubeRay's.
    if "ray start" in own:
        return Derived(own, "it has `ray start` in it, so KubeRay leaves it", container["command"])
    made = f"ulimit -n ${{RAY_START_ULIMIT_OPEN_FILES:-65536}}; {start_line(group)}"
    if own:
        return Derived(
            f"/bin/bash -c -- '{own} && {made}'", "the container's own command goes before `ray start`", container
        )
    return Derived(
        f"/bin/bash -c -- '{made}'", "KubeRay replaces command and args; the image's ENTRYPOINT does not run", container
    )
