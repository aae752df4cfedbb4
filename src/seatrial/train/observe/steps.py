"""One event for each optimizer step, whoever's loop it is: the built-in training and `observe()` write theirs here."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from seatrial.canon import measured
from seatrial.errors import RunError
from seatrial.events.schema import Step
from seatrial.train.context import Rank
from seatrial.train.observe.gradients import GradientWatch


class Steps:
    """Writes one event a step. A step lasts from the end of the one before: the cost of observing is inside.

    Only `aside()` and the bookkeeping of a gradient roll call are left out; the event says how long they took.
    """

    def __init__(
        self,
        rank: Rank,
        optimizer: torch.optim.Optimizer | None = None,
        watch: GradientWatch | None = None,
        watched: Container[int] = (),
        at_update: bool = False,
    ):
        self.number = 0  # steps so far
        self._rank, self._optimizer = rank, optimizer
        self._watch, self._watched, self._at_update = watch, watched, at_update
        self._held: dict[str, Any] | None = None  # a step's event that waits for its loss
        self._rate: float | None = None
        self._updates = 0
        self._hooks = (
            [optimizer.register_step_pre_hook(self._before), optimizer.register_step_post_hook(self._after)]
            if optimizer is not None
            else []
        )
        self._aside = 0.0
        self._begin(time.monotonic())

    def _begin(self, now: float) -> None:
        self._mark = now
        self._samples: list[tuple[int, str]] = []
        self._epochs: list[int] = []
        self._waited: float | None = None
        self._uncounted: list[Callable[[], tuple[int, str]]] = []
        self._updates = 0
        if self._watch and self.number + 1 in self._watched:
            self._watch.start()

    def _before(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """The optimizer is about to step, at this rate. The gradient is final, unless a closure is to compute it."""
        self._rate = _rate(optimizer)
        self._updates += 1
        if self._at_update and not _closure(args, named):
            self.reduced()

    def _after(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._at_update and _closure(args, named):
            self.reduced()

    def reduced(self) -> None:
        """The gradient of this step is final. With `at_update`, the optimizer's step calls this."""
        if self._watch and self.number + 1 in self._watched:
            self._watch.reduced()

    def saw(self, samples: list[tuple[int, str]], waited: float | None, epoch: int = 0) -> None:
        """Samples handed to forward in this step, and the seconds that they were waited for, if that is known."""
        self._samples += samples
        if epoch:
            self._epochs += [epoch] * len(samples)
        if waited is not None:
            self._waited = (self._waited or 0.0) + waited

    def counts(self, tokens: Callable[[], tuple[int, str]]) -> None:
        """How to count the tokens of a batch of this step, and from what; asked if the loop does not tell them."""
        self._uncounted.append(tokens)

    def _count(self) -> tuple[int, str]:
        counted = [count() for count in self._uncounted]
        return sum(tokens for tokens, _ in counted), counted[-1][1] if counted else "unknown"

    def step(
        self,
        loss: Tensor | float | None = None,
        tokens: int | None = None,
        gradient_norm: Tensor | float | None = None,
        *,
        held: bool = False,
        **more: Any,
    ) -> None:
        """Ends an optimizer step; `more` are further fields of its event, `held` says that some come later.

        A loss on a device is read at the next step: nothing is waited for here.
        """
        loss = _scalar("loss", loss)
        away = isinstance(loss, Tensor) and loss.device.type != "cpu"
        value = loss.clone() if isinstance(loss, Tensor) and away else _number(loss)
        norm = _number(_scalar("gradient_norm", gradient_norm))
        ended = time.monotonic()
        self.flush()
        self.number += 1
        tokens, tokens_from = self._count() if tokens is None else (_whole(tokens), "told")
        fields: dict[str, Any] = {
            "step": self.number,
            "samples": self._samples,
            "epochs": self._epochs,
            "tokens": tokens,
            "tokens_from": tokens_from,
            "gradient_norm": norm,
            "lr": self._current_rate(),
            "duration_s": ended - self._mark,
            "data_wait_s": self._waited,
            "started_s": self._mark,
            "aside_s": self._aside,
            "updates": self._updates if self._optimizer is not None else None,
            "loss": value,
            **more,
        }
        self._aside = 0.0
        self._held = fields
        if not (held or away):
            self.flush()
        if self._watch and self.number in self._watched:
            self._rank.events.write(self._watch.call(self.number))
            now = time.monotonic()  # gathering and hashing are no training time
            self._aside, ended = now - ended, now
        self._begin(ended)

    def _current_rate(self) -> float | None:
        if self._optimizer is None:
            return None
        return self._rate if self._updates else _rate(self._optimizer)

    def know(self, **told: Any) -> None:
        """Fields of the step that is held."""
        if self._held is not None:
            self._held |= told

    def flush(self) -> None:
        """Writes the step that is held, if one is."""
        if self._held is not None:
            fields, self._held = self._held, None
            if isinstance(fields["loss"], Tensor):
                fields["loss"] = _number(fields["loss"])
            self._rank.events.write(Step(**fields))

    @contextmanager
    def aside(self) -> Iterator[None]:
        """A block whose time is not the step's, such as evaluation or saving."""
        self._wait_for_device()  # what the training has asked of it is the training's time
        began = time.monotonic()
        try:
            yield
        finally:
            self._wait_for_device()
            spent = time.monotonic() - began
            self._aside += spent
            self._mark += spent

    def _wait_for_device(self) -> None:
        if self._rank.device.type == "cuda":
            torch.cuda.synchronize(self._rank.device)

    def unhook(self) -> None:
        """Leaves the optimizer as it was."""
        for hook in self._hooks:
            hook.remove()


def _closure(args: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether a call of `Optimizer.step(self, closure=None)` has one."""
    return any(callable(given) for given in (*args[1:2], named.get("closure")))


def _rate(optimizer: torch.optim.Optimizer) -> float | None:
    """Of the first group; a rate that lies on a device is not waited for."""
    rate = optimizer.param_groups[0]["lr"]
    return None if isinstance(rate, Tensor) and rate.device.type != "cpu" else float(rate)


def _scalar(name: str, value: Tensor | float | None) -> Tensor | float | None:
    if not isinstance(value, Tensor):
        return value
    if value.numel() != 1:
        raise RunError(f"trial.step: {name} has shape {tuple(value.shape)}; expected one number: pass its mean")
    return value.detach()


def _number(value: Tensor | float | None) -> Any:
    return None if value is None else measured(float(value))


def _whole(tokens: int) -> int:
    whole = int(tokens)
    if whole < 0:
        raise RunError(f"trial.step: tokens is {whole}; expected how many tokens this rank trained on in the step")
    return whole
