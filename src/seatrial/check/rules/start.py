"""rayStartParams against the options of `ray start`, and the dashboard that the operator itself must reach."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from seatrial.check.manifest import RayGroup
from seatrial.check.operator import FLAGS_WITH_VALUE
from seatrial.check.reading import placeholder
from seatrial.check.rule import POD_GO, SOURCE, Facts, Hit, Severity, rule
from seatrial.check.values import Value
from seatrial.errors import clean
from seatrial.kube.apimachinery import quantity, version

_CLI = "https://docs.ray.io/en/latest/cluster/cli.html#ray-start"
_OF_KUBERAY = ("block", "labels")  # it sets the first whatever is written, and refuses the second
_BOOLEAN = ("1", "0", "true", "false", "t", "f", "yes", "no", "y", "n", "on", "off")  # click's words
_FALSE = ("0", "false", "f", "no", "n", "off")
_FORMS = {
    "integer": (re.compile(r"[+-]?[0-9]+(?:_[0-9]+)*"), "a whole number"),
    "number": (re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"), "a number"),
    "boolean": (re.compile("|".join(("", *_BOOLEAN)), re.IGNORECASE), "true or false"),
}
_LOOPBACK = re.compile(r"127(?:\.[0-9]{1,3}){3}|localhost|::1|\[::1\]", re.IGNORECASE)


@cache
def table() -> dict[str, Any]:
    """`ray start`'s options: `options` by name with what each takes, `formerly` those that others of Ray 2 had."""
    content: dict[str, Any] = json.loads((files("seatrial.check") / "data/ray_start.json").read_text(encoding="utf-8"))
    return content


@rule(
    "ray-start-option-unknown",
    "error",
    "group",
    title="an option that `ray start` does not have",
    fix="correct the name; options are written with dashes",
    source=_CLI,
)
def option_unknown(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay writes each of rayStartParams into the command line as it stands: `ray start` ends with `No such option`,
    and the pod restarts again and again.
    """
    for name, value in group.params.items():
        if name in table()["options"] or name in _OF_KUBERAY:
            continue
        if not value.scalar or _drops(name, value) or placeholder(name):  # never reaches the command line as it stands
            continue
        close = get_close_matches(name.replace("_", "-").lower(), table()["options"], n=1)
        expected = close[0] if close else f"an option of Ray {table()['ray']}"
        # A Ray that no table has may know the option.
        other = name in table()["formerly"] or _another(group)
        severity: Severity | None = "warning" if other else None
        yield Hit(value, f"`ray start` has no --{clean(name)}", expected, severity)


def _another(group: RayGroup) -> bool:
    """Whether the cluster's Ray is Ray 1, or of a later minor release than the table, or not known."""
    given = group.cluster.ray_version
    here, known = version(given.raw), version(table()["ray"])
    return given.unknown or (here is not None and known is not None and not (2,) <= here[:2] <= known[:2])


def _drops(name: str, value: Value) -> bool:
    """Whether KubeRay leaves the parameter out of the command line (convertParamMap)."""
    return value.raw.lower() == "false" and name not in FLAGS_WITH_VALUE


@rule(
    "ray-start-value",
    "error",
    "group",
    title="a value that `ray start` does not take",
    fix="write what the option takes",
    source=POD_GO,
)
def option_value(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """`ray start` ends with `Invalid value`, and the pod restarts again and again. Sizes are whole numbers of bytes,
    not Kubernetes quantities. KubeRay turns the text true into a switch without a value.
    """
    for name, value in group.params.items():
        kind = table()["options"].get(name)
        if kind is None or name in _OF_KUBERAY or not value.scalar or value.unknown or _drops(name, value):
            continue
        words = _words(value.raw)
        expected = _wrong(kind, words, name) if words is not None else ""
        if expected:
            seen = f"{name} {clean(value.raw, 40) or 'is empty'}"
            yield Hit(value, seen, expected + _instead(kind, value))


def _words(text: str) -> list[str] | None:
    """What bash makes of a value; None where that is known on the node only."""
    if re.search(r"[$`*?;&|<>()\\]", text):
        return None
    try:
        return shlex.split(text) or [""]
    except ValueError:
        return None


def _wrong(kind: str | list[str], words: list[str], name: str) -> str:
    """What would be right instead, empty where the value is right."""
    given = words[0]
    bare = given.lower() == "true" and name not in FLAGS_WITH_VALUE  # becomes `--name` alone
    if kind == "text":
        return "a value" if bare else ""
    if kind == "flag":
        return "" if bare else '"true", or no such entry'
    if isinstance(kind, list):
        return "" if given.lower() in kind and len(words) == 1 else f"one of {', '.join(kind)}"
    form, expected = _FORMS[kind]
    return "" if form.fullmatch(given.strip()) and len(words) == 1 and not bare else expected


def _instead(kind: str | list[str], value: Value) -> str:
    """Bytes where a quantity was given."""
    amount = quantity(value.raw) if kind == "integer" else None
    return f', such as "{int(amount)}"' if amount and amount.denominator == 1 else ""


@rule(
    "dashboard-unreachable",
    "error",
    "head",
    title="a dashboard that the operator cannot reach",
    fix="leave include-dashboard and dashboard-host out: KubeRay sets 0.0.0.0",
    source=f"{SOURCE}/controllers/ray/rayjob_controller.go",
)
def dashboard_unreachable(group: RayGroup, _: Facts) -> Iterator[Hit]:
    """KubeRay submits jobs, deploys Serve applications and asks for their state at the head's port 8265, from another
    pod. Without the dashboard, or with one that listens on the pod's own loopback, it never gets an answer.
    """
    if group.cluster.manifest.kind not in ("RayJob", "RayService"):
        return
    shown, host = group.params["include-dashboard"], group.params["dashboard-host"]
    if not shown.unknown and shown.raw.lower() in _FALSE:
        yield Hit(shown, f"include-dashboard {shown.raw}", '"true", or left out')
    elif not host.unknown and _LOOPBACK.fullmatch(host.raw.strip("'\"")):
        yield Hit(host, f"dashboard-host {host.raw}", "0.0.0.0, or left out")
