"""Facts of the environment: layers with a digest each, so that two runs can be told apart by layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seatrial.evidence.facts.fact import fact, family
from seatrial.trial.kinds import OBSERVED, RUN, SCRIPT


@dataclass(frozen=True)
class Layer:
    """One layer: its content where all processes found the same, else the content of each."""

    digest: str
    content: dict[str, Any]
    same_everywhere: bool
    seen_by: list[str]


@dataclass(frozen=True)
class Additions:
    """Packages that the workers' interpreter has beyond the image's: `[version in the image, version in use]`."""

    same_everywhere: bool
    delta: dict[str, Any]


@dataclass(frozen=True)
class HostPackages:
    """Digest of the packages of each host that ran a rank (of a job looked at: of each of its processes)."""

    hosts: int
    package_digests: dict[str, Any]
    agree: bool


@dataclass(frozen=True)
class Group:
    """Processes with the same value."""

    of: list[str]
    value: Any


@dataclass(frozen=True)
class LoadedLibraries:
    same_everywhere: bool
    by_process: list[Group]


LAYER = family(
    "environment.{layer}",
    Layer,
    "one layer of the environment, by the processes or hosts that found it",
    kinds=(RUN, SCRIPT),
)
IMAGE_ASKED = fact("environment.image.asked", str, "the image that the trial (of a job looked at: its pods) asks for")
IMAGE_RAN = fact("environment.image.ran", str, "the pods' `imageID` by the Kubernetes API; nothing else is a witness")
RUNTIME_ENV = fact(
    "environment.runtime_env",
    Additions,
    "packages of the workers' interpreter against the image's, host by host",
    kinds=(RUN, SCRIPT),
)
HOSTS = fact(
    "environment.hosts", HostPackages, "packages of every host that ran a rank, by the digest of their file lists"
)
LOADED = fact(
    "environment.loaded",
    LoadedLibraries,
    "versions of the libraries that each process has loaded, by /proc/PID/maps",
    kinds=(OBSERVED,),
)
DEVICES = fact(
    "environment.devices", list[Group], "GPU and RDMA devices that each process holds open", kinds=(OBSERVED,)
)
STARTED_WITH = fact(
    "environment.started_with", list[Group], "variables that each process was started with", kinds=(OBSERVED,)
)
PODS = fact(
    "environment.pods",
    list[dict[str, Any]],
    "every pod of the Ray cluster, its image, and the ranks seen in it",
    kinds=(OBSERVED,),
)
MANIFEST = fact(
    "environment.manifest",
    dict[str, Any],
    "the Kubernetes resource and what KubeRay derives from it: an instruction, never a thing seen",
    kinds=(OBSERVED,),
)
RAY = fact("environment.ray", dict[str, Any], "the cluster's Ray version, by its dashboard", kinds=(OBSERVED,))
ERROR = fact("environment.error", str, "why no fact of the environment could be made from the events")
