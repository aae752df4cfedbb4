"""One JSON document as marked lines of a log, for a client that sees nothing else of the cluster.

The first line has the number of pieces and the digest; each other line has one numbered piece, base64 of the compressed
document. Other lines may stand between them.
"""

from __future__ import annotations

import base64
import json
import math
import re
import zlib
from typing import Any

from seatrial.canon import canonical, plain, sha256
from seatrial.errors import EvidenceError

MARK = "seatrial-seen "
PIECE = 180  # characters: ten lines of it in a job's failure message do no harm
MOST_BYTES = 256 << 20  # of the document, so that a forged log costs no more
_HEAD = re.compile(r"(\d{1,9}) (sha256:[0-9a-f]{64})")
_PIECE = re.compile(r"(\d{1,9})/(\d{1,9}) ([A-Za-z0-9+/=]+)")


def encode(document: dict[str, Any]) -> str:
    """The lines, each with its end."""
    data = zlib.compress(canonical(plain(document)), 9)
    text = base64.b64encode(data).decode()
    pieces = math.ceil(len(text) / PIECE)
    lines = [f"{MARK}{pieces} {sha256(data)}"]
    lines += [f"{MARK}{n + 1}/{pieces} {text[n * PIECE : (n + 1) * PIECE]}" for n in range(pieces)]
    return "".join(f"{line}\n" for line in lines)


def decode(log: str) -> dict[str, Any] | None:
    """The document in a log; None if the log has none. Raises EvidenceError for a torn, altered or second one."""
    said = [line.removeprefix(MARK) for line in log.splitlines() if line.startswith(MARK)]
    if not said:
        return None
    heads = [match for line in said if (match := _HEAD.fullmatch(line))]
    pieces = [match for line in said if (match := _PIECE.fullmatch(line))]
    if len(heads) != 1:
        raise EvidenceError(f"the job's log holds the beginning of the result {len(heads)} times; expected once")
    count, digest = int(heads[0][1]), heads[0][2]
    there = {int(piece[1]) for piece in pieces}
    if len(pieces) != count or there != set(range(1, count + 1)):
        raise EvidenceError(f"the result in the job's log is incomplete: {len(there)} of {count} pieces are there")
    return _opened("".join(piece[3] for piece in sorted(pieces, key=lambda piece: int(piece[1]))), digest)


def _opened(text: str, digest: str) -> dict[str, Any]:
    try:
        data = base64.b64decode(text, validate=True)
        if sha256(data) != digest:
            raise ValueError("another digest")
        raw = zlib.decompressobj().decompress(data, MOST_BYTES)
        document = json.loads(raw)
    except (ValueError, zlib.error):
        raise EvidenceError("the result in the job's log was altered: its digest differs") from None
    if not isinstance(document, dict):
        raise EvidenceError("the result in the job's log is no JSON object")
    return document
