"""Tracebacks, warnings and stacks that a program prints are those of the bare program."""

from __future__ import annotations

import dataclasses
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset, IterableDataset

from stepscope.collect.chain import spanned
from stepscope.collect.imports import when_imported
from stepscope.collect.losses import LossCollector
from stepscope.collect.torch_hooks import TorchHooks
from stepscope.collect.transfer import TransferCollector
from stepscope.model import names
from stepscope.model.own_code import hide_own_frames, is_ours
from stepscope.record.recorder import Recorder
from tests.unit.collect.conftest import Started
from tests.unit.collect.sampling import Sampled


class Fails(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise ValueError("in forward")


class FailsBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        raise ValueError("in backward")


class Numbers(Dataset[int]):
    def __init__(self, transform: Callable[[int], int] = int) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return self.transform(index)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        yield 1
        raise KeyError("in a stream")


class Scale:
    def __call__(self, value: int) -> int:
        return 1 // (value - value)


def invert(value: int) -> int:
    return 1 // (value - value)


def collate(samples: list[int]) -> torch.Tensor:
    raise TypeError("in collate")


def in_forward() -> None:
    nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.ReLU(), Fails()))(torch.ones(1, 2))


def in_an_operator() -> None:
    nn.Linear(2, 2)(torch.ones(1, 3))


def in_backward() -> None:
    FailsBackward.apply(nn.Linear(2, 2)(torch.ones(1, 2))).sum().backward()


def in_a_hook_of_backward() -> None:
    def hook(gradient: torch.Tensor) -> None:
        raise ValueError("in a hook")

    output = nn.Linear(2, 2)(torch.ones(1, 2))
    output.register_hook(hook)
    output.sum().backward()


def in_a_closure() -> None:
    def closure() -> float:
        raise ValueError("in a closure")

    torch.optim.SGD([nn.Parameter(torch.ones(2))], lr=0.1).step(closure)


def in_a_sample() -> None:
    list(DataLoader(Numbers(invert)))


def in_a_transform() -> None:
    list(DataLoader(Numbers(Scale())))


def in_a_sample_of_a_worker() -> None:
    list(DataLoader(Numbers(invert), num_workers=1))


def in_a_transform_of_a_worker() -> None:
    list(DataLoader(Numbers(Scale()), num_workers=1))


def in_collate() -> None:
    list(DataLoader(Numbers(), collate_fn=collate))


def in_collate_of_a_worker() -> None:
    list(DataLoader(Numbers(), collate_fn=collate, num_workers=1))


def in_a_stream() -> None:
    list(DataLoader(Stream()))


def in_a_checkpoint() -> None:
    checkpoint(Fails(), torch.ones(1, 2, requires_grad=True), use_reentrant=False)


def in_a_reentrant_checkpoint() -> None:
    checkpoint(Fails(), torch.ones(1, 2, requires_grad=True), use_reentrant=True)


def in_save() -> None:
    torch.save(lambda: None, "/nowhere/at/all")


def in_transfer() -> None:
    torch.ones(2).to("no such device")


def interrupted() -> None:
    class Interrupted(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            signal.raise_signal(signal.SIGINT)
            return x

    nn.Sequential(Interrupted())(torch.ones(1, 2))


COMPUTE = [
    in_forward, in_an_operator, in_backward, in_a_hook_of_backward, in_a_closure, in_a_checkpoint,
    in_a_reentrant_checkpoint, interrupted,
]  # fmt: skip
OTHERS = [
    in_a_sample, in_a_transform, in_a_sample_of_a_worker, in_a_transform_of_a_worker, in_collate,
    in_collate_of_a_worker, in_a_stream, in_save, in_transfer,
]  # fmt: skip


def printed(program: Callable[[], None]) -> str:
    try:
        program()
    except BaseException:  # noqa: BLE001 - one of them is interrupted
        return traceback.format_exc()
    return ""


def trained(program: Callable[[], None]) -> str:
    """After two steps, of which the second is sampled."""
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
    return printed(program)


@pytest.mark.parametrize("program", COMPUTE + OTHERS)
def test_a_traceback_is_that_of_the_bare_program(
    program: Callable[[], None], started: Started, recorder: Recorder
) -> None:
    bare = printed(program)
    started(TorchHooks())
    started(TransferCollector(force=True))
    started(LossCollector())

    assert printed(program) == bare
    assert "Traceback" in bare
    assert recorder.failures == {}


@pytest.mark.parametrize("program", COMPUTE)
def test_the_same_in_a_sampled_step(
    program: Callable[[], None], started: Started, recorder: Recorder
) -> None:
    bare = trained(program)
    started(Sampled())

    assert trained(program) == bare
    assert recorder.failures == {}


@pytest.mark.parametrize("error", ["raise ValueError('in a module')", "import nothing_like_it"])
def test_the_traceback_of_an_import_that_fails_is_that_of_the_bare_program(
    error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "users_module.py").write_text(f"def f():\n    {error}\n\nf()\n")
    monkeypatch.syspath_prepend(tmp_path)

    def imports() -> None:
        import users_module  # type: ignore[import-not-found]  # noqa: F401

    bare = printed(imports)
    when_imported("users_module", lambda module: None)

    assert printed(imports) == bare


def test_an_exception_that_refuses_attributes_passes_unchanged(recorder: Recorder) -> None:
    @dataclasses.dataclass(frozen=True)
    class FrozenError(Exception):
        code: int

    def fails() -> None:
        raise FrozenError(3)

    with pytest.raises(FrozenError) as caught:
        spanned(recorder, names.SAVE, fails)()

    assert caught.value.code == 3
    assert [frame.name for frame in caught.traceback][1:] == ["fails"]


def test_hidden_frames_lead_to_those_of_the_program() -> None:
    def fails() -> None:
        raise ValueError

    def here() -> None:
        try:
            fails()
        except ValueError:
            hide_own_frames()
            raise

    with pytest.raises(ValueError) as caught:
        here()

    assert [frame.name for frame in caught.traceback][1:] == ["here", "fails"]  # none is ours


def test_frames_of_wrappers_on_the_stack_look_like_those_of_the_originals(
    started: Started,
) -> None:
    seen: list[list[str]] = []

    class Looks(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            stack = traceback.extract_stack()
            seen.append([f"{one.filename}:{one.lineno} {one.name}" for one in stack])
            return x

    model = nn.Sequential(nn.Sequential(Looks()))
    for hooks in (None, TorchHooks()):
        if hooks is not None:
            started(hooks)
        model(torch.ones(1))

    bare, ours = seen
    outermost = next(place for place, one in enumerate(bare) if one.endswith("_wrapped_call_impl"))
    assert ours.pop(outermost) == bare[outermost]  # in front of the original, and like it
    assert ours == bare


def test_a_wrapper_of_a_function_in_c_names_a_file_that_exists(started: Started) -> None:
    started(TransferCollector(force=True))
    code = torch.Tensor.to.__code__

    assert (code.co_name, Path(code.co_filename).exists()) == ("to", True)
    assert {line for _, _, line in code.co_lines()} == {0}
    assert is_ours(code.co_filename, code.co_qualname)


def test_code_of_the_program_is_not_ours() -> None:
    code = sys._getframe().f_code

    assert not is_ours(code.co_filename, code.co_qualname)
