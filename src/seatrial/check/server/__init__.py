"""`seatrial check --server`: the same resources, asked of a live cluster. Only reads, and server-side dry runs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from seatrial.check.server.rules import SERVER_RULES

if TYPE_CHECKING:
    from seatrial.check.command import Checked, Settings
    from seatrial.check.server.interview import Cluster

__all__ = ["SERVER_RULES", "ask"]


def ask(checked: Checked, cluster: Cluster | None = None, *, settings: Settings | None = None) -> Checked:
    """`checked`, with what the cluster answers: the one given, else the one that `connect` finds.

    `checked` is of a run with `Settings.server`. `settings` say which rules run, else all do. Raises InputError where
    there is no cluster to ask.
    """
    asking = import_module("seatrial.check.server.asking")
    answered: Checked = asking.ask(checked, cluster, settings)
    return answered
