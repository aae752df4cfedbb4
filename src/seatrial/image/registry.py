"""Resolves a reference: the digest, the platforms and the labels of the image that it names now."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from seatrial.errors import InputError, clean
from seatrial.image import manifest
from seatrial.image.client import Client, HttpTimeout
from seatrial.image.manifest import Config, ImageManifest
from seatrial.image.reference import Reference, check_platform

PREFERRED = "linux/amd64"


@dataclass(frozen=True)
class Resolved:
    """The image that a reference names at its registry.

    `digest` is the digest of the index, or of the image if there is no index. `platforms` are pairs of
    `os/arch[/variant]` and a manifest's digest. `labels` are those of the platform `labels_of`, which is empty if no
    config could be read.
    """

    reference: Reference
    digest: str
    media_type: str
    platforms: tuple[tuple[str, str], ...]
    labels: dict[str, str] = field(default_factory=dict, hash=False)
    labels_of: str = ""

    @property
    def is_index(self) -> bool:
        """Whether the digest is that of an index over platforms."""
        return self.media_type in manifest.INDEXES

    def of(self, platform: str) -> tuple[tuple[str, str], ...]:
        """The manifests for one platform; `linux/arm64` includes `linux/arm64/v8`. Raises InputError for none."""
        found = tuple(pair for pair in self.platforms if f"{pair[0]}/".startswith(f"{platform}/"))
        if not found:
            has = ", ".join(sorted({name for name, _ in self.platforms})) or "no platform"
            raise InputError(
                f"saw {clean(platform)}", field="platform", expected=f"one that {self.reference} has: {has}"
            )
        return found


def resolve(
    reference: Reference, *, platform: str = "", plain_http: bool = False, timeout: HttpTimeout | None = None
) -> Resolved:
    """Asks the registry what `reference` names, by its digest if it has one, else by its tag.

    With `platform` the image must have this platform, and the labels are its labels. Raises InputError for a tag or
    a platform that does not exist, Altered for bytes without their digest, RegistryError if no usable answer comes.
    """
    check_platform(platform)
    with Client(reference, plain_http=plain_http, timeout=timeout) as client:
        top = _manifest(client, reference.asked)
        if top.config:
            config = _config(client, top)
            platforms = ((config.platform, top.digest),)
            found = Resolved(reference, top.digest, top.media_type, platforms, config.labels, config.platform)
        else:
            found = _labelled(client, Resolved(reference, top.digest, top.media_type, top.platforms), platform)
    if platform:
        found.of(platform)
    return found


def _manifest(client: Client, asked: str) -> ImageManifest:
    reply = client.get("manifests", asked, manifest.ACCEPT)
    return manifest.read(reply, asked, _where(client, asked))


def _config(client: Client, image: ImageManifest) -> Config:
    reply = client.get("blobs", image.config, "*/*")
    return manifest.config(reply, image.config, _where(client, image.config))


def _where(client: Client, asked: str) -> str:
    mark = "@" if ":" in asked else ":"
    return f"{client.reference.registry}/{client.reference.repository}{mark}{asked}"


def _labelled(client: Client, index: Resolved, platform: str) -> Resolved:
    """`index` with the labels of one platform. A mirror may lack a platform: the labels stay unknown then."""
    if not index.platforms:
        return index
    preferred = [pair for pair in index.platforms if pair[0] == PREFERRED]
    name, digest = (index.of(platform) if platform else preferred or index.platforms)[0]
    try:
        image = _manifest(client, digest)
        labels = _config(client, image).labels if image.config else {}
    except InputError:  # the registry has no such manifest
        return index
    return replace(index, labels=labels, labels_of=name if image.config else "")
