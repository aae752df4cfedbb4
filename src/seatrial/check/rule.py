"""What a rule is: data, and one small function that yields what it hits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from seatrial.check.manifest import Manifest, RayClusterSpec, RayGroup
from seatrial.check.values import CannotTell, Value
from seatrial.hardware.images import ImageFacts, image
from seatrial.hardware.instances import Instance, instance
from seatrial.kube.apimachinery import version

Severity = Literal["error", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
Subject = Literal["manifest", "job", "cluster", "group", "head", "worker", "gpu", "submitter", "pod", "other"]
Need = Literal["instance", "image", "kuberay", "trial", "server"]

KUBERAY = "https://github.com/ray-project/kuberay"
SOURCE = f"{KUBERAY}/blob/feeaf72facab4881ba2b179248bb67315634e229/ray-operator"
POD_GO = f"{SOURCE}/controllers/ray/common/pod.go"
JOB_GO = f"{SOURCE}/controllers/ray/common/job.go"
VALIDATION_GO = f"{SOURCE}/controllers/ray/utils/validation.go"
DLC = "https://github.com/aws/deep-learning-containers"
DLC_EKS = f"{DLC}/blob/3cb1d764d7099692932a1705b7baeacc8606cc9a/docs/ray-train/deployment/eks.md"
K8S_DOCS = "https://kubernetes.io/docs"


@dataclass(frozen=True)
class Asked:
    """What a trial wants of the cluster, for the rules that need it."""

    num_workers: int
    gpus_per_worker: int
    storage_path: str


@dataclass(frozen=True)
class Facts:
    """What rules know beyond the manifest. A fact that is not here is unknown, never guessed."""

    kuberay: str
    asked: Asked | None = None
    claims: dict[tuple[str, str], Value] = field(default_factory=dict)  # PVCs in the input, by namespace and name

    def since_kuberay(self, *release: int) -> bool:
        """Whether this KubeRay is at least that release."""
        return (version(self.kuberay) or ()) >= release

    def image(self, value: Value) -> ImageFacts:
        """What is known about the image at `value`. Raises CannotTell where no table knows it."""
        known = image(value.require_known())
        if known is None:
            raise CannotTell(f"nothing is known about image {value.raw or '(none)'}", value)
        return known

    def instance(self, value: Value) -> Instance:
        """What is known about an instance type. Raises CannotTell where no table knows it."""
        known = instance(value.require_known())
        if known is None:
            raise CannotTell(f"nothing is known about instance type {value.raw}", value)
        return known


@dataclass(frozen=True)
class Hit:
    """What a rule saw, where, and what would be right."""

    value: Value
    seen: str
    expected: str = ""
    severity: Severity | None = None  # where it is another than the rule's own
    fix: str = ""  # where it is more precise than the rule's own


Function = Callable[[Any, Facts], Iterable[Hit]]


@dataclass(frozen=True)
class Rule:
    """One rule. `on` names what its function is called with: once for each of them."""

    id: str
    severity: Severity
    on: Subject
    title: str
    why: str
    fix: str
    source: str
    needs: tuple[Need, ...]
    function: Function


RULES: dict[str, Rule] = {}


def rule(
    id: str,
    severity: Severity,
    on: Subject,
    *,
    title: str,
    fix: str,
    source: str,
    needs: tuple[Need, ...] = (),
) -> Callable[[Function], Function]:
    """Registers a function as a rule. Its docstring is the rule's `why`, joined to one line.

    Raises ValueError for a function without one, unless Python strips docstrings (-OO).
    """

    def register(function: Function) -> Function:
        why = " ".join((function.__doc__ or "").split())
        if not why and sys.flags.optimize < 2:
            raise ValueError(f"rule {id} has no docstring, which says why the rule is there")
        _add(Rule(id, severity, on, title, why, fix, source, needs, function))
        return function

    return register


def found_elsewhere(id: str, severity: Severity, on: Subject, *, title: str, why: str, fix: str, source: str) -> None:
    """Registers what is said about a rule whose hits `structure` or `suppression` finds."""
    _add(Rule(id, severity, on, title, why, fix, source, (), _no_hits))


def _no_hits(*_: object) -> Iterable[Hit]:
    return ()


def _add(new: Rule) -> None:
    if new.id in RULES:
        raise ValueError(f"two rules named {new.id}")
    RULES[new.id] = new


def subjects(manifest: Manifest) -> Iterator[tuple[Subject, Any]]:
    """Everything in a manifest that rules are called with."""
    yield "manifest", manifest
    if manifest.is_job:
        yield "job", manifest
        if manifest.submitter:
            yield "submitter", manifest.submitter
    for pod in manifest.pods:
        yield "pod", pod
    cluster: RayClusterSpec | None = manifest.cluster
    if cluster is None:
        return
    yield "cluster", cluster
    for group in cluster.groups:
        yield "group", group
        yield ("head" if group.is_head else "worker"), group
        if nvidia(group):
            yield "gpu", group


def nvidia(group: RayGroup) -> bool:
    """Whether a group asks for NVIDIA GPUs, in requests or limits."""
    return bool(group.limit("nvidia.com/gpu") or group.request("nvidia.com/gpu"))
