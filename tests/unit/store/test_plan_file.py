from __future__ import annotations

import json
from pathlib import Path

import pytest

from stepscope.errors import FormatError, UsageError
from stepscope.model.checkpoint_plan import (
    CHEAP,
    CheckpointPlan,
    Segment,
)
from stepscope.store.plan_file import (
    PLAN_FILE,
    read_plan,
    read_plan_report,
    write_plan,
    write_plan_report,
)
from tests.unit.report.made_checkpointing import made_plan

PLAN = CheckpointPlan((Segment("blocks.0"), Segment("tail", CHEAP, 2, 4)), 1 << 30)
REPORT = made_plan()


def test_a_plan_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_plan(tmp_path / "plan.json", PLAN)

    assert read_plan(tmp_path / "plan.json") == PLAN


def test_a_report_comes_back_and_holds_its_plan(tmp_path: Path) -> None:
    write_plan_report(tmp_path, REPORT)

    assert read_plan_report(tmp_path) == REPORT
    assert read_plan(tmp_path / PLAN_FILE) == REPORT.plan


def test_a_run_without_a_plan_has_none(tmp_path: Path) -> None:
    assert read_plan_report(tmp_path) is None


def test_a_plan_can_be_written_by_hand_as_toml(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        '[[segments]]\nmodule = "blocks.0"\n[[segments]]\nmodule = "b"\nfirst=1\nlast=2'
    )

    assert read_plan(path).segments == (Segment("blocks.0"), Segment("b", first=1, last=2))


def test_a_plan_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no plan at"):
        read_plan(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[1, 2]", "not the JSON"),
        ('{"segments": 3}', "should be a list"),
        ('{"segments": [{"module": 3}]}', "should be text"),
        (
            '{"segments": [{"module": "a", "recompute": "os.system"}]}',
            "should be one of all, cheap",
        ),
        ('{"segments": [{"module": "a", "first": 1}]}', "both first and last"),
        ('{"segments": [{"module": "a", "first": 3, "last": 1}]}', "ends before it begins"),
        ('{"segments": [{"module": "a"}, {"module": "a"}]}', "in it twice"),
        (
            '{"segments": [{"module":"a","first":0,"last":2}, {"module":"a","first":2,"last":3}]}',
            "overlap",
        ),
        ('{"schema": 99, "segments": []}', "newer stepscope"),
        ("{" * 2000, "not the JSON"),
    ],
)
def test_a_foreign_or_damaged_plan_says_what_is_wrong(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)

    with pytest.raises(FormatError, match=why):
        read_plan(path)


def test_damaged_toml_is_told(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text("[[segments")

    with pytest.raises(FormatError, match="no TOML"):
        read_plan(path)


@pytest.mark.parametrize("wrong", [-1, 1 << 70])
def test_numbers_that_cannot_be_are_refused(tmp_path: Path, wrong: int) -> None:
    write_plan_report(tmp_path, REPORT)
    path = tmp_path / PLAN_FILE
    plain = json.loads(path.read_text())
    plain["curve"][0]["peak_bytes"] = wrong
    path.write_text(json.dumps(plain))

    with pytest.raises(FormatError, match="peak_bytes is outside of"):
        read_plan_report(tmp_path)
