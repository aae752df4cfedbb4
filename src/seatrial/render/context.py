"""What every rendered document shares: names, labels, the trial's digest, and the trial as the pods get it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from seatrial.canon import canonical, sha256
from seatrial.driver.prepare import recorded
from seatrial.errors import InputError
from seatrial.hardware import image
from seatrial.render.refusals import refuse
from seatrial.ship import Part, package
from seatrial.trial import Trial

MOUNT, VOLUME = "/etc/seatrial", "seatrial"
ENTRYPOINT = f"python -m seatrial.driver --trial {MOUNT}/trial.json --address auto"
STOP_DRIVER = "python -m seatrial.driver.stop"  # runs before Ray stops: the driver still asks Ray while it seals
TRIAL_DIGEST = "seatrial.io/trial-digest"
TRIAL_LABEL = "seatrial.io/trial"
MAX_NAME = 47  # KubeRay refuses a RayJob with a longer name
SUFFIX = 8


@dataclass(frozen=True)
class RenderContext:
    """One trial, named and packed for a cluster."""

    trial: Trial
    name: str  # a DNS-1035 label
    digest: str  # of `trial_json`; every event file of the run states it
    trial_json: str
    package: tuple[Part, ...]

    @property
    def configs(self) -> tuple[str, ...]:
        """The names of the ConfigMaps, one for each part of the package. The first also holds the trial."""
        return (self.name, *(f"{self.name}-package-{number}" for number in range(2, len(self.package) + 1)))

    @property
    def volume(self) -> dict[str, Any]:
        """One volume with the files of all ConfigMaps in one folder."""
        sources = [{"configMap": {"name": name}} for name in self.configs]
        return {"name": VOLUME, **(sources[0] if len(sources) == 1 else {"projected": {"sources": sources}})}

    @property
    def python_path(self) -> str:
        """PYTHONPATH in the pods: every part of the package."""
        return ":".join(f"{MOUNT}/{part.file}" for part in self.package)

    def metadata(self, name: str = "", labels: dict[str, str] | None = None) -> dict[str, Any]:
        """The metadata of an object. Without `name` the object gets the trial's name."""
        cluster = self.trial.cluster
        space = {"namespace": cluster.namespace} if cluster.namespace else {}
        return {
            "name": name or self.name,
            **space,
            "labels": {**self.labels, **(labels or {})},
            "annotations": {**cluster.annotations, TRIAL_DIGEST: self.digest},
        }

    @property
    def labels(self) -> dict[str, str]:
        own = {"app.kubernetes.io/managed-by": "seatrial", TRIAL_LABEL: self.name}
        return {**self.trial.cluster.labels, **own}


def context_of(trial: Trial, name_suffix: bool, generated: bool) -> RenderContext:
    """Names and packs the trial. Raises InputError, one line for each part of the trial that cannot be rendered."""
    refuse(trial, generated)
    text = canonical(mounted(trial))
    digest = sha256(text)
    return RenderContext(trial, _name(trial.slug, digest if name_suffix else ""), digest, text.decode(), package())


def mounted(trial: Trial) -> dict[str, Any]:
    """The trial as the pods mount it: a template's file name instead of its path on this machine, and no secret.

    Raises InputError if the trial holds a secret.
    """
    if template := trial.cluster.template:
        short = template.model_copy(update={"from_": PurePath(template.from_).name})
        trial = trial.model_copy(update={"cluster": trial.cluster.model_copy(update={"template": short})})
    return recorded(trial)


def _name(slug: str, digest: str) -> str:
    """`qwen2-5-1-5b-first-look-1a2b3c4d`: a DNS-1035 label that KubeRay accepts as the name of a RayJob."""
    suffix = f"-{digest.removeprefix('sha256:')[:SUFFIX]}" if digest else ""
    label = re.sub(r"[^a-z0-9]+", "-", slug)
    label = label if label[0].isalpha() else f"t-{label}"
    return label[: MAX_NAME - len(suffix)].rstrip("-") + suffix


def ray_version(trial: Trial) -> str:
    """The version of Ray in the trial's image; KubeRay chooses its probes by it. Raises InputError if it is unknown."""
    if trial.cluster.rayVersion:
        return trial.cluster.rayVersion
    known = image(trial.image) if trial.image else None
    if known is None or known.ray is None:
        raise InputError(
            f"{trial.image} has no known Ray version"
            if trial.image
            else "the trial names no image, so its Ray version is unknown",
            field="cluster.rayVersion",
            expected="the image's Ray version in three numbers",
            fix="set cluster.rayVersion: `python -c 'import ray; print(ray.__version__)'` in the image prints it",
        )
    return known.ray
