"""Python packages that a runtime environment installs over those of the image."""

from __future__ import annotations

import re
from collections.abc import Iterator

from seatrial.check.manifest import Manifest
from seatrial.check.rule import Facts, Hit, rule
from seatrial.check.rules.runtime_env import runtime_env, written
from seatrial.check.values import Value
from seatrial.hardware.images import dlc_repository, image

_RAY = "https://github.com/ray-project/ray/blob/ray-2.58.0/python/ray"
_DEPENDENCIES = "https://docs.ray.io/en/latest/ray-core/handling-dependencies.html"

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*([^;#]*)")
_STACK = ("torch", "torchvision", "torchaudio", "flash-attn", "transformer-engine", "deepspeed", "xformers", "triton")


def _packages(environment: Value) -> Iterator[tuple[str, str]]:
    """Name, lower case with dashes, and version part of each requirement of pip and uv."""
    for key in ("pip", "uv"):
        listed = environment[key] if list(environment[key]) else environment[key]["packages"]
        for item in listed:
            found = None if item.unknown else _REQUIREMENT.match(item.raw)
            if found and ("://" not in found[2] or found[2].startswith("@")):  # else git+https://…
                yield re.sub(r"[-_.]+", "-", found[1]).lower(), found[2].strip()


def _pin(version: str) -> str:
    """The one version that a requirement allows; empty if it allows several."""
    found = re.fullmatch(r"={2,3}\s*([0-9][\w.+!-]*)", version)
    return found[1] if found else ""


@rule(
    "runtime-env-reinstalls-ray",
    "error",
    "job",
    title="Ray among the packages to install",
    fix="remove it: the image has Ray",
    source=f"{_RAY}/_private/runtime_env/dependency_utils.py",
)
def reinstalls_ray(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """Ray refuses an environment whose Ray differs from the cluster's: `Changing the ray version is not allowed`. The
    same version is there already.
    """
    for name, asked in _packages(runtime_env(manifest)):
        if name == "ray":
            there = _ray(manifest, facts) if _pin(asked) else ""
            differs = bool(there) and _pin(asked) != there
            seen = f"ray{asked}, the cluster has {there}" if there else f"ray{asked}"
            yield Hit(written(manifest), seen, "packages without ray", None if differs else "info")


def _ray(manifest: Manifest, facts: Facts) -> str:
    """The cluster's Ray, empty where that is unknown. Raises CannotTell."""
    if not manifest.cluster:
        return ""
    return manifest.cluster.ray_version.require_known() or facts.image(manifest.cluster.head.image).ray or ""


@rule(
    "runtime-env-reinstalls-torch",
    "warning",
    "job",
    title="torch or what belongs to it among the packages to install",
    fix="use an image that has it",
    source=_DEPENDENCIES,
    needs=("image",),
)
def reinstalls_torch(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """Each node downloads gigabytes before the job starts, and what was built for the image's torch and CUDA
    (flash-attn, NCCL, EFA's plugin) may no longer fit.
    """
    asked = [(n, v) for n, v in _packages(runtime_env(manifest)) if n in _STACK or n.startswith("nvidia-")]
    if not asked or not manifest.cluster:
        return
    given, names = manifest.cluster.head.image, ", ".join(f"{n}{v}" for n, v in asked)
    if dlc_repository(given.raw):  # pip leaves what the image has already, unless another version is asked for
        known = facts.image(given)
        there = {**dict(known.packages), "torch": known.torch}
        new = [f"{n}{v}" for n, v in asked if there.get(n) and _pin(v) not in ("", there[n])]
        if new:
            yield Hit(written(manifest), f"installs {', '.join(new)} over the image's", "the image's own versions")
    elif image(given.require_known()):
        yield Hit(written(manifest), f"downloads {names} on every node at each start", "an image that has it")
    else:  # it may have them
        yield Hit(
            written(manifest), f"asks pip for {names} on every node at each start", "an image that has it", "info"
        )


@rule(
    "runtime-env-unpinned",
    "info",
    "job",
    title="packages without a version",
    fix="pin them with ==",
    source=_DEPENDENCIES,
)
def unpinned(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """Each run, and each node of a run, may get another version."""
    loose = [name for name, asked in _packages(runtime_env(manifest)) if not _pin(asked) and not asked.startswith("@")]
    if loose:
        yield Hit(
            written(manifest), f"no version of {', '.join(loose[:5])}{' …' if len(loose) > 5 else ''}", "name==version"
        )


@rule(
    "pip-conflicts-dlc",
    "info",
    "job",
    title="another version than the image was tested with",
    fix="leave it out, or take the image's version",
    source=_DEPENDENCIES,
    needs=("image",),
)
def conflicts_dlc(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """The package hides the Deep Learning Container's own, and pip brings its dependencies along."""
    if not manifest.cluster or not dlc_repository(manifest.cluster.head.image.raw):
        return
    pinned = {name: _pin(asked) for name, asked in _packages(runtime_env(manifest)) if name not in _STACK}
    there = dict(facts.image(manifest.cluster.head.image).packages) if pinned else {}
    for name, asked in pinned.items():
        own = there.get(name, asked)
        if asked and asked != own:
            major = asked.partition(".")[0] != own.partition(".")[0]
            yield Hit(written(manifest), f"{name} {asked}, the image has {own}", own, "warning" if major else None)
