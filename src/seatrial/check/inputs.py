"""What the command names: files, folders, standard input, trials; read one at a time, so that memory stays flat."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from seatrial.check import operator, reading
from seatrial.check.reading import MAX_FILE_BYTES, YamlDocument, YamlNode
from seatrial.check.rule import Asked
from seatrial.check.structure import Schema
from seatrial.check.values import Value
from seatrial.errors import InputError, Place
from seatrial.kube.apimachinery import version

if TYPE_CHECKING:
    from seatrial.trial.model import Trial

STDIN = "-"
_ENDINGS = (".yaml", ".yml", ".json")
_MOST_FILES = 100_000
_RENDERED = "#"  # `trial.yaml#rayjob.yaml`: what a trial renders to, where no such file was written
KUBERAY = ((1, 4), (1, 7))  # the releases that the rules were written from, see operator.py


@dataclass(frozen=True)
class Input:
    """A file to read: `named` by the user, or found in a folder."""

    path: Path
    named: bool


def files(paths: tuple[Path, ...]) -> Iterator[Input | InputError]:
    """Every file that the paths name; folders are searched for YAML and JSON. A missing path is an error."""
    for path in paths:
        if str(path) == STDIN or not path.is_dir():
            yield Input(path, named=True)
            continue
        found = sorted(
            entry
            for entry in path.rglob("*")
            if entry.suffix in _ENDINGS and entry.is_file() and not _hidden(entry, path)
        )
        if not found:
            yield InputError(
                "holds no manifest", place=Place(str(path)), expected="files named *.yaml, *.yml or *.json"
            )
        yield from (Input(entry, named=False) for entry in found[:_MOST_FILES])


def concerns(raw: bytes) -> bool:
    """Whether a file speaks of Ray resources or is a trial; a folder holds much else."""
    return b"ray.io/" in raw or is_trial(raw)


def _hidden(entry: Path, below: Path) -> bool:
    return any(part.startswith(".") for part in entry.relative_to(below).parts)


def content(path: Path, stdin: BinaryIO) -> bytes:
    """A file's bytes, or those of standard input. Raises InputError."""
    place = Place("<stdin>" if str(path) == STDIN else str(path))
    try:
        if str(path) == STDIN:
            raw = stdin.read(MAX_FILE_BYTES + 1)
        else:
            if not stat.S_ISREG(path.stat().st_mode) and not stat.S_ISFIFO(path.stat().st_mode):
                raise InputError("is no regular file", place=place, expected="a YAML file or a folder")
            with path.open("rb") as handle:
                raw = handle.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot be read: {reason}", place=place, expected="a YAML file or a folder") from None
    if len(raw) > MAX_FILE_BYTES:
        raise InputError("is too large", place=place, expected=f"at most {MAX_FILE_BYTES >> 20} MiB")
    return raw


def name(path: Path) -> str:
    """The path as findings show it."""
    return "<stdin>" if str(path) == STDIN else str(path)


def rendered(path: str) -> tuple[str, str]:
    """The file on disk that a finding's path is about, and the name of what was rendered from it, if it is a trial.

    `#` may stand in a file's own name too: the file that exists decides.
    """
    file, mark, name = path.rpartition(_RENDERED)
    return (file, name) if mark and Path(file).is_file() and not Path(path).exists() else (path, "")


def place(path: str, line: int | None = None, column: int | None = None) -> dict[str, Any]:
    """A place as JSON. What a trial renders to is no file: then it is the trial's first line, and `rendered` says more.

    Without `line` it is a file as a whole.
    """
    file, name = rendered(path)
    where = {key: at for key, at in (("line", line), ("column", column)) if at is not None}
    if name:
        return {"path": file, **dict.fromkeys(where, 1), "rendered": {"name": name, **where}}
    return {"path": file, **where}


def kuberay_of(path: str) -> str | None:
    """The KubeRay that a trial names, by the path of what it renders to; None where there is no trial."""
    from seatrial.trial import loader

    file, name = rendered(path)
    return loader.load(Path(file)).trial.cluster.kuberayVersion if name else None


def strange_kuberay(release: str) -> str:
    """Empty, or what to say about a KubeRay that nobody here has read."""
    oldest, newest = KUBERAY
    if oldest <= (version(release) or (0, 0))[:2] <= newest:
        return ""
    known = " to ".join(".".join(map(str, numbers)) for numbers in KUBERAY)
    return f"KubeRay {release} is not known here, {known} are; what is different in it may be missed"


def minor(release: str) -> str:
    """`1.34` of a Kubernetes release such as `v1.34.2`: patch releases change no field."""
    return ".".join(release.removeprefix("v").split(".")[:2])


def is_trial(raw: bytes) -> bool:
    """Whether a file's bytes are a trial's."""
    return b"seatrial.io/v1" in raw and b"kind: Trial" in raw


def trial(path: Path) -> tuple[Trial, dict[str, str], Asked]:
    """A trial, the manifests that it renders to, and what it asks of the cluster. Raises InputError.

    A trial that runs without Kubernetes has no manifests.
    """
    from seatrial.render import render
    from seatrial.trial import loader

    if str(path) == STDIN:
        expected = "a file that is named: what a trial refers to is found from its folder"
        raise InputError("a trial", place=Place(name(path)), expected=expected)
    loaded = loader.load(path)
    if loaded.trial.cluster.provider in ("local", "ray"):
        return loaded.trial, {}, asked(loaded.trial)
    try:
        _possible(loaded.trial)
        files = render(loaded.trial).files
    except InputError as error:
        raise loaded.locate(error) from None
    texts = {file: text for file, text in files.items() if file.endswith((".yaml", ".yml"))}
    return loaded.trial, texts, asked(loaded.trial)


def _possible(trial: Trial) -> None:
    """Raises InputError for what the trial's cluster cannot be, or cannot do."""
    if release := trial.cluster.kubernetesVersion:
        try:
            Schema(minor(release))
        except InputError as error:
            raise InputError(f"saw {release}", field="cluster.kubernetesVersion", expected=error.expected) from None


def with_runtime_env(root: Value) -> tuple[Value, Place | None]:
    """A trial's RayJob with the environment that the driver asks Ray for at the start, and its place in the trial.

    It stands in no manifest, so that rules about a runtime environment would not see it. What is no trial's, or has an
    environment of its own, is as before.
    """
    from seatrial.trial import loader

    file, name = rendered(root.file)
    spec = root["spec"].node
    if not name or root["kind"].raw != "RayJob" or spec is None or "runtimeEnvYAML" in spec.value:
        return root, None
    loaded = loader.load(Path(file))
    asked = {key: value for key, value in loaded.trial.runtimeEnv.model_dump(mode="json").items() if value}
    if not asked or root.node is None:
        return root, None
    at, text = loaded.source.place(("runtimeEnv",)), json.dumps(asked)
    environment = YamlNode(text, at.line, at.column, text, quoted=True)
    inside = replace(spec, value={**spec.value, "runtimeEnvYAML": environment})
    return replace(root, node=replace(root.node, value={**root.node.value, "spec": inside})), at


def notes(names: list[str]) -> Iterator[str]:
    """What to know about the trials among the files that were read, beyond what is wrong with their manifests."""
    for path in (Path(name) for name in names if name != "<stdin>"):
        try:
            yield from _notes(path) if is_trial(path.read_bytes()) else ()
        except InputError:  # said where the trial itself is checked
            continue


def _notes(path: Path) -> list[str]:
    from seatrial.render.objects import deadline
    from seatrial.trial import loader

    loaded = loader.load(path)
    cluster, work = loaded.trial.cluster, loaded.trial.workload
    if cluster.provider in ("local", "ray"):
        return []
    said = []
    if note := strange_kuberay(cluster.kuberayVersion or operator.DEFAULT_KUBERAY):
        said.append(f"{loaded.source.place(('cluster', 'kuberayVersion'))}: {note}")
    if work.steps is None:
        return said
    limits, end = 2 * work.timeout.start + work.steps * work.timeout.step, deadline(loaded.trial)
    if limits > end and not cluster.deadline and not cluster.template:
        at = loaded.source.place(("workload", "timeout", "step"))
        seen = f"{work.steps} steps within their limit may take {limits / 3600:.0f} h"
        said.append(f"{at}: {seen}, and the job is ended after {end / 3600:.0f} h: cluster.deadline sets another end")
    return said


def asked(trial: Trial) -> Asked:
    """What a trial asks of the cluster."""
    return Asked(trial.scaling.num_workers, trial.scaling.gpus_per_worker, trial.storage.path)


def asked_by(path: Path) -> Asked:
    """What the trial in a file asks of the cluster. Raises InputError."""
    from seatrial.trial import loader

    return asked(loader.load(path).trial)


def claims(raw: bytes, path: str) -> dict[tuple[str, str], Value]:
    """The PersistentVolumeClaims in a file, by namespace and name."""
    if b"PersistentVolumeClaim" not in raw or b"kind" not in raw:
        return {}
    found = {}
    for document in reading.documents(raw, path):
        if isinstance(document, YamlDocument) and document.root:
            root = Value.of(document.root, path, document.line)
            if root["kind"].raw == "PersistentVolumeClaim":
                found[root.at("metadata", "namespace").raw, root.at("metadata", "name").raw] = root
    return found
