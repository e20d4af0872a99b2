"""What monitor_cost.py promises, by made-up figures."""

from __future__ import annotations

from typing import Any

from monitor_cost import BARE, IN_CODE, LIMITS, RUN, targets


def figures(share: float) -> dict[float, dict[str, Any]]:
    return {interval_s: {"median": share} for interval_s in LIMITS}


def test_a_tenth_of_a_second_may_cost_ten_times_as_much_as_a_second() -> None:
    memory = {name: {"median": 6.0} for name in (RUN, IN_CODE, BARE)}
    found = targets(figures(0.001), figures(0.0001), memory)
    kept = {one.name: one.ok for one in found}
    assert kept == {
        "idle, every 0.1 s, share of one CPU": True,
        "beside training, every 0.1 s, share of one CPU": True,
        "idle, every 1 s, share of one CPU": False,
        "beside training, every 1 s, share of one CPU": True,
        f"memory, {RUN}, MB": True,
        f"memory, {IN_CODE}, MB": True,
    }


def test_more_than_ten_megabytes_are_too_many() -> None:
    memory = {RUN: {"median": 10.5}, IN_CODE: {"median": 9.5}}
    found = targets(figures(0.0), figures(0.0), memory)
    assert [one.ok for one in found[-2:]] == [False, True]
