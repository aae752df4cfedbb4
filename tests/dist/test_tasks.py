"""Tasks scored for real: against Transformers' own decoding, over world sizes, with a chat's template."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from seatrial.events import Layout, read
from seatrial.events.schema import ProcessFailed, Step
from seatrial.record import seal
from seatrial.train.tasks.lockstep import continuations, in_lockstep, likelihoods
from seatrial.train.tasks.text import ByteCodec, ModelCodec, pair
from tests.support import gloo, tasks
from tests.support.tasks import scored
from tests.support.trials import TINY

pytestmark = pytest.mark.dist
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model() -> Any:
    """A small Qwen2 with weights large enough that its greedy answers differ."""
    torch.manual_seed(5)
    config = dict(TINY["workload"]["model"]["config"])
    built = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    )
    with torch.no_grad():
        for parameter in built.parameters():
            parameter.mul_(4)
    return built.eval()


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(1)
    return [
        torch.randint(0, 256, (3 + 5 * n % 23,), generator=generator).tolist() for n in range(11)
    ]  # lengths that batches have to pad


@pytest.mark.parametrize("size", [1, 4, 16])
def test_greedy_answers_are_those_of_transformers(size: int, model: Any, prompts: list[list[int]]) -> None:
    most = [6] * len(prompts)
    seen = in_lockstep(model, CPU, continuations(prompts, size, most, lambda at, said: False))
    for prompt, said in zip(prompts, seen, strict=True):
        wanted = model.generate(
            torch.tensor([prompt]), max_new_tokens=6, do_sample=False, eos_token_id=None, pad_token_id=0
        )
        assert said == wanted[0, len(prompt) :].tolist()


@pytest.mark.parametrize("size", [1, 4, 16])
def test_likelihoods_are_those_of_one_text_alone(size: int, model: Any, prompts: list[list[int]]) -> None:
    requests = [(prompt[:2], prompt[2:]) for prompt in prompts]
    for (context, after), (nats, greedy) in zip(
        requests, in_lockstep(model, CPU, likelihoods(requests, size)), strict=True
    ):
        with torch.no_grad():
            logits = model(torch.tensor([[*context, *after]])).logits[0].double().log_softmax(-1)
        alone = logits[len(context) - 1 : -1]
        assert nats == pytest.approx(float(alone.gather(1, torch.tensor(after)[:, None]).sum()), rel=1e-5)
        assert greedy == (alone.argmax(-1).tolist() == after)


def test_logits_that_are_no_numbers_answer_nothing(model: Any) -> None:
    class Broken(torch.nn.Module):
        def forward(self, input_ids: Any, use_cache: bool) -> Any:
            out = model(input_ids=input_ids)
            out.logits[input_ids[:, 0] == 1] = float("nan")
            return out

    seen = in_lockstep(Broken(), CPU, continuations([[1, 2], [3, 4]], 2, [2, 2], lambda at, said: False))
    assert seen[0] is None
    assert seen[1] is not None
    assert len(seen[1]) == 2


def test_endings_are_found_wherever_they_stand() -> None:
    import numpy as np

    from seatrial.train.tasks.contamination import _CHUNK, found_in

    stream = np.random.default_rng(3).integers(0, 200, _CHUNK + 500).astype(np.uint8)
    here = [tuple(stream[at : at + size].tolist()) for at, size in ((0, 16), (_CHUNK - 20, 64), (_CHUNK + 468, 32))]
    changed = [(*ending[:-1], (ending[-1] + 1) % 200) for ending in here]
    assert found_in(stream, [*here, *changed]) == set(here)
    assert found_in(stream[:10], here) == set()


def test_a_pair_is_cut_where_the_context_ends() -> None:
    assert pair(ByteCodec(), "ab", "c") == ([97, 98], [99])
    assert pair(ByteCodec(), "ab ", "c") == ([97, 98], [32, 99])
    assert pair(ByteCodec(), "", "c") == ([0], [99])


# ---- whole runs


def losses(layout: Layout) -> list[Any]:
    return [e.loss for e in read(layout.process(1, "rank-0"), "rank-0", layout.root.name).all(Step)]


@pytest.mark.slow
def test_scores_are_free_of_world_size_and_leave_the_training_alone(tmp_path: Path) -> None:
    """Every item once, equal over world sizes and strategies; losses bit by bit as without tasks."""
    (tmp_path / "runs").mkdir()
    short = {"steps": 3, "checkpoint": {"every": 3}, "measure": {"warmup_steps": 1}, "optimizer": {"lr": 5e-3}}
    first = gloo.run(tasks.trial(tmp_path, **short), tmp_path / "runs")
    one = gloo.run(tasks.trial(tmp_path, {"scaling": {"num_workers": 1}}, **short), tmp_path / "runs")
    whole = gloo.run(tasks.trial(tmp_path, strategy="fsdp-grad-op", **short), tmp_path / "runs")
    bare = {"claims": TINY["claims"]}
    without = gloo.run(tasks.trial(tmp_path, bare, **short, evaluate=None), tmp_path / "runs")
    assert losses(first) == losses(without), "scoring changed the training"
    reference = scored(first, "rank", 2)
    assert {phase for _, phase in reference} == {"before", "after"}
    for other, world in ((one, 1), (whole, 2)):
        found = scored(other, "rank", world)
        assert found.keys() == reference.keys()
        for key, items in found.items():
            assert sorted(items) == list(range(41))
            if key[1] == "before":  # the same weights
                assert [v[:2] for _, v in sorted(items.items())] == [v[:2] for _, v in sorted(reference[key].items())]
                for number, (_, _, nats) in items.items():
                    assert nats == pytest.approx(reference[key][number][2], rel=1e-4)


def test_an_item_that_the_model_cannot_see_whole(tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    trial = tasks.trial(tmp_path, steps=3, measure={"warmup_steps": 1}, optimizer={"lr": 1e-3})
    (tmp_path / "digits.jsonl").write_text(
        '{"prompt": "a", "answer": "1"}\n' + json.dumps({"prompt": "a" * 126, "answer": "1"})
    )
    layout = gloo.run(trial, tmp_path / "runs")
    for rank in (0, 1):
        failed = read(layout.process(1, f"rank-{rank}"), f"rank-{rank}", layout.root.name).last(ProcessFailed)
        assert failed is not None
        assert failed.error == (
            f"{tmp_path}/digits.jsonl:2: 130 tokens with 4 new ones; expected at most 128, the model's"
            " max_position_embeddings"
        )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a tokenizer of its own, a chat template, and a second token that ends a turn."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    folder = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<|end|>", "<|turn|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())  # fmt: skip
    tokenizer.train_from_iterator(["the ship sails to the port of the sea " * 50], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.chat_template = (
        "{% for m in messages %}{% if m.role not in ('user', 'assistant') %}{{ raise_exception('no role ' + m.role) }}"
        "{% endif %}{{ m.role }}: {{ m.content }}<|turn|>{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
    )
    fast.save_pretrained(folder)
    config = {**TINY["workload"]["model"]["config"], "vocab_size": 300}
    torch.manual_seed(3)
    built = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    )
    built.generation_config.eos_token_id = [0, 1]
    built.save_pretrained(folder)
    return folder


def test_a_model_has_its_own_text(folder: Path) -> None:
    text = ModelCodec(folder)
    assert text.ends == (0, 1)
    assert text.decode([*text.encode("the ship sails"), 1]) == "the ship sails"
    asked = text.chat([{"role": "user", "content": "the ship"}])
    assert asked == "user: the ship<|turn|>assistant: "
    assert 1 in text.encode(asked)
    context, after = pair(text, "the ship ", "sails")
    assert text.decode(after) == " sails"
    assert [*context, *after] == text.encode("the ship sails")
    from seatrial.errors import RunError

    with pytest.raises(RunError, match="the chat template refuses the messages: TemplateError: no role captain"):
        text.chat([{"role": "captain", "content": "ho"}])


def test_a_chat_is_scored(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    rows = [{"prompt": [{"role": "user", "content": f"the ship {n}"}], "choices": ["sails", "sinks"], "answer": 0} for n in range(5)]  # fmt: skip
    (tmp_path / "chat.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    task = {"name": "chat", "kind": "multiple_choice", "path": str(tmp_path / "chat.jsonl"), "chat": True}
    answered = {**task, "name": "said", "kind": "exact_match", "max_new_tokens": 3}
    rows = [{"prompt": "the ship", "answer": "sails", "id": "only"}]
    (tmp_path / "said.jsonl").write_text(json.dumps(rows[0]))
    evaluate = {"tasks": [task, {**answered, "path": str(tmp_path / "said.jsonl")}]}
    trial = tasks.trial(
        tmp_path, {"claims": [{"claim": "learning.task.accuracy", "task": "chat", "min": 0.0}]},
        model={"path": str(folder)}, evaluate=evaluate, steps=3, measure={"warmup_steps": 1}, optimizer={"lr": 1e-3},
    )  # fmt: skip
    sealed = seal(gloo.run(trial, tmp_path / "runs").root)[1]
    assert sealed["verdicts"][0]["verdict"] == "supported", sealed["verdicts"]
    assert sealed["evidence"]["learning"]["learning.task.said.items"]["value"]["shown"][0]["id"] == "only"
