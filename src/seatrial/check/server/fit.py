"""Which nodes the scheduler would give a pod: labels, taints, size. Nodes count as empty.

Kubernetes' own rules: node affinity and selectors (component-helpers/scheduling/corev1/nodeaffinity), taints
(core/v1 ToleratesTaint), resources (sum of containers, or the largest init container; sidecars count with both).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from seatrial.check.manifest import PodTemplate, RayGroup
from seatrial.check.values import CannotTell, Value, plain, shown
from seatrial.kube.apimachinery import quantity
from seatrial.kube.nodes import Node, Taint

_AFFINITY = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
_AUTOSCALER = {"cpu": Fraction(1, 2), "memory": Fraction(512 << 20)}  # KubeRay's sidecar beside the head
LABELS, READY, TAINTS, SIZE, FITS = range(5)  # the first test that a node fails


@dataclass(frozen=True)
class Demand:
    """What a pod needs of its node."""

    requests: Mapping[str, Fraction]
    labels: Mapping[str, str]
    terms: tuple[Mapping[str, Any], ...] | None  # one of them must match; None without such a rule
    tolerations: tuple[Mapping[str, Any], ...]
    volumes: tuple[tuple[Mapping[str, Any], ...], ...] = ()  # terms of each bound volume that has some


def demand(pod: PodTemplate, volumes: Iterable[tuple[Mapping[str, Any], ...]] = ()) -> Demand:
    """Raises CannotTell for a placeholder in any of it."""
    labels = {key: value.require_known() for key, value in pod.spec["nodeSelector"].items()}
    affinity = pod.spec.at(*_AFFINITY[:3])
    terms = _maps(plain(certain(affinity["nodeSelectorTerms"]))) if affinity else None
    tolerations = _maps(plain(certain(pod.spec["tolerations"])))
    return Demand(requests(pod), labels, terms, tolerations, tuple(terms for terms in volumes if terms))


def _maps(content: Any) -> tuple[Mapping[str, Any], ...]:
    """The maps of a list. Any other value counts as empty: the rules of structure report it."""
    return tuple(item for item in content if isinstance(item, dict)) if isinstance(content, list | tuple) else ()


def certain(value: Value) -> Value:
    """`value`. Raises CannotTell for a placeholder anywhere in it."""
    if value.unknown:
        raise CannotTell(f"{value.field} is {value.raw}", value)
    for child in [*value, *(child for _, child in value.items())]:
        certain(child)
    return value


def requests(pod: PodTemplate) -> dict[str, Fraction]:
    """What the pod reserves, without zeros. Raises CannotTell for a placeholder."""
    total, largest = dict[str, Fraction](), dict[str, Fraction]()
    for container in pod.spec["initContainers"]:
        own = _of(container)
        if container["restartPolicy"].require_known() == "Always":  # a sidecar
            total = _sum(total, own)
        else:
            largest = _largest(largest, _sum(total, own))
    for container in pod.spec["containers"]:
        total = _sum(total, _of(container))
    if isinstance(pod, RayGroup) and pod.is_head and pod.cluster.autoscaling:
        given = pod.cluster.value.at("autoscalerOptions", "resources")
        total = _sum(total, _of(pod.cluster.value["autoscalerOptions"]) if given else _AUTOSCALER)
    return {key: amount for key, amount in _largest(total, largest).items() if amount}


def limits(pod: PodTemplate) -> dict[str, Fraction]:
    """The limits of the pod's containers together. Raises CannotTell for a placeholder."""
    total: dict[str, Fraction] = {}
    for container in pod.spec["containers"]:
        total = _sum(
            total, {key: v.known_quantity() or Fraction(0) for key, v in container.at("resources", "limits").items()}
        )
    return total


def _of(container: Value) -> dict[str, Fraction]:
    """Requests of a container. A limit without a request is the request, too."""
    given = dict(container.at("resources", "limits").items()) | dict(container.at("resources", "requests").items())
    return {key: value.known_quantity() or Fraction(0) for key, value in given.items()}


def _sum(one: Mapping[str, Fraction], other: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {key: one.get(key, Fraction(0)) + other.get(key, Fraction(0)) for key in one.keys() | other.keys()}


def _largest(one: Mapping[str, Fraction], other: Mapping[str, Fraction]) -> dict[str, Fraction]:
    return {key: max(one.get(key, Fraction(0)), other.get(key, Fraction(0))) for key in one.keys() | other.keys()}


def misfit(node: Node, wanted: Demand) -> tuple[int, str]:
    """The first test that a node fails, and why; FITS and nothing where it passes all."""
    if not _labelled(node, wanted):
        return LABELS, "other labels"
    if not node.ready:
        return READY, "not ready"
    for taint in node.taints:
        if taint.effect in ("NoSchedule", "NoExecute") and not tolerated(taint, wanted.tolerations):
            return TAINTS, f"taint {taint}"
    for key, amount in sorted(wanted.requests.items()):
        there = node.allocatable.get(key, Fraction(0))
        if there < amount:
            return SIZE, f"{key} {shown(there)} of {shown(amount)}" if there else f"no {key}"
    return FITS, ""


def room(node: Node, wanted: Demand) -> int:
    """How many such pods a node that fits holds when empty."""
    pods = node.allocatable.get("pods", Fraction(110))  # the kubelet's default
    return min([int(pods), *(int(node.allocatable[key] / amount) for key, amount in wanted.requests.items())])


def _labelled(node: Node, wanted: Demand) -> bool:
    if any(node.labels.get(key) != value for key, value in wanted.labels.items()):
        return False
    rules = [*wanted.volumes, *([wanted.terms] if wanted.terms is not None else [])]
    return all(any(_matches(node, term) for term in terms) for terms in rules)


def _matches(node: Node, term: Mapping[str, Any]) -> bool:
    """Whether a node meets all expressions of a nodeSelectorTerm. An empty term matches no node."""
    expressions, fields = _maps(term.get("matchExpressions")), _maps(term.get("matchFields"))
    found = [_holds(node.labels.get(str(e.get("key"))), e) for e in expressions]
    found += [_holds(node.name if e.get("key") == "metadata.name" else None, e) for e in fields]
    return bool(found) and all(found)


def _holds(label: str | None, expression: Mapping[str, Any]) -> bool:
    operator, given = expression.get("operator"), expression.get("values")
    values = [str(value) for value in given] if isinstance(given, list) else []
    if operator in ("Gt", "Lt"):
        bound, there = quantity("".join(values[:1])), quantity(label or "")
        return bound is not None and there is not None and (there > bound if operator == "Gt" else there < bound)
    return {
        "In": label in values,
        "NotIn": label not in values,
        "Exists": label is not None,
        "DoesNotExist": label is None,
    }.get(str(operator), False)


def tolerated(taint: Taint, tolerations: Iterable[Mapping[str, Any]]) -> bool:
    return any(_tolerates(toleration, taint) for toleration in tolerations)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    key, exists = toleration.get("key") or "", toleration.get("operator") == "Exists"
    if toleration.get("effect") not in (None, "", taint.effect) or (key and key != taint.key):
        return False
    return exists if not key else exists or str(toleration.get("value") or "") == taint.value
