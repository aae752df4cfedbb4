"""The pods: a head without GPU that runs the driver, workers that train, and the pod that submits the job."""

from __future__ import annotations

from typing import Any

from seatrial.driver.stop import STOP_S
from seatrial.probe.nccl.collect import OFI_NETWORK, PINNED
from seatrial.render.context import MOUNT, STOP_DRIVER, TRIAL_DIGEST, TRIAL_LABEL, VOLUME, RenderContext
from seatrial.render.emit import Key, noted
from seatrial.render.patch import merged
from seatrial.render.sizes import GroupSizes, PodSize, head_size
from seatrial.trial.cluster import Head, Toleration

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
ROLE_LABEL = "seatrial.io/role"
NETWORK_INTERFACE = "eth0"
GRACE_S = 120
TMP_RAY = "10Gi"
_PORTS = (("gcs-server", 6379), ("dashboard", 8265), ("client", 10001))


def head(context: RenderContext, image: str) -> dict[str, Any]:
    """`headGroupSpec`."""
    asked = context.trial.cluster.head or Head()
    size, account = head_size(asked), context.trial.cluster.serviceAccount or context.name
    container = _container(context, "ray-head", image, size) | {
        "ports": [{"name": name, "containerPort": port} for name, port in _PORTS],
        "env": [
            noted(
                "The image asks the NVIDIA runtime for every GPU. This pod needs none, and it must also start\n"
                "on a node where this runtime is the default and no driver is installed.",
                {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
            ),
            *_own_env(context),
            noted(
                "On a stop, Ray kills the driver after 3 seconds unless told otherwise. Sealing takes longer.",
                {"name": "RAY_JOB_STOP_WAIT_TIME_S", "value": f"{STOP_S:g}"},
            ),
        ],
    }
    spec = {
        **_common(context),
        Key("serviceAccountName", "The driver may read the pods of this namespace."): account,
        **_head_placement(context, asked),
        "containers": [container],
        "volumes": _volumes(context, size),
    }
    return {
        "rayStartParams": {
            Key("num-cpus", "No training on the head: it runs the driver and Ray's control plane."): "0",
            "num-gpus": "0",
        },
        "template": _template(context, "head", merged(spec, asked.pod)),
    }


def worker(context: RenderContext, image: str, group: GroupSizes) -> dict[str, Any]:
    """One of `workerGroupSpecs`."""
    size = group.pod
    container = _container(context, "ray-worker", image, size) | {"env": _worker_env(context, group)}
    account = context.trial.cluster.serviceAccount
    spec = {
        **_common(context),
        **({"serviceAccountName": account} if account else {"automountServiceAccountToken": False}),
        **_worker_placement(context, group),
        "containers": [container],
        "volumes": _volumes(context, size),
    }
    memory = {"object-store-memory": str(size.object_store_bytes)} if size.object_store_bytes else {}
    return {
        "groupName": group.name,
        Key("replicas", "A gang of fixed size: training waits for all of its pods."): group.replicas,
        "minReplicas": group.replicas,
        "maxReplicas": group.replicas,
        "rayStartParams": {"num-gpus": str(size.gpus), **memory},
        "template": _template(context, "worker", merged(spec, group.asked.pod)),
    }


def submitter(context: RenderContext, image: str) -> dict[str, Any]:
    """The pod that submits the entrypoint to Ray. Without this template it could run on any node."""
    asked = context.trial.cluster.head or Head()
    size = {"cpu": "1", "memory": "1Gi"}
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        **_references(context),
        **_head_placement(context, asked),
        "containers": [
            {
                "name": "ray-job-submitter",
                "image": image,
                "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
                "resources": {"requests": size, "limits": dict(size)},
            }
        ],
    }
    return _template(context, "submitter", spec)


def _template(context: RenderContext, role: str, spec: dict[str, Any]) -> dict[str, Any]:
    cluster = context.trial.cluster
    return {
        "metadata": {
            "labels": {**context.labels, ROLE_LABEL: role},
            Key("annotations", "On the pods, because KubeRay does not copy annotations from the Ray resource."): {
                "karpenter.sh/do-not-disrupt": "true",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                **cluster.annotations,
                TRIAL_DIGEST: context.digest,
            },
        },
        "spec": spec,
    }


def _container(context: RenderContext, name: str, image: str, size: PodSize) -> dict[str, Any]:
    amount = {"cpu": str(size.cpu), "memory": size.memory}
    if size.gpus:
        amount[GPU] = str(size.gpus)
    if size.efa:
        amount[EFA] = str(size.efa)
    mounts = [
        {"name": VOLUME, "mountPath": MOUNT, "readOnly": True},
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "ray-session", "mountPath": "/tmp/ray"},
    ]
    if volume := context.trial.storage.volume:
        mounts.append({"name": "storage", "mountPath": volume.mountPath})
    # The caller fills these in; here they only get their position among the keys.
    filled_in: dict[str, Any] = {"ports": [], "env": []} if name == "ray-head" else {"env": []}
    stop = f"{STOP_DRIVER}; ray stop" if name == "ray-head" else "ray stop"
    return {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        **filled_in,
        "resources": {"requests": {**amount, "ephemeral-storage": TMP_RAY}, "limits": amount},
        "volumeMounts": mounts,
        "lifecycle": {"preStop": {"exec": {"command": ["/bin/sh", "-c", stop]}}},
    }


def _common(context: RenderContext) -> dict[str, Any]:
    return {"terminationGracePeriodSeconds": GRACE_S, **_references(context)}


def _volumes(context: RenderContext, size: PodSize) -> list[dict[str, Any]]:
    volumes = [
        context.volume,
        noted(
            "Counts as memory of the pod. Ray's object store needs 30 % of the memory limit.",
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size.shm}},
        ),
        {"name": "ray-session", "emptyDir": {"sizeLimit": TMP_RAY}},
    ]
    if volume := context.trial.storage.volume:
        volumes.append({"name": "storage", "persistentVolumeClaim": {"claimName": volume.claim}})
    return volumes


def _references(context: RenderContext) -> dict[str, Any]:
    cluster = context.trial.cluster
    found: dict[str, Any] = {}
    if cluster.priorityClass:
        found["priorityClassName"] = cluster.priorityClass
    if cluster.imagePullSecrets:
        found["imagePullSecrets"] = [{"name": name} for name in cluster.imagePullSecrets]
    return found


def _own_env(context: RenderContext) -> list[dict[str, Any]]:
    path, where = (
        {"name": "PYTHONPATH", "value": context.python_path},
        "ConfigMaps" if context.configs[1:] else "ConfigMap",
    )
    return [noted(f"seatrial comes with the {where}: nothing is installed.", path)]


def _worker_env(context: RenderContext, group: GroupSizes) -> list[dict[str, Any]]:
    volume = context.trial.storage.volume
    env = _own_env(context)
    if group.pod.gpus:
        env.append({"name": "NCCL_DEBUG", "value": "INFO"})
    if not group.asked.pod.get("hostNetwork"):  # the host's interfaces have other names
        why = "The only routable interface of a pod has this name. Rendezvous and gloo use it"
        why += "; NCCL sends its data over EFA." if group.pod.efa else "."
        env.append(noted(why, {"name": "NCCL_SOCKET_IFNAME", "value": NETWORK_INTERFACE}))
        env.append({"name": "GLOO_SOCKET_IFNAME", "value": NETWORK_INTERFACE})
    if context.trial.cluster.require:
        why = "cluster.require: efa. With a pinned network NCCL fails if its plugin fails, instead of using TCP."
        env.append(noted(why, {"name": PINNED, "value": OFI_NETWORK}))
    if group.pod.efa:
        env.append({"name": "FI_PROVIDER", "value": "efa"})
        env.append(
            noted(
                "Without reserved huge pages, a fork runs out of memory if libfabric uses them.",
                {"name": "FI_EFA_USE_HUGE_PAGE", "value": "0"},
            )
        )
    if volume:
        env.append(noted("One download for all pods.", {"name": "HF_HOME", "value": f"{volume.mountPath}/huggingface"}))
    return env


def _tolerations(given: tuple[Toleration, ...]) -> list[dict[str, Any]]:
    return [toleration.model_dump(mode="json", exclude_none=True) for toleration in given]


def _head_placement(context: RenderContext, asked: Head) -> dict[str, Any]:
    """Placement of head and submitter: the trial's node selector, else any node of another type than the workers'."""
    found: dict[str, Any] = {}
    types = sorted({group.instanceType for group in context.trial.cluster.workerGroups if group.instanceType})
    if asked.nodeSelector:
        found["nodeSelector"] = dict(asked.nodeSelector)
    elif context.trial.cluster.provider == "eks" and types:
        other = {"key": INSTANCE_TYPE, "operator": "NotIn", "values": types}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [other]}]}
        found[Key("affinity", "A head on a worker's node would take CPUs and memory that the worker needs.")] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        }
    if asked.tolerations:
        found["tolerations"] = _tolerations(asked.tolerations)
    return found


def _worker_placement(context: RenderContext, group: GroupSizes) -> dict[str, Any]:
    asked, eks = group.asked, context.trial.cluster.provider == "eks"
    types = {INSTANCE_TYPE: asked.instanceType} if eks and asked.instanceType else {}
    own = {"matchLabels": {TRIAL_LABEL: context.name, ROLE_LABEL: "worker"}}
    found: dict[str, Any] = {}
    if types or asked.nodeSelector:
        found["nodeSelector"] = {**types, **asked.nodeSelector}
    tolerations = [{"key": GPU, "operator": "Exists"}] if group.pod.gpus else []
    if group.pod.efa:
        tolerations.append({"key": "aws.amazon.com/efa", "operator": "Exists"})
    if tolerations := tolerations + _tolerations(asked.tolerations):
        found["tolerations"] = tolerations
    if group.takes_node:
        term = {"labelSelector": own, "topologyKey": "kubernetes.io/hostname"}
        found["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    else:
        spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway"}
        found["topologySpreadConstraints"] = [{**spread, "labelSelector": own}]
    if group.pod.efa and ZONE not in asked.nodeSelector and _workers(context) > 1:
        zone = {"labelSelector": own, "topologyKey": ZONE}
        found["affinity"] = {
            **found.get("affinity", {}),
            Key("podAffinity", "EFA does not reach across availability zones."): {
                "requiredDuringSchedulingIgnoredDuringExecution": [zone]
            },
        }
    return found


def _workers(context: RenderContext) -> int:
    return sum(group.replicas for group in context.trial.cluster.workerGroups)
