"""The planned data made again from the source, whole and in part, against the store that ranks read."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")

from seatrial.driver.prepare import freeze, new_run
from seatrial.errors import RunError
from seatrial.events.schema import DataAudited
from seatrial.train import audit
from seatrial.train.context import Context, open_context
from seatrial.train.data import Dataset, cache
from seatrial.train.data.opening import open_store, recipe_of
from seatrial.train.data.source import content_digest, source_of
from seatrial.train.data.tokenizer import ByteTokenizer
from tests.support.data import files
from tests.support.trials import quick

pytestmark = pytest.mark.dist


def text(number: int, size: int) -> bytes:
    return np.random.default_rng(number).integers(97, 123, size, dtype=np.uint8).tobytes()


@pytest.fixture
def context(tmp_path: Path) -> Context:
    """A process that took no part, of a run that reads a tenth of its rows."""
    train = [text(n, 5 + n * 37 % 900) for n in range(400)]
    data = files(tmp_path / "data", train, [text(1000 + n, 300) for n in range(20)])
    given = {"train": data.train, "heldout": data.heldout, "heldout_windows": 8}
    trial = quick(data=given, steps=16, global_batch=16, checkpoint={"every": 16})
    layout = new_run(trial, tmp_path)
    with freeze(trial, layout):
        pass
    return open_context(
        layout.root, role="reload", attempt=1, rank=0, world_size=2, local_rank=0, device=torch.device("cpu")
    )


def opened(context: Context) -> Dataset:
    source = source_of(context.trial.training.data)
    folder = cache.ensure(context.layout.root.parent / "tokens", recipe_of(context, source, ByteTokenizer()))
    return open_store(context, folder, ByteTokenizer(), ("text", content_digest(source)), {})


def audited(context: Context, used: Dataset) -> DataAudited:
    with audit.recomputed(context, used) as data:
        return next(audit.audit(context, data))


@pytest.mark.parametrize("whole", [1 << 24, 0])
def test_the_planned_rows_are_made_again(context: Context, whole: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "WHOLE", whole)
    used = opened(context)
    assert audited(context, used) == next(audit.audit(context, used))
    with audit.recomputed(context, used) as again:
        assert np.array_equal(used.bigrams, again.bigrams)
        assert again.folder != used.folder
        zeros = [int((d.train.tokens[:] == 0).sum()) for d in (used, again)]
    assert (zeros[1] > zeros[0] * 100) == (whole == 0)  # documents that no planned row touches stay untokenised


@pytest.mark.parametrize("whole", [1 << 24, 0])
def test_a_token_of_a_planned_row_that_is_another_one(
    context: Context, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit, "WHOLE", whole)
    used = opened(context)
    assert used.folder is not None
    start, _ = used.train.span(audit.row(used.seed, 100, used.rows))  # sample 100 is of step 7
    for name, at in (("train", start + 5), ("heldout", 10)):
        stream = np.memmap(used.folder / f"{name}.tokens", dtype="u1", mode="r+")
        stream[at] = ord("A")
        stream.flush()
    seen, planned = next(audit.audit(context, used)), audited(context, used)
    assert [n for n, (a, b) in enumerate(zip(seen.steps, planned.steps, strict=True), start=1) if a != b] == [7]
    assert seen.windows != planned.windows


def test_a_length_that_is_wrong_moves_what_follows(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store says that the first document ends one token later than it does."""
    monkeypatch.setattr(audit, "WHOLE", 0)
    used = opened(context)
    assert used.folder is not None
    starts = np.memmap(used.folder / "train.starts", dtype="<i8", mode="r+")
    starts[1:200] += 1
    starts.flush()
    assert audited(context, used).steps != next(audit.audit(context, used)).steps


def test_a_source_that_changed_has_another_manifest(context: Context) -> None:
    used = opened(context)
    (Path(str(context.trial.training.data.train)) / "000.txt").write_bytes(b"something else")
    assert audited(context, used).manifest != used.manifest


def test_a_source_that_is_gone_is_one_line(context: Context) -> None:
    used = opened(context)
    for path in Path(str(context.trial.training.data.heldout)).iterdir():
        path.unlink()
    with pytest.raises(RunError, match=r"workload\.data\.heldout: .* holds no file"):
        audited(context, used)
