from __future__ import annotations

import pytest

from stepscope.analyze.recent_lines import grown_line, standing_line
from stepscope.model.details import HotLine, PhaseStacks
from stepscope.model.finding import Location

A, B = Location("train.py", 10, "work"), Location("train.py", 20, "log")
NOBODY = Location(file="")


def phase(name: str, ms: float, **shares: float) -> PhaseStacks:
    lines = {"a": A, "b": B, "nobody": NOBODY}
    hot = tuple(HotLine(lines[key], share, share, None, 1) for key, share in shares.items())
    return PhaseStacks(phase=name, where="main", ms=ms, samples=1, lines=hot, flame=None)


def test_a_program_stands_where_most_of_its_last_time_went() -> None:
    stacks = [phase("forward", 100, a=1.0), phase("python between", 900, b=0.8, nobody=0.2)]
    found = standing_line(stacks)
    assert found is not None
    assert found[:2] == (B, "python between")
    assert found[2] == pytest.approx(0.72)


def test_nothing_is_named_where_no_line_of_the_users_was_seen() -> None:
    assert standing_line([]) is None
    assert standing_line([phase("forward", 100, nobody=1.0)]) is None


def test_the_line_that_takes_longer_for_each_step_is_named_not_the_dearest() -> None:
    before = [phase("forward", 100, a=0.9, b=0.1)]
    # A step is twice as long: `a` takes what it took, `b` all that came on top.
    after = [phase("forward", 200, a=0.45, b=0.55)]
    found = grown_line(before, after, "forward", 2.0)
    assert found is not None
    assert found.location == B
    assert (found.before, found.after) == (0.1, 0.55)
    assert found.share == pytest.approx(1.0)


def test_other_phases_do_not_count() -> None:
    before = [phase("forward", 50, a=1.0), phase("optimizer", 50, b=1.0)]
    after = [phase("forward", 60, a=1.0), phase("optimizer", 940, b=1.0)]
    assert grown_line(before, after, "forward", 1.0) is None
    assert grown_line([], [], "forward", 2.0) is None
