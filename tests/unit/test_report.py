"""The report: whatever a record holds, it is shown once, escaped, and never as more than it is."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from seatrial.errors import EvidenceError
from seatrial.evidence import judge, observe
from seatrial.evidence.facts import environment, execution, learning, performance
from seatrial.evidence.facts.environment import Layer
from seatrial.evidence.facts.execution import Ended
from seatrial.evidence.facts.learning import TrainingData
from seatrial.evidence.facts.performance import Memory, Throughput
from seatrial.report import write
from seatrial.report.markdown import markdown
from seatrial.report.page import html
from seatrial.report.view import view_of
from tests.browser.sample import DIGEST, NASTY, fact, full, record, strange, unknown, verdict, written
from tests.support.wires import World, run

pytestmark = pytest.mark.unit

VOID = {"meta", "link", "br", "wbr", "hr", "img", "input"}


class Page(HTMLParser):
    """A page's tags, ids, links and text; complains about tags that do not match."""

    def __init__(self, source: str):
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(source)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] != ["style"]:
            self.text.append(data)

    @property
    def ids(self) -> list[str]:
        return [a["id"] for _, a in self.tags if a.get("id")]  # type: ignore[misc]

    @property
    def targets(self) -> list[str]:
        return [str(a["href"])[1:] for t, a in self.tags if t == "a" and str(a.get("href")).startswith("#")]

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


def pages(folder: Path, content: dict[str, Any]) -> tuple[Page, str]:
    """The parsed page and the Markdown of a record."""
    page, text, _ = write(written(folder, content))
    return Page(page.read_text()), text.read_text()


def rendered(content: dict[str, Any]) -> tuple[Page, str]:
    """The same without files."""
    view = view_of(json.loads(json.dumps(content)), DIGEST, "record.json")
    return Page(html(view)), markdown(view)


def table_of(markdown: str) -> list[list[str]]:
    """The cells of the first table as a reader sees them."""
    rows: list[list[str]] = []
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows and token.level >= 4:
            rows[-1].append(
                "".join(c.content for c in token.children or () if c.type in ("text", "code_inline", "text_special"))
            )
    return rows


# --- the files ---------------------------------------------------------------------------------------------------


def test_three_files_and_their_digests(tmp_path: Path) -> None:
    paths = write(written(tmp_path, full()))
    assert [p.name for p in paths] == ["report.html", "report.md", "report.sha256"]
    lines = paths[2].read_text().splitlines()
    assert lines == [f"{hashlib.sha256(p.read_bytes()).hexdigest()}  {p.name}" for p in paths[:2]]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["record.json", "report.html", "report.md", "report.sha256"]


def test_written_again_it_has_the_same_bytes(tmp_path: Path) -> None:
    path = written(tmp_path, full())
    first = [p.read_bytes() for p in write(path)]
    assert [p.read_bytes() for p in write(path)] == first


@pytest.mark.parametrize("content", ["", "[]", "{", '{"schema": "seatrial.events/1"}'])
def test_what_is_no_record_is_said_to_be_none(tmp_path: Path, content: str) -> None:
    path = tmp_path / "record.json"
    path.write_text(content)
    with pytest.raises(EvidenceError, match="is not a record"):
        write(path)
    assert [p.name for p in tmp_path.iterdir()] == ["record.json"]


def test_storage_that_refuses_leaves_nothing_half_written(tmp_path: Path) -> None:
    (tmp_path / "report.md").mkdir()
    with pytest.raises(OSError, match=r"report\.md"):
        write(written(tmp_path, full()))
    assert not list(tmp_path.glob("*.tmp"))
    assert not (tmp_path / "report.sha256").exists()


def test_a_link_in_its_place_is_replaced_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("kept")
    run = tmp_path / "run"
    run.mkdir()
    (run / "report.html").symlink_to(precious)
    write(written(run, full()))
    assert precious.read_text() == "kept"
    assert not (run / "report.html").is_symlink()


def test_importing_the_room_is_cheap() -> None:
    code = "import sys, seatrial.report; print([m for m in ('jinja2', 'pydantic', 'yaml', 'torch', 'ray') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# --- what is shown -----------------------------------------------------------------------------------------------


def test_every_fact_is_shown_once_under_its_id(tmp_path: Path) -> None:
    content = full()
    page, _ = pages(tmp_path, content)
    for facts in content["evidence"].values():
        for name in facts:
            assert page.ids.count(name) == 1, name
    assert len(page.ids) == len(set(page.ids))


def test_every_link_in_the_page_leads_somewhere(tmp_path: Path) -> None:
    page, _ = pages(tmp_path, full())
    assert set(page.targets) <= set(page.ids)


def test_a_page_that_runs_nothing_and_asks_for_nothing(tmp_path: Path) -> None:
    page, _ = pages(tmp_path, full())
    assert not {"script", "iframe", "object", "img", "form"} & {tag for tag, _ in page.tags}
    addresses = [v for _, a in page.tags for k, v in a.items() if k in ("href", "src", "action")]
    assert all(str(a).startswith(("#", "data:,")) for a in addresses)


def test_the_verdicts_come_first_each_with_its_facts(tmp_path: Path) -> None:
    page, _ = pages(tmp_path, full())
    assert page.ids.index("verdict-1") < page.ids.index("execution.status")
    assert "2 of 6 claims supported, 1 refuted, 3 not established" in page.words
    assert "execution.status" in page.targets
    assert "nowhere (absent)" in page.words
    assert "uncorroborated: only one witness says so" in page.words


def test_a_verdict_is_told_by_shape_and_word_too(tmp_path: Path) -> None:
    source = write(written(tmp_path, full()))[0].read_text()
    row = source[source.index('id="verdict-2"') : source.index('id="verdict-3"')]
    assert "refuted</span>" in row
    assert 'd="M4.9.5h6.2' in row  # the octagon


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ((), "Nothing was claimed"),
        ((verdict("execution.completed"),), "1 claim supported"),
        ((verdict("execution.completed"), verdict("transport.internode")), "All 2 claims supported"),
    ],
)
def test_the_headline_counts(tmp_path: Path, verdicts: tuple[dict[str, Any], ...], said: str) -> None:
    page, text = pages(tmp_path, record(verdicts=verdicts))
    assert said in page.words
    assert said in text


def test_void_is_loud(tmp_path: Path) -> None:
    why = "claims.json is not what events/driver.jsonl was started with"
    page, text = pages(tmp_path, record(verdicts=(verdict("execution.completed"),), void=why))
    assert "Void: no claim can be judged" in page.words
    assert f"Void: {why}" in page.words
    assert f"**Void:** {why}" in text
    assert "1 claim supported" not in page.words


def test_a_claim_without_a_verdict_is_not_passed_over(tmp_path: Path) -> None:
    content = record(verdicts=(verdict("execution.completed"),))
    content["claims"].append({"claim": "transport.internode", "equals": "efa"})
    page, text = pages(tmp_path, content)
    assert "1 of 2 claims supported, 1 without a verdict" in page.words
    assert "the record has no verdict on this claim" in text
    assert "equals: efa" in page.words


def test_what_nothing_was_claimed_about_is_said(tmp_path: Path) -> None:
    speed = fact(performance.TOKENS_PER_SECOND, Throughput(1234.4, 12344, 10.0, 9, 2))
    page, text = pages(tmp_path, record(speed, verdicts=(verdict("execution.completed"),)))
    line = "1,234 tokens/s was seen; nothing was claimed about its path or value."
    assert line in page.words
    assert line in text
    assert "Not claimed: transport, performance, learning, recovery, environment" in page.words


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [((), "transport: not claimed"), ((verdict("transport.internode", "refuted"),), "transport: refuted")],
)
def test_throughput_never_stands_without_the_transport_verdict(tmp_path: Path, verdicts: Any, said: str) -> None:
    speed = fact(performance.TOKENS_PER_SECOND, Throughput(9000.0, 90_000, 10.0, 3, 1))
    both = (*verdicts, verdict("performance.tokens_per_second", min=9000))
    page, text = pages(tmp_path, record(speed, verdicts=both))
    assert page.words.count(said) == 3  # claim, key figure, fact
    assert text.count(said) == 2


def test_asked_and_seen_are_told_apart(tmp_path: Path) -> None:
    page, _ = pages(tmp_path, full())
    assert "Planned steps asked" in page.words
    assert "stated by trial" in page.words
    assert "Image asked for asked" in page.words
    assert "Image that ran asked" not in page.words


def test_a_fact_that_is_not_known_says_why(tmp_path: Path) -> None:
    page, _ = pages(tmp_path, record(unknown(execution.DATA_ORDER), learning.DATA.error("non-finite: NaN").json()))
    assert "unknown evidence ends at step 7 on rank 3" in page.words
    assert "error non-finite: NaN" in page.words


def test_an_unknown_key_figure_is_no_number(tmp_path: Path) -> None:
    page, text = pages(tmp_path, record(unknown(performance.TOKENS_PER_SECOND, "no step was taken")))
    assert "- Throughput, tokens/s: **unknown** (transport: not claimed; no step was taken)" in text
    assert "tokens/s was seen" not in page.words


def test_random_tokens_are_no_learning(tmp_path: Path) -> None:
    facts = (
        fact(learning.DATA, TrainingData("random-tokens", synthetic=True)),
        *(fact(learning.BITS_PER_BYTE.of(phase=phase), 8.0) for phase in ("before", "after")),
    )
    _, text = pages(tmp_path, record(*facts))
    assert "8.00 → 8.00** (random tokens: nothing can be learnt)" in text


def test_the_record_can_be_verified_from_the_page(tmp_path: Path) -> None:
    path = written(tmp_path, full())
    digest = "sha256:" + hashlib.sha256(path.read_bytes()).hexdigest()
    page_file, text_file, _ = write(path)
    command = f"seatrial verify 20260101-000000-qwen2.5-1.5b-first-look --expect {digest}"
    assert command in page_file.read_text()
    assert command in text_file.read_text()


def test_a_later_judgement_names_its_own_file(tmp_path: Path) -> None:
    page_file = write(written(tmp_path, record(cites=DIGEST), "record.2.json"))[0]
    words = Page(page_file.read_text()).words
    assert "seatrial verify 20260101-000000-first-look/record.2.json --expect" in words
    assert f"the run that the record {DIGEST} judged before" in words


def test_a_layer_nobody_knew_is_shown(tmp_path: Path) -> None:
    layer = Layer(DIGEST, {"kernel": "6.8"}, same_everywhere=False, seen_by=["a", "b"])
    page, _ = pages(tmp_path, record(fact(environment.LAYER.of(layer="kernel_of_tomorrow"), layer)))
    assert "Kernel of tomorrow" in page.words
    assert "not the same everywhere, seen by 2 observers" in page.words
    assert "kernel 6.8" in page.words


# --- records that mean harm --------------------------------------------------------------------------------------


def test_markup_in_any_place_is_text(tmp_path: Path) -> None:
    harm = NASTY + "\"'><img src=x onerror=alert(1)>"
    content = record(strange(f"execution.{harm}", {harm: [harm], "d": {harm: harm}}, harm, harm, reason=harm),
                     fact(environment.LAYER.of(layer="layer"), Layer(harm, {harm: harm}, True, [harm])),
                     fact(execution.STATUS, Ended(harm, harm)), fact(performance.PEAK_MEMORY, Memory({harm: "5"}, "5")),
                     fact(learning.BASELINE.of(table=harm), 3.0), fact(learning.TRAIN_LOSS, [(1, 2.0), (2, 1.0)]),
                     fact(learning.LOSS.of(phase="before"), 3.0), fact(learning.BITS_PER_BYTE.of(phase="before"), 4.0),
                     verdicts=(verdict(harm, "refuted", harm, (harm,), **{harm: harm}), verdict("execution.completed", reason=harm)),
                     name=harm, run=harm, sealed=harm, seatrial=harm, void=harm, ended_early=harm, cites=harm)  # fmt: skip
    content["evidence"][harm] = {harm: strange(harm, harm)}
    content["faults"] = [{"about": harm, "where": harm, "error": harm}]
    content["trial"]["workload"]["model"] = {"name": harm}
    content["artifacts"].append({"path": harm, "size": 1, "sha256": harm})
    page, _ = pages(tmp_path, content)
    assert not {"script", "img"} & {tag for tag, _ in page.tags}
    assert not [k for _, attributes in page.tags for k in attributes if k.startswith("on")]
    assert NASTY in page.words


def test_the_command_is_safe_to_paste(tmp_path: Path) -> None:
    page, text = pages(tmp_path, record(run="x; rm -rf ~ `id` $(id)"))
    assert "seatrial verify 'x; rm -rf ~ `id` $(id)' --expect" in page.words
    assert "`` seatrial verify" in text or "``seatrial verify" in text
    page, _ = pages(tmp_path, record(run="x\nrm -rf ~"))
    assert "seatrial verify RUN --expect" in page.words


def test_text_that_turns_text_around_is_shown_by_number(tmp_path: Path) -> None:
    page, text = pages(tmp_path, record(name="safe\u202egnihton\x1b[31m", void="a\u2066b"))
    assert "safe\\u202egnihton\\u001b[31m" in page.words
    assert "\u202e" not in text


def test_lone_surrogates_can_be_written(tmp_path: Path) -> None:
    page, _ = pages(tmp_path, record(fact(execution.STATUS, Ended("\ud800", "\udfff"))))
    assert "\\ud800: \\udfff" in page.words


def test_a_page_stays_under_a_megabyte_and_says_what_it_left_out(tmp_path: Path) -> None:
    huge = [
        strange(
            f"execution.huge_{n}",
            {"text": "<&>" * 60_000, "list": [["x" * 500] * 5] * 1000, "map": {f"k{i}": i for i in range(5000)}},
        )
        for n in range(3)
    ]
    long = fact(learning.TRAIN_LOSS, [(n, 3.14159) for n in range(30_000)])
    many = [strange(f"transport.fact_{n}", "y" * 1500) for n in range(3000)]
    page_file, text_file, _ = write(
        written(
            tmp_path,
            record(*huge, long, *many, verdicts=(verdict("execution.completed", "supported", "z" * 10**5),) * 300),
        )
    )
    assert page_file.stat().st_size < 1_000_000
    assert text_file.stat().st_size < 60_000
    words = Page(page_file.read_text()).words
    assert "characters, cut here" in words
    assert re.search(r"2,\d\d\d more facts left out here; the record has them\.", words)
    assert re.search(r"\d+ more verdicts left out here; the record has them\.", words)
    assert "All 300 claims supported" in words


# --- Markdown ----------------------------------------------------------------------------------------------------


def test_a_table_cell_stays_one_cell(tmp_path: Path) -> None:
    harm = "a | b\nc `d` **e** <b>f</b> [g](http://h) @team #12"
    content = record(verdicts=(verdict("execution.completed", "supported", harm, x=harm), verdict(harm, "refuted")))
    _, text = pages(tmp_path, content)
    rows = table_of(text)
    assert [len(row) for row in rows] == [4, 4, 4]
    assert rows[1][0] == "execution.completed"
    assert "a | b c `d` **e** <b>f</b> [g](http:" in rows[1][1]
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    assert not [c for t in tokens for c in t.children or () if c.type == "text" and "@team" in c.content]


def test_missing_steps_break_the_loss_curve(tmp_path: Path) -> None:
    curve: list[tuple[int, float | None]] = [(s, 3.0 - s / 100) for s in range(1, 40) if not 10 < s < 20]
    source = write(written(tmp_path, record(fact(learning.TRAIN_LOSS, curve))))[0].read_text()
    assert source.count('class="line seen"') == 2


# --- transport ---------------------------------------------------------------------------------------------------


def over_gloo(world: World, *claims: dict[str, Any]) -> dict[str, Any]:
    """A record with the transport evidence of a run over gloo, judged."""
    evidence = observe(run(world))
    made = record(verdicts=tuple(v.json() for v in judge(claims, evidence)))
    return {**made, "evidence": {"transport": evidence.json()["transport"]}}


def test_the_path_and_the_bytes_of_each_host_against_the_band() -> None:
    page, text = rendered(over_gloo(World("aabb"), {"claim": "transport.internode", "equals": "tcp"}))
    for words in (
        "tcp over eth0, corroborated",
        "tcp over lo, corroborated",
        "4 ranks on 2 hosts, over gloo",
        "8 pairs over eth0, lo",
    ):
        assert words in page.words, words
    assert page.words.count("240 MiB sent in 80 steps, within 229 MiB to") == 4  # two hosts with two interfaces each
    assert "eth0 of b: 240 MiB" in page.words
    assert "message_per_step_bytes 3 MiB wire_per_step_bytes 12 MiB" in page.words
    assert "Bytes on the wire: **4 of 4** (interfaces within the band: eth0; lo)" in text


def test_a_throughput_has_the_path_beside_it_also_where_nothing_was_claimed() -> None:
    content = over_gloo(World("aa"))
    rate = fact(performance.TOKENS_PER_SECOND, Throughput(900.0, 9000, 10.0, 9, 2))
    content["evidence"]["performance"] = {rate["id"]: rate}
    for shown in (rendered(content)[0].words, rendered(content)[1]):
        assert "transport: not claimed; within a host tcp over lo, corroborated" in shown


def test_a_counter_that_disagrees_is_in_the_path_line() -> None:
    page, _ = rendered(
        over_gloo(World("aabb", rate=lambda host, link, _: 0.5 if (host, link) == ("b", "eth0") else 1.0))
    )
    assert "tcp over eth0, witnesses-disagree; ranks hold connections over eth0 of b" in page.words
