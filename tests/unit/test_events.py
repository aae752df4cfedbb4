"""What a process wrote is what a reader believes, and no change to a file adds to it."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.canon import plain
from seatrial.events import Layout, Redactor, Stream, Writer, read
from seatrial.events.base import Event
from seatrial.events.layout import is_unlisted_by_design
from seatrial.events.schema import Closed, Environment, Evaluated, NonFinite, Opened, ProcessFailed, RollCall, Step

pytestmark = pytest.mark.unit

RUN = "20260101-000000-check"


def writer(path: Path, run: str = RUN) -> Writer:
    return Writer(path, run=run, attempt=1, role="rank", rank=0, claims="sha256:c", trial="sha256:t")


def step(number: int, loss: float = 2.5) -> Step:
    return Step(step=number, samples=[(number - 1, "0f" * 8)], tokens=64, loss=loss, gradient_norm=1.0, lr=0.01,
                duration_s=0.1, data_wait_s=0.0, started_s=float(number))  # fmt: skip


def written(path: Path, *events: Event) -> Stream:
    """The stream read back from a file with these events and a normal end."""
    with writer(path) as file:
        for event in events:
            file.write(event)
    return read(path, path.name, RUN)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def whole(folder: Path) -> tuple[bytes, Stream]:
    """A file of a header, a roll call, four steps and a normal end, with its stream."""
    path = folder / "whole.jsonl"
    stream = written(path, RollCall(at="start", step=0, counts=[1, 1], claims="sha256:c"), *map(step, range(1, 5)))
    return path.read_bytes(), stream


def reread(folder: Path, content: bytes) -> Stream:
    path = folder / "changed.jsonl"
    path.write_bytes(content)
    return read(path, "rank-0", RUN)


def test_events_come_back_as_they_were_written(whole):
    _, stream = whole
    assert stream.ended == "closed"
    assert stream.why_incomplete() == ""
    assert [type(e) for e in stream.events] == [Opened, RollCall, Step, Step, Step, Step, Closed]
    assert list(stream.all(Step)) == [step(n) for n in range(1, 5)]
    assert stream.last(Step) == step(4)
    assert stream.last(ProcessFailed) is None
    assert stream.header is not None
    assert (stream.header.run, stream.header.rank, stream.header.claims) == (RUN, 0, "sha256:c")
    assert len(stream.times) == len(stream.events)
    assert list(stream.times) == sorted(stream.times)


def test_each_line_is_canonical_numbered_and_chained(whole):
    content, _ = whole
    lines = [json.loads(line) for line in content.splitlines()]
    assert lines
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert len({line["prev"] for line in lines}) == len(lines)
    assert all(list(line) == sorted(line) for line in lines)


def swapped(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], lines[4], lines[3], *lines[5:]]


@pytest.mark.parametrize(
    ("change", "ended", "kept"),
    [
        (lambda ls: ls[:-1], "open", 6),
        (lambda ls: [*ls[:-1], ls[-1][:-9]], "torn", 6),
        (lambda ls: [*ls[:-1], ls[-1][:-1]], "torn", 6),
        (lambda ls: [*ls, b'{"event":'], "torn", 7),
        (lambda ls: ls[:3] + ls[4:], "gap", 3),
        (swapped, "gap", 3),
        (lambda ls: [*ls[:3], ls[2], *ls[3:]], "gap", 3),
        (lambda ls: [*ls[:3], b"\n", *ls[3:]], "gap", 3),
        (lambda ls: [*ls[:3], b"[" * 100_000 + b"\n", *ls[3:]], "gap", 3),
        (lambda ls: [*ls[:3], ls[3].replace(b'"event":"step"', b'"event":"stop"'), *ls[4:]], "gap", 3),
        (lambda ls: ls[1:], "unreadable", 0),
        (lambda ls: [ls[0][:-2]], "unreadable", 0),
        (lambda ls: [], "unreadable", 0),
        (lambda ls: [b"\x00\xff binary\n"], "unreadable", 0),
    ],
    ids=["without its last line", "torn in the last line", "without the last newline", "torn after the end",
         "a line removed", "two lines swapped", "a line repeated", "an empty line", "a line nested too deep",
         "an unknown event", "without the header", "torn in the header", "empty", "binary"],
)  # fmt: skip
def test_how_far_a_damaged_file_is_believed(folder, whole, change: Callable[[list[bytes]], list[bytes]], ended, kept):
    content, original = whole
    stream = reread(folder, b"".join(change(content.splitlines(keepends=True))))
    assert (stream.ended, len(stream.events)) == (ended, kept)
    assert stream.events == original.events[:kept]
    assert stream.times == original.times[:kept]
    assert not stream.closed


def test_a_missing_file_a_folder_and_a_file_of_another_run(folder, whole):
    content, _ = whole
    assert read(folder / "none.jsonl", "rank-1", RUN).ended == "absent"
    assert read(folder, "rank-1", RUN).ended == "unreadable"
    (folder / "other.jsonl").write_bytes(content)
    foreign = read(folder / "other.jsonl", "rank-1", "another-run")
    assert (foreign.ended, foreign.events) == ("foreign", ())
    assert foreign.why_incomplete() == "rank-1 is foreign"


def test_a_second_header_makes_a_file_unreadable(folder):
    path = folder / "second-header.jsonl"
    with writer(path) as file:
        file.write(step(1))
        header = read(path, "rank-0", RUN).header
        assert header is not None
        file.write(header)
        file.write(step(2))
    stream = read(path, "rank-0", RUN)
    assert (stream.ended, stream.events) == ("unreadable", ())


def test_where_evidence_ends_is_said_in_words(folder, whole):
    lines = whole[0].splitlines(keepends=True)
    assert reread(folder, b"".join(lines[:5])).why_incomplete() == "evidence of rank-0 ends at step 3 (open)"
    assert reread(folder, b"".join(lines[:2])).why_incomplete() == "evidence of rank-0 ends before step 1 (open)"
    assert reread(folder, b"".join(lines[:4])[:-4]).why_incomplete() == "evidence of rank-0 ends at step 1 (torn)"


@given(data=st.data())
def test_any_truncation_leaves_a_prefix(folder, whole, data):
    content, original = whole
    cut = data.draw(st.integers(0, len(content) - 1))
    stream = reread(folder, content[:cut])
    assert stream.events == original.events[: len(stream.events)]
    assert len(stream.events) <= content[:cut].count(b"\n")
    assert not stream.closed


@given(data=st.data())
def test_any_removed_line_leaves_a_prefix(folder, whole, data):
    content, original = whole
    lines = content.splitlines(keepends=True)
    gone = data.draw(st.integers(0, len(lines) - 1))
    stream = reread(folder, b"".join(lines[:gone] + lines[gone + 1 :]))
    assert stream.events == original.events[:gone]
    assert not stream.closed


@given(data=st.data())
def test_any_changed_byte_is_noticed_by_the_next_line(folder, whole, data):
    content, original = whole
    at = data.draw(st.integers(0, len(content) - len(content.splitlines()[-1]) - 2))
    byte = data.draw(st.integers(0, 255).filter(lambda b: b != content[at]))
    stream = reread(folder, content[:at] + bytes([byte]) + content[at + 1 :])
    line = content[:at].count(b"\n")
    assert len(stream.events) <= line + 1
    assert stream.events[:line] == original.events[: min(line, len(stream.events))]
    assert not stream.closed


any_text = st.text(st.characters(exclude_categories=()), max_size=10)
facts = st.dictionaries(
    any_text,
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | any_text | st.just(10**400),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(any_text, inner, max_size=3),
        max_leaves=6,
    ),
    max_size=4,
)


@given(facts)
def test_all_facts_survive_in_their_plain_form(folder, content: dict[str, Any]):
    path = folder / "facts.jsonl"
    path.unlink(missing_ok=True)
    stream = written(path, Environment(layer="any", content=content))
    assert stream.closed
    assert stream.events[1] == Environment(layer="any", content=Redactor({}).value(plain(content)))


def test_numbers_that_are_not_finite_and_text_that_is_not_unicode_survive(tmp_path):
    stream = written(
        tmp_path / "a.jsonl",
        step(1, loss=math.nan),
        Evaluated(phase="after", step=1, items=[(0, -math.inf, 8, 8), (1, 3.5, 8, 8)]),
        Environment(layer="any", content={"share": math.nan, "counter": 2**70}),
        ProcessFailed(error="/data/\udcff.txt: cannot be read", during="step 2"),
    )
    _, diverged, evaluated, planned, failed, _ = stream.events
    assert isinstance(diverged, Step)
    assert diverged.loss == NonFinite(text="NaN")
    assert isinstance(evaluated, Evaluated)
    assert evaluated.items == [(0, NonFinite(text="-Infinity"), 8, 8), (1, 3.5, 8, 8)]
    assert planned == Environment(
        layer="any",
        content={
            "share": {"state": "error", "reason": "non-finite", "text": "NaN"},
            "counter": "1180591620717411303424",
        },
    )
    assert failed == ProcessFailed(error=r"/data/\udcff.txt: cannot be read", during="step 2")


def test_an_integer_beyond_2_to_the_53_is_exact(tmp_path):
    huge = Step.model_validate({**step(1).model_dump(), "tokens": 2**63 + 1})
    assert written(tmp_path / "a.jsonl", huge).events[1] == huge


def test_a_process_that_fails_leaves_no_closed(tmp_path):
    path = tmp_path / "a.jsonl"

    def fail() -> None:
        with writer(path) as file:
            file.write(step(1))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert read(path, "rank-0", RUN).ended == "open"


def test_a_file_is_never_written_by_two_processes(tmp_path):
    writer(tmp_path / "a.jsonl").close()
    with pytest.raises(FileExistsError):
        writer(tmp_path / "a.jsonl")


def test_threads_of_one_process_share_a_file(tmp_path):
    path = tmp_path / "deep" / "a.jsonl"
    with writer(path) as file:
        threads = [threading.Thread(target=lambda: [file.write(step(n)) for n in range(1, 26)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    stream = read(path, "rank-0", RUN)
    assert stream.closed
    assert len(list(stream.all(Step))) == 100


def test_secrets_of_the_environment_stay_out(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "not-to-be-seen")
    path = tmp_path / "a.jsonl"
    stream = written(path, ProcessFailed(error="401 for not-to-be-seen", during="download"))
    assert b"not-to-be-seen" not in path.read_bytes()
    assert stream.events[1] == ProcessFailed(error="401 for [redacted]", during="download")


def test_the_run_directory(tmp_path):
    layout = Layout(tmp_path / "run")
    layout.make()
    assert layout.relative(layout.process(2, "rank-0")) == "events/a2/rank-0.jsonl"
    assert layout.seals == tmp_path / "seals.jsonl"
    for folder in (layout.events, layout.logs, layout.checkpoints):
        assert folder.is_dir()


@pytest.mark.parametrize(
    ("relative", "unlisted"),
    [
        ("record.json", True),
        ("record.sha256", True),
        ("report.html", True),
        ("checkpoints/step-20/__0_0.distcp", True),
        ("checkpoints/step-40/__0_0.distcp", False),  # its manifest was never written
        ("checkpoints/step-20/manifest.json", False),
        ("events/driver.jsonl", False),
        ("logs/record.log", False),
        ("trial.json", False),
    ],
)
def test_what_a_record_does_not_list(relative, unlisted, tmp_path):
    (tmp_path / "checkpoints/step-20").mkdir(parents=True)
    (tmp_path / "checkpoints/step-20/manifest.json").write_text("{}")
    assert is_unlisted_by_design(tmp_path, relative) is unlisted
