"""`seatrial check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from seatrial.check import formats
from seatrial.check.command import Checked, Settings, exit_code, resources, run
from seatrial.check.effective import document, each
from seatrial.check.explain import listing, markdown, page
from seatrial.check.inputs import minor, notes, strange_kuberay
from seatrial.check.operator import DEFAULT_KUBERAY
from seatrial.check.rule import SEVERITIES, Severity
from seatrial.check.runner import CheckResult, RuleFinding, Selection
from seatrial.check.structure import DEFAULT_KUBERNETES
from seatrial.cli.options import named, options
from seatrial.errors import InputError

FORMATS = {
    "": formats.FORMATS,
    "--explain": ("text",),
    "--rules": ("text", "markdown"),
    "--effective": ("text", "json"),
    "--reference": ("text", "json"),
}
STYLE = {"error": "red", "warning": "yellow", "info": "blue"}


def _names(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for value in values for name in value.replace(",", " ").split())


@click.command("check", short_help="check KubeRay manifests and trial files")
@click.argument("paths", nargs=-1, type=click.Path(path_type=Path), metavar="PATH…")
@click.option(
    "--select", multiple=True, callback=_names, metavar="RULE,…", help="only these rules, or groups by prefix"
)
@click.option("--ignore", multiple=True, callback=_names, metavar="RULE,…", help="all rules but these")
@click.option(
    "--min-severity",
    type=click.Choice(SEVERITIES),
    default="warning",
    show_default=True,
    help="the lowest severity to list",
)
@click.option(
    "--fail-on",
    type=click.Choice(["error", "warning"]),
    default="error",
    show_default=True,
    help="exit 1 from this severity on; findings that --min-severity hides do not count",
)
@click.option("--format", "form", type=click.Choice([*formats.FORMATS, "markdown"]), default="text", show_default=True)
@click.option(
    "--kuberay", metavar="X.Y", help=f"the operator's version  [default: a trial's own, else {DEFAULT_KUBERAY}]"
)
@click.option(
    "--kubernetes", metavar="X.Y", help=f"the cluster's version  [default: a trial's own, else {DEFAULT_KUBERNETES}]"
)
@click.option("--trial", type=click.Path(path_type=Path), help="the trial that will run on it: its workers must fit")
@click.option("--skip-others", is_flag=True, help="skip files without a Ray resource, for hooks")
@click.option("--reference", metavar="NAME", help="list deviations from a published configuration: ray-train-dlc-eks")
@click.option("--server", is_flag=True, help="ask the cluster of the current kubeconfig context as well")
@click.option("--effective", "derive", is_flag=True, help="print what KubeRay makes of the manifest, with reasons")
@click.option("--explain", metavar="RULE", help="print the page of a rule")
@click.option("--rules", "list_rules", is_flag=True, help="list all rules")
@click.option("-v", "--verbose", is_flag=True, help="also print what cannot be told, and what to do about each finding")
@options(
    select="--select",
    ignore="--ignore",
    kuberay="--kuberay",
    kubernetes="--kubernetes",
    reference="--reference",
    context="--server",
)
def command(paths: tuple[Path, ...], form: str, explain: str | None, list_rules: bool, **given: Any) -> int:
    """Check KubeRay manifests (RayCluster, RayJob, RayService) and trial files, without a cluster.

    PATH is a file, a folder, or - for standard input:

    \b
      kustomize build overlay | seatrial check -
      helm template chart     | seatrial check -

    Exit codes: 0 no error, 1 an error was found, 2 something could not be read.
    """
    _check_options(form, explain, list_rules, given["derive"], given["reference"])
    if explain:
        click.echo(page(explain))
        return 0
    if list_rules:
        _rules(form)
        return 0
    if not paths:
        raise InputError("no path given", expected="a file, a folder, or - for standard input")
    if given["derive"]:
        return _effective(paths, form, given["kuberay"])
    if given["reference"]:
        return _reference(paths, form, given["reference"])
    settings = Settings(
        selection=Selection(given["select"], given["ignore"]),
        kuberay=given["kuberay"] or DEFAULT_KUBERAY,
        kubernetes=minor(given["kubernetes"] or DEFAULT_KUBERNETES),
        given=frozenset(name for name in ("kuberay", "kubernetes") if given[name]),
        trial=given["trial"],
        fail_on=formats.counted(given["fail_on"], given["min_severity"])[-1],
        server=given["server"],
        skip_others=given["skip_others"],
    )
    checked = run(paths, settings)
    if given["server"]:
        from seatrial.check.server.asking import ask

        checked = ask(checked, settings=settings)
        checked.outcome.problems = [named(problem, {"server": "--server"}) for problem in checked.outcome.problems]
    checked.notes = (*checked.notes, *filter(None, [strange_kuberay(settings.kuberay)]), *notes(checked.paths))
    _print(checked, form, given["min_severity"], given["verbose"], settings.fail_on)
    return exit_code(checked.outcome, settings.fail_on)


def _check_options(form: str, *asked: object) -> None:
    """Raises InputError for two modes at once, and for a --format that the mode does not have."""
    modes = [mode for mode, wanted in zip([*FORMATS][1:], asked, strict=True) if wanted]
    if len(modes) > 1:
        raise InputError(f"saw {modes[0]} and {modes[1]}", expected="one of them")
    mode = modes[0] if modes else ""
    if form not in FORMATS[mode]:
        seen, expected = f"saw {form}{f' with {mode}' if mode else ''}", FORMATS[mode]
        raise InputError(
            seen, field="--format", expected=f"{'one of ' if len(expected) > 1 else ''}{', '.join(expected)}"
        )


def _print(checked: Checked, form: str, least: Severity, verbose: bool, fail_on: str) -> None:
    outcome = checked.outcome
    if form == "json":
        click.echo(formats.as_json(formats.document(outcome, least, checked.notes)))
    elif form == "sarif":
        click.echo(formats.as_json(formats.sarif(outcome, least)))
    elif form == "junit":
        click.echo(formats.junit(outcome, least, checked.paths, formats.counted(fail_on, least)))
    elif form == "github":
        click.echo("".join(f"{line}\n" for line in formats.github(outcome, least)), nl=False)
    else:
        _text(checked, least, verbose)
    if form != "text":
        return
    for problem in outcome.problems:
        for line in problem.line().splitlines():
            click.echo(f"seatrial: {line}", err=True)


def _text(checked: Checked, least: Severity, verbose: bool) -> None:
    findings = formats.shown(checked.outcome, least)
    for finding in findings:
        place, _, rest = formats.text(finding).partition(f": {finding.severity} ")
        click.echo(f"{place}: {click.style(finding.severity, fg=STYLE[finding.severity])} {rest}")
        if verbose and finding.fix:
            click.echo(f"    {finding.fix}")
    if verbose:
        for untold in checked.outcome.cannot_tell:
            click.echo(f"{untold.path}:{untold.line}:{untold.column}: cannot tell {untold.rule}: {untold.reason}")
        for finding in (finding for finding in checked.outcome.findings if finding.suppressed):
            click.echo(
                f"{finding.path}:{finding.line}:{finding.column}: set aside {finding.rule}: {finding.suppressed}"
            )
    for note in checked.notes:
        click.echo(f"note: {note}")
    click.echo(_closing(checked.outcome, findings, least))


def _closing(outcome: CheckResult, findings: list[RuleFinding], least: Severity) -> str:
    """The last line of the text form."""
    counts = formats.summary(outcome, findings, ())
    parts = [formats.count(counts["errors"], "error"), formats.count(counts["warnings"], "warning")]
    hidden = counts["infos"] + (counts["warnings"] if least == "error" else 0)  # below `least`
    if least == "info":
        parts.append(formats.count(counts["infos"], "note"))
    elif hidden:
        parts.append(f"{hidden} not listed (--min-severity info)")
    for key, words in (("suppressed", "set aside in the file"), ("cannot_tell", "cannot tell (--verbose)")):
        if counts[key]:
            parts.append(f"{counts[key]} {words}")
    if counts["unreadable"]:
        parts.append(f"{counts['unreadable']} unreadable")
    return f"{formats.count(counts['resources'], 'resource')} checked: {', '.join(parts)}"


def _rules(form: str) -> None:
    if form == "markdown":
        click.echo(markdown(), nl=False)
        return
    for rule in listing():
        click.echo(f"{rule.severity:<8} {rule.id:<32} {rule.title}")


def _effective(paths: tuple[Path, ...], form: str, kuberay: str | None) -> int:
    from seatrial.cli.effective import echo

    found = list(each(resources(paths), kuberay))
    if form == "json":
        click.echo(formats.as_json({"kuberay": kuberay or DEFAULT_KUBERAY, "resources": document(found)}))
    else:
        echo(found)
    return 0


def _reference(paths: tuple[Path, ...], form: str, name: str) -> int:
    from seatrial.check.reference import compare

    items = compare(paths, name)
    if form == "json":
        click.echo(formats.as_json({"reference": name, "deviations": [item.document() for item in items]}))
        return 0
    for item in items:
        click.echo(
            f"{item.path}:{item.line}: {item.kind} {item.field}: {item.seen}; {name} has {item.reference} ({item.why})"
        )
    click.echo(f"{formats.count(len(items), 'deviation')} from {name}; review them, none is a verdict")
    return 0
