"""What the operator refuses by itself once the API server has taken it: conditions of its validation.go, 1.3 to 1.7.

KubeRay then makes no pod, and says why in an event of the resource. Where a field came with its check, the release is
not asked for again: `field-newer-than-kuberay` does that.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from seatrial.check.manifest import Manifest, RayClusterSpec, RayGroup
from seatrial.check.names import LABEL_FORM, is_label_key, is_label_value
from seatrial.check.rule import K8S_DOCS, VALIDATION_GO, Facts, Hit, rule
from seatrial.check.values import Value
from seatrial.kube.apimachinery import version

_TIMEOUT = "ray.io/initializing-timeout"
_DURATION = re.compile(r"[-+]?(?:(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+|[0-9]+)")
_INCREMENTAL = "NewClusterWithIncrementalUpgrade"
_UPGRADES = ("NewCluster", _INCREMENTAL, "None")


def entry(variables: Value, name: str) -> Value | None:
    """The first variable of that name, which is the one that the operator looks at."""
    return next((variable for variable in variables if variable["name"].raw == name), None)


def needs_ray(cluster: RayClusterSpec, what: str, least: tuple[int, int]) -> Iterator[Hit]:
    given = cluster.ray_version
    here = version(given.require_known())
    if here is None or here < least:
        seen = f"{what} with rayVersion {given.raw}" if given.require_known() else f"{what} without rayVersion"
        yield Hit(given, seen, f"{least[0]}.{least[1]}.0 or later")


def negative(*values: Value) -> Iterator[Hit]:
    for value in values:
        if value and (value.known_integer() or 0) < 0:
            yield Hit(value, f"saw {value.raw}", "0 or more")


@rule(
    "auth-needs-ray-version",
    "error",
    "cluster",
    title="token authentication that rayVersion does not allow",
    fix="set rayVersion to the image's Ray, or use a newer image",
    source=VALIDATION_GO,
)
def auth_ray_version(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """KubeRay goes by rayVersion, not by the image. It refuses authOptions.mode token below 2.52.0, and
    enableK8sTokenAuth below 2.55.0.
    """
    auth = cluster.value["authOptions"]
    if auth["mode"].require_known() != "token":
        return
    if auth["enableK8sTokenAuth"].known_flag():
        yield from needs_ray(cluster, "enableK8sTokenAuth", (2, 55))
    else:
        yield from needs_ray(cluster, "authOptions.mode token", (2, 52))


@rule(
    "k8s-token-auth-conflict",
    "error",
    "cluster",
    title="fields that KubeRay refuses beside enableK8sTokenAuth",
    fix="leave enableK8sTokenAuth out, or give a RayCluster mode: token without secretName",
    source=VALIDATION_GO,
)
def k8s_token_auth(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses enableK8sTokenAuth without mode: token, beside secretName, and in a RayJob or RayService."""
    auth, kind = cluster.value["authOptions"], cluster.manifest.kind
    asked, secret, mode = auth["enableK8sTokenAuth"], auth["secretName"], auth["mode"]
    if not asked.known_flag():
        return
    if kind != "RayCluster":
        yield Hit(asked, f"true in a {kind}", "false")
    if mode.require_known() != "token":
        yield Hit(mode if mode else asked, f"true, and mode is {mode.raw or 'not set'}", "mode: token")
    elif secret.require_known():
        yield Hit(secret, "secretName beside enableK8sTokenAuth", "one of the two")


@rule(
    "upgrade-strategy-nested",
    "error",
    "manifest",
    title="the upgradeStrategy of a cluster that KubeRay makes itself",
    fix="remove it; a RayService has spec.upgradeStrategy",
    source=VALIDATION_GO,
)
def upgrade_nested(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """upgradeStrategy is for a RayCluster of its own. KubeRay makes the cluster of a RayJob or RayService, and then
    refuses that cluster.
    """
    if manifest.kind == "RayCluster" or manifest.cluster is None or manifest.selects_cluster:
        return  # with clusterSelector KubeRay makes no cluster of rayClusterSpec
    kind = manifest.cluster.value.at("upgradeStrategy", "type")
    if kind:
        yield Hit(kind, f"{kind.require_known()} inside a {manifest.kind}", "left out")


@rule(
    "gcs-ft-conflict",
    "error",
    "cluster",
    title="two ways to say where the head keeps its state",
    fix="use gcsFaultToleranceOptions alone",
    source=VALIDATION_GO,
    needs=("kuberay",),
)
def gcs_conflict(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """Beside gcsFaultToleranceOptions KubeRay refuses the old annotations, variables and rayStartParams for Redis.
    Without these options it refuses a Redis address or user name on the head.
    """
    if not facts.since_kuberay(1, 3):
        return
    options, env = cluster.value["gcsFaultToleranceOptions"], cluster.head.container["env"]
    annotations = cluster.manifest.metadata["annotations"]
    enabled = annotations["ray.io/ft-enabled"]
    # The user's name has no place outside the options; password and address had one in the old form.
    for name in ("REDIS_USERNAME", *(("REDIS_PASSWORD", "RAY_REDIS_ADDRESS") if options else ())):
        found = entry(env, name)
        if found:
            yield Hit(found["name"], f"sets {name} on the head", f"gcsFaultToleranceOptions.{_option(name)}")
    for name in ("redis-username", *(("redis-password",) if options else ())):
        if cluster.head.params[name].require_known():
            yield Hit(cluster.head.params[name], f"{name} in rayStartParams", "gcsFaultToleranceOptions alone")
    for value in (enabled, annotations["ray.io/external-storage-namespace"]) if options else ():
        if value.require_known():
            yield Hit(value, f"{value.path[-1]} beside gcsFaultToleranceOptions", "gcsFaultToleranceOptions alone")
    # Without the options the address counts only where the old annotation turns fault tolerance on.
    address = None if options else entry(env, "RAY_REDIS_ADDRESS")
    if address and enabled.require_known().lower() != "true":
        yield Hit(address["name"], "RAY_REDIS_ADDRESS without gcsFaultToleranceOptions", "redisAddress in it")


def _option(variable: str) -> str:
    """The option that replaces a variable: REDIS_PASSWORD is redisPassword."""
    return f"redis{variable.rpartition('_')[2].capitalize()}"


@rule(
    "gcs-backend-conflict",
    "error",
    "cluster",
    title="options of the other backend for the head's state",
    fix="keep the options of one backend",
    source=VALIDATION_GO,
)
def gcs_backend(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """With backend rocksdb KubeRay refuses Redis' options, and a variable or volume that it sets itself. Without
    rocksdb it refuses `storage`. Beside claimName it refuses the fields of a new claim.
    """
    options, head = cluster.value["gcsFaultToleranceOptions"], cluster.head
    storage = options["storage"]
    if options["backend"].require_known() != "rocksdb":
        if storage:
            yield Hit(storage, "storage with backend redis", "backend: rocksdb")
        return
    for key in ("redisAddress", "redisUsername", "redisPassword", "externalStorageNamespace"):
        # The credentials are maps; an empty text counts as left out.
        if options[key] and (not options[key].scalar or options[key].require_known()):
            yield Hit(options[key], f"{key} with backend rocksdb", "left out")
    for key in ("size", "storageClassName", "accessModes") if storage["claimName"].require_known() else ():
        if storage[key] and (key != "accessModes" or list(storage[key])):
            yield Hit(storage[key], f"{key} beside claimName", "one of the two")
    yield from _own_variables((head.container["env"],), ("RAY_gcs_storage", "RAY_gcs_storage_path"))
    yield from _own_mounts((head.container["volumeMounts"], head.spec["volumes"]), "gcs-storage", "/data/gcs")


def _own_variables(places: Iterable[Value], names: tuple[str, ...]) -> Iterator[Hit]:
    for variables in places:
        for name in names:
            if found := entry(variables, name):
                yield Hit(found["name"], f"sets {name}", "no variable of that name: KubeRay sets it")


def _own_mounts(places: Iterable[Value], name: str, path: str) -> Iterator[Hit]:
    for mount in (mount for mounts in places for mount in mounts):
        if mount["name"].raw == name or mount["mountPath"].raw == path:
            yield Hit(mount, f"{name} or {path}", "another name and path: KubeRay mounts it")


@rule(
    "group-labels-invalid",
    "error",
    "group",
    title="labels that Kubernetes would not take",
    fix=f"use {LABEL_FORM}",
    source=f"{K8S_DOCS}/concepts/overview/working-with-objects/labels/#syntax-and-character-set",
)
def group_labels(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay hands a group's labels to Ray, and refuses what is no Kubernetes label (since 1.5)."""
    for key, value in group.value["labels"].items():
        if not is_label_key(key):
            yield Hit(value, f"key {key}", "a Kubernetes label's key")
        if value.scalar and not is_label_value(value.require_known()):
            yield Hit(value, f"saw {value.raw}", "a Kubernetes label's value")


@rule(
    "service-name-managed",
    "error",
    "manifest",
    title="a name for the head service of a RayService",
    fix="remove headService.metadata.name",
    source=VALIDATION_GO,
)
def service_name(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay names the head service itself, because the name changes with the cluster, and refuses the RayService."""
    if manifest.is_service and manifest.cluster:
        name = manifest.cluster.head.value.at("headService", "metadata", "name")
        if name.require_known():
            yield Hit(name, f"saw {name.raw}", "left out")


@rule(
    "service-upgrade-options",
    "error",
    "manifest",
    title="an upgrade of a RayService that KubeRay refuses",
    fix="correct it, or use NewCluster",
    source=VALIDATION_GO,
    needs=("kuberay",),
)
def service_upgrade(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """KubeRay knows NewCluster, NewClusterWithIncrementalUpgrade and None. The incremental upgrade needs the
    autoscaler, and clusterUpgradeOptions with numbers that fit (checked by default since 1.7).
    """
    if not manifest.is_service:
        return
    yield from negative(manifest.spec["rayClusterDeletionDelaySeconds"])
    strategy = manifest.spec["upgradeStrategy"]
    kind = strategy["type"]
    if kind and kind.require_known() not in _UPGRADES:
        yield Hit(kind, f"saw {kind.raw}", " or ".join(_UPGRADES))
    elif kind.require_known() == _INCREMENTAL and facts.since_kuberay(1, 7):
        if manifest.cluster and not manifest.cluster.autoscaling:
            yield Hit(kind, f"{_INCREMENTAL} without the autoscaler", "enableInTreeAutoscaling: true")
        yield from _upgrade_numbers(strategy["clusterUpgradeOptions"])


def _upgrade_numbers(options: Value) -> Iterator[Hit]:
    surge, step, pause = options["maxSurgePercent"], options["stepSizePercent"], options["intervalSeconds"]
    if not options:
        yield Hit(options, f"{_INCREMENTAL} without clusterUpgradeOptions", "clusterUpgradeOptions")
        return
    for value in (surge, step):
        percent = value.known_integer()
        if percent is not None and not 0 <= percent <= 100:
            yield Hit(value, f"saw {value.raw}", "0 to 100")
    most, each = surge.known_integer(), step.known_integer()  # 100 is KubeRay's default for the first
    most = 100 if most is None else most
    if each is not None and most < each <= 100:
        yield Hit(step, f"{step.raw}, above maxSurgePercent {most}", f"at most {most}")
    seconds = pause.known_integer()
    if seconds is not None and seconds <= 0:
        yield Hit(pause, f"saw {pause.raw}", "1 or more")
    if options["gatewayClassName"].known_or_none() == "":  # a missing one is a `field-missing`
        yield Hit(options["gatewayClassName"], "empty", "the name of a GatewayClass")


@rule(
    "initializing-timeout-invalid",
    "error",
    "manifest",
    title="an initializing timeout that is no duration",
    fix="write it as 30m, or as seconds",
    source=VALIDATION_GO,
    needs=("kuberay",),
)
def initializing_timeout(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """KubeRay refuses the RayService (since 1.5): the annotation takes a positive duration."""
    if not manifest.is_service or not facts.since_kuberay(1, 5):
        return
    given = manifest.metadata.at("annotations", _TIMEOUT)
    text = given.require_known()
    positive = text[:1] != "-" and re.search("[1-9]", text)  # 0s parses and is refused
    if text and not (positive and _DURATION.fullmatch(text)):
        yield Hit(given, f"saw {given.raw}", "a positive duration such as 30m, or seconds")


@rule(
    "deletion-policy-missing",
    "error",
    "job",
    title="a deletion strategy without a policy or with a negative time",
    fix="use deletionRules with a policy and a ttlSeconds each",
    source=VALIDATION_GO,
)
def deletion_policy(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses the RayJob: onSuccess and onFailure name a policy each, and ttlSeconds is 0 or more."""
    strategy = manifest.spec["deletionStrategy"]
    for key in ("onSuccess", "onFailure"):
        if strategy[key] and not strategy[key]["policy"]:
            yield Hit(strategy[key], f"{key} without a policy", "policy: DeleteCluster or another one")
    yield from negative(*(one.at("condition", "ttlSeconds") for one in strategy["deletionRules"]))
