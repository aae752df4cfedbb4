"""README.md beside the manifests: how to apply them, watch the job and read the verdicts, and which permissions that
needs."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, Environment, FunctionLoader, StrictUndefined

from seatrial.hardware import image
from seatrial.render.context import ENTRYPOINT, RenderContext
from seatrial.render.objects import TTL_S
from seatrial.render.patch import pointer
from seatrial.render.template import REPLACED

Operations = list[dict[str, Any]]


def manifests(
    context: RenderContext,
    kind: str,
    name: str,
    namespace: str | None,
    kinds: list[str],
    order: tuple[str, ...],
    changes: Operations,
) -> str:
    """The README of files that kubectl applies."""
    facts = image(context.trial.image) if context.trial.image else None
    return _filled(
        "manifests.md",
        **_shared(context, kind, name, kinds, changes),
        namespace=namespace,
        kubectl=f"kubectl -n {namespace}" if namespace else "kubectl",
        order=order,
        claims="PersistentVolumeClaim" in kinds,
        entrypoint=ENTRYPOINT,
        ttl=TTL_S,
        eks=context.trial.cluster.provider == "eks",
        unpinned=bool(context.trial.image) and "@sha256:" not in str(context.trial.image),
        floating=bool(facts and facts.floating),
    )


def component(
    context: RenderContext, kind: str, name: str, kinds: list[str], namespace: str | None, changes: Operations
) -> str:
    """The README of a kustomize component. `namespace` is the one that the base names."""
    return _filled("component.md", **_shared(context, kind, name, kinds, changes), namespace=namespace, folder=name)


def _shared(context: RenderContext, kind: str, name: str, kinds: list[str], changes: Operations) -> dict[str, Any]:
    verbs = {"add": "added", "replace": "replaced"}
    return {
        "trial": context.trial.metadata.name,
        "digest": context.digest,
        "slug": context.trial.slug,
        "storage": context.trial.storage.path.rstrip("/"),
        "kind": kind,
        "name": name,
        "kinds": sorted({f"{each}s" for each in kinds}),
        "kept": any(pointer(("metadata", "annotations", REPLACED)) in op["path"] for op in changes),
        "additions": [(verbs[op["op"]], op["path"]) for op in changes if op["op"] in verbs],
    }


def _filled(template: str, **values: Any) -> str:
    folder = files("seatrial.render") / "templates"
    loader: BaseLoader = FunctionLoader(lambda each: (folder / each).read_text(encoding="utf-8"))
    # No escaping: this is Markdown, and its values come from the reader's own trial.
    environment = Environment(
        loader=loader, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    return environment.get_template(template).render(values)
