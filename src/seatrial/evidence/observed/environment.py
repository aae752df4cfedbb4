"""What the processes of a job that already ran had loaded, on which image, and whether its hosts agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import ValidationError

from seatrial.events.base import Nonsense
from seatrial.events.layers import PodSeen
from seatrial.evidence.facts import environment
from seatrial.evidence.facts.environment import Group, HostPackages, LoadedLibraries
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.observed.look import Seen, SeenProcess
from seatrial.evidence.witness import pods

BY_MAPS = "/proc/PID/maps, by the observers of the hosts"
BY_SPECIFICATION = "the pods' specification"
NO_PROCESS = "no training process was seen"
NO_PODS = "only a pod's imageID is a witness, and no pod was looked at: `seatrial inspect rayjob/NAME` does"


def facts(seen: Seen) -> Iterator[Fact[Any]]:
    """All facts of this kind."""
    yield _loaded(seen)
    yield _devices(seen)
    yield _started_with(seen)
    yield _hosts(seen)
    yield _image_asked(seen)
    yield _image_ran(seen)
    yield _every_pod(seen)
    yield _manifest(seen)
    yield _ray(seen)


def _grouped(values: Sequence[tuple[SeenProcess, Any]]) -> list[Group]:
    """Processes with the same value together."""
    groups: list[Group] = []
    for process, value in values:
        group = next((g for g in groups if g.value == value), None)
        if group is None:
            groups.append(group := Group([], value))
        group.of.append(process.label)
    return groups


def _loaded(seen: Seen) -> Fact[LoadedLibraries]:
    """Versions by library and by process. What is not listed was not loaded when it was looked at."""
    if not seen.processes:
        return environment.LOADED.unknown(NO_PROCESS, BY_MAPS)
    groups = _grouped([(process, _versions(process)) for process in seen.processes])
    return environment.LOADED.seen(LoadedLibraries(len(groups) == 1, groups), BY_MAPS)


def _versions(process: SeenProcess) -> dict[str, str]:
    libraries = process.told.libraries
    if "unknown" in libraries:
        return {"unknown": str(libraries["unknown"])}
    found = {"python": process.told.python or "unknown"}
    for name, library in libraries.items():
        told = library if isinstance(library, dict) else {}
        found[name] = str(told.get("version") or f"unknown: {told.get('unknown')}")
    return found


def _devices(seen: Seen) -> Fact[list[Group]]:
    if not seen.processes:
        return environment.DEVICES.unknown(NO_PROCESS, "/proc/PID/fd")
    groups = _grouped([(process, list(process.told.devices)) for process in seen.processes])
    return environment.DEVICES.seen(groups, "/proc/PID/fd, by the observers of the hosts")


def _started_with(seen: Seen) -> Fact[list[Group]]:
    """Variables that the processes were started with; what a script sets in os.environ later does not show."""
    witness = "/proc/PID/environ, by the observers of the hosts"
    if not seen.processes:
        return environment.STARTED_WITH.unknown(NO_PROCESS, witness)
    groups = _grouped([(process, process.told.settings) for process in seen.processes])
    return environment.STARTED_WITH.seen(groups, witness)


def _hosts(seen: Seen) -> Fact[HostPackages]:
    """Packages on disk, in the folders that the processes have loaded from: the same on every host, or not."""
    witness = "packages in the folders that the processes have loaded from"
    if seen.problems:
        return environment.HOSTS.unknown(f"not every host was watched: {next(iter(seen.problems.values()))}", witness)
    if not seen.processes:
        return environment.HOSTS.unknown(NO_PROCESS, witness)
    by_host: dict[str, set[str]] = {}
    for process in seen.processes:
        by_host.setdefault(process.host, set()).add(process.told.packages)
    if bare := sorted(host for host, digests in by_host.items() if "" in digests):
        why = f"a process on {bare[0]} has loaded nothing from a folder of packages"
        return environment.HOSTS.unknown(why, witness)
    value = HostPackages(
        hosts=len(by_host),
        package_digests={host: sorted(digests) for host, digests in sorted(by_host.items())},
        agree=len({digest for digests in by_host.values() for digest in digests}) == 1,
    )
    return environment.HOSTS.seen(value, witness)


def _pods(seen: Seen) -> list[PodSeen]:
    """The pods of the cluster. Raises Nonsense for what is no pod."""
    try:
        return [PodSeen.model_validate(pod) for pod in seen.kubernetes.pods]
    except ValidationError as error:
        raise Nonsense(f"a pod in layer kubernetes: {error.errors()[0]['msg']}") from None


def _image_asked(seen: Seen) -> Fact[str]:
    if image := seen.run.plan.image:
        return environment.IMAGE_ASKED.seen(image, "trial")
    images = sorted({pod.image for pod in _training(seen) if pod.image})
    if len(images) == 1:
        return environment.IMAGE_ASKED.seen(images[0], BY_SPECIFICATION)
    if images:
        why = f"the pods ask for different images: {', '.join(images)}"
        return environment.IMAGE_ASKED.unknown(why, BY_SPECIFICATION)
    return environment.IMAGE_ASKED.unknown("no trial names one, and no pod was looked at", BY_SPECIFICATION)


def _training(seen: Seen) -> list[PodSeen]:
    """The pods of the hosts on which training processes were seen; all of them where no host was watched."""
    every, places = _pods(seen), _places(seen)
    return [pod for pod in pods.of(places, every).values() if pod] if places else every


def _places(seen: Seen) -> list[pods.HostAddresses]:
    training = {process.node for process in seen.processes}
    return [pods.place(told.name, told.network) for node, told in seen.hosts.items() if node in training]


def _image_ran(seen: Seen) -> Fact[str]:
    every = _pods(seen)
    if not every:
        return environment.IMAGE_RAN.unknown(seen.kubernetes.unknown or NO_PODS, pods.WITNESS)
    # Where no host was watched, the pods are all that is known of the training.
    own = _places(seen) or [pods.HostAddresses(pod.name, frozenset()) for pod in every]
    return pods.image_ran(own, every)


def _every_pod(seen: Seen) -> Fact[list[dict[str, Any]]]:
    """Every pod of the Ray cluster with the image that it runs, and the ranks that were seen in it."""
    every = _pods(seen)
    if not every:
        return environment.PODS.unknown(seen.kubernetes.unknown or NO_PODS, "the Kubernetes API")
    by_host = {name: pod.name for name, pod in pods.of(_places(seen), every).items() if pod}
    inside: dict[str, list[str]] = {}
    for process in seen.processes:
        inside.setdefault(by_host.get(process.name, ""), []).append(process.label)
    rows = [{**pod, "processes": inside.get(str(pod["name"]), [])} for pod in seen.kubernetes.pods]
    return environment.PODS.seen(rows, "the Kubernetes API; processes by the observers")


def _manifest(seen: Seen) -> Fact[dict[str, Any]]:
    """What the operator makes of the resource as the cluster has it; an instruction, never a thing seen."""
    found = seen.kubernetes
    if not found.effective:
        why = found.effective_unknown or found.unknown or "no Kubernetes resource was looked at"
        return environment.MANIFEST.unknown(why, "the resource in the cluster")
    value = {name: getattr(found, name) for name in ("resource", "status", "effective", "warnings")}
    return environment.MANIFEST.seen(value, "the resource in the cluster; what it asks for, as KubeRay completes it")


def _ray(seen: Seen) -> Fact[dict[str, Any]]:
    if not seen.ray.version:
        return environment.RAY.unknown("Ray's dashboard was not asked", "Ray's dashboard")
    return environment.RAY.seen(dict(seen.ray_document), "Ray's dashboard")
