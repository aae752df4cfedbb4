"""How each kind of run is carried out: what a phase starts, how it is watched, and why it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from seatrial.driver import code
from seatrial.driver.account import account
from seatrial.driver.blame import why_it_failed, why_script_failed
from seatrial.driver.watchdog import ScriptWatchdog, Watchdog, wait_for_stacks
from seatrial.errors import Interrupted, RunError, TimedOut
from seatrial.events import Layout
from seatrial.events.base import Event
from seatrial.events.schema import Environment
from seatrial.trial import Trial
from seatrial.trial.kinds import RUN, SCRIPT

POLL_S = 0.25
STOPPED = "stopped on request (Ctrl-C or SIGTERM)"


@dataclass(frozen=True)
class Helm:
    """What the driver gives to whoever carries a run out: the trial, where its events go, and whether to stop.

    `environment` is the one that the driver was started with. `forward`: a script's output is shown, too.
    """

    trial: Trial
    layout: Layout
    note: Callable[[Event], None]
    stopping: Callable[[], bool]
    environment: Mapping[str, str]
    forward: bool

    @property
    def ranks(self) -> int:
        return self.trial.scaling.num_workers


class Conduct(Protocol):
    """One kind of run."""

    def layers(self) -> Iterator[Environment]:
        """Layers of the environment that only this kind has."""

    def follow(self, session: Any, role: str) -> None:
        """Starts the processes of a phase and waits for their end. Raises their error, TimedOut or Interrupted."""

    def why(self, role: str, error: BaseException) -> str:
        """Why a phase failed, in one line."""


class TrainingConduct:
    """The built-in training, and the processes that reload its checkpoint."""

    def __init__(self, helm: Helm):
        self._helm = helm

    def layers(self) -> Iterator[Environment]:
        return iter(())

    def follow(self, session: Any, role: str) -> None:
        helm, work = self._helm, self._helm.trial.training
        group = session.start_group(role)
        watchdog = Watchdog(helm.layout, role, helm.ranks, work.steps, work.timeout)
        try:
            while not group.ended(within=POLL_S):
                if helm.stopping():
                    raise Interrupted(STOPPED)
                if expired := watchdog.check():
                    helm.note(expired)
                    wait_for_stacks(helm.layout, role, helm.ranks)
                    raise TimedOut(watchdog.explain(expired))
        except RunError:
            group.kill()
            raise

    def why(self, role: str, error: BaseException) -> str:
        return why_it_failed(self._helm.layout, role, self._helm.ranks, error)


class ScriptConduct:
    """A team's own script, run as it is."""

    def __init__(self, helm: Helm):
        self._helm, self._work = helm, helm.trial.team_script

    def layers(self) -> Iterator[Environment]:
        yield code.script_layer(self._work)

    def follow(self, session: Any, role: str) -> None:
        from seatrial.driver.script import ScriptGroup

        helm = self._helm
        group = ScriptGroup(self._work, helm.layout, helm.environment, session, forward=helm.forward)
        watchdog = ScriptWatchdog(helm.layout, helm.ranks, self._work.timeout)
        try:
            while not group.ended(within=POLL_S):
                for attempt in group.changed():
                    helm.note(attempt)
                    watchdog.hear(attempt)
                if helm.stopping():
                    raise Interrupted(STOPPED)
                if expired := watchdog.check():
                    helm.note(expired)
                    raise TimedOut(watchdog.explain(expired))
        except RunError:
            group.kill()
            if helm.stopping():  # Ray signals all processes of a stopped job: the script may end first
                raise Interrupted(STOPPED) from None
            raise
        finally:
            for event in account(group, helm.layout, helm.ranks):
                helm.note(event)

    def why(self, role: str, error: BaseException) -> str:
        return why_script_failed(self._helm.layout, error)


CONDUCTS: Mapping[str, Callable[[Helm], Conduct]] = {RUN.name: TrainingConduct, SCRIPT.name: ScriptConduct}
