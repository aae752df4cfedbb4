"""`seatrial image`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from seatrial.cli.options import options
from seatrial.errors import EXIT_OK, EXIT_REFUTED, InputError, clean
from seatrial.image import comparison, pin
from seatrial.image.errors import NoTls

PLAIN = click.option("--plain-http", is_flag=True, help="use HTTP without TLS; localhost always does")
PLATFORM = click.option("--platform", default="", metavar="OS/ARCH", help="this platform alone, such as linux/amd64")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="print the result as one JSON document")
SAID = {
    "unpinned": "not pinned",
    "unchanged": "unchanged: the reference names the digest that is pinned",
    "platform": "unchanged: pinned to the {platform} manifest of the index that the tag names",
    "moved": "the tag moved: {old} is pinned, but the tag names {new} now",
}


@click.group("image", short_help="resolve an image's tag to its digest")
def command() -> None:
    """Ask a registry what an image's tag names now, pin it in a trial file, and compare two images.

    Credentials are those of `docker login`, from ~/.docker/config.json or the folder in DOCKER_CONFIG.
    """


@command.command("resolve", short_help="the digest that a tag names now")
@click.argument("what", metavar="REF|TRIAL")
@PLATFORM
@click.option("--write", is_flag=True, help="write the digest into the trial file, keeping all else byte for byte")
@click.option("--update", is_flag=True, help="with --write: replace a digest that the tag no longer names")
@PLAIN
@AS_JSON
def resolve(what: str, platform: str, write: bool, update: bool, plain_http: bool, as_json: bool) -> int:
    """Print the digest of an image or of a trial file's image, its platforms, and the reference to pin.

    Exit 0 resolved; 1 the tag no longer names the digest that is pinned; 2 no such image; 4 no answer.
    """
    trial = _trial(what, write, update)
    with _hints():
        found = pin.check(pin.of_trial(trial) if trial else what, platform=platform, plain_http=plain_http)
        shown = found.now.of(platform) if platform else found.now.platforms
    wrote = write and (found.state != "moved" or update) and pin.write(Path(what), found.text, found.pinned)
    if as_json:
        click.echo(json.dumps(_document(found, shown, trial, wrote), indent=2, ensure_ascii=False))
    else:
        _print(found, shown, trial, wrote)
    return EXIT_REFUTED if found.state == "moved" and not wrote else EXIT_OK


@command.command("same", short_help="whether two references name one image")
@click.argument("a")
@click.argument("b")
@PLATFORM
@PLAIN
@AS_JSON
def same(a: str, b: str, platform: str, plain_http: bool, as_json: bool) -> int:
    """Compare the images that A and B name, each a reference or a bare sha256:… digest. Names do not count.

    If both are pinned to the same digest, no registry is asked.

    Exit 0 the same; 1 different, or one is the manifest of one platform of the other (then use --platform).
    """
    with _hints():
        result = comparison.compare(a, b, platform=platform, plain_http=plain_http)
    if as_json:
        click.echo(json.dumps({"a": a, "b": b, "kind": result.kind, "why": result.why}, indent=2))
    else:
        click.echo(f"{result.kind}: {result.why}")
    return EXIT_OK if result.kind == "same" else EXIT_REFUTED


@contextmanager
def _hints() -> Iterator[None]:
    """Adds to an error which option it is about, or which one helps."""
    try:
        with options(platform="--platform"):
            yield
    except NoTls as error:
        raise NoTls(f"{error}; --plain-http if the registry has no TLS") from None


def _trial(what: str, write: bool, update: bool) -> Path | None:
    """The trial file, if `what` names one."""
    if update and not write:
        raise InputError("saw --update alone", field="--update", expected="--update together with --write")
    if pin.is_trial(what) or (write and Path(what).exists()):
        return Path(what)
    if write:
        raise InputError(f"saw {clean(what)}", field="--write", expected="a trial file to write to")
    return None


def _document(found: pin.Pin, shown: Any, trial: Path | None, wrote: bool) -> dict[str, Any]:
    now = found.now
    return {
        "reference": found.text,
        "digest": now.digest,
        "media_type": now.media_type,
        "platforms": [{"platform": name, "digest": digest} for name, digest in shown],
        "labels": now.labels,
        "labels_of": now.labels_of,
        "state": found.state,
        "pin": found.pinned,
        "trial": str(trial) if trial else None,
        "wrote": wrote,
    }


def _print(found: pin.Pin, shown: Any, trial: Path | None, wrote: bool) -> None:
    now = found.now
    rows = [("index" if now.is_index else "image", now.digest), *shown]
    rows += [("label", f"{clean(name)}={clean(value, 200)}") for name, value in sorted(now.labels.items())]
    if not now.labels_of:
        rows.append(("labels", "unknown: no config of the image could be read"))
    rows.append(("pin", found.pinned))
    width = max(len(name) for name, _ in rows)
    click.echo(found.text)
    for name, value in rows:
        click.echo(f"  {name:<{width}}  {value}")
    said = SAID[found.state].format(platform=found.platform, old=found.reference.digest, new=now.digest)
    where = f"{trial}: " if trial else ""
    click.echo(f"{where}wrote image: {found.pinned}" if wrote else f"{where}{said}")
