"""Secrets in a trial: its manifests carry all of it, and whoever may read the namespace can read those."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seatrial.canon import plain
from seatrial.errors import InputError
from seatrial.events import Redactor
from seatrial.trial import Trial
from seatrial.trial.source import dotted

Keys = tuple[str | int, ...]
_REFERS = ("key", "secretName")  # to a secret, by its name


def refuse(trial: Trial) -> None:
    """Raises InputError for the first secret, with its key."""
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
            fix=f"take it out, and name a Kubernetes Secret in {where}" if in_pod else "take it out",
        )


def _found(value: Any, keys: Keys, redactor: Redactor) -> Iterator[tuple[Keys, str]]:
    """Where secrets stand, and the name that each has. `{name: A, value: b}` is the variable A; the part of a name
    before a slash is a domain; keys and names of Kubernetes Secrets are none themselves."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _found(item, (*keys, position), redactor)
    elif isinstance(value, dict):
        variable = isinstance(value.get("name"), str) and isinstance(value.get("value"), str)
        for key, item in value.items():
            name = value["name"] if variable and key == "value" else key.rpartition("/")[2]
            looked_at = {"" if key in _REFERS else name: item}
            if not isinstance(item, str):
                yield from _found(item, (*keys, key), redactor)
            elif redactor.value(looked_at) != looked_at:
                yield (*keys, key), name
    elif isinstance(value, str) and redactor.text(value) != value:
        yield keys, str(keys[-1])
