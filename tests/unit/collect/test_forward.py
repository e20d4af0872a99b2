from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from stepscope.collect.forward import ForwardCollector
from stepscope.collect.loader import LoaderCollector
from stepscope.model import names
from stepscope.model.event import Flag
from tests.unit.collect.conftest import Read, Started


class Doubles(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2


def test_only_the_outermost_module_is_a_span(started: Started, read: Read) -> None:
    started(ForwardCollector())
    model = Doubles()

    model(torch.ones(1, 2))
    with torch.no_grad():
        model(torch.ones(1, 2))

    spans = [(row.name, row.arg, row.value, row.flags) for row in read()]
    assert spans == [("forward", id(model), 1.0, 0), ("forward", id(model), 0.0, 0)]


def test_calls_without_gradients_tell_their_mode(started: Started, read: Read) -> None:
    started(ForwardCollector())
    model = Doubles()

    with torch.no_grad():
        model(torch.ones(1, 2))
        model.eval()
        model(torch.ones(1, 2))
    model(torch.ones(1, 2))

    kinds = [row.value for row in read(names.FORWARD)]
    assert kinds == [
        names.FORWARD_WITHOUT, names.FORWARD_IN_EVAL, names.FORWARD_WITH_GRADIENTS,
    ]  # fmt: skip


def test_data_that_comes_a_third_time_unchanged_is_known(started: Started, read: Read) -> None:
    started(ForwardCollector())
    model, held_out, buffer = Doubles(), torch.ones(1, 2), torch.ones(1, 2)

    with torch.no_grad():
        for _ in range(4):
            model(held_out)
            model(buffer.add_(1))  # the same tensor, with other values

    assert [row.value for row in read(names.FORWARD)[::2]] == [0.0, 0.0, -2.0, -2.0]
    assert [row.value for row in read(names.FORWARD)[1::2]] == [0.0] * 4


def test_memory_of_numpy_may_have_changed_unnoticed(started: Started, read: Read) -> None:
    observations = np.zeros(2, dtype=np.float32)  # an environment writes here
    given, model = torch.from_numpy(observations), nn.ReLU()
    started(ForwardCollector())

    with torch.no_grad():
        for _ in range(4):
            observations += 1
            model(given)

    assert [row.value for row in read()] == [names.FORWARD_WITHOUT] * 4


def test_inference_mode_is_without_gradients(started: Started, read: Read) -> None:
    started(ForwardCollector())
    model = Doubles().eval()

    with torch.inference_mode():
        model(torch.ones(1, 2))

    assert [row.value for row in read()] == [names.FORWARD_IN_EVAL]


def test_results_hooks_and_keywords_are_untouched(started: Started) -> None:
    class Keyed(nn.Module):
        def forward(self, x: int, *, y: int) -> tuple[int, int]:
            return x, y

    def hook(module: Any, args: Any, kwargs: Any, output: Any) -> Any:
        return (*output, kwargs["y"])

    model = Keyed()
    model.register_forward_hook(hook, with_kwargs=True)
    started(ForwardCollector())

    assert model(1, y=2) == (1, 2, 2)


class CallsItself(nn.Module):
    """Its `forward` is called by the program."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(torch.abs(x))


def test_a_forward_that_is_called_directly_is_a_span_once_it_was_noticed(
    started: Started, read: Read
) -> None:
    collector = started(ForwardCollector())
    model, forward = CallsItself(), CallsItself.forward

    for _ in range(3):
        assert model.forward(torch.ones(1)) == 1
    model(torch.ones(1))

    assert [row.arg for row in read()] == [id(model.inner)] + [id(model)] * 3
    with pytest.warns(DeprecationWarning, match="script"):
        torch.jit.script(model)  # finds the names that the method uses
    collector.stop()
    assert CallsItself.forward is forward


def test_every_class_that_one_function_makes_gets_its_spans(started: Started, read: Read) -> None:
    def make() -> nn.Module:
        class Made(CallsItself):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.inner(x)

        return Made()

    started(ForwardCollector())
    models = [make(), make()]

    for model in models:
        model.forward(torch.ones(1))  # notices
        model.forward(torch.ones(1))

    assert [row.arg for row in read()][1::2] == [id(model) for model in models]


def test_a_forward_of_something_else_is_left_alone(started: Started, read: Read) -> None:
    inner = nn.ReLU()

    class Trainer:
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return inner(x)

    def forward() -> torch.Tensor:
        return inner(torch.ones(1))

    started(ForwardCollector())

    with torch.no_grad():
        for _ in range(2):
            Trainer().forward(torch.ones(1))
            forward()

    assert [row.arg for row in read()] == [id(inner)] * 4  # no failure, no span of theirs


def test_a_class_that_is_pickled_by_value_loads_without_stepscope(
    started: Started, tmp_path: Path
) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")

    class Local(CallsItself):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.inner(x)

    started(ForwardCollector())
    with torch.no_grad():
        for _ in range(2):
            Local().forward(torch.ones(1))

    saved = tmp_path / "class.pkl"
    saved.write_bytes(cloudpickle.dumps(Local.forward))
    program = (
        "import sys, pickle, torch; sys.modules['stepscope'] = None;"
        "forward = pickle.load(open(sys.argv[1], 'rb'));"
        "print(forward(type('M', (), {'inner': torch.nn.ReLU()})(), torch.ones(1)).item())"
    )
    run = [sys.executable, "-c", program, str(saved)]
    assert subprocess.check_output(run, text=True, timeout=60) == "1.0\n"


def test_an_exception_in_a_direct_forward_has_no_frames_of_ours(
    started: Started, read: Read
) -> None:
    class FailsLate(CallsItself):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 1 / self.inner(x).item()

    started(ForwardCollector())
    model = FailsLate()
    model.forward(torch.ones(1))

    with pytest.raises(ZeroDivisionError) as raised:
        model.forward(torch.zeros(1))

    assert [entry.name for entry in raised.traceback][1:] == ["forward"]
    assert [row.flags for row in read()] == [0, Flag.FAILED]


def test_an_exception_in_forward_passes_and_marks_the_span(started: Started, read: Read) -> None:
    class Fails(nn.Module):
        def forward(self) -> None:
            raise KeyError("mine")

    started(ForwardCollector())

    with pytest.raises(KeyError, match="mine"):
        Fails()()

    assert [row.flags for row in read()] == [Flag.FAILED]


def test_modules_inside_a_dataset_are_part_of_loading(started: Started, read: Read) -> None:
    flatten = nn.Flatten()

    class Transformed(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, index: int) -> torch.Tensor:
            return flatten(torch.ones(1, 2, 2))

    started(ForwardCollector())
    started(LoaderCollector())

    for batch in torch.utils.data.DataLoader(Transformed()):
        nn.Identity()(batch)

    assert len(read(names.FORWARD)) == 2


def test_stop_gives_torch_its_own_call_back(started: Started) -> None:
    before = nn.Module.__call__
    collector = started(ForwardCollector())
    collector.start(None)  # a second start does nothing
    assert nn.Module.__call__ is not before

    collector.stop()

    assert nn.Module.__call__ is before
    assert "__call__" in vars(nn.Module)
