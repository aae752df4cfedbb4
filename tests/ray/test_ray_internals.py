"""Ray's private interfaces against the Ray that is installed: each is where and what `INTERNALS` says."""

from __future__ import annotations

import ast
import inspect
import json
import logging
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

import pytest

ray = pytest.importorskip("ray")

from seatrial.driver import ray_internals
from seatrial.driver.ray_internals import INTERNALS, Internal
from seatrial.probe import train_logs
from seatrial.probe.processes import TRAIN_CONTROLLER, TRAIN_WORKER

pytestmark = pytest.mark.ray


def resolved(name: str) -> Any:
    """A module, or what a module has under the rest of a dotted name. Raises ImportError or AttributeError."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:count]))
        except ModuleNotFoundError as error:
            if not name.startswith(str(error.name)):
                raise  # a module that Ray needs itself
            continue
        for part in parts[count:]:
            found = getattr(found, part)
        return found
    raise ImportError(name)


def keys(value: Any) -> set[str]:
    """All keys of a dict and of the dicts in it."""
    return set(value) | {key for each in value.values() if isinstance(each, dict) for key in keys(each)}


def named(cls: Any) -> set[str]:
    return {*dir(cls), *getattr(cls, "model_fields", {})}


def texts(thing: Any) -> Iterable[str]:
    """The literal texts in the source of a module, class or function; names of constants, too."""
    source = Path(thing.__file__).read_text() if isinstance(thing, ModuleType) else inspect.getsource(thing)
    for node in ast.walk(ast.parse(dedent(source))):
        if isinstance(node, ast.JoinedStr):
            yield "".join(
                str(p.value) if isinstance(p, ast.Constant) else f"{{{ast.unparse(p.value)}}}" for p in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.Name):
            yield node.id


class Table:
    """Stands for the GCS client of `ray._private.state`: one entry of each table, all fields unset."""

    def get_job_table(self, *_: Any, **__: Any) -> list[bytes]:
        return [resolved("ray.core.generated.gcs_pb2").JobTableData().SerializeToString()]

    def get_actor_table(self, *_: Any, **__: Any) -> list[bytes]:
        return [resolved("ray.core.generated.gcs_pb2").ActorTableData().SerializeToString()]


def tables(monkeypatch: pytest.MonkeyPatch, read: Callable[[], list[dict[str, Any]]]) -> set[str]:
    state = resolved("ray._private.state")
    monkeypatch.setattr(state.state, "_connect_and_get_accessor", Table)
    (row,) = read()
    return keys(row)


def log_line() -> set[str]:
    record = logging.makeLogRecord({"msg": "x", "args": (), "_ray_timestamp_ns": 1})
    return set(json.loads(resolved("ray._common.formatters.JSONFormatter")().format(record)))


def parts_of(each: Internal, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """What an interface has of the kind that its parts are. Raises where it is not at all."""
    thing = resolved(each.name)
    if each.name == "ray._private.state.jobs":
        return tables(monkeypatch, ray_internals.job_table)
    if each.name == "ray._private.state.actors":
        return tables(monkeypatch, ray_internals.actor_table)
    if each.name.endswith("._global_node"):  # None as long as no Ray is joined
        return set(dir(resolved("ray._private.node.Node")))
    if each.name.endswith("._TorchBackend"):
        assert ray_internals.torch_backend() is resolved("ray.train.torch.TorchConfig")().backend_cls
        return set(inspect.signature(thing.on_start).parameters)
    if each.name.endswith("JSONFormatter"):
        return log_line()
    if each.name.endswith("LogKey"):
        return {key.value for key in thing}
    if each.name.endswith("CoreContextFilter"):
        return {key.value for key in resolved("ray._common.logging_constants.LogKey")}
    if each.name.endswith((ray_internals.WORKER_CLASS, ray_internals.CONTROLLER_CLASS)):
        return {title for title in (TRAIN_WORKER, TRAIN_CONTROLLER) if title in thing.__name__}
    if isinstance(thing, str):
        return {part for part in each.parts if part in thing}
    if inspect.isclass(thing) and not each.name.endswith("LoggingManager"):
        return named(thing)
    if inspect.isfunction(thing) and all(part.isidentifier() for part in each.parts):
        return set(inspect.signature(thing).parameters)
    known = list(texts(thing))
    return {part for part in each.parts if any(fits(part, text) for text in known)}


def fits(part: str, text: str) -> bool:
    """Whether a text of Ray's holds a part, whose stars stand for anything."""
    at = 0
    for piece in part.split("*"):
        if (at := text.find(piece, at)) < 0:
            return False
        at += len(piece)
    return True


def missing(each: Internal, monkeypatch: pytest.MonkeyPatch) -> str:
    """What is not as it was read, in one line; empty if all is."""
    told = f"Ray {ray.__version__}: {each.name}, read at Ray {each.read_at} ({each.use})"
    try:
        found = parts_of(each, monkeypatch)
    except (ImportError, AttributeError, OSError) as error:
        return f"{told}, is gone: {error}"
    absent = [part for part in each.parts if part not in found]
    return f"{told}, has no {', '.join(absent)} any more" if absent else ""


@pytest.mark.parametrize("each", INTERNALS, ids=lambda each: each.name)
def test_an_interface_is_what_it_was_when_it_was_read(each: Internal, monkeypatch: pytest.MonkeyPatch) -> None:
    assert each.parts
    assert not (problem := missing(each, monkeypatch)), problem


@pytest.mark.parametrize("each", INTERNALS, ids=lambda each: each.name)
def test_an_interface_that_moves_is_named_with_its_version(each: Internal, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = Internal(f"{each.name}_moved", each.parts, each.use)
    assert f"{moved.name}, read at Ray {each.read_at} ({each.use}), is gone" in missing(moved, monkeypatch)
    changed = Internal(each.name, (*each.parts, "no such part"), each.use)
    assert missing(changed, monkeypatch).endswith("has no no such part any more")


def test_a_checkpoint_is_written_as_the_log_reader_reads_it(tmp_path: Path) -> None:
    written = repr(resolved("ray.train.Checkpoint").from_directory(str(tmp_path)))
    found = train_logs._SAVED.match(f"Checkpoint successfully created at: {written}")
    assert found, (
        f"Ray {ray.__version__} writes {written}; {train_logs._SAVED.pattern} was read at {ray_internals.READ_AT}"
    )
    assert found.groups() == ("local", str(tmp_path))


def test_a_folder_is_packed_with_the_parameters_that_ray_has(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code/train.py").write_text("")
    ray_internals.pack_folder(tmp_path / "code", tmp_path / "code.zip", gitignore=True, excludes=[])
    assert (tmp_path / "code.zip").is_file()
