"""The page of a rule, and the page of all rules: made from the rules themselves."""

from __future__ import annotations

from difflib import get_close_matches

from seatrial.check.rule import RULES, SEVERITIES, Rule
from seatrial.check.rules import load
from seatrial.errors import InputError, clean

_NEEDS = {
    "instance": "the table of instance types (`seatrial catalog instances`)",
    "image": "the table of images (`seatrial catalog images`)",
    "kuberay": "the KubeRay version (`seatrial check --kuberay X.Y`)",
    "trial": "a trial file (`seatrial check --trial FILE`)",
    "server": "a live cluster (`seatrial check --server`)",
}


def page(name: str) -> str:
    """What one rule looks for, why, and what to do. Raises InputError for a name that no rule has."""
    load()
    if name not in RULES:
        close = get_close_matches(name, RULES, n=1)
        fix = f"did you mean {close[0]}?" if close else "`seatrial check --rules` lists them"
        raise InputError(f"no rule is named {clean(name)}", fix=fix)
    rule = RULES[name]
    lines = [f"{rule.id} ({rule.severity})", f"  {rule.title}", "", f"why     {rule.why}", f"fix     {rule.fix}"]
    lines += [f"needs   {_NEEDS[need]}" for need in rule.needs]
    lines += [
        f"source  {rule.source}",
        "",
        f'set aside in a file: annotation seatrial.io/ignore: "{rule.id}: the reason"',
    ]
    return "\n".join(lines)


def listing() -> list[Rule]:
    """All rules by severity and name."""
    load()
    return sorted(RULES.values(), key=lambda rule: (SEVERITIES.index(rule.severity), rule.id))


def markdown() -> str:
    """docs/rules.md."""
    rules = listing()
    lines = [
        "# Rules of `seatrial check`",
        "",
        f"{len(rules)} rules. Written by `seatrial check --rules --format markdown`; a test holds it to the code.",
        "",
        "An *error* will not start, is refused, or surely breaks; a *warning* is a defect of a training cluster;",
        "*info* is shown with `--min-severity info`. A rule that needs a value which is still a placeholder says",
        "nothing unless `--verbose` is given; a fact that no table has is never guessed.",
        "",
        "Set a finding aside in the file, on the resource or on one pod template:",
        "",
        "```yaml",
        "metadata:",
        "  annotations:",
        '    seatrial.io/ignore: "tmp-ray-on-root: our nodes have NVMe roots; image-not-digest: pinned by kustomize"',
        "```",
        "",
        "| rule | severity | what it looks for |",
        "|---|---|---|",
        *(f"| [{rule.id}](#{rule.id}) | {rule.severity} | {rule.title} |" for rule in rules),
    ]
    for rule in rules:
        lines += [
            "",
            f"## {rule.id}",
            "",
            f"**{rule.severity}** · {rule.title}",
            "",
            rule.why,
            "",
            f"*What to do*: {rule.fix}.",
            "",
        ]
        lines += [f"*Needs*: {', '.join(_NEEDS[need] for need in rule.needs)}.", ""] if rule.needs else []
        lines += [f"*Source*: <{rule.source}>"]
    return "\n".join(lines) + "\n"
