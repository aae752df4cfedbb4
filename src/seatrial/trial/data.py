"""The training data: files, a Hugging Face dataset, a corpus that every machine has, or random tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from seatrial.trial.base import Section, SectionError


class Hub(Section):
    """A dataset by its name on the Hugging Face hub, or a folder that `datasets` wrote or can load."""

    name: str = Field(min_length=1)
    config: str | None = None
    revision: str | None = None
    train_split: str = "train"
    heldout_split: str


class Data(Section):
    """One source, how its rows are read, and how many bad rows the run accepts.

    `field` is the column or key that holds the text, or with `chat` the messages. Without `format` the file names tell.
    """

    train: str | None = None
    heldout: str | None = None
    dataset: Hub | None = None
    corpus: Literal["python-stdlib"] | None = None
    synthetic: Literal["random-tokens"] | None = None
    format: Literal["text", "jsonl", "parquet"] | None = None
    field: str | None = Field(None, min_length=1)
    chat: bool = False
    max_bad_rows: int = Field(0, ge=0)
    heldout_windows: int = Field(64, ge=1, le=100_000)

    @model_validator(mode="after")
    def _exactly_one_source(self) -> Data:
        pair = self.train is not None or self.heldout is not None
        given = [
            name
            for name, there in (
                ("train/heldout", pair),
                ("dataset", self.dataset),
                ("corpus", self.corpus),
                ("synthetic", self.synthetic),
            )
            if there
        ]
        if len(given) != 1:
            raise ValueError(
                f"was given {', '.join(given) or 'nothing'};"
                " expected one of train + heldout, dataset, corpus, synthetic"
            )
        if pair and not (self.train and self.heldout):
            raise ValueError(f"{'heldout' if self.train else 'train'} is missing; expected both train and heldout")
        return self

    @model_validator(mode="after")
    def _only_what_its_source_has(self) -> Data:
        rows = bool(self.train or self.dataset)
        for key, given in (("field", self.field), ("chat", self.chat), ("max_bad_rows", self.max_bad_rows)):
            if given and not rows:
                raise SectionError(
                    f"was given without rows; expected {key} only beside train + heldout or dataset", key
                )
        if self.format and not self.train:
            raise SectionError("was given without files; expected format only beside train + heldout", "format")
        if self.format == "text" and (self.chat or self.field):
            raise SectionError(
                f"saw text beside {'chat' if self.chat else 'field'}; expected jsonl or parquet", "format"
            )
        return self

    @property
    def column(self) -> str:
        """The key or column that is read from each row."""
        return self.field or ("messages" if self.chat else "text")
