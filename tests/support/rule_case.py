"""One rule's broken and right manifest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.support.manifests import changed


@dataclass(frozen=True)
class Case:
    """`broken` and `right` are changes to the clean resource, or whole documents as text."""

    rule: str
    broken: dict[str, Any] | str
    right: dict[str, Any] | str = field(default_factory=dict)
    kind: str = "RayCluster"
    facts: dict[str, Any] = field(default_factory=dict)
    right_facts: dict[str, Any] | None = None  # where they differ

    def broken_text(self) -> str:
        return self.broken if isinstance(self.broken, str) else changed(self.broken, self.kind)

    def right_text(self) -> str:
        return self.right if isinstance(self.right, str) else changed(self.right, self.kind)
