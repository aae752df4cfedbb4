"""Runs whose events are changed at will: what a process that is broken, or that lies, may leave behind.

The files of a run are held as bodies, one a line, and read as the reader reads lines. Chains are taken to be made anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from seatrial.canon import canonical, parse, plain
from seatrial.events import Stream
from seatrial.events.reader import EventLine, own, parsed_line
from seatrial.events.schema import Closed
from seatrial.evidence.run import Run, on_rosters

Body = dict[str, Any]
Path = tuple[str | int, ...]
Choose = Callable[[int], int]  # of so many things the one with this number

DEEP: Any = 0
for _ in range(90):
    DEEP = [DEEP]

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 7, 1000, 10**9, 2 * 10**9, 10**12, 2**53 - 1, 2**53, 2**62, -(2**62), 10**30),
    *(0.5, -0.5, 1e-9, 5e-324, 1e100, 1e149, 1e300, -1e300, 1.7e308),
    *("", "0", "1", "-1", "9" * 40, "9" * 5000, "text " * 5000, "\x00", "\ud800", "é", "1e5", "²", "٣"),
    *("nccl", "gloo", "rank-0", "rank-99999999999999999999", "rank-²", "fp32", "127.0.0.1:1", "unknown"),
    *("0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.999999Z", "2026-12-07"),
    *(
        [],
        {},
        [[]],
        [0],
        [""],
        ["", ""],
        [0, 0],
        [None],
        {"": ""},
        {"": {}},
        {"0": 0},
        {"unknown": "nobody asked"},
        DEEP,
    ),
    {"state": "error", "reason": "non-finite", "text": "NaN"},
)


@dataclass(frozen=True)
class Files:
    """The event files of a run by name, and what the run holds beside them."""

    base: Run
    bodies: dict[str, list[Body]]
    lines: dict[int, EventLine | None]  # of the bodies that were not changed, by identity

    def run(self) -> Run:
        """The run as evidence reads it."""
        driver = self._stream(self.base.driver.path)
        ranks, reloads, probes = on_rosters(driver, self._stream)
        return replace(self.base, driver=driver, ranks=ranks, reloads=reloads, probes=probes)

    def _stream(self, path: str) -> Stream:
        if path not in self.bodies:
            return Stream(path, (), (), "absent")
        lines: list[EventLine] = []
        ended = "open"
        for body in self.bodies[path]:
            line = self.lines[id(body)] if id(body) in self.lines else _line(body)
            if line is None:
                ended = "gap"
                break
            lines.append(line)
        if ended == "open" and lines and isinstance(lines[-1].event, Closed):
            ended = "closed"
        name = self.base.driver.header.run if self.base.driver.header else ""
        return own(Stream(path, tuple(each.event for each in lines), tuple(each.utc for each in lines), ended), name)


def files(run: Run) -> Files:
    """The files of a run as they are."""
    rosters = {"train": run.ranks, "reload": run.reloads, "probe": run.probes}
    bodies = {stream.path: _bodies(stream) for streams in rosters.values() for stream in streams}
    bodies[run.driver.path] = _bodies(run.driver)
    listed = {body["phase"] for body in bodies[run.driver.path] if body["event"] == "roster"}
    for phase, streams in rosters.items():  # a run that was made by hand has none
        if streams and phase not in listed:
            paths = [stream.path for stream in streams]
            roster = {"event": "roster", "phase": phase, "attempt": 1, "files": paths, "utc": run.driver.times[0]}
            bodies[run.driver.path].insert(1, roster)
    return Files(run, bodies, {id(body): _line(body) for each in bodies.values() for body in each})


def _bodies(stream: Stream) -> list[Body]:
    dumped = (event.model_dump(mode="json", by_alias=True) for event in stream.events)
    return [{**parse(canonical(plain(body))), "utc": utc} for body, utc in zip(dumped, stream.times, strict=True)]


def _line(body: Body) -> EventLine | None:
    return parsed_line(json.dumps({**body, "prev": "", "seq": 0, "mono": "0"}).encode())


def changed(whole: Files, choose: Choose) -> Files:
    """With one change of any sort."""
    change = (_valued, _valued, _valued, _valued, _moved, _moved, _keyless, _eventless, _doubled, _swapped, _fileless)
    return change[choose(len(change))](whole, choose)


def weakened(whole: Files, choose: Choose) -> Files:
    """With something taken away: a file, an event, or a part of one."""
    change = (_keyless, _keyless, _eventless, _eventless, _fileless)
    return change[choose(len(change))](whole, choose)


def _one(options: list[Any], choose: Choose) -> Any:
    return options[choose(len(options))]


def _place(whole: Files, choose: Choose) -> tuple[str, int]:
    """A file and the number of an event in it; each type of event is as likely as any other."""
    path = _one(sorted(path for path, bodies in whole.bodies.items() if bodies) or [""], choose)
    bodies = whole.bodies.get(path, [])
    kind = _one(list(dict.fromkeys(str(body.get("event")) for body in bodies)) or [""], choose)
    return path, _one([at for at, body in enumerate(bodies) if str(body.get("event")) == kind] or [0], choose)


def _path(value: Any, choose: Choose) -> Path:
    """A part of a value, at any depth."""
    found: list[str | int] = []
    while isinstance(value, dict | list) and value:
        inner: list[str | int] = list(value) if isinstance(value, dict) else list(range(len(value)))
        if found and choose(4) == 0:
            break
        found.append(_one(inner, choose))
        value = value[found[-1]]  # type: ignore[index]
    return tuple(found)


def _scope(whole: Files, path: str, number: int, choose: Choose) -> Iterator[tuple[str, int]]:
    """One event; or all of its type, and of its layer, in its file or in all of them."""
    reach = choose(3)
    mark = [whole.bodies[path][number].get(name) for name in ("event", "layer", "phase")]
    for other, bodies in whole.bodies.items():
        for at, body in enumerate(bodies):
            same = [body.get(name) for name in ("event", "layer", "phase")] == mark
            if (other, at) == (path, number) or (same and (reach == 2 or (reach == 1 and other == path))):
                yield other, at


def _edited(whole: Files, choose: Choose, edit: Callable[[Any, str | int], None]) -> Files:
    """With an edit of one part of an event, or of all events like it."""
    path, number = _place(whole, choose)
    if not whole.bodies.get(path):
        return whole
    place = _path(whole.bodies[path][number], choose)
    bodies = {name: list(each) for name, each in whole.bodies.items()}
    for other, at in list(_scope(whole, path, number, choose)):
        body = json.loads(json.dumps(bodies[other][at]))
        holder: Any = body
        try:
            for step in place[:-1]:
                holder = holder[step]
            if place:
                edit(holder, place[-1])
        except (KeyError, IndexError, TypeError):
            continue  # this one has no such part
        bodies[other][at] = body
    return replace(whole, bodies=bodies)


def _valued(whole: Files, choose: Choose) -> Files:
    value = _one(list(VALUES), choose)

    def edit(holder: Any, name: str | int) -> None:
        holder[name] = value

    return _edited(whole, choose, edit)


def _moved(whole: Files, choose: Choose) -> Files:
    """With a value from somewhere else in the run, or beside what is there."""
    path, number = _place(whole, choose)
    value: Any = whole.bodies[path][number] if whole.bodies.get(path) else None
    for step in _path(value, choose):
        value = value[step]
    beside = choose(4) == 0

    def edit(holder: Any, name: str | int) -> None:
        if beside and isinstance(holder, list):
            holder.append(value)
        elif beside and isinstance(holder[name], dict):
            holder[name]["more"] = value
        else:
            holder[name] = value

    return _edited(whole, choose, edit)


def _keyless(whole: Files, choose: Choose) -> Files:
    def edit(holder: Any, name: str | int) -> None:
        del holder[name]

    return _edited(whole, choose, edit)


def _listed(whole: Files, choose: Choose, edit: Callable[[list[Body], int], None]) -> Files:
    path, number = _place(whole, choose)
    bodies = dict(whole.bodies)
    if bodies.get(path):
        bodies[path] = list(bodies[path])
        edit(bodies[path], number)
    return replace(whole, bodies=bodies)


def _eventless(whole: Files, choose: Choose) -> Files:
    """Without an event, without the rest of a file from it on, or without all of its type in the run."""
    how = choose(3)
    if how == 0:
        return _listed(whole, choose, lambda each, at: each.__delitem__(at))
    if how == 1:
        return _listed(whole, choose, lambda each, at: each.__delitem__(slice(at, None)))
    path, number = _place(whole, choose)
    gone = set(_scope(whole, path, number, choose)) if whole.bodies.get(path) else set()
    left = {name: [b for at, b in enumerate(each) if (name, at) not in gone] for name, each in whole.bodies.items()}
    return replace(whole, bodies=left)


def _doubled(whole: Files, choose: Choose) -> Files:
    return _listed(whole, choose, lambda each, at: each.insert(choose(len(each) + 1), each[at]))


def _swapped(whole: Files, choose: Choose) -> Files:
    def edit(each: list[Body], at: int) -> None:
        other = choose(len(each))
        each[at], each[other] = each[other], each[at]

    return _listed(whole, choose, edit)


def _fileless(whole: Files, choose: Choose) -> Files:
    gone = _one(sorted(whole.bodies) or [""], choose)
    return replace(whole, bodies={name: each for name, each in whole.bodies.items() if name != gone})
