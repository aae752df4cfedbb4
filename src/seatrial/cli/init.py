"""`seatrial init`."""

from __future__ import annotations

from pathlib import Path

import click

from seatrial.errors import InputError, Place
from seatrial.trial import loader
from seatrial.trial.loader import templates


@click.command("init", short_help="write a commented trial.yaml")
@click.option(
    "--template", default="local", show_default=True, help=f"which trial to start from: {', '.join(templates())}"
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=Path("trial.yaml"),
    show_default=True,
    help="where to write it",
)
def command(template: str, output: Path) -> int:
    """Write a commented trial file. An existing file is never overwritten."""
    if template not in templates():
        raise InputError(f"saw {template}", field="--template", expected=f"one of {', '.join(templates())}")
    text = loader.template(template)
    try:
        with output.open("x", encoding="utf-8") as handle:
            handle.write(text)
    except FileExistsError:
        raise InputError(
            "exists already", place=Place(str(output)), fix="name another file with -o, or remove it"
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot be written: {error.strerror}", place=Place(str(output)), expected="a file in a folder that exists"
        ) from None
    runs_here = loader.builtin(template).trial.cluster.provider == "local"
    named = "" if runs_here and output == Path("trial.yaml") else f" {output}"
    click.echo(f"wrote {output}; next: seatrial {'run' if runs_here else 'render'}{named}")
    return 0
