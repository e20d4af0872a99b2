"""How the overhead benchmark pairs its runs and judges them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import overhead
from overhead import DEAD_SINKS, WATCHED, Comparison, Run, between, figures_of, targets_of
from processes import UnavailableError

BARE = Run(
    wall_s=5.0,
    cpu_s=4.0,
    step_s=0.020,
    contention=0.0,
    first_line_s=0.1,
    torch_ready_s=1.0,
    peak_rss_bytes=300e6,
    rss_bytes=290e6,
    losses=(3.0, 2.0),
)


def median_figures(**medians: float) -> dict[str, Any]:
    return {name: {"median": value} for name, value in medians.items()}


def test_a_tool_is_compared_with_the_middle_of_the_bare_runs_around_it() -> None:
    # GIVEN a machine that grows slower meanwhile
    middle = between(BARE, replace(BARE, step_s=0.030, wall_s=7.0))

    # THEN
    assert middle.step_s == pytest.approx(0.025)
    assert middle.wall_s == pytest.approx(6.0)


def test_the_figures_are_medians_over_the_rounds() -> None:
    # GIVEN steps 2, 4 and 50 % longer, 10 MB and 100 ms more
    slower = replace(BARE, peak_rss_bytes=310e6, torch_ready_s=1.1)
    rounds = [Comparison(slower, BARE, by) for by in (1.02, 1.04, 1.5)]

    # WHEN
    figures = figures_of(rounds)

    # THEN
    assert figures["step_ratio"]["median"] == pytest.approx(1.04)
    assert figures["extra_rss_mb"]["median"] == pytest.approx(10.0)
    assert figures["extra_start_ms"]["median"] == pytest.approx(100.0)
    assert figures["same_losses"]


def test_dead_sinks_are_compared_with_no_sinks_too() -> None:
    rounds = [Comparison(BARE, BARE, 1.02, by) for by in (0.99, 1.001, 1.1)]
    figures = figures_of(rounds)
    assert figures["against_watched"]["median"] == pytest.approx(1.001)
    assert "against_watched" not in figures_of([Comparison(BARE, BARE, 1.0)])
    (target,) = [t for t in targets_of({DEAD_SINKS: figures}) if "against watched" in t.name]
    assert target.ok


def test_memory_that_hides_below_an_early_peak_counts() -> None:
    # GIVEN the same peak, but 12 MB more at the end
    figures = figures_of([Comparison(replace(BARE, rss_bytes=302e6), BARE, 1.0)])

    # THEN
    assert figures["extra_peak_rss_mb"]["median"] == pytest.approx(0.0)
    assert figures["extra_rss_mb"]["median"] == pytest.approx(12.0)


def test_losses_that_differ_are_told() -> None:
    assert not figures_of([Comparison(replace(BARE, losses=(3.0, 2.1)), BARE, 1.0)])["same_losses"]


def test_ours_must_be_the_lightest_of_the_tools_but_not_of_the_bare_runs() -> None:
    # GIVEN
    ours = median_figures(
        step_ratio=1.005, wall_ratio=1.08, cpu_ratio=1.04, extra_rss_mb=9.0, extra_start_ms=90.0
    )
    tools = {
        "bare again": median_figures(step_ratio=0.998),
        "stepscope": ours,
        "stepscope --level detailed": median_figures(step_ratio=1.03),
        WATCHED: median_figures(step_ratio=1.006),
        DEAD_SINKS: median_figures(step_ratio=1.007, against_watched=1.001),
        "pyinstrument": median_figures(step_ratio=1.3),
        "torch.profiler": median_figures(step_ratio=1.1),
    }

    # WHEN
    targets = targets_of(tools)

    # THEN
    assert [target.ok for target in targets] == [True] * 10
    assert targets[1].limit == 1.1, "ours at another level is no other tool"


def test_no_target_holds_when_ours_did_not_run() -> None:
    assert not any(
        target.ok for target in targets_of({"pyinstrument": median_figures(step_ratio=1.3)})
    )


def test_a_round_goes_on_without_a_tool_that_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    # GIVEN
    def measure(name: str, steps: int) -> Run:
        if name == "scalene":
            raise UnavailableError("hangs")
        return BARE

    monkeypatch.setattr(overhead, "measure", measure)
    monkeypatch.setattr(overhead, "step_ratio", lambda name, steps: 1.1)

    # WHEN
    results = overhead.one_round(0, ["scalene", "pyinstrument"], 10)

    # THEN
    assert str(results["scalene"]) == "hangs"
    assert results["pyinstrument"] == Comparison(BARE, BARE, 1.1)
