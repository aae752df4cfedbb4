"""How a look at a job reads on a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

from seatrial.cli.output import PLAIN_WIDTH

_LABEL = 14
_SHOWN = 16
Facts = dict[str, dict[str, Any]]


def lines(record: dict[str, Any]) -> Iterator[str]:
    """One paragraph a question; what is not known says why."""
    facts = {name: fact for kind in record["evidence"].values() for name, fact in kind.items()}
    for label, said in (
        ("job", _job(facts)),
        ("ranks", _ranks(facts)),
        ("image", _image(facts)),
        ("pods", _pods(facts)),
        ("loaded", _loaded(facts)),
        ("devices", _devices(facts)),
        ("between hosts", _path(facts, "internode")),
        ("within a host", _path(facts, "intranode")),
        ("bytes", _bytes(facts)),
        ("GPUs", _gpus(facts)),
        ("attempts", _attempts(facts)),
        ("checkpoints", _checkpoint(facts)),
        ("manifest", _manifest(facts)),
    ):
        yield from _paragraph(label, said)


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


def _known(facts: Facts, name: str) -> Any:
    fact = facts.get(name, {})
    return fact.get("value") if fact.get("state") == "value" else None


def _why(facts: Facts, name: str) -> list[str]:
    fact = facts.get(name, {})
    return [f"{fact.get('state', 'unknown')}: {fact.get('reason', 'nobody looked')}"]


def _job(facts: Facts) -> list[str]:
    job = _known(facts, "execution.job")
    if job is None:
        return _why(facts, "execution.job")
    name = job.get("submission_id") or job.get("job_id")
    return [f"{name}, {job['status']}: {job.get('entrypoint', '')}".rstrip(": ")]


def _ranks(facts: Facts) -> list[str]:
    ranks = _known(facts, "execution.processes")
    if ranks is None:
        return _why(facts, "execution.processes")
    found = [f"{ranks['processes']} on {ranks['hosts']} host{'s' * (ranks['hosts'] != 1)}"]
    for row in ranks["by_rank"][:_SHOWN]:
        who = "rank unknown" if row["rank"] is None else f"rank {row['rank']}"
        found.append(f"{who}: {row['host']}, process {row['pid']}" + (f", {row['gone']}" if row.get("gone") else ""))
    found += [f"and {left} more" for left in [len(ranks["by_rank"]) - _SHOWN] if left > 0]
    found += [f"not watched: {node[:12]}: {why}" for node, why in ranks["hosts_not_watched"].items()]
    absent = ranks["listed_by_ray_but_not_there"].items()
    return found + [f"listed by Ray, not there: process {pid} on {host}" for host, pids in absent for pid in pids]


def _image(facts: Facts) -> list[str]:
    ran = _known(facts, "environment.image.ran")
    return [str(ran)] if ran is not None else _why(facts, "environment.image.ran")


def _pods(facts: Facts) -> list[str]:
    """Nothing where no pod was looked at: the line on the image has said so."""
    found = []
    for pod in (_known(facts, "environment.pods") or [])[:_SHOWN]:
        state = pod["phase"] + ("" if pod["ready"] else ", not ready")
        again = f", {pod['restarts']} restarts" if pod["restarts"] else ""
        inside = f": {', '.join(pod['processes'])}" if pod["processes"] else ""
        found.append(f"{pod['name']} on {pod['node'] or 'no node'}, {state}{again}{inside}")
        found.append(f"  {pod['image_id'] or 'no imageID yet'}")
    return found


def _loaded(facts: Facts) -> list[str]:
    loaded = _known(facts, "environment.loaded")
    if loaded is None:
        return _why(facts, "environment.loaded")
    groups = loaded["by_process"]
    return [
        ", ".join(f"{n} {version}" for n, version in group["value"].items())
        + ("" if len(groups) == 1 else f"  ({_of(group)})")
        for group in groups
    ]


def _of(group: dict[str, Any]) -> str:
    return ", ".join(group["of"][:4]) + (f" and {len(group['of']) - 4} more" if len(group["of"]) > 4 else "")


def _devices(facts: Facts) -> list[str]:
    groups = _known(facts, "environment.devices")
    if groups is None:
        return _why(facts, "environment.devices")
    return [f"{_of(group)}: {', '.join(group['value']) or 'neither GPU nor RDMA device held open'}" for group in groups]


def _path(facts: Facts, question: str) -> list[str]:
    fact = _known(facts, f"transport.{question}.path")
    if fact is None:
        return _why(facts, f"transport.{question}.path")
    over = f" over {', '.join(fact['interfaces'])}" if fact["interfaces"] else ""
    path = fact["path"] or "path unknown"
    return [f"{path}{over} ({fact['word']})", *fact["reasons"]]


def _bytes(facts: Facts) -> list[str]:
    rows = _known(facts, "transport.window")
    if rows is None:
        return _why(facts, "transport.window")
    found = []
    for row in rows[:_SHOWN]:
        if "unknown" in row:
            found.append(f"{row['host']} {row['device']}: unknown: {row['unknown']}")
            continue
        ours = f", ranks' connections {int(row['of_ranks_bytes']):,}" if "of_ranks_bytes" in row else ""
        rate = f"{row['sent_bytes_per_s'] / 1e6:.3g} MB/s"
        found.append(
            f"{row['host']} {row['device']}: sent {int(row['sent_bytes']):,} in {row['seconds']:g} s, {rate}{ours}"
        )
    return found or ["no interface moved"]


def _gpus(facts: Facts) -> list[str]:
    use = _known(facts, "performance.gpu_use")
    if use is None:
        return _why(facts, "performance.gpu_use")
    return [
        f"{host}: " + ", ".join(f"GPU {g.get('index')} {g.get('utilization_percent', '?')} %" for g in gpus)
        for host, gpus in use["by_host"].items()
    ]


def _attempts(facts: Facts) -> list[str]:
    runs = _known(facts, "execution.attempts_seen")
    if runs is None:
        return _why(facts, "execution.attempts_seen")
    witness = facts["execution.attempts_seen"]["witness"]
    return [
        f"run {run['run']}: "
        + (", ".join(run["attempts"]) if isinstance(run["attempts"], list) else f"{run['attempts']}, by {witness}")
        for run in runs
    ]


def _checkpoint(facts: Facts) -> list[str]:
    newest = _known(facts, "recovery.newest_checkpoint")
    if newest is None:
        return _why(facts, "recovery.newest_checkpoint")
    there = {True: "", False: "; it is not there any more, or not on that host", None: ""}[newest["there"]]
    return [f"newest {newest['age_s']:,.0f} s old: {newest['path']}{there}"]


def _manifest(facts: Facts) -> list[str]:
    manifest = _known(facts, "environment.manifest")
    if manifest is None:
        return _why(facts, "environment.manifest")
    said = [f"{manifest['resource']}: {len(manifest['effective'])} values derived; the record has them"]
    warnings = manifest["warnings"]
    if isinstance(warnings, dict):
        return [*said, f"events unknown: {warnings['unknown']}"]
    return said + [f"{w['about']} {w['reason']}: {w['message']}" for w in warnings[:4]]
