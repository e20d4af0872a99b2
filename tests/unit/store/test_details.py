from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stepscope.errors import FormatError
from stepscope.model.details import Details, FlameNode, PhaseStacks
from stepscope.model.memory import Memory
from stepscope.store.details import read_details, write_details
from tests.unit.report.made_checkpointing import made_checkpointing, made_plan
from tests.unit.report.made_details import made_details
from tests.unit.report.made_memory import made_memory

BUCKET = {"start_ms": 0.0, "first_step": 0, "steps": 1, "ms": [1.0]}
TIMELINE = {"rank": 0, "wall_ms": 1.0, "phases": ["forward"], "buckets": [BUCKET], "points": []}
POINT = {"at_ms": 0.0, "step": 1, "bytes": [0] * 7}
PEAK = {"bytes": 5}
PART = {"category": "other", "bytes": 5, "blocks": 1}
HEADROOM = {"limit_bytes": 9, "limit": "host", "used_bytes": 5, "steps": [1.0]}
LAYER = {"layer": "a", "location": {}, "calls": 1.0, "recompute_ms": 1.0}
SCHEMA = Path(__file__).parents[3] / "src" / "stepscope" / "store" / "details.schema.json"


def with_plan() -> Details:
    return replace(made_details(), checkpointing=made_checkpointing(plan=made_plan()))


def memory(**device: Any) -> dict[str, Any]:
    """Memory of one device, as details.json has it."""
    return {"memory": {"source": "run", "devices": [{"device": "cpu", "peak": PEAK} | device]}}


def checkpointing(**change: Any) -> dict[str, Any]:
    """As details.json has it."""
    return {"checkpointing": {"recompute_ms": 1.0, "share": 0.1, "steps": 5} | change}


def test_details_come_back_as_they_were(tmp_path: Path) -> None:
    details = with_plan()
    write_details(tmp_path, details)
    assert read_details(tmp_path) == details


def test_the_schema_knows_every_field_of_memory() -> None:
    """The example has something in each, so that the file below shows them all."""
    made = made_memory()
    empty = [name for name in Memory.__dataclass_fields__ if not getattr(made, name)]
    assert empty == []


@pytest.mark.parametrize("details", [with_plan(), Details()])
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
        ({"stacks": {}}, "details.stacks should be a list, and is an object"),
        ({"layer_steps": True}, "details.layer_steps should be a whole number, and is True"),
        ({"ops": [{"name": "mm"}]}, "details.ops[0] has no calls"),
        ({"pipeline": {"workers": 1, "batches": 2, "tail_share": "x"}}, "pipeline.tail_share"),
        ({"timeline": {"rank": 0, "wall_ms": float("nan")}}, "NaN is not a number"),
        ({"timeline": {"rank": 0, "wall_ms": 10**400}}, "a number has 401 digits"),
        ({"timeline": TIMELINE | {"phases": ["forward"] * 3}}, "other phases than its own"),
        (
            {"timeline": TIMELINE | {"buckets": [BUCKET] * 501}},
            "timeline.buckets has a length outside of 0 to 500",
        ),
        ({"memory": {}}, "details.memory has no source"),
        (memory(peak={}), "devices[0].peak has no bytes"),
        (memory(points=[POINT] * 2001), "points has a length outside of 0 to 2000"),
        (memory(steps=[[1, 2, 3]] * 20_001), "steps has a length outside of 0 to 20000"),
        (memory(steps=[[1, 2]]), "steps[0] should have 3 parts, and has 2"),
        (memory(points=[POINT | {"bytes": [1] * 6}]), "bytes has a length outside of 7 to 7"),
        (memory(points=[POINT | {"bytes": [-1] * 7}]), "bytes[0] is outside of 0 to 1e+18"),
        (memory(points=[POINT | {"bytes": [1.5] * 7}]), "should be a whole number"),
        (memory(peak=PEAK | {"parts": [PART | {"category": "love"}]}), "category is 'love'"),
        (memory(points=[POINT | {"at_ms": 1e30}]), "at_ms is outside of 0 to 1e+18"),
        (memory(peak={"bytes": 10**30}), "peak.bytes is outside of 0 to 1e+18"),
        (memory(peak=PEAK | {"parts": [PART | {"bytes": -5}]}), "parts[0].bytes is outside of 0"),
        ({"memory": {"source": "run", "headroom": HEADROOM}}, "steps should have 3 parts"),
        (checkpointing(layers=[LAYER] * 2002), "layers has a length outside of 0 to 2001"),
        (checkpointing(recompute_ms=-1.0), "recompute_ms is outside of 0"),
        (checkpointing(left_bytes=1e30), "left_bytes is outside of"),
        (checkpointing(layers=[LAYER | {"saved_bytes": -1.0}]), "saved_bytes is outside of 0"),
        (checkpointing(plan={}), "details.checkpointing.plan has no plan"),
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
