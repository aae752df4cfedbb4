"""What the processes of a job that already ran had loaded, on which image, and whether its hosts agree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seatrial.evidence import pods
from seatrial.evidence.facts import Fact, unknown

if TYPE_CHECKING:
    from seatrial.evidence.observed import Process, Seen

BY_MAPS = "/proc/PID/maps, by the observers of the hosts"
_NO_PODS = "only a pod's imageID is a witness, and no pod was looked at: `seatrial inspect rayjob/NAME` does"


def facts(seen: Seen) -> list[Fact]:
    """All facts of this kind."""
    return [
        _loaded(seen),
        _held(seen),
        _settings(seen),
        _hosts(seen),
        _image_asked(seen),
        _image_ran(seen),
        _every_pod(seen),
        _manifest(seen),
        _ray(seen),
    ]


def _grouped(values: list[tuple[Process, Any]]) -> list[dict[str, Any]]:
    """Processes with the same value together: `[{"of": [label], "value": …}]`."""
    groups: list[dict[str, Any]] = []
    for process, value in values:
        group = next((g for g in groups if g["value"] == value), None)
        if group is None:
            groups.append(group := {"of": [], "value": value})
        group["of"].append(process.label)
    return groups


def _loaded(seen: Seen) -> Fact:
    """Versions by library and by process. What is not listed was not loaded when it was looked at."""
    name = "environment.loaded"
    if not seen.processes:
        return unknown(name, "no training process was seen", BY_MAPS)
    values = [(process, _versions(process)) for process in seen.processes]
    groups = _grouped(values)
    return Fact(name, value={"same_everywhere": len(groups) == 1, "by_process": groups}, witness=BY_MAPS)


def _versions(process: Process) -> dict[str, str]:
    libraries = process.told["libraries"]
    if "unknown" in libraries:
        return {"unknown": str(libraries["unknown"])}
    python = {"python": process.told["python"] or "unknown"}
    return python | {n: lib.get("version") or f"unknown: {lib['unknown']}" for n, lib in libraries.items()}


def _held(seen: Seen) -> Fact:
    name = "environment.devices"
    if not seen.processes:
        return unknown(name, "no training process was seen", "/proc/PID/fd")
    groups = _grouped([(process, process.told["devices"]) for process in seen.processes])
    return Fact(name, value=groups, witness="/proc/PID/fd, by the observers of the hosts")


def _settings(seen: Seen) -> Fact:
    """Variables that the processes were started with; what a script sets in os.environ later does not show."""
    name, witness = "environment.started_with", "/proc/PID/environ, by the observers of the hosts"
    if not seen.processes:
        return unknown(name, "no training process was seen", witness)
    return Fact(name, value=_grouped([(p, p.told["settings"]) for p in seen.processes]), witness=witness)


def _hosts(seen: Seen) -> Fact:
    """Packages on disk, in the folders that the processes have loaded from: the same on every host, or not."""
    name, witness = "environment.hosts", "packages in the folders that the processes have loaded from"
    if seen.problems or not seen.processes:
        why = next(iter(seen.problems.values()), "no training process was seen")
        return unknown(name, f"not every host was watched: {why}" if seen.problems else why, witness)
    by_host: dict[str, set[str]] = {}
    for process in seen.processes:
        by_host.setdefault(process.host, set()).add(str(process.told["packages"]))
    if bare := sorted(host for host, digests in by_host.items() if "" in digests):
        return unknown(name, f"a process on {bare[0]} has loaded nothing from a folder of packages", witness)
    value = {
        "hosts": len(by_host),
        "package_digests": {host: sorted(digests) for host, digests in sorted(by_host.items())},
        "agree": len({digest for digests in by_host.values() for digest in digests}) == 1,
    }
    return Fact(name, value=value, witness=witness)


def _pods(seen: Seen) -> list[dict[str, Any]]:
    return list(seen.layers.get("kubernetes", {}).get("pods") or [])


def _image_asked(seen: Seen) -> Fact:
    name = "environment.image.asked"
    if image := seen.run.plan.get("image"):
        return Fact(name, value=image, witness="trial")
    images = sorted({str(pod["image"]) for pod in _training(seen) if pod["image"]})
    if len(images) == 1:
        return Fact(name, value=images[0], witness="the pods' specification")
    if images:
        return unknown(name, f"the pods ask for different images: {', '.join(images)}", "the pods' specification")
    return unknown(name, "no trial names one, and no pod was looked at", "the pods' specification")


def _training(seen: Seen) -> list[dict[str, Any]]:
    """The pods of the hosts on which training processes were seen; all of them where no host was watched."""
    every = _pods(seen)
    places = _places(seen)
    return [pod for pod in pods.of(places, every).values() if pod] if places else every


def _places(seen: Seen) -> list[pods.Place]:
    training = {process.node for process in seen.processes}
    return [pods.place(str(told["name"]), told["network"]) for node, told in seen.hosts.items() if node in training]


def _image_ran(seen: Seen) -> Fact:
    every, kubernetes = _pods(seen), seen.layers.get("kubernetes", {})
    if not every:
        return unknown(pods.NAME, str(kubernetes.get("unknown") or _NO_PODS), pods.WITNESS)
    # Where no host was watched, the pods are all that is known of the training.
    own = _places(seen) or [pods.Place(str(pod["name"]), frozenset()) for pod in every]
    return pods.image_ran(own, every)


def _every_pod(seen: Seen) -> Fact:
    """Every pod of the Ray cluster with the image that it runs, and the ranks that were seen in it."""
    every, kubernetes = _pods(seen), seen.layers.get("kubernetes", {})
    if not every:
        return unknown("environment.pods", str(kubernetes.get("unknown") or _NO_PODS), "the Kubernetes API")
    by_host = {name: pod["name"] for name, pod in pods.of(_places(seen), every).items() if pod}
    inside: dict[str, list[str]] = {}
    for process in seen.processes:
        inside.setdefault(by_host.get(process.name, ""), []).append(process.label)
    rows = [{**pod, "processes": inside.get(pod["name"], [])} for pod in every]
    return Fact("environment.pods", value=rows, witness="the Kubernetes API; processes by the observers")


def _manifest(seen: Seen) -> Fact:
    """What the operator makes of the resource as the cluster has it; an instruction, never a thing seen."""
    name, kubernetes = "environment.manifest", seen.layers.get("kubernetes", {})
    if not kubernetes.get("effective"):
        why = kubernetes.get("effective_unknown") or kubernetes.get("unknown") or "no Kubernetes resource was looked at"
        return unknown(name, str(why), "the resource in the cluster")
    value = {k: kubernetes.get(k) for k in ("resource", "status", "effective", "warnings")}
    return Fact(name, value=value, witness="the resource in the cluster; what it asks for, as KubeRay completes it")


def _ray(seen: Seen) -> Fact:
    ray = seen.layers.get("ray", {})
    if not ray.get("version"):
        return unknown("environment.ray", "Ray's dashboard was not asked", "Ray's dashboard")
    return Fact("environment.ray", value=ray, witness="Ray's dashboard")
