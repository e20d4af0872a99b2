from __future__ import annotations

import re
from dataclasses import replace

import pytest

from stepscope.model.details import Details
from stepscope.model.finding import Location
from stepscope.model.memory import DeviceMemory, Memory, MemoryPoint, Peak, PeakPart
from stepscope.model.source import NO_SOURCE, SourceText
from stepscope.report.html import render_memory_page, render_page
from stepscope.report.memory_icicle import category_class
from stepscope.report.memory_panel import memory_panel
from tests.unit.report.made_details import made_details
from tests.unit.report.made_memory import MB, made_memory
from tests.unit.report.made_summary import input_bound
from tests.unit.report.test_report_html import Page


def nothing(file: str, first: int, last: int) -> SourceText:
    return NO_SOURCE


def with_points(*points: MemoryPoint) -> Memory:
    highest = max(point.total for point in points)
    return Memory("cuda snapshot", devices=(DeviceMemory("cuda:0", Peak(highest), points),))


def point(at_ms: float, size: int, step: int = -1) -> MemoryPoint:
    return MemoryPoint(at_ms, step, (0, 0, 0, size, 0, 0, 0))


def test_a_run_with_memory_has_a_section_and_one_without_has_none() -> None:
    with_it = Page(render_page(input_bound(), made_details(), nothing))
    assert "memory" in {attributes.get("id") for _, attributes in with_it.tags}
    without = Page(render_page(input_bound(), Details(), nothing))
    ids = {attributes.get("id") for _, attributes in without.tags}
    links = {attributes.get("href") for _, attributes in without.tags}
    assert "memory" not in ids
    assert "#memory" not in links


def test_the_section_says_what_the_text_says() -> None:
    words = Page(render_page(input_bound(), made_details(), nothing)).words
    for part in (
        "Memory leaks: 1.5 MB a step stay behind",
        "What the peak was made of",
        "Lines and layers that the peak belongs to",
        "highest of what is drawn 1.4 GB",
        "held by list `losses` of train.py:17",
        "200 MB are not explained",
        "The Python heap by line",
        "Stacks were taken on every second step.",
    ):
        assert part in words


def test_a_page_of_a_file_stands_alone_under_the_same_policy() -> None:
    html = render_memory_page(made_memory(), "snapshot.pickle", "", nothing)
    page = Page(html)
    assert "snapshot.pickle" in page.words
    (policy,) = [a["content"] or "" for _, a in page.tags if a.get("http-equiv")]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    assert not any("style" in attributes for _, attributes in page.tags)


@pytest.mark.parametrize(
    "memory",
    [
        Memory("run"),
        Memory("run", devices=(DeviceMemory("cpu", Peak(0)),)),
        with_points(point(0.0, 0), point(0.0, 0)),
        replace(made_memory(), coverage=None, headroom=None, gc=None, stack_share=None),
    ],
)
def test_what_was_not_measured_is_left_out(memory: Memory) -> None:
    assert "None" not in Page(render_memory_page(memory, "a", "", nothing)).text


def test_areas_lie_upon_each_other_and_the_peak_is_marked() -> None:
    points = (
        MemoryPoint(0.0, -1, (100, 0, 0, 0, 0, 0, 0)),
        MemoryPoint(500.0, -1, (100, 0, 0, 300, 0, 0, 0)),
        MemoryPoint(1000.0, -1, (100, 0, 0, 0, 0, 0, 0)),
    )
    (device,) = memory_panel(with_points(*points)).devices
    assert device.picture is not None
    parameter, activation = device.picture.chart.areas
    # Up to 400 of 432: y = 1 - 400 / 432; the parameters below it reach to 1 - 100 / 432.
    assert (parameter.name, activation.name) == ("parameter", "activation")
    assert "L500 768.5L" in parameter.path
    assert "L500 74.07L" in activation.path
    assert device.picture.peak_at == 0.5
    assert device.picture.peak_text == "peak 400 B"
    assert device.picture.moments[1].title == "0.500 s: 400 B (activation 300 B, parameter 100 B)"
    assert [tick.label for tick in device.picture.chart.x_ticks][:2] == ["0.0 s", "0.2 s"]


def test_steps_that_were_looked_at_stand_side_by_side() -> None:
    points = [point(1000.0 * step + at, at + 1, step) for step in (1, 100) for at in range(11)]
    (device,) = memory_panel(with_points(*points)).devices
    assert device.picture is not None
    ticks = device.picture.chart.x_ticks
    assert [(tick.at, tick.label) for tick in ticks] == [(0.0, "step 1"), (0.5, "step 100")]


def test_steps_of_which_little_is_known_are_not_drawn() -> None:
    points = [point(1000.0 * 7 + at, at + 1, 7) for at in range(30)]
    points += [point(9000.0 + at, 900, 9) for at in range(3)]
    (device,) = memory_panel(with_points(*points)).devices
    assert device.picture is not None
    assert len(device.picture.moments) == 30
    assert device.picture.title == "within step 7"
    assert device.picture.peak_text == "highest of what is drawn 30 B"
    assert device.picture.chart.x_ticks[0].label == "0.00 s"  # by the clock, from its beginning


def test_many_points_are_drawn_as_few_with_the_highest_among_them() -> None:
    points = [point(float(at), 5 if at != 1234 else 99) for at in range(2000)]
    (device,) = memory_panel(with_points(*points)).devices
    assert device.picture is not None
    assert len(device.picture.moments) == 500
    assert device.picture.peak_text == "peak 99 B"


def test_the_icicle_goes_from_category_over_layer_to_line() -> None:
    parts = (
        PeakPart("activation", 60 * MB, 1, Location("a.py", 1, "f", "head")),
        PeakPart("parameter", 25 * MB, 1),
        PeakPart("activation", 15 * MB, 1, Location("a.py", 2, "g")),
    )
    peak = Peak(100 * MB, parts=parts, parts_bytes=100 * MB)
    (device,) = memory_panel(Memory("run", devices=(DeviceMemory("cpu", peak),))).devices
    assert device.icicle is not None
    placed = {
        piece.frame.node.name: (
            piece.frame.level,
            round(piece.frame.left, 6),
            round(piece.frame.width, 6),
            piece.category_class,
        )
        for piece in device.icicle.pieces
    }
    assert placed == {
        "peak": (0, 0.0, 1.0, "whole"),
        "activation": (1, 0.0, 0.75, "m-activation"),
        "parameter": (1, 0.75, 0.25, "m-parameter"),
        "head": (2, 0.0, 0.6, "m-activation"),
        "a.py:2 in g": (2, 0.6, 0.15, "m-activation"),
        "a.py:1 in f": (3, 0.0, 0.6, "m-activation"),
    }
    titles = [piece.title for piece in device.icicle.pieces]
    assert "a.py:1 in f · a.py:1 · 60 MB · 60 % of the peak" in titles


def test_an_unknown_category_has_the_colour_of_the_others() -> None:
    assert category_class("love") == "m-other"
    assert category_class("optimizer state") == "m-optimizer-state"


def test_steps_are_drawn_by_their_numbers() -> None:
    steps = tuple((number, 10 * number, 5 * number) for number in range(10, 61))
    memory = Memory("run", devices=(DeviceMemory("cpu", Peak(600), steps=steps),))
    (device,) = memory_panel(memory).devices
    assert device.steps is not None
    assert [tick.label for tick in device.steps.x_ticks] == [
        "step 10",
        "step 20",
        "step 30",
        "step 40",
        "step 50",
    ]
    html = render_memory_page(memory, "a", "", nothing)
    assert len(re.findall('class="line c', html)) == 2
