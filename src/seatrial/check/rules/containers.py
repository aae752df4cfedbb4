"""What Kubernetes refuses of a container, whatever runs in it: image, variables, mounts, ports, hooks, probes.

As in `pods`: the API server takes the resource and refuses the pods that KubeRay makes of it, unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import PodTemplate
from seatrial.check.names import is_port_name
from seatrial.check.rule import K8S_DOCS, Facts, Hit, rule
from seatrial.check.rules.images import wrong
from seatrial.check.rules.pods import containers
from seatrial.check.values import CannotTell, Value

_IMAGES = f"{K8S_DOCS}/concepts/containers/images/"
_ENV = f"{K8S_DOCS}/tasks/inject-data-application/define-environment-variable-container/"
_VOLUMES = f"{K8S_DOCS}/concepts/storage/volumes/"
_POD_API = f"{K8S_DOCS}/reference/kubernetes-api/workload-resources/pod-v1/"
_PROBES = f"{K8S_DOCS}/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/"
# Volumes that KubeRay adds (pod.go, constant.go), so a mount may name one that the file does not have.
_OF_KUBERAY = ("shared-mem", "ray-logs", "gcs-storage", "ray-token", "ray-tls")
_HOOKS = ("exec", "httpGet", "tcpSocket", "sleep")
_PROBE = ("exec", "httpGet", "tcpSocket", "grpc")


@rule(
    "image-invalid",
    "error",
    "pod",
    title="no image, or one that no registry can have",
    fix="write it as registry/repository:tag",
    source=_IMAGES,
)
def image_invalid(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """A container without an image is refused; the kubelet does not pull a reference that it cannot parse:
    `InvalidImageName`.
    """
    for container in containers(pod):
        image = container["image"]
        if not image.scalar:
            yield Hit(image, f"container {container['name'].raw or '?'} has no image", "an image")
        elif error := wrong(image):
            yield Hit(image, error.seen, error.expected)


@rule(
    "env-invalid",
    "error",
    "pod",
    title="a variable with two sources, or with none that is known",
    fix="keep one of them",
    source=_ENV,
)
def env_invalid(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """A variable has a value or one source. Kubernetes refuses the pod."""
    for container in containers(pod):
        for entry in container["env"]:
            name, source = entry["name"].raw, entry["valueFrom"]
            given = [key for key, value in source.items() if value]
            if source and entry["value"].raw and not entry["value"].unknown:
                yield Hit(source, f"{name} has a value and valueFrom", "one of the two")
            elif source.node and isinstance(source.node.value, dict) and len(given) != 1:
                yield Hit(source, f"{name} has {', '.join(given) or 'an empty valueFrom'}", "one source")


@rule(
    "volume-mount-unknown",
    "error",
    "pod",
    title="a mount of a volume that the pod does not have",
    fix="add the volume to the same template, or correct the name",
    source=_VOLUMES,
)
def volume_mount_unknown(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """Kubernetes refuses the pod: `volumeMounts[…].name: Not found`."""
    volumes = [volume["name"] for volume in pod.spec["volumes"]]
    known = {name.raw for name in volumes} | {*_OF_KUBERAY}
    unsure = next((v for v in (pod.spec["volumes"], *pod.spec["volumes"], *volumes) if v.unknown), None)
    for container in containers(pod):
        for mount in container["volumeMounts"]:
            name = mount["name"]
            if not name.raw or name.unknown or name.raw in known:
                continue
            if unsure:
                raise CannotTell(f"{unsure.field} is {unsure.raw}", unsure)
            there = ", ".join(sorted(v.raw for v in volumes if v.raw)[:8])
            yield Hit(name, f"no volume {name.raw} in the pod", f"one of {there}" if there else "a volume of that name")


@rule(
    "sub-path-invalid",
    "error",
    "pod",
    title="a subPath that leaves its volume",
    fix="write a path below the volume's root",
    source=f"{_VOLUMES}#using-subpath",
)
def sub_path_invalid(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """It is relative and has no `..` in it; Kubernetes refuses the pod otherwise."""
    for container in containers(pod):
        for mount in container["volumeMounts"]:
            for path in (mount["subPath"], mount["subPathExpr"]):
                if not path.unknown and (path.raw.startswith("/") or ".." in path.raw.split("/")):
                    yield Hit(path, f"saw {path.raw}", "a relative path without `..`")


@rule(
    "volume-source-invalid",
    "error",
    "pod",
    title="a volume of two kinds, or of none",
    fix="give each volume one source",
    source=_VOLUMES,
)
def volume_source_invalid(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """Kubernetes refuses a volume of two kinds. One of none becomes an emptyDir: what is written there goes with the
    pod.
    """
    for volume in pod.spec["volumes"]:
        kinds = [key for key, value in volume.items() if value and key != "name"]
        if len(kinds) > 1:
            yield Hit(volume, f"volume {volume['name'].raw} is {' and '.join(kinds)}", "one of them")
        elif volume["name"].raw and not kinds and volume["emptyDir"].node is None:
            yield Hit(volume, f"volume {volume['name'].raw} has no source", "a claim or another source", "warning")


@rule(
    "container-port-invalid",
    "error",
    "pod",
    title="a port that Kubernetes refuses",
    fix="correct the number or shorten the name",
    source=_POD_API,
)
def container_port_invalid(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """Ports are 1 to 65535. A port's name has at most 15 lower case letters, digits and single dashes, a letter among
    them, and is given once in a container.
    """
    for container in containers(pod):
        names: set[str] = set()
        for port in container["ports"]:
            name = port["name"]
            for value in (port["containerPort"], port["hostPort"]):
                number = None if value.unknown else value.known_integer()
                if number is not None and not 1 <= number <= 65535:
                    yield Hit(value, f"saw {value.raw}", "1 to 65535")
            if not name.raw or name.unknown:
                continue
            if not is_port_name(name.raw):
                yield Hit(name, f"saw {name.raw}, {len(name.raw)} characters", "at most 15, lower case")
            elif name.raw in names:
                yield Hit(name, f"a second port named {name.raw}", "each name once")
            names.add(name.raw)


@rule(
    "handler-invalid",
    "error",
    "pod",
    title="a hook or probe that does nothing, or two things",
    fix="give it one action, such as exec.command, or leave it out",
    source=_PROBES,
)
def handler_invalid(pod: PodTemplate, _: Facts) -> Iterator[Hit]:
    """Each has exactly one action. Kubernetes refuses the pod: `must specify a handler type`."""
    for container in containers(pod):
        for name in ("preStop", "postStart"):
            yield from _one_action(container["lifecycle"][name], _HOOKS)
        for name in ("livenessProbe", "readinessProbe", "startupProbe"):
            yield from _one_action(container[name], _PROBE)


def _one_action(handler: Value, known: tuple[str, ...]) -> Iterator[Hit]:
    if not handler or handler.scalar:
        return
    given, name = [key for key in known if handler[key]], handler.path[-1]
    if len(given) != 1:
        yield Hit(handler, f"{name} has {' and '.join(given) or 'no action'}", f"one of {', '.join(known)}")
    elif given == ["exec"] and not handler["exec"]["command"].scalar and not list(handler["exec"]["command"]):
        yield Hit(handler["exec"], f"{name}.exec has no command", "a command")
