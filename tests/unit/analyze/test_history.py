from __future__ import annotations

import pytest

from stepscope.analyze.history import command_label, series_of
from stepscope.model.comparison import metric
from stepscope.model.history import HistoryRun


def runs(*values: float) -> list[HistoryRun]:
    return [HistoryRun(f"run-{place}", float(place), value) for place, value in enumerate(values)]


def test_a_series_knows_where_its_level_changed() -> None:
    values = (10.0, 10.1, 9.9, 10.0, 12.0, 12.1, 11.9, 12.0)

    found = series_of("train.py", metric("step"), runs(*values))

    (change,) = found.changes
    assert (change.place, round(change.ratio, 2)) == (4, 1.2)
    assert found.levels[3] == pytest.approx(10.0, rel=1e-3)
    assert found.levels[4] == pytest.approx(12.0, rel=1e-3)
    assert found.to_dict()["changes"][0]["run"] == "run-4"


def test_few_runs_and_runs_of_nothing_are_a_series_all_the_same() -> None:
    assert series_of("x", metric("step"), runs(3.0)).levels == pytest.approx((3.0,))
    assert series_of("x", metric("memory"), runs(0.0, 2.0)).levels == (1.0, 1.0)


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("/usr/bin/python3.11 train.py --size 3", "train.py --size 3"),
        ("python -m package", "-m package"),
        ("torchrun train.py", "torchrun train.py"),
        ("python", "python"),
        ("", ""),
    ],
)
def test_commands_are_told_apart_without_their_interpreter(command: str, label: str) -> None:
    assert command_label(command) == label
