"""Which image: references, what a registry says that they name, and whether two of them are one."""

from seatrial.image.likeness import Likeness, same_image
from seatrial.image.reference import Reference
from seatrial.image.registry import Resolved, resolve

__all__ = ["Likeness", "Reference", "Resolved", "resolve", "same_image"]
