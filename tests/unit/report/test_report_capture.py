from __future__ import annotations

import io

import pytest
from rich.console import Console

from stepscope.model.capture import Capture
from stepscope.report.capture import render_capture
from tests.unit.report.made_capture import made_capture, standing


def rendered(capture: Capture, encoding: str = "utf-8", width: int = 100) -> str:
    buffer = io.BytesIO()
    file = io.TextIOWrapper(buffer, encoding=encoding, write_through=True)
    render_capture(capture, Console(file=file, width=width))
    return buffer.getvalue().decode(encoding)


def row(text: str, *words: str) -> str:
    return next(line for line in text.splitlines() if all(word in line for word in words))


def test_a_capture_shows_phases_lines_layers_operators_and_what_grows() -> None:
    text = rendered(made_capture())
    assert "Input-bound: computing samples takes 75 %" in text
    assert row(text, "90.00 ms", "90 %", "input wait", "/my/data.py:12 in load")
    assert row(text, "1.50 ms", "?", "4.1 kB", "body.0 Linear")
    assert "layer, mean of 17 steps" in text
    assert row(text, "1.25 ms", "30 %", "4", "aten::mm")
    assert row(text, "8.2 kB", "164 kB", "20", "/my/data.py:12 in load")
    hottest = text[text.index("of it") :]
    assert "profiling" not in hottest, "our own looks are no line of the user's"


def test_a_program_that_stands_still_shows_where() -> None:
    lines = rendered(standing()).splitlines()
    assert lines[0] == "No step ended: it stands in input wait at /my/data.py:12."
    assert lines[1] == "No step ended within it."
    assert lines[-2:] == ["  /my/train.py:3 in main", "  /my/data.py:12 in load"]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("width", [60, 200])
def test_it_can_be_written_anywhere(encoding: str, width: int) -> None:
    for capture in (made_capture(), standing()):
        assert rendered(capture, encoding, width)
