"""The image: which Ray is in it, whether all pods have the same, what KubeRay makes of its command."""

from __future__ import annotations

from collections.abc import Iterator

from seatrial.check.manifest import RayClusterSpec, RayGroup, accelerators
from seatrial.check.operator import overwrites_command
from seatrial.check.reading import placeholder
from seatrial.check.rule import DLC, DLC_EKS, KUBERAY, POD_GO, VALIDATION_GO, Facts, Hit, Severity, rule
from seatrial.check.values import CannotTell, Value
from seatrial.errors import InputError
from seatrial.hardware.images import ImageFacts
from seatrial.image.reference import parse
from seatrial.kube.apimachinery import version

_OFI_PATHS = ("/opt/amazon/ofi-nccl/lib64", "/opt/amazon/efa/lib")


def images_of(cluster: RayClusterSpec) -> list[tuple[str, Value]]:
    """Who runs which image: head, worker groups, and the autoscaler where it has one of its own."""
    found = [(group.title, group.image) for group in cluster.groups if group.image.scalar and not wrong(group.image)]
    autoscaler = cluster.value.at("autoscalerOptions", "image")
    return [*found, ("autoscaler", autoscaler)] if autoscaler.scalar and cluster.autoscaling else found


def wrong(image: Value) -> InputError | None:
    """What is wrong with a reference, placeholders aside; `image-invalid` says it, and other rules then say nothing."""
    if image.scalar and not image.unknown:
        try:
            parse(image.raw)
        except InputError as error:
            return error
    return None


def tag_of(image: Value) -> str | None:
    """The tag, empty for none, None for a digest; known even after a placeholder. Raises CannotTell."""
    name, digest, _ = image.raw.partition("@")
    if digest:
        return None
    tag = name.rpartition("/")[2].partition(":")[2]  # behind the last slash: a registry's port has a colon too
    if placeholder(tag) or (not tag and placeholder(name.rpartition("/")[2])):
        raise CannotTell(f"{image.field} is {image.raw}", image)
    return tag


@rule(
    "ray-version-missing",
    "warning",
    "cluster",
    title="no rayVersion",
    fix="set rayVersion to the image's Ray",
    source=POD_GO,
)
def ray_version_missing(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """KubeRay decides by rayVersion. Without it KubeRay probes with wget instead of HTTP, and refuses token
    authentication and group priorities.
    """
    if not cluster.ray_version.raw:
        yield Hit(cluster.ray_version, "rayVersion is missing", "the version of Ray in the image")


@rule(
    "ray-version-unparsable",
    "warning",
    "cluster",
    title="a rayVersion that KubeRay cannot parse",
    fix="write X.Y.Z",
    source=VALIDATION_GO,
)
def ray_version_unparsable(cluster: RayClusterSpec, _: Facts) -> Iterator[Hit]:
    """KubeRay treats the version as unknown: it probes with wget, and refuses token authentication and group
    priorities.
    """
    text = cluster.ray_version.require_known()
    if text and version(text) is None:
        yield Hit(cluster.ray_version, f"saw {text}", "X.Y.Z")


@rule(
    "ray-version-mismatch",
    "error",
    "cluster",
    title="rayVersion is not the Ray in the image",
    fix="set rayVersion to the image's Ray",
    source=f"{KUBERAY}/issues/154",
    needs=("image",),
)
def ray_version_mismatch(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """KubeRay chooses probes, autoscaler and authentication by rayVersion. What runs is the image's Ray, and it may not
    have what they need.
    """
    asked, untold = version(cluster.ray_version.require_known()), None
    for who, image in images_of(cluster) if asked else ():
        try:
            ray = _ray_in(image, facts)
        except CannotTell as unknown:
            untold = untold or unknown  # another image may still show it
            continue
        if version(ray) != asked:
            seen = f"rayVersion {cluster.ray_version.raw}, the image of the {who} has Ray {ray}"
            yield Hit(cluster.ray_version, seen, ray)
            return
    if untold:
        raise untold


def _ray_in(image: Value, facts: Facts) -> str:
    known = facts.image(image)
    if known.ray is None:
        raise CannotTell(f"the Ray version in {image.raw} is not known", image)
    if "ray" in known.unverified:
        raise CannotTell(f"the tag of {image.raw} moves: it had Ray {known.ray} when last read", image)
    return known.ray


@rule(
    "image-floating-tag",
    "warning",
    "group",
    title="a tag that moves",
    fix="pin the digest: seatrial image resolve",
    source=f"{KUBERAY}/issues/530",
)
def image_floating_tag(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """Pods created on different days run different images: Ray refuses with `Version mismatch`, and a result cannot be
    repeated.
    """
    image = group.image
    if not image.scalar or wrong(image):
        return
    tag = tag_of(image)
    if tag is None:  # a digest does not move
        return
    if tag in ("", "latest", "nightly", "main", "master"):
        seen = f"the {group.title} runs {image.raw}" + ("" if tag else ", which means :latest")
        yield Hit(image, seen, "a version tag with its digest")
    elif not image.unknown and (known := _known(facts, image)) and known.floating:
        last = f"; it was {known.points_to} when last read" if known.points_to else ""
        yield Hit(image, f"{tag} moves{last}", f"{known.points_to or 'a version tag'} with its digest")


def _known(facts: Facts, image: Value) -> ImageFacts | None:
    try:
        return facts.image(image)
    except CannotTell:
        return None


@rule(
    "image-not-digest",
    "info",
    "group",
    title="an image without a digest",
    fix="pin the digest: seatrial image resolve",
    source=f"{DLC}/pull/6637",
)
def image_not_digest(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """A tag can be pushed again; only the digest names one image."""
    if group.image.scalar and not wrong(group.image) and tag_of(group.image) is not None:
        yield Hit(group.image, f"the {group.title} runs {group.image.raw}", "…@sha256:…")


@rule(
    "mixed-images",
    "warning",
    "cluster",
    title="pods of one cluster with different images",
    fix="use one image everywhere",
    source=f"{KUBERAY}/issues/2303",
)
def mixed_images(cluster: RayClusterSpec, facts: Facts) -> Iterator[Hit]:
    """Ray needs the same Ray and Python on every node: `Version mismatch: The cluster was started with …`, or objects
    that cannot be unpickled.
    """
    found = images_of(cluster)
    for who, image in found[1:]:
        owner, first = found[0]
        if image.raw == first.raw:  # as written: two equal placeholders become one image
            continue
        first.require_known()
        image.require_known()
        one, other = _known(facts, first), _known(facts, image)
        if one and other and one.ray and other.ray and (one.ray, one.python) != (other.ray, other.python):
            seen = f"Ray {one.ray} on the {owner}, Ray {other.ray} on the {who}"
            yield Hit(image, seen, "the same Ray and Python", "error")
            continue
        # Two images with the same Ray and Python work; of others it is not known.
        severity: Severity | None = "info" if one and other and one.ray and one.python else None
        yield Hit(image, f"{who} runs {image.raw}, {owner} runs {first.raw}", "one image", severity)


@rule(
    "image-wrong-dlc",
    "error",
    "group",
    title="a serving image for training",
    fix="use ray:train-ml-cuda-…",
    source=f"{DLC}/tree/main/docs/ray",
    needs=("image",),
)
def image_wrong_dlc(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """AWS's ray:serve-ml images have another Ray and PyTorch and no EFA stack: NCCL uses TCP."""
    if group.cluster.manifest.is_service or not accelerators(group) or not group.image.scalar:
        return
    known = None if group.image.unknown else _known(facts, group.image)
    if known and known.dlc and known.training is False:
        # serve-llm has EFA, but not this stack.
        severity: Severity | None = None if known.tag.startswith("serve-ml") else "warning"
        yield Hit(group.image, f"saw {group.image.raw}", "a ray:train-ml-cuda tag", severity)


@rule(
    "entrypoint-bypassed",
    "info",
    "group",
    title="the image's entrypoint does not run",
    fix="use nodes with driver 580 or later, or the annotation ray.io/overwrite-container-cmd with the entrypoint in "
    "front of $KUBERAY_GEN_RAY_START_CMD",
    source=POD_GO,
    needs=("image",),
)
def entrypoint_bypassed(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """KubeRay replaces the command, so the DLC's check for CUDA's forward compatibility never runs. The image's CUDA 13
    needs a driver of release 580 or later on the node.
    """
    if group.is_head or not accelerators(group) or not group.image.scalar or overwrites_command(group):
        return  # no CUDA there, or the command is the manifest's own
    known = None if group.image.unknown else _known(facts, group.image)
    if known and known.dlc and (version(known.cuda or "") or (0,)) >= (13,):
        yield Hit(group.image, "the image's entrypoint.sh is not run", "driver 580 or later on the nodes")


@rule(
    "overwrite-cmd-without-start",
    "error",
    "group",
    title="a command that never starts Ray",
    fix='end args with "… $KUBERAY_GEN_RAY_START_CMD"',
    source=POD_GO,
)
def overwrite_without_start(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """With ray.io/overwrite-container-cmd KubeRay leaves the command alone: the pod runs without Ray, and workers wait
    for the head for ever.
    """
    if not overwrites_command(group) or not group.container:
        return
    words = " ".join(part.require_known() for key in ("command", "args") for part in group.container[key])
    if "ray start" not in words and "KUBERAY_GEN_RAY_START_CMD" not in words:
        yield Hit(
            group.container, f"the {group.title} runs {words or 'the entrypoint of the image'}", "`ray start` in it"
        )


@rule(
    "container-command-set",
    "warning",
    "group",
    title="a command that runs in front of `ray start`",
    fix="leave command and args out; use env, or the overwrite annotation",
    source=POD_GO,
)
def container_command(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay puts command and args in front of `ray start`, joined with &&. A command that does not end keeps Ray from
    starting, and variables that a child shell exports are lost.
    """
    own = [part for key in ("command", "args") for part in group.container[key]]
    # KubeRay leaves a command with `ray start` in it as it is.
    if own and not overwrites_command(group) and not any("ray start" in part.raw for part in own):
        yield Hit(own[0], f"runs `{' '.join(part.raw for part in own)} && … ray start`", "no command and args")


@rule(
    "path-override",
    "warning",
    "group",
    title="PATH without the folder that `ray` is in",
    fix="keep /opt/venv/bin in front",
    source=f"{DLC}/tree/main/docs/ray-train",
    needs=("image",),
)
def path_override(group: RayGroup, facts: Facts) -> Iterator[Hit]:
    """The value replaces the image's PATH. Without the folder of the virtual environment the container ends with `ray:
    command not found`.
    """
    path = group.variable("PATH")
    if not path.scalar or not group.image.scalar or group.image.unknown:
        return
    known = _known(facts, group.image)
    if known and known.dlc and "/opt/venv/bin" not in path.raw.split(":"):
        yield Hit(path, f"PATH is {path.raw}", "/opt/venv/bin in it")


@rule(
    "ld-library-path-override",
    "warning",
    "group",
    title="LD_LIBRARY_PATH without the OFI plugin",
    fix=f"keep {' and '.join(_OFI_PATHS)} in it",
    source=DLC_EKS,
)
def ld_library_path(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """The value replaces the image's. NCCL does not find aws-ofi-nccl and uses TCP without an error."""
    path = group.variable("LD_LIBRARY_PATH")
    efa = group.limit("vpc.amazonaws.com/efa")
    # Kubernetes and shells expand the variable itself: then the image's value is still in front.
    if not path.scalar or not efa or path.raw.startswith(("$(LD_LIBRARY_PATH)", "$LD_LIBRARY_PATH")):
        return
    parts = path.require_known().split(":")
    if not any("ofi-nccl" in part or part.rstrip("/") == "/opt/amazon/ofi-nccl/lib64" for part in parts):
        yield Hit(path, f"LD_LIBRARY_PATH is {path.raw}", _OFI_PATHS[0])


@rule(
    "pull-always-large-image",
    "info",
    "group",
    title="imagePullPolicy Always",
    fix="pin a digest and use IfNotPresent",
    source="https://kubernetes.io/docs/concepts/containers/images/#image-pull-policy",
)
def pull_always(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """Each pod start asks the registry again: while the registry is down, no pod can be replaced."""
    policy = group.container["imagePullPolicy"]
    if policy.require_known() == "Always" and accelerators(group):
        yield Hit(policy, "Always", "IfNotPresent with a digest")
