"""The maths that the benchmarks share, by hand calculation."""

from __future__ import annotations

import json
import time

import pytest

from harness import (
    Result,
    at_least,
    at_most,
    interleaved,
    paired_ratios,
    rounded,
    summary,
    table,
    turn,
)


def test_a_summary_gives_the_median_and_a_spread_that_one_outlier_does_not_move() -> None:
    # GIVEN deviations from the median 3.0 of 2, 1, 0, 1 and 97, whose median is 1
    values = [1.0, 2.0, 3.0, 4.0, 100.0]

    # THEN
    assert summary(values) == {
        "median": 3.0,
        "spread": pytest.approx(1.4826),
        "low": 1.0,
        "high": 100.0,
        "rounds": 5,
    }


def test_ratios_are_taken_between_neighbours() -> None:
    assert paired_ratios([2.0, 9.0], [1.0, 3.0]) == [2.0, 3.0]


def test_ratios_want_as_many_references_as_values() -> None:
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        paired_ratios([2.0, 9.0], [1.0])


def test_the_order_rotates_and_every_second_round_runs_backwards() -> None:
    assert [turn("abc", number) for number in range(4)] == [
        ["a", "b", "c"],
        ["a", "c", "b"],
        ["c", "a", "b"],
        ["c", "b", "a"],
    ]


def test_a_round_of_nothing_is_empty() -> None:
    assert turn([], 3) == []


def test_targets_hold_at_their_limit() -> None:
    assert at_most("x", 1.01, 1.01).ok
    assert not at_most("x", 1.02, 1.01).ok
    assert at_least("x", 5.0, 5.0).ok
    assert not at_least("x", 4.9, 5.0).ok


def test_what_was_not_measured_is_not_ok() -> None:
    assert not at_most("x", None, 1.0).ok
    assert not at_least("x", None, 1.0).ok


def test_floats_are_cut_to_five_digits_wherever_they_are() -> None:
    assert rounded({"a": [1.23456789, (123456.7, 3)], "b": "text", "c": None}) == {
        "a": [1.2346, [123460.0, 3]],
        "b": "text",
        "c": None,
    }


def test_the_line_of_a_result_has_the_agreed_shape() -> None:
    # GIVEN one target that holds and one that does not
    result = Result("spans", {"ns": 150.0}, [at_most("ns", 150.0, 200.0), at_least("x", 2.0, 5.0)])

    # WHEN
    line = result.line()

    # THEN it is one line, and not ok
    assert "\n" not in line
    assert json.loads(line) == {
        "name": "spans",
        "figures": {"ns": 150.0},
        "targets": [
            {"name": "ns", "value": 150.0, "limit": 200.0, "ok": True},
            {"name": "x", "value": 2.0, "limit": 5.0, "ok": False},
        ],
        "ok": False,
    }


def test_a_result_without_targets_is_ok() -> None:
    assert Result("x", {}).ok


def test_subjects_are_measured_in_turns_after_one_round_that_does_not_count() -> None:
    # GIVEN
    ran: list[str] = []
    subjects = {name: lambda name=name: ran.append(name) for name in ("a", "b")}

    # WHEN
    taken = interleaved(subjects, 2, lambda: ran.append("-"))

    # THEN two rounds were kept of three, and the clean-up ran after each block
    assert {name: len(values) for name, values in taken.items()} == {"a": 2, "b": 2}
    assert sorted(ran) == ["-"] * 6 + ["a"] * 3 + ["b"] * 3
    assert ran[1::2] == ["-"] * 6


def test_the_clean_up_is_not_part_of_the_measured_time() -> None:
    taken = interleaved({"nothing": lambda: None}, 1, lambda: time.sleep(0.05))
    assert taken["nothing"][0] < 40_000_000


def test_a_table_aligns_its_columns() -> None:
    text = table(("", "ns"), [("span", "9"), ("lock", "120")])
    assert text.splitlines() == ["       ns", "span    9", "lock  120"]
