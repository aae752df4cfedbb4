"""A log's facts as plain JSON and back: logs are read where they were written, and only their facts travel."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from seatrial.probe.nccl.facts import Log, Member, ProcessLog
from seatrial.probe.nccl.frame import LogWriter

_LOG = ("bytes_read", "lines", "nccl_lines", "torn", "repeated", "deduplicated", "unfinished", "files", "libfabric")
_PROCESS = (
    *("version", "plugin", "libfabric", "providers", "fabrics", "protocols", "settings", "nvls", "trouble"),
    *("torn", "repeated", "info", "capped"),
)


def pack(log: Log) -> dict[str, Any]:
    """JSON: text, whole numbers, lists and maps. Undecodable bytes are replaced: no line that counts has any."""
    return {
        **{name: getattr(log, name) for name in _LOG},
        "versions": sorted(log.versions),
        "processes": [_packed(process) for process in log.processes.values()],
    }


def _packed(process: ProcessLog) -> dict[str, Any]:
    return {
        **{name: getattr(process, name) for name in _PROCESS},
        "writer": asdict(process.writer),
        "link_types": sorted(process.link_types),
        "members": [{k: v for k, v in asdict(member).items() if k != "writer"} for member in process.members],
        "raw": [{key.decode("utf-8", "replace"): count for key, count in each.items()} for each in process.raw],
    }


def unpack(document: dict[str, Any]) -> Log:
    """The log again. Raises ValueError for what `pack` did not make."""
    try:
        log = Log(**{name: document[name] for name in _LOG}, versions=set(document["versions"]))
        for each in document["processes"]:
            process = _unpacked(each)
            log.processes[process.writer] = process
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no facts of a log: {type(error).__name__}: {error}") from None
    return log


def _unpacked(document: dict[str, Any]) -> ProcessLog:
    writer = LogWriter(**document["writer"])
    known = {field.name for field in fields(Member)}
    return ProcessLog(
        writer,
        members=[Member(writer, **{k: v for k, v in m.items() if k in known}) for m in document["members"]],
        raw=[{key.encode(): int(count) for key, count in each.items()} for each in document["raw"]] or [{}],
        link_types=set(document["link_types"]),
        **{name: document[name] for name in _PROCESS},
    )
