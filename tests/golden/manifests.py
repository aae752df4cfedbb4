"""Writes tests/golden/manifests.yaml: what `check` says about real manifests. Reasons that are there are kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from seatrial.check.operator import DEFAULT_KUBERAY
from seatrial.check.rule import Facts
from seatrial.check.runner import Selection, check_bytes
from seatrial.check.structure import Schema

GOLDEN = Path(__file__).with_name("manifests.yaml")
MANIFESTS = Path(__file__).parents[3] / "shared" / "cases" / "manifests"
SCHEMA = Schema()


def seen(path: Path) -> dict[str, Any]:
    """Errors and warnings by rule with their lines, the number of notes, and what could not be told, by rule."""
    outcome = check_bytes(path.read_bytes(), path.name, Facts(DEFAULT_KUBERAY), Selection().rules(), SCHEMA)
    lines: dict[tuple[str, str], list[int]] = {}
    for finding in outcome.findings:
        if finding.severity != "info":
            lines.setdefault((finding.severity, finding.rule), []).append(finding.line)
    return {
        "findings": [{"severity": s, "rule": rule, "lines": at} for (s, rule), at in sorted(lines.items())],
        "infos": dict(sorted(Counter(f.rule for f in outcome.findings if f.severity == "info").items())),
        "cannot_tell": dict(sorted(Counter(untold.rule for untold in outcome.cannot_tell).items())),
    }


def main() -> None:
    before = yaml.safe_load(GOLDEN.read_text()) if GOLDEN.exists() else {}
    document = {}
    for path in sorted(MANIFESTS.glob("*.yaml")):
        entry = seen(path)
        reasons = {finding["rule"]: finding.get("why", "") for finding in before.get(path.name, {}).get("findings", [])}
        for finding in entry["findings"]:
            finding["why"] = reasons.get(finding["rule"], "")
        document[path.name] = entry
    GOLDEN.write_text(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110))


if __name__ == "__main__":
    main()
