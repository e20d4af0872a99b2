"""Real tensors through the native core: whose bytes grow while somebody looks."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from stepscope.collect import capture_memory
from stepscope.collect.capture_memory import GrowingLines
from stepscope.model import names
from stepscope.record.recorder import Recorder
from tests.contract.conftest import native_core

KIB = 1024


class Telling(Recorder):
    """The native core, which sees the tensors, and what is told to it as it is told."""

    def __init__(self) -> None:
        core: Any = native_core()
        super().__init__(core)
        self.told: list[dict[str, Any]] = []
        self._texts: list[str] = []
        self.intern = self._intern
        self.mark = self._mark

    def _intern(self, text: str, /) -> int:
        self._texts.append(text)
        return len(self._texts)

    def _mark(self, name: int, arg: int = 0, text: int = 0, /) -> None:
        assert self._texts[name - 1] == names.CAPTURE_MEMORY
        self.told.append(json.loads(self._texts[text - 1]) | {"number": arg})

    def of(self, function: str) -> dict[str, Any]:
        """What was told last about a function of ours."""
        return [one for one in self.told if one["stack"][0][2] == function][-1]


@pytest.fixture
def recorder() -> Telling:
    made = Telling()
    if not made.core.TensorHeap:
        pytest.skip("this core does not know the frames of this Python")
    return made


def keep(kept: list[torch.Tensor]) -> None:
    kept.append(torch.zeros(KIB, dtype=torch.uint8))


def replace(kept: list[torch.Tensor]) -> None:
    kept[:] = [torch.zeros(8 * KIB, dtype=torch.uint8)]


def test_the_line_that_keeps_more_with_every_step_is_told(
    recorder: Telling,
) -> None:
    lines, kept, replaced = GrowingLines(), list[torch.Tensor](), list[torch.Tensor]()
    keep(kept)  # before anybody looked: not seen
    lines.begin(recorder, steps=5)
    lines.after_step()
    for _ in range(5):
        keep(kept)
        replace(replaced)
        lines.after_step()
    lines.end(recorder, 1)
    mine, other = recorder.of("keep"), recorder.of("replace")
    assert mine["bytes"] == [0, KIB, 2 * KIB, 3 * KIB, 4 * KIB, 5 * KIB]
    assert (mine["blocks"], mine["every"]) == (5, 1)
    assert mine["stack"][0][:2] == [__file__, keep.__code__.co_firstlineno + 1]
    assert other["bytes"] == [0, *[8 * KIB] * 5], "it is for the reader to see that it is steady"


def test_a_second_look_knows_the_lines_of_the_first(recorder: Telling) -> None:
    lines, kept = GrowingLines(), list[torch.Tensor]()
    for number in (1, 2):
        lines.begin(recorder, steps=2)
        for _ in range(3):
            lines.after_step()
            keep(kept)
        lines.after_step()
        lines.end(recorder, number)
        mine = recorder.of("keep")
        assert (mine["number"], mine["bytes"][-1]) == (number, 3 * KIB)


def test_of_many_steps_a_part_is_looked_at(
    recorder: Telling, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_memory, "MOST_ENDS", 5)
    lines, kept = GrowingLines(), list[torch.Tensor]()
    lines.begin(recorder, steps=20)
    for _ in range(20):
        lines.after_step()
        keep(kept)
    lines.end(recorder, 1)
    mine = recorder.of("keep")
    assert mine["every"] == 4
    assert mine["bytes"] == [0, 4 * KIB, 8 * KIB, 12 * KIB, 16 * KIB]


def test_without_two_step_ends_there_is_nothing_to_tell(recorder: Telling) -> None:
    lines = GrowingLines()
    lines.begin(recorder, steps=3)
    lines.after_step()
    lines.end(recorder, 1)
    lines.end(recorder, 1)
    assert recorder.told == []
