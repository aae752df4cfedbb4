"""Writes the tables of facts and reasons into docs/evidence.md and README.md, between their marks: `make docs`.

    python tools/facts_docs.py

A mark is a comment, `<!-- facts: execution -->` or `<!-- reasons -->`; what follows up to `<!-- end -->` is replaced.
"""

from __future__ import annotations

import re
from pathlib import Path

from seatrial.evidence.facts import FACTS, FAMILIES
from seatrial.evidence.facts.fact import EVERY_KIND, FactType, Family
from seatrial.evidence.facts.reasons import GROUPS

ROOT = Path(__file__).parents[1]
PAGES = ("docs/evidence.md", "README.md")
KINDS = {"run": "run", "script": "script", "observed": "look"}
_MARK = re.compile(r"<!-- (facts: (\w+)|reasons|weak reasons) -->\n.*?<!-- end -->", re.DOTALL)


def written(text: str) -> str:
    """A page with its tables as the registries have them."""
    return _MARK.sub(_block, text)


def _block(found: re.Match[str]) -> str:
    mark, kind = found[1], found[2]
    made = _facts(kind) if kind else _weak_reasons() if mark == "weak reasons" else _reasons()
    return f"<!-- {mark} -->\n{made}\n<!-- end -->"


def _facts(kind: str) -> str:
    rows = ["| fact | unit | what it is, and who saw it | of |", "|---|---|---|---|"]
    for name, type in {**FACTS, **FAMILIES}.items():
        if name.startswith(f"{kind}.") and not name.endswith(".error"):
            rows.append(f"| `{name}` | {type.unit} | {type.meaning} | {_kinds(type)} |")
    return "\n".join(rows)


def _kinds(type: FactType[object] | Family[object]) -> str:
    return "all" if set(type.kinds) == set(EVERY_KIND) else ", ".join(KINDS[kind.name] for kind in type.kinds)


def _reasons() -> str:
    rows = ["| reason | meaning |", "|---|---|"]
    for heading, reasons in GROUPS.items():
        rows.append(f"| **{heading}** | |")
        rows += [f"| `{reason}` | {said} |" for reason, said in reasons.items()]
    return "\n".join(rows)


def _weak_reasons() -> str:
    """The row of the README's table that says why a claim is not established."""
    weak = next(iter(GROUPS.values()))
    said = ". ".join(f"`{reason}`: {meaning}" for reason, meaning in weak.items())
    rows = [
        "| verdict | meaning |",
        "|---|---|",
        "| `supported` | the evidence shows the claim, and a second witness agrees |",
        "| `refuted` | the evidence shows that the claim does not hold |",
        f"| `not-established` | neither; the reason says why. {said} |",
    ]
    return "\n".join(rows)


def main() -> None:
    for page in PAGES:
        path = ROOT / page
        path.write_text(written(path.read_text()))


if __name__ == "__main__":
    main()
