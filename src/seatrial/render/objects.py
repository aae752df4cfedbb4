"""The objects around the pods: what the driver may read, the claim, the ConfigMaps, and the Ray resource itself."""

from __future__ import annotations

import base64
from typing import Any

from seatrial.errors import InputError
from seatrial.render import pods
from seatrial.render.emit import Key
from seatrial.render.frame import ENTRYPOINT, Frame
from seatrial.render.sizes import groups
from seatrial.trial import Trial

TTL_S = 600
PREPARATION_S = 30 * 60  # nodes, images of 10 GB and more, Ray itself
LONGEST_S = 24 * 60 * 60
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def access(frame: Frame) -> list[dict[str, Any]]:
    """A service account for the head, unless the trial names one, and the right to read pods."""
    cluster, name = frame.trial.cluster, frame.name
    account = cluster.serviceAccount or name
    space = {"namespace": cluster.namespace} if cluster.namespace else {}
    own = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": frame.metadata()}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": frame.metadata(),
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": frame.metadata(),
        "subjects": [{"kind": "ServiceAccount", "name": account, **space}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
    }
    return [*([] if cluster.serviceAccount else own), role, binding]


def claim(frame: Frame) -> dict[str, Any] | None:
    """The PersistentVolumeClaim, if the trial asks for one to be made."""
    volume = frame.trial.storage.volume
    if volume is None or volume.create is None:
        return None
    storage_class = {"storageClassName": name} if (name := volume.create.storageClassName) else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": frame.metadata(volume.claim),
        "spec": {
            Key("accessModes", "Head and workers write it from several nodes at once."): ["ReadWriteMany"],
            **storage_class,
            "resources": {"requests": {"storage": volume.create.size}},
        },
    }


def configs(frame: Frame, space: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The trial and each part of seatrial, for every pod; `space` is a template's namespace, or that it names none."""
    found: list[dict[str, Any]] = []
    for name, part in zip(frame.configs, frame.package, strict=True):
        metadata = frame.metadata(name)
        if space is not None:
            metadata = {key: value for key, value in metadata.items() if key != "namespace"} | space
        trial = {} if found else {"data": {"trial.json": frame.trial_json}}
        binary = {part.file: base64.b64encode(part.data).decode()}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **trial, "binaryData": binary})
    return found


def ray_cluster(frame: Frame, ray: str) -> dict[str, Any]:
    """A RayCluster of its own, to which the entrypoint is submitted by hand."""
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": _metadata(frame), "spec": _spec(frame, ray)}


def ray_job(frame: Frame, ray: str) -> dict[str, Any]:
    """The RayJob: KubeRay makes the cluster, runs the entrypoint on its head, and removes the cluster."""
    spec = {
        Key("entrypoint", "One command: what stands behind ; or && would run in the submitter's pod."): (ENTRYPOINT),
        Key("entrypointNumCpus", "The head offers no CPUs to Ray; the driver asks for none."): 0,
        Key("backoffLimit", "Another attempt would be another run. A refuted claim is no failure of the job."): 0,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": TTL_S,
        Key(
            "activeDeadlineSeconds",
            "The longest that the trial's own limits allow, at most a day; cluster.deadline changes it.",
        ): deadline(frame.trial),
        "submitterPodTemplate": pods.submitter(frame, _image(frame.trial)),
        "rayClusterSpec": _spec(frame, ray),
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": _metadata(frame), "spec": spec}


def deadline(trial: Trial) -> int:
    """Seconds until KubeRay ends the job, from its beginning: start of train and reload, every step at its limit."""
    if trial.cluster.deadline:
        return int(trial.cluster.deadline)
    limits, steps = trial.workload.timeout, trial.workload.steps
    if steps is None:  # nobody knows how long a script takes
        return int(LONGEST_S)
    return int(min(PREPARATION_S + 2 * limits.start + steps * limits.step, LONGEST_S))


def _metadata(frame: Frame) -> dict[str, Any]:
    queue = frame.trial.cluster.queue
    return frame.metadata(labels={QUEUE_LABEL: queue} if queue else {})


def _spec(frame: Frame, ray: str) -> dict[str, Any]:
    image = _image(frame.trial)
    return {
        Key("rayVersion", "Of the image. KubeRay chooses its health probes by it."): ray,
        "headGroupSpec": pods.head(frame, image),
        "workerGroupSpecs": [pods.worker(frame, image, group) for group in groups(frame.trial)],
    }


def _image(trial: Trial) -> str:
    if not trial.image:
        raise InputError(
            "missing",
            field="image",
            expected="the image of every pod",
            fix="`seatrial catalog` lists images; `seatrial image resolve TRIAL --write` pins one",
        )
    return trial.image
