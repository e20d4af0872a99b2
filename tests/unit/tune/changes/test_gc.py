"""Scheduled collections."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
import torch

from stepscope.tune.changes.gc import GROWN_BYTES, PATIENCE, THRESHOLDS, WARM_STEPS, Gc
from tests.unit.tune.changes.host_support import installed, small_model, train


@pytest.fixture(autouse=True)
def collections(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Full collections; the real ones would take most of the time of these tests."""
    done: list[int] = []

    def collect(generation: int = 2) -> int:
        done.append(generation)
        return 5

    monkeypatch.setattr(gc, "collect", collect)
    gc.unfreeze()  # what tests before this one may have left
    gc.enable()
    thresholds = gc.get_threshold()
    yield done
    assert (gc.get_threshold(), gc.get_freeze_count()) == (thresholds, 0)


def step(change: Gc, times: int = 1) -> None:
    for _ in range(times):
        change.stepped(None)


def tidy() -> int:
    return gc.collect()


def test_once_the_loop_is_under_way_old_objects_are_frozen(collections: list[int]) -> None:
    with installed(Gc, every_steps=10) as (change, heard):
        step(change, WARM_STEPS - 1)
        assert collections == []
        step(change)
        assert collections == [2]
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == THRESHOLDS
    assert heard.whats == ["gc.freeze(), a collection every 10 steps"]


def test_a_program_that_has_just_collected_is_not_made_to_wait(collections: list[int]) -> None:
    with installed(Gc, every_steps=10) as (change, _):
        tidy()
        step(change, WARM_STEPS)
        assert collections == [2]
        assert gc.get_freeze_count() > 0


def test_explicit_collections_are_passed_over_until_one_is_due(collections: list[int]) -> None:
    with installed(Gc, every_steps=4) as (change, heard):
        assert tidy() == 5  # the loop has not begun
        step(change, WARM_STEPS)
        collections.clear()
        for _ in range(9):
            step(change)
            assert tidy() == 0
        assert len(collections) == 2
        assert gc.collect(0) == 5
        assert gc.collect(2) == 0
    assert "tidy" in heard.functions
    assert collections[-1] == 0
    assert gc.collect() == 5


def test_freezing_can_be_left_out() -> None:
    with installed(Gc, every_steps=4, freeze=False) as (change, _):
        frozen = gc.get_freeze_count()
        step(change, WARM_STEPS)
        assert gc.get_freeze_count() == frozen


def test_a_program_that_switched_the_collector_off_keeps_it_off() -> None:
    gc.disable()
    thresholds = gc.get_threshold()
    try:
        with installed(Gc, every_steps=4) as (change, _):
            step(change, WARM_STEPS + 9)
            assert not gc.isenabled()
            assert gc.get_threshold() == thresholds
    finally:
        gc.enable()


class Growing(Gc):
    """Memory grows by 300 MB a step, and garbage collected gives it back (where it does)."""

    gives_back = True

    def install(self) -> None:
        super().install()
        self.used = 1 << 30
        collect = self._collect

        def freeing(generation: int = 2) -> int:
            self.used = 1 << 30 if self.gives_back else self.used
            return collect(generation)

        self._collect = freeing

    def resident_bytes(self) -> int:
        return self.used

    def stepped(self, optimizer: object) -> None:
        self.used += GROWN_BYTES // 2
        super().stepped(optimizer)


def test_memory_that_garbage_fills_is_collected_at_once_and_in_the_end_left_to_python(
    collections: list[int],
) -> None:
    with installed(Growing, every_steps=1000) as (change, heard):
        step(change, WARM_STEPS)
        frozen = gc.get_freeze_count()
        step(change, 40)
        assert len(collections) == 1 + PATIENCE
        assert gc.get_freeze_count() < frozen
        assert gc.get_threshold() != THRESHOLDS
        assert tidy() == 5
    assert heard.no == ["memory grew from garbage: automatic collections are back."]


class Needing(Growing):
    gives_back = False


def test_memory_that_is_in_use_is_no_reason_to_collect_again_and_again(
    collections: list[int],
) -> None:
    with installed(Needing, every_steps=1000) as (change, heard):
        step(change, WARM_STEPS + 40)
        assert 1 < len(collections) < 20
    assert heard.no == []


class Timed(Gc):
    """A step takes a second, a collection 400 ms."""

    now = 0.0

    def clock(self) -> float:
        self.now += 0.4
        return self.now

    def stepped(self, optimizer: object) -> None:
        self.now += 1.0
        super().stepped(optimizer)


def test_collections_come_as_rarely_as_their_cost_asks_for() -> None:
    with installed(Timed) as (change, _):
        step(change, WARM_STEPS + 200)
        assert 70 <= change._every <= 90  # 0.4 s every 80 s: half a percent


def test_losses_stay() -> None:
    model = small_model()
    expected = train(model, torch.optim.SGD(model.parameters(), lr=0.1), steps=8)
    with installed(Gc, every_steps=2) as (change, _):
        model = small_model()
        found = train(model, torch.optim.SGD(model.parameters(), lr=0.1), change, steps=8)
    assert found == expected


def test_errors_of_the_program_pass() -> None:
    with installed(Gc) as (change, _):
        step(change, WARM_STEPS)
        with pytest.raises(TypeError):
            gc.collect("all", "of it")  # type: ignore[arg-type, call-arg]
