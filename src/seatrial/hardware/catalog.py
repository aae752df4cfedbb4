"""One interface to all tables, for `seatrial catalog`: a whole table, one entry by name, names similar to a wrong one.

`kind` is one of KINDS.
"""

from __future__ import annotations

from difflib import get_close_matches

from seatrial.hardware.gpus import Gpu, gpu, gpus
from seatrial.hardware.images import TABLE, ImageFacts, image, images
from seatrial.hardware.instances import HYPERPOD, Instance, instance, instances
from seatrial.hardware.table import document

Entry = Instance | ImageFacts | Gpu
KINDS = ("instances", "images", "gpus")


def entries(kind: str) -> tuple[Entry, ...]:
    """A whole table."""
    if kind == "instances":
        return instances()
    return images() if kind == "images" else gpus()


def entry(kind: str, name: str) -> Entry | None:
    """One entry by name; an image by its reference, or by the tag of a Ray DLC. None if it is unknown."""
    if kind == "instances":
        return instance(name)
    if kind == "gpus":
        return gpu(name)
    return image(name) or image(f"{document(TABLE)['repository']}:{name}")


def close(kind: str, name: str) -> list[str]:
    """Up to three known names that begin with `name`, or are similar to it."""
    known = [entry.tag if isinstance(entry, ImageFacts) else entry.name for entry in entries(kind)]
    lowered = {text.lower(): text for text in known}
    wanted = name.lower()[:200].removeprefix(HYPERPOD).rpartition(":")[2]
    longer = [text for text in lowered if wanted and text.startswith(wanted)]
    alike = get_close_matches(wanted, lowered, n=3, cutoff=0.6)
    return [lowered[text] for text in dict.fromkeys([*longer, *alike])][:3]
