"""Copies that nobody waits for, at the interface of the call: there is no accelerator here."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from stepscope.tune.changes.non_blocking import NonBlocking
from tests.unit.tune.changes.host_support import installed


class WithDevice(NonBlocking):
    """As on a machine with a GPU; copies to it are only noted."""

    calls: list[tuple[tuple[Any, ...], dict[str, Any]]]

    def install(self) -> None:
        self.calls = []
        self.patches.put(torch.Tensor, "to", self._note)
        self.patches.put(torch.Tensor, "cuda", self._note)
        super().install()

    def _note(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return tensor

    def accelerator(self) -> str | None:
        return "cuda"


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    """A tensor that says so."""
    tensor = torch.ones(2)
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda one: one is tensor)
    return tensor


def test_a_machine_without_accelerators_refuses() -> None:
    before = torch.Tensor.to
    with installed(NonBlocking) as (_, heard):
        assert torch.Tensor.to is before
    assert heard.no == ["there is no accelerator to copy to."]
    assert heard.done == []


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (("cuda",), {}),
        (("cuda:0",), {}),
        ((0,), {}),
        ((torch.device("cuda"),), {}),
        ((), {"device": "cuda"}),
    ],
)
def test_pinned_tensors_go_to_the_device_unawaited(
    pinned: torch.Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    with installed(WithDevice) as (change, heard):
        pinned.to(*args, **kwargs)
        pinned.cuda()
    assert [call[1].get("non_blocking") for call in change.calls] == [True, True]
    assert heard.whats == ["to(…, non_blocking=True)", "cuda(non_blocking=True)"]


def test_others_stay_as_the_program_has_them(pinned: torch.Tensor) -> None:
    with installed(WithDevice) as (change, heard):
        torch.zeros(1).to("cuda")  # not pinned
        pinned.to("cpu")
        pinned.to(torch.float64)
        pinned.to("cuda", non_blocking=False)
        pinned.to("cuda", torch.float32, False)
    assert [call[1].get("non_blocking") for call in change.calls] == [None, None, None, False, None]
    assert heard.done == []


def test_undo_puts_back() -> None:
    before = torch.Tensor.to, torch.Tensor.cuda
    with installed(WithDevice):
        assert torch.Tensor.to is not before[0]
    assert (torch.Tensor.to, torch.Tensor.cuda) == before
