"""Shared rules: a kind of test that must run (`SEATRIAL_REQUIRE=dist,ray,…`) fails where it would be skipped."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

REQUIRED = {kind for kind in os.environ.get("SEATRIAL_REQUIRE", "").split(",") if kind}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """Turns a skip of a required kind into a failure that says so."""
    outcome = yield
    report = outcome.get_result()
    kinds = REQUIRED & {mark.name for mark in item.iter_markers()}
    if report.skipped and kinds and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{', '.join(sorted(kinds))} tests are required here, and this one was skipped: {reason}"


@pytest.fixture
def in_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
