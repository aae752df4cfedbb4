"""`from seatrial import observe`: evidence from inside a training loop that is not seatrial's own.

Outside a trial, `observe()` gives an object that does nothing, and imports nothing heavy.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol, Self, TypeVar

from seatrial.probe.processes import RUN_VARIABLE

B = TypeVar("B")


class Observer(Protocol):
    """What a training function reports. Every rank makes the same calls in the same order."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def batches(self, loader: Iterable[B]) -> Iterable[B]:
        """The very batches of a loader of training data, one pass; how long each was waited for is measured."""
        ...

    def step(self, loss: Any = None, tokens: int | None = None, gradient_norm: Any = None) -> None:
        """Call it once for each optimizer step, after it.

        `loss` is this rank's mean, `tokens` what this rank trained on, both of this step alone.
        """
        ...

    def evaluated(
        self,
        phase: Literal["before", "after"],
        nats: Sequence[float],
        tokens: Sequence[int],
        ids: Sequence[int] | None = None,
    ) -> None:
        """This rank's own held-out items, once a phase: summed loss in nats and number of tokens of each.

        `ids` tell items apart over all ranks and name the same item before and after.
        """
        ...

    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Notes that a checkpoint of the steps so far was saved there."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """A block whose time is no training time, such as evaluation or saving."""
        ...


class Unobserved:
    """The observer outside a trial: it does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def batches(self, loader: Iterable[B]) -> Iterable[B]:
        """The loader itself."""
        return loader

    def step(self, loss: Any = None, tokens: int | None = None, gradient_norm: Any = None) -> None:
        """Nothing."""

    def evaluated(
        self,
        phase: Literal["before", "after"],
        nats: Sequence[float],
        tokens: Sequence[int],
        ids: Sequence[int] | None = None,
    ) -> None:
        """Nothing."""

    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Nothing."""

    def aside(self) -> AbstractContextManager[None]:
        """Nothing."""
        return nullcontext()


def observe(model: Any = None, optimizer: Any = None, steps: int | None = None) -> Observer:
    """Observes this rank's training; use it as `with observe(…) as trial:` in the function given to the trainer.

    `model` is the module as it is trained, in its wrapper (DistributedDataParallel, FSDP); with its `optimizer` it
    gives gradient roll calls. `steps` is how many optimizer steps are planned. Raises RunError
    where nothing is trained, as in the script itself.
    """
    root = os.environ.get(RUN_VARIABLE)
    if not root:
        return Unobserved()
    from seatrial.train.observe.observation import Observation

    return Observation(Path(root), model=model, optimizer=optimizer, steps=steps)
