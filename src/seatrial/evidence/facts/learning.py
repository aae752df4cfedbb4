"""Facts of learning: held-out windows and task items before and after, by two groups of processes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from seatrial.evidence.facts.fact import fact, family
from seatrial.trial.kinds import RUN, SCRIPT


@dataclass(frozen=True)
class TrainingData:
    """What the ranks trained on. Of a script only the source and whether its tokens look random are known."""

    source: str
    synthetic: bool | None
    manifest: str | None = None
    tokenizer: str | None = None
    train_tokens: int | None = None
    rows: int | None = None
    heldout_windows: int | None = None
    heldout_windows_asked: int | None = None
    dropped: list[str] | None = None
    documents: int | None = None
    counted_tokens: int | None = None
    truncated: int | None = None
    bad_rows: dict[str, int] | None = None
    bad_rows_named: list[str] | None = None


@dataclass(frozen=True)
class Isolation:
    """Nats by which changing one document of a row moved another (`leak`) and itself (`effect`), at worst of a rank."""

    leak: float
    effect: float
    limit: float


@dataclass(frozen=True)
class Overlap:
    """Held-out windows of which too many n-grams stand in the training tokens, and their share."""

    suspect_windows: list[int]
    share: float
    limit: float
    ngram: int


@dataclass(frozen=True)
class PairedChange:
    """Mean change per window, after − before, with a 95 % interval (normal approximation)."""

    mean: float
    low: float
    high: float
    windows: int


@dataclass(frozen=True)
class Tokens:
    """Equal pairs of tokens over those of a uniform stream, the fewest of a rank, and whether that is random."""

    coincidence: float
    random: bool
    tokens: int


@dataclass(frozen=True)
class Score:
    """Mean score of a task's items; `right` where every item is right or wrong."""

    accuracy: float
    items: int
    right: int | None = None

    def __str__(self) -> str:
        if self.right is not None:
            return f"{self.right}/{self.items} ({self.accuracy:.1%})"
        return f"{self.accuracy:.1%} of {self.items}"


@dataclass(frozen=True)
class TaskDigests:
    """Digests of what the items were read from, by phase, and whether they are one."""

    same: bool
    digests: dict[str, list[str]]


@dataclass(frozen=True)
class TaskOverlap:
    """Items that stand in the training tokens; the worse of two witnesses."""

    found: int
    compared: int
    too_short: int
    share: float
    limit: float
    suspect: list[str]


@dataclass(frozen=True)
class Paired:
    """Change of the mean score, after − before, with a 95 % interval. `p` is None for graded scores."""

    items: int
    change: float
    low: float
    high: float
    gained: int
    lost: int
    p: float | None
    method: str


@dataclass(frozen=True)
class TaskChange:
    """The change by each witness, and the p from which on it is chance."""

    ranks: Paired
    reload: Paired
    chance_p: float


@dataclass(frozen=True)
class Agreement:
    """Items on whose score (and answer) ranks and reload processes differ, of so many; `limit` is a share."""

    items: int
    limit: float
    before: int
    before_answers: int
    after: int
    after_answers: int


@dataclass(frozen=True)
class ShownItem:
    """An item's score in the four phases, and its answers by the ranks."""

    id: str
    before: float
    after: float
    base: float
    reload: float
    answer_before: str
    answer_after: str


@dataclass(frozen=True)
class TaskItems:
    """How many items changed; those that are shown, changed ones first."""

    items: int
    changed: int
    shown: list[ShownItem]


METRICS = ("loss", "bits_per_byte")
PHASES = ("before", "after", "base", "reload")

DATA = fact(
    "learning.data", TrainingData, "the data as the ranks opened it; of a script, whether its tokens look random"
)
LOSS = family(
    "learning.heldout.loss.{phase}",
    float,
    "Σ nats / Σ tokens of the held-out windows: `before` and `after` by the ranks, `base` and `reload` by the processes"
    " that reload the checkpoint",
    unit="nats/token",
    kinds=(RUN, SCRIPT),
)
BITS_PER_BYTE = family(
    "learning.heldout.bits_per_byte.{phase}",
    float,
    "Σ nats / ln 2 / Σ bytes of the same windows, so that tokenizers can be compared",
    unit="bits/byte",
    kinds=(RUN, SCRIPT),
)
HELDOUT = {"loss": LOSS, "bits_per_byte": BITS_PER_BYTE}
BASELINE = family(
    "learning.baseline.{table}",
    float,
    "a table model fitted on train and scored on the same windows, by rank 0 and by the reload",
    unit="bits/byte",
    kinds=(RUN,),
)
OVERLAP = fact(
    "learning.overlap",
    Overlap,
    "held-out n-grams that stand in the training tokens; the worse of two witnesses",
    kinds=(RUN, SCRIPT),
)
PAIRED_CHANGE = fact(
    "learning.heldout.paired_change",
    PairedChange,
    "mean change per held-out window, with its 95 % interval",
    unit="nats/token",
    kinds=(RUN, SCRIPT),
)
TRAIN_LOSS = fact(
    "learning.train_loss",
    list[tuple[int, float | None]],
    "mean train loss of each step over the targets of all ranks that count; null where a rank's was not finite",
    unit="nats/token",
    kinds=(RUN, SCRIPT),
)
ISOLATION = fact(
    "learning.isolation",
    Isolation,
    "what changing one document of a row does to another, tried by every rank before step 1",
    unit="nats",
    kinds=(RUN,),
)
TOKENS = fact(
    "learning.tokens",
    Tokens,
    "how often two tokens of a script's batches are equal: text, or uniform random ones",
    unit="equal pairs over those of uniform tokens",
    kinds=(SCRIPT,),
)
TASK_ASKED = family("learning.task.{task}.asked", dict[str, Any], "the task as the trial asks for it", kinds=(RUN,))
TASK_FILE = family(
    "learning.task.{task}.file", TaskDigests, "digests of the items, by every process in every phase", kinds=(RUN,)
)
TASK_OVERLAP = family(
    "learning.task.{task}.overlap", TaskOverlap, "items whose n-grams stand in the training tokens", kinds=(RUN,)
)
TASK_SCORE = family(
    "learning.task.{task}.{phase}",
    Score,
    "share of right items, `before` and `after` by the ranks, `base` and `reload` by the reload processes",
    kinds=(RUN,),
)
TASK_CHANGE = family(
    "learning.task.{task}.change", TaskChange, "change item by item, by each witness, with p and interval", kinds=(RUN,)
)
TASK_AGREEMENT = family(
    "learning.task.{task}.agreement", Agreement, "items on which ranks and reload processes differ", kinds=(RUN,)
)
TASK_ITEMS = family("learning.task.{task}.items", TaskItems, "items with their scores and answers", kinds=(RUN,))
ERROR = fact("learning.error", str, "why no fact of learning could be made from the events")
