"""What every test shares."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def _no_run_around_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may themselves run below `stepscope run`: that run is not theirs."""
    for name in [name for name in os.environ if name.startswith("STEPSCOPE_")]:
        monkeypatch.delenv(name)
