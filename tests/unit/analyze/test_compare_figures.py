from __future__ import annotations

from dataclasses import replace

import pytest

from stepscope.analyze.compare_figures import figures_of
from stepscope.model.summary import StepsSummary, Summary
from tests.unit.report.made_summary import input_bound

RUN = {
    "started_unix": 5.0,
    "ended_unix": 9.0,
    "exit_code": 0,
    "python": "3.11.7",
    "host": {"name": "one", "cpus": 4},
    "settings": {"level": "basic", "memory": []},
}


def test_a_summary_gives_its_figures() -> None:
    summary = replace(input_bound(), run=RUN)

    found = figures_of(summary, "train", "runs/train", "2.12")

    assert found.figures["loop"] == pytest.approx(summary.wall_ms / summary.steps.count)
    assert found.figures["fast"] == summary.steps.fast_ms
    assert found.figures["memory"] == 1.2e9
    assert sum(found.phases.values()) == pytest.approx(found.figures["loop"])
    assert (found.started_unix, found.steps) == (5.0, summary.steps.count)
    assert found.kind == summary.findings[0].kind
    assert found.about["version of torch"] == "2.12"
    assert found.about["number of CPUs"] == "4"
    assert found.remarks == ()


def test_a_run_without_a_loop_has_no_step_times_and_says_so() -> None:
    found = figures_of(Summary(run=RUN), "x", "x")

    assert found.figures == {}
    assert found.phases == {}
    assert found.remarks == ("no training loop was found in it",)


def test_a_run_that_failed_or_was_killed_says_so() -> None:
    steps = StepsSummary(count=3)

    killed = figures_of(Summary(run=RUN | {"ended_unix": None}, steps=steps), "x", "x")
    failed = figures_of(Summary(run=RUN | {"exit_code": 1}, steps=steps), "x", "x")

    assert killed.remarks == ("it goes on, or was killed",)
    assert failed.remarks == ("it ended with exit code 1",)
