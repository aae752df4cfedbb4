"""The loop over real gloo processes: strategies agree, data order is free of world size, resumed state is whole."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from seatrial.driver.finish import seal_run
from seatrial.events import Layout, read
from seatrial.events.schema import ProcessFailed, Step
from seatrial.record import find, verify
from tests.support import gloo
from tests.support.trials import quick

pytestmark = pytest.mark.dist


def losses(layout: Layout, world: int) -> list[float]:
    """Mean loss over ranks per step."""
    streams = [read(layout.process(1, f"rank-{r}"), f"rank-{r}", layout.root.name) for r in range(world)]
    steps = [list(s.all(Step)) for s in streams]
    return [sum(float(e.loss) for e in events) / world for events in zip(*steps, strict=True)]  # type: ignore[arg-type]


def chain(record: dict[str, Any]) -> str:
    return str(record["evidence"]["execution"]["execution.data_order"]["value"]["executed"])


@pytest.fixture(scope="module")
def by_strategy(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[float], dict[str, Any]]]:
    """Ten steps under each strategy and world size, the same global batch."""
    found = {}
    for name, world, changes in (
        ("fsdp-2", 2, {"strategy": "fsdp"}),
        ("fsdp-grad-op-2", 2, {"strategy": "fsdp-grad-op"}),
        ("ddp-2", 2, {"strategy": "ddp"}),
        ("fsdp-1", 1, {"strategy": "fsdp"}),
        ("hsdp-4", 4, {"strategy": "hsdp", "shard_degree": 2}),
    ):
        trial = quick({"scaling": {"num_workers": world}}, steps=10, checkpoint={"every": 10}, **changes)
        layout = gloo.run(trial, tmp_path_factory.mktemp(name))
        found[name] = (losses(layout, world), seal_run(layout)[1])
    return found


def test_strategies_and_world_sizes_train_the_same(by_strategy: dict[str, tuple[list[float], dict[str, Any]]]) -> None:
    reference = by_strategy["fsdp-2"][0]
    for name, (values, _) in by_strategy.items():
        assert values == pytest.approx(reference, rel=2e-4), name


def test_data_order_is_free_of_world_size(by_strategy: dict[str, tuple[list[float], dict[str, Any]]]) -> None:
    assert len({chain(record) for _, record in by_strategy.values()}) == 1


def test_every_strategy_supports_execution_and_reload(
    by_strategy: dict[str, tuple[list[float], dict[str, Any]]],
) -> None:
    for name, (_, record) in by_strategy.items():
        verdicts = {
            v["claim"]: (v["verdict"], v["seen"]) for v in record["verdicts"] if not v["claim"].startswith("learning")
        }
        assert {v for v, _ in verdicts.values()} == {"supported"}, (name, verdicts)


def test_replicas_are_compared_where_there_are_some(by_strategy: dict[str, tuple[list[float], dict[str, Any]]]) -> None:
    states = {
        name: record["evidence"]["execution"]["execution.replicas"]["state"]
        for name, (_, record) in by_strategy.items()
    }
    assert states == {
        "fsdp-2": "not-applicable",
        "fsdp-grad-op-2": "not-applicable",
        "fsdp-1": "not-applicable",
        "ddp-2": "value",
        "hsdp-4": "value",
    }


def test_a_flipped_byte_in_a_shard_is_found_by_deep_alone(clean_run: Path, tmp_path: Path) -> None:
    import shutil

    root = tmp_path / clean_run.name
    shutil.copytree(clean_run, root)
    seal_run(Layout(root))
    shard = next(root.glob("checkpoints/step-000040-a1/__1_*.distcp"))
    data = bytearray(shard.read_bytes())
    data[len(data) // 2] ^= 1
    shard.write_bytes(data)
    assert verify(find(str(root))).problems == []
    assert verify(find(str(root)), deep=True).problems == [f"{shard.relative_to(root)}: changed"]


def test_data_that_ranks_do_not_share(tmp_path: Path) -> None:
    """Rank 1 has one more line in its held-out file: the run stops before step 1 and says why."""
    for name in ("train", "heldout"):
        (tmp_path / f"{name}.txt").write_text(f"{name} of the text\n" * 400)
    trial = quick(
        data={"train": str(tmp_path / "train.txt"), "heldout": str(tmp_path / "heldout.txt"), "heldout_windows": 4}
    )
    layout = gloo.run(trial, tmp_path / "runs", own_data_on_rank_1)
    failed = read(layout.process(1, "rank-0"), "rank-0", layout.root.name).last(ProcessFailed)
    assert failed is not None
    assert "ranks have different data" in failed.error


def own_data_on_rank_1() -> None:
    """Every rank is a host of its own, and rank 1's has another file under the same path."""
    import torch.distributed as dist

    from seatrial.train.context import Context
    from seatrial.train.data import opening

    Context.is_local_rank_zero = True  # type: ignore[assignment,method-assign]
    source_of = opening.source_of
    if dist.get_rank() == 1:

        def other(data: Any) -> Any:
            copy = Path(data.heldout).with_name("other.txt")
            copy.write_text(Path(data.heldout).read_text() + "one more line\n")
            return source_of(data.model_copy(update={"heldout": str(copy)}))

        opening.source_of = other


@pytest.mark.slow
def test_a_storage_that_fills_up_is_sealed(tmp_path: Path) -> None:
    """A file system with room for the reserve and the start of a run, not for its checkpoint."""
    mount = tmp_path / "small"
    mount.mkdir()
    if subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=10800k", "tmpfs", str(mount)], capture_output=True, check=False
    ).returncode:
        pytest.skip("mounting a tmpfs needs root")
    try:
        layout = gloo.run(quick(steps=200, checkpoint={"every": 100}), mount)
        _, record = seal_run(layout)
        assert record["exit_code"] == 4
        assert (
            "No space left" in str(record["evidence"]["execution"]["execution.failures"]["value"])
            or "failed" in record["ended_early"]
        )
        assert record["verdicts"][0]["verdict"] == "refuted"
        assert verify(find(str(layout.root))).problems == []
    finally:
        subprocess.run(["umount", "-l", str(mount)], check=True)
