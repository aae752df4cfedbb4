"""Tasks of EleutherAI's lm_eval by name (an extra), scored on the sharded model through lm_eval's own interface.

Every rank lets lm_eval build the same requests and judge the same answers. Only the forwards are divided, in lockstep.
Few-shot choice and metrics are lm_eval's. Sampling is refused: an answer must come again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import torch.distributed as dist

from seatrial.canon import measured, sha256
from seatrial.errors import RunError, clean
from seatrial.events.tasks import SAID
from seatrial.train.context import on_all_ranks
from seatrial.train.tasks.text import pair
from seatrial.trial.evaluation import Task

if TYPE_CHECKING:
    from seatrial.train.tasks.score import ScoredItem, Scorer

T = TypeVar("T")
PREFERRED = ("exact_match", "acc")
MOST_TOKENS = 256  # lm_eval's own bound where a task states none
LoggedSample = dict[str, Any]


def score(scorer: Scorer, task: Task) -> tuple[str, str, int, list[ScoredItem]]:
    """Digest of requests and targets, metric, items in all, and this rank's items. All ranks call it together.

    Raises RunError for a task that lm_eval does not have or that cannot be scored item by item.
    """
    manager = on_all_ranks(lambda: _manager(task))
    samples = _one_filter(task, _evaluate(scorer, task, manager))
    metric = _metric(task, samples[0])
    told = [[sample["arguments"], sample["target"]] for sample in samples]
    digest = sha256(json.dumps(told, sort_keys=True, default=str).encode())
    rank, world = scorer.context.rank, scorer.context.world_size
    rows = [_row(task, metric, at, samples[at]) for at in range(rank, len(samples), world)]
    return digest, f"{metric},{samples[0]['filter']}", len(samples), rows


def _manager(task: Task) -> Any:
    """lm_eval's task manager, with the task known to it and its data loaded once."""
    try:
        from lm_eval.tasks import TaskManager, get_task_dict
    except ImportError as error:
        raise RunError(f"lm_eval cannot be imported on this host: {error}; pip install 'seatrial[lm-eval]'") from error
    name = str(task.lm_eval)
    manager = _indexed(TaskManager, task.include, name)
    if name not in (known := list(manager.all_subtasks)):
        raise RunError(f"workload.evaluate: lm_eval has no task {name}; {_hint(name, known, list(manager.all_tasks))}")
    try:
        get_task_dict([name], manager)
    except Exception as error:  # data sets, templates and code of others
        seen = clean(f"{type(error).__name__}: {error}".partition("\n")[0], 300)
        raise RunError(f"workload.evaluate: lm_eval cannot load {name}: {seen}") from error
    return manager


def _indexed(kind: Any, include: str | None, name: str) -> Any:
    """The index that has a task; the user's folder first, since reading lm_eval's own thousands of files takes long."""
    if include and name in (own := _index(kind, include, False)).all_subtasks:
        return own
    return _index(kind, include, True)


@cache
def _index(kind: Any, include: str | None, defaults: bool) -> Any:
    return kind(include_path=include, include_defaults=defaults)


def _hint(name: str, known: Sequence[str], groups: Sequence[str]) -> str:
    if name in groups:
        return "it is a group or a tag; expected one of its tasks by name"
    close = get_close_matches(name, known, n=1, cutoff=0.6)
    return (
        f"did you mean {close[0]}?" if close else "`lm_eval ls tasks` lists them, `include` adds a folder of task files"
    )


def _evaluate(scorer: Scorer, task: Task, manager: Any) -> list[LoggedSample]:
    """What lm_eval logs of every item, in the order of the items."""
    import lm_eval

    with _leading():
        results = lm_eval.simple_evaluate(
            model=_model(scorer, task),
            tasks=[task.lm_eval],
            num_fewshot=task.shots,
            limit=task.limit,
            bootstrap_iters=0,
            log_samples=True,
            apply_chat_template=task.chat,
            task_manager=manager,
            random_seed=None,
            numpy_random_seed=None,
            torch_random_seed=None,
        )
    samples = [sample for found in results["samples"].values() for sample in found]
    if not samples:
        raise RunError(f"lm_eval found no item in {task.lm_eval}")
    return sorted(samples, key=lambda sample: int(sample["doc_id"]))


@contextmanager
def _leading() -> Iterator[None]:
    """lm_eval returns results only where LOCAL_RANK is 0; here every rank needs them."""
    kept = os.environ.get("LOCAL_RANK")
    os.environ["LOCAL_RANK"] = "0"
    try:
        yield
    finally:
        if kept is None:
            del os.environ["LOCAL_RANK"]
        else:
            os.environ["LOCAL_RANK"] = kept


def _one_filter(task: Task, samples: list[LoggedSample]) -> list[LoggedSample]:
    """The items as one filter sees their answers: the one asked for, else the task's first."""
    known = list(dict.fromkeys(str(sample["filter"]) for sample in samples))
    wanted = task.filter or known[0]
    if wanted not in known:
        raise RunError(f"{task.lm_eval} has no filter {wanted}; expected one of {', '.join(known)}")
    return [sample for sample in samples if sample["filter"] == wanted]


def _metric(task: Task, sample: LoggedSample) -> str:
    known = [str(name) for name in sample["metrics"]]
    wanted = task.metric or next((name for name in (*PREFERRED, *known) if name in known), "")
    if wanted not in known:
        raise RunError(f"{task.lm_eval} has no metric {wanted or 'by item'}; expected one of {', '.join(known)}")
    return wanted


def _row(task: Task, metric: str, at: int, sample: LoggedSample) -> ScoredItem:
    value = sample[metric]
    if not isinstance(value, bool | int | float) or not 0 <= float(value) <= 1:
        raise RunError(
            f"{task.lm_eval}: {metric} of item {sample['doc_id']} is {clean(str(value))}; expected a score from 0 to 1,"
            f" and metric: one of {', '.join(map(str, sample['metrics']))}"
        )
    answers = sample["filtered_resps"]
    if all(isinstance(each, list | tuple) and len(each) == 2 and isinstance(each[0], float) for each in answers):
        nats = [float(each[0]) for each in answers]
        return at, str(sample["doc_id"]), float(value), str(nats.index(max(nats))), [measured(n) for n in nats]
    return at, str(sample["doc_id"]), float(value), str(answers[0] if answers else "")[:SAID], []


def _model(scorer: Scorer, task: Task) -> Any:
    """The sharded model as lm_eval sees one: a whole model in one process."""
    from lm_eval.api.model import LM

    class Model(LM):  # type: ignore[misc]
        tokenizer_name = scorer.text.name

        def loglikelihood(self, requests: list[Any], disable_tqdm: bool = False) -> list[tuple[float, bool]]:
            return scatter_gather(scorer, requests, lambda mine: _likelihoods(scorer, task, mine))

        def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
            _refuse_sampling(task, requests)
            return scatter_gather(scorer, requests, lambda mine: _answers(scorer, task, mine))

        def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
            raise RunError(f"{task.lm_eval} measures perplexity; expected items that are right or wrong: see held-out")

        def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
            return scorer.text.chat(chat_history, add_generation_prompt)

    return Model()


def scatter_gather(scorer: Scorer, requests: Sequence[Any], answer: Callable[[Sequence[Any]], list[T]]) -> list[T]:
    """Answers to all requests, in order, on every rank; each rank answers its own part."""
    rank, world = scorer.context.rank, scorer.context.world_size
    parts: list[list[T]] = [[] for _ in range(world)]
    dist.all_gather_object(parts, answer(requests[rank::world]))
    return [parts[at % world][at // world] for at in range(len(requests))]


def _likelihoods(scorer: Scorer, task: Task, requests: Sequence[Any]) -> list[tuple[float, bool]]:
    """A text that is too long loses its beginning, as in lm_eval's own models."""
    pairs = [pair(scorer.text, *request.args) for request in requests]
    kept = [(before[-max(1, scorer.longest + 1 - len(after)) :], after) for before, after in pairs]
    return scorer.likelihoods(kept, task.batch)


def _refuse_sampling(task: Task, requests: Sequence[Any]) -> None:
    """Every rank looks at all requests: one that raised alone would leave the others waiting."""
    for request in requests:
        wanted = request.args[1]
        if wanted.get("do_sample") and float(wanted.get("temperature", 1.0)) > 0:
            raise RunError(f"{task.lm_eval} asks for sampled answers; expected greedy ones, which come again")


def _answers(scorer: Scorer, task: Task, requests: Sequence[Any]) -> list[str]:
    prompts, most, stops = [], [], []
    for request in requests:
        context, wanted = request.args
        until = wanted.get("until") or []
        bound = task.max_new_tokens or int(wanted.get("max_gen_toks", MOST_TOKENS))
        room = max(1, scorer.longest - bound)
        prompts.append((scorer.text.encode(context) or [scorer.text.ends[0]])[-room:])
        most.append(min(bound, max(1, scorer.longest - len(prompts[-1]))))
        stops.append([until] if isinstance(until, str) else list(until))
    return [said or "" for said in scorer.continue_(prompts, task.batch, most, stops)]
