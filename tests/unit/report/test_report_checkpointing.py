from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from stepscope.model.checkpoint_details import Checkpointing
from stepscope.model.checkpoint_plan import CheckpointPlan, Outcome, PlanReport
from stepscope.model.details import Details
from stepscope.model.source import NO_SOURCE
from stepscope.report.checkpoint_panel import checkpoint_panel
from stepscope.report.html import render_page
from stepscope.report.plan_chart import plan_chart
from stepscope.report.text import render
from tests.unit.report.made_checkpointing import layer, made_checkpointing, made_plan
from tests.unit.report.made_summary import input_bound
from tests.unit.report.test_report_html import NASTY, Page


def page(found: Checkpointing | None) -> Page:
    return Page(render_page(input_bound(), Details(checkpointing=found), lambda *_: NO_SOURCE))


def text(found: Checkpointing, encoding: str = "utf-8") -> str:
    buffer = io.BytesIO()
    file = io.TextIOWrapper(buffer, encoding=encoding, write_through=True)
    render(input_bound(), Console(file=file, width=110), found)
    return buffer.getvalue().decode(encoding)


def sections(made: Page) -> set[str | None]:
    return {attributes.get("id") for tag, attributes in made.tags if tag == "section"}


def test_the_text_lists_the_layers_that_are_least_worth_it_first() -> None:
    shown = text(made_checkpointing(poor=True))
    lines = [line.split() for line in shown.splitlines()]
    head = next(at for at, words in enumerate(lines) if words[:2] == ["checkpointed", "layer"])
    assert lines[head + 1] == ["head", "train.py:20", "5.00", "ms", "1.0", "MB", "200", "kB"]
    assert lines[head + 2] == ["blocks.0", "train.py:20", "5.00", "ms", "16", "MB", "3.2", "MB"]
    unknown = text(made_checkpointing(saved=None))
    assert "not measured" in unknown
    many = replace(made_checkpointing(), layers=tuple(layer(f"b.{n}") for n in range(20)))
    assert "… and 12 more" in text(many)
    assert "... and 12 more" in text(many, "ascii")


def test_the_text_shows_a_plan_before_and_after() -> None:
    shown = text(made_checkpointing(plan=made_plan()))
    rows = [" ".join(line.split()) for line in shown.splitlines()]
    assert "nothing recomputed measured over 20 steps 943.7 MB 100 % 100 ms" in rows
    assert "the plan measured over 20 steps 788.5 MB 84 % 112 ms 1.124× (1.100 to 1.150)" in rows
    assert "the plan predicted 786.4 MB 83 % 111 ms 1.110×" in rows


def test_the_page_has_a_section_only_where_there_is_something_to_show() -> None:
    assert "checkpointing" not in sections(page(None))
    made = page(made_checkpointing())
    assert "checkpointing" in sections(made)
    assert "30.00 ms of every step (30 %) compute activations again, to save 96 MB." in made.text
    assert "The plan" not in made.text


def test_the_page_draws_the_curve_the_budget_and_every_outcome() -> None:
    made = page(made_checkpointing(plan=made_plan()))
    circles = [attributes["class"] for tag, attributes in made.tags if tag == "circle"]
    assert circles.count("plan-point") == 7
    assert circles[-4:] == ["plan-baseline", "plan-present", "plan-predicted", "plan-measured"]
    assert "budget 797 MB" in made.text
    assert "The program's own checkpoints recompute more" in made.text


def test_marks_lie_where_their_figures_say() -> None:
    chart = plan_chart(made_plan())
    baseline, present, predicted, measured = chart.marks
    # Both axes leave 8 % of their range: 450 … 900 MiB to the right, 100 … 138 ms upwards.
    assert baseline.left == pytest.approx((900 - 414) / (936 - 414))
    assert baseline.top == pytest.approx(1 - 3.04 / (1.16 * 38))
    assert present.left < predicted.left < measured.left < baseline.left
    assert present.top < measured.top < predicted.top < baseline.top
    assert chart.budget_at == pytest.approx((760 - 414) / (936 - 414))
    assert all(0 < tick.at < 1 for tick in (*chart.chart.x_ticks, *chart.chart.y_ticks))
    assert chart.chart.x_ticks
    assert chart.chart.y_ticks


@pytest.mark.parametrize(
    "outcome", [Outcome(0, 0.0), Outcome(1, 1e-9), Outcome(10**17, 1e17)], ids=repr
)
def test_strange_plans_are_drawn_without_an_error(outcome: Outcome) -> None:
    empty = PlanReport(CheckpointPlan(()), outcome, None, outcome, outcome, (), (), 0)
    made = page(Checkpointing(plan=empty))
    assert "It recomputes nothing" in made.text
    assert plan_chart(empty).chart.areas == ()


@pytest.mark.parametrize("nasty", NASTY)
def test_names_of_layers_are_shown_as_they_are(nasty: str) -> None:
    found = replace(made_checkpointing(), layers=(layer(nasty),))
    made = page(found)
    assert nasty in made.text
    assert [tag for tag, _ in made.tags].count("script") == [
        tag for tag, _ in page(None).tags
    ].count("script")
    assert nasty in text(found)


def test_what_is_too_much_for_a_table_is_counted() -> None:
    many = replace(made_checkpointing(), layers=tuple(layer(f"b.{n}") for n in range(400)))
    panel = checkpoint_panel(many)
    assert (len(panel.layers), panel.layers_left_out) == (300, 100)
