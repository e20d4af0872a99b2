from __future__ import annotations

import pytest

from stepscope.analyze.overhead import OwnCost, OwnCostFold, overhead
from stepscope.model import names
from tests.unit.analyze.made import batch, mark, sample


def test_hooks_cost_their_calls_times_what_a_call_was_measured_to_cost() -> None:
    fold = OwnCostFold()
    fold.update(
        batch([sample(names.OWN_CALL_COST_NS, 0, 500), sample(names.OWN_PROBE_COST_NS, 0, 40)])
    )
    fold.update(batch([sample(names.OWN_CALLS, 1, 10), sample(names.OWN_PROBES, 1, 100)]))
    fold.update(batch([sample(names.OWN_CALLS, 2, 2000), sample(names.OWN_PROBES, 2, 50_000)]))
    cost = fold.get()
    assert cost.hooks_ns == 2000 * 500 + 50_000 * 40
    found = overhead(1_000_000_000, [cost], OwnCost(launcher_cpu_ns=20e6))
    assert found["hooks_share"] == pytest.approx(0.003)
    assert found["text"] == (
        "0.3 % of the loop (3.0 ms in 52,000 hook calls), 20 ms of CPU beside the program"
    )


def test_calls_that_read_cpu_clocks_cost_more_than_others() -> None:
    fold = OwnCostFold()
    costs = {names.OWN_CALL_COST_NS: 400, names.OWN_CLOCK_COST_NS: 1200}
    counts = {names.OWN_CALLS: 2000, names.OWN_CLOCKS: 500}
    fold.update(batch([sample(name, 0, value) for name, value in (costs | counts).items()]))
    assert fold.get().hooks_ns == 2000 * 400 + 500 * 1200


def test_what_is_done_between_steps_counts_as_ours() -> None:
    fold = OwnCostFold()
    fold.update(batch([sample(names.OWN_CALL_COST_NS, 0, 500), sample(names.OWN_CALLS, 0, 10)]))
    for at in range(3):
        events = [sample(names.OWN_REFERENCE_NS, at, 40_000.0 * (at + 1))]
        fold.update(batch([*events, sample(names.OWN_STEP_ENDS_NS, at, 2000.0 * (at + 1))]))
    assert fold.get().hooks_ns == 10 * 500 + 3 * 40_000 + 3 * 2000


def test_what_was_not_measured_is_said_to_be_so() -> None:
    assert OwnCost(calls=10).hooks_ns is None
    assert overhead(10, [OwnCost(calls=10)], OwnCost())["text"] == "not measured"


def test_failures_of_hooks_are_counted_by_their_text() -> None:
    fold = OwnCostFold()
    events = [mark(names.HOOK_FAILED, at, text="forward: ValueError: no") for at in range(3)]
    fold.update(batch([*events, mark(names.HOOK_FAILED, 9, text="gc: KeyError: 'x'")]))
    assert fold.get().failures == {"forward: ValueError: no": 3, "gc: KeyError: 'x'": 1}
