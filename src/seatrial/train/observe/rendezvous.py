"""A rendezvous of all ranks before each collective of the observation: a rank that does not come never hangs the job.

Ranks meet through the key-value store of their process group. The last to arrive sets the verdict to `go`. A rank that
has waited too long sets it to `off`, and from then on there is no rendezvous.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import torch.distributed as dist

PATIENCE_S = 120.0
LOOK_S = 2.0


def store() -> Any:
    """The store of the default process group; None where its backend has none, such as MPI's."""
    try:
        return dist.distributed_c10d._get_default_store()
    except (AttributeError, RuntimeError):
        return None


class Rendezvous:
    """The rendezvous of one attempt. `off` says why there is none, or none any more."""

    def __init__(self, name: str, world_size: int):
        self._prefix, self._world, self.off = f"seatrial/{name}", world_size, ""
        self._store: Any = None  # torch.distributed.Store

    def open(self) -> None:
        """Finds the store, once there is a process group."""
        if self._store is None and dist.is_available() and dist.is_initialized():
            self._store = store()
            self.off = "" if self._store else "the process group has no key-value store for a rendezvous"

    def all_here(self, at: str, *, ready: bool = True) -> bool:
        """Whether every rank is at the same point and ready. All ranks get the same answer."""
        if self._store is None:
            self.off = self.off or ("" if self._world == 1 else "torch.distributed is not initialised")
            return ready and self._world == 1
        if self.off:
            return False
        key = f"{self._prefix}/{at}"
        if not ready:
            self._store.add(f"{key}/unready", 1)
        if self._store.add(f"{key}/arrived", 1) == self._world:
            self._store.compare_set(f"{key}/verdict", "", "go")  # the first verdict stands, for all ranks
        if self._verdict(key) != b"go":
            here = self._store.add(f"{key}/arrived", 0)
            self.off = f"at {at}, {here} of {self._world} ranks came within {PATIENCE_S:.0f} s, or one had left before"
            self.leave()
            return False
        return int(self._store.add(f"{key}/unready", 0)) == 0

    def _verdict(self, key: str) -> bytes:
        deadline = time.monotonic() + PATIENCE_S
        while not self._waited(f"{key}/verdict"):
            if time.monotonic() > deadline or self._store.check([f"{self._prefix}/left"]):
                self._store.compare_set(f"{key}/verdict", "", "off")
        return bytes(self._store.get(f"{key}/verdict"))

    def _waited(self, key: str) -> bool:
        try:
            self._store.wait([key], timedelta(seconds=LOOK_S))
        except dist.DistStoreError:
            return False
        return True

    def leave(self) -> None:
        """This rank comes to no further rendezvous: the others need not wait for it."""
        if self._store is not None:
            self._store.set(f"{self._prefix}/left", "1")
