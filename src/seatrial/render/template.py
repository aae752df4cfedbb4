"""The team's own manifest, extended by what a trial needs. All else in it keeps its meaning and its order.

The same edits are either applied to the manifest, or written as a patch (a kustomize component).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.driver.stop import STOP_S
from seatrial.errors import InputError, Place
from seatrial.events import Redactor
from seatrial.probe.nccl.collect import OFI_NETWORK, PINNED
from seatrial.render import emit
from seatrial.render.context import ENTRYPOINT, MOUNT, STOP_DRIVER, TRIAL_DIGEST, RenderContext
from seatrial.render.patch import Edit, KeyPath
from seatrial.render.pods import EFA
from seatrial.trial.cluster import below

REPLACED = "seatrial.io/replaced-entrypoint"
STORAGE = "seatrial-storage"
MAX_BYTES = 1 << 20
_CLUSTER_AT: dict[str, KeyPath] = {"RayJob": ("spec", "rayClusterSpec"), "RayCluster": ("spec",)}


@dataclass(frozen=True)
class Extended:
    """An extended manifest, and the edits that extended it."""

    kind: str
    version: str  # of the API; kustomize finds the target of a patch by it
    name: str
    namespace: str | None
    documents: list[Any]
    operations: list[dict[str, Any]]


@dataclass(frozen=True)
class _PodTemplate:
    """A pod template of the Ray resource: its path, and its name in errors."""

    path: KeyPath
    name: str
    trains: bool

    @property
    def spec(self) -> KeyPath:
        return (*self.path, "spec")

    @property
    def container(self) -> KeyPath:
        """KubeRay takes the first one as the Ray container."""
        return (*self.spec, "containers", 0)


def read_template(path: str) -> str:
    """A manifest's text. Raises InputError."""
    file = Path(path)
    try:
        if not file.is_file():
            raise InputError("is no file", place=Place(path), field="cluster.template.from", expected="a YAML file")
        if file.stat().st_size > MAX_BYTES:
            raise InputError("is too large", place=Place(path), expected=f"at most {MAX_BYTES} bytes")
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", place=Place(path), expected="a YAML file") from None
    except UnicodeDecodeError:
        raise InputError("is not UTF-8", place=Place(path), expected="UTF-8 text") from None


def extend(context: RenderContext, text: str, path: str, *, as_patch: bool) -> Extended:
    """Extends the Ray resource in `text`. Raises InputError if the manifest contradicts the trial."""
    documents = emit.read(text, path)
    position = _ray_resource(documents, path)
    edit = Edit(documents[position])
    editor = _Editor(context, edit, path, as_patch)
    editor.resource()
    pods = editor.pods()
    for pod in pods:
        editor.pod(pod)
    documents[position] = edit.result
    metadata = edit.result["metadata"]
    name, namespace = (str(metadata.get(key) or "") for key in ("name", "namespace"))
    version = str(edit.result["apiVersion"]).removeprefix("ray.io/")
    return Extended(editor.kind, version, name, namespace or None, documents, edit.operations)


def _ray_resource(documents: list[Any], path: str) -> int:
    found = [
        position
        for position, document in enumerate(documents)
        if isinstance(document, dict)
        and str(document.get("apiVersion", "")).startswith("ray.io/")
        and document.get("kind") in _CLUSTER_AT
    ]
    if len(found) != 1:
        seen = f"holds {len(found)} RayJobs or RayClusters" if found else "holds neither a RayJob nor a RayCluster"
        raise InputError(seen, place=Place(path), expected="one RayJob or RayCluster of ray.io")
    return found[0]


class _Editor:
    """Puts what a trial needs into one Ray resource."""

    def __init__(self, context: RenderContext, edit: Edit, path: str, as_patch: bool):
        self._context, self._edit, self._path, self._as_patch = context, edit, path, as_patch
        self.kind = str(edit.get(("kind",)))
        self._cluster = _CLUSTER_AT[self.kind]

    def resource(self) -> None:
        """Sets the digest and, for a RayJob, the entrypoint. An annotation keeps the team's own entrypoint.

        A component needs no such annotation: its base still has the entrypoint.
        """
        self._check_namespace()
        self._edit.put(("metadata", "annotations", TRIAL_DIGEST), self._context.digest)
        if self.kind != "RayJob":
            return
        if self._edit.get(("spec", "clusterSelector")):
            raise self._error("spec.clusterSelector", "selects a cluster that is not in this file", "rayClusterSpec")
        if self._edit.get(("spec", "submissionMode")) == "InteractiveMode":
            raise self._error("spec.submissionMode", "saw InteractiveMode", "a mode that submits the entrypoint")
        if "PYTHONPATH" in self._runtime_env():
            raise self._error(
                "spec.runtimeEnvYAML", "sets PYTHONPATH for every process of the job", "it in the pods' env"
            )
        theirs = self._edit.get(("spec", "entrypoint"))
        if theirs and theirs != ENTRYPOINT and not self._as_patch:
            self._edit.put(("metadata", "annotations", REPLACED), Redactor({}).text(str(theirs)))
        self._edit.put(("spec", "entrypoint"), ENTRYPOINT)

    def _check_namespace(self) -> None:
        """The ConfigMaps must be in the pods' namespace. If the manifest names none, neither do they."""
        asked, theirs = self._context.trial.cluster.namespace, self._edit.get(("metadata", "namespace"))
        if asked and theirs and asked != theirs and "$" not in theirs:
            raise InputError(
                f"saw {asked}",
                field="cluster.namespace",
                expected=f"{theirs}, which {self._path} names",
                fix="remove cluster.namespace: the template's namespace counts",
            )

    def _runtime_env(self) -> dict[str, Any]:
        text = self._edit.get(("spec", "runtimeEnvYAML"), "")
        documents = emit.read(str(text), f"{self._path}: spec.runtimeEnvYAML")
        first = documents[0] if documents and isinstance(documents[0], dict) else {}
        return first.get("env_vars") or {}

    def pods(self) -> list[_PodTemplate]:
        """The pod templates of the head and of each worker group. Raises InputError for one without a container."""
        workers = self._edit.get((*self._cluster, "workerGroupSpecs"), [])
        found = [_PodTemplate((*self._cluster, "headGroupSpec", "template"), "headGroupSpec", trains=not workers)]
        for number in range(len(workers) if isinstance(workers, list) else 0):
            path = (*self._cluster, "workerGroupSpecs", number)
            self._edit.expect((*path, "groupName"))  # a patch names groups by position: the base must still have it
            found.append(_PodTemplate((*path, "template"), f"workerGroupSpecs.{number}", trains=True))
        for pod in found:
            if not isinstance(self._edit.get(pod.container), dict):
                raise self._error(
                    f"{pod.name}.template.spec.containers", "holds none", "the Ray container as the first"
                )
        return found

    def pod(self, pod: _PodTemplate) -> None:
        """Extends one pod template: digest, package and trial, variables, storage."""
        self._check_image(pod)
        self._edit.put((*pod.path, "metadata", "annotations", TRIAL_DIGEST), self._context.digest)
        self._volume(pod, self._context.volume, MOUNT, read_only=True)
        self._prepend_python_path(pod)
        if pod.name == "headGroupSpec":
            self._variable(pod, "RAY_JOB_STOP_WAIT_TIME_S", f"{STOP_S:g}")
            self._stop_first(pod)
        if pod.trains:
            self._variable(pod, "NCCL_DEBUG", "INFO")
            self._require(pod)
        self._storage(pod)

    def _check_image(self, pod: _PodTemplate) -> None:
        """The record states the trial's image, so the manifest must run that one."""
        asked, theirs = self._context.trial.image, str(self._edit.get((*pod.container, "image"), ""))
        if asked and theirs and "$" not in theirs and theirs != asked and not self._as_patch:
            raise InputError(f"saw {asked}", field="image", expected=f"{theirs}, which {pod.name} of {self._path} runs")

    def _require(self, pod: _PodTemplate) -> None:
        """Pins NCCL's network if the trial requires one. The team's pods must then ask for it."""
        if not self._context.trial.cluster.require:
            return
        limits = self._edit.get((*pod.container, "resources", "limits"), {})
        if EFA not in limits:
            raise self._error(f"{pod.name} limits", f"holds no {EFA}", f"{EFA}, which cluster.require needs")
        position = self._variable_at(pod, PINNED)
        theirs = OFI_NETWORK if position is None else self._edit.get((*pod.container, "env", position, "value"))
        if "libfabric" not in str(theirs).lower() and str(theirs).lower() != "ofi":
            raise self._error(f"{pod.name} {PINNED}", f"is {theirs}", f"{OFI_NETWORK}, which cluster.require needs")
        self._variable(pod, PINNED, OFI_NETWORK)

    def _stop_first(self, pod: _PodTemplate) -> None:
        """Lets the driver seal before Ray stops. A preStop hook that is not a shell command stays as it is."""
        path = (*pod.container, "lifecycle", "preStop")
        if self._edit.get(path) is None:
            self._edit.put(path, {"exec": {"command": ["/bin/sh", "-c", STOP_DRIVER]}})
            return
        command = self._edit.get((*path, "exec", "command"))
        if isinstance(command, list) and len(command) == 3 and command[1] == "-c":
            self._edit.expect((*path, "exec", "command"))
            self._edit.put((*path, "exec", "command"), [*command[:2], f"{STOP_DRIVER}; {command[2]}"])

    def _variable(self, pod: _PodTemplate, name: str, value: str) -> None:
        if self._variable_at(pod, name) is None:
            self._edit.append((*pod.container, "env"), {"name": name, "value": value})

    def _variable_at(self, pod: _PodTemplate, name: str) -> int | None:
        env = self._edit.get((*pod.container, "env"), [])
        return next((i for i, entry in enumerate(env) if isinstance(entry, dict) and entry.get("name") == name), None)

    def _prepend_python_path(self, pod: _PodTemplate) -> None:
        position, own = self._variable_at(pod, "PYTHONPATH"), self._context.python_path
        if position is None:
            self._variable(pod, "PYTHONPATH", own)
            return
        path = (*pod.container, "env", position)
        if self._edit.get((*path, "valueFrom")):
            raise self._error(f"{pod.name} PYTHONPATH", "has a valueFrom", "a value, which can be extended")
        self._edit.expect((*path, "name"))
        theirs = self._edit.get((*path, "value"))
        self._edit.put((*path, "value"), f"{own}:{theirs}" if theirs else own)

    def _storage(self, pod: _PodTemplate) -> None:
        storage = self._context.trial.storage
        if self._on_shared_mount(pod, storage.path):
            return
        if storage.volume is None:
            raise InputError(
                f"{storage.path} is on no volume of {pod.name} that pods can share",
                place=Place(self._path),
                field="storage.path",
                expected="a folder on a volume that head and workers mount",
                fix="or name a claim in storage.volume: seatrial mounts it",
            )
        claim = {"name": STORAGE, "persistentVolumeClaim": {"claimName": storage.volume.claim}}
        self._volume(pod, claim, storage.volume.mountPath)

    def _on_shared_mount(self, pod: _PodTemplate, path: str) -> bool:
        """Whether the innermost mount that holds `path` can be shared, unlike the pod's own scratch space."""
        mounts = self._edit.get((*pod.container, "volumeMounts"), [])
        holding = [m for m in mounts if isinstance(m, dict) and below(path, str(m.get("mountPath") or "/nowhere"))]
        if not holding:
            return False
        name = max(holding, key=lambda m: len(m["mountPath"])).get("name")  # the longest mount path is the innermost
        volumes = self._edit.get((*pod.spec, "volumes"), [])
        volume = next((v for v in volumes if isinstance(v, dict) and v.get("name") == name), {})
        # A volume has its name and one source; these sources belong to one pod or are read-only.
        return bool(set(volume) - {"name", "emptyDir", "configMap", "secret", "downwardAPI", "projected"})

    def _volume(self, pod: _PodTemplate, volume: dict[str, Any], mount: str, read_only: bool = False) -> None:
        names = {v.get("name") for v in self._edit.get((*pod.spec, "volumes"), []) if isinstance(v, dict)}
        mounts = self._edit.get((*pod.container, "volumeMounts"), [])
        if volume["name"] in names:
            raise self._error(f"{pod.name} volume {volume['name']}", "exists already", "no volume of this name")
        if any(isinstance(m, dict) and m.get("mountPath") == mount for m in mounts):
            raise self._error(f"{pod.name} mount {mount}", "exists already", "no mount at this path")
        self._edit.append((*pod.spec, "volumes"), volume)
        entry = {"name": volume["name"], "mountPath": mount, **({"readOnly": True} if read_only else {})}
        self._edit.append((*pod.container, "volumeMounts"), entry)

    def _error(self, field: str, seen: str, expected: str) -> InputError:
        return InputError(seen, place=Place(self._path), field=field, expected=expected)
