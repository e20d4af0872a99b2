"""Arguments of loaders and optimizers, in programs written in many ways."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from stepscope.tune.patch.constructors import FOREACH_POSITIONS, LOADER_POSITIONS
from tests.unit.tune.patch.cases_calls import CALLS
from tests.unit.tune.patch.cases_factories import FACTORIES
from tests.unit.tune.patch.cases_optimizers import BATCHES, OPTIMIZERS
from tests.unit.tune.patch.cases_texts import TEXTS
from tests.unit.tune.patch.programs import Case, check_case, standing_in


@pytest.mark.parametrize("case", [*CALLS, *FACTORIES, *TEXTS], ids=lambda case: case.name)
def test_a_loader_gets_its_settings_where_the_program_says_them(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


@pytest.mark.parametrize("case", BATCHES, ids=lambda case: case.name)
def test_a_batch_is_multiplied_whatever_says_its_size(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


@pytest.mark.parametrize("case", OPTIMIZERS, ids=lambda case: case.name)
def test_an_optimizer_gets_one_way_of_updating(case: Case, tmp_path: Path) -> None:
    check_case(case, tmp_path)


def _signature(what: Any) -> list[tuple[str, Any]]:
    return [(one.name, one.kind) for one in inspect.signature(what).parameters.values()]


def test_the_stand_in_takes_its_arguments_as_torch_does() -> None:
    import torch
    import torch.utils.checkpoint

    with standing_in() as standin:
        pass
    for path in (
        "utils.data.DataLoader.__init__",
        "optim.AdamW.__init__",
        "optim.RMSprop.__init__",
        "optim.Optimizer.zero_grad",
        "nn.Module.zero_grad",
        "utils.checkpoint.checkpoint",
    ):
        own, real = standin, torch
        for part in path.split("."):
            own, real = getattr(own, part), getattr(real, part)
        assert _signature(own) == _signature(real), path


def test_positions_are_those_of_torch() -> None:
    import torch

    def positions(kind: Any) -> dict[str, int]:
        known = [*inspect.signature(kind.__init__).parameters.values()][1:]
        return {
            one.name: place
            for place, one in enumerate(known)
            if one.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        }

    loader = positions(torch.utils.data.DataLoader)
    assert {key: loader[key] for key in LOADER_POSITIONS} == LOADER_POSITIONS
    optimizers = [
        kind
        for kind in vars(torch.optim).values()
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)
    ]
    found = {kind.__name__: positions(kind) for kind in optimizers}
    assert {n: p["foreach"] for n, p in found.items() if "foreach" in p} == FOREACH_POSITIONS
    assert not any("fused" in p for p in found.values())
