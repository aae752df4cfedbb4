"""`observe()` outside a trial, and what the events of a script's own loop say when they are left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from seatrial import observe
from seatrial.events import Writer, read
from seatrial.events.observed import TokensSeen, Unseen
from seatrial.events.schema import GradientRollCall, Step
from seatrial.probe.processes import RUN_VARIABLE

pytestmark = pytest.mark.unit


def test_outside_a_trial_it_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    loader = [object(), object()]
    with observe(model=3, optimizer=4, steps=5) as trial:
        assert trial.batches(loader) is loader
        trial.step(loss=1.0, tokens=2)
        trial.evaluated("before", [1.0], [1])
        trial.checkpoint("somewhere")
        with trial.aside():
            pass
    trial.step()


def test_errors_pass_through(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    with pytest.raises(KeyError), observe():
        raise KeyError("mine")


def test_it_costs_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(RUN_VARIABLE, raising=False)
    code = "import sys; from seatrial import observe; observe(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "ray", "pydantic", "numpy"} & set(done.stdout.split())


def test_an_unknown_name_of_the_package_is_said_so() -> None:
    import seatrial

    with pytest.raises(AttributeError, match="'seatrial' has no attribute 'obsrve'"):
        seatrial.obsrve  # noqa: B018


def test_what_a_script_does_not_tell_is_absent_and_reads_back(tmp_path: Path) -> None:
    events = [
        Step(step=1, samples=[], tokens=0, tokens_from="unknown", duration_s=0.1, started_s=0.0),
        GradientRollCall(
            step=1, parameter="w", share=0.0, shard=0, replica="part:00", coefficients=[0.5, None], errors=[1e-7, None],
            residual=1e-8,
        ),
        Unseen(subject="loss", why="PASSWORD=hunter2secret"),
        TokensSeen(tokens=1, distinct=1, largest=0, coincidence=None),
    ]  # fmt: skip
    path = tmp_path / "rank-0.jsonl"
    with Writer(path, run="r", attempt=1, role="rank", rank=0, claims="c", trial="t") as writer:
        for event in events:
            writer.write(event)
    stream = read(path, "rank-0", "r")
    assert stream.closed
    step, call, unseen, tokens = stream.events[1:-1]
    assert (step, call, tokens) == (events[0], events[1], events[3])
    assert isinstance(step, Step)
    assert step.loss is step.lr is step.gradient_norm is step.data_wait_s is step.updates is None
    assert isinstance(unseen, Unseen)
    assert "hunter2" not in unseen.why
