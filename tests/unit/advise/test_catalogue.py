from __future__ import annotations

import pytest

from stepscope.advise.catalogue import advise, recommend
from stepscope.model.finding import Finding
from stepscope.model.kinds import KINDS

NO_WORKERS = {
    "step_ms": 400.0, "input_ms": 300.0, "batches_per_step": 1.0, "ranks": 1.0, "workers": 0.0,
    "busy_share": 1.0, "cpu_count": 4.0, "program_cpu_cores": 1.0,
}  # fmt: skip


def found(kind: str, share: float = 0.5, **measures: float) -> Finding:
    return Finding(kind, "title", share, 0.5, 0.9, measures=measures)


def test_loader_workers_are_advised_with_their_number_and_the_gain_of_the_model() -> None:
    advice = recommend(found("input-cpu", 0.75, **NO_WORKERS))
    assert advice is not None
    # 0.3 s of CPU a batch, 0.1 s of work: three workers keep up with the training thread.
    assert advice.action == "DataLoader(..., num_workers=3, persistent_workers=True)"
    assert advice.expected_speedup is not None
    low, high = advice.expected_speedup
    assert high == pytest.approx(4.0)
    assert low == pytest.approx(0.4 / 0.1041 / 1.3)  # 4.1 ms to receive, 30 % of doubt
    assert advice.automatic


def test_a_gain_is_not_known_where_its_range_would_be_wide() -> None:
    measured = {name: value for name, value in NO_WORKERS.items() if name != "program_cpu_cores"}
    advice = recommend(found("input-cpu", 0.75, **measured))
    assert advice is not None
    assert "num_workers=3" in advice.action
    # 4.0 at best; 1.74, should the model keep all four CPUs busy: 0.7082 s of CPU a batch.
    assert advice.expected_speedup is None


def test_workers_that_may_lose_are_not_advised() -> None:
    # 8 ms to make a batch and 12 to use it: 1.67 at best. With 4.1 ms to receive it 1.24, which is
    # less than the doubt of 30 %.
    short = NO_WORKERS | {"step_ms": 20.0, "input_ms": 8.0}
    advice = recommend(found("input-cpu", 8 / 20, **short))
    assert advice is not None
    assert "num_workers" not in advice.action
    assert advice.expected_speedup is None


def test_on_few_cpus_the_gain_is_what_the_cpus_allow() -> None:
    advice = recommend(found("input-cpu", 0.75, **(NO_WORKERS | {"cpu_count": 2.0})))
    assert advice is not None
    assert advice.action == "DataLoader(..., num_workers=2, persistent_workers=True)"
    assert advice.expected_speedup is not None
    assert advice.expected_speedup[1] == pytest.approx(2.0)  # 0.4 s of CPU a batch on two CPUs


def test_blocked_loading_takes_more_workers_than_cpus() -> None:
    measures = NO_WORKERS | {"busy_share": 0.0, "cpu_count": 1.0, "program_cpu_cores": 0.25}
    advice = recommend(found("input-io", 0.75, **measures))
    assert advice is not None
    assert advice.action == "DataLoader(..., num_workers=3, persistent_workers=True)"


def test_an_iterable_dataset_is_not_changed_without_asking() -> None:
    advice = recommend(found("input-cpu", 0.75, **NO_WORKERS, iterable=1.0))
    assert advice is not None
    assert not advice.automatic
    assert "iterable" in advice.risk


def test_where_more_workers_do_not_help_batches_must_get_cheaper() -> None:
    busy = NO_WORKERS | {"workers": 2.0, "cpu_count": 2.0, "children_cpu_cores": 1.9}
    advice = recommend(found("input-cpu", 0.5, **busy))
    assert advice is not None
    assert "cheaper" in advice.title
    assert advice.expected_speedup is None  # how much cheaper, nobody measured


def test_batches_that_are_quicker_made_than_sent_are_not_given_to_workers() -> None:
    tiny = NO_WORKERS | {"step_ms": 0.4, "input_ms": 0.3}
    advice = recommend(found("input-cpu", 0.75, **tiny))
    assert advice is not None
    assert "cheaper" in advice.title


def test_without_measures_no_gain_is_claimed() -> None:
    advice = recommend(found("input-cpu"))
    assert advice is not None
    assert advice.expected_speedup is None


def test_persistent_workers_save_all_starts_but_the_first() -> None:
    advice = recommend(found("input-worker-startup", 0.5, iterations=5.0))
    assert advice is not None
    assert advice.action == "DataLoader(..., persistent_workers=True)"
    # Four of five starts are 0.4 of the time, all of them half of it; a tenth of that is in doubt.
    assert advice.expected_speedup == pytest.approx((1 / 0.64, 1 / 0.45))


def test_evaluating_half_as_often_gains_half_of_its_share_at_least() -> None:
    advice = recommend(found("validation", 0.5))
    assert advice is not None
    assert advice.expected_speedup == pytest.approx((1 / 0.775, 1 / 0.45))


def test_nothing_is_promised_for_computation() -> None:
    advice = recommend(found("compute", 0.98))
    assert advice is not None
    assert advice.expected_speedup is None


@pytest.mark.parametrize("share", [0.06, 0.5, 0.97])
@pytest.mark.parametrize("kind", [one.name for one in KINDS.values() if one.phases])
def test_no_advice_may_lose_or_promises_more_than_amdahl(kind: str, share: float) -> None:
    (advised,) = advise([found(kind, share, **NO_WORKERS, iterations=3.0)])
    advice = advised.recommendation
    if advice is not None and advice.expected_speedup is not None:
        low, high = advice.expected_speedup
        assert 1.0 <= low <= high <= 2 * low
        if "num_workers" not in advice.action:  # these save other parts of the wait, too
            assert advised.max_speedup is not None
            assert high <= advised.max_speedup + 1e-9


@pytest.mark.parametrize(
    "kind",
    ["transfer", "python-in-loop", "gil", "oversubscription", "busy-machine", "host-overhead",
     "input-collate", "input-skew", "precision", "layout", "denormals", "recompute"],
)  # fmt: skip
def test_where_no_fix_was_measured_its_gain_is_not_known(kind: str) -> None:
    advice = recommend(found(kind, 0.5))
    assert advice is not None
    assert advice.expected_speedup is None


def test_a_share_of_everything_has_no_bound() -> None:
    advice = recommend(found("python-in-loop", 1.0))
    assert advice is not None
    assert advice.expected_speedup is None


def test_an_unknown_kind_gets_no_advice() -> None:
    assert recommend(found("straggler")) is None
