"""One clean run for the tests that take evidence apart."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.trials import quick


@pytest.fixture(scope="session")
def clean_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a clean run that is not sealed yet."""
    pytest.importorskip("torch")
    from tests.support import gloo

    return gloo.run(quick(), tmp_path_factory.mktemp("clean")).root
