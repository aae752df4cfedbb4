"""A model in a folder with a tokenizer and a chat template, small enough for seconds."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.support.trials import TINY

PLAIN = (
    "{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] %}"
    "{{ raise_exception('no role ' + m.role) }}{% endif %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
MARKED = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<|end|>\n"
    "{% endgeneration %}{% else %}{{ m.content }}<|end|>\n{% endif %}{% endfor %}"
)
# Earlier answers are shortened once more turns follow, as templates do that drop what a model thought.
REWRITING = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content if loop.last else m.content[:3] }}<|end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def folder(root: Path, template: str | None, words: list[str], vocabulary: int = 400) -> Path:
    """A small Qwen2 and a byte-level BPE trained on `words`, saved as a hub model is."""
    import torch
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(
        words, trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=special, initial_alphabet=alphabet)
    )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|end|>")
    fast.chat_template = template
    fast.save_pretrained(root)
    config: dict[str, Any] = {**TINY["workload"]["model"]["config"], "vocab_size": vocabulary}
    torch.manual_seed(3)
    made = transformers.AutoConfig.for_model(config.pop("model_type"), **config)
    transformers.AutoModelForCausalLM.from_config(made).save_pretrained(root)
    return root


def conversation(number: int) -> list[dict[str, str]]:
    """Two turns about letters that no other number has, more of them in some than in others."""
    chance = random.Random(number)
    letters = chance.sample("abcdefghijklmnopqrstuvwxyz", chance.randint(7, 11))
    return [
        {"role": "system", "content": "You sort letters."},
        {"role": "user", "content": f"Sort {' '.join(letters)}"},
        {"role": "assistant", "content": f"Sorted: {' '.join(sorted(letters))}."},
        {"role": "user", "content": "And backwards?"},
        {"role": "assistant", "content": f"Backwards: {' '.join(sorted(letters, reverse=True))}."},
    ]
