"""What a typed layer keeps of a document that one of our own writers made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seatrial.events.layers import Layer


def lost(shape: type[Layer], content: Any, *rare: str) -> list[str]:
    """Fields that evidence reads and the writer's document has not, or has with another value, by their paths.

    `rare` are fields that a sound document may lack. Raises ValidationError where the document has another shape.
    """
    return [path for path in _lost(shape.model_validate(content), content, "") if path.rpartition(".")[2] not in rare]


def _lost(found: Any, written: Any, path: str) -> Iterator[str]:
    if isinstance(found, Layer):
        for name in type(found).model_fields:
            if name in found.model_fields_set:
                yield from _lost(getattr(found, name), written[name], f"{path}.{name}")
            elif name != "unknown":
                yield f"{path}.{name}"
    elif isinstance(found, dict):
        for name in {*found, *written}:
            yield from _lost(found[name], written[name], f"{path}.{name}")
    elif isinstance(found, tuple) and len(found) == len(written):
        for number, (mine, other) in enumerate(zip(found, written, strict=True)):
            yield from _lost(mine, other, f"{path}.{number}")
    elif found != written:
        yield path
