"""The rules, by what they look at. Importing a module registers its rules."""

from __future__ import annotations

from importlib import import_module

from seatrial.check.rule import RULES

MODULES = ("api", "pods", "containers", "start", "images", "resources", "alignment", "placement", "network", "efa", "memory", "storage", "jobs", "submission", "runtime_env", "gang", "lifecycle", "security", "secrets", "refused")  # fmt: skip


def load() -> None:
    """Registers every rule."""
    for name in MODULES:
        import_module(f"seatrial.check.rules.{name}")
    server = import_module("seatrial.check.server.rules")
    RULES.update(server.SERVER_RULES)  # they hit nothing without a cluster, but have names, pages and places in files
