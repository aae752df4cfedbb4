"""The `image:` of a trial file: compares it with what its tag names now, and rewrites it in place.

Only the characters of the value change; comments, quotes, line endings and a byte order mark stay. The new text
replaces the old one in the file's own bytes, and the result must read back as the same document with another image.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from seatrial.errors import InputError, Place
from seatrial.image.client import HttpTimeout
from seatrial.image.reference import Reference, parse, pinned
from seatrial.image.registry import Resolved, resolve
from seatrial.trial import loader
from seatrial.trial.source import Source, read
from seatrial.trial.source import parse as parse_yaml

State = Literal["unpinned", "unchanged", "platform", "moved"]
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # PyYAML's line breaks: its marks count lines by them


@dataclass(frozen=True)
class Pin:
    """A reference as the user wrote it, and the image that it names now.

    `unpinned`: it has no digest. `unchanged`: its digest is what the tag names. `platform`: the tag names an index, and
    its digest is the manifest of `platform` in it. `moved`: the tag names another image now.
    """

    text: str
    reference: Reference
    now: Resolved
    state: State
    platform: str = ""

    @property
    def pinned(self) -> str:
        """The text with its tag and the digest of now. A digest that the tag still names stays as it is."""
        return self.text if self.state in ("unchanged", "platform") else pinned(self.text, self.now.digest)


def check(text: str, *, platform: str = "", plain_http: bool = False, timeout: HttpTimeout | None = None) -> Pin:
    """What the reference in `text` names now. A digest without a tag names itself. Raises what `resolve` raises."""
    reference = parse(text)
    followed = reference.unpinned if reference.tag else reference
    now = resolve(followed, platform=platform, plain_http=plain_http, timeout=timeout)
    if not reference.digest:
        return Pin(text, reference, now, "unpinned")
    if reference.digest == now.digest:
        return Pin(text, reference, now, "unchanged")
    within = next((name for name, digest in now.platforms if digest == reference.digest), "")
    return Pin(text, reference, now, "platform" if within else "moved", within)


def is_trial(text: str) -> bool:
    """Whether an argument means a trial file, not an image: it ends like one, or such a file exists."""
    return text.endswith((".yaml", ".yml")) or os.path.isfile(text)


def of_trial(path: Path) -> str:
    """The `image:` of a trial file, checked as a reference. Raises InputError with its place."""
    loaded = loader.load(path)
    if loaded.trial.image is None:
        place = loaded.source.place(())
        raise InputError("missing", place=place, field="image", expected="the image that the trial runs in")
    try:
        parse(loaded.trial.image)
    except InputError as error:
        place = loaded.source.place(("image",))
        raise InputError(error.seen, place=place, field="image", expected=error.expected) from None
    return loaded.trial.image


def write(path: Path, old: str, new: str) -> bool:
    """Replaces the image `old` of a trial file by `new`, atomically. False if they are equal. Raises InputError."""
    if old == new:
        return False
    raw = read(path)
    source = parse_yaml(raw, str(path))
    place = source.place(("image",))
    text = raw.decode("utf-8")
    at = _offset(text, place)
    quote = next((q for q in ("", '"', "'") if text.startswith(f"{q}{old}{q}", at)), None)
    if quote is None:
        raise _not_plain(place)
    start = at + len(quote)
    changed = (text[:start] + new + text[start + len(old) :]).encode("utf-8")
    if not _only_the_image(source, changed, new):
        raise _not_plain(place)
    _replace(path, changed)
    return True


def _offset(text: str, place: Place) -> int:
    """The offset of `place` in `text`, which may begin with a byte order mark."""
    start = 1 if text.startswith("\ufeff") else 0
    for _ in range(place.line - 1):
        match = _BREAK.search(text, start)
        start = match.end() if match else len(text)
    return start + place.column - 1


def _only_the_image(source: Source, changed: bytes, new: str) -> bool:
    try:
        after = parse_yaml(changed, "").data
    except InputError:
        return False
    return bool(after == {**source.data, "image": new})


def _not_plain(place: Place) -> InputError:
    return InputError(
        "cannot be rewritten in this form",
        place=place,
        field="image",
        expected="the reference itself, plain or in quotes",
    )


def _replace(path: Path, content: bytes) -> None:
    """Replaces a file's content in one step. Mode and, if permitted, owner stay. A symbolic link keeps its target."""
    target = path.resolve()
    try:
        before = target.stat()
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".seatrial-")
        try:
            with os.fdopen(descriptor, "wb") as handle:
                handle.write(content)
                handle.flush()
                with suppress(PermissionError):
                    os.fchown(descriptor, before.st_uid, before.st_gid)
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
                os.fsync(descriptor)
            os.replace(name, target)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(name)
            raise
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", place=Place(str(path))) from None
