"""Names, patterns and plans → modules; what does not fit is said in words that help."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from stepscope.checkpointing.choosing import bare, choose, find, modules_by_name
from stepscope.errors import UsageError
from stepscope.model.checkpoint_plan import CheckpointPlan, Segment
from tests.unit.checkpointing.models import Conv, Nested, SharedBlock, Transformer


def names(model: nn.Module, *patterns: str, every: int = 1) -> list[str]:
    return [one.segment.module for one in choose(model, patterns, every, "all")]


def test_a_name_is_that_module() -> None:
    model = Transformer()
    (chosen,) = choose(model, ("blocks.1",), 1, "cheap")
    assert chosen.module is model.blocks[1]
    assert chosen.segment == Segment("blocks.1", "cheap")


def test_a_star_does_not_reach_over_a_dot() -> None:
    assert names(Transformer(), "blocks.*") == ["blocks.0", "blocks.1", "blocks.2"]
    assert names(Nested(), "groups.*.1") == ["groups.0.1", "groups.1.1"]


def test_the_order_is_the_models_and_each_module_comes_once() -> None:
    found = names(Transformer(), "head", "blocks.2", "blocks.[01]", "blocks.*")
    assert found == ["blocks.0", "blocks.1", "blocks.2", "head"]


def test_every_second_starts_with_the_first() -> None:
    assert names(Transformer(5), "blocks.*", every=2) == ["blocks.0", "blocks.2", "blocks.4"]


def test_a_shared_module_is_found_by_each_of_its_names_and_taken_once() -> None:
    assert names(SharedBlock(), "two") == ["two"]
    assert names(SharedBlock(), "one", "two") == ["one"]


def test_the_model_itself_has_the_empty_name() -> None:
    assert names(Transformer(), "") == [""]
    assert "" not in names(Transformer(), "*d")


def test_a_pattern_that_matches_nothing_lists_near_names() -> None:
    with pytest.raises(UsageError, match=r"'block\.1'.*Near: .*blocks\.1"):
        names(Transformer(), "block.1")


@pytest.mark.parametrize("every", [0, -1, 1.5, True, "2"])
def test_every_is_a_whole_number(every: Any) -> None:
    with pytest.raises(UsageError, match="whole numbers from 1 on"):
        names(Transformer(), "blocks.*", every=every)


def test_without_a_name_there_is_nothing_to_do() -> None:
    with pytest.raises(UsageError, match="Say which modules"):
        names(Transformer())


def test_a_list_of_modules_is_never_called_itself() -> None:
    with pytest.raises(UsageError, match=r"never called.*Inside it: blocks\.0, "):
        names(Transformer(), "blocks")


def test_compiled_and_distributed_wrappers_leave_no_trace_in_names() -> None:
    model = Transformer()
    plain = list(modules_by_name(model))
    compiled = torch.compile(model, backend="eager")
    assert bare(compiled) is model
    assert list(modules_by_name(compiled)) == plain
    block = model.blocks[0]
    model.blocks[0] = torch.compile(block, backend="eager")
    assert list(modules_by_name(model)) == plain
    assert modules_by_name(model)["blocks.0"] is block


def test_data_parallel_is_refused() -> None:
    with pytest.raises(UsageError, match="use DistributedDataParallel"):
        bare(nn.DataParallel(nn.Linear(2, 2)))


@pytest.mark.parametrize(
    ("segments", "said"),
    [
        ([Segment("block.0")], "No module of the model is called 'block.0'"),
        ([Segment("blocks.0.1", "all", 0, 0)], "BatchNorm2d"),
        ([Segment("blocks", "all", 2, 4)], "the children are 0 to 3"),
        ([Segment("blocks", "all", 2, 1)], "the children are 0 to 3"),
        ([Segment("blocks", "all", -1, 1)], "the children are 0 to 3"),
        ([Segment("blocks", "all", 0, None)], "the children are 0 to 3"),
        ([Segment("blocks", "all", 0, 2), Segment("blocks", "all", 2, 3)], "overlap"),
        ([Segment("blocks"), Segment("blocks", "all", 2, 3)], "overlap"),
        ([Segment("blocks.0"), Segment("blocks.0", "cheap")], "overlap"),
    ],
)
def test_a_plan_that_does_not_fit_the_model_is_refused(segments: list[Segment], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        find(Conv(), CheckpointPlan(tuple(segments)))


def test_a_sequential_with_a_forward_of_its_own_has_no_runs() -> None:
    class Residual(nn.Sequential):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + super().forward(x)

    with pytest.raises(UsageError, match=r"plain nn\.Sequential"):
        find(Residual(nn.Linear(2, 2)), CheckpointPlan((Segment("", "all", 0, 0),)))
