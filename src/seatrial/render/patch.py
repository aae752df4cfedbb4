"""Changes to documents: a pod patch merged the way Kubernetes merges, and edits kept as JSON patch operations."""

from __future__ import annotations

import copy
from typing import Any

KeyPath = tuple[str | int, ...]
# Lists that Kubernetes merges item by item, and the key that tells the items apart; all others are replaced.
_MERGED = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "topologySpreadConstraints": "topologyKey",
}


def merged(base: Any, patch: Any, name: str = "") -> Any:
    """`base` with a patch: maps key by key, null removes, known lists item by item, anything else is replaced."""
    if isinstance(base, dict) and isinstance(patch, dict):
        result = copy.copy(base)
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merged(base[key], value, key) if key in base else value
        return result
    if isinstance(base, list) and isinstance(patch, list) and name in _MERGED:
        return _merged_items(base, patch, _MERGED[name])
    return patch


def _merged_items(base: list[Any], patch: list[Any], key: str) -> list[Any]:
    result = list(base)
    for item in patch:
        known = item.get(key) if isinstance(item, dict) else None
        found = next((i for i, old in enumerate(result) if known is not None and old.get(key) == known), None)
        if found is None:
            result.append(item)
        else:
            result[found] = _replaced(result[found], item)
    return result


def _replaced(old: Any, item: Any) -> Any:
    """A variable that now comes from elsewhere has no value of its own any more, and the other way round."""
    sources = {"value", "valueFrom"}
    dropped = sources if sources & set(item) else set()
    return merged({key: value for key, value in old.items() if key not in dropped}, item)


class Edit:
    """A document that is changed, and what was done to it as RFC 6902 operations."""

    def __init__(self, document: Any):
        self.result = copy.deepcopy(document)
        self.operations: list[dict[str, Any]] = []

    def get(self, path: KeyPath, default: Any = None) -> Any:
        """What stands at a path; `default` where nothing does, or a null."""
        value = self.result
        for part in path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return default
        return default if value is None or value == "" else value

    def put(self, path: KeyPath, value: Any) -> None:
        """Sets a key, with the maps around it where they are missing."""
        depth = next((d for d in range(len(path) - 1, 0, -1) if self.get(path[:d]) is not None), 0)
        for part in reversed(path[depth + 1 :]):
            value = {part: value}
        target = path[: depth + 1]
        there = target[-1] in self.get(target[:-1], self.result if not target[:-1] else {})
        self._do("replace" if there else "add", target, value)

    def append(self, path: KeyPath, item: Any) -> None:
        """Adds to a list, which is made where it is missing."""
        if self.get(path) is None:
            self.put(path, [item])
        else:
            self._do("add", (*path, "-"), item)

    def expect(self, path: KeyPath) -> None:
        """Has whoever applies the operations check that the document is this one there."""
        self.operations.append({"op": "test", "path": pointer(path), "value": copy.deepcopy(self.get(path))})

    def _do(self, operation: str, path: KeyPath, value: Any) -> None:
        self.operations.append({"op": operation, "path": pointer(path), "value": copy.deepcopy(value)})
        holder = self.result
        for part in path[:-1]:
            holder = holder[part]
        if path[-1] == "-":
            holder.append(value)
        else:
            holder[path[-1]] = value


def pointer(path: KeyPath) -> str:
    """RFC 6901."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
