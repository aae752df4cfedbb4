"""What travels with a job: seatrial's own files as a Python module, the trial, and the folder of a script."""

from __future__ import annotations

import json
import logging
import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.canon import digest
from seatrial.driver import ray_internals
from seatrial.driver.code import travelling
from seatrial.driver.prepare import recorded
from seatrial.errors import InputError
from seatrial.events import Redactor
from seatrial.trial import Trial
from seatrial.trial.source import dotted

TRIAL = "seatrial-trial.json"  # in the job's working directory
LIMIT_BYTES = 100 << 20  # what Ray's dashboard takes in one request
LEFT_OUT = (".git", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", "node_modules")


@dataclass(frozen=True)
class JobPackage:
    """The folder of seatrial's own module, and a zip that becomes the job's working directory."""

    module: Path
    working_dir: Path
    trial: str  # its digest, as every event file of the run will state it


def pack(trial: Trial, base: Path | None, folder: Path) -> JobPackage:
    """Writes the package into `folder`. `base` is the folder of the trial's file; a script must lie there or below.

    Raises InputError.
    """
    refuse_secrets(trial)
    trial = _relative(trial, base) if trial.run_kind.own_code else trial
    document = recorded(trial)
    text = json.dumps(document)
    archive = folder / "working-dir.zip"
    if trial.run_kind.own_code and base:
        _pack_folder(base, archive, text)
    else:
        with zipfile.ZipFile(archive, "w") as zipped:
            _add(zipped, text)
    return JobPackage(own_module(folder), archive, digest(document))


def refuse_secrets(trial: Trial) -> None:
    """Raises InputError for a variable that looks like a secret: Ray's dashboard shows a job's environment."""
    for name, value in trial.runtimeEnv.env_vars.items():
        if Redactor({}).value({name: value}) != {name: value}:
            raise InputError(
                "looks like a secret, which Ray would show on its dashboard and keep with the job",
                field=f"runtimeEnv.env_vars.{name}",
                expected="the environment of the cluster's hosts to hold it: every worker inherits that",
                fix="on Kubernetes a container's env with secretKeyRef",
            )


def local_paths(trial: Trial, base: Path | None) -> Iterator[str]:
    """Warnings for paths below the trial's own folder, except its script: they exist on this machine alone."""
    for keys, value in _texts(trial.resolved(), ()) if base else ():
        if Path(value).is_relative_to(str(base)) and keys != ("workload", "script"):
            yield f"{dotted(keys)}: {value} lies in this trial's folder; expected a path that the cluster's hosts have"


def _texts(value: Any, keys: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    if isinstance(value, str):
        yield keys, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(item, (*keys, key))


def _relative(trial: Trial, base: Path | None) -> Trial:
    """The script's path as it will be on the cluster: below the job's working directory."""
    script = Path(trial.team_script.script).resolve()
    if base is None or not script.is_relative_to(base.resolve()):
        raise InputError(
            f"{script} does not lie below {base or 'a trial file'}",
            field="workload.script",
            expected="a script in the trial file's folder: that folder travels with the job",
        )
    if not script.is_file():
        raise InputError(f"{script} is no file", field="workload.script", expected="a Python script")
    inside = script.relative_to(base.resolve()).as_posix()
    return trial.model_copy(update={"workload": trial.team_script.model_copy(update={"script": inside})})


def _pack_folder(base: Path, archive: Path, trial: str) -> None:
    """Packs with Ray's own code, which respects .gitignore and .rayignore: as `ray job submit` does."""
    if (base / TRIAL).exists():
        raise InputError(f"{base / TRIAL} exists", expected="this name free: the resolved trial travels under it")
    logging.getLogger("ray").setLevel(logging.ERROR)  # its hint about the size is an error of our own below
    gitignore = os.environ.get(ray_internals.IGNORE_GITIGNORE, "0") != "1"
    ray_internals.pack_folder(base, archive, gitignore=gitignore, excludes=[*LEFT_OUT, *_not_ours(base)])
    with zipfile.ZipFile(archive, "a") as zipped:
        _add(zipped, trial)
        largest = max(zipped.infolist(), key=lambda entry: entry.compress_size)
    if (size := archive.stat().st_size) > LIMIT_BYTES:
        raise InputError(
            f"{base} takes {size >> 20} MiB packed ({largest.filename}: {largest.compress_size >> 20} MiB)",
            expected=f"at most {LIMIT_BYTES >> 20} MiB, which Ray's dashboard takes",
            fix="name what is not code in .rayignore there, and read data from storage that the cluster mounts",
        )


def _not_ours(base: Path) -> Iterator[str]:
    """Virtual environments and storage folders below `base`, as patterns of .gitignore."""
    for path, folders, files in os.walk(base):
        if Path(path) != base and ("pyvenv.cfg" in files or "seals.jsonl" in files):
            yield f"/{Path(path).relative_to(base).as_posix()}"
            folders.clear()
        folders[:] = [name for name in folders if name not in LEFT_OUT]


def _add(archive: zipfile.ZipFile, trial: str) -> None:
    archive.writestr(zipfile.ZipInfo(TRIAL, (1980, 1, 1, 0, 0, 0)), trial)


def own_module(folder: Path) -> Path:
    """Writes seatrial as a folder of `folder`: Ray refuses a zip as a Python module."""
    module = folder / "seatrial"
    for name, data in travelling().items():
        target = module / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return module
