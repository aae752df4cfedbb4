"""`seatrial render`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from seatrial.cli.options import options
from seatrial.cli.output import near
from seatrial.errors import InputError
from seatrial.render import Rendered, Written, render, write
from seatrial.trial.loader import load


@click.command("render", short_help="write the Kubernetes manifests of a trial")
@click.argument("trial_file", type=click.Path(path_type=Path), metavar="TRIAL")
@click.option(
    "-o", "--output", metavar="DIR", help="the folder to write to, or - for one stream on stdout; default: ./NAME"
)
@click.option(
    "--cluster", "cluster_only", is_flag=True, help="a RayCluster without a job: you start the trial on it later"
)
@click.option("--kustomize", is_flag=True, help="a kustomize component for the base that cluster.template.from names")
@click.option(
    "--name-suffix/--no-name-suffix", default=True, show_default=True, help="end names with the trial's digest"
)
@click.option("--json", "as_json", is_flag=True, help="print what was written as one JSON document")
@options(cluster_only="--cluster")
def command(
    trial_file: Path, output: str | None, cluster_only: bool, kustomize: bool, name_suffix: bool, as_json: bool
) -> int:
    """Write the KubeRay manifests of TRIAL.

    seatrial generates them, or extends the team's own manifest (cluster.template.from). The pods run the trial's image
    unchanged: ConfigMaps bring seatrial and the trial. Nothing is applied.
    """
    loaded = load(trial_file)
    if output == "-" and (as_json or kustomize):
        raise InputError("saw -", field="--output", expected="a folder beside --json or --kustomize")
    try:
        rendered = render(loaded.trial, cluster_only=cluster_only, kustomize=kustomize, name_suffix=name_suffix)
    except InputError as error:  # an option, not a key of the trial's file
        raise error if error.field == "cluster_only" else loaded.locate(error) from None
    if output == "-":
        click.echo(rendered.stream(), nl=False)
        return 0
    written = write(rendered, Path(output or rendered.name))
    click.echo(_document(rendered, written) if as_json else _text(rendered, written))
    return 0


def _document(rendered: Rendered, written: Written) -> str:
    document = {
        "folder": str(written.folder),
        "kind": rendered.kind,
        "name": rendered.name,
        "namespace": rendered.namespace,
        "trial": rendered.digest,
        "order": list(rendered.order),
        "written": list(written.written),
        "unchanged": list(written.unchanged),
        "removed": list(written.removed),
        "foreign": list(written.foreign),
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"


def _text(rendered: Rendered, written: Written) -> str:
    folder = near(written.folder)
    same = len(written.unchanged)
    if written.written:
        lines = [f"wrote {_files(len(written.written))} in {folder}{f', {same} unchanged' if same else ''}"]
    else:
        lines = [f"unchanged: {_files(same)} in {folder}"]
    lines += [f"  removed  {name}, a file of an earlier render" for name in written.removed]
    lines += [f"  left     {name}, which seatrial render did not write" for name in written.foreign]
    space = f"-n {rendered.namespace} " if rendered.namespace else ""
    if rendered.order:
        steps = [f"kubectl apply -f {folder}", f"kubectl {space}get {rendered.kind.lower()} {rendered.name} -w"]
    else:
        steps = [f"name {folder} under components: of an overlay", "kubectl apply -k OVERLAY"]
    lines += ["next:", *(f"  {step}" for step in steps), f"  see {folder}/README.md for the rest"]
    return "\n".join(lines)
