"""What `observe()` gives inside a trial: one rank records a training loop that is not seatrial's."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar

import torch
import torch.distributed as dist
from torch import nn

from seatrial.canon import exact, measured
from seatrial.errors import RunError
from seatrial.events import Layout
from seatrial.events.observed import CheckpointNoted, DeviceMemory, Observing, Subject, Unseen
from seatrial.events.schema import Environment, Evaluated
from seatrial.events.writer import NODE_VARIABLE
from seatrial.probe.own import seatrial_layer
from seatrial.train.context import Rank, failure, open_rank
from seatrial.train.environment import process_layers
from seatrial.train.observe import batches, identity
from seatrial.train.observe.fitted import watch_for
from seatrial.train.observe.module import Wrapping, describe
from seatrial.train.observe.proofs import roll_call
from seatrial.train.observe.rendezvous import Rendezvous
from seatrial.train.observe.steps import Steps

B = TypeVar("B")
By = Literal["observe", "lightning", "transformers"]
ITEMS_OF_A_RANK = 2**32  # held-out items without ids are numbered by rank; those of 2^21 ranks stay below 2^53

_used: list[str] = []  # what this process observes or has observed


class RollCallSteps:
    """The steps with a gradient roll call: powers of two, whose number grows slowly, and the last if it is known."""

    def __init__(self, last: int | None):
        self._last = last

    def __contains__(self, step: object) -> bool:
        return isinstance(step, int) and step > 0 and (step & (step - 1) == 0 or step == self._last)


class Observation:
    """Observes between `__enter__` and `__exit__`; `seatrial.train.observe.Observer` documents the calls."""

    def __init__(
        self, root: Path, *, model: Any, optimizer: Any, steps: int | None, by: By = "observe", strategy: str = ""
    ):
        if model is not None and not isinstance(model, nn.Module):
            raise RunError(f"observe(model=…) is {type(model).__name__}; expected the torch module that is trained")
        if steps is not None and (not isinstance(steps, int) or steps < 1):
            raise RunError(f"observe(steps=…) is {steps!r}; expected the planned number of optimizer steps")
        self._root, self._by, self._strategy, self._planned = root, by, strategy, steps
        self._model, self._optimizer = model, _innermost(optimizer)
        if optimizer is not None and self._optimizer is None and by == "observe":
            raise RunError(f"observe(optimizer=…) is {type(optimizer).__name__}; expected a torch optimizer")
        self._identity = identity.identify()
        self._tokens = batches.TokenSample()
        self._passes, self._ordinal = 0, 0
        self._evaluated: set[str] = set()
        self._unseen: set[str] = set()
        self._running: Steps | None = None
        self._started = False

    def __enter__(self) -> Self:
        self._rank = self._opened()
        self._rendezvous = Rendezvous(f"{self._root.name}/{self._rank.attempt}", self._identity.world_size)
        try:
            self._begin()
        except BaseException as failed:
            self._failed(failed, "start of the observation")
            raise
        return self

    def _begin(self) -> None:
        self._write_start()
        watch, why = watch_for(self._model, self._optimizer, self._rank, self._rendezvous)
        self.not_seen("gradients", why)
        if _group_exists():
            self._start()
        self._wrapping = Wrapping(self._model) if self._model is not None else None
        self._running = Steps(self._rank, self._optimizer, watch, RollCallSteps(self._planned), at_update=True)

    def _opened(self) -> Rank:
        """This rank's event file. Raises RunError for a second one."""
        if _used:
            raise RunError(
                f"observe() was entered twice in one process, {_used[0]}; expected one `with` around all the training"
            )
        if self._identity.node:
            os.environ[NODE_VARIABLE] = self._identity.node
        me, attempt = self._identity, 0
        try:
            attempt = identity.number_attempt(Layout(self._root), me.group)
            rank = open_rank(
                self._root,
                role="rank",
                attempt=attempt,
                rank=me.rank,
                world_size=me.world_size,
                local_rank=me.local_rank,
                device=me.device,
            )
        except FileExistsError:
            raise RunError(
                f"observe(): another process is rank {me.rank} of attempt {attempt}, too (rank by {me.source});"
                " expected to be entered after init_process_group, or with RANK and WORLD_SIZE set"
            ) from None
        except FileNotFoundError as error:
            raise RunError(f"observe(): {error.filename} is missing; expected the directory of a run there") from None
        _used.append(f"as rank {me.rank} of attempt {attempt}")
        return rank

    def _write_start(self) -> None:
        self._rank.events.write(
            Observing(
                by=self._by,
                world_size=self._identity.world_size,
                rank_from=self._identity.source,
                backend=str(dist.get_backend()) if _group_exists() else "",
                model=self._model is not None,
                optimizer=self._optimizer is not None,
                steps=self._planned,
            )
        )
        self._rank.events.write(seatrial_layer())
        for layer in process_layers(self._rank):
            self._rank.events.write(layer)

    def _start(self) -> None:
        """The roll call, once there is a process group: on entering, or with the first step."""
        self._started = True
        before, now = self._identity, identity.identify()
        if (now.rank, now.world_size, now.device) != (before.rank, before.world_size, before.device):
            raise RunError(
                f"observe() took this process for rank {before.rank} of {before.world_size} on {before.device}, and"
                f" later it is {now.rank} of {now.world_size} on {now.device}; expected to be entered after"
                " init_process_group"
            )
        self._rendezvous.open()
        self._roll_call("start")

    def _roll_call(self, at: Literal["start", "end"]) -> None:
        """All ranks call it together, or none is held up."""
        if _group_exists() and self._rendezvous.all_here(at):
            roll_call(self._rank, at, self._running.number if self._running else 0)
        else:
            self.not_seen("roll_calls", self._rendezvous.off or "torch.distributed is not initialised")

    def not_seen(self, subject: Subject, why: str) -> None:
        """Records, once, that something cannot be seen."""
        if why and subject not in self._unseen:
            self._unseen.add(subject)
            step = self._running.number if self._running else 0
            self._rank.events.write(Unseen(subject=subject, why=why, step=step))

    @property
    def _steps(self) -> Steps:
        if self._running is None:
            raise RunError("trial was used outside of its block; expected `with observe() as trial:` around it")
        return self._running

    def batches(self, loader: Iterable[B]) -> Iterable[B]:
        """One pass over a loader."""
        return ObservedLoader(loader, self)

    def begin_pass(self) -> int:
        """The number of a pass over the data that begins now, from 1."""
        self._passes += 1
        return self._passes

    def saw(self, batch: Any, waited: float | None, epoch: int) -> None:
        """A batch that is handed to forward now."""
        parts = batches.leaves(batch)
        mark, why = batches.digest(parts)
        self.not_seen("data", why)
        ids, mask = batches.tokens_of(parts)
        self._tokens.add(ids, mask)
        self._steps.saw([(self._ordinal, mark)] if mark else [], waited, epoch)
        self._steps.counts(lambda: batches.count(ids, mask))
        self._ordinal += 1

    def step(
        self, loss: Any = None, tokens: int | None = None, gradient_norm: Any = None, *, held: bool = False
    ) -> None:
        """Ends an optimizer step; `held` for what only becomes known after it."""
        steps = self._steps
        if not self._started:
            self._start()
        steps.step(loss, tokens, gradient_norm, held=held)
        if steps.number == 1:
            self._describe()
        if loss is None and not held:
            self.not_seen("loss", f"{self._by} gives none: write trial.step(loss=…)")

    def know(self, **told: Any) -> None:
        """What becomes known of the step that is held."""
        self._steps.know(**told)

    def _describe(self) -> None:
        """After the first step: the model as it really ran; and whether the data is seen at all."""
        if self._wrapping is None:
            self.not_seen("module", "observe() was not told of a model: write observe(model=…)")
        elif self._rank.rank == 0:
            content = describe(self._wrapping.model, self._wrapping.name, self._optimizer, self._strategy)
            self._rank.events.write(Environment(layer="module", content=content))
        if not self._passes:
            self.not_seen("data", "no batch was seen: write `for batch in trial.batches(loader)`")

    def evaluated(
        self,
        phase: Literal["before", "after"],
        nats: Sequence[float],
        tokens: Sequence[int],
        ids: Sequence[int] | None = None,
    ) -> None:
        """This rank's held-out items."""
        first = self._rank.rank * ITEMS_OF_A_RANK
        numbers = [int(i) for i in ids] if ids is not None else list(range(first, first + len(nats)))
        if phase not in ("before", "after") or phase in self._evaluated:
            known = ", ".join(sorted(self._evaluated)) or "none"
            raise RunError(f'trial.evaluated: "{phase}" (so far: {known}); expected "before" and "after", once each')
        if not len(nats) == len(tokens) == len(numbers):
            raise RunError(
                f"trial.evaluated: {len(nats)} nats, {len(tokens)} tokens, {len(numbers)} ids; expected as many"
            )
        if len(set(numbers)) < len(numbers) or any(number < 0 for number in numbers):
            raise RunError("trial.evaluated: ids are repeated or negative; expected a different one for each item")
        step = self._steps.number
        self._evaluated.add(phase)
        items = [(n, measured(float(x)), int(t), 0) for n, x, t in zip(numbers, nats, tokens, strict=True)]
        self._rank.events.write(Evaluated(phase=phase, step=step, items=items))

    def checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Notes that the script saved one."""
        self._rank.events.write(CheckpointNoted(step=self._steps.number, path=os.fspath(path)))

    def aside(self) -> AbstractContextManager[None]:
        """A block whose time is no training time."""
        return self._steps.aside()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        steps = self._steps
        steps.unhook()
        if self._wrapping is not None:
            self._wrapping.undo()
        try:
            if error is None:
                self._end(steps)
        except BaseException as failed:
            self._failed(failed, "end of the observation")
            raise
        finally:
            self._running = None
        if error is not None:
            self._failed(error, "training")

    def _end(self, steps: Steps) -> None:
        steps.flush()
        if not self._started:
            self._start()
        if steps.number == 0:
            self._describe()
        self._roll_call("end")
        if tokens := self._tokens.seen():
            self._rank.events.write(tokens)
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            device = torch.cuda.current_device()
            self._rank.events.write(
                DeviceMemory(
                    device=torch.cuda.get_device_name(device),
                    allocated_bytes=exact(torch.cuda.max_memory_allocated(device)),
                    reserved_bytes=exact(torch.cuda.max_memory_reserved(device)),
                )
            )
        self._rank.events.close()

    def _failed(self, error: BaseException, during: str) -> None:
        """Records the error that the training ends with. The training ends with it also where it cannot be recorded."""
        try:
            self._rank.events.write(failure(error, during))
            self._rendezvous.leave()
        except Exception as second:
            error.add_note(f"seatrial could not record this: {second}")
        finally:
            self._rank.events.abandon()


class ObservedLoader(Generic[B]):
    """One pass over a loader: its own batches, each seen as it is handed on."""

    def __init__(self, loader: Iterable[B], observation: Observation):
        self._loader, self._observation = loader, observation

    def __len__(self) -> int:
        return len(self._loader)  # type: ignore[arg-type]  # a loader without a length says so itself

    def __iter__(self) -> Iterator[B]:
        epoch = self._observation.begin_pass()
        began = time.monotonic()
        for batch in self._loader:
            self._observation.saw(batch, time.monotonic() - began, epoch)
            yield batch
            began = time.monotonic()


def _group_exists() -> bool:
    return dist.is_available() and bool(dist.is_initialized())


def _innermost(optimizer: Any) -> torch.optim.Optimizer | None:
    """The torch optimizer inside what Accelerate, Lightning or DeepSpeed put around it: the wrappers have no hooks."""
    found: torch.optim.Optimizer | None = None
    while optimizer is not None:
        if isinstance(optimizer, torch.optim.Optimizer) and hasattr(optimizer, "_optimizer_step_pre_hooks"):
            found = optimizer
        optimizer = getattr(optimizer, "optimizer", None)
    return found
