"""What every test shares."""

from __future__ import annotations

import pytest

# What `stepscope run` tells the processes below it (docs/architecture.md, "Getting in").
_RUN_VARIABLES = ("STEPSCOPE_RUN", "STEPSCOPE_STATUS", "STEPSCOPE_PACKAGE")


@pytest.fixture(autouse=True)
def _no_run_around_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may themselves run below `stepscope run`: that run is not theirs."""
    for name in _RUN_VARIABLES:
        monkeypatch.delenv(name, raising=False)
