"""Where a trial runs: the cluster, the scale, the storage and what is added to the image at submission."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from seatrial.trial.base import Section


class Head(Section):
    """The head pod: it runs the driver and needs no accelerator."""

    cpu: int = Field(4, ge=1)
    memory: str = Field("16Gi", pattern=r"^\d+(\.\d+)?(Ki|Mi|Gi|Ti)$")


class WorkerGroup(Section):
    """Hosts of one instance type."""

    instanceType: str
    replicas: int = Field(1, ge=1)


class Cluster(Section):
    """Absent in a trial means: this machine."""

    provider: Literal["eks", "kubernetes", "ray", "local"] = "local"
    kuberayVersion: str | None = None
    namespace: str | None = None
    head: Head | None = None
    workerGroups: tuple[WorkerGroup, ...] = ()


class RuntimeEnv(Section):
    """What is added to the image when the job is submitted; part of the record."""

    pip: tuple[str, ...] = ()
    env_vars: dict[str, str] = Field(default_factory=dict)


class Storage(Section):
    """A folder that every worker can write."""

    path: str = Field("./runs", min_length=1)


class Scaling(Section):
    """How many ranks, and what each of them holds."""

    num_workers: int = Field(2, ge=1, le=65536)
    gpus_per_worker: int = Field(0, ge=0, le=1)
