"""Seals a run: evidence and verdicts in one document, its digest beside it and in the storage's list."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

import seatrial
from seatrial.canon import canonical, file_digest, parse, plain, sha256, utc
from seatrial.errors import EXIT_OK, EvidenceError
from seatrial.events import Layout
from seatrial.events.layout import is_unlisted_by_design
from seatrial.evidence import exit_code, judge, read_evidence
from seatrial.record.schema import SCHEMA, RecordDocument


def seal(root: Path, cites: str = "") -> tuple[Path, dict[str, Any]]:
    """Judges a run directory and writes the next record. Returns its path and content.

    `cites` is the digest of an older record that this judgement follows. Raises EvidenceError if the directory is no
    run, OSError if the storage refuses the record.
    """
    layout = Layout(root)
    run, evidence = read_evidence(root)
    listed = artifacts(layout)
    if cites and (changed := _changed(read_record(latest(root))[0]["artifacts"], listed)):
        # Judging again must not make a changed run look whole: what the older record held is what counts.
        evidence = replace(evidence, void=f"changed since the record that is cited: {', '.join(changed[:5])}")
    verdicts = judge(run.claims, evidence)
    early = run.ended_early()
    # Nothing was claimed of a job that was only looked at, and it was looked at.
    shown = not (run.kind.ends or verdicts or verdicts.faults or early or evidence.void)
    code = exit_code(verdicts, ended_early=bool(early), kind=run.kind, faults=verdicts.faults)
    record: dict[str, Any] = plain(
        {
            "schema": SCHEMA,
            "run": run.name,
            "sealed": utc(),
            "seatrial": seatrial.__version__,
            "python": platform.python_version(),
            "cites": cites or None,
            "trial": _trial(layout),
            "claims": run.claims,
            "void": evidence.void or None,
            "ended_early": early or None,
            "exit_code": EXIT_OK if shown else code,
            "verdicts": [v.json() for v in verdicts],
            "evidence": evidence.json(),
            "artifacts": listed,
            **({} if run.kind.ends else {"observed": True}),
            **({"faults": [fault.json() for fault in verdicts.faults]} if verdicts.faults else {}),
        }
    )
    data = canonical(record)
    path = _next(layout)
    _write(path, data)
    _write(path.with_suffix(".sha256"), f"{sha256(data).removeprefix('sha256:')}  {path.name}\n".encode())
    line = canonical({"run": run.name, "record": sha256(data), "file": path.name, "sealed": record["sealed"]}) + b"\n"
    with layout.seals.open("ab", buffering=0) as seals:
        seals.write(line)
    return path, record


def artifacts(layout: Layout) -> list[dict[str, Any]]:
    """`[{path, size, sha256}]` of every file of the run but record, reports and the shards of complete checkpoints."""
    listed: list[dict[str, Any]] = []
    for path in sorted(p for p in layout.root.rglob("*") if p.is_file() and not p.is_symlink()):
        name = layout.relative(path)
        if not is_unlisted_by_design(layout.root, name):
            listed.append({"path": plain(name), "size": path.stat().st_size, "sha256": file_digest(path)})
    return listed


def _changed(before: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[str]:
    """Paths that are missing, new or different."""
    old, new = ({str(entry["path"]): entry for entry in entries} for entries in (before, now))
    return sorted(path for path in {*old, *new} if old.get(path) != new.get(path))


def latest(root: Path) -> Path:
    """The newest record file of a run directory. Raises EvidenceError if the run was never sealed."""
    records = sorted(root.glob("record*.json"), key=_number)
    if not records:
        raise EvidenceError(f"{root} has no record.json; `seatrial judge` seals a run directory that was not")
    return records[-1]


def _number(path: Path) -> int:
    middle = path.name.removeprefix("record").removesuffix("json").strip(".")
    return int(middle) if middle.isdigit() else 1


def _next(layout: Layout) -> Path:
    """`record.json` the first time, then `record.2.json` and so on: a record is never written over."""
    taken = [_number(p) for p in layout.root.glob("record*.json")]
    return layout.root / f"record.{max(taken) + 1}.json" if taken else layout.record


def _trial(layout: Layout) -> Any:
    try:
        return parse(layout.trial.read_bytes())
    except (OSError, ValueError) as error:
        return {"state": "unknown", "reason": f"trial.json cannot be read: {type(error).__name__}"}


def _write(path: Path, data: bytes) -> None:
    """Whole or not at all under this name, and never over another. Raises FileExistsError, OSError."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as handle:
            handle.write(data)
            handle.flush()
            os.fsync(handle.fileno())
        os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def read_record(path: Path) -> tuple[dict[str, Any], str]:
    """A record and its digest. Raises EvidenceError if it is none."""
    try:
        data = path.read_bytes()
        record = parse(data)
    except OSError as error:
        raise EvidenceError(f"{path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise EvidenceError(f"{path} is not a record: it is not JSON") from None
    if not isinstance(record, dict) or record.get("schema") != SCHEMA:
        raise EvidenceError(f"{path} is not a record: expected schema {SCHEMA}")
    try:
        RecordDocument.model_validate(record)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise EvidenceError(f"{path} is not a whole record: {where}: {first['msg']}") from None
    return record, sha256(data)
