"""How the benchmark of looking at memory compares its runs and judges them."""

from __future__ import annotations

from dataclasses import replace

import pytest

import memory_overhead
from harness import turn
from memory_overhead import (
    LENGTHS,
    Run,
    as_run,
    figures_of,
    measured,
    one_round,
    overview,
    targets_of,
)
from processes import UnavailableError

BARE = Run(
    steps=100,
    step_ms=2.0,
    median_step_ms=1.9,
    cpu_ms=2.0,
    rss_bytes=300_000_000,
    peak_rss_bytes=400_000_000,
    loss=2.5,
)
OURS = replace(BARE, step_ms=2.08, rss_bytes=306_000_000)
PEER = replace(BARE, step_ms=2.6, steps=20, loss=2.7)
ROUND = {
    "bare": BARE,
    "stepscope --memory": OURS,
    "torch.profiler": PEER,
    "memray": PEER,
    "tracemalloc": PEER,
}


def test_the_mean_step_has_what_happens_between_steps_and_on_few_of_them() -> None:
    # GIVEN three steps of 1 ms, one of 5 ms, and 4 ms between them
    seen = {
        "step_ns": [1_000_000, 1_000_000, 5_000_000, 1_000_000],
        "total_ns": 12_000_000,
        "cpu_ns": 6_000_000,
        "rss_bytes": 1,
        "peak_rss_bytes": 2,
        "loss": 0.5,
    }

    # THEN
    assert as_run(seen) == Run(4, 3.0, 1.0, 1.5, 1, 2, 0.5)


def test_each_run_is_compared_with_the_bare_run_of_its_round() -> None:
    # GIVEN a machine that is half as fast in the second round, and a third one with an outlier
    slow = replace(BARE, step_ms=4.0)
    rounds = [
        {"bare": BARE, "stepscope --memory": replace(BARE, step_ms=2.1)},
        {"bare": slow, "stepscope --memory": replace(slow, step_ms=4.16)},
        {"bare": BARE, "stepscope --memory": replace(BARE, step_ms=3.0)},
    ]

    # WHEN
    figures = figures_of(rounds, ["bare", "stepscope --memory"])

    # THEN
    ratio = figures["tools"]["stepscope --memory"]["step_ratio"]
    assert ratio["median"] == pytest.approx(1.05)
    assert (ratio["low"], ratio["high"]) == pytest.approx((1.04, 1.5))


def test_ours_is_compared_with_another_tool_in_the_same_round() -> None:
    figures = figures_of([ROUND, ROUND], list(ROUND))
    assert figures["ours_against"]["memray"]["median"] == pytest.approx(0.8)


def test_memory_that_hides_below_an_early_peak_counts() -> None:
    # GIVEN the same peak, but 6 MB of 300 more after the last step
    found = figures_of([ROUND], list(ROUND))["tools"]["stepscope --memory"]

    # THEN
    assert found["extra_peak_rss_share"]["median"] == pytest.approx(0.0)
    assert found["extra_rss_share"]["median"] == pytest.approx(0.02)


def test_losses_are_compared_after_the_same_number_of_steps_only() -> None:
    # GIVEN
    other = {**ROUND, "stepscope --memory": replace(OURS, loss=2.4)}

    # THEN
    same, changed = (figures_of([each], list(ROUND))["tools"] for each in (ROUND, other))
    assert same["stepscope --memory"]["same_loss"] is True
    assert same["memray"]["same_loss"] is None
    assert changed["stepscope --memory"]["same_loss"] is False
    assert "NO" in overview("tiny", figures_of([other], list(ROUND)))


def test_every_model_has_targets_for_the_step_each_other_tool_and_memory() -> None:
    # GIVEN
    figures = figures_of([ROUND], list(ROUND))

    # WHEN
    targets = targets_of({"tiny": figures, "cnn": figures})

    # THEN
    assert [target.value for target in targets] == pytest.approx([1.04, 0.8, 0.8, 0.8, 0.02] * 2)
    assert [target.limit for target in targets] == [1.05, 1.0, 1.0, 1.0, 0.05] * 2
    assert all(target.ok for target in targets)


def test_being_lighter_than_a_tool_that_did_not_run_is_not_claimed() -> None:
    # GIVEN
    ran = [tool for tool in ROUND if tool != "memray"]

    # WHEN
    targets = targets_of({"tiny": figures_of([ROUND], ran)})

    # THEN
    assert [target.name for target in targets if not target.ok] == [
        "tiny: mean step with --memory, ratio to memray"
    ]


def test_no_target_holds_when_ours_did_not_run() -> None:
    targets = targets_of({"tiny": figures_of([ROUND], ["bare", "memray"])})
    assert not any(target.ok for target in targets)


def test_other_tools_run_fewer_steps() -> None:
    length = LENGTHS["tiny"]
    assert length.of("stepscope --memory", 1.0) == length.of("bare", 1.0)
    assert length.of("torch.profiler", 1.0) < length.of("bare", 1.0)
    assert length.of("torch.profiler", 0.0) == 1


def test_ours_and_bare_are_neighbours_in_the_first_two_rounds_each_first_once() -> None:
    names = list(memory_overhead.COMMANDS)
    places = [
        (order.index("bare"), order.index("stepscope --memory"))
        for order in (turn(names, 0), turn(names, 1))
    ]
    assert [ours - bare for bare, ours in places] == [1, -1]


def test_the_order_changes_from_round_to_round_and_a_tool_that_fails_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # GIVEN
    began: list[str] = []

    def measure(tool: str, model: str, steps: int) -> Run:
        began.append(tool)
        if tool == "memray":
            raise UnavailableError("not installed")
        return BARE

    monkeypatch.setattr(memory_overhead, "measure", measure)

    # WHEN
    results = one_round(0, ["bare", "memray", "tracemalloc"], "tiny", 1.0)
    one_round(1, ["bare", "memray", "tracemalloc"], "tiny", 1.0)
    taken, unavailable = measured(["tiny"], ["bare", "memray"], 2, 1.0)

    # THEN
    assert str(results["memray"]) == "not installed"
    assert began[:3] != began[3:6]
    assert sorted(began[:3]) == sorted(began[3:6])
    assert taken == {"tiny": [{"bare": BARE}] * 2}
    assert unavailable == {"memray": "not installed"}
