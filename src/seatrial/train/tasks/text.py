"""Text to token ids and back, as the tasks need it: bytes, or the tokenizer in the model's folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from seatrial.errors import RunError
from seatrial.trial.workload import Model


class TextCodec(Protocol):
    """`ends` are the tokens that end an answer; the first stands before a text that has no context."""

    ends: tuple[int, ...]
    name: str

    def encode(self, text: str) -> list[int]: ...
    def decode(self, tokens: Sequence[int]) -> str: ...
    def chat(self, messages: Sequence[dict[str, str]], answering: bool = True) -> str: ...


class ByteCodec:
    """The bytes of the text; NUL ends a document in the training stream, and an answer here."""

    ends: tuple[int, ...] = (0,)
    name = "bytes"

    def encode(self, text: str) -> list[int]:
        return list(text.encode("utf-8"))

    def decode(self, tokens: Sequence[int]) -> str:
        return bytes(t for t in tokens if t < 256).decode("utf-8", "replace")

    def chat(self, messages: Sequence[dict[str, str]], answering: bool = True) -> str:
        raise RunError("chat: true needs a model with a tokenizer; this model's tokens are bytes")


class ModelCodec:
    """The tokenizer of a model's folder. No special token is added to a text: a chat's template brings its own."""

    def __init__(self, folder: Path):
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self.name = f"{type(self._tokenizer).__name__}/{len(self._tokenizer)}"
        self.ends = tuple(dict.fromkeys([*_as_list(self._tokenizer.eos_token_id), *_generation_ends(folder)]))
        if not self.ends:
            raise RunError(f"the tokenizer in {folder} has no end-of-text token to end an answer with")

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    def decode(self, tokens: Sequence[int]) -> str:
        kept = [t for t in tokens if t not in self.ends]
        return str(self._tokenizer.decode(kept, clean_up_tokenization_spaces=False))

    def chat(self, messages: Sequence[dict[str, str]], answering: bool = True) -> str:
        if not self._tokenizer.chat_template:
            raise RunError("chat: true needs a chat template, and the model's tokenizer has none")
        try:
            said = self._tokenizer.apply_chat_template(
                list(messages),
                tokenize=False,
                add_generation_prompt=answering,
                continue_final_message=not answering,
            )
        except Exception as error:  # a template raises what its author wrote
            raise RunError(f"the chat template refuses the messages: {type(error).__name__}: {error}") from error
        return str(said)


def open_text(model: Model, folder: Path | None) -> TextCodec:
    """The text codec of a trial's model. Raises RunError for a tokenizer that cannot be read."""
    if model.tokens_are_bytes or folder is None:
        return ByteCodec()
    try:
        return ModelCodec(folder)
    except (OSError, ValueError, KeyError) as error:
        raise RunError(f"workload.model: the tokenizer in {folder} cannot be read: {error}") from error


def _as_list(value: Any) -> list[int]:
    return [value] if isinstance(value, int) else list(value or [])


def _generation_ends(folder: Path) -> list[int]:
    """Further ends that the model's generation settings name, as chat models do."""
    from transformers import GenerationConfig

    if not (folder / "generation_config.json").is_file():
        return []
    return _as_list(GenerationConfig.from_pretrained(folder).eos_token_id)


def pair(text: TextCodec, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Tokens of a context and of what follows it, neither empty.

    Both are tokenised as one text and cut where the context alone ends; spaces at its end belong to what follows, since
    tokenizers join a space to the word after it. Without a context the first of `ends` stands before.
    """
    bare = context.rstrip()
    continuation = context[len(bare) :] + continuation
    before, whole = text.encode(bare), text.encode(bare + continuation)
    cut = min(len(before), len(whole) - 1)  # where the join swallowed a token, the last one is what follows
    return (whole[:cut], whole[cut:]) if cut > 0 else ([text.ends[0]], whole)
