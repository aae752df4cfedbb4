"""`observe()` as a callback of Hugging Face's Trainer."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from transformers import TrainerCallback

from seatrial.probe.processes import RUN_VARIABLE
from seatrial.train.observe.module import is_compiled
from seatrial.train.observe.observation import Observation


class ObserveCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not typed
    """`Trainer(…, callbacks=[ObserveCallback()])`. Outside a trial it does nothing.

    The Trainer tells a callback neither the batches nor the loss of a step: batches are seen as the model's forward
    gets them, and the loss is what the Trainer logs, if it logs every step. Evaluation and saving between two steps are
    no training time; neither is the fetch of the batch that follows them, which the Trainer does before it says so.
    """

    def __init__(self) -> None:
        self._trial: Observation | None = None
        self._epoch, self._logged = 0, 0
        self._hook: Any = None
        self._aside = ExitStack()

    def on_train_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        root = os.environ.get(RUN_VARIABLE)
        if not root:
            return
        model = told["model"]
        trial = Observation(
            Path(root), model=model, optimizer=told.get("optimizer"), steps=state.max_steps, by="transformers"
        )
        self._trial, self._logged = trial.__enter__(), state.global_step
        trial.not_seen("data_wait", "the Trainer fetches its batches itself")
        if is_compiled(model):
            trial.not_seen("data", "the model is compiled: a hook could change what is compiled")
        else:
            self._hook = model.register_forward_pre_hook(self._forward, with_kwargs=True)

    def _forward(self, module: Any, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        if self._trial is not None and module.training:
            self._epoch = self._epoch or self._trial.begin_pass()
            self._trial.saw({**dict(enumerate(args)), **named}, None, self._epoch)

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        self._epoch = 0

    def on_step_begin(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        self._aside.close()

    def on_step_end(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        if self._trial is not None:
            self._trial.step(held=True)
            if control.should_evaluate or control.should_save:
                self._aside.enter_context(self._trial.aside())

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **told: Any) -> None:
        """Comes after the step that it tells of."""
        if self._trial is None or not logs or "loss" not in logs:
            return
        steps, self._logged = state.global_step - self._logged, state.global_step
        if steps == 1:
            self._trial.know(loss=logs["loss"], gradient_norm=logs.get("grad_norm"))
        else:
            self._trial.not_seen("loss", f"the Trainer logs a mean over {steps} steps; logging_steps=1 shows each")

    def on_save(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        if self._trial is not None:
            self._trial.checkpoint(os.path.join(args.output_dir, f"checkpoint-{state.global_step}"))

    def on_train_end(self, args: Any, state: Any, control: Any, **told: Any) -> None:
        self._aside.close()
        if self._trial is not None:
            self._hook and self._hook.remove()
            trial, self._trial = self._trial, None
            trial.__exit__(None, None, None)
