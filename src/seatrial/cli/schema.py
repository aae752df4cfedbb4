"""`seatrial schema`."""

from __future__ import annotations

import json
from typing import Any

import click


@click.command("schema", short_help="print the JSON schema of trial, record or events")
@click.argument("name", type=click.Choice(["trial", "record", "events"]))
def command(name: str) -> int:
    """Print the JSON schema (2020-12) of a trial file, a record, or a line of an event file."""
    click.echo(json.dumps(schema(name), indent=2, ensure_ascii=False))
    return 0


def schema(name: str) -> dict[str, Any]:
    """The schema by name."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    if name == "trial":
        from seatrial.trial import Trial

        return head | Trial.model_json_schema()
    if name == "record":
        from seatrial.record.schema import RecordDocument

        return head | RecordDocument.model_json_schema(by_alias=True)
    from seatrial.events.schema import line_schema

    return head | line_schema()
