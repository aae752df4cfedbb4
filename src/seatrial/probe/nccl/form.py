"""What a line form is."""

from __future__ import annotations

import re
from dataclasses import dataclass

NCCL = "github.com/NVIDIA/nccl: src/"
OFI = "github.com/aws/aws-ofi-nccl: src/"
LIBFABRIC = "github.com/ofiwg/libfabric: "


@dataclass(frozen=True)
class Form:
    """One form of a line. `kind` is `fact`, `trouble` (it matters, and `meaning` says why) or `noise`."""

    name: str
    pattern: re.Pattern[bytes]
    versions: str
    meaning: str
    source: str
    kind: str = "fact"


def form(name: str, pattern: str, versions: str, meaning: str, source: str, kind: str = "fact") -> Form:
    return Form(name, re.compile(pattern.encode()), versions, meaning, source, kind)
