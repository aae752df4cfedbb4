"""README.md beside the manifests: how to apply them, how to watch, how to read verdicts, who may read what."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, Environment, FunctionLoader, StrictUndefined

from seatrial.hardware import image
from seatrial.render.frame import ENTRYPOINT, Frame
from seatrial.render.objects import TTL_S
from seatrial.render.patch import pointer
from seatrial.render.template import REPLACED

Operations = list[dict[str, Any]]


def manifests(
    own: Frame,
    kind: str,
    name: str,
    namespace: str | None,
    kinds: list[str],
    order: tuple[str, ...],
    changes: Operations,
) -> str:
    """For files that kubectl applies."""
    facts = image(own.trial.image) if own.trial.image else None
    return _filled(
        "manifests.md",
        **_shared(own, kind, name, kinds, changes),
        namespace=namespace,
        kubectl=f"kubectl -n {namespace}" if namespace else "kubectl",
        order=order,
        claims="PersistentVolumeClaim" in kinds,
        entrypoint=ENTRYPOINT,
        ttl=TTL_S,
        eks=own.trial.cluster.provider == "eks",
        unpinned=bool(own.trial.image) and "@sha256:" not in str(own.trial.image),
        floating=bool(facts and facts.floating),
    )


def component(own: Frame, kind: str, name: str, kinds: list[str], namespace: str | None, changes: Operations) -> str:
    """For a kustomize component; `namespace` is what the base names."""
    return _filled("component.md", **_shared(own, kind, name, kinds, changes), namespace=namespace, folder=name)


def _shared(own: Frame, kind: str, name: str, kinds: list[str], changes: Operations) -> dict[str, Any]:
    verbs = {"add": "added", "replace": "replaced"}
    return {
        "trial": own.trial.metadata.name,
        "digest": own.digest,
        "slug": own.trial.slug,
        "storage": own.trial.storage.path.rstrip("/"),
        "kind": kind,
        "name": name,
        "kinds": sorted({f"{each}s" for each in kinds}),
        "kept": any(pointer(("metadata", "annotations", REPLACED)) in op["path"] for op in changes),
        "additions": [(verbs[op["op"]], op["path"]) for op in changes if op["op"] in verbs],
    }


def _filled(template: str, **values: Any) -> str:
    folder = files("seatrial.render") / "templates"
    loader: BaseLoader = FunctionLoader(lambda each: (folder / each).read_text(encoding="utf-8"))
    # Markdown, not HTML: what stands in it are the trial's own words, for the one who wrote them.
    environment = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.get_template(template).render(values)
