"""Fields of a pod that take one of a few words. Kubernetes' published schemas have them as any text.

Read from k8s.io/api core/v1 types.go; an empty text means the field's default and is fine. Lt and Gt of a toleration
are of Kubernetes 1.35.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from seatrial.check.manifest import Manifest, PodTemplate
from seatrial.check.rule import Hit
from seatrial.check.values import CannotTell, Value
from seatrial.errors import clean

_CONTAINER = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "ports.*.protocol": ("TCP", "UDP", "SCTP"),
}
_NODES = "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
_POD = {
    "restartPolicy": ("Always", "OnFailure", "Never"),
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "preemptionPolicy": ("PreemptLowerPriority", "Never"),
    "tolerations.*.operator": ("Exists", "Equal", "Lt", "Gt"),
    "tolerations.*.effect": ("NoSchedule", "PreferNoSchedule", "NoExecute"),
    "topologySpreadConstraints.*.whenUnsatisfiable": ("DoNotSchedule", "ScheduleAnyway"),
    f"{_NODES}.*.matchExpressions.*.operator": ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"),
    **{f"{of}.*.{field}": words for of in ("containers", "initContainers") for field, words in _CONTAINER.items()},
}
_JOB_SAYS = "restartPolicy"  # of a submitter: `submitter-restart-policy` knows which of the words a Job takes


def check(manifest: Manifest) -> Iterator[tuple[str, Hit | CannotTell]]:
    """Words that no field of a pod knows."""
    for pod in manifest.pods:
        for path, known in _POD.items():
            if path != _JOB_SAYS or pod.title != "submitter":
                yield from _field(pod, path, known)


def _field(pod: PodTemplate, path: str, known: tuple[str, ...]) -> Iterator[tuple[str, Hit | CannotTell]]:
    for value in _down(pod.spec, path.split(".")):
        if value.unknown:
            yield "enum-mismatch", CannotTell(f"{value.field} is {value.raw}", value)
        elif value.raw and value.raw not in known:
            close = get_close_matches(value.raw.lower(), [word.lower() for word in known], n=1)
            fix = next((f"did you mean {word}?" for word in known if [word.lower()] == close), "")
            yield "enum-mismatch", Hit(value, f"saw {clean(value.raw, 40)}", f"one of {', '.join(known)}", fix=fix)


def _down(value: Value, way: list[str]) -> Iterator[Value]:
    """Every value down that way; `*` stands for the items of a list."""
    if not way:
        yield value
    elif way[0] == "*":
        for item in value:
            yield from _down(item, way[1:])
    else:
        yield from _down(value[way[0]], way[1:])
