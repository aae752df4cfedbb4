"""`seatrial catalog`."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

import click

from seatrial.errors import InputError, clean
from seatrial.hardware import catalog
from seatrial.hardware.catalog import KINDS, Entry

COLUMNS = {
    "instances": {
        "instance": "name", "gpus": "gpus", "gpu": "gpu", "gpu MiB": "gpu_memory_mib", "neuron": "neuron_devices",
        "vcpus": "vcpus", "MiB": "memory_mib", "Mbps": "network_mbps", "efa": "efa", "gdr": "gdr", "nvlink": "nvlink",
    },
    "images": {
        "tag": "tag", "ray": "ray", "torch": "torch", "cuda": "cuda", "python": "python", "nccl": "nccl",
        "efa": "efa_installer", "ofi-nccl": "ofi_nccl", "training": "training", "points to": "points_to",
    },
    "gpus": {
        "gpu": "name", "bf16 TFLOPS": "bf16_dense_tflops", "GB/s": "memory_gb_per_s", "trap": "trap",
    },
}  # fmt: skip
NOTHING = ("gpu", "gpu_memory_mib", "nvlink", "points_to")  # fields where None means absent, not unknown


@click.command("catalog", short_help="print what is known about instances and images")
@click.argument("kind", type=click.Choice(KINDS))
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="print one JSON document: a list, or with NAME one entry")
def command(kind: str, name: str | None, as_json: bool) -> int:
    """Print a table of what is known, or everything known about NAME with its source.

    An image's NAME is a reference, or the tag of a Ray DLC.
    """
    found = catalog.entries(kind) if name is None else (_named(kind, name),)
    if as_json:
        documents = [_document(entry) for entry in found]
        click.echo(json.dumps(documents if name is None else documents[0], indent=2, ensure_ascii=False))
    elif name is None:
        click.echo("\n".join(_table(kind, found)))
    else:
        click.echo("\n".join(_details(found[0])))
    return 0


def _named(kind: str, name: str) -> Entry:
    found = catalog.entry(kind, name)
    if found is None:
        close = catalog.close(kind, name)
        fix = f"did you mean {', '.join(close)}?" if close else f"`seatrial catalog {kind}` lists them"
        raise InputError(f"saw {clean(name)}", field="NAME", expected=f"one of the known {kind}", fix=fix)
    return found


def _document(entry: Entry) -> dict[str, Any]:
    document = asdict(entry)
    if "packages" in document:
        document["packages"] = dict(document["packages"])
    return document


def _table(kind: str, entries: tuple[Entry, ...]) -> list[str]:
    """Aligned lines: numbers to the right, `*` behind what is unverified, `?` for what is unknown."""
    heads, names = list(COLUMNS[kind]), list(COLUMNS[kind].values())
    lines = [heads, *([_cell(entry, name) for name in names] for entry in entries)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    right = [any(isinstance(getattr(entry, name), int | float) for entry in entries) for name in names]
    shown = [
        "  ".join(
            text.rjust(width) if numeric else text.ljust(width)
            for text, width, numeric in zip(line, widths, right, strict=True)
        ).rstrip()
        for line in lines
    ]
    return [*shown, "", f"* unverified   ? unknown   `seatrial catalog {kind} NAME` gives the source"]


def _cell(entry: Entry, name: str) -> str:
    value = getattr(entry, name)
    if value is None:
        return "-" if name in NOTHING else "?"
    return _text(value) + ("*" if name in entry.unverified else "")


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(" ".join(item) if isinstance(item, tuple) else str(item) for item in value)
    return str(value)


def _details(entry: Entry) -> list[str]:
    """`field  value` for each known field, then the unknown fields, then each source on its own line."""
    values = {field.name: getattr(entry, field.name) for field in fields(entry)}
    sources = values.pop("source").split("; ")
    unknown = tuple(name for name, value in values.items() if value is None and name not in NOTHING)
    known = {name: _text(value) for name, value in values.items() if value not in (None, (), "")}
    pairs = [*known.items(), *([("unknown", ", ".join(unknown))] if unknown else [])]
    pairs += [("source" if line == sources[0] else "", line) for line in sources]
    width = max(len(name) for name, _ in pairs)
    return [f"{name:<{width}}  {text}" for name, text in pairs]
