"""The input once more, for the cluster: its Ray resources, and what it would create beside them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from seatrial.check import inputs
from seatrial.check.manifest import Manifest, is_ray, unlisted
from seatrial.check.reading import documents
from seatrial.check.server.interview import Given
from seatrial.check.values import Value
from seatrial.errors import InputError

_BESIDE = ("Namespace", "ServiceAccount", "PersistentVolumeClaim", "PersistentVolume", "StorageClass", "LocalQueue")


def read(paths: tuple[Path, ...], stdin: BinaryIO | None) -> Given:
    """What cannot be read is left out: the check without a cluster has said so. `stdin` stands at its beginning.

    Raises InputError for standard input that was read already.
    """
    if stdin is None and any(str(path) == inputs.STDIN for path in paths):
        raise InputError("standard input cannot be read twice", field="--server", fix="write it to a file first")
    manifests, others = list[Manifest](), list[Value]()
    for name, raw in _texts(paths, stdin):
        roots = [root for item in documents(raw, name) if not isinstance(item, InputError) for root in unlisted(item)]
        beside = [root for root in roots if not is_ray(root)]
        manifests += [Manifest(root, tuple(beside)) for root in roots if is_ray(root)]
        others += [root for root in beside if root["kind"].raw in _BESIDE]
    return Given(tuple(manifests), tuple(others))


def _texts(paths: tuple[Path, ...], stdin: BinaryIO | None) -> Iterator[tuple[str, bytes]]:
    for item in inputs.files(paths):
        if isinstance(item, InputError):
            continue
        try:
            raw = inputs.content(item.path, stdin)  # type: ignore[arg-type]  # None only where no path is `-`
            if inputs.is_trial(raw):
                rendered = inputs.trial(item.path)[1]
                yield from ((f"{item.path}#{name}", text.encode()) for name, text in rendered.items())
                continue
        except InputError:
            continue
        if inputs.concerns(raw) or any(kind.encode() in raw for kind in _BESIDE):
            yield inputs.name(item.path), raw
