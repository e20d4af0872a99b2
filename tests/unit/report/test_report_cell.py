from __future__ import annotations

import doctest
import re
import xml.etree.ElementTree as ET

from stepscope.model.cell import Cell
from stepscope.model.finding import Finding, Recommendation
from stepscope.model.metrics import PerformanceMetrics
from stepscope.model.summary import PhaseShare, StepsSummary
from stepscope.report import figures
from stepscope.report.cell import as_html, as_text

ADVICE = Recommendation(
    "Let 2 workers prepare batches", "DataLoader(..., num_workers=2)", (1.27, 2.0), "more memory"
)
CELL = Cell(
    name="training",
    verdict="Input-bound: computing samples takes 75 % of the loop.",
    metrics=PerformanceMetrics(
        execution_time=2.5, cpu_time=0.4, cpu_usage=8.0, initial_ram_mb=100.0, peak_ram_mb=2458.0
    ),
    findings=(Finding("input-cpu", "input-bound", 0.75, 1.0, 0.9, recommendation=ADVICE),),
    parts=(PhaseShare("input wait", 75.0, 0.75, None), PhaseShare("forward", 25.0, 0.25, None)),
    steps=StepsSummary(count=16, per_second=6.4),
    memory=((0.0, 100.0), (1.0, 300.0), (2.5, 200.0)),
)


def test_the_text_is_verdict_first_then_evidence_then_what_to_do() -> None:
    assert as_text(CELL).splitlines() == [
        "stepscope · training · 16 steps · 6.4 steps/s",
        "Input-bound: computing samples takes 75 % of the loop.",
        "  input wait         75 %  ██████████████████████▌",
        "  forward            25 %  ███████▌",
        "wall 2.50 s · CPU 400 ms (8 % of the CPUs) · peak RAM 2.4 GB (began at 100 MB)",
        "→ Let 2 workers prepare batches:",
        "  DataLoader(..., num_workers=2)",
        "  expected 1.27× to 2.00× as fast",
    ]


def test_the_html_has_the_same_and_is_well_formed() -> None:
    html = as_html(CELL)
    ET.fromstring(html)
    told = re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))
    for text in (
        CELL.verdict,
        "input wait 75 %",
        "peak 2.4 GB",
        "over 2.50 s",
        "num_workers=2",
        "1.27× to 2.00×",
    ):
        assert text in told


def test_the_bar_is_as_wide_as_the_shares() -> None:
    widths = re.findall(r'<rect x="([\d.]+)" width="([\d.]+)"', as_html(CELL))
    assert widths == [("0.0", "420.0"), ("420.0", "140.0")]  # of 560


def test_a_peak_between_samples_lies_above_the_line() -> None:
    (points,) = re.findall(r'<polyline points="([^"]*)"', as_html(CELL))
    heights = [float(point.split(",")[1]) for point in points.split()]
    (peak,) = re.findall(r'<line [^>]*y1="([\d.]+)"', as_html(CELL))
    assert all(height > float(peak) for height in heights)
    assert min(heights) == heights[1]


def test_what_comes_from_the_user_is_escaped_everywhere() -> None:
    nasty = '<img src=x onerror="alert(1)">'
    advice = Recommendation(nasty, nasty, None, nasty)
    cell = Cell(
        name=nasty,
        verdict=nasty,
        metrics=PerformanceMetrics(),
        findings=(Finding("input-cpu", nasty, 0.5, 1.0, 0.9, recommendation=advice),),
        parts=(PhaseShare(nasty, 1.0, 1.0, None),),
        error=nasty,
    )
    html = as_html(cell)
    assert "<img" not in html
    ET.fromstring(html)


def test_colours_of_text_are_those_of_the_page() -> None:
    html = as_html(CELL)
    assert not re.search(r"[; \"]color:", html)
    assert 'fill="currentColor"' in html


def test_what_was_not_measured_is_left_out() -> None:
    cell = Cell(name="cell", verdict="It took 3 µs.", metrics=PerformanceMetrics())
    assert as_text(cell).splitlines() == ["stepscope · cell", "It took 3 µs."]
    assert "<svg" not in as_html(cell)


def test_a_cell_that_an_exception_ended_is_marked() -> None:
    cell = Cell("cell", "It waited.", PerformanceMetrics(), error="ValueError")
    assert as_text(cell).startswith("stepscope · cell · partial: ValueError ended it\n")
    assert "partial: ValueError ended it" in as_html(cell)


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(figures) == (0, 4)
