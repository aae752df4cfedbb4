"""What every rendered document shares: names, labels, the digest, the trial as it travels; and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

from seatrial.canon import canonical, sha256
from seatrial.driver.prepare import check_shared_path, recorded
from seatrial.errors import InputError, InputErrors
from seatrial.hardware import image
from seatrial.plan import plan
from seatrial.render import secrets
from seatrial.ship import Part, package
from seatrial.trial import Trial
from seatrial.trial.cluster import Cluster, without_a_shared_class

MOUNT, VOLUME = "/etc/seatrial", "seatrial"
ENTRYPOINT = f"python -m seatrial.driver --trial {MOUNT}/trial.json --address auto"
STOP_DRIVER = "python -m seatrial.driver.stop"  # before Ray stops: it seals while Ray can still be asked
TRIAL_DIGEST = "seatrial.io/trial-digest"
TRIAL_LABEL = "seatrial.io/trial"
MAX_NAME = 47  # KubeRay refuses longer RayJobs
SUFFIX = 8
CREATE = "storage.volume.create"
# Keys of a trial that speak of what a team's own manifest holds.
THEIRS = (
    *("rayVersion", "labels", "annotations", "serviceAccount", "imagePullSecrets", "priorityClass", "queue"),
    *("deadline", "head", "workerGroups", CREATE),
)


@dataclass(frozen=True)
class Frame:
    """One trial on its way into a cluster."""

    trial: Trial
    name: str  # a DNS-1035 label
    digest: str  # of the trial as it travels, as every event file of the run will state it
    trial_json: str
    package: tuple[Part, ...]

    @property
    def configs(self) -> tuple[str, ...]:
        """The names of the ConfigMaps, one for each part of the package; the trial is in the first."""
        return (self.name, *(f"{self.name}-package-{number}" for number in range(2, len(self.package) + 1)))

    @property
    def volume(self) -> dict[str, Any]:
        """All ConfigMaps in one folder."""
        sources = [{"configMap": {"name": name}} for name in self.configs]
        return {"name": VOLUME, **(sources[0] if len(sources) == 1 else {"projected": {"sources": sources}})}

    @property
    def python_path(self) -> str:
        """Every part of the package, where the pods have it."""
        return ":".join(f"{MOUNT}/{part.file}" for part in self.package)

    def metadata(self, name: str = "", labels: dict[str, str] | None = None) -> dict[str, Any]:
        """An object's metadata: the name of all, or another one."""
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


def frame(trial: Trial, name_suffix: bool, generated: bool) -> Frame:
    """Names the trial. Raises InputError, one line for each thing that cannot be rendered."""
    _refuse(trial, generated)
    document = travelling(trial)
    text = canonical(document)
    digest = sha256(text)
    return Frame(trial, _name(trial.slug, digest if name_suffix else ""), digest, text.decode(), package())


def travelling(trial: Trial) -> dict[str, Any]:
    """The trial as it is mounted in the pods: without this machine's path to a template, and with no secret.

    Raises InputError if a secret stands in it.
    """
    if template := trial.cluster.template:
        short = template.model_copy(update={"from_": PurePath(template.from_).name})
        trial = trial.model_copy(update={"cluster": trial.cluster.model_copy(update={"template": short})})
    return recorded(trial)


def _name(slug: str, digest: str) -> str:
    """`qwen2-5-1-5b-first-look-1a2b3c4d`: a DNS-1035 label that KubeRay takes for a RayJob."""
    suffix = f"-{digest.removeprefix('sha256:')[:SUFFIX]}" if digest else ""
    label = re.sub(r"[^a-z0-9]+", "-", slug)
    label = label if label[0].isalpha() else f"t-{label}"
    return label[: MAX_NAME - len(suffix)].rstrip("-") + suffix


def ray_version(trial: Trial) -> str:
    """The Ray of the trial's image. KubeRay chooses its probes by it. Raises InputError if nobody knows it."""
    if trial.cluster.rayVersion:
        return trial.cluster.rayVersion
    known = image(trial.image) if trial.image else None
    if known is None or known.ray is None:
        raise InputError(
            f"{trial.image or 'no image'} has no known Ray version",
            field="cluster.rayVersion",
            expected="the image's Ray in three numbers",
            fix="set cluster.rayVersion: `python -c 'import ray; print(ray.__version__)'` in the image prints it",
        )
    return known.ray


def _refuse(trial: Trial, generated: bool) -> None:
    _provider(trial)
    checks: list[Callable[[], object]] = [partial(check, trial) for check in (secrets.refuse, _shared, _workload)]
    if generated:
        checks += [partial(_volume, trial), partial(_class, trial)]
    else:
        checks += [partial(_of_the_template, trial, key) for key in THEIRS]
    problems: list[InputError] = []
    for check in checks:
        try:
            check()
        except InputError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise InputErrors(problems)


def _workload(trial: Trial) -> None:
    """The built-in training by its arithmetic; a script must lie where the pods find it: no manifest carries it."""
    if trial.script is None:
        plan(trial)
        return
    mount = trial.storage.volume.mountPath if trial.storage.volume else trial.storage.path
    if not PurePath(trial.script.script).is_relative_to(mount):
        raise InputError(
            f"{trial.script.script} is not below {mount}",
            field="workload.script",
            expected="a script on the storage that every pod mounts",
            fix="copy it there, or submit it to a Ray cluster that runs: `seatrial run TRIAL --on http://HOST:8265`",
        )


def _provider(trial: Trial) -> None:
    if (provider := trial.cluster.provider) not in ("eks", "kubernetes"):
        fix = "a trial of this machine needs no manifest: `seatrial run`" if provider == "local" else ""
        raise InputError(f"saw {provider}", field="cluster.provider", expected="eks or kubernetes", fix=fix)


def _shared(trial: Trial) -> None:
    check_shared_path(trial.storage.path)


def _class(trial: Trial) -> None:
    if without_a_shared_class(trial.cluster, trial.storage):
        raise InputError(
            "missing",
            field="storage.volume.create.storageClassName",
            expected="a class that serves ReadWriteMany, such as one of EFS or FSx for Lustre",
            fix="without it EKS takes its default class, EBS, which one node mounts: the claim stays Pending",
        )


def _of_the_template(trial: Trial, key: str) -> None:
    """What a team's own manifest says must not be said a second time, where it would change nothing."""
    section, value = ("cluster", getattr(trial.cluster, key, None)) if key != CREATE else ("", _create(trial))
    default = Cluster.model_fields[key].get_default(call_default_factory=True) if section else None
    if value != default:
        raise InputError(
            "is given beside cluster.template",
            field=f"{section}.{key}".lstrip("."),
            expected="it in the template alone: seatrial leaves there what is the team's",
            fix=f"take it out of the trial; what {PurePath(_template(trial)).name} says counts",
        )


def _create(trial: Trial) -> object:
    return trial.storage.volume.create if trial.storage.volume else None


def _template(trial: Trial) -> str:
    return trial.cluster.template.from_ if trial.cluster.template else "the template"


def _volume(trial: Trial) -> None:
    """A team's own manifest mounts its storage itself."""
    if trial.storage.volume is None and "://" not in trial.storage.path:
        raise InputError(
            "missing",
            field="storage.volume",
            expected="a claim that every pod mounts, as in {claim: fsx, mountPath: /fsx}",
            fix="add create: {size: 1200Gi, storageClassName: …} to have it made",
        )
