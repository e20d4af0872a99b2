from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from stepscope.analyze.overhead import OwnCost
from stepscope.model.finding import Location
from stepscope.model.summary import Summary
from stepscope.report.glyphs import ASCII, UNICODE, glyphs_for
from stepscope.report.status import status_line
from stepscope.report.text import render
from tests.unit.analyze.test_findings import trained
from tests.unit.report.made_summary import COST, input_bound, summary_of


def rendered(summary: Summary, encoding: str = "utf-8", width: int = 80) -> str:
    buffer = io.BytesIO()
    file = io.TextIOWrapper(buffer, encoding=encoding, write_through=True)
    render(summary, Console(file=file, width=width))
    return buffer.getvalue().decode(encoding)


def test_under_accumulation_steps_and_passes_are_told() -> None:
    summary = input_bound()
    steps = replace(summary.steps, micro_batches=400)
    line = rendered(replace(summary, steps=steps)).splitlines()[0]
    assert line == "stepscope · train · 50 optimizer steps of 400 passes in 20.0 s · 2.5 steps/s"


def test_a_report_says_verdict_breakdown_finding_advice_and_cost() -> None:
    text = rendered(input_bound())
    lines = text.splitlines()
    assert lines[0] == "stepscope · train · 50 steps in 20.0 s · 2.5 steps/s"
    assert lines[2] == "Input-bound: computing samples takes 75 % of the loop."
    assert "input wait   300.10  75.0 %  ██████████████████████▌" in text
    assert (
        "1. input-cpu  75 % of the time · up to 4.45× faster without it · confidence 99 %" in text
    )
    assert "data.py:12 in D.__getitem__" in text
    assert "DataLoader(..., num_workers=3, persistent_workers=True)" in text
    assert "expected 2.96× to 4.00× as fast" in text
    assert "memory          the program held up to 1.2 GB of 16.0 GB" in text
    assert "stepscope cost  <0.1 % of the loop" in text


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437", "utf-8"])
def test_a_report_can_be_written_in_any_encoding_and_stays_within_80_columns(encoding: str) -> None:
    text = rendered(input_bound(), encoding)
    assert "Input-bound" in text
    assert max(map(len, text.splitlines())) <= 80
    if encoding == "ascii":
        assert "######" in text
        assert "4.00x" in text


def test_warm_up_has_a_line_of_its_own() -> None:
    summary = input_bound()
    assert "warm-up" not in rendered(summary)
    slow_start = replace(summary, steps=replace(summary.steps, warm_up=2, warm_up_ms=5001.0))
    said = "the first 2 steps took 5,001 ms (25 %): findings are about the steps after them"
    assert f"warm-up         {said}" in rendered(slow_start, width=120)


def test_a_narrow_terminal_does_not_break_it() -> None:
    assert max(map(len, rendered(input_bound(), width=40).splitlines())) <= 40


def test_a_pipe_gets_no_escape_sequences() -> None:
    assert "\033" not in rendered(input_bound())


def test_names_in_brackets_are_not_taken_for_markup() -> None:
    summary = input_bound()
    odd = replace(summary.findings[0], location=Location("[bold]x.py[/nothing]", 3, "[f]"))
    text = rendered(replace(summary, findings=(odd,)))
    assert "[bold]x.py[/nothing]:3 in [f]" in text


def test_a_healthy_run_reads_as_such() -> None:
    text = rendered(summary_of(trained(0, 50, 1.0)))
    assert "Compute-bound: model compute takes 99 % of the loop." in text
    assert "faster without" not in text


def test_without_a_loop_the_report_says_why() -> None:
    text = rendered(summary_of(cost=OwnCost(), events=0))
    assert "No verdict. The program recorded nothing" in text
    assert text.count("The program recorded nothing") == 1


def test_losses_are_shown_as_notes() -> None:
    text = rendered(summary_of(trained(0, 50, 1.0), cost=replace(COST, dropped=7)))
    assert "note            7 events came faster than they could be kept." in text


def test_several_ranks_are_shown_briefly() -> None:
    loops = [replace(trained(0, 50, 1.0), rank=rank) for rank in range(10)]
    text = rendered(summary_of(*loops))
    assert "rank  steps  median step  mostly" in text
    assert "and 2 more" in text


def test_a_saved_summary_renders_the_same() -> None:
    summary = input_bound()
    assert rendered(Summary.from_dict(summary.to_dict())) == rendered(summary)


def test_bars_show_anything_above_nothing() -> None:
    assert [UNICODE.bar(share, 10) for share in (0.0, 0.001, 0.5, 1.0)] == [
        "",
        "▏",
        "█" * 5,
        "█" * 10,
    ]
    assert [ASCII.bar(share, 10) for share in (0.0, 0.001, 0.5, 1.0)] == [
        "",
        "#",
        "#" * 5,
        "#" * 10,
    ]


def test_an_unknown_encoding_gets_ascii() -> None:
    assert glyphs_for("no-such-encoding") == ASCII
    assert glyphs_for(None) == ASCII


def test_the_live_line_says_steps_rate_and_phase() -> None:
    line = status_line(1234, 16.21, "input wait", 0.783)
    assert line == "stepscope  1,234 steps  16.2 steps/s  mostly input wait (78 %)"
    assert status_line(0) == "stepscope  no step yet"
    assert status_line(1) == "stepscope  1 step"
