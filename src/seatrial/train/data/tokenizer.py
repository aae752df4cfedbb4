"""Text to tokens and back: bytes as they are, or the tokenizer in the model's folder."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from seatrial.canon import file_digest
from seatrial.errors import RunError
from seatrial.train.data import chat

Tokens = npt.NDArray[np.int64]
SEPARATOR = b"\x00"


class Tokenizer(Protocol):
    """What this package needs of a tokenizer. `end` closes each document, `vocabulary` bounds its token ids."""

    name: str
    files: dict[str, str]
    end: int
    vocabulary: int

    def encode(self, texts: list[bytes]) -> list[npt.NDArray[Any]]: ...
    def to_bytes(self, tokens: Tokens) -> bytes: ...
    def conversation(self, messages: list[dict[str, Any]]) -> chat.Conversation: ...


class ByteTokenizer:
    """256 tokens; nothing to download, nothing to disagree about. A document ends with NUL."""

    name = "bytes"
    end = 0
    vocabulary = 256

    def __init__(self) -> None:
        self.files: dict[str, str] = {}

    def encode(self, texts: list[bytes]) -> list[npt.NDArray[Any]]:
        return [np.frombuffer(text, dtype=np.uint8) for text in texts]

    def to_bytes(self, tokens: Tokens) -> bytes:
        return tokens.astype(np.uint8).tobytes()

    def conversation(self, messages: list[dict[str, Any]]) -> chat.Conversation:
        raise RunError("workload.data.chat: byte tokens have no chat template; expected a model with a tokenizer")


class ModelTokenizer:
    """The tokenizer in the model's folder; documents are UTF-8 and end with its end-of-text token."""

    def __init__(self, folder: Path):
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self.name = f"{type(self._tokenizer).__name__}/{len(self._tokenizer)}"
        self.files = {p.name: file_digest(p) for p in sorted(folder.glob("*token*")) if p.is_file()}
        self.files |= {p.name: file_digest(p) for p in sorted(folder.glob("chat_template*")) if p.is_file()}
        self.vocabulary = len(self._tokenizer)
        self._templates: chat.ChatTemplate | None = None
        end = self._tokenizer.eos_token_id
        if end is None:
            raise RunError(f"the tokenizer in {folder} has no end-of-text token to separate documents with")
        self.end = int(end)

    def encode(self, texts: list[bytes]) -> list[npt.NDArray[Any]]:
        """Token ids of each text, without special tokens. Texts are UTF-8."""
        words = [text.decode("utf-8") for text in texts]
        # A warning about the model's longest input is about generation; rows are cut here.
        found = self._tokenizer(words, add_special_tokens=False, verbose=False)["input_ids"] if words else []
        return [np.asarray(ids, dtype=np.int64) for ids in found]

    def to_bytes(self, tokens: Tokens) -> bytes:
        """The text, with NUL for the end-of-text token: the bytes that the baselines were fitted on."""
        parts = np.split(tokens, np.flatnonzero(tokens == self.end))
        texts = [part[1:] if number else part for number, part in enumerate(parts)]
        return SEPARATOR.join(self._decode(text.tolist()) for text in texts)

    def conversation(self, messages: list[dict[str, Any]]) -> chat.Conversation:
        """Ids and answers of a conversation, by the tokenizer's chat template."""
        if self._templates is None:
            self._templates = chat.ChatTemplate(self._tokenizer)
        return self._templates.apply(messages)

    def _decode(self, ids: list[int]) -> bytes:
        return str(self._tokenizer.decode(ids, clean_up_tokenization_spaces=False)).encode("utf-8", "replace")


def identity(tokenizer: Tokenizer) -> dict[str, Any]:
    """What a tokenizer is: its files, and the library that reads them."""
    library = "" if isinstance(tokenizer, ByteTokenizer) else version("tokenizers")
    return {"name": tokenizer.name, "files": tokenizer.files, "library": library}
