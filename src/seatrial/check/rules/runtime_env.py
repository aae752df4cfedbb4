"""The runtime environment of a RayJob: what Ray takes, what it installs over the image, what it leaves undone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from seatrial.check.manifest import Manifest
from seatrial.check.reading import Node, documents
from seatrial.check.rule import JOB_GO, SOURCE, Facts, Hit, rule
from seatrial.check.rules.submission import reads_shell, shell_expansions, templated
from seatrial.check.values import CannotTell, Value
from seatrial.errors import InputError
from seatrial.hardware.images import dlc_repository, image

_RAY = "https://github.com/ray-project/ray/blob/ray-2.58.0/python/ray"
_VALIDATION = f"{_RAY}/_private/runtime_env/validation.py"
_DEPENDENCIES = "https://docs.ray.io/en/latest/ray-core/handling-dependencies.html"
_OOM_DOCS = "https://docs.ray.io/en/latest/ray-core/scheduling/ray-oom-prevention.html"
# RuntimeEnv.known_fields, the arguments of its constructor, and `mpi` of older releases.
_OF_EVERY_SHELL = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "HOME", "USER", "PWD")  # set wherever it is expanded
_KEYS = (
    "working_dir", "py_modules", "py_executable", "excludes", "pip", "uv", "conda", "env_vars", "config", "container",
    "image_uri", "worker_process_setup_hook", "nsight", "_nsight", "rocprof_sys", "_rocprof_sys", "java_jars", "mpi",
    "_ray_release", "_ray_commit", "_inject_current_ray",
)  # fmt: skip
_ARCHIVES = (".zip", ".whl", ".tar.gz", ".tgz")
_REMOTE = ("http://", "https://", "s3://", "gs://", "azure://", "abfss://", "file://")
_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[[^\]]*\])?\s*([^;#]*)")
_STACK = ("torch", "torchvision", "torchaudio", "flash-attn", "transformer-engine", "deepspeed", "xformers", "triton")
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
def _parsed(text: str) -> Node | InputError | None:
    """The root of a runtime environment's YAML, or what is wrong with it."""
    found = [item if isinstance(item, InputError) else item.root for item in documents(text.encode(), "runtimeEnvYAML")]
    return next((item for item in found if item is not None), None)


def runtime_env(manifest: Manifest) -> Value:
    """The environment as KubeRay reads it; absent where there is none, or none that can be read."""
    given = manifest.spec["runtimeEnvYAML"]
    root = given.node if given.node and isinstance(given.node.value, dict) else _parsed(given.raw)
    return Value(root if isinstance(root, Node) else None, (), given.file, given.line, given.column)


def _packages(environment: Value) -> Iterator[tuple[str, str]]:
    """Name, lower case with dashes, and version part of each requirement of pip and uv."""
    for key in ("pip", "uv"):
        listed = environment[key] if list(environment[key]) else environment[key]["packages"]
        for item in listed:
            found = None if item.unknown else _REQUIREMENT.match(item.raw)
            if found and ("://" not in found[2] or found[2].startswith("@")):  # else git+https://…
                yield re.sub(r"[-_.]+", "-", found[1]).lower(), found[2].strip()


def _at(manifest: Manifest) -> Value:
    return manifest.spec["runtimeEnvYAML"]


@rule(
    "runtime-env-not-string", "error", "job",
    title="a map as runtimeEnvYAML",
    why="The field is text that holds YAML; the API server refuses a map.",
    fix="write `runtimeEnvYAML: |` and indent the map below it", source=f"{SOURCE}/config/crd/bases",
)  # fmt: skip
def not_string(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    if _at(manifest) and not _at(manifest).scalar:
        yield Hit(_at(manifest), "a map or a list", "text: runtimeEnvYAML: |")


@rule(
    "runtime-env-bad-yaml", "error", "job",
    title="a runtime environment that cannot be used",
    why="KubeRay refuses what is no YAML map and looks no further; Ray refuses wrong types, and ignores keys it does not know.",
    fix="follow Ray's runtime_env reference", source=_VALIDATION,
)  # fmt: skip
def bad_yaml(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    given, environment = _at(manifest), runtime_env(manifest)
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
    plugins = manifest.cluster and any("RAY_RUNTIME_ENV_PLUGINS" in group.env for group in manifest.cluster.groups)
    for key, _ in environment.items():
        if key not in _KEYS and not plugins:
            yield Hit(_at(manifest), f"Ray ignores the key {key}", f"one of {', '.join(_KEYS[:9])} …", "warning")
    if len(several := [key for key in ("pip", "uv", "conda") if environment[key]]) > 1:
        yield Hit(_at(manifest), f"{' and '.join(several)} together", "one of them")


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


def _pin(version: str) -> str:
    """The one version that a requirement allows; empty if it allows several."""
    found = re.fullmatch(r"={2,3}\s*([0-9][\w.+!-]*)", version)
    return found[1] if found else ""


@rule(
    "runtime-env-reinstalls-ray", "error", "job",
    title="Ray among the packages to install",
    why="Ray refuses an environment whose Ray differs from the cluster's: `Changing the ray version is not allowed`. The same version is there already.",
    fix="remove it: the image has Ray", source=f"{_RAY}/_private/runtime_env/dependency_utils.py",
)  # fmt: skip
def reinstalls_ray(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    for name, asked in _packages(runtime_env(manifest)):
        if name == "ray":
            there = _ray(manifest, facts) if _pin(asked) else ""
            differs = bool(there) and _pin(asked) != there
            seen = f"ray{asked}, the cluster has {there}" if there else f"ray{asked}"
            yield Hit(_at(manifest), seen, "packages without ray", None if differs else "info")


def _ray(manifest: Manifest, facts: Facts) -> str:
    """The cluster's Ray, empty where that is unknown. Raises CannotTell."""
    if not manifest.cluster:
        return ""
    return manifest.cluster.ray_version.text or facts.image(manifest.cluster.head.image).ray or ""


@rule(
    "runtime-env-reinstalls-torch", "warning", "job",
    title="torch or what belongs to it among the packages to install",
    why="Each node downloads gigabytes before the job starts, and what was built for the image's torch and CUDA (flash-attn, NCCL, EFA's plugin) may no longer fit.",
    fix="use an image that has it", source=_DEPENDENCIES, needs=("image",),
)  # fmt: skip
def reinstalls_torch(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    asked = [(n, v) for n, v in _packages(runtime_env(manifest)) if n in _STACK or n.startswith("nvidia-")]
    if not asked or not manifest.cluster:
        return
    given, names = manifest.cluster.head.image, ", ".join(f"{n}{v}" for n, v in asked)
    if dlc_repository(given.raw):  # pip leaves what the image has already, unless another version is asked for
        known = facts.image(given)
        there = {**dict(known.packages), "torch": known.torch}
        new = [f"{n}{v}" for n, v in asked if there.get(n) and _pin(v) not in ("", there[n])]
        if new:
            yield Hit(_at(manifest), f"installs {', '.join(new)} over the image's", "the image's own versions")
    elif image(given.text):
        yield Hit(_at(manifest), f"downloads {names} on every node at each start", "an image that has it")
    else:  # it may have them
        yield Hit(_at(manifest), f"asks pip for {names} on every node at each start", "an image that has it", "info")


@rule(
    "runtime-env-unpinned", "info", "job",
    title="packages without a version",
    why="Each run, and each node of a run, may get another version.",
    fix="pin them with ==", source=_DEPENDENCIES,
)  # fmt: skip
def unpinned(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    loose = [name for name, asked in _packages(runtime_env(manifest)) if not _pin(asked) and not asked.startswith("@")]
    if loose:
        yield Hit(
            _at(manifest), f"no version of {', '.join(loose[:5])}{' …' if len(loose) > 5 else ''}", "name==version"
        )


@rule(
    "pip-conflicts-dlc", "info", "job",
    title="another version than the image was tested with",
    why="The package hides the Deep Learning Container's own, and pip brings its dependencies along.",
    fix="leave it out, or take the image's version", source=_DEPENDENCIES, needs=("image",),
)  # fmt: skip
def conflicts_dlc(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    if not manifest.cluster or not dlc_repository(manifest.cluster.head.image.raw):
        return
    pinned = {name: _pin(asked) for name, asked in _packages(runtime_env(manifest)) if name not in _STACK}
    there = dict(facts.image(manifest.cluster.head.image).packages) if pinned else {}
    for name, asked in pinned.items():
        own = there.get(name, asked)
        if asked and asked != own:
            major = asked.partition(".")[0] != own.partition(".")[0]
            yield Hit(_at(manifest), f"{name} {asked}, the image has {own}", own, "warning" if major else None)


@rule(
    "working-dir-mutable-url", "warning", "job",
    title="code from a branch",
    why="main.zip is other code tomorrow, and each node downloads it for itself: a run cannot be repeated.",
    fix="name a commit or a tag in the URL", source=_DEPENDENCIES,
)  # fmt: skip
def mutable_url(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    for key, place in _places(runtime_env(manifest)):
        if place.startswith(_REMOTE) and _BRANCH.search(place):
            yield Hit(_at(manifest), f"{key} {place}", "the archive of a commit or a tag")


@rule(
    "working-dir-local-http-mode", "error", "job",
    title="a local folder in HTTPMode",
    why="The operator sends the environment as it is, and nobody uploads the folder: `is not a valid URI`.",
    fix="use s3://….zip, a folder that is mounted, or K8sJobMode", source=_VALIDATION,
)  # fmt: skip
def local_http_mode(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    for key, place in _places(runtime_env(manifest)):
        if "://" not in place and manifest.submission_mode == "HTTPMode":
            yield Hit(_at(manifest), f"{key} {place} in HTTPMode", "a URL")


@rule(
    "runtime-env-ray-vars", "warning", "job",
    title="variables that Ray reads before the job",
    why="`ray start`, the raylet and the GCS run already when a job's environment is made; they never see them.",
    fix="set them in the containers' env", source=_OOM_DOCS,
)  # fmt: skip
def ray_vars(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    names = [name for name, _ in runtime_env(manifest)["env_vars"].items() if _OF_THE_NODE.fullmatch(name)]
    if names:
        yield Hit(_at(manifest), f"env_vars sets {', '.join(names)}", "the env of head and worker containers")


@rule(
    "runtime-env-var-not-expanded", "warning", "job",
    title="a variable that is not expanded where it is used",
    why="KubeRay passes the environment in double quotes through the submitter's shell: $NAME is the submitter's, mostly empty, and not the node's.",
    fix="write the whole value, or set it in the containers' env", source=JOB_GO, needs=("kuberay",),
)  # fmt: skip
def not_expanded(manifest: Manifest, facts: Facts) -> Iterator[Hit]:
    if not reads_shell(manifest, facts):
        return
    environment = runtime_env(manifest)
    known = _scalars(environment) if environment.items() else ()
    names = [token["name"] for value in known for token in shell_expansions(value.raw, '"')]
    submitter = manifest.submitter.env if manifest.submitter else {}
    lost = [name or "(…)" for name in dict.fromkeys(names) if name not in submitter]
    if lost and templated(manifest.root):
        certain = [name for name in lost if name in _OF_EVERY_SHELL]
        if not certain:
            raise CannotTell(f"{_at(manifest).field} has ${lost[0]}, which may be filled in before", _at(manifest))
        lost = certain
    if lost:
        yield Hit(_at(manifest), f"${', $'.join(lost)} is expanded in the submitter", "the whole value")


@rule(
    "runtime-env-secret", "warning", "job",
    title="a secret in the runtime environment",
    why="It stands in the RayJob, in the submitter's command line and in Ray's dashboard.",
    fix="use secretKeyRef in the containers' env", source=_DEPENDENCIES,
)  # fmt: skip
def secret(manifest: Manifest, _: Facts) -> Iterator[Hit]:
    environment = runtime_env(manifest)
    if any(_PASSWORD_IN_URL.search(value.raw) for value in _scalars(environment)):
        yield Hit(_at(manifest), "a password in a URL", "a URL without it")
    for name, value in environment["env_vars"].items():
        if _SECRET.search(name.upper()) and not _NO_SECRET.search(name.upper()) and len(value.text) >= 8:
            yield Hit(_at(manifest), f"env_vars.{name} has a value", "secretKeyRef in the containers' env")
