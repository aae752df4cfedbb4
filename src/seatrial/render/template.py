"""The team's own manifest with what a trial needs added. What is theirs stays, in meaning and in order.

The same edits are either applied (a manifest of its own) or written as a patch (a kustomize component).
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
from seatrial.render.frame import ENTRYPOINT, MOUNT, STOP_DRIVER, TRIAL_DIGEST, Frame
from seatrial.render.patch import Edit, KeyPath
from seatrial.render.pods import EFA
from seatrial.trial.cluster import below

REPLACED = "seatrial.io/replaced-entrypoint"
STORAGE = "seatrial-storage"
MAX_BYTES = 1 << 20
_CLUSTER_AT: dict[str, KeyPath] = {"RayJob": ("spec", "rayClusterSpec"), "RayCluster": ("spec",)}


@dataclass(frozen=True)
class Added:
    """A manifest after the edit."""

    kind: str
    version: str  # of the API: the base of a kustomize patch is found by it
    name: str
    namespace: str | None
    documents: list[Any]
    operations: list[dict[str, Any]]


@dataclass(frozen=True)
class _Pod:
    """Where a pod template of the Ray resource is, and how errors speak of it."""

    path: KeyPath
    words: str
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


def add_to(frame: Frame, text: str, path: str, *, as_patch: bool) -> Added:
    """The documents in `text` with what the trial needs. Raises InputError where theirs leaves no room for it."""
    documents = emit.read(text, path)
    position = _ray_resource(documents, path)
    edit = Edit(documents[position])
    editor = _Editor(frame, edit, path, as_patch)
    editor.resource()
    pods = editor.pods()
    for pod in pods:
        editor.pod(pod)
    documents[position] = edit.result
    metadata = edit.result["metadata"]
    name, namespace = (str(metadata.get(key) or "") for key in ("name", "namespace"))
    version = str(edit.result["apiVersion"]).removeprefix("ray.io/")
    return Added(editor.kind, version, name, namespace or None, documents, edit.operations)


def _ray_resource(documents: list[Any], path: str) -> int:
    found = [
        position
        for position, document in enumerate(documents)
        if isinstance(document, dict)
        and str(document.get("apiVersion", "")).startswith("ray.io/")
        and document.get("kind") in _CLUSTER_AT
    ]
    if len(found) != 1:
        seen = f"holds {len(found)} of them" if found else "holds none"
        raise InputError(seen, place=Place(path), expected="one RayJob or RayCluster of ray.io")
    return found[0]


class _Editor:
    """What a trial needs, put into one Ray resource."""

    def __init__(self, frame: Frame, edit: Edit, path: str, as_patch: bool):
        self._frame, self._edit, self._path, self._as_patch = frame, edit, path, as_patch
        self.kind = str(edit.get(("kind",)))
        self._cluster = _CLUSTER_AT[self.kind]

    def resource(self) -> None:
        """Digest, and the entrypoint of a RayJob; an entrypoint of theirs is kept in an annotation.

        A component keeps none: its base has it still.
        """
        self._check_namespace()
        self._edit.put(("metadata", "annotations", TRIAL_DIGEST), self._frame.digest)
        if self.kind != "RayJob":
            return
        if self._edit.get(("spec", "clusterSelector")):
            raise self._no("spec.clusterSelector", "selects a cluster that is not in this file", "rayClusterSpec")
        if self._edit.get(("spec", "submissionMode")) == "InteractiveMode":
            raise self._no("spec.submissionMode", "saw InteractiveMode", "a mode that submits the entrypoint")
        if "PYTHONPATH" in self._runtime_env():
            raise self._no("spec.runtimeEnvYAML", "sets PYTHONPATH for every process of the job", "it in the pods' env")
        theirs = self._edit.get(("spec", "entrypoint"))
        if theirs and theirs != ENTRYPOINT and not self._as_patch:
            self._edit.put(("metadata", "annotations", REPLACED), Redactor({}).text(str(theirs)))
        self._edit.put(("spec", "entrypoint"), ENTRYPOINT)

    def _check_namespace(self) -> None:
        """The ConfigMaps go where the pods are. Where the manifest names no namespace, neither do they."""
        asked, theirs = self._frame.trial.cluster.namespace, self._edit.get(("metadata", "namespace"))
        if asked and theirs and asked != theirs and "$" not in theirs:
            raise InputError(
                f"saw {asked}",
                field="cluster.namespace",
                expected=f"{theirs}, which {self._path} names",
                fix="leave cluster.namespace out: what the template says counts",
            )

    def _runtime_env(self) -> dict[str, Any]:
        text = self._edit.get(("spec", "runtimeEnvYAML"), "")
        documents = emit.read(str(text), f"{self._path}: spec.runtimeEnvYAML")
        first = documents[0] if documents and isinstance(documents[0], dict) else {}
        return first.get("env_vars") or {}

    def pods(self) -> list[_Pod]:
        """The head's template and each group's. Raises InputError where there is no container to add to."""
        workers = self._edit.get((*self._cluster, "workerGroupSpecs"), [])
        found = [_Pod((*self._cluster, "headGroupSpec", "template"), "headGroupSpec", trains=not workers)]
        for number in range(len(workers) if isinstance(workers, list) else 0):
            path = (*self._cluster, "workerGroupSpecs", number)
            self._edit.expect((*path, "groupName"))
            found.append(_Pod((*path, "template"), f"workerGroupSpecs.{number}", trains=True))
        for pod in found:
            if not isinstance(self._edit.get(pod.container), dict):
                raise self._no(f"{pod.words}.template.spec.containers", "holds none", "the Ray container first")
        return found

    def pod(self, pod: _Pod) -> None:
        """One pod template: digest, package and trial, variables, storage."""
        self._check_image(pod)
        self._edit.put((*pod.path, "metadata", "annotations", TRIAL_DIGEST), self._frame.digest)
        self._volume(pod, self._frame.volume, MOUNT, read_only=True)
        self._prepend_python_path(pod)
        if pod.words == "headGroupSpec":
            self._variable(pod, "RAY_JOB_STOP_WAIT_TIME_S", f"{STOP_S:g}")
            self._stop_first(pod)
        if pod.trains:
            self._variable(pod, "NCCL_DEBUG", "INFO")
            self._require(pod)
        self._storage(pod)

    def _check_image(self, pod: _Pod) -> None:
        """The record states the trial's image: a manifest that runs another one must not go unseen."""
        asked, theirs = self._frame.trial.image, str(self._edit.get((*pod.container, "image"), ""))
        if asked and theirs and "$" not in theirs and theirs != asked and not self._as_patch:
            raise InputError(
                f"saw {asked}", field="image", expected=f"{theirs}, which {pod.words} of {self._path} runs"
            )

    def _require(self, pod: _Pod) -> None:
        """Pins NCCL's network where the trial requires one; their pods must ask for it."""
        if not self._frame.trial.cluster.require:
            return
        limits = self._edit.get((*pod.container, "resources", "limits"), {})
        if EFA not in limits:
            raise self._no(f"{pod.words} limits", f"holds no {EFA}", f"{EFA}, as cluster.require says")
        position = self._variable_at(pod, PINNED)
        theirs = OFI_NETWORK if position is None else self._edit.get((*pod.container, "env", position, "value"))
        if "libfabric" not in str(theirs).lower() and str(theirs).lower() != "ofi":
            raise self._no(f"{pod.words} {PINNED}", f"is {theirs}", f"{OFI_NETWORK}, as cluster.require says")
        self._variable(pod, PINNED, OFI_NETWORK)

    def _stop_first(self, pod: _Pod) -> None:
        """Has the driver seal before Ray goes. A hook that is no shell command stays as it is."""
        path = (*pod.container, "lifecycle", "preStop")
        if self._edit.get(path) is None:
            self._edit.put(path, {"exec": {"command": ["/bin/sh", "-c", STOP_DRIVER]}})
            return
        command = self._edit.get((*path, "exec", "command"))
        if isinstance(command, list) and len(command) == 3 and command[1] == "-c":
            self._edit.expect((*path, "exec", "command"))
            self._edit.put((*path, "exec", "command"), [*command[:2], f"{STOP_DRIVER}; {command[2]}"])

    def _variable(self, pod: _Pod, name: str, value: str) -> None:
        if self._variable_at(pod, name) is None:
            self._edit.append((*pod.container, "env"), {"name": name, "value": value})

    def _variable_at(self, pod: _Pod, name: str) -> int | None:
        env = self._edit.get((*pod.container, "env"), [])
        return next((i for i, entry in enumerate(env) if isinstance(entry, dict) and entry.get("name") == name), None)

    def _prepend_python_path(self, pod: _Pod) -> None:
        position, own = self._variable_at(pod, "PYTHONPATH"), self._frame.python_path
        if position is None:
            self._variable(pod, "PYTHONPATH", own)
            return
        path = (*pod.container, "env", position)
        if self._edit.get((*path, "valueFrom")):
            raise self._no(f"{pod.words} PYTHONPATH", "comes from elsewhere", "a value that can be added to")
        self._edit.expect((*path, "name"))
        theirs = self._edit.get((*path, "value"))
        self._edit.put((*path, "value"), f"{own}:{theirs}" if theirs else own)

    def _storage(self, pod: _Pod) -> None:
        storage = self._frame.trial.storage
        if self._on_shared_mount(pod, storage.path):
            return
        if storage.volume is None:
            raise InputError(
                f"{storage.path} lies on no volume of {pod.words} that pods could share",
                place=Place(self._path),
                field="storage.path",
                expected="a folder below a mount of head and workers",
                fix="or name a claim in storage.volume, which is then mounted",
            )
        claim = {"name": STORAGE, "persistentVolumeClaim": {"claimName": storage.volume.claim}}
        self._volume(pod, claim, storage.volume.mountPath)

    def _on_shared_mount(self, pod: _Pod, path: str) -> bool:
        """Whether the innermost mount that holds `path` is more than the pod's own scratch space."""
        mounts = self._edit.get((*pod.container, "volumeMounts"), [])
        holding = [m for m in mounts if isinstance(m, dict) and below(path, str(m.get("mountPath") or "/nowhere"))]
        if not holding:
            return False
        name = max(holding, key=lambda m: len(m["mountPath"])).get("name")
        volumes = self._edit.get((*pod.spec, "volumes"), [])
        volume = next((v for v in volumes if isinstance(v, dict) and v.get("name") == name), {})
        return bool(set(volume) - {"name", "emptyDir", "configMap", "secret", "downwardAPI", "projected"})

    def _volume(self, pod: _Pod, volume: dict[str, Any], mount: str, read_only: bool = False) -> None:
        names = {v.get("name") for v in self._edit.get((*pod.spec, "volumes"), []) if isinstance(v, dict)}
        mounts = self._edit.get((*pod.container, "volumeMounts"), [])
        if volume["name"] in names:
            raise self._no(f"{pod.words} volume {volume['name']}", "is there already", "this name to be free")
        if any(isinstance(m, dict) and m.get("mountPath") == mount for m in mounts):
            raise self._no(f"{pod.words} mount {mount}", "is there already", "this path to be free")
        self._edit.append((*pod.spec, "volumes"), volume)
        entry = {"name": volume["name"], "mountPath": mount, **({"readOnly": True} if read_only else {})}
        self._edit.append((*pod.container, "volumeMounts"), entry)

    def _no(self, field: str, seen: str, expected: str) -> InputError:
        return InputError(seen, place=Place(self._path), field=field, expected=expected)
