"""The tables of instances, GPUs and images: numbers written out by hand, and look-ups that never guess."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seatrial.hardware import (
    Gpu,
    ImageFacts,
    Instance,
    dlc_repository,
    gpu,
    gpus,
    image,
    images,
    instance,
    instances,
)
from seatrial.hardware.images import VERSIONS
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
DLC = "public.ecr.aws/deep-learning-containers/ray"
DIGEST = "sha256:" + "0123456789abcdef" * 4
ALL: list[Any] = [*instances(), *gpus(), *images()]


def described(name: str) -> tuple[Any, ...]:
    found = instance(name)
    assert found is not None, name
    return found.gpus, found.gpu, found.gpu_memory_mib, found.memory_mib, found.network_mbps, found.efa, found.gdr


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("g5.xlarge", (1, "A10G", 22888, 16384, 2500, 0, False)),
        ("g5.16xlarge", (1, "A10G", 22888, 262144, 25000, 1, False)),
        ("g5.24xlarge", (4, "A10G", 22888, 393216, 50000, 1, False)),
        ("g5.48xlarge", (8, "A10G", 22888, 786432, 100000, 1, False)),
        ("g6.8xlarge", (1, "L4", 22888, 131072, 25000, 1, False)),
        ("g6.12xlarge", (4, "L4", 22888, 196608, 40000, 1, False)),
        ("g6e.4xlarge", (1, "L40S", 45776, 131072, 20000, 0, False)),
        ("g6e.48xlarge", (8, "L40S", 45776, 1572864, 400000, 4, False)),
        ("g7e.8xlarge", (1, "RTX PRO 6000", 98304, 262144, 100000, 1, False)),
        ("g7e.12xlarge", (2, "RTX PRO 6000", 98304, 524288, 400000, 1, True)),
        ("p4d.24xlarge", (8, "A100-40", 40960, 1179648, 400000, 4, True)),
        ("p4de.24xlarge", (8, "A100-80", 81920, 1179648, 400000, 4, True)),
        ("p5.4xlarge", (1, "H100", 81920, 262144, 100000, 1, None)),
        ("p5.48xlarge", (8, "H100", 81920, 2097152, 3200000, 32, True)),
        ("p5en.48xlarge", (8, "H200", 144384, 2097152, 3200000, 16, True)),
        ("p6-b200.48xlarge", (8, "B200", 183359, 2097152, 3200000, 8, True)),
        ("p6-b300.48xlarge", (8, "B300", 275040, 4194304, 6400000, 16, True)),
        ("m5.2xlarge", (0, None, None, 32768, 2500, 0, False)),
        ("trn1.32xlarge", (0, None, None, 524288, 800000, 8, None)),
    ],
)
def test_instances_have_the_numbers_of_their_sources(name: str, expected: tuple[Any, ...]) -> None:
    assert described(name) == expected


@pytest.mark.parametrize(
    ("name", "vcpus", "cpu_m", "memory_mib"),
    [
        ("g6.12xlarge", 48, 47810, 178933),
        ("p5.48xlarge", 192, 191450, 1938410),
        ("m5.xlarge", 4, 3920, 14162),
        ("trn1.2xlarge", 8, 7910, 29317),
    ],
)
def test_what_kubernetes_can_hand_out(name: str, vcpus: int, cpu_m: int, memory_mib: int) -> None:
    found = instance(name)
    assert found is not None
    assert (found.vcpus, found.allocatable_cpu_m, found.allocatable_memory_mib) == (vcpus, cpu_m, memory_mib)


TRAINED_ON = """
g5.xlarge g5.8xlarge g5.12xlarge g5.16xlarge g5.24xlarge g5.48xlarge
g6.xlarge g6.8xlarge g6.12xlarge g6.16xlarge g6.24xlarge g6.48xlarge
g6e.xlarge g6e.4xlarge g6e.8xlarge g6e.16xlarge g6e.12xlarge g6e.24xlarge g6e.48xlarge
g7e.8xlarge g7e.12xlarge g7e.24xlarge g7e.48xlarge
p4d.24xlarge p4de.24xlarge p5.4xlarge p5.48xlarge p5e.48xlarge p5en.48xlarge p6-b200.48xlarge p6-b300.48xlarge
g5.2xlarge g5.4xlarge g6.2xlarge g6.4xlarge g6e.2xlarge g7e.2xlarge g7e.4xlarge
m5.large m6a.4xlarge m6i.8xlarge m7i.2xlarge c6i.16xlarge r6i.4xlarge trn1.2xlarge trn1.32xlarge trn1n.32xlarge
"""


@pytest.mark.parametrize("name", TRAINED_ON.split())
def test_every_type_that_teams_train_on_is_known(name: str) -> None:
    found = instance(name)
    assert found is not None
    assert found.name == name
    assert found is instance(f"ml.{name}"), "HyperPod's prefix names the same hardware"


def test_nvlink_is_where_several_gpus_share_a_switch() -> None:
    speeds = {entry.name.split(".")[0]: entry.nvlink for entry in instances() if entry.nvlink}
    assert speeds == {
        "p4d": "NVSwitch 600 GB/s",
        "p4de": "NVSwitch 600 GB/s",
        "p5": "NVSwitch 900 GB/s",
        "p5e": "NVSwitch 900 GB/s",
        "p5en": "NVSwitch 900 GB/s",
        "p6-b200": "NVSwitch 1800 GB/s",
        "p6-b300": "NVSwitch 1800 GB/s",
    }
    single = instance("p5.4xlarge")
    assert single is not None
    assert single.nvlink is None


def test_neuron_devices() -> None:
    counts = {entry.name: entry.neuron_devices for entry in instances() if entry.neuron_devices}
    assert counts == {"trn1.2xlarge": 1, "trn1.32xlarge": 16, "trn1n.32xlarge": 16}


@pytest.mark.parametrize("entry", instances(), ids=lambda entry: entry.name)
def test_an_instance_is_consistent(entry: Instance) -> None:
    assert (entry.gpu is None) == (entry.gpu_memory_mib is None) == (entry.gpus == 0)
    assert entry.gpu is None or gpu(entry.gpu) is not None
    assert 0 < (entry.allocatable_cpu_m or 0) < 1000 * (entry.vcpus or 0)
    assert 0 < (entry.allocatable_memory_mib or 0) < (entry.memory_mib or 0)
    assert not entry.gdr or (entry.efa and entry.gpus), "GPUDirect RDMA over EFA takes both"


def test_instances_are_in_order_and_distinct() -> None:
    names = [entry.name for entry in instances()]
    assert len(set(names)) == len(names)
    g6 = [name for name in names if name.startswith("g6.")]
    assert g6 == [f"g6.{size}xlarge" for size in ("", 2, 4, 8, 12, 16, 24, 48)]
    families = [name.split(".")[0] for name in names]
    assert families == sorted(families)


@pytest.mark.parametrize(
    "name", ["", "ml.", "g6", "g6.", "G6.12xlarge", "g6.12xLarge", "g6.13xlarge", " g6.12xlarge", "ml.ml.p5.48xlarge"]
)
def test_an_unknown_instance_is_none(name: str) -> None:
    assert instance(name) is None


@pytest.mark.parametrize(
    ("name", "tflops", "bandwidth"),
    [
        ("A10G", 70, 600),
        ("L4", 121, 300),
        ("L40S", 362, 864),
        ("A100-40", 312, 1555),
        ("A100-80", 312, 2039),
        ("H100", 989, 3350),
        ("H200", 989, 4800),
        ("B200", 2250, 8000),
        ("B300", 2250, 8000),
        ("GB200", 2500, 8000),
        ("GB300", 2500, 8000),
        ("RTX PRO 6000", None, None),
    ],
)
def test_gpus(name: str, tflops: float | None, bandwidth: int | None) -> None:
    found = gpu(name)
    assert found is not None
    assert (found.bf16_dense_tflops, found.memory_gb_per_s) == (tflops, bandwidth)
    assert bandwidth is None or "memory_gb_per_s" in found.unverified


def test_a_gpu_is_not_taken_for_its_neighbour() -> None:
    assert gpu("A10") is None
    assert gpu("A100") is None, "40 and 80 GB differ in bandwidth"
    a10g = gpu("A10G")
    assert a10g is not None
    assert "bf16_dense_tflops" in a10g.unverified


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: getattr(entry, "tag", None) or entry.name)
def test_every_row_has_a_source_and_the_types_it_declares(entry: Any) -> None:
    assert "https://" in entry.source or "datasheet" in entry.source
    assert set(entry.unverified) <= {field.name for field in fields(entry)}
    assert len(set(entry.unverified)) == len(entry.unverified)
    for name, hint in get_type_hints(type(entry)).items():
        value = getattr(entry, name)
        if hint in (tuple[str, ...], tuple[tuple[str, str], ...]):
            assert isinstance(value, tuple)
        elif hint == float | None:
            assert value is None or type(value) in (int, float)
        else:
            assert isinstance(value, hint), (name, value)
            assert isinstance(value, bool) == (value in (True, False) and "bool" in str(hint)), (name, value)


def test_the_ray_train_releases() -> None:
    first, second = image(f"{DLC}:train-ml-cuda-v1.0.0"), image(f"{DLC}:train-ml-cuda-v1.1.0")
    assert first is not None
    assert second is not None
    for facts in (first, second):
        assert (facts.ray, facts.torch, facts.cuda, facts.python) == ("2.58.0", "2.13.0", "13.0.2", "3.13")
        assert (facts.nccl, facts.unverified) == ("2.29.7", ("nccl",))
        assert (facts.dlc, facts.training, facts.has_wget, facts.floating) == (True, True, True, False)
        assert facts.points_to is None
        packages = dict(facts.packages)
        assert (packages["transformers"], packages["datasets"], packages["accelerate"]) == ("5.13.0", "5.0.0", "1.14.0")
        assert (packages["deepspeed"], packages["pytorch-lightning"]) == ("0.19.2", "2.6.5")
    assert (first.efa_installer, first.ofi_nccl) == ("1.47.0", "1.18.0")
    assert (second.efa_installer, second.ofi_nccl) == ("1.49.0", "1.20.0")
    assert "2026-08-26" in first.source
    assert "2026-09-01" in second.source


@pytest.mark.parametrize(
    ("tag", "target"),
    [
        ("train-ml-cuda", "train-ml-cuda-v1.1.0"),
        ("train-ml-cuda-v1", "train-ml-cuda-v1.1.0"),
        ("train-ml-cuda-v1.0", "train-ml-cuda-v1.0.0"),
        ("train-ml-cuda-v1.1", "train-ml-cuda-v1.1.0"),
        ("serve-ml-cuda", "serve-ml-cuda-v1.5.0"),
        ("serve-ml-sagemaker-cpu-v1", "serve-ml-sagemaker-cpu-v1.5.0"),
        ("serve-ml-cuda-v1.4", "serve-ml-cuda-v1.4.0"),
        ("serve-llm-cuda", "serve-llm-cuda-v1.0.0"),
    ],
)
def test_a_floating_tag_has_the_versions_it_last_pointed_to_and_none_is_verified(tag: str, target: str) -> None:
    facts, pinned = image(f"{DLC}:{tag}"), image(f"{DLC}:{target}")
    assert facts is not None
    assert pinned is not None
    assert (facts.floating, facts.points_to, facts.reference) == (True, target, f"{DLC}:{tag}")
    assert [getattr(facts, name) for name in VERSIONS] == [getattr(pinned, name) for name in VERSIONS]
    assert set(facts.unverified) >= set(VERSIONS)
    assert "last read 2026-" in facts.source
    assert not pinned.floating


def test_a_digest_fixes_the_image_but_verifies_no_version() -> None:
    fixed = image(f"{DLC}:train-ml-cuda@{DIGEST}")
    assert fixed is not None
    assert not fixed.floating
    assert set(fixed.unverified) >= set(VERSIONS)
    assert image(f"{DLC}:train-ml-cuda-v1.1.0@{DIGEST}") == image(f"{DLC}:train-ml-cuda-v1.1.0")
    assert image(f"{DLC}@{DIGEST}") is None, "a digest alone says nothing"
    assert dlc_repository(f"{DLC}@{DIGEST}")


def test_serving_images_are_no_training_images() -> None:
    serving = [facts for facts in images() if facts.tag.startswith("serve-")]
    assert serving
    assert all(facts.training is False and facts.dlc for facts in serving)
    facts = image(f"{DLC}:serve-ml-cuda-v1.4.0")
    assert facts is not None
    assert (facts.ray, facts.torch, facts.cuda, facts.efa_installer) == ("2.57.0", "2.10.0", "12.9.1", None)


@pytest.mark.parametrize(
    "repository",
    [
        DLC,
        "PUBLIC.ECR.AWS/deep-learning-containers/ray",
        "123456789012.dkr.ecr.us-west-2.amazonaws.com/ecr-public/deep-learning-containers/ray",
        "registry.example.com:5000/mirror/deep-learning-containers/ray",
        "localhost:5000/deep-learning-containers/ray",
        "localhost/deep-learning-containers/ray",
        "763104351884.dkr.ecr.us-west-2.amazonaws.com/ray",
        "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn/ray",
        "123456789012.dkr.ecr.eu-west-1.amazonaws.com/ray",
    ],
)
def test_the_dlc_is_found_wherever_it_is_mirrored(repository: str) -> None:
    assert image(f"{repository}:train-ml-cuda-v1.1.0") is image(f"{DLC}:train-ml-cuda-v1.1.0")
    assert dlc_repository(f"{repository}:train-ml-cuda-v9.9.9")
    assert image(f"{repository}:train-ml-cuda-v9.9.9") is None, "an unknown tag of a known image"


@pytest.mark.parametrize(
    "reference",
    [
        "nvcr.io/nvidia/pytorch:25.01-py3",
        "example.com/my-deep-learning-containers/ray:train-ml-cuda-v1.1.0",
        "example.com/deep-learning-containers/ray-fork:train-ml-cuda-v1.1.0",
        "example.com/deep-learning-containers/pytorch:train-ml-cuda-v1.1.0",
        "example.com/ray:train-ml-cuda-v1.1.0",
        "public.ecr.aws/Deep-Learning-Containers/ray:train-ml-cuda-v1.1.0",
        "123456789012.dkr.ecr.us-west-2.amazonaws.com/ray:my-build",
        "123456789012.dkr.ecr.us-west-2.amazonaws.com.evil.example/ray:train-ml-cuda-v1.1.0",
        "rayproject/ray-ml:2.9.0",
        "",
        ":",
        "@",
    ],
)
def test_another_image_is_neither_known_nor_the_dlc(reference: str) -> None:
    assert image(reference) is None
    assert not dlc_repository(reference)


def test_an_account_of_aws_needs_no_known_tag() -> None:
    assert dlc_repository("763104351884.dkr.ecr.us-west-2.amazonaws.com/ray:anything")
    assert dlc_repository("763104351884.dkr.ecr.us-west-2.amazonaws.com/ray")
    assert not dlc_repository("763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:train-ml-cuda")


@pytest.mark.parametrize("tag", ["TRAIN-ML-CUDA", "train-ml-cuda-v1.1.0 ", "train-ml-cuda-v2", "latest", "train"])
def test_a_tag_is_matched_as_it_is(tag: str) -> None:
    assert image(f"{DLC}:{tag}") is None


@pytest.mark.parametrize(
    ("reference", "ray", "python", "cuda"),
    [
        ("rayproject/ray:2.58.0", "2.58.0", None, None),
        ("docker.io/rayproject/ray:2.58.0-py311", "2.58.0", "3.11", None),
        ("rayproject/ray:2.58.0-py312-cu128", "2.58.0", "3.12", "12.8"),
        ("localhost:5000/cache/rayproject/ray:2.9.3-py39-cu130-aarch64", "2.9.3", "3.9", "13.0"),
        ("rayproject/ray:2.58.0-py313-gpu", "2.58.0", "3.13", None),
        (f"rayproject/ray:2.58.0-cpu@{DIGEST}", "2.58.0", None, None),
    ],
)
def test_the_tags_of_rayproject_say_which_ray(reference: str, ray: str, python: str | None, cuda: str | None) -> None:
    facts = image(reference)
    assert facts is not None
    assert (facts.ray, facts.python, facts.cuda) == (ray, python, cuda)
    assert (facts.floating, facts.dlc, facts.training, facts.torch) == (False, False, None, None)
    assert not dlc_repository(reference)


@pytest.mark.parametrize("tag", ["", ":latest", ":nightly", ":latest-py311-gpu"])
def test_rayproject_has_floating_tags_too(tag: str) -> None:
    facts = image(f"rayproject/ray{tag}")
    assert facts is not None
    assert (facts.floating, facts.ray, facts.points_to) == (True, None, None)
    fixed = image(f"rayproject/ray:latest@{DIGEST}")
    assert fixed is not None
    assert not fixed.floating


@pytest.mark.parametrize("tag", [":2.58", ":v2.58.0", ":2.58.0rc1", ":a1b2c3", f"@{DIGEST}", ":2.58.0-"])
def test_other_tags_of_rayproject_say_nothing(tag: str) -> None:
    assert image(f"rayproject/ray{tag}") is None


def test_image_tags_are_distinct() -> None:
    tags = [facts.tag for facts in images()]
    assert len(set(tags)) == len(tags)
    assert sum(facts.floating for facts in images() if facts.training) == 4


ALPHABET = st.text(st.sampled_from("abz019.:/@-_ \n\x00é") | st.characters(), max_size=60)
PIECES = st.lists(
    st.sampled_from(["public.ecr.aws", "/", "deep-learning-containers", "ray", ":", "train-ml-cuda", "-v1", "@", "ml."])
    | ALPHABET,
    max_size=8,
).map("".join)


@given(ALPHABET | PIECES)
def test_no_string_raises(text: str) -> None:
    assert instance(text) is None or isinstance(instance(text), Instance)
    assert image(text) is None or isinstance(image(text), ImageFacts)
    assert gpu(text) is None or isinstance(gpu(text), Gpu)
    assert dlc_repository(text) in (True, False)


def test_a_reference_is_read_in_one_pass() -> None:
    """A million characters each: whoever goes back over what was read comes to no end within the limit."""
    parts = ("a-", "a.", "a/", "a_", "a", "-", "1.", "a__")
    code = (
        "from seatrial.hardware import image\n"
        f"print([image(part * (1_000_000 // len(part)) + '!') for part in {parts}])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.stdout.strip() == str([None] * len(parts)), done.stderr


def test_the_tables_are_read_from_a_zip_with_the_standard_library_alone(tmp_path: Path) -> None:
    archive = tmp_path / "shipped.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in [ROOT / "src/seatrial/__init__.py", *(ROOT / "src/seatrial/hardware").glob("*.*")]:
            target.write(path, path.relative_to(ROOT / "src"))
    code = (
        f"import sys; sys.path.insert(0, {str(archive)!r})\n"
        "from seatrial.hardware import gpus, image, instance\n"
        f"print(instance('g6.12xlarge').efa, image('{DLC}:train-ml-cuda').ray, len(gpus()))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-I", "-c", code], capture_output=True, text=True, check=False, env={**os.environ}
    )
    assert done.stdout.split() == ["1", "2.58.0", "12"], done.stderr
