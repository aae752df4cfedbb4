"""Where the API server has the resources of a kind, and the permission that a verb on them needs."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True)
class Collection:
    """The resources of a kind in one namespace, or in the whole cluster without one. The kind's plural is regular."""

    api_version: str  # `ray.io/v1`; the core API has no group: `v1`
    kind: str
    namespace: str = ""

    @property
    def path(self) -> str:
        """`/apis/ray.io/v1/namespaces/ml/rayjobs`, `/api/v1/nodes`."""
        group, _, version = self.api_version.rpartition("/")
        root = f"apis/{_quoted(group)}" if group else "api"
        within = f"/namespaces/{_quoted(self.namespace)}" if self.namespace else ""
        return f"/{root}/{_quoted(version)}{within}/{_quoted(self._plural)}"

    def member(self, name: str, part: str = "") -> str:
        """The path of one resource, or of a part of it such as `log`."""
        return f"{self.path}/{_quoted(name)}{f'/{part}' if part else ''}"

    def needs(self, verb: str, part: str = "") -> str:
        """The permission for a verb: `create rayjobs.ray.io in namespace ml`, `get pods/log in namespace ml`."""
        group = self.api_version.rpartition("/")[0]
        resource = f"{self._plural}{f'.{group}' if group else ''}{f'/{part}' if part else ''}"
        return f"{verb} {resource}{f' in namespace {self.namespace}' if self.namespace else ''}"

    @property
    def _plural(self) -> str:
        return f"{self.kind.lower()}{'es' if self.kind.endswith('s') else 's'}"


def _quoted(name: str) -> str:
    return quote(name, safe="")
