"""Which function of a package lies below a line of the user's."""

from __future__ import annotations

import pytest

from stepscope.advise.catalogue import advise
from stepscope.analyze.findings import findings
from stepscope.analyze.library_code import below
from stepscope.analyze.resources import Resources
from stepscope.model.details import Details, FlameNode
from stepscope.model.finding import Location
from tests.unit.analyze.made_evidence import line, node, stacks, trained

USER = Location("train.py", 3, "main")
TRAINER = "/usr/lib/python3.11/site-packages/trainer/loop.py"
LOSSES = "/usr/lib/python3.11/site-packages/losses/triplet.py"
TORCH = "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py"
STANDARD = "/usr/lib/python3.11/random.py"


def program(*below_fit: FlameNode) -> FlameNode:
    """100 ms in main(), all of it in Trainer.fit."""
    fit = node("Trainer.fit", TRAINER, 100.0, *below_fit)
    return node("forward", "", 100.0, node("main", "train.py", 100.0, fit))


def test_it_is_the_innermost_function_that_takes_most_of_the_time() -> None:
    drawn = node("Random.choice", STANDARD, 70.0)
    loss = node("_call_impl", TORCH, 80.0, node("TripletLoss.forward", LOSSES, 75.0, drawn))
    rest = node("Trainer.log", TRAINER, 20.0)
    found = below([program(loss, rest)], USER)
    assert found == (Location(LOSSES, 1, "TripletLoss.forward"), 0.75)


def test_where_the_time_is_spread_it_is_what_the_parts_have_in_common() -> None:
    parts = [node(f"Step{number}.apply", LOSSES, 25.0) for number in range(4)]
    found = below([program(*parts)], USER)
    assert found == (Location(TRAINER, 1, "Trainer.fit"), 1.0)


@pytest.mark.parametrize("child", [node("f", TORCH, 100.0), node("f", STANDARD, 100.0)])
def test_torch_and_the_standard_library_are_no_library_of_the_users(child: FlameNode) -> None:
    flame = node("forward", "", 100.0, node("main", "train.py", 100.0, child))
    assert below([flame], USER) is None


def test_what_a_library_calls_back_is_the_users_own() -> None:
    own = node("Model.forward", "model.py", 100.0, node("mix", LOSSES, 90.0))
    found = below([program(own)], USER)
    assert found == (Location(TRAINER, 1, "Trainer.fit"), 1.0)


def test_a_finding_names_both_and_its_advice_is_about_the_library() -> None:
    flame = program(node("Collector.collect_rollouts", LOSSES, 90.0))
    seen = stacks("python between", line("train.py", 3, "main", 1.0), flame=flame)
    made = advise(findings([trained(gap=50.0)], Resources(), Details(stacks=(seen,))))
    one = next(finding for finding in made if finding.kind == "python-in-loop")
    assert (one.location.file, one.library.file) == ("train.py", LOSSES)
    assert any("90 %" in said and "losses" in said for said in one.evidence)
    assert one.recommendation is not None
    assert "Collector.collect_rollouts" in one.recommendation.action
    assert "main (train.py:3)" in one.recommendation.action


@pytest.mark.parametrize(
    ("function", "is_environment"),
    [
        ("Envs.step", True),
        ("SyncVectorEnv.step_wait", True),
        ("CartPoleEnv.reset", True),
        ("EnvWrapper.step", True),
        ("Optimizer.step", False),
        ("Envelope.step", False),
    ],
)
def test_steps_of_environments_are_named_as_such(function: str, is_environment: bool) -> None:
    flame = node("python between", "", 1000.0, node(function, "train.py", 1000.0))
    seen = stacks("python between", line("train.py", 3, function, 1.0), flame=flame)
    made = advise(findings([trained(gap=50.0)], Resources(), Details(stacks=(seen,))))
    one = next(finding for finding in made if finding.kind == "python-in-loop")
    assert one.recommendation is not None
    assert ("environments" in one.recommendation.title) is is_environment
