"""The structure of a resource: KubeRay's fields by a compact table, pod templates by Kubernetes' own schemas.

The table (`data/fields.json`, written by `tools/crd_fields.py`) says what the CRDs of KubeRay know; pod templates are
left to `kubernetes-validate`, which carries the schemas of every Kubernetes release. Its `validate` reads them anew on
each call, so the validators are built here from its files, once.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache, partial
from importlib.resources import files
from importlib.util import find_spec
from typing import Any

from seatrial.check import words
from seatrial.check.manifest import Manifest
from seatrial.check.rule import SOURCE, Hit, found_elsewhere
from seatrial.check.values import CannotTell, Value
from seatrial.errors import InputError, clean, shown
from seatrial.kube.apimachinery import quantity

DEFAULT_KUBERNETES = "1.34"
Found = tuple[str, Hit | CannotTell]
_CORE = "io.k8s.api.core.v1."
_KIND = {"string": "text", "integer": "an integer", "number": "a number", "boolean": "true or false"}

# What is said about the rules whose hits this module finds.
_reports = partial(found_elsewhere, severity="error", on="manifest", source=f"{SOURCE}/config/crd/bases")
_reports(
    "unknown-field",
    title="a field that the resource does not have",
    why="kubectl's strict validation refuses it. Other clients drop it without a word, and it has no effect.",
    fix="remove or rename it",
)
_reports(
    "field-missing",
    title="a field that the resource must have",
    why="The API server refuses the resource.",
    fix="add it",
)
_reports(
    "type-not-string",
    title="a number or boolean where text belongs",
    why="The API server refuses the resource: values of rayStartParams, environment variables, labels and annotations "
    "are text.",
    fix="put it in quotes",
)
_reports(
    "type-not-int",
    title="a value that is no number where a number belongs",
    why="The API server refuses the resource.",
    fix="write the number without quotes",
)
_reports(
    "type-mismatch",
    title="a value of the wrong kind",
    why="The API server refuses the resource.",
    fix="write what the field expects",
)
_reports(
    "enum-mismatch",
    title="a word that the field does not take",
    why="The API server refuses the resource, or every pod that KubeRay makes of it.",
    fix="use one of the known words",
)


class Schema:
    """Kubernetes' own schemas of one release. `absent` says why there are none."""

    def __init__(self, release: str = DEFAULT_KUBERNETES):
        self.release, self.absent = release.removeprefix("v"), ""
        self._validators: dict[str, Any] = {}
        if find_spec("kubernetes_validate") is None or find_spec("jsonschema") is None:
            self.absent = "kubernetes-validate is not installed: pip install 'seatrial[check]'"
            return
        folder = files("kubernetes_validate") / "kubernetes-json-schema"
        ending = ".0-local-strict"
        known = [entry.name[1:].removesuffix(ending) for entry in folder.iterdir() if entry.name.endswith(ending)]
        known.sort(key=lambda text: [int(part) for part in text.split(".")])
        if self.release not in known:
            raise InputError(
                f"saw {clean(release)}", field="kubernetes", expected=f"a release from {known[0]} to {known[-1]}"
            )
        self._folder = folder / f"v{self.release}.0-local-strict"

    def errors(self, definition: str, data: Any) -> Iterator[Any]:
        """What jsonschema finds wrong with data as a core type, such as PodTemplateSpec."""
        if definition not in self._validators:
            self._validators[definition] = self._build(definition)
        return iter(self._validators[definition].iter_errors(data))

    def _build(self, definition: str) -> Any:
        """A validator of one definition, with all others beside it to refer to."""
        from jsonschema import Draft202012Validator

        definitions = json.loads((self._folder / "_definitions.json").read_text(encoding="utf-8"))
        return Draft202012Validator({**definitions, "$ref": f"#/$defs/{_CORE}{definition}"})


@cache
def table() -> dict[str, Any]:
    """The fields of KubeRay's kinds."""
    content: dict[str, Any] = json.loads((files("seatrial.check") / "data/fields.json").read_text(encoding="utf-8"))
    return content


def check(manifest: Manifest, schema: Schema) -> Iterator[Found]:
    """Unknown, missing and mistyped fields of one resource."""
    version = manifest.api_version.partition("/")[2]
    root = table()["roots"].get(f"{version}/{manifest.kind}")
    if root is None:
        known = "ray.io/v1, or ray.io/v1alpha1 for old clusters"
        yield "unknown-field", Hit(manifest.root["apiVersion"], f"{manifest.api_version} {manifest.kind}", known)
        return
    for field in ("metadata", "spec"):
        if not manifest.root[field]:
            seen = "null" if manifest.root[field].node else "missing"
            yield "field-missing", Hit(manifest.root[field], f"{field} is {seen}")
    yield from words.check(manifest)
    if manifest.root["metadata"]:
        yield from _metadata(manifest.root["metadata"])
    if manifest.spec:
        yield from _walk(manifest.spec, table()["types"][root]["fields"]["spec"], schema)


def _metadata(metadata: Value) -> Iterator[Found]:
    for section in ("labels", "annotations"):
        for _, value in metadata[section].items():
            if value.node and not isinstance(value.node.value, str) and not value.unknown:
                yield "type-not-string", _not_text(value)


def _walk(value: Value, number: int, schema: Schema) -> Iterator[Found]:
    kind = table()["types"][number]
    assert value.node is not None
    content = value.node.value
    if kind == "any" or content is None:
        return
    if isinstance(kind, str):
        yield from _core(value, kind, schema) if kind in ("PodTemplateSpec", "Service") else _scalar(value, kind)
    elif "enum" in kind:
        if value.unknown:
            yield "type-mismatch", CannotTell(f"{value.field} is {value.raw}", value)
        elif content not in kind["enum"]:
            yield "enum-mismatch", Hit(value, f"saw {shown(value.node.plain())}", f"one of {', '.join(kind['enum'])}")
    elif "list" in kind:
        if isinstance(content, list):
            for item in value:
                yield from _walk(item, kind["list"], schema)
        else:
            yield from _mismatch(value, "a list")
    elif not isinstance(content, dict):
        yield from _mismatch(value, "a map")
    elif "map" in kind:
        for _, child in value.items():
            yield from _walk(child, kind["map"], schema)
    else:
        yield from _fields(value, kind, schema)


def _fields(value: Value, kind: dict[str, Any], schema: Schema) -> Iterator[Found]:
    for name in kind.get("required", ()):
        if value[name].node is None:
            yield "field-missing", Hit(value[name], f"{name} is missing")
    for name, child in value.items():
        if name in kind["fields"]:
            yield from _walk(child, kind["fields"][name], schema)
        else:
            yield "unknown-field", unknown_field(child, name, kind["fields"])


def unknown_field(value: Value, name: str, known: Any) -> Hit:
    """A hit for a field that a type does not have."""
    close = get_close_matches(name, known, n=1)
    expected = (
        "" if close else f"one of {', '.join(sorted(known))}" if len(known) < 16 else "a field that this type has"
    )
    return Hit(value, f"no such field: {clean(name)}", expected, fix=f"did you mean {close[0]}?" if close else "")


def _scalar(value: Value, kind: str) -> Iterator[Found]:
    assert value.node is not None
    content = value.node.value
    if value.unknown:
        if kind != "string":
            yield "type-mismatch", CannotTell(f"{value.field} is {value.raw}", value)
    elif isinstance(content, (dict, list)):
        if value.path[-1] != "runtimeEnvYAML":  # a rule of its own says what to do
            yield from _mismatch(value, _KIND.get(kind, "a quantity"))
    elif kind == "string":
        if not isinstance(content, str):
            yield "type-not-string", _not_text(value)
    elif kind in ("integer", "number"):
        right = isinstance(content, int if kind == "integer" else (int, float)) and not isinstance(content, bool)
        if not right:
            yield "type-not-int", Hit(value, f"saw {shown(content)}", f"{_KIND[kind]} without quotes")
    elif kind == "boolean":
        if not isinstance(content, bool):
            yield from _mismatch(value, _KIND[kind])
    elif kind == "quantity" and quantity(value.raw) is None:
        yield "quantity-invalid", Hit(value, f"saw {shown(content)}", "a quantity such as 500m, 4 or 16Gi")


def _mismatch(value: Value, expected: str) -> Iterator[Found]:
    if value.unknown:
        yield "type-mismatch", CannotTell(f"{value.field} is {value.raw}", value)
    else:
        yield "type-mismatch", Hit(value, f"saw {shown(value.node.plain() if value.node else None)}", expected)


def _not_text(value: Value) -> Hit:
    assert value.node is not None
    return Hit(value, f"saw {shown(value.node.plain())}", "text", fix=f'put it in quotes: "{clean(value.raw, 40)}"')


def _core(value: Value, definition: str, schema: Schema) -> Iterator[Found]:
    """A part that Kubernetes itself defines. Errors of jsonschema become findings at the value they are about."""
    assert value.node is not None
    if schema.absent:
        yield "type-mismatch", CannotTell(schema.absent, value)
        return
    for error in schema.errors(definition, value.node.plain()):
        yield from _explain(value, error)


def _explain(root: Value, error: Any) -> Iterator[Found]:
    value = root.at(*error.absolute_path)
    if value.unknown:
        yield "type-mismatch", CannotTell(f"{value.field} is {value.raw}", value)
    elif error.validator == "additionalProperties":
        known = error.schema.get("properties", {})
        for name in (name for name in error.instance if name not in known):
            yield "unknown-field", unknown_field(value[name], name, known)
    elif error.validator == "required":
        for name in (name for name in error.validator_value if name not in error.instance):
            if name == "containers":  # of a pod: a rule of its own says it, where there are no schemas too
                continue
            yield "field-missing", Hit(value[name], f"{name} is missing")
    elif error.validator == "type" and not isinstance(error.instance, (dict, list)):
        wanted = error.validator_value if isinstance(error.validator_value, str) else error.validator_value[0]
        if wanted == "string":
            yield "type-not-string", _not_text(value)
        elif wanted in ("integer", "number"):
            yield "type-not-int", Hit(value, f"saw {shown(error.instance)}", f"{_KIND[wanted]} without quotes")
        else:
            expected = {"object": "a map", "array": "a list"}.get(wanted, _KIND.get(wanted, wanted))
            yield "type-mismatch", Hit(value, f"saw {shown(error.instance)}", expected)
    elif error.validator in ("type", "oneOf", "anyOf"):
        yield "type-mismatch", Hit(value, f"saw {shown(error.instance)}", "what Kubernetes' schema has here")
    else:
        yield "type-mismatch", Hit(value, clean(error.message, 160))
