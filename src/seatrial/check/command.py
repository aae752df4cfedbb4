"""One call of `seatrial check`: what to read, with which facts and rules, to one outcome."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from seatrial.check import inputs
from seatrial.check.given import Given
from seatrial.check.manifest import Manifest, is_ray, unlisted
from seatrial.check.operator import DEFAULT_KUBERAY
from seatrial.check.reading import documents
from seatrial.check.rule import Facts
from seatrial.check.runner import CheckResult, Selection, check_bytes
from seatrial.check.structure import DEFAULT_KUBERNETES, Schema
from seatrial.check.values import Value
from seatrial.errors import EXIT_INPUT, EXIT_OK, EXIT_REFUTED, InputError
from seatrial.kube.apimachinery import version


@dataclass(frozen=True)
class Settings:
    """What the user chose."""

    selection: Selection = field(default_factory=Selection)
    kuberay: str = DEFAULT_KUBERAY
    kubernetes: str = DEFAULT_KUBERNETES
    given: frozenset[str] = frozenset()  # which of the two above the user gave: they take precedence over a trial
    trial: Path | None = None
    fail_on: str = "error"
    server: bool = False  # keep the resources of the input: a cluster will be asked about them
    skip_others: bool = False  # skip named files without a Ray resource, too, as those in folders always are

    def __post_init__(self) -> None:
        if version(self.kuberay) is None:
            raise InputError(f"saw {self.kuberay}", field="kuberay", expected="a version such as 1.6")


@dataclass
class Checked:
    """The outcome, the files that were read, and notes for the reader."""

    outcome: CheckResult
    paths: list[str]
    notes: tuple[str, ...]
    input: Given | None = None  # the resources of the input, if a cluster will be asked about them


def run(paths: tuple[Path, ...], settings: Settings, stdin: BinaryIO | None = None) -> Checked:
    """Checks everything that the paths name, one file at a time. Raises InputError only for wrong settings."""
    schema = Schema(settings.kubernetes)
    stream = stdin or sys.stdin.buffer
    asked = inputs.asked_by(settings.trial) if settings.trial else None
    rules, outcome, read, notes = settings.selection.rules(), CheckResult(), list[str](), list[str]()
    claims, given = _claims(paths), Given() if settings.server else None
    for item in inputs.files(paths):
        if isinstance(item, InputError):
            outcome.problems.append(item)
            continue
        path = item.path
        try:
            raw = inputs.content(path, stream)
            if not inputs.concerns(raw) and (settings.skip_others or not item.named):
                if given is not None:
                    given.add_bytes(raw, inputs.name(path))
                continue
            read.append(inputs.name(path))
            if inputs.is_trial(raw):
                checked = _trial(path, settings, schema, given)
                outcome.add(checked)
                if not checked.resources:
                    notes.append(f"{path}: a valid trial; it runs without Kubernetes, so there is no manifest to check")
                continue
        except InputError as error:
            outcome.problems.append(error)
            continue
        known = {**claims, **(inputs.claims(raw, "<stdin>") if str(path) == inputs.STDIN else {})}
        facts = Facts(settings.kuberay, asked, known)
        outcome.add(check_bytes(raw, inputs.name(path), facts, rules, schema, given))
    if not (outcome.resources or outcome.problems or notes or settings.skip_others):
        outcome.problems.append(
            InputError("no RayCluster, RayJob or RayService in the input", expected="at least one to check")
        )
    if schema.absent and outcome.resources:
        notes.append(f"pod templates were not checked against Kubernetes' schemas: {schema.absent}")
    return Checked(outcome, read, tuple(notes), given)


def _claims(paths: tuple[Path, ...]) -> dict[tuple[str, str], Value]:
    """The PersistentVolumeClaims of all files: a claim often lies in another file than the pods that use it."""
    found: dict[tuple[str, str], Value] = {}
    for item in inputs.files(tuple(path for path in paths if str(path) != inputs.STDIN)):
        if isinstance(item, InputError) or not item.path.is_file():
            continue
        try:
            found |= inputs.claims(inputs.content(item.path, sys.stdin.buffer), str(item.path))
        except InputError:  # said where the file itself is checked
            continue
    return found


def _trial(path: Path, settings: Settings, schema: Schema, given: Given | None) -> CheckResult:
    """Checks what a trial renders to; places are of the rendered files."""
    trial, texts, asked = inputs.trial(path)
    outcome, claims = CheckResult(), dict[tuple[str, str], Value]()
    for name, text in texts.items():
        claims |= inputs.claims(text.encode(), f"{path}#{name}")
    own = {"kuberay": trial.cluster.kuberayVersion, "kubernetes": trial.cluster.kubernetesVersion}
    wanted = {name: release for name, release in own.items() if release and name not in settings.given}
    release = inputs.minor(wanted.get("kubernetes", schema.release))
    schema = schema if release == schema.release else Schema(release)
    facts = Facts(wanted.get("kuberay", settings.kuberay), asked, claims)
    for name, text in texts.items():
        rules = settings.selection.rules()
        outcome.add(check_bytes(text.encode(), f"{path}#{name}", facts, rules, schema, given))
    return outcome


def exit_code(outcome: CheckResult, fail_on: str) -> int:
    """2 where something could not be read, 1 where a finding counts, else 0."""
    if outcome.problems:
        return EXIT_INPUT
    counted = ("error",) if fail_on == "error" else ("error", "warning")
    found = any(f.severity in counted and not f.suppressed for f in outcome.findings)
    return EXIT_REFUTED if found else EXIT_OK


def resources(paths: tuple[Path, ...], stdin: BinaryIO | None = None) -> Iterator[Manifest | InputError]:
    """Every Ray resource that the paths name, a trial's as rendered."""
    for item in inputs.files(paths):
        if isinstance(item, InputError):
            yield item
            continue
        path = item.path
        try:
            raw = inputs.content(path, stdin or sys.stdin.buffer)
            texts = {inputs.name(path): raw}
            if inputs.is_trial(raw):
                texts = {f"{path}#{name}": text.encode() for name, text in inputs.trial(path)[1].items()}
        except InputError as error:
            yield error
            continue
        for name, text in texts.items():
            yield from _resources(text, name)


def _resources(raw: bytes, name: str) -> Iterator[Manifest | InputError]:
    for item in documents(raw, name):
        if isinstance(item, InputError):
            yield item
        elif item.root is not None:
            yield from (Manifest(root) for root in unlisted(item) if is_ray(root))
