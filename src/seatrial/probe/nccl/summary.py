"""A log and its findings as one JSON document."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from seatrial.probe.nccl.facts import Log
from seatrial.probe.nccl.findings import Finding
from seatrial.probe.nccl.forms import FORMS, OF_LIBFABRIC, TROUBLES
from seatrial.probe.nccl.graph import Communicator

SCHEMA = "seatrial.transport/1"
PATHS_PER_PAIR = 4


def summary(log: Log, communicators: list[Communicator], findings: list[Finding]) -> dict[str, Any]:
    """What `seatrial transport --json` prints."""
    processes = log.processes.values()
    return {
        "schema": SCHEMA,
        "files": log.files,
        "read": {"bytes": log.bytes_read, "lines": log.lines, "nccl_lines": log.nccl_lines},
        "processes": len(log.processes),
        "hosts": sorted({p.writer.host for p in processes}),
        "findings": [finding.json() for finding in findings],
        "versions": {
            "nccl": _by_version({str(p.writer): p.version for p in processes}, log.versions),
            "aws-ofi-nccl": _by_version({str(p.writer): p.plugin for p in processes}),
            "libfabric": _by_version({str(p.writer): p.libfabric for p in processes}),
        },
        "providers": dict(Counter(name for p in processes for name in dict.fromkeys(p.providers))),
        "fabrics": dict(Counter(p.fabrics[-1] for p in processes if p.fabrics)),
        "nvls_processes": sum(p.nvls for p in processes),
        "protocols": dict(Counter(p.protocols[-1] for p in processes if p.protocols)),
        "settings": _settings(log),
        "communicators": [_communicator(c) for c in communicators],
        "paths": _paths(communicators),
        "troubles": _troubles(log),
        "not_evidence": {
            "torn_lines": log.torn + sum(p.torn for p in processes),
            "left_out_by_ray": log.repeated,
            "unfinished_lines": log.unfinished,
        },
    }


def _by_version(by_process: dict[str, str], unnamed: Iterable[str] = ()) -> dict[str, list[str]]:
    """Each version with the processes that run it, where there are several; else with none named."""
    known = sorted({*by_process.values(), *unnamed} - {""})
    if len(known) < 2:
        return {version: [] for version in known}
    return {version: sorted(who for who, v in by_process.items() if v == version)[:8] for version in known}


def _settings(log: Log) -> dict[str, list[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for process in log.processes.values():
        for name, value in process.settings.items():
            if name.startswith("NCCL_"):
                found[name].add(value)
    return {name: sorted(values)[:8] for name, values in sorted(found.items())}


def _communicator(c: Communicator) -> dict[str, Any]:
    return {
        "name": c.name,
        "ranks": c.size,
        "seen": len(c.members),
        "missing": c.missing[:64],
        "nodes": c.nodes,
        "hosts": c.hosts,
        "network": sorted(c.networks),
        "connections": len(c.edges),
        "incomplete": [rank for rank, m in sorted(c.members.items()) if m.started and not m.completed][:64],
    }


def _paths(communicators: list[Communicator]) -> list[dict[str, Any]]:
    """Host to host: every path that was used, by the number of channels that the senders state."""
    found: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for c in communicators:
        for edge in c.edges:
            found[edge.source, edge.target][str(edge.path)] += max(edge.sent, edge.received)
    return [
        {"from": source or None, "to": target or None, "paths": dict(paths.most_common(PATHS_PER_PAIR))}
        for (source, target), paths in sorted(found.items())
    ]


def _troubles(log: Log) -> list[dict[str, Any]]:
    forms = {form.name: form for form in (*FORMS, *TROUBLES, *OF_LIBFABRIC)}
    count: Counter[str] = Counter()
    lines: dict[str, str] = dict(log.libfabric)
    for process in log.processes.values():
        for name, line in process.trouble.items():
            count[name] += 1
            lines.setdefault(name, f"{process.writer}: {line}")
    return [
        {
            "trouble": name,
            "processes": count[name] or None,
            "line": line,
            "meaning": forms[name].meaning if name in forms else "",
            "source": forms[name].source if name in forms else "",
        }
        for name, line in sorted(lines.items())
    ]
