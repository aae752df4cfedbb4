"""Image references: `[host[:port]/]path[:tag][@sha256:…]`.

The grammar and the defaults are those of the distribution project (github.com/distribution/reference, reference.go,
regexp.go and normalize.go): without a host the registry is docker.io, and a name of one part there is in `library/`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, replace

from seatrial.errors import InputError, clean

DOCKER_HUB = "docker.io"
DEFAULT_TAG = "latest"
EXPECTED = "an image reference such as registry.example/team/image:tag@sha256:…"
MAX_REPOSITORY = 255

_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_HOST = re.compile(rf"(?:{_LABEL}(?:\.{_LABEL})*|\[(?P<v6>[0-9a-fA-F:]+)\])(?::(?P<port>[0-9]{{1,5}}))?")
_PATH_PART = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_IMAGE_ID = re.compile(r"[0-9a-f]{64}")
_ALGORITHMS = ("sha256:", "sha384:", "sha512:")
_PLATFORM = re.compile(r"[a-z0-9]+/[a-z0-9_]+(?:/[a-z0-9.]+)?")


@dataclass(frozen=True)
class Reference:
    """One image as a registry knows it; `tag` and `digest` are empty if the text has none."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        digest = f"@{self.digest}" if self.digest else ""
        return f"{self.registry}/{self.repository}{tag}{digest}"

    @property
    def asked(self) -> str:
        """What a container runtime asks the registry for: the digest, else the tag, else `latest`."""
        return self.digest or self.tag or DEFAULT_TAG

    @property
    def unpinned(self) -> Reference:
        """The same name and tag without the digest."""
        return replace(self, digest="")


def parse(text: str) -> Reference:
    """The reference in `text`. Raises InputError, and no other exception, with what was seen and expected."""
    if "://" in text:
        raise _wrong(text, "a URL", EXPECTED)
    head, at, digest = text.partition("@")
    bare = "/" not in head and head.startswith(_ALGORITHMS)  # else the digits would be a tag at docker.io
    if (at and not is_digest(digest)) or (bare and not is_digest(head)):
        raise _wrong(
            text, f"digest {_quoted(digest if at else head)}", "sha256: and 64 hexadecimal digits in lower case"
        )
    if bare:
        raise _wrong(text, "a digest without a name", EXPECTED)
    name, tag = _tag(head, text)
    registry, repository = _split(name)
    _check_registry(registry, text)
    _check_repository(repository, text)
    if registry == "index.docker.io":
        registry = DOCKER_HUB
    if registry == DOCKER_HUB and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(registry, repository, tag, digest)


def pinned(text: str, digest: str) -> str:
    """`text`, a reference in the user's own spelling, with its tag (`latest` if it has none) and `digest`."""
    head = text.partition("@")[0]
    reference = parse(text)
    tag = "" if reference.tag or reference.digest else f":{DEFAULT_TAG}"
    return f"{head}{tag}@{digest}"


def check_platform(text: str) -> None:
    """Raises InputError unless `text` names a platform as registries do. Empty text means any platform."""
    if text and not _PLATFORM.fullmatch(text):
        expected = "OS/ARCH or OS/ARCH/VARIANT, such as linux/amd64"
        raise InputError(f"saw {_quoted(text)}", field="platform", expected=expected)


def is_digest(text: str) -> bool:
    """Whether `text` is `sha256:` and 64 hexadecimal digits."""
    return bool(_DIGEST.fullmatch(text))


def _tag(head: str, text: str) -> tuple[str, str]:
    """Name and tag. A colon before the last slash belongs to a port, a colon in brackets to an IPv6 address."""
    name, colon, tag = head.rpartition(":")
    if not colon or "/" in tag:
        return head, ""
    if not _TAG.fullmatch(tag):
        raise _wrong(text, f"tag {_quoted(tag)}", "1 to 128 letters, digits, _, . and -, not beginning with . or -")
    return name, tag


def _split(name: str) -> tuple[str, str]:
    first, slash, rest = name.partition("/")
    if slash and (any(mark in first for mark in ".:") or first == "localhost" or first != first.lower()):
        return first, rest
    return DOCKER_HUB, name


def _check_registry(registry: str, text: str) -> None:
    match = _HOST.fullmatch(registry)
    if not match or not 0 < int(match["port"] or 1) <= 65535 or (match["v6"] and not _is_ipv6(match["v6"])):
        raise _wrong(text, f"registry {_quoted(registry)}", "host or host:port")


def _is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def _check_repository(repository: str, text: str) -> None:
    if not repository:
        raise _wrong(text, "no name", EXPECTED)
    if len(repository) > MAX_REPOSITORY:
        raise _wrong(text, f"a name of {len(repository)} characters", f"at most {MAX_REPOSITORY}")
    if _IMAGE_ID.fullmatch(repository):
        raise _wrong(text, "an image id", EXPECTED)
    for part in repository.split("/"):
        if not _PATH_PART.fullmatch(part):
            expected = "lower-case letters and digits, with . _ __ or - between them"
            raise _wrong(text, f"name part {_quoted(part)}", expected)


def _wrong(text: str, seen: str, expected: str) -> InputError:
    where = f" in {_quoted(text)}" if text else ""
    return InputError(f"saw {seen}{where}", expected=expected)


def _quoted(text: str) -> str:
    return clean(f'"{text}"', 200)
