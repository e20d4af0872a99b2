"""`stepscope.metric` against a recorder, and in processes that nobody profiles."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import stepscope
from stepscope.model import names
from stepscope.model.event import Row
from stepscope.record.frames import HEADER, frame
from stepscope.record.recorder import Recorder
from stepscope.record.twin import TwinCore
from stepscope.session import metric as module
from stepscope.session import program as programs
from stepscope.session.header import Moment, process_header
from stepscope.store.frames import FramesReader


class Stands:
    """In the place of the program of this process."""

    def __init__(self, core: Any) -> None:
        self.recorder = Recorder(core)
        self.awake = False
        self.woken = 0

    def wake(self) -> None:
        self.awake = True
        self.woken += 1


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stands]:
    made = Stands(TwinCore())
    monkeypatch.setattr(programs, "_here", made)
    monkeypatch.setattr(module, "_names", None)
    yield made
    assert made.recorder.failures.get("metric", 0) == 0


@pytest.fixture
def rows(program: Stands, tmp_path: Path) -> Callable[[], list[Row]]:
    path = tmp_path / "drained.frames"
    path.write_bytes(frame(HEADER, process_header({}, [], "python", Moment(0, 0))))
    reader = FramesReader(path)

    def read() -> list[Row]:
        """Those that are new."""
        with path.open("ab") as file:
            file.write(program.recorder.drain())
        found = [row for batch in reader.read_new() for row in batch.rows()]
        return [row for row in found if row.name == names.METRIC]

    return read


def test_numbers_tensors_and_arrays_are_recorded_under_their_name(
    program: Stands, rows: Callable[[], list[Row]]
) -> None:
    for value in (1.5, 2, np.float32(3.0), np.array([4.0]), torch.tensor(5.0), True):
        stepscope.metric("loss", value)
    stepscope.metric("loss", torch.tensor([6.0], requires_grad=True), step=40)
    found = rows()
    assert [row.value for row in found] == [1.5, 2.0, 3.0, 4.0, 5.0, 1.0, 6.0]
    assert {row.text for row in found} == {"loss"}
    assert [row.arg for row in found] == [-1] * 6 + [40]
    assert program.woken == 1


def test_what_is_no_number_passes_and_infinity_is_one(rows: Callable[[], list[Row]]) -> None:
    for value in (math.nan, math.inf, -math.inf):
        stepscope.metric("loss", value)
    first, *others = (row.value for row in rows())
    assert math.isnan(first)
    assert others == [math.inf, -math.inf]


class Device:
    """A tensor that lies on a device, and counts who waits for it."""

    is_cpu = False
    waited = 0

    def item(self) -> float:
        Device.waited += 1
        return 7.0


def test_a_tensor_of_a_device_is_read_once_in_a_while(rows: Callable[[], list[Row]]) -> None:
    Device.waited = 0
    for _ in range(10):
        stepscope.metric("loss", Device())
        stepscope.metric("accuracy", Device())
    assert Device.waited == 2
    assert [row.text for row in rows()] == ["loss", "accuracy"]


def test_strange_names_are_made_plain_and_cut_and_are_bounded(
    rows: Callable[[], list[Row]],
) -> None:
    strange: list[Any] = ["a\tb\nc", "x" * 5000, 17, None, "half \ud800 a pair"]
    for name in strange:
        stepscope.metric(name, 1.0)
    assert [row.text for row in rows()] == ["a b c", "x" * 100, "17", "None", "half   a pair"]
    for number in range(1000):
        stepscope.metric(f"metric {number}", 1.0)
    assert len(rows()) == module.MOST_NAMES - len(strange)
    stepscope.metric("17", 2.0)  # known before there were too many
    assert [row.value for row in rows()] == [2.0]


def test_a_value_that_is_none_never_raises_and_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = Stands(TwinCore())
    monkeypatch.setattr(programs, "_here", made)
    monkeypatch.setattr(module, "_names", None)
    broken: list[Any] = ["no number", None, torch.ones(3), object()]
    for value in broken:
        stepscope.metric("loss", value)
    stepscope.metric("loss", 1.0, step="no step")  # type: ignore[arg-type]
    assert made.recorder.failures["metric"] == len(broken) + 1


def test_a_program_that_nobody_profiles_loads_nothing_for_it() -> None:
    text = (
        "import sys, stepscope; stepscope.metric('loss', 1.0); stepscope.metric(None, object());"
        "print(sorted(m for m in sys.modules if m.startswith('stepscope')))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert "program" not in done.stdout
    assert "stepscope.session.metric" in done.stdout
