"""Changes to documents: a pod patch, merged as Kubernetes merges; and edits, kept as JSON patch operations."""

from __future__ import annotations

import copy
from typing import Any

KeyPath = tuple[str | int, ...]
# Lists that Kubernetes merges item by item, with the key that identifies an item. Any other list is replaced.
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
    """`base` with a patch: maps merge key by key, a null removes, known lists item by item; else `patch`."""
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
    """`old` merged with `item`. A new `valueFrom` drops the old `value`, and the other way round."""
    sources = {"value", "valueFrom"}
    dropped = sources if sources & set(item) else set()
    return merged({key: value for key, value in old.items() if key not in dropped}, item)


class Edit:
    """A document and its changes. Each change is also kept as a JSON patch operation (RFC 6902)."""

    def __init__(self, document: Any):
        self.result = copy.deepcopy(document)
        self.operations: list[dict[str, Any]] = []

    def get(self, path: KeyPath, default: Any = None) -> Any:
        """The value at a path; `default` if there is none, or if it is null or empty text."""
        value = self.result
        for part in path:
            try:
                value = value[part]
            except (KeyError, IndexError, TypeError):
                return default
        return default if value is None or value == "" else value

    def put(self, path: KeyPath, value: Any) -> None:
        """Sets a key. Creates the maps on the path that are missing."""
        # The longest part of the path that exists: one operation adds all that is missing below it.
        depth = next((d for d in range(len(path) - 1, 0, -1) if self.get(path[:d]) is not None), 0)
        for part in reversed(path[depth + 1 :]):
            value = {part: value}
        target = path[: depth + 1]
        there = target[-1] in self.get(target[:-1], self.result if not target[:-1] else {})
        self._do("replace" if there else "add", target, value)

    def append(self, path: KeyPath, item: Any) -> None:
        """Appends to a list. Creates the list if it is missing."""
        if self.get(path) is None:
            self.put(path, [item])
        else:
            self._do("add", (*path, "-"), item)

    def expect(self, path: KeyPath) -> None:
        """Adds a test operation: the patch fails if the value at `path` is another one by then."""
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
    """A path as a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
