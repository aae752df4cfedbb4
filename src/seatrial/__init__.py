"""seatrial: each thing promised about a training run is shown, or is not."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seatrial.train.observe import observe

__version__ = "0.1.0"
__all__ = ["__version__", "observe"]

if _archive := getattr(getattr(__spec__, "loader", None), "archive", ""):  # in parts: zips that lie side by side
    from os.path import dirname
    from pkgutil import extend_path

    # No other seatrial on the path may fill a gap: one that is installed, or a folder of this name.
    __path__ = [found for found in extend_path(__path__, __name__) if dirname(dirname(found)) == dirname(_archive)]


def __getattr__(name: str) -> Any:
    """`from seatrial import observe`, loaded when it is asked for."""
    if name == "observe":
        return import_module("seatrial.train.observe").observe
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
