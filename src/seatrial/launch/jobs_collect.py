"""Fetches the sealed record of a job: from its storage if that is mounted here, else from the job's log."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.canon import file_digest
from seatrial.driver import deliver
from seatrial.driver.deliver import Delivery
from seatrial.driver.tell import DIRECTORY, RECORD
from seatrial.errors import EvidenceError, InputError, RunError
from seatrial.launch.jobs import GUARD_S, POLL_S, said
from seatrial.launch.jobs_dashboard import Dashboard, NoAnswer, SubmittedJob
from seatrial.record import read_record, verify
from seatrial.record.verify import COLLECTED


@dataclass(frozen=True)
class Collected:
    """An intact sealed record on this machine. `left_out` are files that stayed on the cluster."""

    record: Path
    content: dict[str, Any]
    digest: str
    left_out: list[str]


def collect(dashboard: Dashboard, job: SubmittedJob, to: Path | None, default: Path) -> Collected:
    """The record of a run that has ended, copied into `to`.

    Without `to` it stays on the cluster's storage if that is mounted here, else it is copied into `default`. Raises
    InputError while the run goes on, RunError if there is no record, EvidenceError for a copy that is not what was
    sealed.
    """
    if not job.ended:
        fix = f"`seatrial attach {job.id}` follows it, `seatrial stop {job.id}` ends it"
        raise InputError(f"{job.id} has not ended ({job.status})", expected="a run that has ended", fix=fix)
    log = _whole_log(dashboard, job)
    mounted = _mounted(log)
    if mounted and to is None:
        return _checked(mounted, [])
    delivery = deliver.pack(mounted.parent, limit=1 << 40) if mounted else _delivered(log, job)
    return _write(delivery, to or default, dashboard.address, job)


def _whole_log(dashboard: Dashboard, job: SubmittedJob) -> str:
    """The log once it says where the record is: the guard of a killed driver seals somewhat later."""
    deadline = time.monotonic() + GUARD_S
    while True:
        try:
            log = dashboard.log(job.id)
        except NoAnswer as error:
            raise RunError(f"the log of {job.id} cannot be read: {error}; {_by_hand('')}") from None
        if said(log, RECORD) or not said(log, DIRECTORY) or time.monotonic() > deadline:
            return log
        time.sleep(POLL_S)


def _mounted(log: str) -> Path | None:
    """The record on the cluster's storage if that is mounted here: a file that has the record's digest."""
    digest, _, directory = said(log, RECORD).partition(" in ")
    with contextlib.suppress(OSError):
        for path in Path(directory).glob("record*.json") if directory else ():
            if file_digest(path) == digest:
                return path
    return None


def _delivered(log: str, job: SubmittedJob) -> Delivery:
    directory = said(log, DIRECTORY)
    try:
        found = deliver.find(log)
    except EvidenceError as error:
        raise RunError(f"{error}; {_by_hand(directory)}") from None
    if found:
        return found
    lines = [line for line in (*job.message.splitlines(), *log.splitlines()) if line.strip()]
    if not directory:
        raise RunError(
            f"{job.id} ended ({job.status}) before it began: {lines[-1].strip()[:500] if lines else 'no log'}"
        )
    raise RunError(f"{job.id} ended ({job.status}) and its log holds no record; {_by_hand(directory)}")


def _by_hand(directory: str) -> str:
    where = directory or "the run directory"
    return (
        f"where the cluster's storage is mounted, `seatrial show {where}` shows it, `seatrial judge {where}` seals it"
    )


def _write(delivery: Delivery, to: Path, address: str, job: SubmittedJob) -> Collected:
    """Copies the record, whole or not at all. An existing copy of the same record is used."""
    head, target = delivery.head, to / delivery.head.run
    if target.exists():
        if (target / head.file).is_file() and file_digest(target / head.file) == head.record:
            return _checked(target / head.file, head.left_out)
        raise InputError(f"{target} exists and holds another record", field="to", expected="a folder without it")
    to.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{head.run}.", dir=to))
    try:
        delivery.unpack(partial)
        source = {"address": address, "job": job.id, "directory": head.directory, "left_out": head.left_out}
        (partial / COLLECTED).write_text(json.dumps(source, indent=2) + "\n", encoding="utf-8")
        found = _checked(partial / head.file, head.left_out)
        partial.chmod(0o777 & ~_umask())
        os.rename(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return Collected(target / head.file, found.content, found.digest, head.left_out)


def _umask() -> int:
    before = os.umask(0)
    os.umask(before)
    return before


def _checked(path: Path, left_out: list[str]) -> Collected:
    """The record at `path`. Raises EvidenceError if it differs from what was sealed."""
    content, digest = read_record(path)
    if problems := verify(path).problems:
        raise EvidenceError(f"{path.parent} is not what was sealed: {problems[0]} ({len(problems)} differences)")
    return Collected(path, content, digest, left_out)
