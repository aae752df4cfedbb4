"""`observe()` in loops that are not seatrial's, over real gloo processes: what it sees, and that it changes nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from seatrial.events import Layout
from seatrial.events.observed import CheckpointNoted, Observing, TokensSeen, Unseen
from seatrial.events.schema import Environment, Evaluated, GradientRollCall, ProcessFailed, RollCall, Step
from tests.support import loops

pytestmark = pytest.mark.dist


@pytest.fixture(scope="module", params=["ddp", "fsdp"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, Layout]:
    """The same training in a trial and outside of one: kind, folder of what the two left, the trial's run directory."""
    folder = tmp_path_factory.mktemp(request.param)
    layout = loops.run_directory(folder)
    for name, where in (("with", layout), ("without", None)):
        assert loops.ranks(loops.train, where, folder / name, kind=request.param) == ["", ""]
    return request.param, folder, layout


def test_parameters_and_random_state_are_the_same_bits(both: tuple[str, Path, Layout]) -> None:
    _, folder, _ = both
    for rank in range(2):
        assert (folder / "with" / f"end-{rank}").read_text() == (folder / "without" / f"end-{rank}").read_text()


def test_every_rank_tells_its_steps(both: tuple[str, Path, Layout]) -> None:
    for stream in loops.streams(both[2]):
        assert stream.closed
        steps = list(stream.all(Step))
        assert [e.step for e in steps] == [1, 2, 3, 4, 5]
        assert [[n for n, _ in e.samples] for e in steps] == [[0], [1], [2], [3], [4]]
        assert {(e.tokens, e.tokens_from, e.updates, e.lr, *e.epochs) for e in steps} == {(36, "told", 1, 0.01, 1)}
        assert all(e.loss and e.data_wait_s is not None and e.duration_s > 0 for e in steps)


def test_ranks_are_counted_and_agree_on_what_they_read(both: tuple[str, Path, Layout]) -> None:
    streams = loops.streams(both[2])
    for stream in streams:
        assert [(e.at, e.step, e.counts) for e in stream.all(RollCall)] == [("start", 0, [1, 1]), ("end", 5, [1, 1])]
        assert (e := stream.last(Observing))
        assert (e.rank_from, e.world_size, e.steps) == ("torch.distributed", 2, 5)
        assert not list(stream.all(Unseen))
    digests = [{d for e in s.all(Step) for _, d in e.samples} for s in streams]
    assert not digests[0] & digests[1]


def test_every_share_is_in_the_reduced_gradient(both: tuple[str, Path, Layout]) -> None:
    for stream in loops.streams(both[2]):
        calls = list(stream.all(GradientRollCall))
        assert [e.step for e in calls] == [1, 2, 4, 5]
        for call in calls:
            assert call.coefficients
            first, second = call.coefficients
            assert first == pytest.approx(second, rel=1e-5)
            assert float(call.share) > 0
            assert float(call.residual) < 1e-6


def test_replicas_are_equal_and_shards_apart(both: tuple[str, Path, Layout]) -> None:
    kind, _, layout = both
    held = [{(e.shard, e.replica) for e in s.all(GradientRollCall)} for s in loops.streams(layout)]
    assert (held[0] == held[1]) == (kind == "ddp")
    assert {shard for seen in held for shard, _ in seen} == ({0} if kind == "ddp" else {0, 1})


def test_the_module_is_what_it_really_is(both: tuple[str, Path, Layout]) -> None:
    kind, _, layout = both
    first, second = ([e.content for e in s.all(Environment) if e.layer == "module"] for s in loops.streams(layout))
    assert not second
    assert first[0]["class"] == "torch.nn.modules.container.Sequential"
    assert first[0]["parameters"] == first[0]["trainable"] == 3216
    assert (first[0]["wrapper"], first[0]["units"], first[0]["placements"]) == (
        ("DistributedDataParallel", 0, {"whole": 9}) if kind == "ddp" else ("FSDPModule", 2, {"S(0)": 9})
    )


def unaware(rank: int, folder: Path) -> None:
    """Gives the model without its wrapper, counts no tokens, evaluates and saves; two passes over the data."""
    import torch.nn.functional as F
    from torch.nn.parallel import DistributedDataParallel

    from seatrial import observe

    net = loops.model("plain")
    wrapped = DistributedDataParallel(net)
    with observe(model=net) as trial:
        trial.evaluated("before", [1.5 + rank, 2.0], [3, 4])
        for _ in range(2):
            for batch in trial.batches(loops.batches(rank, 2)):
                ids = batch["input_ids"]
                F.cross_entropy(wrapped(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()).backward()
                trial.step()
        with trial.aside():
            trial.checkpoint(folder / "saved")
        trial.evaluated("after", [1.0, 2.0], [3, 4], ids=[10 * rank, 10 * rank + 1])


def test_what_is_not_told_is_said_to_be_unseen(tmp_path: Path) -> None:
    layout = loops.run_directory(tmp_path)
    assert loops.ranks(unaware, layout, tmp_path / "work") == ["", ""]
    first, second = loops.streams(layout)
    assert {e.subject for e in first.all(Unseen)} == {"gradients", "loss"}
    steps = list(first.all(Step))
    assert {(e.tokens, e.tokens_from, e.loss, e.lr, e.updates) for e in steps} == {(36, "input_ids", None, None, None)}
    assert [e.epochs for e in steps] == [[1], [1], [2], [2]]
    assert [n for e in steps for n, _ in e.samples] == [0, 1, 2, 3]
    assert steps[0].samples[0][1] == steps[2].samples[0][1], "the same batch has the same digest in every pass"
    module = next(e.content for e in first.all(Environment) if e.layer == "module")
    assert module["wrapper"] == "DistributedDataParallel", "seen while it ran: the model itself does not know"
    assert [(e.phase, e.items) for e in second.all(Evaluated)] == [
        ("before", [(2**32, 2.5, 3, 0), (2**32 + 1, 2.0, 4, 0)]),
        ("after", [(10, 1.0, 3, 0), (11, 2.0, 4, 0)]),
    ]
    assert (e := first.last(CheckpointNoted))
    assert (e.step, e.path) == (4, str(tmp_path / "work" / "saved"))
    assert (t := first.last(TokensSeen))
    assert t.tokens == 4 * 36


def breaks(rank: int, folder: Path) -> None:
    """Rank 1 fails in its second step; what comes out must be its own error, and the same object."""
    from seatrial import observe

    error = ValueError("no such thing\nas this")
    try:
        with observe() as trial:
            trial.step(loss=1.0, tokens=1)
            if rank == 1:
                raise error
            trial.step(loss=1.0, tokens=1)
    except ValueError as caught:
        same = caught is error and not hasattr(caught, "__notes__")
        (folder / "caught").write_text(str(same))


def test_an_error_is_recorded_and_stays_what_it_is(tmp_path: Path) -> None:
    layout = loops.run_directory(tmp_path)
    assert loops.ranks(breaks, layout, tmp_path / "work") == ["", ""]
    assert (tmp_path / "work" / "caught").read_text() == "True"
    first, second = loops.streams(layout)
    assert not second.closed
    assert (e := second.last(ProcessFailed))
    assert (e.error, e.during) == ("ValueError: no such thing", "training")
    assert first.closed, "the other rank is not held up at the end"
    assert [e.at for e in first.all(RollCall)] == ["start"]
    assert (u := next(e for e in first.all(Unseen) if e.subject == "roll_calls"))
    assert "1 of 2 ranks" in u.why


def only_rank_zero(rank: int, folder: Path) -> None:
    import torch
    import torch.distributed as dist

    from seatrial import observe
    from seatrial.train.observe import rendezvous

    rendezvous.PATIENCE_S = rendezvous.LOOK_S = 1.0
    if rank == 0:
        with observe() as trial:
            trial.step(loss=1.0, tokens=1)
    dist.all_reduce(torch.ones(1))


def test_a_rank_that_does_not_observe_holds_nobody_up(tmp_path: Path) -> None:
    layout = loops.run_directory(tmp_path)
    assert loops.ranks(only_rank_zero, layout, tmp_path / "work") == ["", ""]
    stream = loops.streams(layout)[0]
    assert stream.closed
    assert not list(stream.all(RollCall))
    assert "1 of 2 ranks" in next(e.why for e in stream.all(Unseen) if e.subject == "roll_calls")


def group_later(rank: int, folder: Path, shift: int = 0) -> None:
    """The process group is made after observe(); the environment says the ranks before, rightly or not."""
    import torch.distributed as dist

    from seatrial import observe

    os.environ.update(RANK=str((rank + shift) % 2), WORLD_SIZE="2")
    with observe() as trial:
        dist.init_process_group("gloo", rank=rank, world_size=2)
        trial.step(loss=1.0, tokens=1)


def test_a_process_group_may_come_later_if_the_rank_is_known(tmp_path: Path) -> None:
    layout = loops.run_directory(tmp_path)
    assert loops.ranks(group_later, layout, tmp_path / "work", group=False) == ["", ""]
    for stream in loops.streams(layout):
        assert [(e.at, e.counts) for e in stream.all(RollCall)] == [("start", [1, 1]), ("end", [1, 1])]
        assert (e := stream.last(Observing))
        assert (e.rank_from, e.backend) == ("environment", "")


def test_a_rank_that_turns_out_to_be_another_is_an_error(tmp_path: Path) -> None:
    layout = loops.run_directory(tmp_path)
    failed = loops.ranks(group_later, layout, tmp_path / "work", group=False, shift=1)
    for rank, text in enumerate(failed):
        assert f"RunError: observe() took this process for rank {1 - rank} of 2" in text
        assert f"later it is {rank} of 2" in text


def nameless(rank: int, folder: Path) -> None:
    from seatrial import observe

    with observe():
        pass


def test_ranks_that_nothing_tells_apart_are_an_error(tmp_path: Path) -> None:
    layout = loops.run_directory(tmp_path)
    one, other = sorted(loops.ranks(nameless, layout, tmp_path / "work", group=False), key=len)
    assert one == ""
    assert "RunError: observe(): another process is rank 0 of attempt 1, too (rank by alone)" in other


def test_processes_started_anew_are_another_attempt(tmp_path: Path) -> None:
    layout = loops.run_directory(tmp_path)
    for _ in range(2):
        assert loops.ranks(loops.train, layout, tmp_path / "work", steps=1, tell=False) == ["", ""]
    assert sorted(p.name for p in layout.events.iterdir()) == ["a1", "a1.id", "a2", "a2.id"]
    assert all(
        s.closed and s.header and s.header.attempt == a for a in (1, 2) for s in loops.streams(layout, attempt=a)
    )


def misplaced(rank: int, folder: Path, how: str) -> None:
    import torch

    from seatrial import observe

    said: list[str] = []

    def wrong(call: Any) -> None:
        try:
            call()
        except Exception as error:
            said.append(f"{type(error).__name__}: {error}")

    if how == "script":
        os.environ["SEATRIAL_ROLE"] = "script"
        wrong(observe)
    elif how == "told":
        wrong(lambda: observe(model=3))
        wrong(lambda: observe(optimizer=3))
        wrong(lambda: observe(steps=0))
        wrong(lambda: observe().step(loss=1.0))
    else:
        with observe() as trial:
            wrong(lambda: observe().__enter__())
            wrong(lambda: trial.step(loss=torch.ones(3)))
            wrong(lambda: trial.step(tokens=-1))
            wrong(lambda: trial.evaluated("before", [1.0], [1, 2]))
            wrong(lambda: trial.evaluated("before", [1.0, 2.0], [1, 2], ids=[3, 3]))
            trial.evaluated("before", [1.0], [1])
            wrong(lambda: trial.evaluated("before", [1.0], [1]))
        wrong(lambda: trial.step(loss=1.0))
    (folder / "said").write_text("\n".join(said))


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("script", ["was called in the script, not in a worker: put it into the function given to TorchTrainer"]),
        ("told", ["model=…) is int", "optimizer=…) is int", "steps=…) is 0", "outside of its block"]),
        (
            "calls",
            [
                "entered twice in one process, as rank 0 of attempt 1", "loss has shape (3,)", "tokens is -1",
                "1 nats, 2 tokens, 1 ids", "ids are repeated", '"before" (so far: before)', "outside of its block",
            ],
        ),
    ],
)  # fmt: skip
def test_a_wrong_use_is_one_clear_line(tmp_path: Path, how: str, expected: list[str]) -> None:
    layout = loops.run_directory(tmp_path)
    assert loops.ranks(misplaced, layout, tmp_path / "work", world=1, how=how) == [""]
    lines = (tmp_path / "work" / "said").read_text().splitlines()
    assert len(lines) == len(expected)
    for line, words in zip(lines, expected, strict=True):
        assert line.startswith("RunError: ")
        assert words in line
