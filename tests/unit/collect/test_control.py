"""The page by which programs are asked, and what requests may say."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest

from stepscope.collect.control import open_control
from stepscope.model.capture_request import CONTROL, CaptureRequest, request_name
from stepscope.store.captures import ask_capture, said_run, say_run


def test_who_has_the_page_open_sees_that_somebody_asks(tmp_path: Path) -> None:
    control = open_control(tmp_path)
    assert control.asked[0] == 0
    request = CaptureRequest(steps=7, seconds=2.5, operators=True, alert="a-1")
    assert [ask_capture(tmp_path, request), ask_capture(tmp_path, CaptureRequest())] == [1, 2]
    assert control.asked[0] == 2
    assert control.read(1) == request
    assert control.read(2) == CaptureRequest()


def test_whoever_comes_first_makes_the_page_and_the_next_leaves_it_as_it_is(tmp_path: Path) -> None:
    ask_capture(tmp_path, CaptureRequest())
    assert open_control(tmp_path).asked[0] == 1
    assert open_control(tmp_path).asked[0] == 1
    # Memory that is not there when it is read would end the program that reads it.
    assert (tmp_path / CONTROL).stat().st_blocks > 0


def test_there_is_no_page_in_a_folder_that_is_gone(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        open_control(tmp_path / "gone")
    with pytest.raises(OSError, match="No such file"):
        ask_capture(tmp_path / "gone", CaptureRequest())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "[" * 100_000,
        '{"steps": "many"}',
        '{"steps": true}',
        '{"seconds": NaN}',
        '{"interval_s": null}',
        '{"expires_ns": "soon"}',
    ],
)
def test_what_is_no_request_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / request_name(1)).write_text(text)
    with pytest.raises(ValueError, match=r".+"):
        open_control(tmp_path).read(1)


def test_a_request_stays_within_bounds_whatever_it_says() -> None:
    wild = {
        "steps": 10**12,
        "seconds": math.inf,
        "interval_s": -5,
        "layers": "yes",
        "memory": 1,
        "alert": "x" * 10_000,
        "nonsense": {},
    }
    found = CaptureRequest.from_json(json.dumps(wild))
    assert (found.steps, found.seconds, found.interval_s) == (10_000, 600.0, 0.0005)
    assert (found.layers, found.memory, len(found.alert)) == (False, False, 200)


def test_a_status_folder_says_whose_it_is(tmp_path: Path) -> None:
    assert said_run(tmp_path) is None
    for run in (Path("/somewhere/runs/a b"), Path(os.fsdecode(b"/no/utf-8/\xff"))):
        say_run(tmp_path, run)
        assert said_run(tmp_path) == run
    (tmp_path / "run").write_text("not absolute")
    assert said_run(tmp_path) is None
