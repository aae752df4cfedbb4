"""The rules, by what they look at. Importing a module registers its rules."""

from __future__ import annotations

from importlib import import_module

from seatrial.check import server

MODULES = (
    "api",
    "groups",
    "pods",
    "containers",
    "start",
    "images",
    "resources",
    "ray_resources",
    "alignment",
    "placement",
    "disruption",
    "network",
    "ports",
    "efa",
    "memory",
    "storage",
    "disks",
    "jobs",
    "entrypoint",
    "submission",
    "runtime_env",
    "packages",
    "gang",
    "autoscaler",
    "lifecycle",
    "security",
    "secrets",
    "refused",
)


def load() -> None:
    """Registers every rule."""
    for name in MODULES:
        import_module(f"seatrial.check.rules.{name}")
    for name in ("structure", "suppression"):  # they find the hits of a few rules themselves
        import_module(f"seatrial.check.{name}")
    for name in server.MODULES:  # they hit nothing without a cluster, but have names, pages and places in files
        import_module(f"seatrial.check.server.{name}")
