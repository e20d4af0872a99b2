from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stepscope.errors import FormatError
from stepscope.store.live import (
    live_from_dict,
    live_to_dict,
    read_live,
    write_live,
)
from tests.unit.report.made_live import made_alert, made_finding, made_view


def test_a_view_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_live(tmp_path) is None
    write_live(tmp_path, made_view())
    assert read_live(tmp_path) == made_view()
    assert [path.name for path in tmp_path.iterdir()] == ["live.json"]


def test_alerts_stand_in_it_as_everywhere_else() -> None:
    plain = live_to_dict(made_view())
    assert plain["alerts"][0] == made_alert(1).to_dict()
    assert plain["verdict"]["kind"] == "input-cpu"


def test_a_loss_that_is_no_number_makes_a_file_that_every_json_reader_takes() -> None:
    finding = replace(made_finding("loss-not-finite"), measures={"loss": math.nan, "steps": 3.0})
    alert = made_alert(1, value=math.nan, limit=math.inf, finding=finding)
    text = json.dumps(live_to_dict(made_view(alerts=(alert,))), allow_nan=False)
    (read,) = live_from_dict(json.loads(text)).alerts
    assert read.value is None
    assert read.limit is None
    assert read.finding.measures == {"steps": 3.0}


def test_a_loss_that_runs_away_is_shown_as_large_as_can_be() -> None:
    alert = made_alert(1, value=3e20, limit=-3e20)
    told = made_view().told[0]._replace(value=3e20)
    view = made_view(alerts=(alert,), told=(told,))
    read = live_from_dict(json.loads(json.dumps(live_to_dict(view))))
    assert read.alerts[0].value == -(read.alerts[0].limit or 0.0) == 1e18
    assert read.told[0].value == 1e18


def _changed(path: str, value: Any) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(live_to_dict(made_view())))
    at: Any = plain
    *before, last = (int(part) if part.isdigit() else part for part in path.split("."))
    for part in before:
        at = at[part]
    at[last] = value
    return plain


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("schema", 99, "another stepscope"),
        ("schema", None, "another stepscope"),
        ("state", "dancing", "live.state should be one of"),
        ("state", 3, "live.state should be text"),
        ("steps", "many", "live.steps should be a whole number"),
        ("steps", 10**30, "live.steps is outside of"),
        ("elapsed_s", 1e30, "live.elapsed_s is outside of"),
        ("elapsed_s", math.nan, "live.elapsed_s is no finite number"),
        ("run", ["x"], "live.run should be text"),
        ("phases", {"a": 1}, "live.phases should be a list"),
        ("history.0.points", [1.0] * 5000, "more than 1,000 parts"),
        ("history.0.points.3", "x", "live.history[0].points[3] should be a number"),
        ("used.gpus.0.index", None, "live.used.gpus[0].index should be a whole number"),
        ("alerts.0.finding.title", 7, "live.alerts[0].finding.title should be text"),
        ("alerts.0.finding.kind", "voodoo", "finding.kind is 'voodoo', and should be one of"),
        ("alerts.0.state", "gone", "live.alerts[0].state should be one of firing, resolved"),
        ("alerts.0.ranks", ["x"], "live.alerts[0].ranks[0] should be a whole number"),
        ("verdict.recommendation.expected_speedup", [1.0], "expected_speedup should have 2 parts"),
        ("verdict.location", 4, "live.verdict.location should be an object"),
    ],
)
def test_what_is_no_view_is_refused_with_a_sentence(path: str, value: Any, said: str) -> None:
    with pytest.raises(FormatError) as refused:
        live_from_dict(_changed(path, value))
    assert said in str(refused.value)


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000, '{"schema": 1}', "\0\0"])
def test_a_file_that_is_something_else_is_refused_with_its_name(
    tmp_path: Path, content: str
) -> None:
    (tmp_path / "live.json").write_text(content)
    with pytest.raises(FormatError, match=r"live\.json"):
        read_live(tmp_path)
