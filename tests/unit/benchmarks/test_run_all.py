"""How `make bench` finds the benchmarks and reads their last line."""

from __future__ import annotations

import pytest

from run_all import benchmarks, last_line, rows_of


def test_every_benchmark_is_found_and_nothing_else() -> None:
    found = {path.stem for path in benchmarks([])}
    assert {"gains", "ledger", "memory_overhead", "overhead", "spans"} <= found
    assert not {"gains_cases", "harness", "processes", "run_all", "turns"} & found


def test_only_the_named_ones_run() -> None:
    assert [path.stem for path in benchmarks(["spans"])] == ["spans"]


def test_the_last_line_is_the_result() -> None:
    output = 'a table\n{"name": "x", "figures": {}, "targets": [], "ok": true}\n'
    assert last_line(output)["name"] == "x"


@pytest.mark.parametrize("output", ["", "no JSON\n", "[1]\n", '{"name": "x"}\n'])
def test_anything_else_is_no_result(output: str) -> None:
    with pytest.raises(ValueError):
        last_line(output)


def test_a_row_says_what_was_missed_and_what_was_not_measured() -> None:
    targets = [
        {"name": "ns", "value": 250.0, "limit": 200.0, "ok": False},
        {"name": "times", "value": None, "limit": 5.0, "ok": False},
        {"name": "ms", "value": 3.0, "limit": 5.0, "ok": True},
    ]
    assert rows_of({"name": "x", "targets": targets}) == [
        ("x: ns", "250", "200", "MISSED"),
        ("x: times", "not measured", "5", "MISSED"),
        ("x: ms", "3", "5", "ok"),
    ]
