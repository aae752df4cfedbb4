"""Facts as values: one observed value, its witness, and the type that says what the value is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Generic, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, TypeAdapter
from pydantic.fields import FieldInfo

from seatrial.trial.kinds import KINDS_OF_RUN, RUN, RunKind

State = Literal["value", "not-applicable", "unknown", "error"]
T = TypeVar("T")
EVERY_KIND = tuple(KINDS_OF_RUN.values())


@dataclass(frozen=True)
class Fact(Generic[T]):
    """One observation of a type. `reason` says why there is no value where `state` is not `value`.

    Made by the methods of its `FactType`, which is why no fact has an id that the registry does not know.
    """

    type: FactType[T]
    state: State
    found: T | None = None
    witness: str = ""
    reason: str = ""

    @property
    def id(self) -> str:
        return self.type.id

    @property
    def known(self) -> bool:
        return self.state == "value"

    @property
    def value(self) -> T:
        """The value of a known fact. Raises LookupError for any other: whoever asks must look at `known` first."""
        if not self.known:
            raise LookupError(f"{self.id} is {self.state}: it has no value")
        return self.found  # type: ignore[return-value]  # known, so it is a T, and T may itself admit None

    def json(self) -> dict[str, Any]:
        """As a record holds it, without the fields that say nothing."""
        shown: dict[str, Any] = {"id": self.id, "state": self.state}
        if self.known:
            shown["value"] = document(self.found)
        said = (("unit", self.type.unit if self.known else ""), ("witness", self.witness), ("reason", self.reason))
        return shown | {name: text for name, text in said if text}


@dataclass(frozen=True)
class FactType(Generic[T]):
    """What a fact of one id is: the type of its value, its unit, what it means, and which kinds of run have it."""

    id: str
    shape: type[T] = field(repr=False)
    meaning: str = field(repr=False)
    unit: str = ""
    kinds: tuple[RunKind, ...] = EVERY_KIND

    @property
    def kind(self) -> str:
        """The kind of evidence: the first part of the id."""
        return self.id.partition(".")[0]

    def seen(self, value: T, witness: str, reason: str = "") -> Fact[T]:
        """A value that `witness` saw; `reason` may add what limits it."""
        return Fact(self, "value", value, witness, reason)

    def unknown(self, reason: str, witness: str = "") -> Fact[T]:
        """It could not be seen."""
        return Fact(self, "unknown", None, witness, reason)

    def not_applicable(self, reason: str) -> Fact[T]:
        """What it speaks of does not exist in this run."""
        return Fact(self, "not-applicable", None, "", reason)

    def error(self, reason: str, witness: str = "") -> Fact[T]:
        """It was seen and makes no sense, as a number that is not finite."""
        return Fact(self, "error", None, witness, reason)

    def like(self, other: Fact[Any]) -> Fact[T]:
        """No value either, for the same reason as another fact that has none."""
        return Fact(self, other.state, None, other.witness, other.reason)

    def read(self, value: Any) -> T:
        """The typed value of a record's JSON. Raises ValueError for another shape (pydantic's ValidationError is one).

        Keys that this version does not know are left out.
        """
        found: T = _reader(self.shape).validate_python(value)
        return found


@dataclass(frozen=True)
class Family(Generic[T]):
    """Facts of one type whose id has a part that is only known in a run, as in `environment.{layer}`."""

    pattern: str
    shape: type[T] = field(repr=False)
    meaning: str = field(repr=False)
    unit: str = ""
    kinds: tuple[RunKind, ...] = EVERY_KIND

    def of(self, **parts: str) -> FactType[T]:
        """The type with its parts named. Raises KeyError where one is missing."""
        return FactType(self.pattern.format_map(parts), self.shape, self.meaning, self.unit, self.kinds)


FACTS: dict[str, FactType[Any]] = {}
FAMILIES: dict[str, Family[Any]] = {}
_READERS: dict[Any, TypeAdapter[Any]] = {}


def fact(
    id: str, shape: type[T], meaning: str, *, unit: str = "", kinds: tuple[RunKind, ...] = EVERY_KIND
) -> FactType[T]:
    """Adds a type to the registry. Raises ValueError for a second one of the same id."""
    if id in FACTS:
        raise ValueError(f"two facts named {id}")
    FACTS[id] = FactType(id, shape, meaning, unit, kinds)
    return FACTS[id]


def family(
    pattern: str, shape: type[T], meaning: str, *, unit: str = "", kinds: tuple[RunKind, ...] = EVERY_KIND
) -> Family[T]:
    """Adds a family to the registry. Raises ValueError for a second one of the same pattern."""
    if pattern in FAMILIES:
        raise ValueError(f"two families named {pattern}")
    FAMILIES[pattern] = Family(pattern, shape, meaning, unit, kinds)
    return FAMILIES[pattern]


def document(value: Any) -> Any:
    """The JSON of a value: dataclasses by field. A field whose default is None is left out where it is None."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if is_dataclass(value):
        shape: Any = type(value)
        shown = ((name, getattr(value, attribute), left_out) for attribute, name, left_out in _fields(shape))
        return {name: document(content) for name, content, left_out in shown if not (left_out and content is None)}
    if isinstance(value, dict):
        return {key: document(content) for key, content in value.items()}
    if isinstance(value, list | tuple):
        return [document(content) for content in value]
    return value


@cache
def _fields(shape: Any) -> tuple[tuple[str, str, bool], ...]:
    """`(attribute, name in JSON, whether None is left out)` of each field; a name that Python reserves is an alias."""
    hints = get_type_hints(shape, include_extras=True)
    return tuple((f.name, _alias(hints[f.name]) or f.name, f.default is None) for f in fields(shape))


def _alias(hint: Any) -> str:
    marks = getattr(hint, "__metadata__", ())
    return next((mark.alias for mark in marks if isinstance(mark, FieldInfo) and mark.alias), "")


def _reader(shape: Any) -> TypeAdapter[Any]:
    if shape not in _READERS:  # made when it is first asked for: there are some eighty, and a command needs few
        _READERS[shape] = TypeAdapter(shape)
    return _READERS[shape]


@dataclass(frozen=True)
class Fault:
    """An error of seatrial's own, while it made the facts of a kind or judged a claim: never weak evidence."""

    about: str
    where: str
    error: str

    def __str__(self) -> str:
        return f"{self.where}: {self.error} (while seatrial looked at {self.about})"

    def json(self) -> dict[str, str]:
        return {"about": self.about, "where": self.where, "error": self.error}


@dataclass(frozen=True)
class Evidence:
    """The facts of a run by kind of evidence. `void` says why no claim can be judged at all.

    `faults` are seatrial's own errors: the facts of those kinds are missing through no fault of the run.
    """

    facts: Mapping[str, Mapping[str, Fact[Any]]]
    kind: RunKind = RUN
    void: str = ""
    faults: tuple[Fault, ...] = ()

    def get(self, type: FactType[T]) -> Fact[T]:
        """The fact of a type, or an unknown one if nobody looked."""
        return self.facts.get(type.kind, {}).get(type.id) or type.unknown("no such evidence in this run")

    def faulty(self, type: FactType[Any]) -> Fault | None:
        """The error of seatrial's own that kept it from making facts of that kind, if there was one."""
        return next((fault for fault in self.faults if fault.about == type.kind), None)

    def json(self) -> dict[str, Any]:
        return {kind: {name: fact.json() for name, fact in facts.items()} for kind, facts in self.facts.items()}
