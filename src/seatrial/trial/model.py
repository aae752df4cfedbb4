"""The trial: one file that states workload, environment and claims."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag, model_validator

from seatrial.canon import parse
from seatrial.trial.base import Section, SectionError
from seatrial.trial.claims import Claim
from seatrial.trial.cluster import Cluster, RuntimeEnv, Scaling, Storage, too_few_gpus
from seatrial.trial.evaluation import unknown_task
from seatrial.trial.kinds import RunKind
from seatrial.trial.script import Script
from seatrial.trial.workload import Workload

API_VERSION: Final = "seatrial.io/v1alpha1"
# The two branches of `workload`. pydantic puts them into the path of an error, though no trial has such keys.
BRANCHES: Final = ("(built-in)", "(script)")


def _branch(value: object) -> str:
    """A workload with a script is the team's own; any other is the built-in training."""
    own = "script" in value if isinstance(value, dict) else isinstance(value, Script)
    return BRANCHES[own]


class Metadata(Section):
    """`name` becomes part of the run id and of Kubernetes names, rewritten so that both accept it."""

    name: str = Field(min_length=1, max_length=200)


class Trial(Section):
    """A whole trial. Each section has its own digest, so that different people can own different sections."""

    apiVersion: Literal["seatrial.io/v1alpha1"] = API_VERSION
    kind: Literal["Trial"] = "Trial"
    metadata: Metadata
    image: str | None = None
    cluster: Cluster = Cluster()
    runtimeEnv: RuntimeEnv = RuntimeEnv()
    storage: Storage = Storage()
    scaling: Scaling = Scaling()
    workload: Annotated[
        Annotated[Workload, Tag(BRANCHES[0])] | Annotated[Script, Tag(BRANCHES[1])], Discriminator(_branch)
    ]
    claims: tuple[Claim, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _fits_its_cluster(self) -> Trial:
        if problem := too_few_gpus(self.cluster, self.scaling):
            raise SectionError(problem, "scaling")
        return self

    @model_validator(mode="after")
    def _claims_name_its_tasks(self) -> Trial:
        for at, claim in enumerate(self.claims):
            if claim.task is not None and (problem := unknown_task(claim.task, self.workload.evaluate)):
                raise SectionError(problem, "claims", at, "task")
        return self

    @classmethod
    def from_resolved(cls, text: str | bytes) -> Trial:
        """A trial from its resolved JSON, canonical or not. Driver and ranks get the trial in this form.

        Canonical JSON writes large doubles without a point: `canon.parse` reads them as doubles again.
        """
        return cls.model_validate_json(json.dumps(parse(text)))

    @property
    def training(self) -> Workload:
        """The built-in training. Raises TypeError if the workload is a script: callers ask `run_kind` first."""
        if isinstance(self.workload, Script):
            raise TypeError(f"{self.metadata.name} runs {self.workload.script}, not the built-in training")
        return self.workload

    @property
    def run_kind(self) -> RunKind:
        """Which kind of run this trial asks for."""
        return self.workload.run_kind

    @property
    def team_script(self) -> Script:
        """The team's own script. Raises TypeError if it is the built-in training: callers ask `run_kind` first."""
        if not isinstance(self.workload, Script):
            raise TypeError(f"{self.metadata.name} runs the built-in training, not a script")
        return self.workload

    def resolved(self) -> dict[str, Any]:
        """The trial with every default filled in, as JSON. The record and the pods hold this form."""
        document: dict[str, Any] = self.model_dump(mode="json", exclude={"claims"})
        document["claims"] = [claim.resolved() for claim in self.claims]
        return document

    @property
    def slug(self) -> str:
        """The name as run ids show it: a DNS-1123 subdomain of at most 48 characters."""
        dashed = re.sub(r"[^a-z0-9.]+", "-", self.metadata.name.lower())
        return re.sub(r"-?\.[.-]*", ".", dashed).strip(".-")[:48].strip(".-") or "trial"
