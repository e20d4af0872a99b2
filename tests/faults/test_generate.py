"""Generated programs are drawn, rendered and judged as documented."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults import accuracy
from tests.faults.generate.drawing import FAULTS, draw
from tests.faults.generate.judging import figures, judge
from tests.faults.generate.rendering import render

ROOT = Path(__file__).parents[2]
PLANS = [draw(5, index) for index in range(200)]


def test_a_program_depends_on_its_seed_and_number_alone() -> None:
    assert draw(3, 7) == draw(3, 7)
    assert draw(3, 7) != draw(4, 7)


def test_every_fault_is_drawn_and_a_quarter_of_the_programs_have_none() -> None:
    assert {fault.kind for plan in PLANS for fault in plan.faults} == set(FAULTS)
    assert 30 <= sum(not plan.faults for plan in PLANS) <= 70


def test_every_program_is_python_without_marks_and_knows_its_places() -> None:
    for plan in PLANS:
        program = render(plan)
        ast.parse(program.text)
        assert "#" not in program.text
        for place in program.places:
            assert place.anywhere or place.lines


def test_leaving_a_fault_out_changes_the_program() -> None:
    for plan in PLANS:
        for number in range(len(plan.faults)):
            assert render(plan, without=[number]).text != render(plan).text


def _record(
    truths: list[tuple[str, float]], findings: list[tuple[str, float]], step_ms: float = 50.0
) -> dict[str, Any]:
    return {
        "suite": "generated",
        "program": "1-2",
        "plan": {"shape": "plain", "step_ms": step_ms},
        "truths": [
            {"kind": kind, "share": share, "gain": 1 / (1 - share), "spread": 1.0,
             "lines": [10], "functions": ["Data.load"], "anywhere": False}
            for kind, share in truths
        ],
        "steps": 8,
        "summary": {
            "steps": {"count": 8},
            "findings": [
                {"kind": kind, "share": share, "max_speedup": 1 / (1 - share),
                 "location": {"file": "/x/train.py", "line": 11, "function": "load"},
                 "recommendation": {"expected_speedup": [1.0, 1.5]}}
                for kind, share in findings
            ],
        },
    }  # fmt: skip


def test_the_largest_fault_has_to_come_first() -> None:
    truths = [("input-cpu", 0.2), ("gc", 0.4)]
    assert judge(_record(truths, [("gc", 0.4), ("input-cpu", 0.2)]))["right"]
    wrong = judge(_record(truths, [("input-cpu", 0.2), ("gc", 0.4)]))
    assert wrong["why"] == "gc taken for input-cpu"


def test_share_place_and_promises_are_compared_with_the_real_gain() -> None:
    row = judge(_record([("input-cpu", 0.5)], [("input-cpu", 0.4)]))
    assert row["share_error_points"] == 10
    assert row["place_right"]
    assert not row["bound_holds"]  # 2 × against 1.1 · 1.67 ×
    assert not row["range_contains"]
    assert row["range_ratio"] == 1.5


@pytest.mark.parametrize(
    ("true", "said", "case", "right"),
    [
        (0.02, 0.3, "healthy", False),
        (0.02, 0.04, "healthy", True),  # below what is worth attention
        (0.05, 0.06, "borderline", True),
        (0.05, 0.01, "borderline", True),
        (0.2, 0.01, "clear", False),
    ],
)
def test_small_faults_are_healthy_or_borderline(
    true: float, said: float, case: str, right: bool
) -> None:
    row = judge(_record([("input-cpu", true)], [("input-cpu", said)]))
    assert (row["case"], row["right"]) == (case, right)


def test_figures_count_false_alarms_and_leave_out_what_nobody_measured() -> None:
    found = figures([judge(_record([], [("gil", 0.3)])), judge(_record([], [("compute", 0.9)]))])
    assert found["false_alarms"] == 1
    assert found["kind"] is None


def test_the_page_lists_what_is_wrong() -> None:
    public = {"suite": "public", "program": "nanoGPT", "expected": "compute", "got": "gc 2%",
              "right": False, "why": "not the main cost"}  # fmt: skip
    text = accuracy.page([judge(_record([], [("gil", 0.3)])), public])
    assert "| 1-2 | healthy | gil 30% | false alarm: gil |" in text
    assert "Right verdict: 0 of 1 programs." in text


@pytest.mark.slow
@pytest.mark.extended
def test_a_generated_program_is_measured_judged_and_kept(tmp_path: Path) -> None:
    # WHEN the program with a slow function in its loop runs, and again with its result kept
    number = next(
        plan.index
        for plan in PLANS
        if [fault.kind for fault in plan.faults] == ["python-in-loop"] and plan.shape == "plain"
    )
    command = [sys.executable, "-m", "tests.faults", "--generate", "1", "--seed", "5", "--json"]
    command += ["--only", str(number), "--keep", str(tmp_path)]
    first, second = (
        subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        for _ in range(2)
    )

    # THEN it has one result, which is read the second time
    assert first.returncode == 0, first.stderr
    result = json.loads(first.stdout.splitlines()[-1])
    assert (result["name"], result["figures"]["programs"]) == ("generated", 1)
    assert second.stdout == first.stdout
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 1
