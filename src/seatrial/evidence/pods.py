"""Which image the hosts of a training ran: by the `imageID` of their pods, which nothing else can stand in for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from seatrial.evidence.facts import Fact, unknown

NAME, WITNESS = "environment.image.ran", "the pods' imageID, by the Kubernetes API"
_SHOWN = 4


@dataclass(frozen=True)
class Place:
    """A host on which ranks ran, by what it calls itself and its addresses."""

    name: str
    addresses: frozenset[str]


def place(name: str, network: Mapping[str, Any]) -> Place:
    """A host by its environment layer `network`."""
    links = network.get("interfaces") or {}
    return Place(name, frozenset(str(a) for link in links.values() for a in link.get("addresses", [])))


def of(places: Iterable[Place], pods: list[dict[str, Any]]) -> dict[str, dict[str, Any] | None]:
    """The pod of each host: the one of its name, else the only one with an address of it; None where there is none."""
    found: dict[str, dict[str, Any] | None] = {}
    for host in places:
        named = [pod for pod in pods if pod["name"] == host.name]
        here = named or [pod for pod in pods if pod["ip"] and pod["ip"] in host.addresses]
        found[host.name] = here[0] if len(here) == 1 else None
    return found


def image_ran(places: Iterable[Place], pods: list[dict[str, Any]]) -> Fact:
    """`repository@sha256:…` where the pods of all hosts ran the same; else why it is not known."""
    found = of(places, pods)
    if strangers := sorted(name for name, pod in found.items() if pod is None):
        return unknown(NAME, f"host {strangers[0]} is none of the pods that the Kubernetes API lists", WITNESS)
    ran = {str(pod["name"]): str(pod["image_id"]) for pod in found.values() if pod is not None}
    if silent := sorted(name for name, image in ran.items() if "@sha256:" not in image):
        return unknown(NAME, f"pod {silent[0]} has no imageID with a digest yet", WITNESS)
    if not ran:
        return unknown(NAME, "no host of the training is known", WITNESS)
    if len({image.rpartition("@")[2] for image in ran.values()}) > 1:
        each = ", ".join(f"{name} {image}" for name, image in sorted(ran.items())[:_SHOWN])
        return unknown(NAME, f"contradiction: the pods run different images: {each}", WITNESS)
    return Fact(NAME, value=next(iter(ran.values())), witness=WITNESS)
