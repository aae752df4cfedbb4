"""Reads manifests: an index over platforms, or one image.

Formats: OCI image specification 1.1 (image-index.md, manifest.md, config.md) and Docker image manifest version 2,
schema 2. A document that could be read as both is refused (CVE-2021-41190).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seatrial.canon import parse, sha256
from seatrial.errors import clean
from seatrial.image.client import Reply
from seatrial.image.errors import Altered, RegistryError
from seatrial.image.reference import is_digest

INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
IMAGES = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
ACCEPT = ", ".join((*INDEXES, *IMAGES))
UNKNOWN = "unknown"


@dataclass(frozen=True)
class ImageManifest:
    """One manifest; `platforms` is empty for a single image, `config` is empty for an index."""

    digest: str
    media_type: str
    platforms: tuple[tuple[str, str], ...] = ()
    config: str = ""


@dataclass(frozen=True)
class Config:
    """The content of a config blob: the platform `os/architecture[/variant]`, and the labels."""

    platform: str
    labels: dict[str, str]


def checked(reply: Reply, asked: str, where: str) -> str:
    """The sha256 of the bytes. Raises Altered if the registry's header, or the digest asked for, differs."""
    seen = sha256(reply.body)
    if reply.digest and reply.digest != seen:
        raise Altered(f"{where}: the registry states {clean(reply.digest, 100)}, but its bytes have the digest {seen}")
    if is_digest(asked) and asked != seen:
        raise Altered(f"{where}: asked for {asked}, but the bytes have the digest {seen}")
    return seen


def read(reply: Reply, asked: str, where: str) -> ImageManifest:
    """The manifest in a reply. Raises Altered, or RegistryError if it is neither an index nor an image."""
    digest = checked(reply, asked, where)
    document = _object(reply.body, where)
    media_type = document.get("mediaType") or reply.media_type
    if reply.media_type in (*INDEXES, *IMAGES) and media_type != reply.media_type:
        raise RegistryError(f"{where}: sent as {reply.media_type}, but its mediaType is {clean(str(media_type), 100)}")
    if media_type in INDEXES and "config" not in document and "layers" not in document:
        return ImageManifest(digest, media_type, platforms=_platforms(document, where))
    if media_type in IMAGES and "manifests" not in document:
        return ImageManifest(digest, media_type, config=_digest(document.get("config"), where))
    raise RegistryError(f"{where}: saw a document of type {clean(str(media_type), 100)}; expected an image or an index")


def config(reply: Reply, asked: str, where: str) -> Config:
    """The config blob in a reply; an artifact that is not an image has the platform `unknown` and no labels."""
    checked(reply, asked, where)
    document = _object(reply.body, where)
    inner = document.get("config")
    labels = inner.get("Labels") if isinstance(inner, dict) else None
    pairs = labels.items() if isinstance(labels, dict) else ()
    return Config(_platform(document), {str(name): str(value) for name, value in pairs})


def _object(body: bytes, where: str) -> dict[str, Any]:
    try:
        document = parse(body)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise RegistryError(f"{where}: saw {len(body)} bytes that are no JSON object; expected a manifest")
    return document


def _platforms(index: dict[str, Any], where: str) -> tuple[tuple[str, str], ...]:
    """Platform and digest of each image in an index. Entries without a platform, such as attestations, are left out."""
    entries = index.get("manifests")
    if not isinstance(entries, list):
        raise RegistryError(f"{where}: the index has no list of manifests")
    found = tuple((_platform(_part(entry).get("platform")), _digest(entry, where)) for entry in entries)
    return tuple((platform, digest) for platform, digest in found if platform != UNKNOWN)


def _platform(document: object) -> str:
    """`linux/arm64/v8` from os, architecture and variant; `unknown` if os or architecture is missing."""
    part = _part(document)
    names = [part.get(key) for key in ("os", "architecture", "variant")]
    if not all(isinstance(name, str) and name not in ("", UNKNOWN) for name in names[:2]):
        return UNKNOWN
    return clean("/".join(str(name) for name in names if name), 100)


def _digest(descriptor: object, where: str) -> str:
    digest = _part(descriptor).get("digest")
    if not (isinstance(digest, str) and is_digest(digest)):
        raise RegistryError(f"{where}: a descriptor's digest is {clean(str(digest), 100)}; expected sha256:…")
    return digest


def _part(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
