from __future__ import annotations

import pytest

from stepscope.advise.catalogue import recommend
from stepscope.model.finding import Finding, Location, Recommendation
from stepscope.model.kinds import KINDS

# One worker, 300 ms of CPU a batch; 100 ms of training on one of four CPUs.
LOOKED_INTO = {
    "step_ms": 300.0, "input_ms": 200.0, "batches_per_step": 1.0, "workers": 1.0,
    "cpu_count": 4.0, "program_cpu_cores": 1 / 3, "worker_cpu_ms": 300.0, "worker_blocked_ms": 0.0,
    "serialise_ms": 0.0, "unpickle_ms": 0.0,
}  # fmt: skip
WITHOUT_RANKS = [
    kind.name for kind in KINDS.values() if kind.group != "memory" and kind.name not in
    ("communication", "straggler")
]  # fmt: skip


def advice(kind: str, share: float = 0.5, /, **measures: float) -> Recommendation:
    return advice_at(Location(), kind, share, **measures)


def advice_at(place: Location, kind: str, share: float, /, **measures: float) -> Recommendation:
    found = recommend(Finding(kind, "title", share, 0.5, 0.9, location=place, measures=measures))
    assert found is not None
    return found


def gain(found: Recommendation) -> tuple[float, float]:
    assert found.expected_speedup is not None
    return found.expected_speedup


@pytest.mark.parametrize("kind", WITHOUT_RANKS)
def test_every_kind_has_advice_that_promises_no_more_than_its_share(kind: str) -> None:
    found = advice(kind)
    assert found.title
    assert found.action
    assert found.automatic == any(not one.alters for one in found.changes)
    if found.expected_speedup is not None:
        low, high = found.expected_speedup
        assert 1.0 <= low <= high <= 1 / 0.45 + 1e-9  # half of the time, and a tenth of doubt


def test_workers_come_from_playing_the_measured_loader() -> None:
    found = advice("input-cpu", 2 / 3, **LOOKED_INTO)
    assert found.action == "DataLoader(..., num_workers=5, persistent_workers=True)"
    low, high = gain(found)
    assert high == pytest.approx(3.0, rel=0.02)
    assert low == pytest.approx(high / 1.1, rel=0.01)  # playing the present setting meets it


def test_batches_that_are_dearer_to_send_than_to_make_stay_in_the_process() -> None:
    sent = LOOKED_INTO | {"worker_cpu_ms": 10.0, "serialise_ms": 190.0, "unpickle_ms": 100.0}
    found = advice("input-ipc", 2 / 3, **sent)
    assert found.action == "DataLoader(..., num_workers=0)"
    assert gain(found)[1] > 2


def test_batches_that_must_be_sent_are_sent_smaller() -> None:
    both = LOOKED_INTO | {"serialise_ms": 30.0, "unpickle_ms": 30.0}
    assert "tensors" in advice("input-ipc", 0.2, **both).title


def test_a_tail_is_let_pass_where_workers_hold_each_other_up() -> None:
    tail = LOOKED_INTO | {
        "workers": 4.0, "step_ms": 150.0, "input_ms": 50.0, "program_cpu_cores": 2 / 3,
        "worker_cpu_ms": 0.0, "worker_blocked_ms": 200.0,
        "tail_share": 0.5, "sample_p50_ms": 2.0, "sample_p99_ms": 1500.0,
    }  # fmt: skip
    found = advice("input-skew", 1 / 3, **tail)
    assert "in_order=False" in found.action
    assert gain(found)[1] > 1.03


def test_where_cheaper_batches_are_the_way_the_line_is_named() -> None:
    saturated = LOOKED_INTO | {"cpu_count": 1.0, "step_ms": 400.0, "input_ms": 300.0}
    found = advice_at(Location("aug.py", 41, "augment"), "input-cpu", 0.7, **saturated)
    assert "augment (aug.py:41)" in found.action


def test_values_of_the_program_are_in_the_action() -> None:
    assert "every 200 steps, not every 100" in advice("checkpoint-save", steps_per_save=100).action
    assert "set_num_threads(2)" in advice("oversubscription", cpu_count=4.0, ranks=2.0).action
    assert "pin_memory" not in advice("transfer", pin_memory=1.0).action
    assert "graph breaks" in advice("host-overhead", compiled=1.0).action
    assert "bfloat16" in advice("precision", bfloat16=1.0).action
    assert "float()" in advice("precision", float64_share=1.0).action
    assert "Accumulate" in advice("optimizer", one_by_one=0.0).action


def test_a_fused_optimizer_is_promised_what_it_was_measured_to_save() -> None:
    measured = advice("optimizer", 0.5, one_by_one=1.0, fused_ratio=0.2)
    assert measured.expected_speedup == pytest.approx((1 / 0.64, 1 / 0.56))
    assert advice("optimizer", 0.5, one_by_one=1.0).expected_speedup is None


def test_flushing_denormals_is_advised_where_it_helps() -> None:
    helped = advice("denormals", 0.5, ratio=0.2, flush_ratio=0.2)
    useless = advice("denormals", 0.5, ratio=0.2, flush_ratio=1.0)
    assert "set_flush_denormal(True)" in helped.action
    assert useless.action.startswith("clamp")
    assert (
        helped.expected_speedup == useless.expected_speedup == pytest.approx((1 / 0.55, 1 / 0.45))
    )
