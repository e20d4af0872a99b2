"""What tune tries for each kind of finding."""

from __future__ import annotations

import pytest

from stepscope.advise.changes import asked_for, changes_for
from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS
from stepscope.tune.changes import NAMES

LOADER = {
    "step_ms": 400.0,
    "input_ms": 300.0,
    "batches_per_step": 1.0,
    "workers": 0.0,
    "cpu_count": 4.0,
    "program_cpu_cores": 1.0,
    "worker_cpu_ms": 300.0,
    "sample_p50_ms": 9.0,
    "passes": 3.0,
}


def found(kind: str, share: float = 0.5, **measures: float) -> Finding:
    return Finding(kind, "title", share, 0.5, 0.9, measures=measures)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_change_that_is_proposed_is_in_the_catalogue(kind: str) -> None:
    for change in changes_for(found(kind, **LOADER)):
        assert change.name in NAMES
        assert change.title


def test_every_change_of_the_catalogue_can_be_asked_for_but_a_plan() -> None:
    assert [name for name in NAMES if asked_for(name, 4) is None] == ["plan"]


def test_computation_alone_is_left_alone() -> None:
    assert changes_for(found("compute")) == ()


def test_the_most_promising_comes_first_and_the_unknown_last() -> None:
    predicted = [one.predicted for one in changes_for(found("input-cpu", 0.75, **LOADER))]
    known = [one for one in predicted if one is not None]
    assert known == sorted(known, reverse=True)
    assert predicted[: len(known)] == known


def test_a_cache_is_expected_to_save_all_passes_but_the_first() -> None:
    changes = changes_for(found("input-cpu", 0.6, **LOADER))
    cache = next(one for one in changes if one.name == "cache")
    assert cache.expected_speedup is not None
    assert cache.expected_speedup[1] == pytest.approx(1 / (1 - 0.4 - 0.04))


def test_indexing_a_batch_at_once_saves_the_whole_wait_whatever_finding_asks() -> None:
    short = LOADER | {"sample_p50_ms": 0.01}
    for kind, share in (("input-cpu", 0.4), ("input-collate", 0.3)):
        changes = changes_for(found(kind, share, **short))
        batched = next(one for one in changes if one.name == "batched")
        assert batched.expected_speedup is not None
        assert batched.expected_speedup[1] == pytest.approx(1 / (1 - 0.75 * 0.95))


def test_nothing_is_cached_that_is_used_once() -> None:
    once = LOADER | {"passes": 1.0}
    assert all(one.name != "cache" for one in changes_for(found("input-cpu", 0.6, **once)))


def test_an_iterable_dataset_gets_workers_only_where_that_is_allowed() -> None:
    changes = changes_for(found("input-cpu", 0.75, **LOADER, iterable=1.0))
    assert {one.name for one in changes} == {"loader"}
    assert {one.alters for one in changes} == {"sharding"}


def test_workers_that_stay_save_all_starts_but_the_first() -> None:
    changes = changes_for(found("input-worker-startup", 0.4, iterations=8.0))
    kept = next(one for one in changes if one.settings == {"persistent_workers": True})
    assert kept.predicted == pytest.approx((1 - 0.4 / 8) / (1 - 0.4))


def test_checkpoints_that_memory_asks_for_stay() -> None:
    needed = found("recompute", 0.3, removable_ms=0.0, recompute_ms=10.0)
    useless = found("recompute", 0.3, removable_ms=10.0, recompute_ms=10.0)
    assert changes_for(needed) == ()
    assert [one.name for one in changes_for(useless)] == ["recompute"]


def test_lower_precision_has_to_be_allowed() -> None:
    assert {one.alters for one in changes_for(found("precision", 0.5, ratio=0.5))} == {"precision"}


def test_an_optimizer_that_is_fused_already_is_not_changed() -> None:
    assert changes_for(found("optimizer", 0.3, one_by_one=0.0)) == ()
    fused = changes_for(found("optimizer", 0.5, one_by_one=1.0, fused_ratio=0.2))[0]
    assert fused.settings == {"fused": True}
    assert fused.expected_speedup == pytest.approx((1 / 0.64, 1 / 0.56))


def test_a_loop_that_is_blocked_may_wait_for_the_disk_and_one_that_computes_does_not() -> None:
    blocked = changes_for(found("python-in-loop", 0.6, busy_share=0.1))
    assert [(one.name, one.predicted) for one in blocked] == [("logging", None)]
    assert changes_for(found("python-in-loop", 0.6, busy_share=0.9)) == ()
    assert changes_for(found("python-in-loop", 0.6)) == ()
