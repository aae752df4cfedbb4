"""A model from a folder with its own tokenizer: loaded, scored, recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from seatrial.canon import file_digest
from seatrial.driver.finish import seal_run
from tests.support import gloo
from tests.support.trials import TINY, quick

pytestmark = pytest.mark.dist

TEXT = "The sea trial of ship number {n} began at {h} o'clock; it made {k} knots over the measured mile.\n"


def lines(start: int, count: int) -> str:
    return "".join(TEXT.format(n=n, h=n * 7 % 24, k=10 + n * 13 % 17) for n in range(start, start + count))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small Qwen2 and a byte-level BPE of 300 words, saved as a hub model is."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([lines(0, 200)], trainer)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>").save_pretrained(folder)
    config = {**TINY["workload"]["model"]["config"], "vocab_size": 300}
    torch.manual_seed(3)
    transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    ).save_pretrained(folder)
    (folder / "train.md").write_text(lines(0, 400))
    (folder / "heldout.md").write_text(lines(1000, 60))
    return folder


def test_a_model_from_a_folder(folder: Path, tmp_path: Path) -> None:
    data = {"train": str(folder / "train.md"), "heldout": str(folder / "heldout.md"), "heldout_windows": 8}
    sealed = seal_run(
        gloo.run(quick(model={"path": str(folder)}, data=data, steps=10, checkpoint={"every": 10}), tmp_path)
    )[1]
    verdicts = {v["claim"]: v["verdict"] for v in sealed["verdicts"]}
    assert [verdicts[c] for c in list(verdicts)[:3]] == ["supported"] * 3, sealed["verdicts"]
    files = sealed["evidence"]["environment"]["environment.model"]["value"]["content"]["files"]
    assert files["model.safetensors"] == file_digest(folder / "model.safetensors")
    seen = sealed["evidence"]["learning"]["learning.heldout.loss.before"]["value"]
    assert seen == pytest.approx(oracle(folder, 8, 64), rel=1e-4)
    per_byte = sealed["evidence"]["learning"]["learning.heldout.bits_per_byte.before"]["value"]
    assert per_byte < seen / 0.693  # a token of this vocabulary is more than a byte


def oracle(folder: Path, windows: int, length: int) -> float:
    """Mean loss of the same windows by Transformers alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    ids = tokenizer((folder / "heldout.md").read_text(), add_special_tokens=False)["input_ids"] + [
        tokenizer.eos_token_id
    ]
    rows = (len(ids) - 1) // length
    starts = [i * rows // windows * length for i in range(windows)]
    batch = torch.tensor([ids[s : s + length + 1] for s in starts])
    with torch.no_grad():
        return float(model(input_ids=batch, labels=batch).loss)


def test_a_vocabulary_that_is_too_small_ends_the_run(tmp_path: Path) -> None:
    config = {**TINY["workload"]["model"]["config"], "vocab_size": 100}
    sealed = seal_run(gloo.run(quick(model={"config": config}), tmp_path))[1]
    assert sealed["exit_code"] == 4
    assert "raise vocab_size" in json.dumps(sealed["evidence"]["execution"]["execution.failures"])
