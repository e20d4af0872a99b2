"""Denormal numbers are flushed to zero."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from stepscope.collect.facts import flushes_denormals
from stepscope.tune.changes.denormals import Denormals
from tests.unit.tune.changes.host_support import installed, small_model, train


@pytest.fixture(autouse=True)
def _as_usual() -> Iterator[None]:
    torch.set_flush_denormal(False)
    yield
    torch.set_flush_denormal(False)


def test_they_are_flushed_until_it_is_undone() -> None:
    assert not flushes_denormals(torch)
    with installed(Denormals) as (_, heard):
        assert flushes_denormals(torch)
    assert not flushes_denormals(torch)
    assert heard.whats == ["torch.set_flush_denormal(True)"]


def test_losses_of_ordinary_size_stay() -> None:
    model = small_model()
    plain = train(model, torch.optim.SGD(model.parameters(), lr=0.1))
    with installed(Denormals) as (change, _):
        model = small_model()
        assert train(model, torch.optim.SGD(model.parameters(), lr=0.1), change) == plain


def test_a_program_that_has_it_on_keeps_it() -> None:
    torch.set_flush_denormal(True)
    with installed(Denormals) as (_, heard):
        pass
    assert flushes_denormals(torch)
    assert len(heard.no) == 1


def test_a_cpu_that_cannot_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "set_flush_denormal", lambda _: False)
    with installed(Denormals) as (_, heard):
        pass
    assert heard.done == []
    assert heard.no == ["this CPU cannot flush denormal numbers."]
