from __future__ import annotations

import signal
import threading
import time

import pytest

from stepscope.config import Replay
from stepscope.session.replay import allowance_s, run_again

TENSOR = {"shape": [4], "stride": [1], "dtype": "float32", "device": "cpu"}
RELU = {"op": "aten::relu", "overload": "", "args": [TENSOR], "kwargs": {}}
REQUEST = {"ops": [(RELU, 2)], "wanted": ["only_work"], "threads": 1}


@pytest.mark.parametrize(
    ("mode", "run_s", "torch_import_s", "expected_s"),
    [
        (Replay.AUTO, 50.0, 1.0, 2.5),  # 5 % of the run
        (Replay.AUTO, 3600.0, 1.0, 3.0),  # never more than 3 s
        (Replay.AUTO, 20.0, 1.0, 0.0),  # importing torch takes all of it
        (Replay.AUTO, 3600.0, 2.0, 0.0),  # and more than half of the most
        (Replay.AUTO, 3600.0, None, 0.0),
        (Replay.OFF, 3600.0, 1.0, 0.0),
        (Replay.FULL, 1.0, None, 60.0),
    ],
)
def test_it_may_take_a_twentieth_of_the_run_and_three_seconds_unless_asked_for(
    mode: Replay, run_s: float, torch_import_s: float | None, expected_s: float
) -> None:
    assert allowance_s(mode, run_s, torch_import_s) == pytest.approx(expected_s)


def test_what_was_asked_for_is_measured() -> None:
    assert run_again(REQUEST, 60.0, complete=True)["only_work"]["calls"] == 2


def test_it_is_ended_when_its_time_is_over() -> None:
    assert run_again(REQUEST, 0.05, complete=True) == {}


def test_ctrl_c_skips_it_and_reaches_nobody_else() -> None:
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as the launcher has it
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)
        began_s = time.monotonic()
        assert run_again(REQUEST, 60.0, complete=True) == {}
        assert time.monotonic() - began_s < 60.0
        assert signal.SIGINT not in signal.sigpending()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
