"""The command line: one module for each command, loaded when it is called."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

import seatrial
from seatrial.errors import EXIT_INPUT, EXIT_INTERNAL, SeatrialError

COMMANDS = {
    "run": "run a trial and seal its record",
    "attach": "follow a run on a Ray cluster",
    "stop": "stop a run on a Ray cluster; it seals what it saw",
    "collect": "fetch the sealed record of a run on a Ray cluster",
    "init": "write a commented trial.yaml",
    "check": "check KubeRay manifests and trial files",
    "render": "write the Kubernetes manifests of a trial",
    "image": "resolve an image's tag to its digest",
    "catalog": "print what is known about instances and images",
    "show": "show the verdicts of a run",
    "transport": "read from NCCL logs which path the bytes took",
    "inspect": "look at a training job that already runs",
    "verify": "check that a sealed run is unchanged",
    "judge": "judge a run again, offline",
    "report": "write report.html and report.md again",
    "schema": "print the JSON schema of trial, record or events",
}


class Lazy(click.Group):
    """Imports a command's module only when it runs: `--help` loads neither torch nor ray nor pydantic."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"seatrial.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(seatrial.__version__, prog_name="seatrial", message="%(prog)s %(version)s")
def group() -> None:
    """Trials of distributed training: each claim about a run gets a verdict, with its evidence.

    \b
    Exit codes of run, and of show --exit-code:
      0   every claim that a run can establish is supported
      1   a claim is refuted
      2   the input is wrong
      3   none refuted, at least one not established
      4   the run ended early; what was seen is sealed
      70  a bug in seatrial
    """


def main(arguments: list[str] | None = None) -> None:
    """Entry point. A user's mistake gives one line and exit code 2, a bug in seatrial a traceback and exit code 70."""
    try:
        code: Any = group.main(args=arguments, prog_name="seatrial", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(EXIT_INPUT)
    except SeatrialError as error:
        for line in str(error).splitlines():
            click.echo(f"seatrial: {line}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(141)
    except OSError as error:
        click.echo(f"seatrial: {error.filename or 'the system'}: {error.strerror or error}", err=True)
        sys.exit(EXIT_INPUT)
    except Exception:
        import traceback

        traceback.print_exc()
        click.echo("seatrial: this is a bug in seatrial; please report it with the lines above", err=True)
        sys.exit(EXIT_INTERNAL)


if __name__ == "__main__":
    main()
