"""How many threads."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from stepscope.tune.changes.threads import Threads
from tests.unit.tune.changes.host_support import installed, small_model, train


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    had = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(had)


def ask_for(number: int) -> None:
    torch.set_num_threads(number)


def test_torch_has_so_many_from_the_start() -> None:
    with installed(Threads, torch=1) as (_, heard):
        assert torch.get_num_threads() == 1
        assert os.environ["OMP_NUM_THREADS"] == os.environ["MKL_NUM_THREADS"] == "1"
    assert heard.done == [("torch.set_num_threads(1)", None)]
    assert torch.get_num_threads() == 2


def test_more_are_not_given_and_fewer_are() -> None:
    with installed(Threads, torch=2) as (_, heard):
        ask_for(7)
        assert torch.get_num_threads() == 2
        ask_for(1)
        assert torch.get_num_threads() == 1
    assert heard.whats == ["torch.set_num_threads(2)"]
    assert heard.functions == ["ask_for"]


def test_losses_stay() -> None:
    model = small_model()
    plain = train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with installed(Threads, torch=1):
        model = small_model()
        assert train(model, torch.optim.SGD(model.parameters(), lr=0.1)) == pytest.approx(plain)


def test_workers_have_a_limit_of_their_own() -> None:
    from torch.utils.data._utils import worker

    with installed(Threads, torch=2, workers=1) as (_, heard):
        worker._worker_info = worker.WorkerInfo(id=0, num_workers=1, seed=0, dataset=None)
        try:
            ask_for(2)
            assert torch.get_num_threads() == 1
        finally:
            worker._worker_info = None
    assert heard.done == []


def test_interop_threads_that_torch_has_already_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def used(number: int) -> None:
        raise RuntimeError("cannot set number of interop threads")

    monkeypatch.setattr(torch, "set_num_interop_threads", used)
    with installed(Threads, torch=2, interop=1) as (_, heard):
        pass
    assert len(heard.no) == 1


def test_errors_of_the_program_pass_and_all_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = torch.set_num_threads
    with installed(Threads, torch=1):
        with pytest.raises(RuntimeError):
            torch.set_num_threads(0)
        with pytest.raises((RuntimeError, TypeError)):
            torch.set_num_threads("two")
    assert torch.set_num_threads is before
    assert os.environ["OMP_NUM_THREADS"] == "3"
    assert "MKL_NUM_THREADS" not in os.environ
