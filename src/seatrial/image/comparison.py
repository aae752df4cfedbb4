"""Whether two references name the same image. Only digests count: a mirror with the same digest is the same image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from seatrial.errors import InputError, clean
from seatrial.image.reference import check_platform, is_digest, parse
from seatrial.image.registry import Resolved, resolve

Image = Resolved | str  # resolved, or a bare digest


@dataclass(frozen=True)
class ImageComparison:
    """How two images relate, and why. `contains`: one is an index, and the other is a manifest of it."""

    kind: Literal["same", "contains", "different"]
    why: str


def same_image(a: Image, b: Image) -> ImageComparison:
    """How `a` relates to `b`. A bare digest can be contained, but contains nothing: it is not resolved."""
    one, other = _digest(a), _digest(b)
    if one == other:
        return ImageComparison("same", f"both are {one}")
    for outer, inner in ((a, other), (b, one)):
        if name := next((name for name, digest in _platforms(outer) if digest == inner), ""):
            return ImageComparison("contains", f"{inner} is the {name} manifest of the index {_digest(outer)}")
    shared = sorted({name for name, _ in set(_platforms(a)) & set(_platforms(b))})
    also = f"; the manifests for {', '.join(shared)} are the same" if shared else ""
    return ImageComparison("different", f"{one} is not {other}{also}")


def compare(a: str, b: str, *, platform: str = "", plain_http: bool = False) -> ImageComparison:
    """How two references (or bare digests) relate, as their registries resolve them now.

    If both state the same digest, no registry is asked. With `platform`, two indexes are the same if their manifests
    for this platform are. Raises what `resolve` raises. A wrong text raises InputError before any registry is asked.
    """
    check_platform(platform)
    named = [text if is_digest(text) else parse(text) for text in (a, b)]
    pinned = {one if isinstance(one, str) else one.digest for one in named}
    if len(pinned) == 1 and "" not in pinned:
        return ImageComparison("same", f"both are {pinned.pop()}, as they are written")
    one, other = (
        each if isinstance(each, str) else resolve(each, platform=platform, plain_http=plain_http) for each in named
    )
    whole = same_image(one, other)
    if not platform or whole.kind == "same":
        return whole
    part = same_image(_only(one, platform), _only(other, platform))
    return ImageComparison(part.kind, f"for {platform}, {part.why}")


def _only(image: Image, platform: str) -> str:
    if isinstance(image, str):
        return image
    found = image.of(platform)
    if len(found) > 1:
        expected = f"one of {', '.join(name for name, _ in found)}"
        raise InputError(f"{clean(platform)} means several platforms", field="platform", expected=expected)
    return found[0][1]


def _digest(image: Image) -> str:
    return image if isinstance(image, str) else image.digest


def _platforms(image: Image) -> tuple[tuple[str, str], ...]:
    return () if isinstance(image, str) else image.platforms
