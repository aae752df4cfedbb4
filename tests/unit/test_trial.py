"""The trial's models: defaults, strictness, what is frozen and hashed, and the claim registry."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from seatrial.canon import canonical, digest, plain
from seatrial.trial import KINDS, REGISTRY, Claim, Trial
from seatrial.trial.claims import PATHS
from seatrial.trial.loader import builtin, template, templates
from tests.support.trials import tiny

pytestmark = pytest.mark.unit


def claim(**parameters: Any) -> Claim:
    return Claim.model_validate_json(json.dumps(parameters))


def changed(path: tuple[str | int, ...], value: Any) -> Trial:
    """The local template with one value replaced."""
    document = copy.deepcopy(builtin("local").trial.resolved())
    *way, last = path
    holder: Any = document
    for key in way:
        holder = holder[key]
    holder[last] = value
    return Trial.model_validate_json(json.dumps(document))


def refusal(error: pytest.ExceptionInfo[ValidationError]) -> str:
    return "\n".join(detail["msg"] for detail in error.value.errors())


@pytest.mark.parametrize(
    ("name", "equals", "known"),
    [
        ("internode", "tpc", "efa, ib, socket, tcp"),
        ("intranode", "efa", "nvlink, pcie-p2p, shm, tcp"),
        ("gpudirect", "yes", "true, false"),
    ],
)
def test_a_path_that_no_reader_names_is_refused_with_those_that_exist(name, equals, known):
    with pytest.raises(ValidationError) as error:
        claim(claim=f"transport.{name}", equals=equals)
    assert f"saw {equals}; expected one of {known}" in refusal(error)


@pytest.mark.parametrize("name", templates())
def test_every_template_loads_and_survives_the_journey_to_the_driver(name):
    trial, text = builtin(name).trial, template(name)
    assert text.startswith("#")
    assert Trial.from_resolved(canonical(trial.resolved())) == trial


def test_defaults_are_those_of_the_documentation():
    minimal = {
        "metadata": {"name": "minimal"},
        "workload": {
            "model": {"name": "org/model"},
            "data": {"corpus": "python-stdlib"},
            "sequence_length": 64,
            "global_batch": 8,
            "steps": 20,
            "optimizer": {"lr": 0.001},
        },
        "claims": [{"claim": "execution.completed"}],
    }
    resolved = Trial.model_validate_json(json.dumps(minimal)).resolved()
    assert resolved["apiVersion"] == "seatrial.io/v1alpha1"
    assert resolved["cluster"]["provider"] == "local"
    assert resolved["scaling"] == {"num_workers": 2, "gpus_per_worker": 0}
    assert resolved["storage"] == {"path": "./runs", "volume": None}
    work = resolved["workload"]
    assert (work["strategy"], work["precision"], work["reduce_dtype"]) == ("fsdp", "bf16", "fp32")
    assert work["optimizer"] == {
        "lr": 0.001, "weight_decay": 0.1, "betas": [0.9, 0.95], "warmup_steps": 0, "clip": 1.0,
    }  # fmt: skip
    assert work["timeout"] == {"start": 600.0, "step": 300.0}
    assert (work["max_failures"], work["seed"], work["micro_batch"]) == (0, 0, 1)
    assert resolved["claims"] == [{"claim": "execution.completed"}]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("workload", "seed"), "17"),
        (("workload", "seed"), True),
        (("workload", "seed"), 1.0),
        (("workload", "seed"), 2**32),
        (("workload", "steps"), 0),
        (("workload", "strategy"), "zero3"),
        (("workload", "max_failures"), 1),
        (("workload", "optimizer", "lr"), "1e-3"),
        (("workload", "optimizer", "betas"), [0.9, 1.0]),
        (("workload", "sede"), 17),
        (("scaling", "gpus_per_worker"), 2),
        (("runtimeEnv", "env_vars"), {"OMP_NUM_THREADS": 1}),
        (("apiVersion",), "seatrial.io/v1"),
        (("kind",), "Job"),
        (("metadata", "name"), ""),
        (("claims",), []),
    ],
)
def test_nothing_is_converted_and_nothing_unknown_is_taken(path, value):
    with pytest.raises(ValidationError):
        changed(path, value)


def test_a_trial_is_frozen():
    with pytest.raises(ValidationError, match="frozen"):
        tiny().workload.seed = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30s", 30.0), ("10m", 600.0), ("1.5h", 5400.0), ("0.5s", 0.5), (45, 45.0), (2.5, 2.5)],
)
def test_durations(text, seconds):
    assert changed(("workload", "timeout", "start"), text).workload.timeout.start == seconds


@pytest.mark.parametrize("text", ["", "5", "5 m", "5d", "-5m", "m", "1e3s", "5m\n", "٥m", "0s", 0, -1, True, None])
def test_what_is_no_duration(text):
    with pytest.raises(ValidationError):
        changed(("workload", "timeout", "start"), text)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({}, "was given nothing; expected exactly one of name, path, config"),
        ({"name": "a", "path": "b"}, "was given name, path; expected exactly one of name, path, config"),
        ({"path": "b", "revision": "main"}, "was given without name; expected revision only beside name"),
        ({"config": {"hidden_size": 8}}, "has no model_type"),
        ({"config": {"model_type": "qwen2"}, "tokenizer": "model"}, "and a config has no tokenizer; expected bytes"),
    ],
)
def test_a_model_has_one_source(model, message):
    with pytest.raises(ValidationError) as error:
        changed(("workload", "model"), model)
    assert message in refusal(error)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "was given nothing; expected one of train + heldout, dataset, corpus, synthetic"),
        ({"corpus": "python-stdlib", "synthetic": "random-tokens"}, "was given corpus, synthetic"),
        ({"train": "a"}, "heldout is missing; expected both"),
        ({"heldout": "a"}, "train is missing; expected both"),
    ],
)
def test_data_has_one_source(data, message):
    with pytest.raises(ValidationError) as error:
        changed(("workload", "data"), data)
    assert message in refusal(error)


def sections(trial):
    return {name: digest(plain(value)) for name, value in trial.resolved().items()}


def test_a_change_moves_the_digest_of_its_section_alone():
    changes = {
        "metadata": tiny({"metadata": {"name": "other"}}),
        "scaling": tiny({"scaling": {"num_workers": 4}}),
        "storage": tiny({"storage": {"path": "/elsewhere"}}),
        "runtimeEnv": tiny({"runtimeEnv": {"env_vars": {"A": "b"}}}),
        "cluster": tiny({"cluster": {"provider": "ray"}}),
        "image": tiny({"image": "registry/image:tag"}),
        "workload": tiny(seed=18),
        "claims": tiny({"claims": [{"claim": "execution.completed"}]}),
    }
    before = sections(tiny())
    assert set(before) == set(Trial.model_fields)
    for section, trial in changes.items():
        after = sections(trial)
        assert {name for name in before if before[name] != after[name]} == {section}


def test_a_default_written_out_has_the_same_digest():
    assert sections(tiny(timeout={"start": "2m", "step": "1m"})) == sections(tiny())


@given(st.text(min_size=1, max_size=200))
def test_a_slug_is_a_name_that_kubernetes_takes(name):
    slug = tiny({"metadata": {"name": name}}).slug
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", slug)
    assert len(slug) <= 48


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("qwen2.5-1.5b-first-look", "qwen2.5-1.5b-first-look"),
        ("First look, 2nd try", "first-look-2nd-try"),
        ("a-.-b..c", "a.b.c"),
        ("-.x.-", "x"),
        ("日本", "trial"),
        ("a" * 47 + "-b", "a" * 47),
    ],
)
def test_slugs(name, slug):
    assert tiny({"metadata": {"name": name}}).slug == slug


@pytest.mark.parametrize("name", REGISTRY)
def test_every_registered_claim_takes_each_of_its_forms(name):
    entry = REGISTRY[name]
    assert entry.kind in KINDS
    assert entry.established_by in ("run", "drill", "comparison")
    values = {"equals": PATHS.get(name, ("",))[0], "over": "base", "max_lost_steps": 5, "task": "digits"}
    assert entry.forms
    for form in entry.forms:
        parameters = {parameter: values.get(parameter, 0.5) for parameter in form}
        assert claim(claim=name, **parameters).resolved() == {"claim": name, **parameters}


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"claim": "execution.complete"}, "unknown claim execution.complete; did you mean execution.completed?"),
        ({"claim": "loss"}, "unknown claim loss; known claims: execution.finished, execution.completed, "),
        (
            {"claim": "execution.completed", "min": 1},
            "execution.completed was given {min}; expected no parameter",
        ),
        (
            {"claim": "performance.tokens_per_second"},
            "performance.tokens_per_second was given no parameter; expected {min}",
        ),
        (
            {"claim": "learning.heldout.loss", "max": 3, "over": "base"},
            "learning.heldout.loss was given {max, over}; expected {max} or {improves_by, over}",
        ),
        ({"claim": "learning.heldout.bits_per_byte", "below": "trigram"}, "a number or one of unigram, bigram"),
        ({"claim": "learning.heldout.loss", "improves_by": 1, "over": "run-7"}, "saw run-7; expected base"),
        ({"claim": "learning.heldout.loss", "improves_by": -1, "over": "base"}, "saw -1.0; expected at least 0"),
        ({"claim": "recovery.worker_kill", "max_lost_steps": -1}, "saw -1; expected at least 0"),
    ],
)
def test_a_claim_in_no_known_form_says_which_are(parameters, message):
    with pytest.raises(ValidationError) as error:
        claim(**parameters)
    assert message in refusal(error)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/dev/shm", "outside of /dev"), ("/usr/local", "outside of /usr"), ("/var", "would hide /var/lib"),
        ("/lib64", "outside of /lib64"), ("/root/data", "outside of /root"), ("/opt/venv/lib", "outside of /opt/venv"),
        ("/opt", "would hide /opt/amazon"), ("/home", "would hide /home/ray/anaconda3"),
        ("/home/ray", "would hide /home/ray/anaconda3"),
    ],
)  # fmt: skip
def test_a_volume_hides_nothing_of_the_pod(path, message):
    with pytest.raises(ValidationError) as error:
        changed(("storage",), {"path": path, "volume": {"claim": "c", "mountPath": path}})
    assert message in refusal(error)


@pytest.mark.parametrize("path", ["/fsx", "/mnt/data", "/data", "/opt/ml", "/home/ray/data", "/usrdata", "/workspace"])
def test_a_volume_at_a_folder_of_its_own(path):
    assert changed(("storage",), {"path": path, "volume": {"claim": "c", "mountPath": path}}).storage.volume
