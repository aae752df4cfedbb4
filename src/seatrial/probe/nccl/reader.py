"""Logs to facts, in one pass and in bounded memory.

Most lines of a big log are connection lines, and most of those repeat the line before for another channel. So a line is
cut with `partition`, looked up by what stands behind its channel, and parsed only when that is new.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from seatrial.probe.nccl.facts import Connection, Log, Member, ProcessLog
from seatrial.probe.nccl.forms import OF_LIBFABRIC
from seatrial.probe.nccl.frame import INFO, LogWriter, Unwrapper, kind_of, pieces, writer
from seatrial.probe.nccl.paths import CHANNEL, TransportPath, transport_path
from seatrial.probe.nccl.recognise import recognise

BLOCK = 1 << 20
LONGEST_LINE = 64 << 10  # NCCL's own buffer holds 1 KiB
MAX_HEADS = 100_000  # a timestamp in front makes every head new
MAX_CONNECTIONS = 20_000  # distinct ones of a process
MAX_PROCESSES = 20_000
MAX_NOISE = 20_000
SAMPLE_LINES = 40
SPARSE = 4  # of so many lines fewer than one says anything: they are looked for, and the others never cut apart
WORDS = (b"NCCL", b"libfabric", b"FI_EFA", b"(Ray ")  # what a line has that says anything
_RING = re.compile(rb"/\d+ : [ \d]+$")  # `Channel 00/24 :  0  1  2`: rank 0 lists a ring
_BANNER = re.compile(rb"NCCL version (\d+\.\d+\.\d+)\+cuda")


class Reader:
    """Adds up the lines of several files. `read` may be called for each of them, in any order."""

    def __init__(self) -> None:
        self.log = Log()
        self._heads: dict[bytes, ProcessLog | None] = {}
        self._wrapped = False  # a part of a line has no word by which it could be looked for
        self._noise: set[bytes] = set()  # messages that are whole and say nothing that is kept

    def read(self, file: BinaryIO, name: str) -> None:
        """One file or stream. Raises OSError, and what a decompressor raises for a damaged file."""
        self.log.files.append(name)
        unwrapper: Unwrapper | None = None
        self._wrapped = False
        first = True
        for lines in self._blocks(file):
            if first:
                first, kind = False, kind_of(lines[:SAMPLE_LINES])
                unwrapper = Unwrapper(kind) if kind != "plain" else None
                self._wrapped = unwrapper is not None
            self._plain(unwrapper.lines(lines) if unwrapper else lines)
        if unwrapper:
            self.log.unfinished += unwrapper.unfinished

    def _blocks(self, file: BinaryIO) -> Iterator[list[bytes]]:
        """Whole lines, many at once; where hardly any line is NCCL's, those alone."""
        rest, first = b"", True
        while block := file.read(BLOCK):
            self.log.bytes_read += len(block)
            end = block.rfind(b"\n") + 1
            if not end:
                rest += block
                if len(rest) > LONGEST_LINE:  # no line of NCCL's: what comes until the next line break is dropped
                    rest = rest[-LONGEST_LINE:]
                continue
            text, rest = rest + block[: end - 1], block[end:]
            count = text.count(b"\n") + 1
            self.log.lines += count
            if first or self._wrapped or SPARSE * text.count(b"NCCL") > count:
                first = False
                yield text.split(b"\n")
            elif lines := _speaking(text):
                yield lines
        if rest:
            self.log.lines += 1
            # A last line without its end may have been cut anywhere.
            if INFO in rest or b"NCCL WARN" in rest:
                self.log.nccl_lines += 1
                self._torn(next((piece.writer for piece in pieces(rest)), None))

    def _plain(self, lines: Iterable[bytes]) -> None:
        heads, noise, log, count = self._heads, self._noise, self.log, 0
        for line in lines:
            head, found, message = line.partition(INFO)
            if not found:
                # Written out: this is what every line of another program costs.
                if b"NCCL" in line or b"libfabric" in line or b"FI_EFA" in line or b"(Ray " in line:
                    self._other(line)
                continue
            count += 1
            try:
                process = heads[head]
            except KeyError:
                process = self._head(head)
            if process is None:
                log.torn += 1
                continue
            if message.startswith(b"Channel "):
                # `/0 : 1[1] -> 2[2] via …` from 2.14 on, ` : 1[1010] -> …` before: the same for every channel.
                at = message.find(b"/", 8, 13)
                key = message[at:] if at > 0 else message[message.find(b" :") :]
                current = process.current
                if key in current:
                    current[key] += 1
                else:
                    self._connection(process, key, line)
            elif message not in noise:
                self._message(process, message, line)
        log.nccl_lines += count

    def _head(self, head: bytes) -> ProcessLog | None:
        if len(self._heads) >= MAX_HEADS:
            self._heads.clear()
        who = writer(head)
        if who is None and b"NCCL " in head:  # another line's anchor lies in it: interleaved, and told apart elsewhere
            return None
        found = self._heads[head] = self._process(who) if who else None
        if found:
            found.info = True
        return found

    def _process(self, who: LogWriter) -> ProcessLog | None:
        process = self.log.processes.get(who)
        if process is None and len(self.log.processes) < MAX_PROCESSES:
            process = self.log.processes[who] = ProcessLog(who)
        return process

    def _connection(self, process: ProcessLog, key: bytes, line: bytes) -> None:
        """A connection line that says something new: checked to be whole before it counts."""
        if parts_of(key):
            self._count(process, key)
        elif not _RING.match(key):
            self._pieces(line)

    def _count(self, process: ProcessLog, key: bytes) -> None:
        if key in process.current or len(process.current) < MAX_CONNECTIONS:
            process.current[key] = process.current.get(key, 0) + 1
        else:
            process.capped = True

    def _message(self, process: ProcessLog, message: bytes, line: bytes) -> None:
        if INFO in message or b" NCCL WARN " in message or b"\x1b" in message or b"[repeated " in message:
            self._pieces(line)
            return
        self._understood(process, message.rstrip(b"\r"))

    def _pieces(self, line: bytes) -> None:
        """The slow way: interleaved or de-duplicated lines, colours, warnings."""
        for piece in pieces(line):
            process = self._process(piece.writer) if piece.writer else None
            if piece.repeated:
                self.log.repeated += piece.repeated
                if process:
                    process.repeated += piece.repeated
            if process and piece.level == "INFO":
                process.info = True
            if not piece.whole or process is None:
                self._torn(piece.writer)
            elif piece.message.startswith(b"Channel "):
                channel, _, rest = piece.message.partition(b" : ")
                key = (channel[channel.find(b"/") :] if b"/" in channel else b"") + b" : " + rest
                if parts_of(key):
                    self._count(process, key)
                elif not _RING.match(key):
                    self._torn(piece.writer)
            else:
                self._understood(process, piece.message)

    def _torn(self, who: LogWriter | None) -> None:
        process = self._process(who) if who else None
        if process:
            process.torn += 1
        else:
            self.log.torn += 1

    def _other(self, line: bytes) -> None:
        """A line without the frame of an INFO line."""
        if b" NCCL WARN " in line:
            self.log.nccl_lines += 1
            self._pieces(line)
        elif b"(Ray deduplicates logs by default" in line:
            self.log.deduplicated = True
        elif found := _BANNER.search(line):
            self.log.versions.add(found[1].decode())
        elif b"NCCL INFO" in line or line.startswith(b"NCCL "):
            self.log.torn += 1
        else:
            for form in OF_LIBFABRIC:
                if form.pattern.search(line):
                    self.log.libfabric.setdefault(form.name, line.decode("utf-8", "replace").strip()[:300])

    def _understood(self, process: ProcessLog, message: bytes) -> None:
        known = recognise(message)
        if known is None or known[0].kind == "noise":
            if len(self._noise) < MAX_NOISE:
                self._noise.add(message)
            return
        form, found = known
        said = {name: (value or b"").decode("utf-8", "replace") for name, value in found.groupdict().items()}
        if form.kind == "trouble":
            process.trouble.setdefault(form.name, message.decode("utf-8", "replace")[:300])
        elif form.name in ("init", "nodes", "end"):
            self._member(process, form.name, said)
        elif form.name == "network":
            if process.members:
                process.members[-1].network = process.members[-1].network or said["name"]
            else:
                process.settings.setdefault("network before any communicator", said["name"])
        elif form.name == "env":
            process.settings.setdefault(said["name"], said["value"])
        elif form.name == "graph":
            process.link_types.add(said["intra"])
        elif form.name == "nvls":
            process.nvls = True
        else:
            _version(process, form.name, said)

    def _member(self, process: ProcessLog, form: str, said: dict[str, str]) -> None:
        rank, size = int(said["rank"]), int(said["size"])
        if rank >= size:
            process.torn += 1
            return
        member = next(
            (m for m in reversed(process.members) if (m.pointer, m.rank, m.size) == (said["comm"], rank, size)), None
        )
        starts = form == "init" and said["stage"] == "Init START"
        # A pointer is used again once its communicator is gone: a second START on it is another communicator.
        if member is None or (starts and member.started):
            member = Member(process.writer, said["comm"], rank, size)
            process.begin(member)
        if form == "nodes":
            member.nodes = int(said["nodes"])
        elif form == "init":
            member.identity = member.identity or said["id"]
            member.parent, member.color = member.parent or said["parent"], member.color or said["color"]
            member.started = member.started or starts
            member.completed = member.completed or said["stage"] == "Init COMPLETE"


def _version(process: ProcessLog, form: str, said: dict[str, str]) -> None:
    if form == "version":
        process.version = process.version or said["version"]
    elif form == "ofi-version":
        process.plugin = process.plugin or said["version"]
    elif form == "ofi-libfabric":
        process.libfabric = process.libfabric or said["version"]
    elif form == "ofi-provider":
        process.providers.append(said["name"])
        process.fabrics += [said["fabric"]] if said["fabric"] else []
    elif form == "ofi-protocol":
        process.protocols.append(said["name"])


def _speaking(text: bytes) -> list[bytes]:
    """The lines of a block that have one of `WORDS`, in order."""
    found: dict[int, bytes] = {}
    for word in WORDS:
        at = text.find(word)
        while at >= 0:
            start = text.rfind(b"\n", 0, at) + 1
            end = text.find(b"\n", at)
            end = len(text) if end < 0 else end
            found[start] = text[start:end]
            at = text.find(word, end)
    return [found[start] for start in sorted(found)]


def parts_of(key: bytes) -> tuple[re.Match[bytes], TransportPath] | None:
    """The parts of a connection line without its channel's number; None for what is not a whole one."""
    found = CHANNEL.match(key[key.find(b" : ") + 3 :].rstrip(b"\r"))
    path = transport_path(found["path"]) if found else None
    return (found, path) if found and path else None


def connections(process: ProcessLog) -> list[Connection]:
    """The distinct connections that a process states."""
    found: list[Connection] = []
    for generation, key, lines in ((g, key, n) for g, each in enumerate(process.raw) for key, n in each.items()):
        whole = parts_of(key)
        if whole is None:
            continue  # was checked when it was read
        parts, path = whole
        text = f"Channel ..{key.decode('utf-8', 'replace')}"
        found.append(
            Connection(
                process.writer, generation, int(parts["a"]), int(parts["b"]), (parts["dir"] or b"").decode(), path,
                lines, (parts["comm"] or b"").decode(), text,
            )
        )  # fmt: skip
    return found
