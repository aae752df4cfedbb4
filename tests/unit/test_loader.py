"""Bad trial files and the one line that each of them gives."""

from __future__ import annotations

import copy
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from seatrial.canon import canonical
from seatrial.errors import InputError
from seatrial.trial import Trial
from seatrial.trial.loader import builtin, load, template, templates
from seatrial.trial.source import MAX_BYTES, parse

pytestmark = pytest.mark.unit

TRIAL = """\
apiVersion: seatrial.io/v1alpha1
kind: Trial
metadata: {name: check}
scaling: {num_workers: 2}
workload:
  model: {config: {model_type: qwen2}}
  data: {corpus: python-stdlib}
  strategy: fsdp
  sequence_length: 64
  global_batch: 16
  steps: 20
  optimizer: {lr: 1e-2, betas: [0.9, 0.95]}
  timeout: {start: 5m, step: 2m}
  seed: 17
claims:
  - {claim: execution.completed}
  - {claim: learning.heldout.loss, max: 3}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def lines_of(content: str | bytes) -> str:
    """The error lines of a file `t.yaml` with this content."""
    path = Path("t.yaml")
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    with pytest.raises(InputError) as error:
        load(path)
    return str(error.value)


def edited(*edits: tuple[str, str]) -> str:
    text = TRIAL
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_a_good_file_loads(folder):
    Path("t.yaml").write_text(TRIAL)
    trial = load(Path("t.yaml")).trial
    assert trial.workload.optimizer.lr == 0.01
    assert [c.claim for c in trial.claims] == ["execution.completed", "learning.heldout.loss"]


@pytest.mark.parametrize(
    "content",
    [b"\xef\xbb\xbf" + TRIAL.encode(), TRIAL.replace("\n", "\r\n").encode(), b"%YAML 1.2\n---\n" + TRIAL.encode()],
    ids=["byte order mark", "CRLF", "directive"],
)
def test_other_ways_to_write_the_same_file(folder, content):
    Path("t.yaml").write_bytes(content)
    Path("plain.yaml").write_text(TRIAL)
    assert load(Path("t.yaml")).trial == load(Path("plain.yaml")).trial


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        # keys
        ("  seed:", "  sede:", "t.yaml:14:3: workload.sede: unknown key; did you mean seed?"),
        ("scaling:", "scalling:", "t.yaml:4:1: scalling: unknown key; did you mean scaling?"),
        ("workload:", "worklod:", "t.yaml:5:1: worklod: unknown key; did you mean workload?"),
        ("{name: check}", "{name: check, owner: me}",
         "t.yaml:3:25: metadata.owner: unknown key; expected one of name"),
        ("  seed: 17", "  seed: 17\n  seed: 18",
         "t.yaml:15:3: workload.seed: is given twice, first on line 14; expected each key once"),
        ("  steps: 20\n", "", "t.yaml:6:3: workload.steps: missing"),
        ("metadata: {name: check}\n", "", "t.yaml:1:1: metadata: missing"),
        ('  seed: 17', '  "se\\ned\\e": 17', 't.yaml:14:3: workload."se\\ned\\x1b": unknown key; did you mean seed?'),
        ("{name: check}", "{[name]: check}",
         "t.yaml:3:12: metadata: a key that is a list or a map; expected a word as the key"),
        # values
        ("seed: 17", "seed: 1.5", "t.yaml:14:9: workload.seed: saw 1.5; expected an integer"),
        ("seed: 17", "seed: '17'", 't.yaml:14:9: workload.seed: saw "17"; expected an integer'),
        ("seed: 17", "seed: -1", "t.yaml:14:9: workload.seed: saw -1; expected at least 0"),
        ("seed: 17", "seed:", "t.yaml:14:8: workload.seed: saw nothing; expected an integer"),
        ("seed: 17", "seed: 0x1ffffffff", "t.yaml:14:9: workload.seed: saw 8589934591; expected at most 4294967295"),
        ("seed: 17", f"seed: {10**20}",
         f"t.yaml:14:9: workload.seed: saw {10**20}; expected an integer within ±(2^53-1), or text in quotes"),
        ("seed: 17", f"seed: {'9' * 5000}",
         f"t.yaml:14:9: workload.seed: saw {'9' * 80}…; expected an integer within ±(2^53-1), or text in quotes"),
        ("lr: 1e-2", "lr: 1e999",
         "t.yaml:12:19: workload.optimizer.lr: saw 1e999; expected a finite number, or text in quotes"),
        ("lr: 1e-2", "lr: -.inf",
         "t.yaml:12:19: workload.optimizer.lr: saw -.inf; expected a finite number, or text in quotes"),
        ("lr: 1e-2", "lr: fast", 't.yaml:12:19: workload.optimizer.lr: saw "fast"; expected a number'),
        ("[0.9, 0.95]", "[0.9, 1]", "t.yaml:12:38: workload.optimizer.betas.1: saw 1; expected less than 1"),
        ("[0.9, 0.95]", "[0.9]", "t.yaml:12:32: workload.optimizer.betas: saw a list of 1; expected 2 items"),
        ("[0.9, 0.95]", "[]", "t.yaml:12:32: workload.optimizer.betas: saw an empty list; expected 2 items"),
        ("[0.9, 0.95]", "[0.1, 0.2, 0.3]",
         "t.yaml:12:32: workload.optimizer.betas: saw a list of 3; expected at most 2 items"),
        ("[0.9, 0.95]", "0.9", "t.yaml:12:32: workload.optimizer.betas: saw 0.9; expected a list"),
        ("strategy: fsdp", "strategy: zero3",
         't.yaml:8:13: workload.strategy: saw "zero3"; expected one of ddp, fsdp, fsdp-grad-op, hsdp'),
        ("apiVersion: seatrial.io/v1alpha1", "apiVersion: v1",
         't.yaml:1:13: apiVersion: saw "v1"; expected seatrial.io/v1alpha1'),
        ("kind: Trial", "kind: Job", 't.yaml:2:7: kind: saw "Job"; expected Trial'),
        ("{name: check}", "{name: 1.6}", "t.yaml:3:18: metadata.name: saw 1.6; expected text; put it in quotes"),
        ("{name: check}", '{name: ""}', 't.yaml:3:18: metadata.name: saw ""; expected at least 1 character'),
        ("{name: check}", "check", 't.yaml:3:11: metadata: saw "check"; expected a map'),
        ("{start: 5m,", "{start: 5 min,",
         't.yaml:13:20: workload.timeout.start: saw "5 min"; expected a number with s, m or h, as in 5m'),
        ("{start: 5m,", "{start: 0s,", 't.yaml:13:20: workload.timeout.start: saw "0s"; expected more than 0'),
        ("{start: 5m,", "{start: [],", "t.yaml:13:20: workload.timeout.start: saw an empty list; expected a number"),
        ("scaling:", "runtimeEnv: {env_vars: {DEBUG: true}}\nscaling:",
         "t.yaml:4:32: runtimeEnv.env_vars.DEBUG: saw true; expected text; put it in quotes"),
        ("scaling:", "cluster: {head: {memory: 16}}\nscaling:",
         "t.yaml:4:26: cluster.head.memory: saw 16; expected text; put it in quotes"),
        # values that do not go together
        ("{config: {model_type: qwen2}}", "{}",
         "t.yaml:6:10: workload.model: was given nothing; expected exactly one of name, path, config"),
        ("{config: {model_type: qwen2}}", "{config: {}}",
         "t.yaml:6:19: workload.model.config: has no model_type; expected a Transformers architecture, such as qwen2"),
        ("{config: {model_type: qwen2}}", "{path: m, revision: main}",
         "t.yaml:6:30: workload.model.revision: was given without name; expected revision only beside name"),
        ("{corpus: python-stdlib}", "{train: a}",
         "t.yaml:7:9: workload.data: heldout is missing; expected both train and heldout"),
        # claims
        ("execution.completed", "execution.complete",
         "t.yaml:16:13: claims.0.claim: unknown claim execution.complete; did you mean execution.completed?"),
        ("execution.completed", "execution.completed, min: 3",
         "t.yaml:16:39: claims.0.min: execution.completed was given {min}; expected no parameter"),
        (", max: 3", "",
         "t.yaml:17:5: claims.1: learning.heldout.loss was given no parameter; expected {max} or {improves_by, over}"),
        ("max: 3", "equals: 3", "t.yaml:17:44: claims.1.equals: saw 3; expected text or true/false"),
        ("max: 3", "below: []", "t.yaml:17:43: claims.1.below: saw an empty list; expected text or a number"),
        ("  - {claim: execution.completed}", "  - execution.completed",
         't.yaml:16:5: claims.0: saw "execution.completed"; expected a map'),
        # YAML beyond a trial
        ("seed: 17", "seed: !!int 17", "t.yaml:14:9: tag !!int; expected a value without a tag; quotes make it text"),
        ("seed: 17", "seed: !!python/name:os.system ''",
         "t.yaml:14:9: tag !!python/name:os.system; expected a value without a tag; quotes make it text"),
        ("{name: check}", "!mine {name: check}",
         "t.yaml:3:11: tag !mine; expected a value without a tag; quotes make it text"),
        ("  seed: 17", "  <<: {seed: 17}",
         "t.yaml:14:3: workload: merge key <<; expected the keys themselves, written out"),
        ("check}", '"\\ud800"}', "t.yaml:3:18: metadata.name: text with a lone surrogate; expected Unicode text"),
        ("{name:", "{*name :", "t.yaml:3:12: not YAML: found undefined alias 'name'"),
        ("seed: 17", "seed: 17\n\tx: 1",
         "t.yaml:15:1: not YAML: found character '\\t' that cannot start any token; indent with spaces"),
        ("seed: 17", "seed: [17",
         "t.yaml:15:7: not YAML: expected ',' or ']', but got ':' while parsing a flow sequence that starts on line "
         "14"),
        ("seed: 17", "seed: 17: 18", "t.yaml:14:11: not YAML: mapping values are not allowed here"),
        ("claims:", "---\nclaims:", "t.yaml:15:1: a second document; expected one document in a file"),
        ("seed: 17", 'seed: "\\UFFFFFFFF"', "t.yaml:14:12: not YAML: an escape is not a character"),
        ("seed: 17", "seed: 17\0", "t.yaml:14:11: character U+0000; expected printable text"),
    ],
)  # fmt: skip
def test_one_wrong_thing_gives_one_line(folder, old, new, line):
    assert lines_of(edited((old, new))) == line


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"", "t.yaml: saw nothing; expected a map with metadata, workload and claims; `seatrial init` writes one"),
        (b"# later\n",
         "t.yaml: saw nothing; expected a map with metadata, workload and claims; `seatrial init` writes one"),
        (b"- a\n- b",
         "t.yaml:1:1: saw a list of 2; expected a map with metadata, workload and claims; `seatrial init` writes one"),
        (b"a: b\nc: \xff", "t.yaml:2:4: byte 0xff is not UTF-8; expected UTF-8 text"),
        (b"\xef\xbb\xbf\xc3\xa9: \xe9", "t.yaml:1:4: byte 0xe9 is not UTF-8; expected UTF-8 text"),
        ("a: 1".encode("utf-16"), "t.yaml:1:1: byte 0xff is not UTF-8; expected UTF-8 text"),
        (b"\x89PNG\r\n\x1a\n\0\0", "t.yaml:1:1: byte 0x89 is not UTF-8; expected UTF-8 text"),
        (b"\x7fELF", "t.yaml:1:1: character U+007F; expected printable text"),
        (b"[" * 1000,
         "t.yaml:1:51: too deep, or too many values; expected at most 50 levels and 20000 values"),
        (b"- 1\n" * 30_000,
         "t.yaml:19999:3: too deep, or too many values; expected at most 50 levels and 20000 values"),
        (b"a: &a [*a]", "t.yaml:1:4: aliases expand too deep, or to too many values; expected at most 50 levels and 20000 values"),
        (b"#" * (MAX_BYTES + 1), "t.yaml: is too large; expected at most 1048576 bytes"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_trial_gives_one_line(folder, content, line):
    assert lines_of(content) == line


def test_aliases_that_multiply_are_stopped(folder):
    tenfold = "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdef", "bcdefg", strict=True))
    assert "aliases expand too deep, or to too many values" in lines_of("a: &a [x]\n" + tenfold)
    long = f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]\n"
    assert "aliases expand too deep, or to too many values" in lines_of(long)


def places_of(lines: str) -> list[str]:
    return [line.split(": ")[0] for line in lines.splitlines()]


def test_several_errors_come_in_the_order_of_the_file_without_their_consequences(folder):
    wrong_claims = (("execution.completed", "nonsense"), ("heldout.loss, max: 3", "heldout.los, max: 3"))
    lines = lines_of(edited(*wrong_claims, ("scaling:", "scalling:"), ("seed: 17", "seed: -1")))
    assert places_of(lines) == ["t.yaml:4:1", "t.yaml:14:9", "t.yaml:16:13", "t.yaml:17:13"]


def test_several_errors_of_the_document_come_together(folder):
    lines = lines_of(
        edited(("seed: 17", "seed: 1e999"), ("check}", '"\\ud800"}'), ("steps: 20", "steps: 20\n  steps: 30"))
    )
    assert places_of(lines) == ["t.yaml:3:18", "t.yaml:12:3", "t.yaml:15:9"]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("2e-5", 2e-5), ("1E3", 1000.0), (".5", 0.5), ("5.", 5.0), ("-1.5", -1.5), ("012", 12), ("+3", 3),
        ("0o17", 15), ("0x1F", 31), ("on", "on"), ("yes", "yes"), ("1_000", "1_000"), ("12:30", "12:30"),
        ("2024-01-01", "2024-01-01"), ("~", None), ("null", None), ("Null", None), ("True", True),
        ("FALSE", False), ("tRue", "tRue"), ("''", ""), ("'true'", "true"), ('"1"', "1"), ("|-\n  1", "1"),
        (r'"\ud83d\ude00"', "😀"), ("'.inf'", ".inf"), ("=", "="),
    ],
)  # fmt: skip
def test_scalars_follow_the_core_schema_of_yaml_1_2(written, value):
    read = parse(f"x: {written}\n".encode(), "t.yaml").data["x"]
    assert read == value
    assert type(read) is type(value)


def test_paths_are_of_the_folder_of_the_file_in_which_they_stand(folder):
    platform = folder / "platform"
    platform.mkdir()
    (platform / "storage.yaml").write_text("path: runs\n")
    data = "{train: text/train, heldout: /data/heldout}"
    (folder / "t.yaml").write_text(
        edited(
            ("{corpus: python-stdlib}", data),
            ("{config: {model_type: qwen2}}", "{path: ../model}"),
            ("scaling:", "storage: {from: platform/storage.yaml}\nscaling:"),
        )
    )
    trial = load(Path("t.yaml")).trial
    assert trial.storage.path == f"{platform}/runs"
    assert (trial.workload.data.train, trial.workload.data.heldout) == (f"{folder}/text/train", "/data/heldout")
    assert trial.workload.model.path == f"{folder}/../model"


def test_the_default_storage_is_of_the_working_directory(folder):
    Path("t.yaml").write_text(TRIAL)
    assert load(Path("t.yaml")).trial.storage.path == "./runs"
    Path("t.yaml").write_text(edited(("scaling:", "storage: {path: s3://bucket/runs}\nscaling:")))
    assert load(Path("t.yaml")).trial.storage.path == "s3://bucket/runs"


def test_sections_from_files_are_those_files(folder):
    head, claims = TRIAL.split("claims:\n")
    Path("whole.yaml").write_text(TRIAL)
    Path("claims.yaml").write_text(claims)
    Path("t.yaml").write_text(head + "claims: {from: claims.yaml}\n")
    assert load(Path("t.yaml")).trial == load(Path("whole.yaml")).trial


@pytest.mark.parametrize(
    ("section", "files", "line"),
    [
        ("{from: none.yaml}", {},
         "t.yaml:4:17: scaling.from: none.yaml cannot be read: No such file or directory; expected a YAML file"),
        ("{from: .}", {}, "t.yaml:4:17: scaling.from: . is a folder; expected a YAML file"),
        ('{from: "a\\0b"}', {},
         "t.yaml:4:17: scaling.from: a\\x00b cannot be read: embedded null byte; expected a YAML file"),
        ("{from: 3}", {}, "t.yaml:4:17: scaling.from: saw 3; expected the name of a file, and no other key"),
        ("{from: a.yaml, num_workers: 2}", {},
         "t.yaml:4:17: scaling.from: is given beside other keys; expected the name of a file, and no other key"),
        ("{from: t.yaml}", {},
         "t.yaml:4:17: scaling.from: t.yaml is the trial itself; expected another file, with this section only"),
        ("{from: a.yaml}", {"a.yaml": "{from: t.yaml}"},
         "t.yaml:4:17: scaling.from: a.yaml includes another file; expected a file with the section itself"),
        ("{from: a.yaml}", {"a.yaml": ""}, "t.yaml:4:17: scaling.from: a.yaml holds nothing; expected a map"),
        ("{from: a.yaml}", {"a.yaml": "- 1"}, "t.yaml:4:17: scaling.from: a.yaml holds a list of 1; expected a map"),
        ("{from: a.yaml}", {"a.yaml": "\nnum_workers: 0"},
         "a.yaml:2:14: scaling.num_workers: saw 0; expected at least 1"),
        ("{from: a.yaml}", {"a.yaml": "workers: 2"},
         "a.yaml:1:1: scaling.workers: unknown key; did you mean num_workers?"),
        ("{from: a.yaml}", {"a.yaml": "a: [1"}, "a.yaml:1:6: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("{num_workers: {from: a.yaml}}", {}, "t.yaml:4:24: scaling.num_workers: saw a map; expected an integer"),
        ("{num_workers: 2}\nimage: {from: a.yaml}", {}, "t.yaml:5:8: image: saw a map; expected text"),
    ],
)  # fmt: skip
def test_a_section_that_cannot_be_taken_from_a_file(folder, section, files, line):
    for name, content in files.items():
        Path(name).write_text(content)
    assert lines_of(edited(("{num_workers: 2}", section))) == line


def test_only_a_whole_section_can_come_from_a_file(folder):
    line = "t.yaml:6:11: workload.model.from: unknown key; only a whole section can be {from: file}"
    assert lines_of(edited(("{config: {model_type: qwen2}}", "{from: model.yaml}"))) == line


def test_errors_of_the_trial_file_come_before_those_of_included_files(folder):
    Path("a.yaml").write_text("num_workers: 0")
    lines = lines_of(edited(("{num_workers: 2}", "{from: a.yaml}"), ("seed: 17", "seed: -1"))).splitlines()
    assert [line.split(":")[0] for line in lines] == ["t.yaml", "a.yaml"]


def test_what_is_no_regular_file_is_not_read(folder):
    os.mkfifo("pipe")
    for path, line in {
        ".": ".: is a folder; expected a YAML file",
        "none": "none: cannot be read: No such file or directory; expected a YAML file",
        "pipe": "pipe: is not a regular file; expected a YAML file",
        "/dev/zero": "/dev/zero: is not a regular file; expected a YAML file",
        "t.yaml/t.yaml": "t.yaml/t.yaml: cannot be read: Not a directory; expected a YAML file",
    }.items():
        Path("t.yaml").write_text(TRIAL)
        with pytest.raises(InputError) as error:
            load(Path(path))
        assert str(error.value) == line


def test_an_unknown_template_names_those_that_exist():
    with pytest.raises(InputError, match=f"unknown template ../local; expected one of {', '.join(templates())}"):
        builtin("../local")


def check_outcome(path: Path) -> None:
    """A trial that travels unchanged, or whole lines that each name a file and use the words of the file."""
    try:
        trial = load(path).trial
    except InputError as error:
        for line in str(error).split("\n"):
            assert line.startswith(f"{path}:")
            assert line.isprintable()
            assert "Input should" not in line
            assert "validation" not in line
    else:
        assert Trial.from_resolved(canonical(trial.resolved())) == trial


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loader") / "any.yaml"


PIECES = [
    "a", "b: ", ": ", "\n", "\n  ", "- ", "? ", "[", "]", "{", "}", ",", "&x ", "*x ", "!t ", "!!str ", "'", '"', "\\",
    "\\U110000", "\\ud800", "|\n", ">-\n", "%", "#", "---\n", "...\n", "\t", "<<: ", "1e999", "0x", "~", "\0", "\u2028",
]  # fmt: skip


@given(content=st.text() | st.lists(st.sampled_from(PIECES), max_size=25).map("".join) | st.binary())
def test_no_file_content_escapes_the_error_tree(scratch, content):
    scratch.write_bytes(content if isinstance(content, bytes) else content.encode())
    check_outcome(scratch)


def paths_of(data: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(deeper for key, value in items for deeper in paths_of(value, (*path, key)))]


LOCAL = parse(template("local").encode(), "local").data
words = st.text(max_size=8) | st.sampled_from(["5m", "ddp", "base", "efa", "execution.completed"])
keys = st.text(max_size=6) | st.sampled_from(
    ["name", "from", "claim", "config", "train", "path", "min", "equals", "str"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=6,
)


@given(path=st.sampled_from(paths_of(LOCAL)), value=values, replaces=st.booleans(), key=keys)
def test_no_value_at_any_place_escapes_the_error_tree(scratch, path, value, replaces, key):
    document = {"": copy.deepcopy(LOCAL)}
    holder: Any = document
    *way, last = ("", *path)
    for part in way:
        holder = holder[part]
    if replaces or not isinstance(holder[last], dict):
        holder[last] = value
    else:
        holder[last][key] = value
    scratch.write_text(yaml.safe_dump(document[""], allow_unicode=True, sort_keys=False))
    check_outcome(scratch)
