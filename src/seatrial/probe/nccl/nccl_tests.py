"""Results of nccl-tests: what the network can do. They are evidence of the network, and of no job's traffic."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from seatrial.errors import InputError, Place

_STARTING = re.compile(r"#\s*Collective test starting: (\w+?)(?:_perf)?\s*$")
_RANK = re.compile(r"#\s+Rank\s+(\d+).* on\s+(\S+)\s+device")
_AVERAGE = re.compile(r"# Avg bus bandwidth\s*:\s*([\d.]+)")
MAX_BYTES = 16 << 20


@dataclass
class NcclTestResult:
    """One run of a test: its rows as `(bytes, busbw in GB/s, wrong values)`, out of place."""

    file: str
    collective: str = ""  # not printed by older releases
    ranks: int = 0
    hosts: list[str] = field(default_factory=list)
    rows: list[tuple[int, float, int | None]] = field(default_factory=list)
    average: float | None = None

    def json(self) -> dict[str, Any]:
        best = max((busbw for _, busbw, _ in self.rows), default=None)
        return {**asdict(self), "best_busbw": best, "unit": "GB/s", "wrong": sum(w or 0 for _, _, w in self.rows)}


def read(path: Path) -> NcclTestResult:
    """The output of one test. Raises InputError for a file that is none."""
    try:
        text = path.read_bytes()[:MAX_BYTES].decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", place=Place(str(path)), field="nccl_tests") from None
    result, columns = NcclTestResult(str(path)), list[str]()
    for line in text.splitlines():
        words = line.lstrip("# ").split()
        if line.lstrip().startswith("#"):
            if words[:2] == ["size", "count"] and "busbw" in words:
                columns = words
            _comment(result, line)
        elif columns and words and words[0].isdigit():
            _row(result, columns, words)
    if not result.rows:
        raise InputError(
            "holds no result", place=Place(str(path)), field="nccl_tests", expected="what all_reduce_perf prints"
        )
    return result


def _comment(result: NcclTestResult, line: str) -> None:
    if found := _STARTING.match(line):
        result.collective = found[1]
    elif found := _RANK.match(line):
        result.ranks += 1
        if found[2] not in result.hosts:
            result.hosts.append(found[2])
    elif found := _AVERAGE.match(line):
        result.average = float(found[1])


def _row(result: NcclTestResult, columns: list[str], words: list[str]) -> None:
    """A row by the header's columns: `root` is not there in older releases, and `#wrong` was `error`."""
    at = columns.index("busbw")
    try:
        wrong = words[at + 1] if len(words) > at + 1 and columns[at + 1] == "#wrong" else ""
        result.rows.append((int(words[0]), float(words[at]), int(wrong) if wrong.isdigit() else None))
    except (ValueError, IndexError):
        return  # a row that was cut
