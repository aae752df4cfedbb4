"""A log's facts as plain JSON and back: logs are read where they were written, and only their facts travel."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter, ValidationError

from seatrial.probe.nccl.facts import Log, Member, ProcessLog
from seatrial.probe.nccl.frame import LogWriter

MOST_RANKS = 10**7  # of a communicator: the ranks that said nothing are listed one by one
_LOG = ("bytes_read", "lines", "nccl_lines", "torn", "repeated", "deduplicated", "unfinished", "files", "libfabric")
_PROCESS = (
    *("version", "plugin", "libfabric", "providers", "fabrics", "protocols", "settings", "nvls", "trouble"),
    *("torn", "repeated", "info", "capped"),
)
_READ_LOG, _READ_PROCESS = TypeAdapter(Log), TypeAdapter(ProcessLog)
_READ_WRITER, _READ_MEMBER = TypeAdapter(LogWriter), TypeAdapter(Member)


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
        log = _READ_LOG.validate_python({name: document[name] for name in (*_LOG, "versions")})
        for each in document["processes"]:
            process = _unpacked(each)
            log.processes[process.writer] = process
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"no facts of a log: {where}: {first['msg']}") from None
    except (KeyError, TypeError) as error:
        raise ValueError(f"no facts of a log: {type(error).__name__}: {error}") from None
    return log


def _unpacked(document: dict[str, Any]) -> ProcessLog:
    writer = _READ_WRITER.validate_python(document["writer"])
    members = [_READ_MEMBER.validate_python({**member, "writer": writer}) for member in document["members"]]
    if strange := [m for m in members if not 0 <= m.rank < m.size < MOST_RANKS or not 0 <= m.nodes <= m.size]:
        first = strange[0]
        raise ValueError(f"no facts of a log: rank {first.rank} of {first.size} ranks on {first.nodes} nodes")
    fields = {name: document[name] for name in (*_PROCESS, "link_types")}
    return _READ_PROCESS.validate_python(
        {**fields, "writer": writer, "members": members, "raw": document["raw"] or [{}]}
    )
