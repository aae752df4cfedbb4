"""A sealed run as lines of a log: what arrives is what was sealed, or it is said what is wrong with it."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import pytest

from seatrial.canon import canonical, sha256
from seatrial.driver import deliver
from seatrial.driver.deliver import MARK, Delivery, find, lines, pack
from seatrial.driver.prepare import freeze, new_run
from seatrial.errors import EvidenceError
from seatrial.events import Layout
from seatrial.events.schema import PhaseEnded, PhaseStarted
from seatrial.record import seal, verify
from seatrial.record.verify import COLLECTED
from tests.support.trials import tiny

pytestmark = pytest.mark.unit


def sealed(storage: Path, logs: dict[str, bytes]) -> Layout:
    """A run that failed before any rank started, with logs, and a checkpoint whose shard stays where it is."""
    layout = new_run(tiny(), storage)
    with freeze(tiny(), layout) as events:
        events.write(PhaseStarted(phase="train", attempt=1))
        events.write(PhaseEnded(phase="train", attempt=1, status="failed", cause="no worker started"))
    layout.reserve.unlink()
    for name, data in logs.items():
        (layout.logs / name).write_bytes(data)
    step = layout.checkpoints / "step-000002-a1"
    step.mkdir()
    (step / "shard").write_bytes(b"weights")
    manifest = {"shards": [{"path": "shard", "size": 7, "sha256": sha256(b"weights")}]}
    (step / "manifest.json").write_bytes(canonical(manifest))
    seal(layout.root)
    return layout


@pytest.fixture(scope="module")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    return sealed(tmp_path_factory.mktemp("storage"), {"worker.log": bytes(range(256)) * 40})


@pytest.fixture(scope="module")
def told(layout: Layout) -> list[str]:
    return list(lines(pack(layout.root)))


def log(told: list[str]) -> str:
    """As Ray's job manager keeps it: other lines before, between and after."""
    return "\n".join(["Running entrypoint", *told[:3], "(raylet) a worker died", "", *told[3:], "seatrial: sealed"])


def unpacked(delivery: Delivery, folder: Path) -> Path:
    delivery.unpack(folder)
    (folder / COLLECTED).write_text(json.dumps({"left_out": delivery.head.left_out}))
    return folder / delivery.head.file


def test_what_arrives_is_what_was_sealed(layout: Layout, told: list[str], tmp_path: Path) -> None:
    delivery = find(log(told))
    assert delivery
    path = unpacked(delivery, tmp_path)
    assert path.read_bytes() == layout.record.read_bytes()
    result = verify(path, expect=delivery.head.record)
    assert result.problems == []
    assert any("1 files stayed on the cluster, checkpoints/step-000002-a1/shard" in note for note in result.notes)
    assert not (tmp_path / "checkpoints/step-000002-a1/shard").exists()


def test_lines_are_short_and_told_from_others(told: list[str]) -> None:
    assert all(deliver.is_part(line) for line in told)
    assert max(map(len, told[1:])) < 220
    assert not deliver.is_part("seatrial: record sha256:0 in /x")


def test_a_line_that_is_missing_is_noticed(told: list[str]) -> None:
    for at in range(1, len(told)):
        with pytest.raises(EvidenceError, match=rf"is torn: piece {at}/\d+ is missing"):
            find(log(told[:at] + told[at + 1 :]))
    with pytest.raises(EvidenceError, match="without its first line"):
        find(log(told[1:]))


def test_a_log_that_ends_within_a_delivery_is_noticed(told: list[str]) -> None:
    text = "\n".join(told)
    for end in range(len(MARK), len(text), 97):
        with pytest.raises(EvidenceError):
            find(text[:end])


def test_what_is_altered_is_noticed(told: list[str]) -> None:
    middle = len(told) // 2
    swapped = [*told[:middle], told[middle + 1], told[middle], *told[middle + 2 :]]
    with pytest.raises(EvidenceError, match="out of order"):
        find(log(swapped))
    changed = told[middle][:-1] + ("A" if told[middle][-1] != "A" else "B")
    with pytest.raises(EvidenceError, match="is altered"):
        find(log([*told[:middle], changed, *told[middle + 1 :]]))
    with pytest.raises(EvidenceError, match="is altered"):
        find(log([*told[:middle], told[middle][:-1] + "§", *told[middle + 1 :]]))


@pytest.mark.parametrize(
    "head", ["{", "{}", '{"schema":"seatrial.delivery/2"}', '{"schema":"seatrial.delivery/1","run":1}']
)
def test_a_first_line_that_is_none(told: list[str], head: str) -> None:
    with pytest.raises(EvidenceError):
        find(log([MARK + head, *told[1:]]))


def test_a_first_line_of_wrong_kinds(told: list[str]) -> None:
    head = json.loads(told[0].removeprefix(MARK))
    with pytest.raises(EvidenceError, match="states no valid pieces"):
        find(log([MARK + json.dumps({**head, "pieces": "2"}), *told[1:]]))


@pytest.mark.parametrize("name", ["", "..", "../elsewhere", "/etc/cron.d/x", "a/b"])
@pytest.mark.parametrize("field", ["run", "file"])
def test_a_name_that_leads_elsewhere_is_refused(told: list[str], field: str, name: str) -> None:
    head = json.loads(told[0].removeprefix(MARK)) | {field: name}
    with pytest.raises(EvidenceError, match="expected a plain file name"):
        find(log([MARK + json.dumps(head), *told[1:]]))


def test_a_log_without_a_delivery() -> None:
    assert find("") is None
    assert find("seatrial: sealed /x/record.json\n") is None


def test_twice_the_same_is_once_and_two_different_are_none(told: list[str], tmp_path: Path) -> None:
    once, other = log(told), sealed(tmp_path, {})
    twice = find(f"{once}\n{once}")
    assert twice == find(once)
    assert find(f"{chr(10).join(told[:4])}\n{once}") == find(once)  # a torn one before a whole one
    with pytest.raises(EvidenceError, match="2 different records"):
        find("\n".join([once, *lines(pack(other.root))]))


def test_what_a_limit_leaves_no_room_for_is_named(tmp_path: Path) -> None:
    import random

    noise = random.Random(1).randbytes(300_000)
    layout = sealed(tmp_path / "storage", {"big.log": noise, "small.log": b"short\n"})
    delivery = find("\n".join(lines(pack(layout.root, limit=100_000))))
    assert delivery
    assert delivery.head.size <= 100_000
    assert delivery.head.left_out == ["checkpoints/step-000002-a1/shard", "logs/big.log"]
    path = unpacked(delivery, tmp_path / "copy")
    assert verify(path).problems == []


def test_only_what_a_copy_says_it_lacks_may_be_missing(told: list[str], tmp_path: Path) -> None:
    delivery = find(log(told))
    assert delivery
    path = unpacked(delivery, tmp_path)
    (tmp_path / "logs/worker.log").unlink()
    assert verify(path).problems == ["logs/worker.log: missing"]
    (tmp_path / "checkpoints/step-000002-a1/shard").write_bytes(b"otherwise")
    assert verify(path).problems == ["logs/worker.log: missing", "checkpoints/step-000002-a1/shard: changed"]
    (tmp_path / COLLECTED).unlink()
    (tmp_path / "checkpoints/step-000002-a1/shard").unlink()
    assert "checkpoints/step-000002-a1/shard: missing" in verify(path).problems


@pytest.mark.parametrize("name", ["../outside", "/etc/outside", "a/../../outside"])
def test_a_path_that_leads_elsewhere_writes_nothing(told: list[str], name: str, tmp_path: Path) -> None:
    whole = find(log(told))
    assert whole
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("inside", b"")
        archive.writestr(name, b"")
    folder = tmp_path / "copy"
    folder.mkdir()
    with pytest.raises(EvidenceError, match="nothing was written"):
        Delivery(whole.head, buffer.getvalue()).unpack(folder)
    assert list(tmp_path.rglob("*")) == [folder]
