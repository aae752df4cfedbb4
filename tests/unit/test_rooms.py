"""The rooms: who may import whom, what a cheap command loads, how long a file may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "ray", "transformers", "numpy", "datasets"}
WITHOUT_HEAVY = [
    "canon", "errors", "trial", "trial.loader", "events", "plan", "probe.host", "evidence", "record", "driver.main",
    "driver.ray_session", "launch", "report", "cli.main", "cli.run", "cli.show", "cli.verify", "cli.judge", "cli.init", "cli.schema",
    "hardware", "ship", "image", "render", "kube.connect", "check.command", "cli.check", "cli.render", "cli.image", "cli.catalog",
    "launch.jobs", "launch.inspect.inspection", "cli.attach", "cli.stop", "cli.collect", "cli.inspect",
]  # fmt: skip


def test_rooms_import_only_to_their_left() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def loaded(statement: str) -> set[str]:
    """Top-level modules that a fresh interpreter has loaded after a statement."""
    code = f"{statement}\nimport sys; print(' '.join({{m.partition('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_nothing_but_training_loads_torch_or_ray() -> None:
    statement = "\n".join(f"import seatrial.{name}" for name in WITHOUT_HEAVY)
    assert loaded(statement) & HEAVY == set()


def test_the_command_line_loads_little() -> None:
    assert loaded("import seatrial.cli.main") & {*HEAVY, "pydantic", "yaml", "rich", "jinja2"} == set()


def test_checking_manifests_loads_neither_pydantic_nor_rich() -> None:
    """It runs on every commit: what it does not need, it does not load."""
    assert (
        loaded("import seatrial.cli.check; from seatrial.check.rules import load; load()")
        & {"pydantic", "rich", "jinja2", "ssl", *HEAVY}
        == set()
    )


def test_what_travels_to_the_image_needs_only_what_the_image_has() -> None:
    """Everything up to the driver: standard library, pydantic, torch and ray; no YAML, no click, no rich."""
    names = (
        "canon",
        "errors",
        "trial",
        "events",
        "plan",
        "probe.host",
        "evidence",
        "record",
        "driver.main",
        "driver.ray_session",
    )
    statement = "\n".join(f"import seatrial.{name}" for name in names)
    assert loaded(statement) & {"yaml", "click", "rich", "jinja2", "psutil"} == set()


def imported(tree: ast.AST, within: str = "") -> Iterator[tuple[str, str]]:
    """Top-level packages that a module imports, and the function that does it; empty for the module itself."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], within) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield str(node.module).partition(".")[0], within
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            yield ast.unparse(node.args[0]).strip("'\"").partition(".")[0], within
        name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else within
        yield from imported(node, name)


def test_one_function_connects_to_kubernetes() -> None:
    """The client is heavy to import, and so is a second way to choose a cluster."""
    source = ROOT / "src/seatrial"
    found = {
        (str(path.relative_to(source)), function)
        for path in source.rglob("*.py")
        for package, function in imported(ast.parse(path.read_text()))
        if package == "kubernetes"
    }
    assert found == {("kube/connect.py", "connect")}


def test_asking_about_kubernetes_loads_no_client_yet() -> None:
    names = ("kube.connect", "check.server.asking", "launch.inspect.inspection", "cli.check", "cli.inspect")
    statement = "\n".join(f"import seatrial.{name}" for name in names)
    assert loaded(statement) & {"kubernetes", "urllib3"} == set()


def private_of_ray(source: str) -> list[str]:
    """Names of Ray that are not public and that a module imports, or reaches by attributes of `ray`."""
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [ast.unparse(node)]
        for name in names:
            room, *rest = name.split(".")
            if room == "ray" and any(part.startswith("_") and not part.endswith("__") for part in rest):
                found.append(name)
    return found


@pytest.mark.parametrize(
    "source",
    [
        "from ray._private.state import jobs", "import ray._private.worker", "from ray.train.torch.config import _TorchBackend",
        "def f():\n    from ray.train.v2._internal.state import schema", "import ray\nray._private.worker._global_node",
    ],
)  # fmt: skip
def test_a_private_import_of_ray_is_seen(source: str) -> None:
    assert private_of_ray(source)
    assert not private_of_ray("import ray\nfrom ray.train import RunConfig\nray.__version__\nself._ray._private")


def test_one_module_imports_what_is_private_in_ray() -> None:
    """When Ray moves something, one module changes; `tests/ray/test_ray_internals.py` says what has moved."""
    found = {p.relative_to(ROOT).as_posix(): private_of_ray(p.read_text()) for p in (ROOT / "src").rglob("*.py")}
    allowed = found.pop("src/seatrial/driver/ray_internals.py")
    assert {path: names for path, names in found.items() if names} == {}
    assert allowed


def option_fields(source: str) -> list[str]:
    """Options of the command line that a module gives as the field of an error."""
    return [
        text.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.keyword) and node.arg == "field"
        for text in ast.walk(node.value)
        if isinstance(text, ast.Constant) and isinstance(text.value, str) and text.value.startswith("-")
    ]


@pytest.mark.parametrize(
    "field", ['"--server"', '"-o"', 'f"--{name}"', '"" if given else "--to"', 'options.get(name, "--on")']
)
def test_an_option_as_a_field_is_seen(field: str) -> None:
    assert option_fields(f"raise InputError('missing', field={field})")
    assert not option_fields("raise InputError('saw --to', field='to', expected='--to FOLDER')")


def test_only_the_command_line_knows_its_options() -> None:
    """What is called names its argument; `cli.options` turns that into the option."""
    found = {
        p.relative_to(ROOT / "src/seatrial").as_posix(): option_fields(p.read_text())
        for p in (ROOT / "src").rglob("*.py")
    }
    assert {path: fields for path, fields in found.items() if fields and not path.startswith("cli/")} == {}
    assert any(found.values())


def test_files_stay_short() -> None:
    long = {str(p): n for p in (ROOT / "src").rglob("*.py") if (n := len(p.read_text().splitlines())) > 350}
    assert long == {}
    loop = (ROOT / "src/seatrial/train/loop.py").read_text().splitlines()
    assert len(loop) <= 250
