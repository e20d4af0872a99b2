"""What `stepscope plan` prints."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from stepscope.model.checkpoint_plan import CheckpointPlan, Outcome, PlanReport
from stepscope.report.plan import render_plan
from stepscope.report.plan_words import blocks_by_worth, plan_verdict
from tests.unit.report.made_checkpointing import MIB, made_plan


def printed(report: PlanReport, width: int = 110) -> str:
    out = io.StringIO()
    render_plan(report, "mine", Console(file=out, width=width))
    return out.getvalue()


def test_the_verdict_says_the_peak_the_budget_and_the_time() -> None:
    first, second = plan_verdict(made_plan())

    assert first == (
        "Recompute 2 segments: the peak falls from 943.7 MB to 788.5 MB (-16 %), within 796.9 MB; a"
        " step takes 12.40 ms more (+12.4 %)."
    )
    assert second == "No plan gets below 471.9 MB."


def test_a_plan_that_turned_out_too_large_is_said_to_be() -> None:
    report = replace(made_plan(), measured=Outcome(800 * MIB, 112.0, 1.1, 1.2, 15))

    assert "which is 41.9 MB more than asked for" in next(plan_verdict(report))


def test_where_all_fits_nothing_is_recomputed() -> None:
    report = replace(made_plan(), plan=CheckpointPlan((), 1 << 40))

    assert list(plan_verdict(report)) == [
        "Nothing needs to be recomputed: the peak of 943.7 MB fits as it is."
    ]
    assert "in the plan" not in printed(report).partition("what it would cost")[0]


def test_every_way_has_its_row() -> None:
    text = printed(made_plan())

    for row in ("nothing recomputed", "as the program stands", "predicted", "1.124×"):
        assert row in text
    assert "note: The program's own checkpoints recompute more" in text


def test_blocks_of_the_plan_come_first_and_then_what_is_worth_most() -> None:
    found = blocks_by_worth(made_plan())
    worth = [one.bytes_per_ms for one in found if not one.is_planned]

    assert [one.is_planned for one in found] == [True, True, False, False, False, False]
    assert worth == sorted(worth, key=lambda one: -(one or 0.0))


def test_a_terminal_that_knows_ascii_only_gets_ascii() -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    render_plan(made_plan(), "mine", Console(file=out, width=110))
    out.flush()
    out.seek(0)

    assert "#" in out.read()
