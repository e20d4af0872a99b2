"""Checkpoint plans as a change."""

from __future__ import annotations

from pathlib import Path

import torch

from stepscope.checkpointing.manager import CheckpointManager
from stepscope.collect.checkpoints import door
from stepscope.tune.changes.plan import Plan
from tests.unit.tune.changes.host_support import installed, small_model, train


def plan(folder: Path, *names: str) -> str:
    path = folder / "plan.json"
    manager = CheckpointManager(small_model()).checkpoint(*names)
    manager.save_file(path)
    manager.close()
    return str(path)


def losses(change: Plan | None = None) -> list[float]:
    model = small_model()
    return train(model, torch.optim.SGD(model.parameters(), lr=0.1), change)


def test_the_plan_is_applied_before_the_model_runs_and_losses_stay(tmp_path: Path) -> None:
    expected = losses()
    with installed(Plan, path=plan(tmp_path, "0", "2")) as (change, heard):
        assert losses(change) == expected
        assert door().shut
    assert heard.whats == [f"the plan {tmp_path / 'plan.json'}"]
    assert heard.no == []
    assert not door().shut


def test_a_model_without_the_modules_is_told_after_the_first_step(tmp_path: Path) -> None:
    with installed(Plan, path=plan(tmp_path, "0")) as (change, heard):
        model = torch.nn.Linear(6, 3)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), change)
    assert heard.done == []
    assert len(heard.no) == 1


def test_a_file_that_is_not_there_is_told_and_the_program_goes_on(tmp_path: Path) -> None:
    with installed(Plan, path=str(tmp_path / "no.json")) as (change, heard):
        assert losses(change) == losses()
    assert len(heard.no) == 1
    assert "no.json" in heard.no[0]


def test_undo_puts_the_model_back(tmp_path: Path) -> None:
    model = small_model()
    forwards = [vars(one).get("forward") for one in model.modules()]
    with installed(Plan, path=plan(tmp_path, "0")) as (change, _):
        change.seen(model)
    assert [vars(one).get("forward") for one in model.modules()] == forwards
