from __future__ import annotations

import pytest

from stepscope.analyze import stack_windows
from stepscope.analyze.stack_phases import Sample
from stepscope.analyze.stack_windows import StackWindows

S = 1_000_000_000


def test_many_stacks_over_a_long_time_take_bounded_room_and_keep_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stack_windows, "ENTRIES", 500)
    windows = StackWindows()
    for at in range(20_000):
        windows.count("forward", Sample(at * S, "forward", at % 90, False, 1000))
    assert sum(map(len, windows._windows.values())) <= 500
    spent = list(windows.between(0, 1 << 62))
    assert sum(ns for _, (ns, _) in spent) == 20_000 * 1000
    assert {stack for (_, stack, _), _ in spent} == set(range(90))
