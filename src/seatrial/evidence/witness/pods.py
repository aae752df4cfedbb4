"""Which image the hosts of a training ran: by the `imageID` of their pods, which nothing else can stand in for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from seatrial.events.layers import Network, PodSeen
from seatrial.evidence.facts.environment import IMAGE_RAN
from seatrial.evidence.facts.fact import Fact

WITNESS = "the pods' imageID, by the Kubernetes API"
_SHOWN = 4


@dataclass(frozen=True)
class HostAddresses:
    """A host on which ranks ran, by what it calls itself and its addresses."""

    name: str
    addresses: frozenset[str]


def place(name: str, network: Network) -> HostAddresses:
    """A host by its environment layer `network`."""
    return HostAddresses(name, frozenset(address for known in network.addresses.values() for address in known))


def of(places: Iterable[HostAddresses], pods: Sequence[PodSeen]) -> dict[str, PodSeen | None]:
    """The pod of each host: the one of its name, else the only one with an address of it; None where there is none."""
    found: dict[str, PodSeen | None] = {}
    for host in places:
        named = [pod for pod in pods if pod.name == host.name]
        here = named or [pod for pod in pods if pod.ip and pod.ip in host.addresses]
        found[host.name] = here[0] if len(here) == 1 else None
    return found


def image_ran(places: Iterable[HostAddresses], pods: Sequence[PodSeen]) -> Fact[str]:
    """`repository@sha256:…` where the pods of all hosts ran the same; else why it is not known."""
    found = of(places, pods)
    if strangers := sorted(name for name, pod in found.items() if pod is None):
        return IMAGE_RAN.unknown(f"host {strangers[0]} is none of the pods that the Kubernetes API lists", WITNESS)
    ran = {pod.name: pod.image_id for pod in found.values() if pod is not None}
    if silent := sorted(name for name, image in ran.items() if "@sha256:" not in image):
        return IMAGE_RAN.unknown(f"pod {silent[0]} has no imageID with a digest yet", WITNESS)
    if not ran:
        return IMAGE_RAN.unknown("no host of the training is known", WITNESS)
    if len({image.rpartition("@")[2] for image in ran.values()}) > 1:
        each = ", ".join(f"{name} {image}" for name, image in sorted(ran.items())[:_SHOWN])
        return IMAGE_RAN.unknown(f"contradiction: the pods run different images: {each}", WITNESS)
    return IMAGE_RAN.seen(next(iter(ran.values())), WITNESS)
