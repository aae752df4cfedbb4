"""The rooms: who may import whom, what a cheap command loads, how long a file may be."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
HEAVY = {"torch", "ray", "transformers", "numpy", "datasets"}
WITHOUT_HEAVY = [
    "canon", "errors", "trial", "trial.loader", "events", "plan", "probe.host", "evidence", "record", "driver.main",
    "driver.ray_session", "launch", "report", "cli.main", "cli.run", "cli.show", "cli.verify", "cli.judge", "cli.init", "cli.schema",
    "hardware", "ship", "image", "render", "check.command", "cli.check", "cli.render", "cli.image", "cli.catalog",
    "launch.jobs", "launch.inspect.look", "cli.attach", "cli.stop", "cli.collect", "cli.inspect",
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
        & {"pydantic", "rich", "jinja2", *HEAVY}
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


def test_files_stay_short() -> None:
    long = {str(p): n for p in (ROOT / "src").rglob("*.py") if (n := len(p.read_text().splitlines())) > 350}
    assert long == {}
    loop = (ROOT / "src/seatrial/train/loop.py").read_text().splitlines()
    assert len(loop) <= 250
