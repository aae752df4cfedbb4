"""Events about hosts and the wires between them."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field

from seatrial.events.base import Count, Decimal, Event, Number, Seconds


class HostSample(Event):
    """What the probe sees once a second: peak resident memory per process so far and anonymous memory of the whole run
    now (bytes, decimal strings), and the last step in each rank's file.

    `counters` are the kernel's, cumulative, by `net/INTERFACE`, `efa/DEVICE` and `ib/DEVICE` (whose data counters are
    in bytes here); what could not be read is absent. `connections` are the established TCP connections of each training
    process, as `[local ip:port, remote ip:port]`, written when they have changed. `carried` says, for a script whose
    messages no plan foretells, what each of them has sent so far: `[local, remote, bytes]`, every few seconds.
    """

    event: Literal["host_sample"] = "host_sample"
    steps: dict[str, Count]
    peaks_bytes: dict[str, Decimal]
    resident_bytes: Decimal
    counters: dict[str, dict[str, Decimal]] = Field(default_factory=dict)
    connections: dict[str, list[tuple[str, str]]] | None = None
    carried: dict[str, list[tuple[str, str, Decimal]]] | None = None


class Connectivity(Event):
    """One collective of the check before the training: `size_bytes` of the whole tensor, seconds of each round by the
    slowest rank, `busbw` in bytes/s by the median. Never evidence of the path that the training's bytes took."""

    event: Literal["connectivity"] = "connectivity"
    collective: Literal["all_gather", "reduce_scatter", "all_reduce"]
    size_bytes: Count
    seconds: list[Seconds]
    busbw: Number


class NcclLog(Event):
    """What one process's NCCL log says, read on the host where it was written. `kept` is a compressed copy, at most
    16 MiB of the text; `bytes` and `digest` are of all of it."""

    TEXT: ClassVar[tuple[str, ...]] = ("facts", "name")
    event: Literal["nccl_log"] = "nccl_log"
    name: str  # r<rank>.<host>.<pid>
    bytes: str
    digest: str
    kept: str
    facts: dict[str, Any]
