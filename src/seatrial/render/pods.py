"""The pods: a head without GPU that runs the driver, workers that train, and the pod that submits the job."""

from __future__ import annotations

from typing import Any

from seatrial.driver.stop import STOP_S
from seatrial.probe.nccl.collect import OFI_NETWORK, PINNED
from seatrial.render.emit import Key, noted
from seatrial.render.frame import MOUNT, STOP_DRIVER, TRIAL_DIGEST, TRIAL_LABEL, VOLUME, Frame
from seatrial.render.patch import merged
from seatrial.render.sizes import Group, Pod, head_pod
from seatrial.trial.cluster import Head, Toleration

GPU, EFA = "nvidia.com/gpu", "vpc.amazonaws.com/efa"
INSTANCE_TYPE = "node.kubernetes.io/instance-type"
ZONE = "topology.kubernetes.io/zone"
ROLE_LABEL = "seatrial.io/role"
NETWORK_INTERFACE = "eth0"
GRACE_S = 120
TMP_RAY = "10Gi"
_PORTS = (("gcs-server", 6379), ("dashboard", 8265), ("client", 10001))


def head(frame: Frame, image: str) -> dict[str, Any]:
    """`headGroupSpec`."""
    asked = frame.trial.cluster.head or Head()
    size, account = head_pod(asked), frame.trial.cluster.serviceAccount or frame.name
    container = _container(frame, "ray-head", image, size) | {
        "ports": [{"name": name, "containerPort": port} for name, port in _PORTS],
        "env": [
            noted(
                "The image asks the NVIDIA runtime for every GPU of the node. This pod has none, and where that\n"
                "runtime is the node's default it would not start without a driver.",
                {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"},
            ),
            *_own_env(frame),
            noted(
                "On a stop, Ray kills the driver after 3 seconds unless told otherwise. Sealing takes longer.",
                {"name": "RAY_JOB_STOP_WAIT_TIME_S", "value": f"{STOP_S:g}"},
            ),
        ],
    }
    spec = {
        **_common(frame),
        Key("serviceAccountName", "The driver may read the pods of this namespace."): account,
        **_beside_the_training(frame, asked),
        "containers": [container],
        "volumes": _volumes(frame, size),
    }
    return {
        "rayStartParams": {
            Key("num-cpus", "No training work on the head: it runs the driver, and Ray's own control plane."): "0",
            "num-gpus": "0",
        },
        "template": _template(frame, "head", merged(spec, asked.pod)),
    }


def worker(frame: Frame, image: str, group: Group) -> dict[str, Any]:
    """One of `workerGroupSpecs`."""
    size = group.pod
    container = _container(frame, "ray-worker", image, size) | {"env": _worker_env(frame, group)}
    account = frame.trial.cluster.serviceAccount
    spec = {
        **_common(frame),
        **({"serviceAccountName": account} if account else {"automountServiceAccountToken": False}),
        **_placement(frame, group),
        "containers": [container],
        "volumes": _volumes(frame, size),
    }
    memory = {"object-store-memory": str(size.object_store_bytes)} if size.object_store_bytes else {}
    return {
        "groupName": group.name,
        Key("replicas", "A gang of fixed size: training waits until all of it is there."): group.replicas,
        "minReplicas": group.replicas,
        "maxReplicas": group.replicas,
        "rayStartParams": {"num-gpus": str(size.gpus), **memory},
        "template": _template(frame, "worker", merged(spec, group.asked.pod)),
    }


def submitter(frame: Frame, image: str) -> dict[str, Any]:
    """The pod that hands the entrypoint to Ray; without this KubeRay would place it anywhere."""
    asked = frame.trial.cluster.head or Head()
    size = {"cpu": "1", "memory": "1Gi"}
    spec = {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        **_names(frame),
        **_beside_the_training(frame, asked),
        "containers": [
            {
                "name": "ray-job-submitter",
                "image": image,
                "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}],
                "resources": {"requests": size, "limits": dict(size)},
            }
        ],
    }
    return _template(frame, "submitter", spec)


def _template(frame: Frame, role: str, spec: dict[str, Any]) -> dict[str, Any]:
    cluster = frame.trial.cluster
    return {
        "metadata": {
            "labels": {**frame.labels, ROLE_LABEL: role},
            Key("annotations", "Here and not on the Ray resource: KubeRay does not copy them to the pods."): {
                "karpenter.sh/do-not-disrupt": "true",
                "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
                **cluster.annotations,
                TRIAL_DIGEST: frame.digest,
            },
        },
        "spec": spec,
    }


def _container(frame: Frame, name: str, image: str, size: Pod) -> dict[str, Any]:
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
    if volume := frame.trial.storage.volume:
        mounts.append({"name": "storage", "mountPath": volume.mountPath})
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


def _common(frame: Frame) -> dict[str, Any]:
    return {"terminationGracePeriodSeconds": GRACE_S, **_names(frame)}


def _volumes(frame: Frame, size: Pod) -> list[dict[str, Any]]:
    volumes = [
        frame.volume,
        noted(
            "Counts as memory of the pod. From 30 % of its limit on Ray's object store fits in.",
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": size.shm}},
        ),
        {"name": "ray-session", "emptyDir": {"sizeLimit": TMP_RAY}},
    ]
    if volume := frame.trial.storage.volume:
        volumes.append({"name": "storage", "persistentVolumeClaim": {"claimName": volume.claim}})
    return volumes


def _names(frame: Frame) -> dict[str, Any]:
    cluster = frame.trial.cluster
    found: dict[str, Any] = {}
    if cluster.priorityClass:
        found["priorityClassName"] = cluster.priorityClass
    if cluster.imagePullSecrets:
        found["imagePullSecrets"] = [{"name": name} for name in cluster.imagePullSecrets]
    return found


def _own_env(frame: Frame) -> list[dict[str, Any]]:
    path, where = {"name": "PYTHONPATH", "value": frame.python_path}, "ConfigMaps" if frame.configs[1:] else "ConfigMap"
    return [noted(f"seatrial comes with the {where}: nothing is installed.", path)]


def _worker_env(frame: Frame, group: Group) -> list[dict[str, Any]]:
    volume = frame.trial.storage.volume
    env = _own_env(frame)
    if group.pod.gpus:
        env.append({"name": "NCCL_DEBUG", "value": "INFO"})
    if not group.asked.pod.get("hostNetwork"):  # the host's interfaces have other names
        why = "A pod has one routable interface, and it has this name. Rendezvous and gloo use it"
        why += "; NCCL's data takes EFA." if group.pod.efa else "."
        env.append(noted(why, {"name": "NCCL_SOCKET_IFNAME", "value": NETWORK_INTERFACE}))
        env.append({"name": "GLOO_SOCKET_IFNAME", "value": NETWORK_INTERFACE})
    if frame.trial.cluster.require:
        why = "cluster.require: efa. With the network pinned, NCCL fails where the plugin does; else it would use TCP."
        env.append(noted(why, {"name": PINNED, "value": OFI_NETWORK}))
    if group.pod.efa:
        env.append({"name": "FI_PROVIDER", "value": "efa"})
        env.append(
            noted(
                "Without reserved huge pages, libfabric's use of them makes a fork run out of memory.",
                {"name": "FI_EFA_USE_HUGE_PAGE", "value": "0"},
            )
        )
    if volume:
        env.append(noted("One download for all pods.", {"name": "HF_HOME", "value": f"{volume.mountPath}/huggingface"}))
    return env


def _tolerations(given: tuple[Toleration, ...]) -> list[dict[str, Any]]:
    return [toleration.model_dump(mode="json", exclude_none=True) for toleration in given]


def _beside_the_training(frame: Frame, asked: Head) -> dict[str, Any]:
    """Where head and submitter go: where the trial says, else on any node that is not of the workers' types."""
    found: dict[str, Any] = {}
    types = sorted({group.instanceType for group in frame.trial.cluster.workerGroups if group.instanceType})
    if asked.nodeSelector:
        found["nodeSelector"] = dict(asked.nodeSelector)
    elif frame.trial.cluster.provider == "eks" and types:
        other = {"key": INSTANCE_TYPE, "operator": "NotIn", "values": types}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [other]}]}
        found[Key("affinity", "A head on a worker's node would take what the worker needs.")] = {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        }
    if asked.tolerations:
        found["tolerations"] = _tolerations(asked.tolerations)
    return found


def _placement(frame: Frame, group: Group) -> dict[str, Any]:
    asked, eks = group.asked, frame.trial.cluster.provider == "eks"
    types = {INSTANCE_TYPE: asked.instanceType} if eks and asked.instanceType else {}
    own = {"matchLabels": {TRIAL_LABEL: frame.name, ROLE_LABEL: "worker"}}
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
    if group.pod.efa and ZONE not in asked.nodeSelector and _workers(frame) > 1:
        zone = {"labelSelector": own, "topologyKey": ZONE}
        found["affinity"] = {
            **found.get("affinity", {}),
            Key("podAffinity", "EFA does not reach across availability zones."): {
                "requiredDuringSchedulingIgnoredDuringExecution": [zone]
            },
        }
    return found


def _workers(frame: Frame) -> int:
    return sum(group.replicas for group in frame.trial.cluster.workerGroups)
