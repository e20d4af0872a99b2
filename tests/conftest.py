"""What every test shares."""

from __future__ import annotations

import signal

import pytest

# What `stepscope run` tells the processes below it (docs/architecture.md, "Getting in").
_RUN_VARIABLES = ("STEPSCOPE_RUN", "STEPSCOPE_STATUS", "STEPSCOPE_PACKAGE", "STEPSCOPE_LEVEL")


@pytest.fixture(autouse=True)
def _no_run_around_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests may themselves run below `stepscope run`: that run is not theirs."""
    for name in _RUN_VARIABLES:
        monkeypatch.delenv(name, raising=False)


def pytest_configure() -> None:
    """A shell that starts tests in the background has SIGINT ignored, and so would every program
    that they start: Ctrl-C could not be tested."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
