"""What NCCL's logs say of a run, and whether the counters of its hosts bear it out.

The reader of logs is `seatrial.probe.nccl`; here it gets its second witness from the run itself: each host's counters
over the steady window, against what the plan says that the host's ranks send to others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from seatrial.events import Stream
from seatrial.events.wires import NcclLog
from seatrial.evidence import counted
from seatrial.evidence.facts import Fact, unknown
from seatrial.evidence.gather import Run
from seatrial.plan.traffic import Sent, messages, sent
from seatrial.probe.nccl.counter_snapshots import difference
from seatrial.probe.nccl.facts import Log
from seatrial.probe.nccl.findings import CORROBORATED, DISAGREE, Finding, Moved, findings
from seatrial.probe.nccl.graph import communicators
from seatrial.probe.nccl.logs import merged
from seatrial.probe.nccl.serialize import unpack
from seatrial.probe.nccl.summary import summary

NAME = "transport.nccl"
WITNESS = "NCCL's own logs, and kernel counters by the probes"


def fact(run: Run, by_rank: list[str], sharding: dict[str, Any]) -> Fact:
    """The findings, in the shape that `evidence.transport` asks for; unknown without a log."""
    probes = {event.name: stream for stream in run.probes for event in stream.all(NcclLog)}
    logs = {event.name: unpack(event.facts) for stream in run.probes for event in stream.all(NcclLog)}
    if not logs:
        return unknown(NAME, "no NCCL log: NCCL wrote none, or NCCL_DEBUG_FILE was set to another place", "host probes")
    log = merged(logs.values())
    found = communicators(log)
    of_host, twice = _probes(logs, probes)
    counters = None if twice else {h: m for h, p in of_host.items() if (m := _moved(run, p, len(by_rank))) is not None}
    answers = findings(log, found, ranks=len(by_rank), counters=counters)
    value: dict[str, Any] = {a.question: _shaped(a) for a in answers}
    if twice:
        value["internode"]["reasons"].append(f"two hosts are named {twice}")
    if not twice and counters:
        _by_plan(value["internode"], run, by_rank, sharding, of_host, counters)
    document = summary(log, found, answers)
    value |= {
        name: document[name] for name in ("versions", "providers", "protocols", "paths", "troubles", "not_evidence")
    }
    return Fact(NAME, value=value, witness=WITNESS)


def _shaped(answer: Finding) -> dict[str, Any]:
    """`saying`: the paths that whole lines state, whatever else is missing."""
    path: str | bool | None = answer.value or None
    said: list[str | bool] = [word for word in answer.value.split(" and ") if word not in ("", "p2p", "libfabric")]
    if answer.question == "gpudirect":
        path = {"true": True, "false": False}.get(answer.value, path)
        said = [path] if isinstance(path, bool) else []
    reasons = [answer.reason] if answer.reason and answer.word != CORROBORATED else []
    return {"path": path, "word": answer.word, "reasons": reasons, "saying": said, "lines": list(answer.lines)}


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
    seen = counted.window(probe, ranks, int(run.plan["steady_from"]), run.last_step)
    return difference(seen.samples[0].counters, seen.samples[-1].counters) if seen else None


def _by_plan(
    finding: dict[str, Any],
    run: Run,
    by_rank: list[str],
    sharding: dict[str, Any],
    probes: Mapping[str, Stream],
    counters: Mapping[str, Moved],
) -> None:
    """Holds what moved against what the plan has a host send. Too little is another path than the log's."""
    if finding["word"] != CORROBORATED or not sharding:
        return
    edges = sent(messages(sharding, int(run.plan["micro_batches"])), sharding["mesh"], "nccl", by_rank)
    for host, moved in counters.items():
        probe = probes[host]
        seen = counted.window(probe, len(by_rank), int(run.plan["steady_from"]), int(run.plan["steps"]))
        name = probe.header.host if probe.header else ""
        least = sum((each for (a, b), each in edges.items() if by_rank[a] == name != by_rank[b]), Sent())
        if seen is None or not least.size:
            continue
        band = counted.banded(seen, least, least, run.plan["tolerances"], "nccl", extra=0.0)
        way = {"efa": moved.efa, "ib": moved.ib}.get(str(finding["path"]), moved.net)[0]
        where = counted.word(way, band)
        finding.setdefault("bytes", []).append({"host": name, "tx_bytes": str(way), "word": where, **band})
        if where in ("still", "below", "above"):
            finding["word"] = DISAGREE
            limits = f"{int(band['at_least_bytes']):,} to {int(band['at_most_bytes']):,}"
            finding["reasons"].append(f"{host} sent {way:,} bytes over {finding['path']}, {limits} by the plan")
