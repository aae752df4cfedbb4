"""The report in a real browser: it fits, it can be read, it runs nothing and asks for nothing."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from seatrial.report import write
from tests.browser.devtools import Tab, chromium
from tests.browser.sample import NASTY, full, record, verdict, written

pytestmark = pytest.mark.browser

VIEWS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]
OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"
# What sticks out to the right, other than inside a box that scrolls by itself or is hidden from sight.
STICKING_OUT = """[...document.querySelectorAll('body *')].filter(e => !e.closest('.scroll, .hidden, .skip, thead, svg')
  && e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))"""
# Every text whose contrast with what lies behind it is below WCAG AA.
LOW_CONTRAST = """(() => {
  const parts = c => { const m = c.match(/[\\d.]+/g).map(Number); return c.startsWith('color(') ? m.map((v, i) => i < 3 ? v * 255 : v) : m };
  const shade = v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * shade(r) + 0.7152 * shade(g) + 0.0722 * shade(b);
  const behind = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor); if (c[3] !== 0) return c } return [255, 255, 255] };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, style = getComputedStyle(e);
    if (!walker.currentNode.data.trim() || e.closest('.hidden, .skip, title, desc')) continue;
    const ink = parts(e.closest('svg') ? style.fill : style.color);
    const [a, b] = [light(ink), light(behind(e))].sort((x, y) => y - x);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if ((a + 0.05) / (b + 0.05) < (large ? 3 : 4.5)) found.push([walker.currentNode.data.trim().slice(0, 40), e.className, (a + 0.05) / (b + 0.05)]);
  }
  return found;
})()"""


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """One headless Chromium for the file."""
    pytest.importorskip("websocket", reason="websocket-client is not installed: `pip install -e .[test]`")
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine: install Debian's `chromium`")
    with chromium(program, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A large report on a trial whose name is a script."""
    return write(written(tmp_path_factory.mktemp("full"), full(NASTY)))[0]


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on next to nothing, void, with words that have no place to break."""
    content = record(
        verdicts=(verdict("execution.completed", "not-established", "void"),), name="n" * 300, void="v" * 400
    )
    return write(written(tmp_path_factory.mktemp("bare"), content))[0]


@pytest.mark.parametrize(("width", "scheme"), VIEWS)
@pytest.mark.parametrize("which", ["report", "bare"])
def test_it_fits_and_asks_for_nothing(
    tab: Tab, request: pytest.FixtureRequest, which: str, width: int, scheme: str
) -> None:
    path = request.getfixturevalue(which)
    tab.open(path, width=width, scheme=scheme)
    for opened in (False, True):
        if opened:
            tab.run(OPEN_ALL)
        assert tab.run("document.documentElement.scrollWidth") <= width
        assert tab.run(STICKING_OUT) == []
    assert tab.trouble() == []
    assert {address for address in tab.requests() if not address.startswith("data:")} == {path.as_uri()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", ["report", "bare"])
def test_every_text_can_be_read(tab: Tab, request: pytest.FixtureRequest, which: str, scheme: str) -> None:
    tab.open(request.getfixturevalue(which), width=1280, scheme=scheme)
    assert tab.run(LOW_CONTRAST) == []


def test_a_script_for_a_name_is_only_a_name(tab: Tab, report: Path) -> None:
    tab.open(report, width=1280)
    assert tab.run("document.querySelector('h1').textContent") == NASTY
    assert tab.run("document.title").startswith(NASTY)
    assert tab.run("document.scripts.length") == 0
    assert not [e for e in tab.events if e["method"] == "Page.javascriptDialogOpening"]


def test_a_script_that_got_in_would_not_run(tab: Tab, report: Path, tmp_path: Path) -> None:
    planted = tmp_path / "planted.html"
    planted.write_text(report.read_text().replace("</h1>", "</h1><script>document.title = 'it ran'</script>"))
    tab.open(planted, width=1280)
    assert tab.run("document.title") != "it ran"


@pytest.mark.parametrize("width", [1280, 390])
def test_each_verdict_leads_to_its_facts(tab: Tab, report: Path, width: int) -> None:
    tab.open(report, width=width)
    links = tab.run("[...document.querySelectorAll('.verdicts .facts a')].map(a => a.getAttribute('href'))")
    assert "#execution.status" in links
    for number, target in enumerate(links):
        tab.run(f"document.querySelectorAll('.verdicts .facts a')[{number}].click()")
        assert tab.run("decodeURIComponent(location.hash)") == target
        top, bottom = tab.run("(r => [r.top, r.bottom])(document.querySelector(':target').getBoundingClientRect())")
        assert top < 900
        assert bottom > 0


@pytest.mark.parametrize("width", [1280, 390])
def test_it_can_be_heard(tab: Tab, report: Path, width: int) -> None:
    tab.open(report, width=width)
    nodes = tab.send("Accessibility.getFullAXTree")["nodes"]
    roles = [_value(node, "role") for node in nodes if not node["ignored"]]
    assert roles.count("heading") > 20
    assert {"table", "row", "cell", "columnheader", "rowheader", "navigation", "main"} <= set(roles)
    pictures = [
        _value(node, "name") for node in nodes if not node["ignored"] and _value(node, "role") in ("img", "image")
    ]
    assert {"Train loss by step", "Step time over the steady window", "Distribution of step times"} <= set(pictures)
    levels = tab.run("[...document.querySelectorAll('h1, h2, h3, h4')].map(h => +h.tagName[1])")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_charts_are_drawn_inside_their_frames(tab: Tab, report: Path) -> None:
    tab.open(report, width=1280)
    stray = tab.run("""[...document.querySelectorAll('svg.chart')].flatMap(s => [...s.querySelectorAll('text, path, rect, circle')].filter(e => {
      const a = e.getBoundingClientRect(), b = s.getBoundingClientRect();
      return a.left < b.left - 2 || a.right > b.right + 2 || a.top < b.top - 2 || a.bottom > b.bottom + 2;
    }).map(e => e.outerHTML))""")
    assert tab.run("document.querySelectorAll('svg.chart').length") == 5
    assert stray == []


def test_it_prints(tab: Tab, report: Path) -> None:
    tab.open(report, width=800)
    assert len(tab.send("Page.printToPDF")["data"]) > 20_000
    tab.send("Emulation.setEmulatedMedia", media="print")
    assert tab.run("document.documentElement.scrollWidth") <= 800
    assert tab.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.send("Emulation.setEmulatedMedia", media="")


def _value(node: dict[str, Any], name: str) -> str:
    return str(node.get(name, {}).get("value", ""))
