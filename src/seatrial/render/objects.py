"""The objects around the pods: permissions, the claim, the ConfigMaps, and the Ray resource itself."""

from __future__ import annotations

import base64
from typing import Any

from seatrial.errors import InputError
from seatrial.render import pods
from seatrial.render.context import ENTRYPOINT, RenderContext
from seatrial.render.emit import Key
from seatrial.render.sizes import groups
from seatrial.trial import Trial

TTL_S = 600
PREPARATION_S = 30 * 60  # for nodes, images of 10 GB and more, and Ray itself
LONGEST_S = 24 * 60 * 60
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


def access(context: RenderContext) -> list[dict[str, Any]]:
    """The right to read pods, for the service account of the head. Creates the account unless the trial names one."""
    cluster, name = context.trial.cluster, context.name
    account = cluster.serviceAccount or name
    space = {"namespace": cluster.namespace} if cluster.namespace else {}
    own = [{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": context.metadata()}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": context.metadata(),
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}],
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": context.metadata(),
        "subjects": [{"kind": "ServiceAccount", "name": account, **space}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
    }
    return [*([] if cluster.serviceAccount else own), role, binding]


def claim(context: RenderContext) -> dict[str, Any] | None:
    """The PersistentVolumeClaim, if seatrial is to create one."""
    volume = context.trial.storage.volume
    if volume is None or volume.create is None:
        return None
    storage_class = {"storageClassName": name} if (name := volume.create.storageClassName) else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": context.metadata(volume.claim),
        "spec": {
            Key("accessModes", "Head and workers write it from several nodes at once."): ["ReadWriteMany"],
            **storage_class,
            "resources": {"requests": {"storage": volume.create.size}},
        },
    }


def configs(context: RenderContext, space: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The ConfigMaps with the trial and each part of seatrial. `space` replaces the namespace; `{}` removes it."""
    found: list[dict[str, Any]] = []
    for name, part in zip(context.configs, context.package, strict=True):
        metadata = context.metadata(name)
        if space is not None:
            metadata = {key: value for key, value in metadata.items() if key != "namespace"} | space
        trial = {} if found else {"data": {"trial.json": context.trial_json}}
        binary = {part.file: base64.b64encode(part.data).decode()}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **trial, "binaryData": binary})
    return found


def ray_cluster(context: RenderContext, ray: str) -> dict[str, Any]:
    """A RayCluster without a job: the user starts the entrypoint by hand."""
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": _metadata(context),
        "spec": _spec(context, ray),
    }


def ray_job(context: RenderContext, ray: str) -> dict[str, Any]:
    """The RayJob: KubeRay makes the cluster, runs the entrypoint on its head, and removes the cluster."""
    spec = {
        Key("entrypoint", "One command only: anything behind ; or && would run in the submitter's pod."): ENTRYPOINT,
        Key("entrypointNumCpus", "The head offers no CPUs to Ray; the driver asks for none."): 0,
        Key("backoffLimit", "A retry would be another run. A refuted claim is no failure of the job."): 0,
        "shutdownAfterJobFinishes": True,
        "ttlSecondsAfterFinished": TTL_S,
        Key(
            "activeDeadlineSeconds",
            "As long as the trial's own limits allow, at most a day. cluster.deadline changes it.",
        ): deadline(context.trial),
        "submitterPodTemplate": pods.submitter(context, _image(context.trial)),
        "rayClusterSpec": _spec(context, ray),
    }
    return {"apiVersion": "ray.io/v1", "kind": "RayJob", "metadata": _metadata(context), "spec": spec}


def deadline(trial: Trial) -> int:
    """Seconds after which KubeRay ends the job: preparation, then both starts and every step at their limits."""
    if trial.cluster.deadline:
        return int(trial.cluster.deadline)
    limits, steps = trial.workload.timeout, trial.workload.steps
    if steps is None:  # a script's length is unknown
        return int(LONGEST_S)
    return int(min(PREPARATION_S + 2 * limits.start + steps * limits.step, LONGEST_S))


def _metadata(context: RenderContext) -> dict[str, Any]:
    queue = context.trial.cluster.queue
    return context.metadata(labels={QUEUE_LABEL: queue} if queue else {})


def _spec(context: RenderContext, ray: str) -> dict[str, Any]:
    image = _image(context.trial)
    return {
        Key("rayVersion", "The image's Ray. KubeRay chooses its health probes by it."): ray,
        "headGroupSpec": pods.head(context, image),
        "workerGroupSpecs": [pods.worker(context, image, group) for group in groups(context.trial)],
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
