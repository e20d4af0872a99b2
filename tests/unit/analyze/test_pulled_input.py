"""Batches from a generator or another plain iterable are input."""

from __future__ import annotations

import pytest

from stepscope.advise.catalogue import advise
from stepscope.analyze.findings import findings
from stepscope.analyze.resources import Resources
from stepscope.model.details import Details, FlameNode
from stepscope.model.finding import Finding, Location
from stepscope.model.phases import Phase
from tests.unit.analyze.made import backward, forward, loop, optimizer
from tests.unit.analyze.made_evidence import line, node, stacks, trained

TRAINER = "/usr/lib/python3.11/site-packages/trainer/loop.py"
TORCH = "/usr/lib/python3.11/site-packages/torch/nn/modules/module.py"
GIVES = node("batches.<generator>", "data.py", 800.0)


def without_loader(steps: int = 50) -> object:
    """100 ms between the phases, 100 ms of computation."""
    events, at = [], 0.0
    for _ in range(steps):
        at += 100.0
        events += [forward(at, at + 40), backward(at + 40, at + 95), optimizer(at + 95, at + 100)]
        at += 100.0
    return loop(events)


def found(between: FlameNode, one: object | None = None) -> dict[str, Finding]:
    model = node("forward", "", 1000.0, node("fit", TRAINER, 1000.0, node("call", TORCH, 1000.0)))
    seen = (
        stacks(Phase.FORWARD, line("train.py", 3, "main", 1.0), flame=model),
        stacks(Phase.PYTHON_BETWEEN, line("data.py", 1, "batches", 1.0), flame=between),
    )
    made = findings([one or without_loader()], Resources(), Details(stacks=seen))  # type: ignore[list-item]
    return {finding.kind: finding for finding in advise(made)}


def within_fit(*children: FlameNode) -> FlameNode:
    return node("python between", "", 1000.0, node("fit", TRAINER, 1000.0, *children))


@pytest.mark.parametrize("name", ["batches.<generator>", "Batches.__next__", "Data.__getitem__"])
def test_what_the_function_that_calls_the_model_takes_its_batches_from_is_input(name: str) -> None:
    kinds = found(within_fit(node(name, "data.py", 800.0)))
    one = kinds["input-cpu"]
    # 80 % of the samples between the phases, which are half of the loop but for its first gap.
    assert one.share == pytest.approx(0.4, abs=0.01)
    assert one.location == Location("data.py", 1, name.removesuffix(".<generator>"))
    assert one.recommendation is not None
    assert "DataLoader" in one.recommendation.action
    assert kinds["python-in-loop"].share == pytest.approx(0.1, abs=0.01)
    assert sum(finding.share for finding in kinds.values()) <= 1.0


@pytest.mark.parametrize(
    "between",
    [
        within_fit(node("metrics", "train.py", 900.0, GIVES)),
        within_fit(node("Module.named_parameters.<generator>", TORCH, 800.0)),
        node("python between", "", 1000.0, node("evaluate", "train.py", 1000.0, GIVES)),
    ],
    ids=["of another function", "torch's own", "away from the model"],
)
def test_other_generators_are_python_in_the_loop(between: FlameNode) -> None:
    kinds = found(between)
    assert "input-cpu" not in kinds
    assert kinds["python-in-loop"].share == pytest.approx(0.5, abs=0.01)


def test_with_a_data_loader_its_spans_say_what_is_input() -> None:
    assert "input-cpu" not in found(within_fit(GIVES), trained(gap=100.0))
