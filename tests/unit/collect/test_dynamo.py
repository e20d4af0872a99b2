"""torch.compile finds the same graphs with and without us."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import nn

from stepscope.collect.forward import ForwardCollector
from stepscope.collect.torch_hooks import TorchHooks
from stepscope.collect.transfer import TransferCollector
from stepscope.model import names
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Read, Started
from tests.unit.collect.sampling import Sampled

pytestmark = pytest.mark.filterwarnings("ignore")  # torch.compile warns of itself
BACKEND = "aot_eager"


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)).to(torch.float32)


class Net(nn.Module):
    def __init__(self, hooks: bool = False, broken: bool = False) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(3))
        self.broken = broken
        if hooks:
            self.register_forward_hook(lambda module, args, output: output + 0)
            self.blocks[1].register_forward_hook(lambda module, args, output: output * 1)
            self.blocks[2].register_forward_pre_hook(lambda module, args: None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for number, block in enumerate(self.blocks):
            x = block(x)
            if self.broken and number == 1:
                torch._dynamo.graph_break()
        return x


def compiled_module() -> None:
    model = torch.compile(Net(), backend=BACKEND)
    for rows in (2, 2, 3):
        model(torch.ones(rows, 4)).sum().backward()


def compiled_module_with_hooks() -> None:
    model = torch.compile(Net(hooks=True), backend=BACKEND)
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()


def compiled_module_with_a_break() -> None:
    model = torch.compile(Net(hooks=True, broken=True), backend=BACKEND)
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()


def module_compiled_in_place() -> None:
    model = Net(hooks=True)
    model.compile(backend=BACKEND)
    for _ in range(2):
        model(torch.ones(2, 4)).sum().backward()


def compiled_function_that_calls_modules() -> None:
    plain, hooked = Net(), Net(hooks=True)

    @torch.compile(backend=BACKEND, fullgraph=True)
    def function(x: torch.Tensor) -> torch.Tensor:
        return plain(x) + hooked(x).to("cpu").cpu()

    for _ in range(2):
        function(torch.ones(2, 4)).sum().backward()


def compiled_training_step() -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())

    def step(x: torch.Tensor) -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    step(torch.ones(2, 4))
    compiled = torch.compile(step, backend="eager")
    for _ in range(2):
        compiled(torch.ones(2, 4))


def trained_with_a_compiled_part() -> None:
    compiled = torch.compile(Net(broken=True), backend=BACKEND)
    model = nn.Sequential(Block(), compiled, Block())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for rows in (2, 2, 2, 2, 3, 3):
        optimizer.zero_grad()
        model(torch.ones(rows, 4)).sum().backward()
        optimizer.step()


def trained_with_a_compiled_model() -> None:
    for model in (torch.compile(Net(hooks=True, broken=True), backend=BACKEND), Net()):
        if isinstance(model, Net):
            model.compile(backend=BACKEND)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(6):
            optimizer.zero_grad()
            model(torch.ones(2, 4)).sum().backward()
            optimizer.step()


def counted(program: Callable[[], None]) -> dict[str, Any]:
    torch._dynamo.reset()
    counters = torch._dynamo.utils.counters
    counters.clear()
    program()
    return {
        "frames": dict(counters["frames"]),
        "graphs": counters["stats"]["unique_graphs"],
        "captured": counters["stats"]["calls_captured"],
        "breaks": sum(counters["graph_break"].values()),
        "recompiles": sum(counters["recompiles"].values()),
    }


@pytest.mark.parametrize(
    "program",
    [
        compiled_module,
        compiled_module_with_hooks,
        compiled_module_with_a_break,
        module_compiled_in_place,
        compiled_function_that_calls_modules,
        compiled_training_step,
    ],
)
def test_graphs_and_breaks_are_those_of_the_bare_program(
    program: Callable[[], None], started: Started, read: Read
) -> None:
    bare = counted(program)
    started(TorchHooks())
    started(TransferCollector(force=True))

    assert counted(program) == bare
    assert read(names.BACKWARD)


@pytest.mark.parametrize(
    "program",
    [
        compiled_training_step,
        trained_with_a_compiled_part,
        trained_with_a_compiled_model,
    ],
)
def test_the_same_when_steps_are_sampled(
    program: Callable[[], None], started: Started, recorder: Recorder, read: Read
) -> None:
    bare = counted(program)
    started(Sampled())

    assert counted(program) == bare
    assert recorder.failures == {}
    assert program is compiled_training_step or read(names.LAYER_FORWARD)


def test_a_compiled_model_is_one_forward_span(started: Started, read: Read) -> None:
    started(ForwardCollector())
    model = torch.compile(Net(), backend="eager")

    model(torch.ones(2, 4))
    model(torch.ones(2, 4))

    assert [row.arg for row in read(names.FORWARD)] == [id(model), id(model)]
