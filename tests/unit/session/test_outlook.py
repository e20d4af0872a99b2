from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.model import names
from stepscope.model.watching import Reading
from stepscope.session.feeding import HearsOfEnds
from stepscope.session.outlook import MemoryAhead, OutlookSource, expected_steps, stretches_s
from stepscope.store.rundir import write_meta
from tests.unit.analyze.made import loop, span


def past(runs: Path, name: str, steps: int, exit_code: int = 0, command: str = "train.py") -> None:
    folder = runs / name
    folder.mkdir(parents=True)
    write_meta(folder, {"name": name, "command": [command], "exit_code": exit_code})
    (folder / "summary.json").write_text(json.dumps({"schema": 1, "steps": {"count": steps}}))


def test_as_many_steps_are_expected_as_earlier_runs_of_the_command_made(tmp_path: Path) -> None:
    past(tmp_path, "a", 100)
    past(tmp_path, "b", 120)
    past(tmp_path, "c", 110)
    past(tmp_path, "killed", 7, exit_code=-9)
    past(tmp_path, "other", 9, command="eval.py")
    assert expected_steps(tmp_path, "train.py") == 110
    assert expected_steps(tmp_path, "new.py") is None
    assert expected_steps(tmp_path / "nothing", "train.py") is None


def test_the_end_is_told_from_them_and_from_what_steps_take_now(tmp_path: Path) -> None:
    past(tmp_path, "a", 40)
    events = [
        span(name, at * 10 + offset, at * 10 + offset + 3, arg=1)
        for at in range(20)
        for name, offset in ((names.FORWARD, 0), (names.BACKWARD, 3), (names.OPTIMIZER_STEP, 6))
    ]
    found = loop(events)
    assert stretches_s(found) == pytest.approx([0.01] * len(stretches_s(found)), rel=0.25)
    outlook = OutlookSource(lambda: [found], tmp_path, "train.py")()
    assert outlook.ends is not None
    assert outlook.ends.seconds == pytest.approx(0.2, rel=0.15)  # 20 steps of 10 ms are left
    assert outlook.memory_full is None
    assert OutlookSource(lambda: [found], tmp_path, "new.py")().ends is None
    assert OutlookSource(list, tmp_path, "train.py")().ends is None


def test_memory_that_grows_is_full_when_a_line_through_it_says_so() -> None:
    memory = MemoryAhead()
    memory.reading(Reading(0, "memory_limit_bytes", 700.0))
    for second in range(200):
        memory.reading(Reading(second * 10**9, "memory_bytes", 100.0 + 2.0 * second))
        memory.reading(Reading(second * 10**9, "memory_bytes", 1.0, rank=1))  # another rank's
    left = memory.until_full()
    assert left is not None
    assert left.seconds == pytest.approx(100, rel=0.1)
    assert memory.limit_bytes == 700.0


def test_memory_that_stays_is_never_full() -> None:
    memory = MemoryAhead()
    memory.reading(Reading(0, "memory_limit_bytes", 700.0))
    for second in range(200):
        memory.reading(Reading(second * 10**9, "memory_bytes", 100.0))
    assert memory.until_full() is None


def test_the_end_of_a_rank_is_not_told_to_who_only_looks_at_memory() -> None:
    assert not isinstance(MemoryAhead(), HearsOfEnds)
