"""The runtime environment of a RayJob: what Ray takes of it, where its parts lie, what it leaves undone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from seatrial.check.manifest import Manifest
from seatrial.check.reading import YamlNode, documents
from seatrial.check.rule import JOB_GO, SOURCE, Facts, Hit, rule
from seatrial.check.shell import reads_shell, shell_expansions, templated
from seatrial.check.values import CannotTell, Value
from seatrial.errors import InputError

_RAY = "https://github.com/ray-project/ray/blob/ray-2.58.0/python/ray"
_VALIDATION = f"{_RAY}/_private/runtime_env/validation.py"
_DEPENDENCIES = "https://docs.ray.io/en/latest/ray-core/handling-dependencies.html"
_OOM_DOCS = "https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html"
_OF_EVERY_SHELL = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "USER", "PWD")  # set wherever it is expanded
# RuntimeEnv.known_fields, the arguments of its constructor, and `mpi` of older releases.
_KEYS = (
    "working_dir",
    "py_modules",
    "py_executable",
    "excludes",
    "pip",
    "uv",
    "conda",
    "env_vars",
    "config",
    "container",
    "image_uri",
    "worker_process_setup_hook",
    "nsight",
    "_nsight",
    "rocprof_sys",
    "_rocprof_sys",
    "java_jars",
    "mpi",
    "_ray_release",
    "_ray_commit",
    "_inject_current_ray",
)
_ARCHIVES = (".zip", ".whl", ".tar.gz", ".tgz")
_REMOTE = ("http://", "https://", "s3://", "gs://", "azure://", "abfss://", "file://")
_BRANCH = re.compile(r"/(?:main|master|HEAD|latest)\.(?:zip|tar\.gz|tgz)$|/refs/heads/|/zipball/(?:main|master)$")
# Read by `ray start`, the raylet or the GCS, which run before any job.
_OF_THE_NODE = re.compile(
    r"RAY_(TMPDIR|OBJECT_STORE_ALLOW_SLOW_STORAGE|REDIS_ADDRESS|START_ULIMIT_OPEN_FILES|enable_autoscaler_v2"
    r"|memory_usage_threshold|memory_monitor_refresh_ms|local_fs_capacity_threshold|object_spilling_\w+"
    r"|worker_register_timeout_seconds|health_check_\w+)"
)
_SECRET = re.compile(r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|(?:SECRET_)?ACCESS_KEY(?:_ID)?|PRIVATE_KEY)$")
_NO_SECRET = re.compile(r"(?:^|_)(?:PAD|EOS|BOS|UNK|MASK|SEP|CLS|STOP|SPECIAL)_TOKEN$")
_PASSWORD_IN_URL = re.compile(r"://[^/\s:@]+:[^/\s:@]+@")


@lru_cache(maxsize=64)
def _parsed(text: str) -> YamlNode | InputError | None:
    """The root of a runtime environment's YAML, or what is wrong with it."""
    found = [item if isinstance(item, InputError) else item.root for item in documents(text.encode(), "runtimeEnvYAML")]
    return next((item for item in found if item is not None), None)


def runtime_env(manifest: Manifest) -> Value:
    """The environment as KubeRay reads it; absent where there is none, or none that can be read."""
    given = manifest.spec["runtimeEnvYAML"]
    # A map in place of the text is an error of its own, but what stands in it can be looked at all the same.
    root = given.node if given.node and isinstance(given.node.value, dict) else _parsed(given.raw)
    return Value(root if isinstance(root, YamlNode) else None, (), given.file, given.line, given.column)


def written(manifest: Manifest) -> Value:
    """The field itself: hits are shown at it, as the lines inside the text have no place in the file."""
    return manifest.spec["runtimeEnvYAML"]


@rule(
    "runtime-env-not-string",
    "error",
    "job",
    title="a map as runtimeEnvYAML",
    fix="write `runtimeEnvYAML: |` and indent the map below it",
    source=f"{SOURCE}/config/crd/bases",
)
def not_string(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The field is text that holds YAML; the API server refuses a map."""
    if written(manifest) and not written(manifest).scalar:
        yield Hit(written(manifest), "a map or a list", "text: runtimeEnvYAML: |")


@rule(
    "runtime-env-bad-yaml",
    "error",
    "job",
    title="a runtime environment that cannot be used",
    fix="follow Ray's runtime_env reference",
    source=_VALIDATION,
)
def bad_yaml(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """KubeRay refuses text that is no YAML map. Ray refuses values of a wrong type, and ignores keys that it does not
    know.
    """
    given, environment = written(manifest), runtime_env(manifest)
    problem = _parsed(given.raw)
    if environment.node and isinstance(environment.node.value, dict):
        yield from _keys(manifest, environment)
        yield from _types(given, environment)
    elif problem and given.unknown:
        raise CannotTell(f"{given.field} has a placeholder", given)
    elif problem:
        yield Hit(given, _wrong(problem) if isinstance(problem, InputError) else "no map", "a YAML map")


def _wrong(problem: InputError) -> str:
    line = problem.place.line if problem.place else None
    return f"its line {line}: {problem.seen}" if line else problem.seen


def _keys(manifest: Manifest, environment: Value) -> Iterator[Hit]:
    # A plugin brings keys of its own.
    plugins = manifest.cluster and any("RAY_RUNTIME_ENV_PLUGINS" in group.env for group in manifest.cluster.groups)
    for key, _ in environment.items():
        if key not in _KEYS and not plugins:
            yield Hit(written(manifest), f"Ray ignores the key {key}", f"one of {', '.join(_KEYS[:9])} …", "warning")
    several = [key for key in ("pip", "uv", "conda") if environment[key]]
    if len(several) > 1:
        yield Hit(written(manifest), f"{' and '.join(several)} together", "one of them")


def _types(given: Value, environment: Value) -> Iterator[Hit]:
    for name, value in environment["env_vars"].items():
        if value.node and not isinstance(value.node.value, str) and not value.unknown:
            yield Hit(given, f"env_vars.{name} is {value.raw or 'no text'}, not text", f'"{value.raw}" in quotes')
    for key, place in _places(environment):
        if place.startswith(_REMOTE) and not re.split("[?#]", place)[0].endswith(_ARCHIVES):
            yield Hit(given, f"{key} {place} is no archive", f"a URL that ends with {', '.join(_ARCHIVES)}")


def _places(environment: Value) -> Iterator[tuple[str, str]]:
    """Where working_dir and py_modules are."""
    for key, values in (("working_dir", [environment["working_dir"]]), ("py_modules", list(environment["py_modules"]))):
        yield from ((key, value.raw) for value in values if value.raw and not value.unknown)


def _scalars(value: Value) -> Iterator[Value]:
    if value.scalar:
        yield value
    for child in (*value, *(child for _, child in value.items())):
        yield from _scalars(child)


@rule(
    "working-dir-mutable-url",
    "warning",
    "job",
    title="code from a branch",
    fix="name a commit or a tag in the URL",
    source=_DEPENDENCIES,
)
def mutable_url(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """main.zip may hold other code tomorrow, and each node downloads it for itself: a run cannot be repeated."""
    for key, place in _places(runtime_env(manifest)):
        if place.startswith(_REMOTE) and _BRANCH.search(place):
            yield Hit(written(manifest), f"{key} {place}", "the archive of a commit or a tag")


@rule(
    "working-dir-local-http-mode",
    "error",
    "job",
    title="a local folder in HTTPMode",
    fix="use s3://….zip, a folder that is mounted, or K8sJobMode",
    source=_VALIDATION,
)
def local_http_mode(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The operator sends the environment as it is, and nobody uploads the folder: `is not a valid URI`."""
    for key, place in _places(runtime_env(manifest)):
        if "://" not in place and manifest.submission_mode == "HTTPMode":
            yield Hit(written(manifest), f"{key} {place} in HTTPMode", "a URL")


@rule(
    "runtime-env-ray-vars",
    "warning",
    "job",
    title="variables that Ray reads before the job",
    fix="set them in the containers' env",
    source=_OOM_DOCS,
)
def ray_vars(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """`ray start`, the raylet and the GCS run before a job's environment is made, and never see its variables."""
    names = [name for name, _ in runtime_env(manifest)["env_vars"].items() if _OF_THE_NODE.fullmatch(name)]
    if names:
        yield Hit(written(manifest), f"env_vars sets {', '.join(names)}", "the env of head and worker containers")


@rule(
    "runtime-env-var-not-expanded",
    "warning",
    "job",
    title="a variable that is not expanded where it is used",
    fix="write the whole value, or set it in the containers' env",
    source=JOB_GO,
    needs=("kuberay",),
)
def not_expanded(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    """KubeRay passes the environment in double quotes through the submitter's shell. $NAME becomes the submitter's
    value, which is mostly empty, and not the node's.
    """
    if not reads_shell(manifest, facts):
        return
    environment = runtime_env(manifest)
    known = _scalars(environment) if environment.items() else ()
    names = [token["name"] for value in known for token in shell_expansions(value.raw, '"')]
    submitter = manifest.submitter.env if manifest.submitter else {}
    lost = [name or "(…)" for name in dict.fromkeys(names) if name not in submitter]
    # A template's own `$NAME` looks the same, but these are set in every shell and so are not the template's.
    if lost and templated(manifest.root):
        certain = [name for name in lost if name in _OF_EVERY_SHELL]
        if not certain:
            raise CannotTell(
                f"{written(manifest).field} has ${lost[0]}, which may be filled in before", written(manifest)
            )
        lost = certain
    if lost:
        yield Hit(written(manifest), f"${', $'.join(lost)} is expanded in the submitter", "the whole value")


@rule(
    "runtime-env-secret",
    "warning",
    "job",
    title="a secret in the runtime environment",
    fix="use secretKeyRef in the containers' env",
    source=_DEPENDENCIES,
)
def secret(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    """The secret stands in the RayJob, in the submitter's command line and in Ray's dashboard."""
    environment = runtime_env(manifest)
    if any(_PASSWORD_IN_URL.search(value.raw) for value in _scalars(environment)):
        yield Hit(written(manifest), "a password in a URL", "a URL without it")
    for name, value in environment["env_vars"].items():
        if _SECRET.search(name.upper()) and not _NO_SECRET.search(name.upper()) and len(value.require_known()) >= 8:
            yield Hit(written(manifest), f"env_vars.{name} has a value", "secretKeyRef in the containers' env")
