from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from stepscope import CheckpointProfiler
from tests.unit.profilers.standin_door import Door, Watched


@pytest.fixture(autouse=True, scope="module")
def _collected() -> None:
    """A full collection takes long here, with all tests loaded: none should fall into a time that
    is measured. After this one, the next is far away."""
    gc.collect()


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Door:
    """In the place of torch's, which a test cannot tell what to do."""
    made = Door()
    module = SimpleNamespace(door=lambda: made)
    monkeypatch.setitem(sys.modules, "stepscope.collect.checkpoints", module)
    return made


@pytest.fixture
def manager() -> Watched:
    return Watched()


@pytest.fixture
def engine() -> Watched:
    return Watched()


@pytest.fixture
def profiler(door: Door, manager: Watched, engine: Watched) -> Iterator[CheckpointProfiler]:
    """That is profiling."""
    with CheckpointProfiler(manager, engine) as made:
        made.start_profiling()
        yield made
