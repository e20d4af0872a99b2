from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from stepscope.model.finding import Location
from stepscope.model.memory import (
    Coverage,
    DeviceMemory,
    Growing,
    Headroom,
    Memory,
    MemoryPoint,
    Peak,
    PeakPart,
)
from stepscope.report.memory import render_memory
from stepscope.report.memory_words import by_category, by_line, verdict
from tests.unit.report.made_memory import MB, made_memory


def said(memory: Memory, width: int = 160) -> str:
    written = io.StringIO()
    render_memory(memory, "a-run", Console(file=written, width=width))
    return written.getvalue()


def test_the_verdict_comes_first_and_the_worst_of_it_first() -> None:
    lines = said(made_memory()).splitlines()
    assert lines[0] == "stepscope · a-run · 4 steps looked at closely · rank 1"
    assert lines[2].startswith("Out of memory: 512 MB more were refused at train.py:12")
    assert lines[3] == "Memory leaks: 1.5 MB a step stay behind, allocated at train.py:17 in train."
    assert lines[4] == "One more place grows."
    assert "runs out in about 3,267 steps (2,900 to 3,800)" in lines[5]
    assert lines[6].endswith("2.2 GB: 75 % activations, 20 % parameters, 5.0 % temporaries.")


def test_everything_that_is_known_is_said() -> None:
    text = said(made_memory())
    for part in (
        "Peak on cpu: 2.2 GB in step 150; told apart for the 2.0 GB of step 100",
        "train.py:12 in forward, layer encoder.0  1.2 GB      40  activation",
        "1. leak  1.5 MB a step · 300 MB in 200 blocks",
        "held by list `losses` of train.py:17",
        "from train.py:30 in train",
        "objects of Node",
        "cuda:0 holds 4.0 GB, of which 2.0 GB are in use and 2.0 GB are free",
        "the largest piece 400 MB; 1.5 GB of it in segments that are partly in use. Do it.",
        "3.1 GB of 8.0 GB (cgroup) were in use at the last step",
        "generation 2 ran 4 times, 320 ms in all, 90.00 ms at most",
        "A full collection runs in every 50th step.",
        "Of 3.1 GB that the process held, 2.2 GB are tensors that were seen",
        # 2,200 + 600 + 50 + 50 + 200 are the 3,100; the others are properties of these.
        "200 MB are not explained. Of all this, 40",
        "50 % of the allocations have a stack",
        "wrong frees 2",
        "Stacks were taken on every second step.",
        "train.py:5 in <module>",
    ):
        assert part in " ".join(text.split()) or part in text


@pytest.mark.parametrize(
    "memory",
    [
        Memory("run"),
        Memory("run", devices=(DeviceMemory("cpu", Peak(0)),)),
        Memory("run", coverage=Coverage(0, 0), headroom=Headroom(0, "host", 0)),
        replace(made_memory(), coverage=None, headroom=None, gc=None, stack_share=None),
        replace(made_memory(), devices=(), growing=(), fragmentation=(), refused=()),
    ],
)
def test_what_was_not_measured_is_left_out(memory: Memory) -> None:
    assert "None" not in said(memory)


def test_a_run_that_does_not_grow_says_so_and_a_file_does_not_claim_it() -> None:
    device = DeviceMemory("cpu", Peak(5), steps=((1, 5, 5),))
    assert "No leak was found." in verdict(Memory("run", devices=(device,)))
    assert "No leak was found." not in verdict(Memory("cuda snapshot", devices=(device,)))
    assert verdict(Memory("run")) == ["No memory of tensors was seen."]


def test_garbage_in_cycles_is_told_apart_from_a_leak() -> None:
    one = Growing("cycle garbage", "", 2.0 * MB, 1, 1, "other", Location("a.py", 3))
    (first,) = verdict(Memory("run", growing=(one,)))
    assert "grows by 2.0 MB a step until garbage is collected" in first
    cache = one._replace(verdict="cache")
    assert verdict(Memory("run", growing=(cache,))) == ["No memory of tensors was seen."]


def test_parts_of_one_line_and_category_are_one() -> None:
    here, there = Location("a.py", 1, "f"), Location("a.py", 2, "f")
    parts = (
        PeakPart("activation", 50, 1, here),
        PeakPart("other", 40, 1),
        PeakPart("activation", 30, 2, there),
        PeakPart("activation", 25, 3, there),
    )
    peak = Peak(145, parts=parts, parts_bytes=145)
    assert [(one.bytes, one.blocks) for one in by_line(peak)] == [(55, 5), (50, 1)]
    assert [(one.category, one.bytes) for one in by_category(peak)] == [
        ("activation", 105),
        ("other", 40),
    ]


def test_names_from_a_file_cannot_steer_the_terminal() -> None:
    nasty = "\x1b]0;owned\x07[bold]x\u202e.py"
    text = said(made_memory(nasty, nasty))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\u001b]0;owned\\u0007[bold]x\\u202e.py" in text.replace("\n", "")


def test_it_can_be_written_in_ascii() -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding="ascii")
    render_memory(made_memory(), "a-run", Console(file=file, width=120))
    file.flush()
    assert b"###" in raw.getvalue()


def test_points_know_their_total() -> None:
    assert MemoryPoint(0.0, 1, (1, 2, 3, 4, 5, 6, 7)).total == 28
