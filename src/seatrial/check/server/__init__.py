"""`seatrial check --server`: the same resources, asked of a live cluster. Only reads, and server-side dry runs."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from seatrial.check.server.rules import SERVER_RULES

if TYPE_CHECKING:
    from seatrial.check.command import Checked, Settings
    from seatrial.check.server.interview import Cluster

__all__ = ["SERVER_RULES", "ask"]


def ask(
    checked: Checked,
    paths: tuple[Path, ...],
    cluster: Cluster | None = None,
    *,
    settings: Settings | None = None,
    stdin: BinaryIO | None = None,
) -> Checked:
    """`checked`, with what the cluster answers: the one given, else the one that `connect` finds.

    `settings` say which rules run, else all do. `stdin` is standard input from its beginning, where a path is `-`.
    Raises InputError where there is no cluster to ask.
    """
    asking = import_module("seatrial.check.server.asking")
    answered: Checked = asking.ask(checked, paths, cluster, settings, stdin)
    return answered
