"""KubeRay's operator, as its Deployment shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from seatrial.kube import Json
from seatrial.kube.apimachinery import version

LABELS = "app.kubernetes.io/name in (kuberay-operator,kuberay)"  # of KubeRay's Helm chart and kustomization


@dataclass(frozen=True)
class Operator:
    """KubeRay's operator, by the container of its Deployment."""

    namespace: str
    image: str
    version: str  # of the image's tag, `1.6.1`; empty where the tag has none
    gates: Mapping[str, bool]  # as --feature-gates sets them; the others have their defaults
    scheduler: str | None  # batch scheduler, empty for none; None where a configuration file in the pod sets it

    @classmethod
    def of(cls, deployment: Json) -> Operator:
        """The container is the one with `kuberay` in its name or image, else the first."""
        containers = deployment["spec"]["template"]["spec"]["containers"]
        ours = (c for c in containers if "kuberay" in c["name"] or "kuberay" in c["image"])
        container = next(ours, containers[0])
        words = [*(container.get("command") or ()), *(container.get("args") or ())]
        tag = container["image"].partition("@")[0].rpartition("/")[2].partition(":")[2]
        parsed = version(tag)
        return cls(
            deployment["metadata"]["namespace"],
            container["image"],
            ".".join(map(str, parsed)) if parsed else "",
            _gates(_flag(words, "feature-gates") or ""),
            _scheduler(words),
        )


def _flag(words: list[str], name: str) -> str | None:
    """The value of `--name=value`, `--name value` or a bare `--name`, which is `true`; None where it is not given."""
    for position, word in enumerate(words):
        key, equals, value = word.partition("=")
        if key.lstrip("-") == name and key.startswith("-"):
            following = words[position + 1] if position + 1 < len(words) else "-"
            return value if equals else "true" if following.startswith("-") else following
    return None


def _gates(text: str) -> dict[str, bool]:
    pairs = (part.partition("=") for part in text.split(",") if "=" in part)
    return {name.strip(): value.strip().lower() == "true" for name, _, value in pairs}


def _scheduler(words: list[str]) -> str | None:
    """KubeRay's --batch-scheduler, or the older --enable-batch-scheduler, which means Volcano."""
    if _flag(words, "config") is not None:
        return None
    legacy = "volcano" if _flag(words, "enable-batch-scheduler") == "true" else ""
    return _flag(words, "batch-scheduler") or legacy
