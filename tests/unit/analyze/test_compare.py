from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from stepscope.analyze.compare import compare
from stepscope.model.comparison import Comparison, Judgement, Outcome, RunFigures
from tests.unit.analyze.made_runs import group, noisy, run


def judgements(comparison: Comparison) -> dict[str, Judgement]:
    return {row.metric.key: row.judgement for row in comparison.rows if row.judgement is not None}


def test_runs_that_are_slower_are_a_regression() -> None:
    found = compare(group([10.0, 10.1, 9.9]), group([11.0, 11.1, 10.9], "new"))

    assert found.outcome is Outcome.REGRESSION
    assert judgements(found)["fast"] is Judgement.WORSE
    assert found.reasons[0].startswith("undisturbed step: 9 ms → 9.9 ms, +10.0 % (between +")


def test_runs_that_are_faster_are_an_improvement() -> None:
    found = compare(group([10.0, 10.1, 9.9]), group([8.0, 8.1, 7.9], "new"))

    assert found.outcome is Outcome.IMPROVEMENT


def test_runs_that_are_alike_show_no_change() -> None:
    found = compare(group([10.0, 10.1, 9.9]), group([10.02, 9.98, 10.1], "new"))

    assert found.outcome is Outcome.NO_CHANGE


def test_one_run_a_group_is_inconclusive_however_much_slower() -> None:
    found = compare([run("a", 10.0)], [run("b", 30.0)])

    assert found.outcome is Outcome.INCONCLUSIVE
    (reason,) = found.reasons
    assert reason.startswith("One run cannot tell a change from chance: give at least two runs")


def test_runs_that_differ_much_are_inconclusive_and_say_how_many_would_do() -> None:
    found = compare(
        group([10.0, 10.5, 9.6, 10.2, 9.8]), group([10.3, 10.9, 9.8, 10.1, 10.6], "new")
    )

    assert found.outcome is Outcome.INCONCLUSIVE
    assert "runs of each would tell 5 %" in found.reasons[0]


def test_a_slower_loop_is_found_where_the_undisturbed_step_is_as_before() -> None:
    base = group([10.0, 10.1, 9.9])
    new = [
        replace(one, figures={**one.figures, "loop": 1.2 * one.figures["loop"]})
        for one in group([10.0, 10.1, 9.9], "new")
    ]

    found = compare(base, new)

    assert found.outcome is Outcome.REGRESSION
    assert judgements(found)["fast"] is Judgement.SAME
    assert judgements(found)["loop"] is Judgement.WORSE
    assert len(found.reasons) == 1


def test_more_memory_is_a_regression() -> None:
    new = [
        replace(one, figures={**one.figures, "memory": 1.1e9})
        for one in group([10.0, 10.1, 9.9], "new")
    ]

    found = compare(group([10.0, 10.1, 9.9]), new)

    assert found.outcome is Outcome.REGRESSION
    assert judgements(found)["memory"] is Judgement.WORSE


def test_more_throughput_is_shown_and_judges_nothing() -> None:
    found = compare(group([10.0, 10.1, 9.9]), group([5.0, 5.1, 4.9], "new"))
    row = next(row for row in found.rows if row.metric.key == "throughput")

    assert row.judgement is None
    assert row.ratio is not None
    assert row.ratio.middle > 1.9


def test_figures_that_only_one_group_has_are_left_out() -> None:
    new = [replace(one, figures={"fast": 9.0}) for one in group([10.0, 10.1], "new")]

    assert [row.metric.key for row in compare(group([10.0, 10.1]), new).rows] == ["fast"]


def test_groups_without_any_figure_in_common_say_so() -> None:
    empty = [replace(run("a"), figures={}, phases={})]

    found = compare(empty, empty)

    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.reasons == ("No figure was measured in both groups: there is nothing to compare.",)
    assert found.phases == ()


def test_phases_stand_side_by_side_with_their_shares() -> None:
    found = compare(group([10.0, 10.0]), group([20.0, 20.0], "new"))
    forward = found.phases[0]

    assert (forward.phase, forward.base_ms, forward.new_ms) == ("forward", 4.0, 8.0)
    assert forward.base_share == pytest.approx(4 / 11)
    assert forward.new_share == pytest.approx(4 / 11)
    assert forward.ratio is not None
    assert forward.ratio.middle == pytest.approx(2.0)


def test_a_phase_that_is_new_is_shown() -> None:
    new = [replace(one, phases={**one.phases, "gc": 1.0}) for one in group([10.0, 10.0], "new")]
    found = compare(group([10.0, 10.0]), new)
    (gc,) = [row for row in found.phases if row.phase == "gc"]

    assert (gc.base_ms, gc.new_ms, gc.ratio) == (0.0, 1.0, None)


def test_the_verdict_of_most_runs_is_the_groups() -> None:
    loading: dict[str, Any] = {"kind": "input", "verdict": "waits for data"}
    base = [run("a", **loading), run("b", **loading), run("c", kind="gc", verdict="collects")]

    found = compare(base, [run("d", **loading), run("e", **loading)])

    assert found.verdicts == ("waits for data (2 of 3 runs)", "waits for data")


def test_equals_give_few_alarms_and_five_percent_is_found() -> None:
    rng = random.Random(3)
    alarms = found = 0
    for _ in range(150):
        base = group(noisy(rng, 0.015))
        alarms += compare(base, group(noisy(rng, 0.015), "new")).outcome is Outcome.REGRESSION
        slow = compare(base, group(noisy(rng, 0.015, 1.05), "new"))
        found += slow.outcome is Outcome.REGRESSION
    assert alarms <= 5  # at most 3 %
    assert found >= 135


@pytest.mark.parametrize(("version", "by"), [("1", "speed"), ("2", "runs")])
def test_the_speed_of_the_machine_counts_only_within_one_version_of_stepscope(
    version: str, by: str
) -> None:
    """The work that it is measured by may be another in the next."""

    def made(name: str, version: str, times: float) -> list[RunFigures]:
        return [
            run(f"{name}-{speed}", times * speed, reference_us=speed, about=about(version))
            for speed in (10.0, 11.0, 12.0, 13.0)
        ]

    def about(version: str) -> dict[str, str]:
        return {"version of stepscope": version}

    found = compare(made("base", "1", 1.0), made("new", version, 1.05))

    assert found.rows[0].ratio is not None
    assert found.rows[0].ratio.by == by


def test_it_becomes_plain_json() -> None:
    found = compare(group([10.0, 10.1]), group([11.0, 11.1], "new")).to_dict()

    assert found["outcome"] in {"regression", "inconclusive"}
    assert found["figures"][0]["metric"] == "fast"
    assert set(found["figures"][0]["ratio"]) == {"middle", "low", "high", "by"}
    assert [one["name"] for one in found["base"]] == ["base-0", "base-1"]
