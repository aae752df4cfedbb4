"""Image tags: the content of AWS's Ray Deep Learning Containers (DLC), and the meaning of the tags of rayproject/ray.

The table has one row for each DLC release. Its floating tags follow from AWS's rule: `<image>`, `<image>-v1` and
`<image>-v1.1` move to the newest release that they cover, `<image>-v1.1.0` never moves. So the content of
a floating tag is unverified, whatever the table says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from seatrial.hardware.table import cited, document, rows

TABLE = "images.json"
VERSIONS = ("ray", "torch", "cuda", "python", "nccl", "efa_installer", "ofi_nccl", "packages")

_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    r"(?:(?P<host>(?:[A-Za-z0-9-]+\.)+[A-Za-z0-9-]+(?::[0-9]+)?|[A-Za-z0-9-]+:[0-9]+|localhost)/)?"
    rf"(?P<path>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>[a-z0-9]+:[0-9a-f]+))?"
)
_PRIVATE_ECR = re.compile(r"(?P<account>[0-9]{12})\.dkr\.ecr\.[a-z0-9-]+\.amazonaws\.com(?:\.cn)?")
_RAY_TAG = re.compile(r"(?:(?P<ray>[0-9]+\.[0-9]+\.[0-9]+)|latest|nightly)(?P<suffix>(?:-[A-Za-z0-9_.]+)*)")


@dataclass(frozen=True)
class ImageFacts:
    """The facts about an image. None is unknown; a CPU image has no `cuda`."""

    reference: str  # repository:tag, or the pattern of tags that matched
    floating: bool  # the tag can move; never true beside a digest
    points_to: str | None  # the release that a floating tag named when it was last read; None for other tags
    dlc: bool  # one of AWS's Ray DLCs
    training: bool | None  # carries the training and EFA stack
    ray: str | None
    torch: str | None
    cuda: str | None
    python: str | None
    nccl: str | None
    efa_installer: str | None
    ofi_nccl: str | None
    packages: tuple[tuple[str, str], ...]  # name and version of other packages
    has_wget: bool | None  # KubeRay's older probes need it
    source: str
    unverified: tuple[str, ...]

    @property
    def tag(self) -> str:
        return self.reference.rpartition(":")[2]


@dataclass(frozen=True)
class _Reference:
    host: str
    path: str  # begins with a slash, so that `endswith` compares whole parts
    tag: str
    digest: str


def image(reference: str) -> ImageFacts | None:
    """The facts about an image by its reference; None if it is unknown.

    The registry and a pull-through prefix do not matter: the path must end in `deep-learning-containers/ray` or
    `rayproject/ray`. In private ECR the name `ray` is enough. A digest without a tag tells nothing.
    """
    parsed = _parse(reference)
    if parsed is None:
        return None
    facts = _by_tag().get(parsed.tag) if _is_dlc(parsed) else _rayproject(parsed)
    return replace(facts, floating=False) if facts and parsed.digest else facts


def dlc_repository(reference: str) -> bool:
    """Whether a reference names the Ray DLC repository, with any tag: an unknown tag of it is not an unknown image.

    In private ECR any account may have a repository `ray`: outside AWS's own accounts the tag must begin like a DLC's.
    """
    parsed = _parse(reference)
    return parsed is not None and _is_dlc(parsed)


@cache
def images() -> tuple[ImageFacts, ...]:
    """Every known tag of the Ray DLCs. A floating tag comes before the releases that it covers."""
    found: dict[tuple[str, tuple[int, ...]], ImageFacts] = {}
    for row in sorted(rows(TABLE), key=lambda row: _numbers(row["version"])):
        version = _numbers(row["version"])
        for name in row["images"]:
            found[(name, version)] = release = _release(name, row)
            for length in range(len(version)):  # a newer release takes the floating tags over
                found[(name, version[:length])] = _floating(name, version[:length], release, row)
    return tuple(facts for _, facts in sorted(found.items()))


@cache
def _by_tag() -> dict[str, ImageFacts]:
    return {facts.tag: facts for facts in images()}


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _release(name: str, row: dict[str, Any]) -> ImageFacts:
    known = {key: value for key, value in row.items() if key not in ("images", "version", "date")}
    return ImageFacts(
        **known
        | {
            "reference": f"{document(TABLE)['repository']}:{name}-v{row['version']}",
            "floating": False,
            "points_to": None,
            "dlc": True,
            "packages": tuple(row["packages"].items()),
            "source": f"{row['source']}; released {row['date']}",
        }
    )


def _floating(name: str, version: tuple[int, ...], release: ImageFacts, row: dict[str, Any]) -> ImageFacts:
    tag = f"{name}-v{'.'.join(map(str, version))}" if version else name
    read = document(TABLE)["read"][_family(name)]
    return replace(
        release,
        reference=f"{document(TABLE)['repository']}:{tag}",
        floating=True,
        points_to=release.tag,
        source=f"{row['source']}; {cited(TABLE, 'tags')}; last read {read}",
        unverified=(*VERSIONS, *(field for field in release.unverified if field not in VERSIONS)),
    )


def _family(name: str) -> str:
    """`train-ml` of `train-ml-cuda`: the releases that share a changelog."""
    return "-".join(name.split("-")[:2])


def _parse(reference: str) -> _Reference | None:
    found = _REFERENCE.fullmatch(reference)
    if not found:
        return None
    host, path, tag, digest = (found[name] or "" for name in ("host", "path", "tag", "digest"))
    return _Reference(host.lower(), f"/{path}", tag, digest)


def _is_dlc(parsed: _Reference) -> bool:
    if parsed.path.endswith("/deep-learning-containers/ray"):
        return True
    private = _PRIVATE_ECR.fullmatch(parsed.host)
    if not private or not parsed.path.endswith("/ray"):
        return False
    if parsed.path == "/ray" and private["account"] in document(TABLE)["accounts"]:
        return True
    return _family(parsed.tag) in document(TABLE)["read"]


def _rayproject(parsed: _Reference) -> ImageFacts | None:
    """The facts in a tag `x.y.z[-pyXY][-cuXYZ|-cpu|-gpu]`. A reference without a tag means `latest`."""
    if not parsed.path.endswith("/rayproject/ray"):
        return None
    tag = parsed.tag or ("" if parsed.digest else "latest")
    found = _RAY_TAG.fullmatch(tag)
    if not found:
        return None
    ray, floating = found["ray"], found["ray"] is None
    return ImageFacts(
        reference=f"rayproject/ray:{tag if floating else 'X.Y.Z[-suffix]'}",
        floating=floating,
        points_to=None,
        dlc=False,
        training=None,
        ray=ray,
        torch=None,
        cuda=_dotted(r"-cu([0-9]+)([0-9])(?=-|$)", found["suffix"]),
        python=_dotted(r"-py([0-9])([0-9]+)(?=-|$)", found["suffix"]),
        nccl=None,
        efa_installer=None,
        ofi_nccl=None,
        packages=(),
        has_wget=True,
        source=cited(TABLE, "rayproject rayproject-dockerfile"),
        unverified=("has_wget", *VERSIONS) if floating else ("has_wget",),
    )


def _dotted(pattern: str, suffix: str) -> str | None:
    found = re.search(pattern, suffix)
    return f"{found[1]}.{found[2]}" if found else None
