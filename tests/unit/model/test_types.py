from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from stepscope import BottleneckType, PerformanceMetrics


def test_it_reads_like_an_enumeration() -> None:
    assert BottleneckType("cpu_bound") is BottleneckType.CPU_BOUND
    assert BottleneckType["CPU_BOUND"] is BottleneckType.CPU_BOUND
    assert BottleneckType(BottleneckType.CPU_BOUND) is BottleneckType.CPU_BOUND
    assert (BottleneckType.CPU_BOUND.name, BottleneckType.CPU_BOUND.value) == (
        "CPU_BOUND",
        "cpu_bound",
    )
    assert next(iter(BottleneckType)) is BottleneckType.DATA_LOADING
    assert len(list(BottleneckType)) == len(BottleneckType) >= 9
    assert BottleneckType.CPU_BOUND in BottleneckType
    assert "cpu_bound" in BottleneckType
    assert "nonsense" not in BottleneckType
    assert isinstance(BottleneckType.CPU_BOUND, BottleneckType)


def test_what_is_not_known_is_refused_like_there() -> None:
    with pytest.raises(ValueError, match="'nonsense' is not a valid BottleneckType"):
        BottleneckType("nonsense")
    by_name: Any = BottleneckType
    with pytest.raises(KeyError):
        by_name["NONSENSE"]
    with pytest.raises(AttributeError, match="register"):
        _ = BottleneckType.NONSENSE
    with pytest.raises(AttributeError, match="cannot be changed"):
        BottleneckType.CPU_BOUND.value = "x"  # type: ignore[misc]


def test_a_user_adds_a_type_once() -> None:
    mine = BottleneckType.register("tokenising")
    assert BottleneckType.register("tokenising") is mine is BottleneckType.TOKENISING
    assert mine in list(BottleneckType)
    assert mine.is_custom
    assert not BottleneckType.CPU_BOUND.is_custom
    assert BottleneckType.register("cpu_bound") is BottleneckType.CPU_BOUND


@pytest.mark.parametrize("name", ["", "My Type", "Upper", "with-dash", 3, None, "value", "_x"])
def test_a_name_that_cannot_be_one_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match="bottleneck type"):
        BottleneckType.register(name)


def test_copies_are_the_same_object() -> None:
    mine = BottleneckType.register("augmenting")
    for one in (mine, BottleneckType.GPU_TRANSFER):
        assert copy.deepcopy(one) is one
        assert pickle.loads(pickle.dumps(one)) is one
        assert {one: 1}[one] == 1


def test_metrics_with_a_type_of_the_users_own_come_back() -> None:
    metrics = PerformanceMetrics(bottleneck_type=BottleneckType.register("decoding"))
    assert PerformanceMetrics.from_dict(metrics.to_dict()) == metrics
