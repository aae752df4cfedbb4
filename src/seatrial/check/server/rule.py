"""A rule that needs a cluster: data like any other rule, and a small function that asks the cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from seatrial.check.rule import RULES, Hit, Rule, Severity, Subject, rule
from seatrial.check.server.interview import Interview

Check = Callable[[Any, Interview], Iterable[Hit]]
CHECKS: dict[str, Check] = {}  # the functions that ask the cluster, by the rule's id
SERVER_RULES: dict[str, Rule] = {}  # rules that only a cluster can break


def server_rule(
    id: str, severity: Severity, on: Subject, *, title: str, fix: str, source: str
) -> Callable[[Check], Check]:
    """As `rule`, for a rule that no file alone can break. Pages, lists and `seatrial.io/ignore` know it."""

    def register(check: Check) -> Check:
        def without_a_cluster(*_: object) -> Iterable[Hit]:
            return ()

        without_a_cluster.__doc__ = check.__doc__
        rule(id, severity, on, title=title, fix=fix, source=source, needs=("server",))(without_a_cluster)
        SERVER_RULES[id] = RULES[id]
        return also_asks(id)(check)

    return register


def also_asks(id: str) -> Callable[[Check], Check]:
    """Registers the function that asks the cluster, for a rule that a file alone can break, too."""

    def register(check: Check) -> Check:
        if id in CHECKS:
            raise ValueError(f"two checks for {id}")
        CHECKS[id] = check
        return check

    return register
