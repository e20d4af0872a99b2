from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stepscope.errors import FormatError
from stepscope.model.details import Details, FlameNode, PhaseStacks
from stepscope.store.details import read_details, write_details
from tests.unit.report.made_details import made_details

BUCKET = {"start_ms": 0.0, "first_step": 0, "steps": 1, "ms": [1.0]}
TIMELINE = {"rank": 0, "wall_ms": 1.0, "phases": ["forward"], "buckets": [BUCKET], "points": []}
SCHEMA = Path(__file__).parents[3] / "src" / "stepscope" / "store" / "details.schema.json"


def test_details_come_back_as_they_were(tmp_path: Path) -> None:
    details = made_details()
    write_details(tmp_path, details)
    assert read_details(tmp_path) == details


@pytest.mark.parametrize("details", [made_details(), Details()])
def test_the_file_is_what_its_schema_says(details: Details, tmp_path: Path) -> None:
    write_details(tmp_path, details)
    document = json.loads((tmp_path / "details.json").read_text())
    jsonschema.validate(document, json.loads(SCHEMA.read_text()))


def test_a_run_without_details_has_none(tmp_path: Path) -> None:
    assert read_details(tmp_path) is None


def test_what_is_missing_takes_its_default_and_what_is_not_known_is_passed_over(
    tmp_path: Path,
) -> None:
    (tmp_path / "details.json").write_text('{"schema": 1, "from_the_future": [1]}')
    assert read_details(tmp_path) == Details()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema": "1"}, "says no schema number"),
        ({"schema": 2}, "newer stepscope"),
        ({"stacks": {}}, "details.stacks should be a list, and is {}"),
        ({"layer_steps": True}, "details.layer_steps should be a whole number, and is True"),
        ({"ops": [{"name": "mm"}]}, "details.ops[0] has no calls"),
        ({"pipeline": {"workers": 1, "batches": 2, "tail_share": "x"}}, "pipeline.tail_share"),
        ({"timeline": {"rank": 0, "wall_ms": float("nan")}}, "wall_ms is no finite number"),
        ({"timeline": {"rank": 0, "wall_ms": 10**400}}, "wall_ms is no finite number"),
        ({"timeline": TIMELINE | {"phases": ["forward"] * 3}}, "other phases than its own"),
        ({"timeline": TIMELINE | {"buckets": [BUCKET] * 501}}, "more than 500 buckets"),
    ],
)
def test_what_is_no_details_is_refused_in_words(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    write_details(tmp_path, Details())
    path = tmp_path / "details.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(FormatError, match=r"details\.json") as error:
        read_details(tmp_path)
    assert said in str(error.value)


def test_a_flame_without_end_is_refused(tmp_path: Path) -> None:
    flame = '{"name":"f","file":"","line":1,"ms":1,"children":['
    text = flame * 450 + "]}" * 450
    stacks = f'[{{"phase":"forward","where":"main","ms":1,"samples":1,"flame":{text}}}]'
    (tmp_path / "details.json").write_text(f'{{"schema":1,"stacks":{stacks}}}')
    with pytest.raises(FormatError, match="deep"):
        read_details(tmp_path)


def test_a_time_that_is_no_number_is_not_written(tmp_path: Path) -> None:
    stacks = PhaseStacks("forward", "main", 1.0, 1, flame=FlameNode("f", "a.py", 1, float("inf")))
    with pytest.raises(FormatError, match="inf cannot be stored"):
        write_details(tmp_path, Details(stacks=(stacks,)))
    assert not (tmp_path / "details.json").exists()
