"""`observe()` as a callback of Lightning's Trainer."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback

from seatrial.probe.processes import RUN_VARIABLE
from seatrial.train.observe.observation import Observation


class ObserveCallback(Callback):  # type: ignore[misc]  # lightning is checked without its types
    """`Trainer(…, callbacks=[ObserveCallback()])`. Outside a trial it does nothing. Validation is no training time."""

    def __init__(self) -> None:
        self._trial: Observation | None = None
        self._epoch, self._updates = 0, 0
        self._loss: Any = None
        self._aside = ExitStack()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        root = os.environ.get(RUN_VARIABLE)
        if not root:
            return
        steps = trainer.estimated_stepping_batches
        trial = Observation(
            Path(root),
            model=trainer.strategy.model,
            optimizer=trainer.optimizers[0] if len(trainer.optimizers) == 1 else None,
            steps=steps if isinstance(steps, int) and steps > 0 else None,
            by="lightning",
            strategy=type(trainer.strategy).__name__,
        )
        self._trial, self._updates = trial.__enter__(), trainer.global_step
        trial.not_seen("data_wait", "Lightning fetches its batches itself")

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self._trial is not None:
            self._epoch = self._trial.begin_pass()

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        if self._trial is not None:
            self._trial.saw(batch, None, self._epoch)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Lightning divides a micro-batch's loss by their number: their sum is the step's mean."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if loss is not None:
            self._loss = loss.detach() if self._loss is None else self._loss + loss.detach()
        if self._trial is not None and trainer.global_step > self._updates:
            self._updates = trainer.global_step
            self._trial.step(loss=self._loss)
            self._loss = None

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        if self._trial is not None:
            self._aside.enter_context(self._trial.aside())

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self._aside.close()

    def on_fit_end(self, trainer: Any, pl_module: Any) -> None:
        if self._trial is not None:
            trial, self._trial = self._trial, None
            trial.__exit__(None, None, None)

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        if self._trial is not None:
            trial, self._trial = self._trial, None
            trial.__exit__(type(exception), exception, exception.__traceback__)
