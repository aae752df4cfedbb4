"""Amounts and versions, read as k8s.io/apimachinery reads them."""

from __future__ import annotations

import re
from fractions import Fraction

from seatrial.kube import Json

_QUANTITY = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E|[eE][+-]?[0-9]{1,3}|)")
_SUFFIX = {
    **{f"{letter}i": Fraction(1 << 10 * power) for power, letter in enumerate("KMGTPE", 1)},
    **{letter: Fraction(1000**power) for power, letter in enumerate("kMGTPE", 1)},
    **{letter: Fraction(1, 1000**power) for power, letter in enumerate("mun", 1)},
    "": Fraction(1),
}


def quantity(text: str) -> Fraction | None:
    """`200m`, `16Gi`, `1e3` as a number, None where the text is no quantity (resource.Quantity)."""
    found = _QUANTITY.fullmatch(text) if len(text) < 64 else None
    if not found:
        return None
    number, suffix = Fraction(found.group(1)), found.group(2)
    if suffix[:1] in ("e", "E") and suffix != "E" and suffix != "Ei":
        return number * Fraction(10) ** int(suffix[1:])
    return number * _SUFFIX[suffix]


def quantities(given: Json | None) -> dict[str, Fraction]:
    """A map of amounts, such as a node's `allocatable`, without values that are no quantity."""
    read = {key: quantity(str(value)) for key, value in (given or {}).items()}
    return {key: amount for key, amount in read.items() if amount is not None}


def version(text: str) -> tuple[int, ...] | None:
    """`2.53.0` as numbers (version.ParseGeneric); None where that fails."""
    found = re.match(r"\s*v?([0-9]+(?:\.[0-9]+)+)", text)
    if not found or re.match(r"0[0-9]", found.group(1)):
        return None
    return tuple(int(part) for part in found.group(1).split("."))
