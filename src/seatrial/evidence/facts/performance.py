"""Facts of performance: the steady window, as a ratio of sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seatrial.evidence.facts.fact import fact
from seatrial.trial.kinds import OBSERVED, RUN, SCRIPT


@dataclass(frozen=True)
class Throughput:
    """Σ tokens / Σ seconds of the slowest rank, over the steady window."""

    tokens_per_second: float
    tokens: int
    seconds: float
    steps: int
    from_step: int


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step until its slowest rank ended it. `stalls` took over three times the median."""

    p50: float
    p95: float
    p99: float
    mean: float
    steps: int
    stalls: int
    series: list[tuple[int, float]]


@dataclass(frozen=True)
class Clocks:
    """How far the ranks' own sums of step times lie apart, as a share of the longest."""

    relative_spread: float
    tolerance: float


@dataclass(frozen=True)
class SteadyWindow:
    """The steady window in seconds: by the ranks, and between which bounds by the probes' samples."""

    ranks_s: float
    at_least_s: float
    at_most_s: float
    slack_s: float


@dataclass(frozen=True)
class Memory:
    """Bytes as decimal strings: peak resident memory of each process, and the most of the whole run at once."""

    by_process: dict[str, str]
    resident_at_once: str


@dataclass(frozen=True)
class GpuUse:
    by_host: dict[str, list[dict[str, Any]]]
    not_told: dict[str, str]


TOKENS_PER_SECOND = fact(
    "performance.tokens_per_second",
    Throughput,
    "tokens of the steady window over the time of its steps, a ratio of sums",
    unit="tokens/s",
)
STEP_TIME = fact(
    "performance.step_time", StepTime, "seconds of each step, by its slowest rank; percentiles linear", unit="s"
)
DATA_WAIT = fact(
    "performance.data_wait",
    float,
    "share of the steps' time that the slowest rank waited for data",
    unit="share of step time",
    kinds=(RUN, SCRIPT),
)
CLOCKS = fact("performance.clocks", Clocks, "monotonic clocks of all ranks, against each other")
WINDOW_BY_PROBE = fact(
    "performance.window_by_probe",
    SteadyWindow,
    "the steady window by a probe that notes once a second how far each rank has come",
    unit="s",
    kinds=(RUN, SCRIPT),
)
PEAK_MEMORY = fact(
    "performance.peak_memory",
    Memory,
    "peak resident size per process, and anonymous memory of all processes at once, by the probes",
    unit="bytes",
    kinds=(RUN, SCRIPT),
)
CHECKPOINT_TIME = fact(
    "performance.checkpoint_time",
    list[tuple[int, float]],
    "step and seconds of each checkpoint, by rank 0",
    unit="s",
    kinds=(RUN, SCRIPT),
)
GPU_USE = fact(
    "performance.gpu_use", GpuUse, "nvidia-smi on each host, once, at the end of the look", kinds=(OBSERVED,)
)
ERROR = fact("performance.error", str, "why no fact of performance could be made from the events")
