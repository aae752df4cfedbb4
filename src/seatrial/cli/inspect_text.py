"""How a look at a job reads on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from seatrial.cli.output import PLAIN_WIDTH
from seatrial.evidence.facts import FactType, environment, outside, performance, recovery, transport
from seatrial.evidence.facts.environment import Group, LoadedLibraries
from seatrial.evidence.facts.outside import AttemptsSeen, Processes
from seatrial.evidence.facts.performance import GpuUse
from seatrial.evidence.facts.transport import DeviceWindow, PathFinding
from seatrial.report.reading import fact_of, mapping, number, sequence, string, value_of

_LABEL = 14
_SHOWN = 16
SHAPELESS = "the fact has another shape than it is known to have"
T = TypeVar("T")
Record = dict[str, Any]


def lines(record: Record) -> Iterator[str]:
    """One paragraph a question; what is not known says why."""
    for label, said in (
        ("job", _said(record, outside.JOB, _job)),
        ("ranks", _said(record, outside.PROCESSES, _ranks)),
        ("image", _said(record, environment.IMAGE_RAN, lambda image: [image])),
        ("pods", _pods(record)),
        ("loaded", _said(record, environment.LOADED, _loaded)),
        ("devices", _said(record, environment.DEVICES, _devices)),
        ("between hosts", _said(record, transport.INTERNODE, _path)),
        ("within a host", _said(record, transport.INTRANODE, _path)),
        ("bytes", _said(record, transport.WINDOW, _bytes)),
        ("GPUs", _said(record, performance.GPU_USE, _gpus)),
        ("attempts", _said(record, outside.ATTEMPTS_SEEN, lambda runs: _attempts(runs, record))),
        ("checkpoints", _said(record, recovery.NEWEST_CHECKPOINT, _checkpoint)),
        ("manifest", _said(record, environment.MANIFEST, _manifest)),
    ):
        yield from _paragraph(label, said)


def _said(record: Record, type: FactType[T], say: Callable[[T], list[str]]) -> list[str]:
    """What a fact says, or why it says nothing."""
    value = value_of(record, type)
    if value is not None:
        return say(value)
    fact = fact_of(record, type)
    if fact.get("state") == "value":
        return [SHAPELESS]
    return [f"{fact.get('state', 'unknown')}: {fact.get('reason', 'nobody looked')}"]


def _paragraph(label: str, said: list[str]) -> Iterator[str]:
    for position, line in enumerate(said):
        head = f"  {label:<{_LABEL}}" if position == 0 else " " * (_LABEL + 2)
        yield from textwrap.wrap(
            line,
            PLAIN_WIDTH,
            initial_indent=head,
            subsequent_indent=" " * (_LABEL + 4),
            break_long_words=False,
            break_on_hyphens=False,
        )


def _job(job: dict[str, Any]) -> list[str]:
    name = job.get("submission_id") or job.get("job_id")
    return [f"{name}, {job.get('status')}: {job.get('entrypoint', '')}".rstrip(": ")]


def _ranks(ranks: Processes) -> list[str]:
    found = [f"{ranks.processes} on {ranks.hosts} host{'s' * (ranks.hosts != 1)}"]
    for row in ranks.by_rank[:_SHOWN]:
        who = "rank unknown" if row.rank is None else f"rank {row.rank}"
        found.append(f"{who}: {row.host}, process {row.pid}" + (f", {row.gone}" if row.gone else ""))
    found += [f"and {left} more" for left in [len(ranks.by_rank) - _SHOWN] if left > 0]
    found += [f"not watched: {node[:12]}: {why}" for node, why in ranks.hosts_not_watched.items()]
    absent = ranks.listed_by_ray_but_not_there.items()
    return found + [f"listed by Ray, not there: process {pid} on {host}" for host, pids in absent for pid in pids]


def _pods(record: Record) -> list[str]:
    """Nothing where no pod was looked at: the line on the image has said so."""
    found = []
    for pod in (value_of(record, environment.PODS) or [])[:_SHOWN]:
        state = string(pod.get("phase")) + ("" if pod.get("ready") else ", not ready")
        again = f", {pod['restarts']} restarts" if pod.get("restarts") else ""
        inside = ", ".join(map(string, sequence(pod.get("processes"))))
        found.append(f"{pod.get('name')} on {pod.get('node') or 'no node'}, {state}{again}{inside and f': {inside}'}")
        found.append(f"  {pod.get('image_id') or 'no imageID yet'}")
    return found


def _loaded(loaded: LoadedLibraries) -> list[str]:
    return [
        ", ".join(f"{n} {version}" for n, version in mapping(group.value).items())
        + ("" if len(loaded.by_process) == 1 else f"  ({_of(group)})")
        for group in loaded.by_process
    ]


def _of(group: Group) -> str:
    return ", ".join(group.of[:4]) + (f" and {len(group.of) - 4} more" if len(group.of) > 4 else "")


def _devices(groups: list[Group]) -> list[str]:
    held = ((group, ", ".join(map(string, sequence(group.value)))) for group in groups)
    return [f"{_of(group)}: {devices or 'neither GPU nor RDMA device held open'}" for group, devices in held]


def _path(found: PathFinding) -> list[str]:
    over = f" over {', '.join(found.interfaces)}" if found.interfaces else ""
    return [f"{found.path or 'path unknown'}{over} ({found.word})", *found.reasons]


def _bytes(rows: list[DeviceWindow]) -> list[str]:
    return [_device(row) for row in rows[:_SHOWN]] or ["no interface moved"]


def _device(row: DeviceWindow) -> str:
    head = f"{row.host} {row.device}"
    if row.unknown is not None or row.sent_bytes is None or row.sent_bytes_per_s is None:
        return f"{head}: unknown: {row.unknown or SHAPELESS}"
    ours = "" if row.of_ranks_bytes is None else f", ranks' connections {_count(row.of_ranks_bytes)}"
    rate = (number(row.sent_bytes_per_s) or 0.0) / 1e6
    return f"{head}: sent {_count(row.sent_bytes)} in {row.seconds:g} s, {rate:.3g} MB/s{ours}"


def _count(decimal: str) -> str:
    """A decimal string, exact; anything else as it is."""
    return f"{int(decimal):,}" if decimal.isdecimal() and len(decimal) <= 40 else string(decimal, 40)


def _gpus(use: GpuUse) -> list[str]:
    return [
        f"{host}: " + ", ".join(f"GPU {g.get('index')} {g.get('utilization_percent', '?')} %" for g in gpus)
        for host, gpus in use.by_host.items()
    ]


def _attempts(runs: list[AttemptsSeen], record: Record) -> list[str]:
    witness = fact_of(record, outside.ATTEMPTS_SEEN).get("witness")
    return [
        f"run {run.run}: "
        + (", ".join(map(string, run.attempts)) if isinstance(run.attempts, list) else f"{run.attempts}, by {witness}")
        for run in runs
    ]


def _checkpoint(newest: dict[str, Any]) -> list[str]:
    gone = "; it is not there any more, or not on that host" if newest.get("there") is False else ""
    age = number(newest.get("age_s"))
    old = "of unknown age" if age is None else f"{age:,.0f} s old"
    return [f"newest {old}: {newest.get('path')}{gone}"]


def _manifest(manifest: dict[str, Any]) -> list[str]:
    derived = manifest.get("effective")
    count = len(derived) if isinstance(derived, dict | list) else 0
    said = [f"{manifest.get('resource')}: {count} values derived; the record has them"]
    warnings = manifest.get("warnings")
    if isinstance(warnings, dict):
        return [*said, f"events unknown: {warnings.get('unknown')}"]
    events = [mapping(warning) for warning in sequence(warnings)[:4]]
    return said + [f"{w.get('about')} {w.get('reason')}: {w.get('message')}" for w in events]
