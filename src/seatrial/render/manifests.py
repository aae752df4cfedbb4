"""From a trial to files. The same trial and the same seatrial give the same bytes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from seatrial.errors import InputError
from seatrial.render import emit, objects, readme
from seatrial.render.context import RenderContext, context_of, ray_version
from seatrial.render.template import Extended, extend, read_template
from seatrial.trial import Trial

ACCESS, CLAIM, CONFIG = "00-access.yaml", "00-storage.yaml", "configmap.yaml"


@dataclass(frozen=True)
class Rendered:
    """The files by name. `order` names the files for kubectl; it is empty for a component, which its base applies."""

    name: str
    namespace: str | None
    digest: str
    kind: str
    files: dict[str, str]
    order: tuple[str, ...]

    def stream(self) -> str:
        """All documents in one text, for `kubectl apply -f -`."""
        return emit.stream([self.files[name] for name in self.order])


def render(
    trial: Trial,
    *,
    cluster_only: bool = False,
    kustomize: bool = False,
    base: str | None = None,
    name_suffix: bool = True,
) -> Rendered:
    """The manifests of a trial.

    `cluster_only` renders a RayCluster without a job. `kustomize` renders a component for the base in
    `cluster.template.from`. `base` is the text of that manifest; without it the file is read. Raises InputError.
    """
    template = trial.cluster.template
    generated = template is None and base is None
    context = context_of(trial, name_suffix, generated)
    if generated:
        if kustomize:
            raise InputError(
                "missing",
                field="cluster.template",
                expected="{from: FILE}, the manifest of the base that the component changes",
            )
        return _generated(context, cluster_only)
    path = template.from_ if template else "the template"
    added = extend(context, read_template(path) if base is None else base, path, as_patch=kustomize)
    if cluster_only and added.kind != "RayCluster":
        raise InputError(f"{path} holds a {added.kind}", field="cluster_only", expected="a template with a RayCluster")
    return _component(context, added) if kustomize else _extended(context, added, PurePath(path).name)


def _generated(context: RenderContext, cluster_only: bool) -> Rendered:
    ray = ray_version(context.trial)
    main = objects.ray_cluster(context, ray) if cluster_only else objects.ray_job(context, ray)
    documents: dict[str, list[dict[str, Any]]] = {ACCESS: objects.access(context)}
    if claim := objects.claim(context):
        documents[CLAIM] = [claim]
    documents[CONFIG] = objects.configs(context)
    documents[f"{main['kind'].lower()}.yaml"] = [main]
    return _rendered(context, main["kind"], context.name, context.trial.cluster.namespace, documents)


def _extended(context: RenderContext, added: Extended, path: str) -> Rendered:
    header = f"{path} with seatrial's additions, which README.md lists. The comments of {path} are not kept."
    documents = {
        CONFIG: objects.configs(context, {"namespace": added.namespace} if added.namespace else {}),
        f"{added.kind.lower()}.yaml": added.documents,
    }
    namespace = added.namespace or context.trial.cluster.namespace
    return _rendered(context, added.kind, added.name, namespace, documents, header, added.operations)


def _component(context: RenderContext, added: Extended) -> Rendered:
    patch = f"patch-{added.kind.lower()}.yaml"
    target = {"group": "ray.io", "version": added.version, "kind": added.kind}
    if added.name and "$" not in added.name:
        target["name"] = added.name
    component = {
        "apiVersion": "kustomize.config.k8s.io/v1alpha1",
        "kind": "Component",
        "resources": [CONFIG],
        "patches": [{"path": patch, "target": target}],
    }
    namespace = added.namespace or context.trial.cluster.namespace
    configs = objects.configs(context, {"namespace": added.namespace} if added.namespace else {})
    files = {
        CONFIG: emit.stream([emit.document(config) for config in configs]),
        patch: emit.document(added.operations, "What a trial needs, as JSON patch operations (RFC 6902)."),
        "kustomization.yaml": emit.document(component),
        "README.md": readme.component(
            context, added.kind, added.name, _kinds(configs), added.namespace, added.operations
        ),
    }
    return Rendered(added.name, namespace, context.digest, added.kind, files, ())


def _rendered(
    context: RenderContext,
    kind: str,
    name: str,
    namespace: str | None,
    documents: dict[str, list[dict[str, Any]]],
    header: str = "",
    operations: list[dict[str, Any]] | None = None,
) -> Rendered:
    files = {
        file: emit.stream(
            [emit.document(each, header if each is parts[0] and file != CONFIG else "") for each in parts]
        )
        for file, parts in documents.items()
    }
    order = tuple(documents)
    kinds = _kinds([each for parts in documents.values() for each in parts])
    files["README.md"] = readme.manifests(context, kind, name, namespace, kinds, order, operations or [])
    return Rendered(name, namespace, context.digest, kind, files, order)


def _kinds(documents: list[Any]) -> list[str]:
    return [str(document["kind"]) for document in documents if isinstance(document, dict) and document.get("kind")]
