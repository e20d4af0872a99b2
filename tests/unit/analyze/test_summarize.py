from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import stepscope
from stepscope.analyze.overhead import OwnCost
from stepscope.errors import FormatError
from stepscope.model.summary import Summary
from tests.unit.analyze.made import MS, backward, forward, loop, next_, optimizer
from tests.unit.analyze.test_findings import steps, trained
from tests.unit.report.made_summary import COST, input_bound, summary_of

SCHEMA = json.loads(
    (Path(stepscope.__file__).parent / "store" / "summary.schema.json").read_text("utf-8")
)
WITHOUT_A_LOOP = summary_of(cost=OwnCost(), events=0)


@pytest.mark.parametrize(
    "summary",
    [
        input_bound(),
        WITHOUT_A_LOOP,
        summary_of(trained(0, 50, 1.0), replace(trained(0, 50, 2.0), rank=1)),
        summary_of(
            trained(0, 1, 1.0), cost=replace(COST, failures={"gc: no": 3}, dropped=4, lost=5)
        ),
    ],
)
def test_every_summary_fits_the_published_schema_and_comes_back(summary: Summary) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    saved = json.loads(json.dumps(summary.to_dict(), allow_nan=False))
    jsonschema.validate(saved, SCHEMA)
    again = Summary.from_dict(saved)
    assert json.loads(json.dumps(again.to_dict())) == saved


def test_the_summary_says_what_the_loop_did() -> None:
    summary = input_bound()
    assert summary.steps.count == 50
    assert summary.steps.median_ms == pytest.approx(400.0)
    assert summary.steps.found_by == "optimizer"
    assert summary.wall_ms == pytest.approx(20_005.0)
    assert sum(part.ms for part in summary.breakdown) == pytest.approx(summary.wall_ms)
    assert sum(part.share for part in summary.breakdown) == pytest.approx(1.0)
    assert summary.steps.per_second == pytest.approx(50 / 20.005)
    assert summary.startup_ms == pytest.approx(5.0)
    assert summary.verdict == replace(
        summary.findings[0], title="Input-bound: computing samples takes 75 % of the loop"
    )
    assert summary.overhead["hooks_ms"] == pytest.approx(0.85)
    assert summary.memory["text"] == "the program held up to 1.2 GB of 16.0 GB"


def test_computation_has_no_speedup_from_leaving_it_out() -> None:
    saved = summary_of(trained(0, 50, 1.0)).to_dict()
    assert saved["verdict"]["kind"] == "compute"
    assert saved["verdict"]["max_speedup"] is None


def test_without_a_loop_there_is_no_verdict_and_coverage_says_why() -> None:
    assert WITHOUT_A_LOOP.verdict is None
    assert WITHOUT_A_LOOP.to_dict()["verdict"] is None
    assert WITHOUT_A_LOOP.coverage["notes"][0].startswith("The program recorded nothing")
    seen = summary_of(events=100)
    assert seen.coverage["notes"][0].startswith("No training or inference loop was seen")


def test_losses_and_failures_are_told_in_words() -> None:
    cost = replace(COST, failures={"forward: ValueError: no": 3}, dropped=4, lost=1)
    notes = summary_of(trained(0, 50, 1.0), cost=cost).coverage["notes"]
    assert notes[:2] == [
        "4 events came faster than they could be kept.",
        "1 event could not be written to disk.",
    ]
    assert notes[2].endswith("most often (3): forward: ValueError: no")


def test_a_first_step_that_weighs_heavily_is_told() -> None:
    slow = [next_(10, 20), forward(20, 5000), backward(5000, 5010), optimizer(5010, 5020)]
    later = [event | {"time_ns": int(event["time_ns"]) + 5010 * MS} for event in steps(20, 1.0)]
    (note,) = summary_of(loop([*slow, *later])).coverage["notes"]
    assert note.startswith("The first step of rank 0 took 5.01 s, others 101 ms: warm-up")


@pytest.mark.parametrize("harm", ["run", "steps", "findings", "breakdown"])
def test_a_summary_that_is_not_whole_is_refused(harm: str) -> None:
    saved = input_bound().to_dict()
    del saved[harm]
    with pytest.raises(FormatError):
        Summary.from_dict(saved)
    with pytest.raises(FormatError):
        Summary.from_dict(input_bound().to_dict() | {harm: 3})


def test_a_finding_of_an_unknown_kind_is_refused() -> None:
    saved = input_bound().to_dict()
    saved["findings"][0]["kind"] = "made-up"
    with pytest.raises(FormatError, match="made-up"):
        Summary.from_dict(saved)
