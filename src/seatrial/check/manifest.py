"""A Ray custom resource seen as KubeRay sees it: cluster, groups, the Ray container, the job.

KubeRay takes the first container of a template as the Ray container, whatever its name (RayContainerIndex = 0).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from seatrial.check.reading import YamlDocument
from seatrial.check.values import Value

GROUP = "ray.io"
KINDS = ("RayCluster", "RayJob", "RayService")
_CLUSTER_AT = {
    "RayCluster": ("spec",),
    "RayJob": ("spec", "rayClusterSpec"),
    "RayService": ("spec", "rayClusterConfig"),
}
_INSTANCE_KEYS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")


@dataclass(frozen=True)
class Mount:
    """A volume as a container sees it."""

    path: str
    volume: Value  # absent where the pod has no volume of that name
    value: Value
    read_only: bool

    @property
    def claim(self) -> Value:
        return self.volume.at("persistentVolumeClaim", "claimName")


@dataclass(frozen=True)
class PodTemplate:
    """A pod template: of the head, of a worker group or of the submitter."""

    template: Value

    @property
    def title(self) -> str:
        return "submitter"

    @property
    def spec(self) -> Value:
        return self.template["spec"]

    @property
    def metadata(self) -> Value:
        return self.template["metadata"]

    @property
    def container(self) -> Value:
        """The Ray container; absent where the template has none."""
        return self.spec.at("containers", 0)

    @property
    def image(self) -> Value:
        return self.container["image"]

    def limit(self, key: str) -> Value:
        return self.container.at("resources", "limits", key)

    def request(self, key: str) -> Value:
        return self.container.at("resources", "requests", key)

    def requested(self, key: str) -> Value:
        """The request that the scheduler sees: of its own, or the limit where none is given."""
        own = self.request(key)
        return own if own else self.limit(key)

    def asked(self, key: str) -> list[Value]:
        """What the scheduler adds up of a resource: of each container, and of sidecars among the init containers."""
        # Other init containers end before the pod runs; the scheduler takes their maximum, not their sum.
        sidecars = (one for one in self.spec["initContainers"] if one["restartPolicy"].raw == "Always")
        sections = [container["resources"] for container in (*self.spec["containers"], *sidecars)]
        first, then = ("limits", "requests") if "/" in key else ("requests", "limits")  # alike for devices
        amounts = (r[first][key] if r[first][key] else r[then][key] for r in sections)
        whole = self.spec.at("resources", "requests", key)  # of the pod: what its containers ask then counts in it
        return [whole] if whole else [amount for amount in amounts if amount]

    @cached_property
    def env(self) -> dict[str, Value]:
        """The Ray container's variables by name: the whole entry; of two of one name the last one counts."""
        return {entry["name"].raw: entry for entry in self.container["env"] if entry["name"].raw}

    def variable(self, name: str) -> Value:
        """The literal value of a variable; absent where it is not set or comes from elsewhere."""
        entry = self.env.get(name)
        return entry["value"] if entry else self.container["env"]["value"]

    @cached_property
    def mounts(self) -> list[Mount]:
        volumes = {volume["name"].raw: volume for volume in self.spec["volumes"]}
        absent = self.spec.at("volumes", "absent")  # a value with the place of the list, and nothing in it
        return [
            Mount(
                m["mountPath"].raw.rstrip("/") or "/",
                volumes.get(m["name"].raw, absent),
                m,
                m["readOnly"].raw == "true",
            )
            for m in self.container["volumeMounts"]
        ]

    def mounted_at(self, path: str) -> Mount | None:
        """The volume mounted exactly at `path`."""
        return next((mount for mount in self.mounts if mount.path == path), None)

    def holding(self, path: str) -> Mount | None:
        """The volume in which `path` lies: the longest mount path above it."""
        above = [m for m in self.mounts if path == m.path or path.startswith(f"{m.path.rstrip('/')}/")]
        return max(above, key=lambda m: len(m.path), default=None)

    @cached_property
    def instance_types(self) -> list[Value]:
        """The instance types that the pod may run on, by nodeSelector or required node affinity; empty: any."""
        for key in _INSTANCE_KEYS:
            chosen = self.spec.at("nodeSelector", key)
            if chosen:  # it must hold whatever the affinity says
                return [chosen]
        terms = self.spec.at(
            "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"
        )
        for term in terms:
            for expression in term["matchExpressions"]:
                if expression["key"].raw in _INSTANCE_KEYS and expression["operator"].raw == "In":
                    return list(expression["values"])
        return []

    @property
    def pinned(self) -> bool:
        """Whether something narrows the nodes that the pod may run on."""
        affinity = self.spec.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        return bool(self.spec["nodeSelector"] and self.spec["nodeSelector"].items()) or bool(affinity)

    def tolerates(self, key: str) -> bool:
        """Whether some toleration is for that taint key, or for every taint."""
        for toleration in self.spec["tolerations"]:
            name = toleration["key"].raw
            # A placeholder may be the key; Exists without a key tolerates every taint.
            if name == key or toleration["key"].unknown or (not name and toleration["operator"].raw == "Exists"):
                return True
        return False


@dataclass(frozen=True)
class RayGroup(PodTemplate):
    """The head group or a worker group."""

    value: Value
    cluster: RayClusterSpec
    is_head: bool

    def __hash__(self) -> int:
        return hash(self.value.path)  # the generated one would go through the whole cluster and back

    @property
    def title(self) -> str:
        return "head" if self.is_head else f"worker group {self.value['groupName'].raw or '?'}"

    @property
    def params(self) -> Value:
        return self.value["rayStartParams"]

    @property
    def hosts(self) -> Value:
        return self.value["numOfHosts"]

    @cached_property
    def pods(self) -> int:
        """Pods that the operator starts: GetWorkerGroupDesiredReplicas × numOfHosts, 1 for the head. Raises CannotTell.

        CRD defaults: replicas 0, minReplicas 0, maxReplicas 2³¹−1, numOfHosts 1.
        """
        if self.is_head:
            return 1
        if self.value["suspend"].known_flag():
            return 0
        least = self.value["minReplicas"].known_integer() or 0 if self.value["minReplicas"] else 0
        most = self.value["maxReplicas"].known_integer() if self.value["maxReplicas"] else None
        count = self.value["replicas"].known_integer() or 0 if self.value["replicas"] else 0
        count = max(count if most is None else min(count, most), least)  # in KubeRay's order: minReplicas wins
        return count * (self.hosts.known_integer() or 1 if self.hosts else 1)


@dataclass(frozen=True)
class RayClusterSpec:
    """The cluster part of a resource."""

    value: Value
    manifest: Manifest

    @cached_property
    def head(self) -> RayGroup:
        head = self.value["headGroupSpec"]
        return RayGroup(head["template"], head, self, True)

    @cached_property
    def workers(self) -> list[RayGroup]:
        return [RayGroup(group["template"], group, self, False) for group in self.value["workerGroupSpecs"]]

    @property
    def groups(self) -> list[RayGroup]:
        return [self.head, *self.workers]

    @cached_property
    def trains(self) -> list[RayGroup]:
        """The groups whose pods hold accelerators: where training runs."""
        return [group for group in self.groups if accelerators(group)]

    @cached_property
    def gang(self) -> list[RayGroup]:
        """The worker groups that train: those with accelerators. None in a RayService, which serves."""
        return [] if self.manifest.is_service else [group for group in self.trains if not group.is_head]

    @property
    def autoscaling(self) -> bool:
        return self.value["enableInTreeAutoscaling"].known_flag() is True

    @property
    def ray_version(self) -> Value:
        return self.value["rayVersion"]

    @property
    def overwrites_command(self) -> bool:
        """The annotation that keeps KubeRay from replacing container commands; a RayJob hands its own on."""
        annotations = self.manifest.metadata["annotations"]
        return annotations["ray.io/overwrite-container-cmd"].raw.lower() == "true"


@dataclass(frozen=True)
class Manifest:
    """One document of group ray.io, with what stands beside it in the same input."""

    root: Value
    others: tuple[Value, ...] = ()

    @property
    def kind(self) -> str:
        return self.root["kind"].raw

    @property
    def api_version(self) -> str:
        return self.root["apiVersion"].raw

    @property
    def metadata(self) -> Value:
        return self.root["metadata"]

    @property
    def spec(self) -> Value:
        return self.root["spec"]

    @property
    def is_job(self) -> bool:
        return self.kind == "RayJob"

    @property
    def is_service(self) -> bool:
        return self.kind == "RayService"

    @cached_property
    def cluster(self) -> RayClusterSpec | None:
        """The cluster that the operator builds; None for a RayJob that selects an existing one."""
        value = self.root.at(*_CLUSTER_AT.get(self.kind, ("spec",)))
        # Without a head group there is nothing to start, whatever else stands there.
        return RayClusterSpec(value, self) if value["headGroupSpec"] else None

    @property
    def selects_cluster(self) -> bool:
        """Whether a RayJob runs on a cluster that exists already."""
        return bool(self.spec["clusterSelector"].items())

    @property
    def submitter(self) -> PodTemplate | None:
        template = self.spec["submitterPodTemplate"]
        return PodTemplate(template) if self.is_job and template else None

    @property
    def pods(self) -> list[PodTemplate]:
        """Every pod template: of the groups and of the submitter."""
        return [*(self.cluster.groups if self.cluster else []), *([self.submitter] if self.submitter else [])]

    @property
    def submission_mode(self) -> str:
        return self.spec["submissionMode"].require_known() or "K8sJobMode"

    def label(self, key: str) -> Value:
        return self.metadata.at("labels", key)

    @property
    def kueue(self) -> Value:
        return self.label("kueue.x-k8s.io/queue-name")


def is_ray(root: Value) -> bool:
    """Whether a document is one of KubeRay's kinds that this checks."""
    return root["apiVersion"].raw.startswith(f"{GROUP}/") and root["kind"].raw in KINDS


def gpu_key(key: str) -> bool:
    """KubeRay's IsGPUResourceKey (utils/resources.go): what it takes for GPUs when it fills in num-gpus."""
    if key.endswith("gpu"):
        return True
    # A MIG profile such as nvidia.com/mig-1g.5gb; those with a suffix (1g.5gb.me) KubeRay does not match.
    name, _, size = key.partition("nvidia.com/mig-")[2].partition("g.")
    return name.isdigit() and size.removesuffix("gb").isdigit() and size.endswith("gb")


def accelerators(pod: PodTemplate) -> list[tuple[str, Value]]:
    """Accelerator limits or requests of the Ray container: GPUs in any spelling, Neuron devices, TPUs."""
    found: dict[str, Value] = {}
    for section in ("requests", "limits"):  # of a key in both the limit is kept, which is what the device plugin gives
        for key, value in pod.container.at("resources", section).items():
            if gpu_key(key) or key.startswith(
                ("nvidia.com/gpu", "nvidia.com/mig-", "aws.amazon.com/neuron", "google.com/tpu")
            ):
                found[key] = value
    return list(found.items())


def unlisted(document: YamlDocument) -> list[Value]:
    """The resources of a document: itself, or the items of a `kind: List`."""
    root = Value.of(document.root, document.path, document.line)
    if root["kind"].raw == "List" and root["items"]:
        return [item for item in root["items"] if item]
    return [root]
