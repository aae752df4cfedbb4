"""What NCCL's logs say of a run, and whether the counters of its hosts bear it out.

The reader of logs is `seatrial.probe.nccl`; here it gets its second witness from the run itself: each host's counters
over the steady window, against what the plan says that the host's ranks send to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from seatrial.events import Stream
from seatrial.events.base import Nonsense
from seatrial.events.layers import Sharding
from seatrial.events.planned import need
from seatrial.events.wires import NcclLog
from seatrial.evidence.facts import transport
from seatrial.evidence.facts.fact import Fact
from seatrial.evidence.facts.transport import CORROBORATED, DISAGREE, HostBytes
from seatrial.evidence.run import Run
from seatrial.evidence.witness import counters
from seatrial.plan.traffic import Sent, messages, sent
from seatrial.probe.nccl.counter_snapshots import difference
from seatrial.probe.nccl.facts import Log
from seatrial.probe.nccl.findings import Finding, Moved, findings
from seatrial.probe.nccl.graph import communicators
from seatrial.probe.nccl.logs import merged
from seatrial.probe.nccl.serialize import unpack
from seatrial.probe.nccl.summary import summary

WITNESS = "NCCL's own logs, and kernel counters by the probes"
_SHOWN = ("versions", "providers", "protocols", "paths", "troubles", "not_evidence")


def fact(run: Run, by_rank: list[str], sharding: Sharding | None) -> Fact[transport.NcclFindings]:
    """The findings; unknown without a log. `sharding` is None where no plan foretells the messages."""
    probes = {event.name: stream for stream in run.probes for event in stream.all(NcclLog)}
    logs = {event.name: _unpacked(event) for stream in run.probes for event in stream.all(NcclLog)}
    if not logs:
        why = "no NCCL log: NCCL wrote none, or NCCL_DEBUG_FILE was set to another place"
        return transport.NCCL.unknown(why, "host probes")
    log = merged(logs.values())
    found = communicators(log)
    of_host, twice = _probes(logs, probes)
    moved = None if twice else {h: m for h, p in of_host.items() if (m := _moved(run, p, len(by_rank))) is not None}
    answers = findings(log, found, ranks=len(by_rank), counters=moved)
    shaped = {answer.question: _shaped(answer) for answer in answers}
    if twice:
        between = shaped["internode"]
        shaped["internode"] = replace(between, reasons=[*between.reasons, f"two hosts are named {twice}"])
    elif moved and sharding:
        shaped["internode"] = _by_plan(shaped["internode"], run, by_rank, sharding, of_host, moved)
    document = summary(log, found, answers)
    told: dict[str, Any] = {name: document[name] for name in _SHOWN}
    value = transport.NcclFindings(
        internode=shaped["internode"], intranode=shaped["intranode"], gpudirect=shaped["gpudirect"], **told
    )
    return transport.NCCL.seen(value, WITNESS)


def _unpacked(event: NcclLog) -> Log:
    try:
        return unpack(event.facts)
    except ValueError as error:
        raise Nonsense(f"{event.name}: {error}") from None


def _shaped(answer: Finding) -> transport.PathFinding:
    path: str | bool | None = answer.value or None
    said: list[str | bool] = [word for word in answer.value.split(" and ") if word not in ("", "p2p", "libfabric")]
    if answer.question == "gpudirect":
        path = {"true": True, "false": False}.get(answer.value, path)
        said = [path] if isinstance(path, bool) else []
    reasons = [answer.reason] if answer.reason and answer.word != CORROBORATED else []
    return transport.PathFinding(path, answer.word, reasons, saying=said, lines=list(answer.lines))


def _probes(logs: Mapping[str, Log], probes: Mapping[str, Stream]) -> tuple[dict[str, Stream], str]:
    """The probe of each host by NCCL's name for it; and a name that two of them have, if there is one."""
    found: dict[str, Stream] = {}
    for name, log in logs.items():
        for writer in log.processes:
            if found.setdefault(writer.host, probes[name]) is not probes[name]:
                return {}, writer.host
    return found, ""


def _moved(run: Run, probe: Stream, ranks: int) -> Moved | None:
    """What a host's counters moved by in the steady window; None where the probe did not see both edges of it."""
    seen = counters.window(probe, ranks, run.plan.steady_from, run.last_step)
    return difference(seen.samples[0].counters, seen.samples[-1].counters) if seen else None


def _by_plan(
    finding: transport.PathFinding,
    run: Run,
    by_rank: list[str],
    sharding: Sharding,
    probes: Mapping[str, Stream],
    moved: Mapping[str, Moved],
) -> transport.PathFinding:
    """Holds what moved against what the plan has a host send. Too little is another path than the log's."""
    if finding.word != CORROBORATED:
        return finding
    work = messages(sharding, need(run.plan.micro_batches, "micro_batches"))
    edges = sent(work, sharding.mesh, "nccl", by_rank)
    word, reasons, rows = finding.word, list(finding.reasons), []
    for host, by_host in moved.items():
        probe = probes[host]
        seen = counters.window(probe, len(by_rank), run.plan.steady_from, need(run.plan.steps, "steps"))
        name = probe.header.host if probe.header else ""
        least = sum((each for (a, b), each in edges.items() if by_rank[a] == name != by_rank[b]), Sent())
        if seen is None or not least.size:
            continue
        band = counters.band(seen, least, least, run.tolerances, "nccl", extra=0.0)
        way = {"efa": by_host.efa, "ib": by_host.ib}.get(str(finding.path), by_host.net)[0]
        rows.append(HostBytes(host=name, tx_bytes=str(way), word=band.word(way), **asdict(band)))
        if band.word(way) != "within":
            word = DISAGREE
            reasons.append(f"{host} sent {way:,} bytes over {finding.path}, {band} by the plan")
    return replace(finding, word=word, reasons=reasons, bytes=rows or None)
