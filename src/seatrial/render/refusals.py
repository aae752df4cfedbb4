"""What a trial must not hold to be rendered: every check, each with its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import PurePath
from typing import Any

from seatrial.canon import plain
from seatrial.driver.prepare import check_shared_path
from seatrial.errors import InputError, InputErrors
from seatrial.events import Redactor
from seatrial.plan import plan
from seatrial.trial import Trial
from seatrial.trial.cluster import Cluster, without_a_shared_class
from seatrial.trial.source import KeyPath, dotted

CREATE = "storage.volume.create"
# A template sets these itself; the trial must not set them again.
TEMPLATE_KEYS = (
    *("rayVersion", "labels", "annotations", "serviceAccount", "imagePullSecrets", "priorityClass", "queue"),
    *("deadline", "head", "workerGroups", CREATE),
)
_SECRET_REFERENCES = ("key", "secretName")  # the name of a secret, not its value


def refuse(trial: Trial, generated: bool) -> None:
    """Raises InputError, one line for each check that fails. `generated`: the trial has no template."""
    _provider(trial)  # the other checks mean something in Kubernetes only
    checks: list[Callable[[], object]] = [partial(check, trial) for check in (_secrets, _shared, _workload)]
    if generated:
        checks += [partial(_volume, trial), partial(_class, trial)]
    else:
        checks += [partial(_set_by_template, trial, key) for key in TEMPLATE_KEYS]
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


def _provider(trial: Trial) -> None:
    if (provider := trial.cluster.provider) not in ("eks", "kubernetes"):
        fix = "a trial on this machine needs no manifest: `seatrial run` runs it" if provider == "local" else ""
        raise InputError(f"saw {provider}", field="cluster.provider", expected="eks or kubernetes", fix=fix)


def _secrets(trial: Trial) -> None:
    """Manifests carry the whole trial, and everyone who may read the namespace can read them."""
    for keys, name in _found(plain(trial.resolved()), (), Redactor({})):
        in_pod = keys[:2] == ("runtimeEnv", "env_vars") or keys[-1] == "value"
        variable = f"{{name: {name}, valueFrom: {{secretKeyRef: {{name: SECRET, key: KEY}}}}}}"
        where = f"cluster.workerGroups[].pod: {{containers: [{{name: ray-worker, env: [{variable}]}}]}}"
        if trial.cluster.template:
            where = f"the env of your manifest's worker container: {variable}"
        raise InputError(
            "looks like a secret",
            field=dotted(keys),
            expected="no secret in manifests",
            fix=f"remove it, and refer to a Kubernetes Secret in {where}" if in_pod else "remove it",
        )


def _found(value: Any, keys: KeyPath, redactor: Redactor) -> Iterator[tuple[KeyPath, str]]:
    """The path of each secret, and its name.

    In `{name: A, value: b}` the name is A, as Kubernetes writes variables. Of a key such as `domain/name` only the part
    behind the slash counts. A key that names a Kubernetes Secret holds no secret.
    """
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _found(item, (*keys, position), redactor)
    elif isinstance(value, dict):
        variable = isinstance(value.get("name"), str) and isinstance(value.get("value"), str)
        for key, item in value.items():
            name = value["name"] if variable and key == "value" else key.rpartition("/")[2]
            looked_at = {"" if key in _SECRET_REFERENCES else name: item}
            if not isinstance(item, str):
                yield from _found(item, (*keys, key), redactor)
            elif redactor.value(looked_at) != looked_at:
                yield (*keys, key), name
    elif isinstance(value, str) and redactor.text(value) != value:
        yield keys, str(keys[-1])


def _shared(trial: Trial) -> None:
    check_shared_path(trial.storage.path)


def _workload(trial: Trial) -> None:
    """The built-in training must add up. A script must lie on the shared storage: no manifest carries it."""
    if not trial.run_kind.own_code:
        plan(trial)
        return
    script = trial.team_script.script
    mount = trial.storage.volume.mountPath if trial.storage.volume else trial.storage.path
    if not PurePath(script).is_relative_to(mount):
        raise InputError(
            f"{script} is not below {mount}",
            field="workload.script",
            expected="a script on the storage that every pod mounts",
            fix="copy it there, or submit it to an existing Ray cluster: `seatrial run TRIAL --on http://HOST:8265`",
        )


def _volume(trial: Trial) -> None:
    """Only for generated manifests: a template mounts its storage itself."""
    if trial.storage.volume is None and "://" not in trial.storage.path:
        raise InputError(
            "missing",
            field="storage.volume",
            expected="a claim that every pod mounts, as in {claim: fsx, mountPath: /fsx}",
            fix="add create: {size: 1200Gi, storageClassName: …} to create the claim",
        )


def _class(trial: Trial) -> None:
    if without_a_shared_class(trial.cluster, trial.storage):
        raise InputError(
            "missing",
            field="storage.volume.create.storageClassName",
            expected="a class that serves ReadWriteMany, such as one of EFS or FSx for Lustre",
            fix="without it EKS uses its default class, EBS: only one node mounts it, and the claim stays Pending",
        )


def _set_by_template(trial: Trial, key: str) -> None:
    """A key that the template sets too would change nothing: the template counts."""
    section, value = ("cluster", getattr(trial.cluster, key, None)) if key != CREATE else ("", _create(trial))
    default = Cluster.model_fields[key].get_default(call_default_factory=True) if section else None
    if value != default:
        raise InputError(
            "is given beside cluster.template",
            field=f"{section}.{key}".lstrip("."),
            expected="this setting in the template only: seatrial does not change it there",
            fix=f"remove it from the trial; set it in {PurePath(_template(trial)).name} if you need it",
        )


def _create(trial: Trial) -> object:
    return trial.storage.volume.create if trial.storage.volume else None


def _template(trial: Trial) -> str:
    return trial.cluster.template.from_ if trial.cluster.template else "the template"
