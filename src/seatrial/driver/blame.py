"""Which rank failed first. Ray Train names the first error that it polls, often a neighbour's; the event files tell."""

from __future__ import annotations

from collections.abc import Mapping

from seatrial.events import Layout, Stream, read
from seatrial.events.schema import ProcessFailed, Step

_ECHOES = ("Connection closed by peer", "Connection reset by peer", "Broken pipe", "NCCL", "Timed out waiting")


def why_it_failed(layout: Layout, role: str, ranks: int, error: BaseException) -> str:
    """One line: the first error that is no echo of another's, else the ranks that ended without a word, else Ray's."""
    streams = [read(layout.process(1, f"{role}-{rank}"), f"{role}-{rank}", layout.root.name) for rank in range(ranks)]
    spoken = [
        (stream, event, time)
        for stream in streams
        for event, time in zip(stream.events, stream.times, strict=True)
        if isinstance(event, ProcessFailed)
    ]
    own = sorted(
        (time, stream.path, event) for stream, event, time in spoken if not any(echo in event.error for echo in _ECHOES)
    )
    if own:
        _, name, event = own[0]
        return f"{name}.jsonl: {event.error} (during {event.during})"
    silent = [s for s in streams if s.header and not s.closed and s.last(ProcessFailed) is None]
    if silent:
        said = f" (Ray: {_last_line(error)})"
        return "; ".join(f"{s.path}.jsonl ended without a word, {_reached(s)}" for s in silent[:4]) + said
    if spoken:
        stream, event, _ = spoken[0]
        return f"{stream.path}.jsonl: {event.error} (during {event.during})"
    return f"{type(error).__name__}: {_last_line(error)}"


def why_script_failed(layout: Layout, error: BaseException) -> str:
    """One line: the first error that a rank of the script has said itself, if they observe, else the script's end."""
    spoken = sorted(
        (time, stream.path, event)
        for path in layout.events.glob("a*/rank-*.jsonl")
        for stream in (read(path, path.stem, layout.root.name),)
        for event, time in zip(stream.events, stream.times, strict=True)
        if isinstance(event, ProcessFailed) and not any(echo in event.error for echo in _ECHOES)
    )
    said = str(error) or type(error).__name__
    return f"{said} ({spoken[0][1]}.jsonl: {spoken[0][2].error})" if spoken else said


def required_network(required: str | None, cause: str) -> str:
    """What to add to a cause of NCCL's where the trial pinned its network: it fails then, instead of using another."""
    if not required or "NCCL" not in cause.upper():
        return ""
    return (
        f"; cluster.require: {required} pins NCCL's network: does the pod ask for vpc.amazonaws.com/efa,"
        " and what does the plugin say in logs/nccl (`seatrial transport` reads it)?"
    )


def lost_hosts(layout: Layout, role: str, ranks: int, silent: Mapping[str, str]) -> str:
    """What to add to a cause: which hosts do not answer (names by Ray node id), and which ranks are on them."""
    streams = [read(layout.process(1, f"{role}-{rank}"), f"{role}-{rank}", layout.root.name) for rank in range(ranks)]
    said = []
    for node, name in silent.items():
        on = [str(rank) for rank, s in enumerate(streams) if s.header and s.header.host.startswith(f"{node}/")]
        where = f" (rank {', '.join(on)})" if on else ""
        said.append(f"; {name}{where} does not answer")
    return "".join(said)


def _reached(stream: Stream) -> str:
    step = stream.last(Step)
    return f"last seen at step {step.step}" if step else "before its first step"


def _last_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[-1] if lines else "no message")[:300]
